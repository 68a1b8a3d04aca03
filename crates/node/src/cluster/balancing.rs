//! The active controller moves partitions that nobody has asked it to move, where a setting says so.
//!
//! It knows by the metadata who has joined and who is away. How full disks are and what replicas take it asks the brokers.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use logway_metadata::balance::{BalanceRules, Occasion, Occasions, Sizes, UnaskedMoves, moves_for};
use logway_metadata::controller::{BalanceUnasked, ControllerError};
use logway_metadata::settings::broker::{
    AUTO_BALANCE_DISK_DEFAULT, AUTO_BALANCE_DISK_SETTING, AUTO_BALANCE_GONE_DEFAULT,
    AUTO_BALANCE_GONE_SETTING, AUTO_BALANCE_SETTING,
};
use logway_model::{BrokerId, LeaderEpoch};
use logway_peers::{Kind, Lane};
use logway_quorum::QuorumError;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::controller::now_ms;
use super::holdings::Holdings;
use super::{has_sessions, node_address};
use crate::Node;
use crate::tasks::off_thread;

/// The controller looks so often for an occasion.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

/// Brokers are asked so often how full their disks are.
const DISKS_INTERVAL: Duration = Duration::from_secs(60);

/// A plan that could not be made or begun is tried again after so long.
const RETRY_AFTER: Duration = Duration::from_secs(10);

/// A broker tells within this time what it has.
const HOLDINGS_MAX: Duration = Duration::from_secs(10);

/// One commit has so many moves at most.
const MOVES_MAX: usize = 2_000;

/// What this node knows as the controller, in one epoch of the quorum.
struct Balancing {
    epoch: LeaderEpoch,
    occasions: Occasions,
    /// How full the fullest disk of each broker is, of 100.
    disks: BTreeMap<BrokerId, u8>,
    disks_due: Instant,
    plan_due: Instant,
}

/// What the brokers have, together.
#[derive(Default)]
struct AllHoldings {
    disks: BTreeMap<BrokerId, u8>,
    sizes: Sizes,
}

/// Looks for occasions for as long as the node exists, while it is the active controller.
pub(crate) async fn balance_unasked(node: Weak<Node>) {
    let mut balancing: Option<Balancing> = None;
    loop {
        sleep(LOOK_INTERVAL).await;
        let Some(node) = node.upgrade() else { return };
        let status = node.quorum.status();
        let controls = status.leader == Some(node.settings.node_id) && has_sessions(&node.image());
        if !controls || !node.changeable_setting(AUTO_BALANCE_SETTING).unwrap_or(false) {
            balancing = None;
            continue;
        }
        let known = balancing.take().filter(|known| known.epoch == status.epoch);
        let known = known.unwrap_or_else(|| Balancing::begin(&node, status.epoch));
        balancing = Some(known.look(&node).await);
    }
}

impl Balancing {
    fn begin(node: &Node, epoch: LeaderEpoch) -> Balancing {
        let occasions = Occasions::new(&node.image(), now_ms());
        let (disks_due, plan_due) = (Instant::now(), Instant::now());
        Balancing { epoch, occasions, disks: BTreeMap::new(), disks_due, plan_due }
    }

    async fn look(mut self, node: &Arc<Node>) -> Balancing {
        let rules = rules(node);
        self.occasions.follow(&node.image(), now_ms());
        if Instant::now() >= self.disks_due {
            self.disks_due = Instant::now() + DISKS_INTERVAL;
            // A disk that is full need not be heard of by a broker that does not answer.
            self.disks = node.holdings_of_all().await.0.disks;
            self.occasions.follow_disks(rules, &self.disks);
        }
        if Instant::now() < self.plan_due {
            return self;
        }
        let occasion = self.occasions.next(&node.image(), rules, &self.disks, now_ms());
        if let Some(occasion) = occasion {
            match node.move_for(occasion).await {
                Ok(()) => self.occasions.is_over(occasion),
                Err(error) => {
                    tracing::warn!(%occasion, %error, "the cluster is not balanced yet");
                    self.plan_due = Instant::now() + RETRY_AFTER;
                }
            }
        }
        self
    }
}

fn rules(node: &Node) -> BalanceRules {
    let gone_ms = node.changeable_setting(AUTO_BALANCE_GONE_SETTING);
    let disk_percent = node.changeable_setting(AUTO_BALANCE_DISK_SETTING);
    BalanceRules {
        gone_ms: gone_ms.unwrap_or(AUTO_BALANCE_GONE_DEFAULT),
        disk_percent: disk_percent.unwrap_or(AUTO_BALANCE_DISK_DEFAULT),
    }
}

/// Why nothing was moved.
#[derive(Debug, thiserror::Error)]
enum NotMoved {
    /// Without it the plan would be made of half the sizes.
    #[error("node {0} does not tell what it holds; is it of an older version?")]
    Silent(BrokerId),
    #[error(transparent)]
    Quorum(#[from] QuorumError),
}

impl Node {
    /// Makes the plan that an occasion is for, and begins it.
    async fn move_for(self: &Arc<Self>, occasion: Occasion) -> Result<(), NotMoved> {
        let (AllHoldings { sizes, .. }, silent) = self.holdings_of_all().await;
        if let Some(silent) = silent {
            return Err(NotMoved::Silent(silent));
        }
        let image = self.image();
        let planning = off_thread(move || moves_for(&image, occasion, &sizes));
        let UnaskedMoves { moves, bytes } = planning.await;
        if moves.is_empty() {
            tracing::info!(%occasion, "the cluster looked whether to balance itself: nothing is to be moved");
            return Ok(());
        }
        let mut outcomes = Vec::new();
        for part in moves.chunks(MOVES_MAX) {
            let command = BalanceUnasked { occasion, moves: part.to_vec(), bytes };
            outcomes.extend(self.quorum.submit_as_controller(command).await?.reply);
        }
        // Others have gone on, and what has changed meanwhile can stay as it is.
        for ControllerError { message, .. } in outcomes.into_iter().filter_map(Result::err) {
            tracing::info!(message, "a partition is not moved");
        }
        Ok(())
    }

    /// What the brokers that serve have, and one of them that does not tell, if there is any.
    async fn holdings_of_all(self: &Arc<Self>) -> (AllHoldings, Option<BrokerId>) {
        let image = self.image();
        let serving = image.brokers().map(|broker| broker.id).filter(|id| image.is_active(*id));
        let mut asked = JoinSet::new();
        for id in serving {
            let (node, address) = (Arc::clone(self), node_address(&image, id));
            asked.spawn(async move { (id, node.holdings_of(id, address).await) });
        }
        let (mut all, mut silent) = (AllHoldings::default(), None);
        for (id, holdings) in asked.join_all().await {
            let Some(Holdings { fullest_percent, replicas }) = holdings else {
                silent = Some(id);
                continue;
            };
            all.disks.insert(id, fullest_percent);
            for (topic, partition, bytes) in replicas {
                let known = all.sizes.entry((topic, partition)).or_default();
                *known = bytes.max(*known);
            }
        }
        (all, silent)
    }

    async fn holdings_of(&self, id: BrokerId, address: Option<String>) -> Option<Holdings> {
        if id == self.settings.node_id {
            return Some(self.holdings().await);
        }
        let carrier = &self.cluster.as_ref()?.carrier;
        let asked =
            carrier.request(&address?, Lane::Bulk, Kind::Holdings, Vec::new(), HOLDINGS_MAX);
        Holdings::decode(&asked.await.ok()?)
    }
}
