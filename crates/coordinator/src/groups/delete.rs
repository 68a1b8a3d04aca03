//! OffsetDelete, DeleteGroups, and topics that are deleted.

use std::collections::{BTreeSet, HashSet};
use std::ops::Bound;
use std::sync::Arc;

use logway_model::{ErrorCode, PartitionId, TopicId};
use logway_wire::WireString;
use logway_wire::messages::delete_groups_response::DeletableGroupResult;
use logway_wire::messages::offset_delete_request::OffsetDeleteRequestPartition;
use logway_wire::messages::offset_delete_response::{
    OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use logway_wire::messages::{OffsetDeleteRequest, OffsetDeleteResponse};

use crate::ids::{CommittedTopic, GroupId};
use crate::outbox::{Outbox, Then};
use crate::record::GroupRecord;
use crate::request::{Reply, RequestToken};
use crate::settings::GroupSettings;
use crate::turn::Turn;

use super::{Group, Groups};

/// A topic that is no more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletedTopic {
    /// Its name, which another topic may have by now.
    pub name: CommittedTopic,
    /// Its id.
    pub id: TopicId,
}

/// The answer to an OffsetDelete that is refused.
pub(crate) fn refusal(code: ErrorCode) -> Reply {
    Reply::OffsetDelete(OffsetDeleteResponse {
        error_code: code.code(),
        ..OffsetDeleteResponse::default()
    })
}

impl Groups {
    /// OffsetDelete (KIP-496): of topics that no member subscribes to.
    pub(crate) fn delete_offsets(
        &self,
        turn: &mut Turn,
        token: RequestToken,
        request: &OffsetDeleteRequest,
    ) {
        let group_id = GroupId::from(&request.group_id);
        let group = match self.check_offset_delete(&group_id) {
            Ok(group) => group,
            Err(code) => {
                turn.reply(token, refusal(code));
                return;
            }
        };
        let mut staged = StagedDelete {
            groups: self,
            outbox: turn.outbox,
            group_id: &group_id,
            group,
            bytes_left: turn.settings.commit_bytes_max,
            records: Vec::new(),
            seen: HashSet::new(),
        };
        let topics = request.topics.iter().map(|topic| {
            let name = CommittedTopic::from(&topic.name);
            let is_subscribed = group.is_subscribed_to(&name);
            let partitions = topic.partitions.iter().map(
                |&OffsetDeleteRequestPartition { partition_index, .. }| {
                    let deleted = match is_subscribed {
                        true => Err(ErrorCode::GroupSubscribedToTopic),
                        false => staged.add(&name, PartitionId(partition_index)),
                    };
                    let error_code = deleted.err().unwrap_or(ErrorCode::None).code();
                    OffsetDeleteResponsePartition {
                        partition_index,
                        error_code,
                        ..Default::default()
                    }
                },
            );
            OffsetDeleteResponseTopic {
                name: topic.name.clone(),
                partitions: partitions.collect(),
                ..OffsetDeleteResponseTopic::default()
            }
        });
        let topics = topics.collect();
        let records = staged.records;
        let response = OffsetDeleteResponse { topics, ..OffsetDeleteResponse::default() };
        turn.append_in_parts(records, Some((token, Reply::OffsetDelete(response))));
    }

    fn check_offset_delete(&self, group_id: &GroupId) -> Result<&Group, ErrorCode> {
        if group_id.as_str().is_empty() {
            return Err(ErrorCode::InvalidGroupId);
        }
        let group = self.by_id.get(group_id).ok_or(ErrorCode::GroupIdNotFound)?;
        // What members of other kinds of group read is not known.
        let is_known = group.has_coordinator_assign() || group.membership.is_consumer_group();
        match group.is_empty() || is_known {
            true => Ok(group),
            false => Err(ErrorCode::NonEmptyGroup),
        }
    }

    /// DeleteGroups: of groups without members, with their offsets; not more at a time than one group can have.
    pub(crate) fn delete_groups(
        &self,
        turn: &mut Turn,
        token: RequestToken,
        group_ids: &[WireString],
    ) {
        let mut records = Vec::new();
        let mut results = Vec::new();
        let mut seen = BTreeSet::new();
        let records_max = turn.settings.append_records_max;
        for group_id in group_ids.iter().filter(|group_id| seen.insert(group_id.as_str())) {
            let code = match self.by_id.get(group_id.as_str()) {
                None => ErrorCode::GroupIdNotFound,
                Some(group) if !group.is_empty() => ErrorCode::NonEmptyGroup,
                // Somebody may be joining.
                Some(_) if turn.outbox.has_consumer_group_in_flight(&GroupId::from(group_id)) => {
                    ErrorCode::CoordinatorLoadInProgress
                }
                // As when it is deleted again and again, each time with all its offsets.
                Some(_) if turn.outbox.count_of(&GroupId::from(group_id)) > records_max => {
                    ErrorCode::CoordinatorLoadInProgress
                }
                Some(group)
                    if !records.is_empty()
                        && records.len() + group.offsets.len()
                            > turn.settings.group_offsets_max =>
                {
                    ErrorCode::CoordinatorLoadInProgress
                }
                Some(group) => {
                    self.push_tombstones(
                        turn.outbox,
                        &GroupId::from(group_id),
                        group,
                        &mut records,
                    );
                    ErrorCode::None
                }
            };
            results.push(DeletableGroupResult {
                group_id: group_id.clone(),
                error_code: code.code(),
                ..DeletableGroupResult::default()
            });
        }
        turn.append_in_parts(records, Some((token, Reply::DeleteGroups(results))));
    }

    /// What takes back everything the log says of the group, or will when all that is on its way has arrived.
    fn push_tombstones(
        &self,
        outbox: &Outbox,
        group_id: &GroupId,
        group: &Group,
        records: &mut Vec<GroupRecord>,
    ) {
        let present = group.offsets.iter(&self.topics).map(|(topic, number, _)| (topic, number));
        let coming = outbox.offsets_in_flight(group_id);
        let coming = coming.chain(self.pending.partitions_of(group_id));
        let all: BTreeSet<(&CommittedTopic, PartitionId)> = present.chain(coming).collect();
        records.extend(all.into_iter().map(|(topic, number)| tombstone(group_id, topic, number)));
        group.push_tombstones(group_id, records);
    }

    /// Forgets the offsets of topics that are no more.
    pub(crate) fn delete_topics(&self, turn: &mut Turn, topics: &Arc<[DeletedTopic]>) {
        self.delete_topics_from(turn, None, topics);
    }

    /// The same in the groups after one. When one append is full, the next is begun when it is settled: all groups of
    /// a shard can have offsets of a topic.
    pub(crate) fn delete_topics_from(
        &self,
        turn: &mut Turn,
        after: Option<&GroupId>,
        topics: &Arc<[DeletedTopic]>,
    ) {
        let mut records = Vec::new();
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut groups = self.by_id.range::<GroupId, _>((from, Bound::Unbounded)).map(|(id, _)| id);
        for group_id in groups.by_ref() {
            self.delete_topics_of(turn, group_id, topics, &mut records);
            if records.len() >= turn.settings.append_records_max {
                let then =
                    Then::DeleteTopicsFrom { after: group_id.clone(), topics: Arc::clone(topics) };
                turn.append_in_parts_then(records, then);
                return;
            }
        }
        turn.append_in_parts(records, None);
    }

    /// The same for one group, when what was on its way has arrived.
    pub(crate) fn delete_topics_of_group(
        &self,
        turn: &mut Turn,
        group_id: &GroupId,
        topics: &[DeletedTopic],
    ) {
        let mut records = Vec::new();
        self.delete_topics_of(turn, group_id, topics, &mut records);
        turn.append_in_parts(records, None);
    }

    /// Collects what takes back the group's offsets of topics that are no more.
    ///
    /// Only where nothing is on its way: a topic of the same name may have been made since, and a tombstone behind a
    /// commit for that one would erase it. Where something is, what it leaves is looked at when it has arrived.
    fn delete_topics_of(
        &self,
        turn: &mut Turn,
        group_id: &GroupId,
        topics: &[DeletedTopic],
        records: &mut Vec<GroupRecord>,
    ) {
        let mut unsettled = Vec::new();
        for topic in topics {
            let is_of = |committed: &TopicId| committed.0.is_zero() || *committed == topic.id;
            let is_settled =
                |partition| !turn.outbox.has_offset_in_flight(group_id, &topic.name, partition);
            let present = self.by_id.get(group_id).into_iter();
            let stale = present
                .flat_map(|group| group.offsets.partitions_of(&self.topics, &topic.name))
                .filter(|(partition, id)| is_of(id) && is_settled(*partition));
            records.extend(stale.map(|(number, _)| tombstone(group_id, &topic.name, number)));
            if turn.outbox.has_topic_in_flight(group_id, &topic.name) {
                unsettled.push(topic.clone());
            }
        }
        if !unsettled.is_empty() {
            let then = Then::DeleteTopics { group: group_id.clone(), topics: unsettled };
            turn.outbox.after_records_of(group_id, then);
        }
    }
}

impl Group {
    /// What takes back all that is not about offsets.
    pub(super) fn push_tombstones(&self, id: &GroupId, records: &mut Vec<GroupRecord>) {
        match (&self.consumer, &self.streams) {
            (Some(consumer), _) => {
                let tombstones = consumer.tombstones().into_iter();
                records.extend(
                    tombstones.map(|record| GroupRecord::Consumer { group: id.clone(), record }),
                );
            }
            (None, Some(streams)) => {
                let tombstones = streams.tombstones().into_iter();
                records.extend(
                    tombstones.map(|record| GroupRecord::Streams { group: id.clone(), record }),
                );
            }
            (None, None) => {
                records.push(GroupRecord::Metadata { group: id.clone(), metadata: None })
            }
        }
    }
}

/// The tombstones of an OffsetDelete in the making: one for each partition that has an offset, or one on its way,
/// however often the request names it.
struct StagedDelete<'a> {
    groups: &'a Groups,
    outbox: &'a Outbox,
    group_id: &'a GroupId,
    group: &'a Group,
    /// How many more bytes the records may take.
    bytes_left: usize,
    records: Vec<GroupRecord>,
    /// Never iterated, so its order is of no effect.
    seen: HashSet<(CommittedTopic, PartitionId)>,
}

impl StagedDelete<'_> {
    fn add(&mut self, topic: &CommittedTopic, partition: PartitionId) -> Result<(), ErrorCode> {
        let has_offset = self.group.offsets.contains(&self.groups.topics, topic, partition)
            || self.outbox.has_offset_in_flight(self.group_id, topic, partition);
        let key = (topic.clone(), partition);
        if !has_offset || self.seen.contains(&key) {
            return Ok(());
        }
        let record = tombstone(self.group_id, topic, partition);
        let bytes_left = self.bytes_left.checked_sub(record.bytes_max());
        self.bytes_left = bytes_left.ok_or(ErrorCode::InvalidCommitOffsetSize)?;
        self.seen.insert(key);
        self.records.push(record);
        Ok(())
    }
}

/// Tombstones that are appended together.
pub(super) struct TombstonePart {
    pub(super) records: Vec<GroupRecord>,
    records_max: usize,
    bytes_left: usize,
}

impl TombstonePart {
    pub(super) fn new(settings: &GroupSettings) -> TombstonePart {
        let (records_max, bytes_left) = (settings.append_records_max, settings.append_bytes_max);
        TombstonePart { records: Vec::new(), records_max, bytes_left }
    }

    /// Adds records that belong together, if there is room; the first ones always fit.
    pub(super) fn add_all(&mut self, records: Vec<GroupRecord>) -> bool {
        let bytes = records.iter().map(GroupRecord::bytes_max).sum();
        let fits =
            self.records.len() + records.len() <= self.records_max && bytes <= self.bytes_left;
        if !fits && !self.records.is_empty() {
            return false;
        }
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        self.records.extend(records);
        true
    }

    /// Adds a record, if there is room; the first one always fits.
    pub(super) fn add(&mut self, record: GroupRecord) -> bool {
        let bytes = record.bytes_max();
        let fits = self.records.len() < self.records_max && bytes <= self.bytes_left;
        if !fits && !self.records.is_empty() {
            return false;
        }
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        self.records.push(record);
        true
    }
}

pub(super) fn tombstone(
    group: &GroupId,
    topic: &CommittedTopic,
    partition: PartitionId,
) -> GroupRecord {
    GroupRecord::Offset { group: group.clone(), topic: topic.clone(), partition, offset: None }
}
