//! This broker's life in its cluster: it starts, says that it lives, and leaves.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_core::future::BoxFuture;
use logway_metadata::controller::{SetBrokerState, StartBroker};
use logway_metadata::record::{BrokerEpoch, BrokerState};
use logway_peers::{Kind, Lane};
use logway_quorum::{Committed, MetadataIndex};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::heartbeat::Heartbeat;
use super::{Cluster, Mutation, has_sessions};
use crate::Node;
use crate::start::NodeError;

/// Between two attempts to tell the cluster that this broker has started.
const START_RETRY: Duration = Duration::from_millis(200);

/// A start that waits for the cluster says so this often.
const WAITING_LOG_INTERVAL: Duration = Duration::from_secs(10);

/// A heartbeat is answered within this time or never.
const HEARTBEAT_MAX: Duration = Duration::from_millis(150);

/// A clean stop waits so long for others to take over.
const LEAVE_MAX: Duration = Duration::from_secs(2);

/// A life that the cluster knows of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Life {
    epoch: BrokerEpoch,
    /// The metadata in which it has begun.
    begun_at: MetadataIndex,
}

/// Lives in the cluster for as long as the node exists, in the life that has begun or, where nobody needed one yet, as soon
/// as there is a cluster of several nodes.
pub(crate) async fn live(node: Weak<Node>, begun: Option<Life>) {
    let Some(Life { epoch, begun_at }) = begun_or_begin(&node, begun).await else { return };
    let Some(strong) = node.upgrade() else { return };
    // Only who serves what it holds says that it lives: then it may have to lead.
    if strong.reconciliation.reached(begun_at).await.is_err() {
        return;
    }
    let Some(cluster) = &strong.cluster else { return };
    cluster.session.send_replace(Some(epoch));
    drop(strong);
    let mut next = Instant::now();
    loop {
        let Some(strong) = node.upgrade() else { return };
        beat(&strong, epoch).await;
        next = (next + strong.settings.cluster.heartbeat_interval).max(Instant::now());
        drop(strong);
        sleep_until(next).await;
    }
}

async fn begun_or_begin(node: &Weak<Node>, begun: Option<Life>) -> Option<Life> {
    if begun.is_some() {
        return begun;
    }
    let mut images = node.upgrade()?.quorum.watch();
    while !has_sessions(&node.upgrade()?.image()) {
        images.changed().await.ok()?;
    }
    // It was alone until now, and serves.
    begin(node, true).await
}

/// Tells the cluster that this broker has started, until it knows; `None` if the node ends before.
async fn begin(node: &Weak<Node>, serves_already: bool) -> Option<Life> {
    let mut said_at: Option<Instant> = None;
    loop {
        let strong = node.upgrade()?;
        let cluster = strong.cluster.as_ref()?;
        let start = StartBroker {
            id: strong.settings.node_id,
            incarnation: cluster.incarnation,
            endpoint: cluster.endpoint(),
            listeners: cluster.listeners(),
            rack: strong.settings.cluster.rack.clone(),
            log_dirs: strong.log_dirs.online_ids(),
            serves_already,
            was_clean: strong.log_dirs.were_clean(),
        };
        match strong.quorum.submit(start).await {
            Ok(Committed { reply: epoch, index: begun_at }) => {
                tracing::info!(epoch = epoch.0, "the cluster knows that this broker has started");
                return Some(Life { epoch, begun_at });
            }
            Err(error) => {
                if said_at.is_none_or(|at| at.elapsed() >= WAITING_LOG_INTERVAL) {
                    said_at = Some(Instant::now());
                    tracing::warn!(
                        %error,
                        "the cluster cannot be told yet that this \
                        broker has started; it is told until it knows"
                    );
                }
            }
        }
        drop(strong);
        sleep(START_RETRY).await;
    }
}

/// Tells the active controller that this broker lives.
async fn beat(node: &Arc<Node>, epoch: BrokerEpoch) {
    let Some(cluster) = &node.cluster else { return };
    let (broker, wanted) = (node.settings.node_id, cluster.wanted());
    let heartbeat = Heartbeat { broker, epoch, wanted };
    match node.quorum.status().leader {
        Some(leader) if leader == broker => _ = cluster.controller.hear(heartbeat),
        Some(leader) => {
            let members = node.quorum.members();
            let Some(leader) = members.into_iter().find(|member| member.id == leader) else {
                return;
            };
            let (lane, kind) = (Lane::Control, Kind::Heartbeat);
            let sent = cluster.carrier.request(
                &leader.address,
                lane,
                kind,
                heartbeat.encode(),
                HEARTBEAT_MAX,
            );
            // One that is lost is followed by the next.
            if let Err(error) = sent.await {
                tracing::debug!(%error, leader = %leader.id, "a heartbeat is not answered");
            }
        }
        None => {}
    }
}

impl Cluster {
    /// Waits until this life has begun.
    async fn begun(&self) {
        let mut session = self.session.subscribe();
        // The sender is in `self`.
        _ = session.wait_for(Option::is_some).await;
    }
}

impl Node {
    /// Whether the cluster has several nodes, or had, so that this broker has a life that others know of.
    pub(crate) fn lives_in_cluster(&self) -> bool {
        self.cluster.is_some() && has_sessions(&self.image())
    }

    /// Whether this node does what it is there for, as far as it knows: a broker may lead, and a voter hears a leader of the
    /// quorum.
    pub fn is_active(&self) -> bool {
        match self.is_voter() {
            true => self.quorum.status().leader.is_some(),
            false => self.image().is_active(self.settings.node_id),
        }
    }

    /// Waits until this node knows all that was committed before it came back. What it holds is judged by that: logs that
    /// it does not know the topics of may be those of topics that it has yet to hear of.
    pub(crate) async fn catch_up(&self) -> Result<(), NodeError> {
        if self.cluster.is_none() || self.breaks(Mutation::JudgesTooEarly) {
            return Ok(());
        }
        let mut said_at: Option<Instant> = None;
        while let Err(error) = self.quorum.wait_until_current().await {
            self.quorum.check_running()?;
            if said_at.is_none_or(|at| at.elapsed() >= WAITING_LOG_INTERVAL) {
                said_at = Some(Instant::now());
                tracing::warn!(%error, "waiting for a majority of the cluster's voters");
            }
            sleep(START_RETRY).await;
        }
        Ok(())
    }

    /// Begins this broker's life, if there is a cluster of several nodes. To be done before any replica gets its role: what
    /// the broker led before it ended, it must not lead on in the same epoch. Its log may be shorter than it was,
    /// and followers would cut off what others have acknowledged.
    pub(crate) async fn begin_life(self: &Arc<Self>) -> Result<Option<Life>, NodeError> {
        if !self.lives_in_cluster() || self.is_voter() || self.breaks(Mutation::LeadsBeforeItsLife)
        {
            return Ok(None);
        }
        let before = self.quorum.indexed_image();
        let session = before.image.broker_session(self.settings.node_id);
        if let (true, Some(session)) = (self.breaks(Mutation::KeepsItsLife), session) {
            return Ok(Some(Life { epoch: session.epoch, begun_at: before.index }));
        }
        let weak = Arc::downgrade(self);
        tokio::select! {
            life = begin(&weak, false) => Ok(life),
            stopped = self.quorum_stopped() => Err(stopped),
        }
    }

    /// Waits until the quorum cannot go on; returns why.
    async fn quorum_stopped(&self) -> NodeError {
        loop {
            if let Err(error) = self.quorum.check_running() {
                return error.into();
            }
            sleep(START_RETRY).await;
        }
    }

    /// Waits until this broker may lead, if it belongs to a cluster of several nodes.
    pub(crate) async fn wait_until_active(&self) {
        let lives = self.lives_in_cluster() && !self.is_voter();
        let Some(cluster) = self.cluster.as_ref().filter(|_| lives) else {
            return;
        };
        cluster.begun().await;
        let mut images = self.quorum.watch();
        // Its sender is a part of the quorum.
        while !self.image().is_active(self.settings.node_id) && images.changed().await.is_ok() {}
    }

    /// Hands over what this broker leads, before a clean stop (KIP-841): so nobody has to notice that it is gone. A voter may
    /// lead the quorum.
    pub fn leave(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if self.is_voter() {
                self.quorum.hand_over().await;
                return;
            }
            let Some((cluster, epoch)) =
                self.cluster.as_ref().and_then(|cluster| Some((cluster, cluster.session()?)))
            else {
                return;
            };
            let (id, state) = (self.settings.node_id, BrokerState::ShuttingDown);
            cluster.want(state);
            let leaving = async {
                match self.quorum.submit(SetBrokerState { id, epoch, state }).await {
                    Ok(committed) => _ = self.reconciliation.reached(committed.index).await,
                    Err(error) => {
                        tracing::warn!(%error, "the others notice the stop when it is done")
                    }
                }
                self.quorum.hand_over().await;
            };
            if timeout(LEAVE_MAX, leaving).await.is_err() {
                tracing::warn!(waited = ?LEAVE_MAX, "the others have not taken over; it stops all the same");
            }
        })
    }
}
