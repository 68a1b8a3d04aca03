//! The records of streams groups.
//!
//! Kafka's own format, one key for each thing that changes by itself:
//!
//! | type | key | value |
//! |---|---|---|
//! | 17 | group | the group epoch, what it was made for, and the topology that was found complete |
//! | 19 | group, member | who the member is |
//! | 20 | group | the assignment epoch, and when the assignment was made |
//! | 21 | group, member | the member's target |
//! | 22 | group, member | what the member has |
//! | 23 | group | the topology |

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use logway_model::{PartitionId, TimestampMs};
use logway_wire::messages::streams_group_current_member_assignment_value::TaskIds as WireOwned;
use logway_wire::messages::streams_group_member_metadata_value::{
    Endpoint as WireEndpoint, KeyValue,
};
use logway_wire::messages::streams_group_metadata_value::LastAssignmentConfig;
use logway_wire::messages::streams_group_target_assignment_member_value::TaskIds as WireTarget;
use logway_wire::messages::{
    StreamsGroupCurrentMemberAssignmentKey, StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey, StreamsGroupMemberMetadataValue, StreamsGroupMetadataKey,
    StreamsGroupMetadataValue, StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue, StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue, StreamsGroupTopologyKey,
};
use logway_wire::{Decoder, Message, WireString};

use crate::consumer::{GroupEpoch, MemberState, TargetVersion};
use crate::error::RecordError;
use crate::ids::{GroupId, MemberId};
use crate::record::{
    GroupRecord, RECORD_BYTES_MAX, decode_value, encode_key_and_value, read_value,
};

use super::member::{CurrentTasks, Endpoint, StreamsMember};
use super::tasks::{OwnedTasks, TargetTasks, Tasks, TasksSince};
use super::topology::Topology;

/// What one record says of a streams group; `None` takes it back.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamsRecord {
    /// The group is at an epoch.
    Group(Option<StreamsVersion>),
    /// A member is in the group.
    Member(MemberId, Option<Arc<StreamsMember>>),
    /// The assignment is of an epoch.
    Assignment(Option<TargetVersion>),
    /// A member shall have something.
    Target(MemberId, Option<Arc<TargetTasks>>),
    /// A member has something.
    Current(MemberId, Option<Arc<CurrentTasks>>),
    /// The members run an application.
    Topology(Option<Arc<Topology>>),
}

/// The state of a group as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamsVersion {
    /// The group epoch.
    pub epoch: GroupEpoch,
    /// The hash of the topics that the application needs; 0 for none.
    pub metadata_hash: i64,
    /// The epoch of the topology whose topics were all there, if they were.
    pub validated_topology: Option<i32>,
    /// How many standbys were asked for; `None` where that is not known.
    pub standby_replicas: Option<u32>,
}

/// What Kafka calls the number of standbys among the settings of an assignment.
const STANDBY_REPLICAS: &str = "num.standby.replicas";

const NOT_KNOWN: i64 = 0;
const NOT_VALIDATED: i32 = -1;

impl StreamsRecord {
    /// Whether it takes something back.
    pub(crate) fn is_tombstone(&self) -> bool {
        match self {
            StreamsRecord::Group(version) => version.is_none(),
            StreamsRecord::Member(_, about) => about.is_none(),
            StreamsRecord::Assignment(version) => version.is_none(),
            StreamsRecord::Target(_, target) => target.is_none(),
            StreamsRecord::Current(_, current) => current.is_none(),
            StreamsRecord::Topology(topology) => topology.is_none(),
        }
    }

    /// Reads the rest of a key of a type, and the value; `None` if the type is no streams group's.
    pub(crate) fn decode(
        record_type: i16,
        from: &mut Decoder,
        value: Option<&Bytes>,
    ) -> Result<Option<GroupRecord>, RecordError> {
        let key_error = |source| RecordError::Key { record_type, source };
        let (group, record) = match record_type {
            StreamsGroupMetadataKey::RECORD_TYPE => {
                let key = StreamsGroupMetadataKey::decode(from, 0).map_err(key_error)?;
                let value = read_value(&key.group_id, value)?;
                (key.group_id, StreamsRecord::Group(value.map(version)))
            }
            StreamsGroupMemberMetadataKey::RECORD_TYPE => {
                let key = StreamsGroupMemberMetadataKey::decode(from, 0).map_err(key_error)?;
                let value = read_value(&key.group_id, value)?.map(member).map(Arc::new);
                (key.group_id, StreamsRecord::Member(MemberId::from(&key.member_id), value))
            }
            StreamsGroupTargetAssignmentMetadataKey::RECORD_TYPE => {
                let key =
                    StreamsGroupTargetAssignmentMetadataKey::decode(from, 0).map_err(key_error)?;
                let value = read_value(&key.group_id, value)?;
                (key.group_id, StreamsRecord::Assignment(value.map(target_version)))
            }
            StreamsGroupTargetAssignmentMemberKey::RECORD_TYPE => {
                let key =
                    StreamsGroupTargetAssignmentMemberKey::decode(from, 0).map_err(key_error)?;
                let value = read_value(&key.group_id, value)?.map(target).map(Arc::new);
                (key.group_id, StreamsRecord::Target(MemberId::from(&key.member_id), value))
            }
            StreamsGroupCurrentMemberAssignmentKey::RECORD_TYPE => {
                let key =
                    StreamsGroupCurrentMemberAssignmentKey::decode(from, 0).map_err(key_error)?;
                let value = read_value(&key.group_id, value)?.map(current).map(Arc::new);
                (key.group_id, StreamsRecord::Current(MemberId::from(&key.member_id), value))
            }
            StreamsGroupTopologyKey::RECORD_TYPE => {
                let key = StreamsGroupTopologyKey::decode(from, 0).map_err(key_error)?;
                let topology = value.map(|value| decode_value(&key.group_id, value)).transpose()?;
                let topology = topology.as_ref().map(Topology::from_record).map(Arc::new);
                (key.group_id, StreamsRecord::Topology(topology))
            }
            _ => return Ok(None),
        };
        Ok(Some(GroupRecord::Streams { group: GroupId::from(&group), record }))
    }

    /// Key and value.
    pub(crate) fn encode(&self, group: &GroupId) -> (Bytes, Option<Bytes>) {
        let group_id = group.to_wire();
        match self {
            StreamsRecord::Group(version) => {
                let key = StreamsGroupMetadataKey { group_id, ..Default::default() };
                let value = version.as_ref().map(wire_version);
                encode_key_and_value(StreamsGroupMetadataKey::RECORD_TYPE, &key, value)
            }
            StreamsRecord::Member(member, about) => {
                let member_id = member.to_wire();
                let key =
                    StreamsGroupMemberMetadataKey { group_id, member_id, ..Default::default() };
                let value = about.as_deref().map(wire_member);
                encode_key_and_value(StreamsGroupMemberMetadataKey::RECORD_TYPE, &key, value)
            }
            StreamsRecord::Assignment(version) => {
                let key =
                    StreamsGroupTargetAssignmentMetadataKey { group_id, ..Default::default() };
                let value = version.map(|version| StreamsGroupTargetAssignmentMetadataValue {
                    assignment_epoch: version.epoch.0,
                    assignment_timestamp: version.made_at.map_or(NOT_KNOWN, |made| made.0),
                    ..Default::default()
                });
                let record_type = StreamsGroupTargetAssignmentMetadataKey::RECORD_TYPE;
                encode_key_and_value(record_type, &key, value)
            }
            StreamsRecord::Target(member, target) => {
                let member_id = member.to_wire();
                let key = StreamsGroupTargetAssignmentMemberKey {
                    group_id,
                    member_id,
                    ..Default::default()
                };
                let value = target.as_deref().map(wire_target);
                let record_type = StreamsGroupTargetAssignmentMemberKey::RECORD_TYPE;
                encode_key_and_value(record_type, &key, value)
            }
            StreamsRecord::Current(member, current) => {
                let member_id = member.to_wire();
                let key = StreamsGroupCurrentMemberAssignmentKey {
                    group_id,
                    member_id,
                    ..Default::default()
                };
                let value = current.as_deref().map(wire_current);
                let record_type = StreamsGroupCurrentMemberAssignmentKey::RECORD_TYPE;
                encode_key_and_value(record_type, &key, value)
            }
            StreamsRecord::Topology(topology) => {
                let key = StreamsGroupTopologyKey { group_id, ..Default::default() };
                let value = topology.as_deref().map(Topology::to_record);
                encode_key_and_value(StreamsGroupTopologyKey::RECORD_TYPE, &key, value)
            }
        }
    }

    /// How many bytes it takes in a log at most, beside the group's name.
    pub(crate) fn bytes_max(&self) -> usize {
        RECORD_BYTES_MAX
            + match self {
                StreamsRecord::Group(_) => STANDBY_REPLICAS.len(),
                StreamsRecord::Assignment(_) => 0,
                StreamsRecord::Member(member, about) => {
                    member.as_str().len() + about.as_ref().map_or(0, |it| it.held_bytes())
                }
                // What is kept of a task or a topic takes more than what is written.
                StreamsRecord::Target(member, target) => {
                    member.as_str().len() + target.as_ref().map_or(0, |it| it.held_bytes())
                }
                StreamsRecord::Current(member, current) => {
                    member.as_str().len() + current.as_ref().map_or(0, |it| it.held_bytes())
                }
                StreamsRecord::Topology(topology) => {
                    topology.as_ref().map_or(0, |it| it.held_bytes())
                }
            }
    }
}

fn version(value: StreamsGroupMetadataValue) -> StreamsVersion {
    let configs = value.last_assignment_configs.iter().flatten();
    let mut standbys = configs.filter(|config| config.key == STANDBY_REPLICAS);
    StreamsVersion {
        epoch: GroupEpoch(value.epoch),
        metadata_hash: value.metadata_hash,
        validated_topology: Some(value.validated_topology_epoch).filter(|it| *it != NOT_VALIDATED),
        standby_replicas: standbys.next().and_then(|config| config.value.as_str().parse().ok()),
    }
}

fn wire_version(version: &StreamsVersion) -> StreamsGroupMetadataValue {
    let configs = version.standby_replicas.map(|replicas| {
        vec![LastAssignmentConfig {
            key: STANDBY_REPLICAS.into(),
            value: replicas.to_string().into(),
            ..Default::default()
        }]
    });
    StreamsGroupMetadataValue {
        epoch: version.epoch.0,
        metadata_hash: version.metadata_hash,
        validated_topology_epoch: version.validated_topology.unwrap_or(NOT_VALIDATED),
        last_assignment_configs: configs,
        ..Default::default()
    }
}

fn target_version(value: StreamsGroupTargetAssignmentMetadataValue) -> TargetVersion {
    let made_at = Some(value.assignment_timestamp).filter(|at| *at != NOT_KNOWN);
    TargetVersion { epoch: GroupEpoch(value.assignment_epoch), made_at: made_at.map(TimestampMs) }
}

fn member(value: StreamsGroupMemberMetadataValue) -> StreamsMember {
    let shared = |text: &WireString| Arc::<str>::from(text.as_str());
    StreamsMember {
        rack_id: value.rack_id.as_ref().map(shared),
        client_id: shared(&value.client_id),
        client_host: shared(&value.client_host),
        rebalance_timeout_ms: value.rebalance_timeout_ms,
        topology_epoch: value.topology_epoch,
        process_id: shared(&value.process_id),
        endpoint: value
            .user_endpoint
            .as_ref()
            .map(|it| Endpoint { host: shared(&it.host), port: it.port }),
        client_tags: value
            .client_tags
            .iter()
            .map(|tag| (shared(&tag.key), shared(&tag.value)))
            .collect(),
    }
}

fn wire_member(about: &StreamsMember) -> StreamsGroupMemberMetadataValue {
    let text = |text: &Arc<str>| WireString::copy_of(text);
    let tag = |(key, value): (&Arc<str>, &Arc<str>)| KeyValue {
        key: text(key),
        value: text(value),
        ..Default::default()
    };
    StreamsGroupMemberMetadataValue {
        rack_id: about.rack_id.as_ref().map(text),
        client_id: text(&about.client_id),
        client_host: text(&about.client_host),
        rebalance_timeout_ms: about.rebalance_timeout_ms,
        topology_epoch: about.topology_epoch,
        process_id: text(&about.process_id),
        user_endpoint: about.endpoint.as_ref().map(|it| WireEndpoint {
            host: text(&it.host),
            port: it.port,
            ..Default::default()
        }),
        client_tags: about.client_tags.iter().map(tag).collect(),
        ..Default::default()
    }
}

fn target(value: StreamsGroupTargetAssignmentMemberValue) -> TargetTasks {
    let tasks = |of: &[WireTarget]| -> Tasks {
        let numbers = |it: &WireTarget| it.partitions.iter().copied().map(PartitionId).collect();
        of.iter().map(|it| (it.subtopology_id.as_str().into(), numbers(it))).collect()
    };
    TargetTasks {
        active: tasks(&value.active_tasks),
        standby: tasks(&value.standby_tasks),
        warmup: tasks(&value.warmup_tasks),
    }
}

fn wire_target(target: &TargetTasks) -> StreamsGroupTargetAssignmentMemberValue {
    let tasks = |tasks: &Tasks| {
        let of = tasks.iter().map(|(subtopology, numbers)| WireTarget {
            subtopology_id: WireString::copy_of(subtopology),
            partitions: numbers.iter().map(|number| number.0).collect(),
            ..Default::default()
        });
        of.collect()
    };
    StreamsGroupTargetAssignmentMemberValue {
        active_tasks: tasks(&target.active),
        standby_tasks: tasks(&target.standby),
        warmup_tasks: tasks(&target.warmup),
        ..Default::default()
    }
}

/// The state of a member by its number. Kafka begins to count at 1 here, and at 0 for consumer groups.
///
/// Logs that an earlier version of this program has written count from 0. What is to be revoked tells them apart: only who has
/// to give up tasks has such.
fn state_of(number: i8, is_revoking: bool) -> MemberState {
    match (number, is_revoking) {
        (1 | 2, true) => MemberState::UnrevokedPartitions,
        (0 | 1, false) => MemberState::Stable,
        (2 | 3, false) => MemberState::UnreleasedPartitions,
        _ => MemberState::Unknown,
    }
}

fn number_of(state: MemberState) -> i8 {
    match state {
        MemberState::Stable => 1,
        MemberState::UnrevokedPartitions => 2,
        MemberState::UnreleasedPartitions => 3,
        MemberState::Unknown => 127,
    }
}

fn current(value: StreamsGroupCurrentMemberAssignmentValue) -> CurrentTasks {
    // Before 4.3 nothing was said of when a task was got. Not later than that, then.
    let epoch_max = GroupEpoch(value.member_epoch.max(0));
    let owned = |active: &[WireOwned], standby: &[WireOwned], warmup: &[WireOwned]| OwnedTasks {
        active: active.iter().map(|it| since(it, epoch_max)).collect::<TasksSince>(),
        standby: followed(standby),
        warmup: followed(warmup),
    };
    let revoking = owned(
        &value.active_tasks_pending_revocation,
        &value.standby_tasks_pending_revocation,
        &value.warmup_tasks_pending_revocation,
    );
    CurrentTasks {
        epoch: GroupEpoch(value.member_epoch),
        previous_epoch: GroupEpoch(value.previous_member_epoch),
        state: state_of(value.state, !revoking.is_empty()),
        assigned: owned(&value.active_tasks, &value.standby_tasks, &value.warmup_tasks),
        revoking,
    }
}

fn since(of: &WireOwned, epoch_max: GroupEpoch) -> (Arc<str>, BTreeMap<PartitionId, GroupEpoch>) {
    let epochs = of.assignment_epochs.as_ref();
    let epochs = epochs.filter(|epochs| epochs.len() == of.partitions.len());
    let numbered = of.partitions.iter().enumerate().map(|(place, &number)| {
        let epoch = epochs.map_or(epoch_max, |epochs| GroupEpoch(epochs[place]));
        (PartitionId(number), epoch)
    });
    (of.subtopology_id.as_str().into(), numbered.collect())
}

fn followed(tasks: &[WireOwned]) -> Tasks {
    let numbers = |of: &WireOwned| of.partitions.iter().copied().map(PartitionId).collect();
    tasks.iter().map(|of| (of.subtopology_id.as_str().into(), numbers(of))).collect()
}

fn wire_current(current: &CurrentTasks) -> StreamsGroupCurrentMemberAssignmentValue {
    StreamsGroupCurrentMemberAssignmentValue {
        member_epoch: current.epoch.0,
        previous_member_epoch: current.previous_epoch.0,
        state: number_of(current.state),
        active_tasks: wire_since(&current.assigned.active),
        standby_tasks: wire_followed(&current.assigned.standby),
        warmup_tasks: wire_followed(&current.assigned.warmup),
        active_tasks_pending_revocation: wire_since(&current.revoking.active),
        standby_tasks_pending_revocation: wire_followed(&current.revoking.standby),
        warmup_tasks_pending_revocation: wire_followed(&current.revoking.warmup),
        ..Default::default()
    }
}

fn wire_since(tasks: &TasksSince) -> Vec<WireOwned> {
    let of = tasks.iter().map(|(subtopology, numbers)| WireOwned {
        subtopology_id: WireString::copy_of(subtopology),
        partitions: numbers.keys().map(|number| number.0).collect(),
        assignment_epochs: Some(numbers.values().map(|epoch| epoch.0).collect()),
        ..Default::default()
    });
    of.collect()
}

fn wire_followed(tasks: &Tasks) -> Vec<WireOwned> {
    let of = tasks.iter().map(|(subtopology, numbers): (_, &BTreeSet<_>)| WireOwned {
        subtopology_id: WireString::copy_of(subtopology),
        partitions: numbers.iter().map(|number: &PartitionId| number.0).collect(),
        ..Default::default()
    });
    of.collect()
}
