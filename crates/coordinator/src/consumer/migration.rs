//! Classic groups that become consumer groups, and consumer groups that become classic ones, while they have members
//! (KIP-848, "Upgrade/Downgrade").
//!
//! A group is a consumer group from its first member of the new protocol to its last. Members of both kinds share it
//! meanwhile: see [`classic_members`](super::classic_members).

use std::sync::Arc;

use bytes::Bytes;
use logway_model::{ErrorCode, PartitionId};
use logway_wire::messages::{ConsumerProtocolAssignment, ConsumerProtocolSubscription};
use logway_wire::{Decoder, Message};
use tracing::info;

use crate::cluster_view::ClusterView;
use crate::groups::Groups;
use crate::ids::{CommittedTopic, GroupId, MemberId, ProtocolName};
use crate::member::{Member as ClassicGroupMember, Protocols};
use crate::membership::{GroupState, Membership};
use crate::record::GroupRecord;
use crate::request::Request;
use crate::timers::Timer;
use crate::turn::Turn;

use super::GroupEpoch;
use super::draft::Draft;
use super::group::ConsumerGroup;
use super::member::{
    ClassicMember, CurrentAssignment, MemberState, OwnedPartitions, Partitions, Subscription,
};
use super::record::{ConsumerRecord, GroupVersion, TargetVersion};
use super::refusal::Refusal;

/// The newest versions of what members of the classic protocol say that are known here. Later ones begin with the same.
const SUBSCRIPTION_VERSION_MAX: i16 = 3;
const ASSIGNMENT_VERSION_MAX: i16 = 3;

impl Groups {
    /// A consumer group in the place of a classic one, or of none.
    pub(super) fn draft_in_place_of_classic(
        &mut self,
        turn: &mut Turn,
        id: &GroupId,
    ) -> Result<Draft, Refusal> {
        let draft = Draft::new(id.clone(), ConsumerGroup::new());
        let room_max = turn.settings.groups_max;
        let count = self.len();
        if self.streams(id).is_some() {
            let message = format!("Group {id} is not a consumer group.");
            return Err(Refusal::new(ErrorCode::GroupIdNotFound, message));
        }
        let Some((membership, has_metadata)) = self.classic(id) else {
            return match count < room_max {
                true => Ok(draft),
                false => Err(ErrorCode::PolicyViolation.into()),
            };
        };
        let tombstone = GroupRecord::Metadata { group: id.clone(), metadata: None };
        if membership.state() == GroupState::Empty {
            return Ok(draft.behind(has_metadata.then_some(tombstone)));
        }
        check_upgrade(turn, id, membership)?;
        let group = upgraded(turn.view, membership)?;
        info!(group = %id, "becomes a consumer group");
        let records = group.records().into_iter();
        let records = records.map(|record| GroupRecord::Consumer { group: id.clone(), record });
        let before = std::iter::once(tombstone).chain(records);
        Ok(Draft::new(id.clone(), group).behind(before).upgrading())
    }

    /// The records of a conversion are on their way. Members of a classic group that wait for a rebalance are told to join
    /// again: there will be another.
    pub(super) fn begin_conversion(&mut self, turn: &mut Turn, id: &GroupId) {
        if let Some((membership, _)) = self.classic(id) {
            membership.suspend(turn);
        }
    }

    /// The records of a conversion are durable, or could not be made so: the classic group goes on.
    pub(super) fn end_conversion(&mut self, turn: &mut Turn, id: &GroupId, is_done: bool) {
        let metadata = self.metadata(id).cloned();
        let Some((membership, _)) = self.classic(id) else { return };
        match (is_done, metadata) {
            (true, None) => {}
            (true, Some(metadata)) => {
                *membership = Membership::restore(id.clone(), &metadata);
                membership.start(turn);
                if membership.state() == GroupState::Stable {
                    membership.prepare_rebalance(turn, "it was a consumer group");
                }
            }
            (false, _) => membership.resume(turn),
        }
    }

    /// An empty consumer group gives way to a member of the classic protocol.
    pub(super) fn give_way_to_classic(&mut self, turn: &mut Turn, id: &GroupId, request: Request) {
        let Some(group) = self.consumer(id) else { return };
        let tombstones = group.tombstones().into_iter();
        let records =
            tombstones.map(|record| GroupRecord::Consumer { group: id.clone(), record }).collect();
        turn.append_before(records, request);
    }
}

fn check_upgrade(turn: &Turn, id: &GroupId, membership: &Membership) -> Result<(), Refusal> {
    let cannot = |reason: &str| {
        let message =
            format!("Cannot upgrade classic group {id} to consumer group because {reason}.");
        Err(Refusal::new(ErrorCode::GroupIdNotFound, message))
    };
    if !turn.settings.consumer.upgrades {
        return cannot("online upgrade is disabled");
    }
    if !membership.is_consumer_group() {
        return cannot("the group does not use the consumer embedded protocol");
    }
    if membership.members().len() > turn.settings.consumer.size_max {
        return cannot("the group size exceeds the consumer group maximum size");
    }
    Ok(())
}

/// The consumer group that a classic group becomes: everybody has what it had, in the epoch of the last generation.
fn upgraded(view: &dyn ClusterView, membership: &Membership) -> Result<ConsumerGroup, Refusal> {
    let epoch = GroupEpoch(membership.generation());
    let mut group = ConsumerGroup::new();
    for member in membership.members() {
        let id = member.id.clone();
        let subscription = subscription_of_classic(member, membership.protocol())?;
        let target = assigned_to_classic(view, &member.assignment)?;
        let owned = |(topic, partitions): (&_, &std::collections::BTreeSet<PartitionId>)| {
            (*topic, partitions.iter().map(|partition| (*partition, epoch)).collect())
        };
        let current = CurrentAssignment {
            epoch,
            previous_epoch: epoch,
            state: MemberState::Stable,
            assigned: target.iter().map(owned).collect(),
            revoking: OwnedPartitions::new(),
        };
        group.apply(&ConsumerRecord::Member(id.clone(), Some(Arc::new(subscription))));
        group.apply(&ConsumerRecord::Target(id.clone(), Some(Arc::new(target))));
        group.apply(&ConsumerRecord::Current(id, Some(Arc::new(current))));
    }
    let metadata_hash = group.hash_of_topics(view);
    group.apply(&ConsumerRecord::Group(Some(GroupVersion { epoch, metadata_hash })));
    group.apply(&ConsumerRecord::Assignment(Some(TargetVersion { epoch, made_at: None })));
    Ok(group)
}

fn subscription_of_classic(
    member: &ClassicGroupMember,
    protocol: Option<&ProtocolName>,
) -> Result<Subscription, Refusal> {
    // Before the first generation there is none; what members say is the same for each.
    let protocol = protocol.or_else(|| member.protocols.names().next());
    let said = read_subscription(&member.protocols.metadata(protocol)).map_err(|_malformed| {
        let message = "Cannot upgrade the classic group to consumer group because the embedded \
                       consumer protocol is malformed.";
        Refusal::new(ErrorCode::GroupIdNotFound, message)
    })?;
    Ok(Subscription {
        instance_id: member.instance_id.clone(),
        rack_id: said.rack_id.as_deref().filter(|rack| !rack.is_empty()).map(Arc::from),
        client_id: Arc::clone(&member.client_id),
        client_host: Arc::clone(&member.client_host),
        topics: said.topics.iter().map(CommittedTopic::from).collect(),
        rebalance_timeout_ms: member.rebalance_timeout_ms,
        classic: Some(ClassicMember {
            session_timeout_ms: member.session_timeout_ms,
            protocols: member.protocols.clone().into_pairs(),
        }),
        ..Subscription::default()
    })
}

/// Reads what a member of the classic protocol says.
pub(super) fn read_subscription(
    metadata: &Bytes,
) -> Result<ConsumerProtocolSubscription, logway_wire::DecodeError> {
    let mut from = Decoder::new(metadata.clone());
    let version = from.i16("subscription version")?;
    ConsumerProtocolSubscription::decode(&mut from, version.min(SUBSCRIPTION_VERSION_MAX))
}

/// Reads what the leader has assigned to a member.
fn assigned_to_classic(view: &dyn ClusterView, assignment: &Bytes) -> Result<Partitions, Refusal> {
    if assignment.is_empty() {
        return Ok(Partitions::new());
    }
    let cannot = |reason: &str| {
        let message =
            format!("Cannot upgrade the classic group to consumer group because {reason}.");
        Refusal::new(ErrorCode::GroupIdNotFound, message)
    };
    let mut from = Decoder::new(assignment.clone());
    let read = from.i16("assignment version").and_then(|version| {
        ConsumerProtocolAssignment::decode(&mut from, version.min(ASSIGNMENT_VERSION_MAX))
    });
    let read = read.map_err(|_malformed| cannot("the embedded consumer protocol is malformed"))?;
    if read.user_data.is_some_and(|data| !data.is_empty()) {
        return Err(cannot("an unsupported custom assignor is in use"));
    }
    let topics = read.assigned_partitions.iter().filter_map(|topic| {
        let id = view.topic(&topic.topic)?.id;
        Some((id, topic.partitions.iter().copied().map(PartitionId).collect()))
    });
    Ok(topics.collect())
}

impl Draft {
    /// Makes it a classic group, if only members of the classic protocol are left. They join again then.
    pub(super) fn downgrade_if_due(&mut self, turn: &mut Turn) -> bool {
        let members_max = turn.settings.group_size_max;
        let is_due = !self.is_empty()
            && self.members().all(|(_, member)| member.subscription.classic.is_some());
        if !is_due || !turn.settings.consumer.downgrades || self.member_count() > members_max {
            return false;
        }
        info!(group = %self.id, "becomes a classic group");
        let members = self.members().map(|(id, member)| {
            let target = self.target(id.as_str()).cloned().unwrap_or_default();
            classic_member(turn.view, id, &member.subscription, &target)
        });
        let members: Vec<ClassicGroupMember> = members.collect();
        for member in &members {
            turn.timers.clear(Timer::Rebalance(self.id.clone(), member.id.clone()));
        }
        turn.timers.clear(Timer::Assign(self.id.clone()));
        let generation = self.epoch().0;
        let record = Membership::record_of(self.id.clone(), generation, members, turn.now.wall);
        for tombstone in self.tombstones() {
            self.write(tombstone);
        }
        self.write_classic(record);
        true
    }
}

fn classic_member(
    view: &dyn ClusterView,
    id: &MemberId,
    subscription: &Subscription,
    target: &Partitions,
) -> ClassicGroupMember {
    let classic = subscription.classic.clone().unwrap_or_default();
    let version = protocol_version(&classic);
    ClassicGroupMember {
        id: id.clone(),
        instance_id: subscription.instance_id.clone(),
        client_id: Arc::clone(&subscription.client_id),
        client_host: Arc::clone(&subscription.client_host),
        rebalance_timeout_ms: subscription.rebalance_timeout_ms,
        session_timeout_ms: classic.session_timeout_ms,
        assignment: super::classic_members::encode_assignment(view, target.iter(), version),
        protocols: Protocols::of_pairs(classic.protocols),
        awaiting_join: None,
        awaiting_sync: None,
        is_new: false,
    }
}

/// The version in which a member of the classic protocol reads what it is assigned.
pub(super) fn protocol_version(member: &ClassicMember) -> i16 {
    let said = member.protocols.first().and_then(|(_, metadata)| metadata.get(..2));
    let version = said.map_or(0, |bytes| i16::from_be_bytes([bytes[0], bytes[1]]));
    version.clamp(0, ASSIGNMENT_VERSION_MAX)
}
