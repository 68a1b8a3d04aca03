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

use logway_model::PartitionId;

use crate::ids::{CommittedTopic, GroupId};
use crate::membership::{GroupState, Membership};
use crate::memory::{GroupMemory, HeldMemory};
use crate::offsets::{GroupOffsets, OffsetTopics};
use crate::outbox::Outbox;
use crate::record::{CommittedOffset, GroupMetadata, GroupRecord};
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
}

/// One group.
///
/// `metadata` and `offsets` are what the log holds; only [`Groups::replay`] changes them.
#[derive(Debug)]
struct Group {
    metadata: Option<Arc<GroupMetadata>>,
    offsets: GroupOffsets,
    membership: Membership,
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

    /// Where the group is between two rebalances.
    pub fn state(&self) -> GroupState {
        self.group.membership.state()
    }

    /// Counts the group's rebalances.
    pub fn generation(&self) -> i32 {
        self.group.membership.generation()
    }

    /// The kind of group, such as `consumer`; empty for groups that only keep offsets.
    pub fn protocol_type(&self) -> &'a str {
        self.group.membership.protocol_type().map_or("", |name| name.as_str())
    }

    /// The assignor of the current generation; empty if there is none.
    pub fn protocol(&self) -> &'a str {
        self.group.membership.protocol().map_or("", |name| name.as_str())
    }

    /// How many members there are.
    pub fn member_count(&self) -> usize {
        self.group.membership.members().len()
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
    /// Counts what the group takes.
    fn count(&mut self, id: &GroupId) {
        let metadata_bytes = self.metadata.as_ref().map_or(0, |metadata| metadata.bytes_max());
        let members_bytes = self.membership.counted_bytes();
        let bytes = self.offsets.held_bytes() + members_bytes + metadata_bytes;
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

    fn get_or_insert(&mut self, group: &GroupId) -> (&mut Group, &mut OffsetTopics) {
        let entry = self.by_id.entry(group.clone()).or_insert_with(|| {
            self.names_bytes += group.as_str().len();
            Group {
                metadata: None,
                offsets: GroupOffsets::default(),
                membership: Membership::new(group.clone()),
                held: self.memory.hold(0),
            }
        });
        (entry, &mut self.topics)
    }

    /// Forgets the group if nothing is known of it any more, and nothing is on its way; else counts what it takes.
    pub(crate) fn take_stock(&mut self, outbox: &Outbox, id: &GroupId) {
        self.topics_held.set(self.topics.held_bytes());
        let Some(group) = self.by_id.get_mut(id) else { return };
        let is_gone =
            group.metadata.is_none() && group.offsets.is_empty() && group.membership.is_idle();
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
        self.by_id.retain(|id, group| {
            group.metadata.is_some() || !group.offsets.is_empty() || self.pending.has_group(id)
        });
        self.names_bytes = self.by_id.keys().map(|id| id.as_str().len()).sum();
        for (id, group) in &mut self.by_id {
            if let Some(metadata) = &group.metadata {
                group.membership = Membership::restore(id.clone(), metadata);
                group.membership.start(turn);
            }
            group.count(id);
        }
        self.topics_held.set(self.topics.held_bytes());
    }

    /// Answers all that wait: the shard ends.
    pub(crate) fn stop(&mut self, turn: &mut Turn) {
        self.by_id.values_mut().for_each(|group| group.membership.stop(turn));
    }

    pub(crate) fn membership_mut(&mut self, id: &GroupId) -> Option<&mut Membership> {
        self.by_id.get_mut(id).map(|group| &mut group.membership)
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
