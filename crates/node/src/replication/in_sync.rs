//! Leaders tell the controller who is in sync (KIP-497).

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use logway_metadata::ControllerError;
use logway_metadata::controller::{
    AlterPartition, AlteredPartition, COMMAND_RECORDS_MAX, IsrChange,
};
use logway_metadata::record::BrokerEpoch;
use logway_model::{DirectoryId, ErrorCode, TopicId};
use logway_replication::{FollowerLimits, IsrProposal, ProposedReplica};
use tokio::time::{sleep, timeout};

use crate::Node;
use crate::cluster::Mutation;
use crate::replica::Replica;

/// Who lags or stalls is looked for this often; who has caught up says so itself.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// A proposal whose outcome nobody knows is sent again after this time.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// A proposal under way.
struct Proposed {
    topic: TopicId,
    replica: Arc<Replica>,
    proposal: IsrProposal,
}

/// Keeps the in-sync replicas of what this node leads, for as long as the node exists.
pub(crate) async fn keep_isrs(node: Weak<Node>) {
    loop {
        let Some(strong) = node.upgrade() else { return };
        let Some(cluster) = &strong.cluster else { return };
        if let Some(epoch) = cluster.session() {
            let proposed = proposals(&strong);
            if strong.breaks(Mutation::IgnoresProposed) {
                proposed.iter().for_each(|it| it.replica.on_refusal(it.proposal.leader_epoch));
            }
            say_what_hangs(&strong, &proposed);
            for chunk in proposed.chunks(COMMAND_RECORDS_MAX) {
                propose(&strong, epoch, chunk).await;
            }
        }
        let is_due = Arc::clone(&cluster.isr_due);
        drop(strong);
        _ = timeout(LOOK_INTERVAL, is_due.notified()).await;
    }
}

fn proposals(node: &Node) -> Vec<Proposed> {
    let settings = &node.settings.cluster;
    let (lag_max, stall_max) = (settings.replica_lag_max, settings.replica_stall_max);
    let (topics, image) = (node.topics(), node.image());
    let stalled = node.log_dirs.online().filter(|dir| dir.in_round_for() > stall_max);
    let stalled: Vec<DirectoryId> = stalled.map(|dir| dir.directory_id()).collect();
    let ignores_lives = node.breaks(Mutation::IgnoresLives);
    let is_barred = |replica: ProposedReplica| {
        let is_past = |life: BrokerEpoch| is_known(replica) && replica.broker_epoch < life.0;
        let session = image.broker_session(replica.broker);
        let is_over = !ignores_lives && session.is_some_and(|session| is_past(session.epoch));
        is_over || !image.is_active(replica.broker)
    };
    let proposed = topics.replicas().filter_map(|(topic, replica)| {
        let own_stalls = stalled.contains(&replica.directory());
        let limits = FollowerLimits { lag_max, stall_max, own_stalls };
        let proposal = replica.propose(limits, is_barred)?;
        Some(Proposed { topic, replica: Arc::clone(replica), proposal })
    });
    proposed.collect()
}

/// Says which disks hang, so that others are to lead what is on them.
fn say_what_hangs(node: &Node, proposed: &[Proposed]) {
    let own = node.settings.node_id;
    let mut given_up: BTreeMap<DirectoryId, usize> = BTreeMap::new();
    for it in proposed.iter().filter(|it| it.proposal.isr.iter().all(|of| of.broker != own)) {
        *given_up.entry(it.replica.directory()).or_default() += 1;
    }
    for (directory, partitions) in given_up {
        let stall_max = node.settings.cluster.replica_stall_max;
        let path = node.log_dirs.by_id(directory).map(|dir| dir.path().display().to_string());
        tracing::warn!(%directory, path, partitions, ?stall_max,
            "a log directory has flushed nothing for too long: others are to lead what this node leads in it");
    }
}

/// Has the controller take proposals. One whose outcome is not known may be in force already, so it is sent until
/// that is known: until then both sets of replicas hold the high watermark.
async fn propose(node: &Arc<Node>, epoch: BrokerEpoch, proposed: &[Proposed]) {
    let change = |it: &Proposed| IsrChange {
        topic_id: it.topic,
        partition: it.replica.topic_partition().partition,
        leader_epoch: it.proposal.leader_epoch,
        partition_epoch: it.proposal.partition_epoch,
        isr: it.proposal.isr.iter().map(|of| in_life(node, epoch, of)).collect(),
    };
    let command = AlterPartition {
        broker: node.settings.node_id,
        broker_epoch: epoch,
        partitions: proposed.iter().map(change).collect(),
    };
    let outcomes = loop {
        match node.quorum.submit(command.clone()).await {
            Ok(committed) if committed.reply.iter().all(is_final) => break committed.reply,
            Ok(_) => {
                tracing::warn!(
                    "a controller does not know yet what this node knows; it is asked again"
                );
                sleep(RETRY_AFTER).await;
            }
            Err(logway_quorum::QuorumError::Refused(error)) => {
                // Of another life: nothing of it was taken.
                tracing::warn!(%error, "the controller does not take who is in sync");
                proposed.iter().for_each(|it| it.replica.on_refusal(it.proposal.leader_epoch));
                return;
            }
            Err(error) => {
                tracing::warn!(%error, "the controller is not told who is in sync; it is tried again");
                sleep(RETRY_AFTER).await;
            }
        }
        let is_over = |it: &Proposed| it.replica.leader_epoch() != it.proposal.leader_epoch;
        if proposed.iter().all(is_over) {
            return;
        }
    };
    for (it, outcome) in proposed.iter().zip(outcomes) {
        let partition = it.replica.topic_partition();
        match outcome {
            Ok(altered) if altered.partition_epoch > it.proposal.partition_epoch => {
                tracing::info!(%partition, isr = ?altered.isr, "who is in sync has changed");
            }
            // It is so already.
            Ok(_) => it.replica.on_refusal(it.proposal.leader_epoch),
            Err(refusal) => {
                tracing::debug!(%partition, %refusal, "who is in sync has not changed");
                match refusal.code {
                    // The metadata has something newer, perhaps this very proposal: it will say.
                    ErrorCode::InvalidUpdateVersion | ErrorCode::FencedLeaderEpoch => {}
                    _ => it.replica.on_refusal(it.proposal.leader_epoch),
                }
            }
        }
    }
}

/// Whether the controller has judged a proposal. One that is behind has not, and the next one may.
fn is_final(outcome: &Result<AlteredPartition, ControllerError>) -> bool {
    !matches!(outcome, Err(refusal) if refusal.code == ErrorCode::NotController)
}

/// Whether a replica has fetched in this leader's time.
fn is_known(replica: ProposedReplica) -> bool {
    replica.broker_epoch >= 0
}

/// A replica with the life in which it was seen to be in sync; the leader's own is known without a fetch. Of one that
/// has not fetched yet in this leader's time, it is the present one: it stays in, and does not join.
fn in_life(
    node: &Node,
    own: BrokerEpoch,
    replica: &ProposedReplica,
) -> (logway_model::BrokerId, BrokerEpoch) {
    let id = replica.broker;
    let present = || node.image().broker_session(id).map_or(BrokerEpoch(-1), |it| it.epoch);
    let epoch = match replica.broker_epoch {
        _ if id == node.settings.node_id => own,
        _ if !is_known(*replica) || node.breaks(Mutation::IgnoresLives) => present(),
        epoch => BrokerEpoch(epoch),
    };
    (id, epoch)
}
