//! The active controller hears the brokers: who is silent is fenced, and who speaks gets what it wants.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use logway_metadata::controller::{BrokerLiveness, ElectLeaders};
use logway_metadata::record::{BrokerEpoch, BrokerState};
use logway_model::{BrokerId, LeaderEpoch};
use logway_quorum::MetadataIndex;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::heartbeat::Heartbeat;
use super::{Cluster, has_sessions, node_address};
use crate::Node;
use crate::tasks::steady_time;

/// The controller looks so often who was heard.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// In a cluster of one there is nobody to hear.
const ALONE_INTERVAL: Duration = Duration::from_secs(1);

/// A broker that has missed so many heartbeats may be dead: its machine is asked whether anybody listens there.
const LATE_HEARTBEATS: u32 = 2;

/// How long that question may take. A machine that lives answers within a round trip.
const PROBE_MAX: Duration = Duration::from_millis(100);

/// What the active controller knows of heartbeats, while this node is that.
#[derive(Default)]
pub(super) struct Controller {
    /// With the epoch in which this node leads the quorum.
    heard: Mutex<Option<(LeaderEpoch, BrokerLiveness)>>,
    /// A broker wants to be something else.
    has_news: Arc<Notify>,
}

impl Controller {
    fn heard(&self) -> MutexGuard<'_, Option<(LeaderEpoch, BrokerLiveness)>> {
        // What it guards is right after each step.
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a heartbeat, where it arrives. Says whether this node is the active controller.
    pub(super) fn hear(&self, heartbeat: Heartbeat) -> bool {
        let Heartbeat { broker, epoch, wanted } = heartbeat;
        let mut heard = self.heard();
        let Some((_, liveness)) = &mut *heard else { return false };
        if liveness.heartbeat(broker, epoch, wanted, now_ms()) {
            self.has_news.notify_one();
        }
        true
    }

    /// Takes over whether this node is the active controller now, and who belongs to the cluster.
    fn follow(&self, node: &Node) -> Role {
        let status = node.quorum.status();
        let mut heard = self.heard();
        if status.leader != Some(node.settings.node_id) {
            *heard = None;
            return Role::Other;
        }
        let image = node.image();
        match &mut *heard {
            Some((epoch, liveness)) if *epoch == status.epoch => {
                liveness.follow(&image, now_ms());
                Role::Active
            }
            heard => {
                let timeout = node.settings.cluster.session_timeout.as_millis();
                let timeout_ms = u64::try_from(timeout).unwrap_or(u64::MAX);
                let liveness = BrokerLiveness::new(&image, timeout_ms, now_ms());
                *heard = Some((status.epoch, liveness));
                Role::JustElected
            }
        }
    }

    /// Nothing is known of who was heard: everybody gets a whole session, as from one that was just elected.
    fn forget(&self) {
        *self.heard() = None;
    }

    /// A broker's process has ended.
    fn has_gone(&self, broker: BrokerId, epoch: BrokerEpoch) {
        if let Some((_, liveness)) = &mut *self.heard() {
            liveness.has_gone(broker, epoch);
            self.has_news.notify_one();
        }
    }
}

/// Whether this node is the active controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Other,
    Active,
    JustElected,
}

/// Looks after the brokers for as long as the node exists, while it is the active controller.
pub(crate) async fn look_after_brokers(node: Weak<Node>) {
    let mut balanced_at = Instant::now();
    let mut relieved_up_to = None;
    loop {
        let Some(strong) = node.upgrade() else { return };
        let Some(cluster) = &strong.cluster else { return };
        let is_cluster = has_sessions(&strong.image());
        let role = if is_cluster { cluster.controller.follow(&strong) } else { Role::Other };
        let late_after = match role {
            // The controller before it has ended, mostly, and was a broker too.
            Role::JustElected => Some(Duration::ZERO),
            Role::Active => Some(strong.settings.cluster.heartbeat_interval * LATE_HEARTBEATS),
            Role::Other => None,
        };
        if let Some(late_after) = late_after {
            probe_late_brokers(&strong, cluster, late_after);
            change_states(&strong, cluster).await;
            relieve_leaders(&strong, &mut relieved_up_to).await;
            let interval = strong.settings.cluster.imbalance_check_interval;
            if interval.is_some_and(|interval| balanced_at.elapsed() >= interval) {
                balanced_at = Instant::now();
                elect_preferred_leaders(&strong).await;
            }
        }
        let has_news = Arc::clone(&cluster.controller.has_news);
        drop(strong);
        let pause = if is_cluster { LOOK_INTERVAL } else { ALONE_INTERVAL };
        let asleep_at = Instant::now();
        _ = timeout(pause, has_news.notified()).await;
        let Some(strong) = node.upgrade() else { return };
        let Some(cluster) = &strong.cluster else { return };
        // A process that was stopped has heard nobody, and that is not their silence.
        if asleep_at.elapsed() > pause + strong.settings.cluster.session_timeout / 2 {
            cluster.controller.forget();
        }
    }
}

/// Commits what follows from who was heard. What cannot be committed now is tried at the next look.
async fn change_states(node: &Arc<Node>, cluster: &Cluster) {
    let due = match &*cluster.controller.heard() {
        Some((_, liveness)) => liveness.due(&node.image(), now_ms()),
        None => return,
    };
    for change in due {
        let (broker, state) = (change.id, change.state);
        // One that was paused may not know yet that another node leads, which has heard the brokers all the time.
        match node.quorum.submit_as_controller(change).await {
            Ok(_) => tracing::info!(%broker, ?state, "a broker of the cluster has changed"),
            // Who is cut off would say so at each look.
            Err(error) if error.is_retriable() => {
                tracing::debug!(%broker, ?state, %error, "a broker cannot change");
            }
            Err(error) => tracing::warn!(%broker, ?state, %error, "a broker cannot change"),
        }
    }
}

/// Gives partitions back to the first of their replicas, where that is in sync: after failures one broker would lead all.
async fn elect_preferred_leaders(node: &Arc<Node>) {
    let command = ElectLeaders::of_ready_preferred(&node.image());
    let count = command.partitions.len();
    if count == 0 {
        return;
    }
    match node.quorum.submit(command).await {
        Ok(_) => tracing::info!(count, "preferred leaders lead again"),
        Err(error) => tracing::warn!(%error, "preferred leaders cannot lead again yet"),
    }
}

/// Has others lead what brokers lead that are not there to lead. Looks once at each state of the metadata.
async fn relieve_leaders(node: &Arc<Node>, looked_up_to: &mut Option<MetadataIndex>) {
    let newest = node.quorum.indexed_image();
    if *looked_up_to == Some(newest.index) {
        return;
    }
    let command = ElectLeaders::of_relieved(&newest.image);
    let count = command.partitions.len();
    if count == 0 {
        *looked_up_to = Some(newest.index);
        return;
    }
    match node.quorum.submit(command).await {
        Ok(_) => tracing::info!(count, "others lead what nodes led that are to lead nothing"),
        Err(error) => tracing::warn!(%error, "nodes that are to lead nothing still do"),
    }
}

/// Asks the machines of brokers that are late whether anybody listens there. A process that was killed is known
/// to be dead long before its session is over.
fn probe_late_brokers(node: &Arc<Node>, cluster: &Cluster, late_after: Duration) {
    let late_ms = u64::try_from(late_after.as_millis()).unwrap_or(u64::MAX);
    let late = match &mut *cluster.controller.heard() {
        Some((_, liveness)) => liveness.take_late(now_ms(), late_ms),
        None => return,
    };
    let image = node.image();
    for (broker, epoch) in late {
        let is_active =
            image.broker_session(broker).map(|it| it.state) != Some(BrokerState::Fenced);
        let Some(address) = node_address(&image, broker).filter(|_| is_active) else { continue };
        let node = Arc::clone(node);
        tokio::spawn(async move {
            let Some(cluster) = &node.cluster else { return };
            if cluster.carrier.is_vacant(&address, PROBE_MAX).await {
                tracing::warn!(%broker, address, "nobody listens where a broker was: it has ended");
                cluster.controller.has_gone(broker, epoch);
            }
        });
    }
}

/// A clock that never goes back, by which is counted who was heard when.
pub(super) fn now_ms() -> u64 {
    u64::try_from(steady_time().as_millis()).unwrap_or(u64::MAX)
}
