//! A member of a consumer group, as the log knows it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use logway_model::{PartitionId, TopicId};

use crate::ids::{CommittedTopic, InstanceId, ProtocolName};

use super::GroupEpoch;

/// Partitions of topics.
pub type Partitions = BTreeMap<TopicId, BTreeSet<PartitionId>>;

/// Partitions that a member has, each with the epoch in which it got it.
pub type OwnedPartitions = BTreeMap<TopicId, BTreeMap<PartitionId, GroupEpoch>>;

/// A member.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Member {
    /// What it wants.
    pub(crate) subscription: Arc<Subscription>,
    /// What it has.
    pub(crate) current: Arc<CurrentAssignment>,
}

/// Who a member is, and what it wants to read.
#[derive(Debug, Clone, PartialEq)]
pub struct Subscription {
    /// The id of a static member.
    pub instance_id: Option<InstanceId>,
    /// Where it runs.
    pub rack_id: Option<Arc<str>>,
    /// `client.id`
    pub client_id: Arc<str>,
    /// The address.
    pub client_host: Arc<str>,
    /// The topics that it names.
    pub topics: BTreeSet<CommittedTopic>,
    /// The regular expression of the topics that it wants besides; an empty one is none.
    pub pattern: Option<Arc<str>>,
    /// How long it may take to give up partitions, in milliseconds; -1 where it has not said.
    pub rebalance_timeout_ms: i32,
    /// The assignor that it asks for.
    pub assignor: Option<ProtocolName>,
    /// What belongs to a member that speaks the classic protocol (KIP-848, upgrade).
    pub classic: Option<ClassicMember>,
}

/// A member of a consumer group that speaks the classic protocol.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ClassicMember {
    /// How long it may be silent.
    pub session_timeout_ms: i32,
    /// The assignors that it supports, with its metadata for each.
    pub protocols: Vec<(ProtocolName, Bytes)>,
}

/// What a member has, and how far it is with what it shall have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CurrentAssignment {
    /// The assignment epoch that it has reached.
    pub epoch: GroupEpoch,
    /// The epoch before: a member whose last reply was lost still says this one.
    pub previous_epoch: GroupEpoch,
    /// How far it is.
    pub state: MemberState,
    /// What it may read.
    pub assigned: OwnedPartitions,
    /// What it was told to give up, and has not yet.
    pub revoking: OwnedPartitions,
}

/// How far a member is with its assignment. The numbers are those of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MemberState {
    /// It has what it shall have.
    #[default]
    Stable,
    /// It has yet to give up partitions.
    UnrevokedPartitions,
    /// It waits for partitions that others have yet to give up.
    UnreleasedPartitions,
    /// A state that only later versions know.
    Unknown,
}

impl MemberState {
    /// The state of a number.
    pub(crate) fn from_number(number: i8) -> MemberState {
        match number {
            0 => MemberState::Stable,
            1 => MemberState::UnrevokedPartitions,
            2 => MemberState::UnreleasedPartitions,
            _ => MemberState::Unknown,
        }
    }

    /// The number of the state.
    pub(crate) fn number(self) -> i8 {
        match self {
            MemberState::Stable => 0,
            MemberState::UnrevokedPartitions => 1,
            MemberState::UnreleasedPartitions => 2,
            MemberState::Unknown => 127,
        }
    }
}

/// What every member takes beside its texts and partitions: with its places in maps and its timers.
const MEMBER_BYTES: usize = 1024;

/// What a text takes beside its bytes, in a set.
const TEXT_BYTES: usize = 48;

/// What one partition of a member takes.
const PARTITION_BYTES: usize = 32;

/// What one topic takes of a member's partitions.
const TOPIC_BYTES: usize = 96;

/// Of a member that has said nothing yet.
impl Default for Subscription {
    fn default() -> Subscription {
        Subscription {
            instance_id: None,
            rack_id: None,
            client_id: Arc::default(),
            client_host: Arc::default(),
            topics: BTreeSet::new(),
            pattern: Some(Arc::default()),
            rebalance_timeout_ms: -1,
            assignor: None,
            classic: None,
        }
    }
}

/// Of a member that has just joined.
impl Default for CurrentAssignment {
    fn default() -> CurrentAssignment {
        CurrentAssignment {
            epoch: GroupEpoch::JOINING,
            previous_epoch: GroupEpoch::NONE,
            state: MemberState::Stable,
            assigned: OwnedPartitions::new(),
            revoking: OwnedPartitions::new(),
        }
    }
}

impl Subscription {
    /// The regular expression, if there is one.
    pub(crate) fn pattern(&self) -> Option<&Arc<str>> {
        self.pattern.as_ref().filter(|pattern| !pattern.is_empty())
    }

    /// The bytes that are kept for it.
    pub(crate) fn held_bytes(&self) -> usize {
        let length = |text: &Option<Arc<str>>| text.as_ref().map_or(0, |text| text.len());
        let instance = self.instance_id.as_ref().map_or(0, |id| id.as_str().len());
        let topics = self.topics.iter().map(|topic| TEXT_BYTES + topic.as_str().len());
        let classic = self.classic.iter().flat_map(|classic| &classic.protocols);
        let protocols =
            classic.map(|(name, metadata)| TEXT_BYTES + name.as_str().len() + metadata.len());
        MEMBER_BYTES
            + length(&self.rack_id)
            + length(&self.pattern)
            + instance
            + self.client_id.len()
            + self.client_host.len()
            + topics.sum::<usize>()
            + protocols.sum::<usize>()
    }
}

impl CurrentAssignment {
    /// The bytes that are kept for it.
    pub(crate) fn held_bytes(&self) -> usize {
        let topics = self.assigned.values().chain(self.revoking.values());
        topics.map(|partitions| TOPIC_BYTES + partitions.len() * PARTITION_BYTES).sum()
    }

    /// Whether the member has all that an assignment gives it.
    pub(crate) fn is_reconciled_to(&self, epoch: GroupEpoch) -> bool {
        self.state == MemberState::Stable && self.epoch == epoch
    }

    /// The epoch in which the member got a partition that it still has.
    pub(crate) fn epoch_of(&self, topic: TopicId, partition: PartitionId) -> Option<GroupEpoch> {
        let find = |of: &OwnedPartitions| of.get(&topic)?.get(&partition).copied();
        find(&self.assigned).or_else(|| find(&self.revoking))
    }

    /// Every partition that nobody else may have.
    pub(crate) fn owned(&self) -> impl Iterator<Item = (TopicId, PartitionId)> {
        let topics = self.assigned.iter().chain(&self.revoking);
        topics
            .flat_map(|(topic, partitions)| partitions.keys().map(move |number| (*topic, *number)))
    }
}

/// The bytes that are kept for a target.
pub(super) fn target_bytes(target: &Partitions) -> usize {
    target.values().map(|partitions| TOPIC_BYTES + partitions.len() * PARTITION_BYTES).sum()
}
