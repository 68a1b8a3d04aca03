//! The groups of a shard.

mod commit;
mod delete;
mod describe;
mod expiration;
mod fetch;
mod members;
mod pending;
mod size;
mod transactions;

use std::collections::BTreeMap;
use std::sync::Arc;

use logway_model::{ErrorCode, GroupType, PartitionId, TopicId};

use crate::consumer::{ConsumerGroup, ConsumerRecord, Waiting, WaitingByGroup};
use crate::ids::{CommittedTopic, GroupId, MemberId};
use crate::membership::{GroupState, Membership};
use crate::memory::{GroupMemory, HeldMemory};
use crate::offsets::{GroupOffsets, OffsetTopics};
use crate::outbox::Outbox;
use crate::record::{CommittedOffset, GroupMetadata, GroupRecord};
use crate::streams::{StreamsGroup, StreamsRecord, TaskId};
use crate::subscription::{CONSUMER_PROTOCOL_TYPE, STREAMS_PROTOCOL_TYPE};
use crate::turn::Turn;
use pending::PendingOffsets;

pub(crate) use commit::refusal as commit_refusal;
pub use delete::DeletedTopic;
pub(crate) use delete::refusal as offset_delete_refusal;
pub(crate) use members::leave_refusal;
pub(crate) use transactions::txn_commit_refusal;

/// All groups, by id.
#[derive(Debug)]
pub(crate) struct Groups {
    by_id: BTreeMap<GroupId, Group>,
    topics: OffsetTopics,
    /// What transactions would commit.
    pending: PendingOffsets,
    /// The length of all names.
    names_bytes: usize,
    memory: GroupMemory,
    /// What names and ids of topics take.
    topics_held: HeldMemory,
    /// Whether expired offsets are on their way out of the log, and more may follow.
    is_expiring: bool,
    /// What waits until consumer groups can be worked on.
    pub(crate) waiting: WaitingByGroup,
}

/// One group.
///
/// `metadata` and `offsets` are what the log holds; only [`Groups::replay`] changes them.
#[derive(Debug)]
struct Group {
    metadata: Option<Arc<GroupMetadata>>,
    offsets: GroupOffsets,
    membership: Membership,
    /// Set while it is a consumer group, which has no membership of the classic kind. Only [`Groups::replay`] changes it.
    consumer: Option<Box<ConsumerGroup>>,
    /// The same for a streams group.
    streams: Option<Box<StreamsGroup>>,
    held: HeldMemory,
}

/// What a group takes, beside its name, its members and its offsets: with its places in maps.
const GROUP_BYTES: usize = 1024;

/// A group, for those who watch: metrics and tools.
#[derive(Debug, Clone, Copy)]
pub struct GroupView<'a> {
    id: &'a GroupId,
    group: &'a Group,
    topics: &'a OffsetTopics,
}

impl<'a> GroupView<'a> {
    /// The group's name.
    pub fn id(&self) -> &'a GroupId {
        self.id
    }

    /// Where the group is between two rebalances, by the name that Kafka's tools show.
    pub fn state_name(&self) -> &'static str {
        self.group.state_name()
    }

    /// Which of Kafka's kinds of groups it is.
    pub fn group_type(&self) -> GroupType {
        self.group.group_type()
    }

    /// Counts the group's rebalances; where the coordinator assigns it is the group epoch.
    pub fn generation(&self) -> i32 {
        match (&self.group.consumer, &self.group.streams) {
            (Some(consumer), _) => consumer.epoch().0,
            (None, Some(streams)) => streams.epoch().0,
            (None, None) => self.group.membership.generation(),
        }
    }

    /// The partitions that members of a consumer group have, or have yet to give up.
    pub fn owned_partitions(
        &self,
    ) -> impl Iterator<Item = (&'a MemberId, TopicId, PartitionId)> + use<'a> {
        let members = self.group.consumer.iter().flat_map(|consumer| consumer.members());
        members.flat_map(|(id, member)| {
            member.current.owned().map(move |(topic, partition)| (id, topic, partition))
        })
    }

    /// The kind of group, such as `consumer`; empty for groups that only keep offsets.
    pub fn protocol_type(&self) -> &'a str {
        self.group.protocol_type()
    }

    /// The assignor of the current generation; empty if there is none.
    pub fn protocol(&self) -> &'a str {
        self.group.membership.protocol().map_or("", |name| name.as_str())
    }

    /// How many members there are.
    pub fn member_count(&self) -> usize {
        match (&self.group.consumer, &self.group.streams) {
            (Some(consumer), _) => consumer.member_count(),
            (None, Some(streams)) => streams.member_count(),
            (None, None) => self.group.membership.members().len(),
        }
    }

    /// Whether there is a member of that id in a group whose coordinator assigns.
    pub fn has_member(&self, id: &str) -> bool {
        let group = self.group;
        group.consumer.as_ref().is_some_and(|consumer| consumer.member(id).is_some())
            || group.streams.as_ref().is_some_and(|streams| streams.member(id).is_some())
    }

    /// The tasks that members of a streams group process, or have yet to give up.
    pub fn active_tasks(&self) -> impl Iterator<Item = (&'a MemberId, TaskId)> + use<'a> {
        let members = self.group.streams.iter().flat_map(|streams| streams.members());
        members.flat_map(|(id, member)| {
            let current = &member.current;
            let tasks = current.assigned.active_tasks().chain(current.revoking.active_tasks());
            tasks.map(move |task| (id, task))
        })
    }

    /// The members as the log knows them, with their assignments; empty until a generation has been stable.
    pub fn metadata(&self) -> Option<&'a Arc<GroupMetadata>> {
        self.group.metadata.as_ref()
    }

    /// How many partitions have a committed offset.
    pub fn offset_count(&self) -> usize {
        self.group.offsets.len()
    }

    /// The committed offsets; those of a topic follow each other.
    pub fn offsets(
        &self,
    ) -> impl Iterator<Item = (&'a CommittedTopic, PartitionId, CommittedOffset)> + use<'a> {
        self.group.offsets.iter(self.topics)
    }
}

/// What a new group takes before it has members or offsets.
pub(crate) fn new_group_bytes(id: &str) -> usize {
    GROUP_BYTES + id.len()
}

impl Group {
    /// Whether it is of a kind whose coordinator assigns.
    fn has_coordinator_assign(&self) -> bool {
        self.consumer.is_some() || self.streams.is_some()
    }

    /// Whether it has no members.
    fn is_empty(&self) -> bool {
        match (&self.consumer, &self.streams) {
            (Some(consumer), _) => consumer.is_empty(),
            (None, Some(streams)) => streams.is_empty(),
            (None, None) => self.membership.state() == GroupState::Empty,
        }
    }

    fn state_name(&self) -> &'static str {
        match (&self.consumer, &self.streams) {
            (Some(consumer), _) => consumer.state().name(),
            (None, Some(streams)) => streams.state().name(),
            (None, None) => self.membership.state().name(),
        }
    }

    fn group_type(&self) -> GroupType {
        match (&self.consumer, &self.streams) {
            (Some(_), _) => GroupType::Consumer,
            (None, Some(_)) => GroupType::Streams,
            (None, None) => GroupType::Classic,
        }
    }

    fn protocol_type(&self) -> &str {
        match self.group_type() {
            GroupType::Consumer => CONSUMER_PROTOCOL_TYPE,
            GroupType::Streams => STREAMS_PROTOCOL_TYPE,
            GroupType::Classic => self.membership.protocol_type().map_or("", |name| name.as_str()),
        }
    }

    /// Whether a member subscribes to the topic, or might.
    fn is_subscribed_to(&self, topic: &CommittedTopic) -> bool {
        match (&self.consumer, &self.streams) {
            (Some(consumer), _) => consumer.is_subscribed_to(topic),
            (None, Some(streams)) => streams.is_subscribed_to(topic.as_str()),
            (None, None) => self.membership.is_subscribed_to(topic),
        }
    }

    /// Counts what the group takes.
    fn count(&mut self, id: &GroupId) {
        let metadata_bytes = self.metadata.as_ref().map_or(0, |metadata| metadata.bytes_max());
        let members_bytes = self.membership.counted_bytes();
        let consumer_bytes = self.consumer.as_ref().map_or(0, |consumer| consumer.held_bytes());
        let streams_bytes = self.streams.as_ref().map_or(0, |streams| streams.held_bytes());
        let bytes = self.offsets.held_bytes() + members_bytes + metadata_bytes;
        let bytes = bytes + consumer_bytes + streams_bytes;
        self.held.set(new_group_bytes(id.as_str()) + bytes);
    }
}

impl Groups {
    pub(crate) fn new(memory: &GroupMemory) -> Groups {
        Groups {
            by_id: BTreeMap::new(),
            topics: OffsetTopics::new(),
            pending: PendingOffsets::new(memory),
            names_bytes: 0,
            memory: memory.clone(),
            topics_held: memory.hold(0),
            is_expiring: false,
            waiting: WaitingByGroup::new(),
        }
    }

    /// Takes over what a record in the log says.
    pub(crate) fn replay(&mut self, record: &GroupRecord) {
        match record {
            GroupRecord::Offset { group, topic, partition, offset: Some(offset) } => {
                self.pending.supersede(group, topic, *partition);
                let (group, topics) = self.get_or_insert(group);
                group.offsets.insert(topics, topic, *partition, offset);
            }
            GroupRecord::Offset { group, topic, partition, offset: None } => {
                self.pending.supersede(group, topic, *partition);
                if let Some(group) = self.by_id.get_mut(group) {
                    group.offsets.remove(&mut self.topics, topic, *partition);
                }
            }
            GroupRecord::Metadata { group, metadata: Some(metadata) } => {
                self.get_or_insert(group).0.metadata = Some(metadata.clone());
            }
            GroupRecord::Consumer { group, record } => self.replay_consumer(group, record),
            GroupRecord::Streams { group, record } => self.replay_streams(group, record),
            // Its offsets have tombstones of their own.
            GroupRecord::Metadata { group: id, metadata: None } => {
                if let Some(group) = self.by_id.get_mut(id) {
                    group.metadata = None;
                    if group.membership.is_idle() {
                        group.membership = Membership::new(id.clone());
                    }
                }
            }
        }
    }

    fn replay_consumer(&mut self, id: &GroupId, record: &ConsumerRecord) {
        if record.is_tombstone() && self.consumer(id).is_none() {
            return;
        }
        let (group, _) = self.get_or_insert(id);
        if group.consumer.is_none() {
            group.membership = Membership::new(id.clone());
        }
        let consumer = group.consumer.get_or_insert_with(|| Box::new(ConsumerGroup::new()));
        consumer.apply(record);
        // The last of what takes a group back.
        if matches!(record, ConsumerRecord::Group(None)) && consumer.is_empty() {
            group.consumer = None;
        }
    }

    fn replay_streams(&mut self, id: &GroupId, record: &StreamsRecord) {
        if record.is_tombstone() && self.streams(id).is_none() {
            return;
        }
        let (group, _) = self.get_or_insert(id);
        if group.streams.is_none() {
            group.membership = Membership::new(id.clone());
        }
        let streams = group.streams.get_or_insert_with(|| Box::new(StreamsGroup::new()));
        streams.apply(record);
        // The last of what takes a group back.
        if matches!(record, StreamsRecord::Topology(None)) && streams.is_gone() {
            group.streams = None;
        }
    }

    fn get_or_insert(&mut self, group: &GroupId) -> (&mut Group, &mut OffsetTopics) {
        let entry = self.by_id.entry(group.clone()).or_insert_with(|| {
            self.names_bytes += group.as_str().len();
            Group {
                metadata: None,
                offsets: GroupOffsets::default(),
                membership: Membership::new(group.clone()),
                consumer: None,
                streams: None,
                held: self.memory.hold(0),
            }
        });
        (entry, &mut self.topics)
    }

    /// Forgets the group if nothing is known of it any more, and nothing is on its way; else counts what it takes.
    pub(crate) fn take_stock(&mut self, outbox: &Outbox, id: &GroupId) {
        self.topics_held.set(self.topics.held_bytes());
        let Some(group) = self.by_id.get_mut(id) else { return };
        let has_members = !group.membership.is_idle() || group.has_coordinator_assign();
        let is_gone = group.metadata.is_none() && group.offsets.is_empty() && !has_members;
        let is_gone = is_gone && !self.pending.has_group(id);
        if is_gone && !outbox.has_records_of(id) {
            self.by_id.remove(id);
            self.names_bytes -= id.as_str().len();
        } else {
            group.count(id);
        }
    }

    /// The log has been read: groups with members wait for them.
    pub(crate) fn start(&mut self, turn: &mut Turn) {
        for group in self.by_id.values_mut() {
            group.consumer = group.consumer.take().filter(|consumer| !consumer.is_gone());
            group.streams = group.streams.take().filter(|streams| !streams.is_gone());
        }
        self.by_id.retain(|id, group| {
            let is_known = group.metadata.is_some() || group.has_coordinator_assign();
            is_known || !group.offsets.is_empty() || self.pending.has_group(id)
        });
        self.names_bytes = self.by_id.keys().map(|id| id.as_str().len()).sum();
        for (id, group) in &mut self.by_id {
            if let (Some(metadata), false) = (&group.metadata, group.has_coordinator_assign()) {
                group.membership = Membership::restore(id.clone(), metadata);
                group.membership.start(turn);
            }
            group.count(id);
        }
        self.topics_held.set(self.topics.held_bytes());
        for id in self.consumer_groups(|_| true) {
            self.start_consumer_timers(turn, &id);
        }
        for id in self.streams_groups(|_| true) {
            self.start_streams_timers(turn, &id);
        }
    }

    /// Answers all that wait: the shard ends.
    pub(crate) fn stop(&mut self, turn: &mut Turn) {
        let waiting = std::mem::take(&mut self.waiting).into_values().flatten();
        for (token, request) in waiting.filter_map(Waiting::into_request) {
            turn.reply(token, request.body.refused(ErrorCode::NotCoordinator));
        }
        self.by_id.values_mut().for_each(|group| group.membership.stop(turn));
    }

    pub(crate) fn membership_mut(&mut self, id: &GroupId) -> Option<&mut Membership> {
        self.by_id.get_mut(id).map(|group| &mut group.membership)
    }

    /// A consumer group.
    pub(crate) fn consumer(&self, id: &GroupId) -> Option<&ConsumerGroup> {
        self.by_id.get(id)?.consumer.as_deref()
    }

    /// A streams group.
    pub(crate) fn streams(&self, id: &GroupId) -> Option<&StreamsGroup> {
        self.by_id.get(id)?.streams.as_deref()
    }

    /// The same, to note what is not for the log.
    pub(crate) fn streams_mut(&mut self, id: &GroupId) -> Option<&mut StreamsGroup> {
        self.by_id.get_mut(id)?.streams.as_deref_mut()
    }

    /// The streams groups that `is_meant` accepts.
    pub(crate) fn streams_groups(&self, is_meant: impl Fn(&StreamsGroup) -> bool) -> Vec<GroupId> {
        let all = self.by_id.iter();
        let meant = all.filter(|(_, group)| group.streams.as_deref().is_some_and(&is_meant));
        meant.map(|(id, _)| id.clone()).collect()
    }

    /// The consumer groups that `is_meant` accepts.
    pub(crate) fn consumer_groups(
        &self,
        is_meant: impl Fn(&ConsumerGroup) -> bool,
    ) -> Vec<GroupId> {
        let all = self.by_id.iter();
        let meant = all.filter(|(_, group)| group.consumer.as_deref().is_some_and(&is_meant));
        meant.map(|(id, _)| id.clone()).collect()
    }

    /// A group of the classic kind, or that may become one, and whether the log has a record of its members.
    pub(crate) fn classic(&mut self, id: &GroupId) -> Option<(&mut Membership, bool)> {
        let group = self.by_id.get_mut(id)?;
        Some((&mut group.membership, group.metadata.is_some()))
    }

    /// What the log knows of a classic group.
    pub(crate) fn metadata(&self, id: &GroupId) -> Option<&Arc<GroupMetadata>> {
        let group = self.by_id.get(id).filter(|group| !group.has_coordinator_assign())?;
        group.metadata.as_ref()
    }

    pub(crate) fn has_group(&self, id: &GroupId) -> bool {
        self.by_id.contains_key(id)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// All groups, by name.
    pub(crate) fn views(&self) -> impl Iterator<Item = GroupView<'_>> {
        self.by_id.iter().map(|(id, group)| GroupView { id, group, topics: &self.topics })
    }

    pub(crate) fn view(&self, id: &str) -> Option<GroupView<'_>> {
        let (id, group) = self.by_id.get_key_value(id)?;
        Some(GroupView { id, group, topics: &self.topics })
    }
}
