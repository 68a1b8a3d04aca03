//! The leaders of partitions that a client has asked for in the wrong place (KIP-951).
//!
//! A client that is told NOT_LEADER_OR_FOLLOWER has to ask for metadata, to find the leader. One that is told who
//! leads, and where that broker is, goes there at once.

use std::collections::BTreeSet;

use logway_model::{BrokerId, ErrorCode, LeaderEpoch, PartitionId, TopicId, Uuid};

use super::cluster_view::{BrokerView, ClusterView};
use crate::request::{RequestContext, TopicGrant};

/// The leaders that one response names.
pub(super) struct CurrentLeaders {
    view: ClusterView,
    named: BTreeSet<BrokerId>,
}

impl CurrentLeaders {
    /// None so far, as of now.
    pub(super) fn of(context: &RequestContext) -> CurrentLeaders {
        CurrentLeaders { view: ClusterView::of(context), named: BTreeSet::new() }
    }

    /// Who leads a partition now, and in which epoch. The topic is that of the name, unless there is an id.
    ///
    /// `None` if nobody leads it, or the requester does not get the topic.
    pub(super) fn name(
        &mut self,
        context: &RequestContext,
        topic: &str,
        topic_id: Uuid,
        partition: PartitionId,
        grant: impl Into<TopicGrant>,
    ) -> Option<(BrokerId, LeaderEpoch)> {
        let topic = match topic_id.is_zero() {
            true => self.view.by_name(context, topic, grant),
            false => self.view.by_id(context, TopicId(topic_id), grant),
        };
        let partition = topic.ok()?.partition(partition)?;
        let leader = partition.leader?;
        self.named.insert(leader);
        Some((leader, partition.leader_epoch))
    }

    /// The leaders named so far that the client can reach.
    pub(super) fn brokers(&self) -> impl Iterator<Item = BrokerView<'_>> {
        self.named.iter().filter_map(|id| self.view.broker(*id))
    }
}

/// Whether a code says that the client should turn to another broker.
pub(super) fn is_elsewhere(code: i16) -> bool {
    code == ErrorCode::NotLeaderOrFollower.code()
}
