//! ConsumerGroupHeartbeat of a member that joins or stays.

use std::fmt;
use std::sync::Arc;

use logway_model::{ErrorCode, GroupType, Uuid};
use logway_wire::messages::consumer_group_heartbeat_response::{Assignment, TopicPartitions};
use logway_wire::messages::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};

use crate::ids::{CommittedTopic, InstanceId, MEMBER_ID_COPIES, MemberId, ProtocolName};
use crate::request::{Client, Reply};
use crate::timers::Timer;
use crate::turn::Turn;

use super::GroupEpoch;
use super::assignor::Assignor;
use super::draft::Draft;
use super::member::{CurrentAssignment, Member, MemberState, OwnedPartitions, Subscription};
use super::reconcile::Step;
use super::record::{ConsumerRecord, GroupVersion};
use super::refusal::Refusal;
use super::target::reads_alike;

/// From this version on, members make their ids themselves (KIP-1082).
const MEMBER_ID_FROM: i16 = 1;

/// Which topics a member may know of. The front door knows; the coordinator asks it where it matches a pattern.
#[derive(Clone)]
pub struct TopicSight(Arc<dyn Fn(&str) -> bool + Send + Sync>);

impl TopicSight {
    /// Sees the topics that `sees` accepts, by their names.
    pub fn new(sees: impl Fn(&str) -> bool + Send + Sync + 'static) -> TopicSight {
        TopicSight(Arc::new(sees))
    }

    /// Sees every topic.
    pub fn of_all() -> TopicSight {
        TopicSight::new(|_| true)
    }

    pub(super) fn sees(&self, topic: &str) -> bool {
        (self.0)(topic)
    }
}

impl fmt::Debug for TopicSight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TopicSight")
    }
}

/// A heartbeat that a group has to answer.
pub(super) struct Heartbeat<'a> {
    pub(super) request: &'a ConsumerGroupHeartbeatRequest,
    pub(super) client: &'a Client,
    pub(super) fresh_id: Uuid,
    pub(super) sight: &'a TopicSight,
}

/// The answer to a heartbeat that is refused.
pub(crate) fn refusal(code: ErrorCode) -> Reply {
    refused(Refusal::from(code))
}

pub(super) fn refused(refusal: Refusal) -> Reply {
    Reply::ConsumerGroupHeartbeat(ConsumerGroupHeartbeatResponse {
        error_code: refusal.code.code(),
        error_message: refusal.message.map(Into::into),
        ..ConsumerGroupHeartbeatResponse::default()
    })
}

/// Whether a request is one that a member can make, whatever the group is like.
pub(super) fn check(request: &ConsumerGroupHeartbeatRequest, version: i16) -> Result<(), Refusal> {
    let invalid = |message: &str| Err(Refusal::new(ErrorCode::InvalidRequest, message));
    let is_blank = |text: &str| text.trim().is_empty();
    let is_blank_if_any = |text: Option<&str>| text.is_some_and(is_blank);
    let epoch = GroupEpoch(request.member_epoch);
    let needs_id =
        version >= MEMBER_ID_FROM || epoch > GroupEpoch::JOINING || epoch == GroupEpoch::LEAVING;
    if needs_id && is_blank(&request.member_id) {
        return invalid("MemberId can't be empty.");
    }
    if is_blank(&request.group_id) {
        return invalid("GroupId can't be empty.");
    }
    if is_blank_if_any(request.instance_id.as_deref()) {
        return invalid("InstanceId can't be empty.");
    }
    if is_blank_if_any(request.rack_id.as_deref()) {
        return invalid("RackId can't be empty.");
    }
    if epoch == GroupEpoch::JOINING {
        if request.rebalance_timeout_ms == -1 {
            return invalid("RebalanceTimeoutMs must be provided in first request.");
        }
        if request.topic_partitions.as_ref().is_none_or(|partitions| !partitions.is_empty()) {
            return invalid("TopicPartitions must be empty when (re-)joining.");
        }
        if request.subscribed_topic_names.is_none() && request.subscribed_topic_regex.is_none() {
            return invalid(
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
            );
        }
    } else if epoch == GroupEpoch::LEAVING_FOR_NOW && request.instance_id.is_none() {
        return invalid("InstanceId can't be null.");
    } else if epoch < GroupEpoch::LEAVING_FOR_NOW {
        return invalid("MemberEpoch is invalid.");
    }
    Ok(())
}

/// Whether the assignor that a member asks for is one that may be used.
pub(super) fn check_assignor(
    request: &ConsumerGroupHeartbeatRequest,
    assignors: &[Assignor],
) -> Result<(), Refusal> {
    let Some(name) = &request.server_assignor else { return Ok(()) };
    if assignors.iter().any(|assignor| assignor.name() == name.as_str()) {
        return Ok(());
    }
    let names: Vec<_> = assignors.iter().map(|assignor| assignor.name()).collect();
    let message = format!(
        "ServerAssignor {} is not supported. Supported assignors: {}.",
        ProtocolName::from(name),
        names.join(", ")
    );
    Err(Refusal::new(ErrorCode::UnsupportedAssignor, message))
}

impl Draft {
    /// A member joins or stays.
    pub(super) fn heartbeat(
        &mut self,
        turn: &mut Turn,
        heartbeat: &Heartbeat,
    ) -> Result<ConsumerGroupHeartbeatResponse, Refusal> {
        let request = heartbeat.request;
        let id = match request.member_id.is_empty() {
            true => MemberId::from(&*heartbeat.fresh_id.hyphenated()),
            false => self.member_id(&request.member_id),
        };
        let former = self.find_member(turn, &id, request)?;
        self.check_room(turn, &id)?;
        let wanted = updated(&former.subscription, heartbeat);
        self.subscribe(turn, &id, &former, wanted, Some(heartbeat.sight))?;
        self.assign(turn);
        let has_subscription_changed = self
            .member(id.as_str())
            .is_some_and(|member| !reads_alike(&member.subscription, &former.subscription));
        let reported = request.topic_partitions.as_deref();
        self.reconcile(turn, &id, has_subscription_changed, reported, true)?;
        self.reset_session(turn, &id);
        Ok(self.answer(turn, &id, &former.current, request))
    }

    /// Whether there is room for the member.
    pub(super) fn check_room(&self, turn: &Turn, id: &MemberId) -> Result<(), Refusal> {
        let size_max = turn.settings.consumer.size_max;
        if self.member_count() < size_max || self.member(id.as_str()).is_some() {
            return Ok(());
        }
        let message =
            format!("The consumer group has reached its maximum capacity of {size_max} members.");
        Err(Refusal::new(ErrorCode::GroupMaxSizeReached, message))
    }

    /// The member of a request, as it was, or as it is when it joins.
    fn find_member(
        &mut self,
        turn: &mut Turn,
        id: &MemberId,
        request: &ConsumerGroupHeartbeatRequest,
    ) -> Result<Member, Refusal> {
        let is_joining = GroupEpoch(request.member_epoch) == GroupEpoch::JOINING;
        let Some(instance) = request.instance_id.as_ref().map(InstanceId::from) else {
            return match self.member(id.as_str()).cloned() {
                Some(member) => check_epoch(&member.current, request).map(|()| member),
                None if is_joining => Ok(Member::default()),
                None => Err(self.unknown_member(id)),
            };
        };
        let present =
            self.static_member(&instance).map(|(id, member)| (id.clone(), member.clone()));
        match present {
            // Nobody has the instance, but somebody the id: it becomes static.
            None if is_joining => Ok(self.member(id.as_str()).cloned().unwrap_or_default()),
            None => {
                let message = format!("Instance id {instance} is unknown.");
                Err(Refusal::new(ErrorCode::UnknownMemberId, message))
            }
            Some((present_id, present)) if is_joining => {
                let has_left = present.current.epoch == GroupEpoch::LEAVING_FOR_NOW;
                if !has_left && present.subscription.classic.is_none() {
                    return Err(Refusal::new(
                        ErrorCode::UnreleasedInstanceId,
                        format!(
                            "Static member {id} with instance id {instance} cannot join the group because the \
                             instance id is owned by {present_id} member."
                        ),
                    ));
                }
                Ok(self.replace_static(turn, &present_id, &present, id))
            }
            Some((present_id, _)) if present_id != *id => {
                Err(fenced_instance(id, &instance, &present_id))
            }
            Some((_, present)) => check_epoch(&present.current, request).map(|()| present),
        }
    }

    /// A static member goes on under another id, with what it had.
    pub(super) fn replace_static(
        &mut self,
        turn: &mut Turn,
        former_id: &MemberId,
        former: &Member,
        id: &MemberId,
    ) -> Member {
        let target = self.target(former_id.as_str()).cloned().unwrap_or_default();
        self.remove(turn, former_id);
        let current = CurrentAssignment {
            epoch: GroupEpoch::JOINING,
            previous_epoch: GroupEpoch::JOINING,
            ..CurrentAssignment::clone(&former.current)
        };
        let member =
            Member { subscription: Arc::clone(&former.subscription), current: Arc::new(current) };
        self.write(ConsumerRecord::Member(id.clone(), Some(Arc::clone(&member.subscription))));
        self.write(ConsumerRecord::Target(id.clone(), Some(target)));
        self.write(ConsumerRecord::Current(id.clone(), Some(Arc::clone(&member.current))));
        member
    }

    pub(super) fn unknown_member(&self, id: &MemberId) -> Refusal {
        let message = format!("Member {id} is not a member of group {}.", self.id);
        Refusal::new(ErrorCode::UnknownMemberId, message)
    }

    /// Writes down what a member wants, and with it the next group epoch if that is something new. Patterns are looked up with
    /// the member's `sight`, if it has any.
    pub(super) fn subscribe(
        &mut self,
        turn: &Turn,
        id: &MemberId,
        former: &Member,
        wanted: Subscription,
        sight: Option<&TopicSight>,
    ) -> Result<(), Refusal> {
        let bytes = wanted.held_bytes() + MEMBER_ID_COPIES * id.as_str().len();
        if bytes > turn.settings.member_bytes_max {
            let bytes_max = turn.settings.member_bytes_max;
            let message = format!("What member {id} wants takes more than {bytes_max} bytes.");
            return Err(Refusal::new(ErrorCode::PolicyViolation, message));
        }
        let wanted = Arc::new(wanted);
        let is_known = self.member(id.as_str()).is_some();
        if !is_known || wanted != former.subscription {
            self.write(ConsumerRecord::Member(id.clone(), Some(Arc::clone(&wanted))));
        }
        let (before, now) = (former.subscription.pattern(), wanted.pattern());
        let are_topics_new = self.update_patterns(turn, before, now, sight)?;
        // A classic group that was in its first rebalance had no generation. Who is at epoch 0 would have to join again.
        let is_first = !self.has_version() || self.epoch() <= GroupEpoch::JOINING;
        if are_topics_new || wanted.topics != former.subscription.topics || is_first {
            self.bump_epoch(turn);
        }
        Ok(())
    }

    /// Begins the next group epoch, with the topics as they are.
    pub(super) fn bump_epoch(&mut self, turn: &Turn) {
        turn.rebalances.note(GroupType::Consumer);
        let (epoch, metadata_hash) = (self.epoch().next(), self.hash_of_topics(turn.view));
        self.write(ConsumerRecord::Group(Some(GroupVersion { epoch, metadata_hash })));
        if self.has_former_topics() {
            self.write(ConsumerRecord::FormerTopics(false));
        }
    }

    /// Takes a member one step towards what it shall have; if it `takes_more`, with what of that is free.
    pub(super) fn reconcile(
        &mut self,
        turn: &mut Turn,
        id: &MemberId,
        has_subscription_changed: bool,
        reported: Option<
            &[logway_wire::messages::consumer_group_heartbeat_request::TopicPartitions],
        >,
        takes_more: bool,
    ) -> Result<(), Refusal> {
        let target_epoch = self.assignment_epoch();
        let Some(member) = self.member(id.as_str()).cloned() else { return Ok(()) };
        if !has_subscription_changed && member.current.is_reconciled_to(target_epoch) {
            return Ok(());
        }
        let target = self.target(id.as_str()).cloned().unwrap_or_default();
        let subscribed = self.topics_of(&member.subscription, turn.view);
        let is_free = |topic, partition| {
            takes_more && self.owner(topic, partition).is_none_or(|owner| owner == id)
        };
        let step = Step {
            current: &member.current,
            target_epoch,
            target: &target,
            subscribed: &subscribed,
            has_subscription_changed,
            reported,
            is_free: &is_free,
        };
        let next = step.take()?;
        if next == *member.current {
            return Ok(());
        }
        if next.state == MemberState::UnrevokedPartitions && member.subscription.classic.is_none() {
            self.await_rebalance(turn, id);
        } else {
            turn.timers.clear(Timer::Rebalance(self.id.clone(), id.clone()));
        }
        self.write(ConsumerRecord::Current(id.clone(), Some(Arc::new(next))));
        Ok(())
    }

    /// The member has its rebalance timeout to give up what it has to, or by the classic protocol to join or to sync.
    pub(super) fn await_rebalance(&self, turn: &mut Turn, id: &MemberId) {
        let Some(member) = self.member(id.as_str()) else { return };
        let timeout_ms = member.subscription.rebalance_timeout_ms.max(0).unsigned_abs();
        turn.set_timer(Timer::Rebalance(self.id.clone(), id.clone()), timeout_ms.into());
    }

    /// Waits for the next sign of life.
    pub(super) fn reset_session(&self, turn: &mut Turn, id: &MemberId) {
        let Some(member) = self.member(id.as_str()) else { return };
        let timeout_ms = match &member.subscription.classic {
            Some(classic) => classic.session_timeout_ms.max(0).unsigned_abs(),
            None => turn.settings.consumer.session_timeout_ms(&turn.overrides(&self.id)),
        };
        turn.set_timer(Timer::Session(self.id.clone(), id.clone()), timeout_ms.into());
    }

    fn answer(
        &self,
        turn: &Turn,
        id: &MemberId,
        former: &CurrentAssignment,
        request: &ConsumerGroupHeartbeatRequest,
    ) -> ConsumerGroupHeartbeatResponse {
        let current = self.member(id.as_str()).map(|member| &*member.current);
        let current = current.unwrap_or(former);
        let interval_ms = turn.settings.consumer.heartbeat_interval_ms(&turn.overrides(&self.id));
        let has_topics =
            request.subscribed_topic_names.is_some() || request.subscribed_topic_regex.is_some();
        // Who sends all of it has lost an answer, perhaps.
        let is_full =
            request.rebalance_timeout_ms != -1 && has_topics && request.topic_partitions.is_some();
        let is_joining = GroupEpoch(request.member_epoch) == GroupEpoch::JOINING;
        let tells = is_joining || is_full || current.assigned != former.assigned;
        ConsumerGroupHeartbeatResponse {
            member_id: Some(id.to_wire()),
            member_epoch: current.epoch.0,
            heartbeat_interval_ms: i32::try_from(interval_ms).unwrap_or(i32::MAX),
            assignment: tells.then(|| told(&current.assigned)),
            ..ConsumerGroupHeartbeatResponse::default()
        }
    }
}

pub(super) fn fenced_instance(id: &MemberId, instance: &InstanceId, by: &MemberId) -> Refusal {
    let message =
        format!("Static member {id} with instance id {instance} was fenced by member {by}.");
    Refusal::new(ErrorCode::FencedInstanceId, message)
}

fn told(assigned: &OwnedPartitions) -> Assignment {
    let topics = assigned.iter().map(|(topic, partitions)| TopicPartitions {
        topic_id: topic.0,
        partitions: partitions.keys().map(|partition| partition.0).collect(),
        ..TopicPartitions::default()
    });
    Assignment { topic_partitions: topics.collect(), ..Assignment::default() }
}

/// Whether a member is where it says.
fn check_epoch(
    current: &CurrentAssignment,
    request: &ConsumerGroupHeartbeatRequest,
) -> Result<(), Refusal> {
    let (said, known) = (GroupEpoch(request.member_epoch), current.epoch);
    // Who was fenced begins anew with that, with nothing.
    if said == GroupEpoch::JOINING || said == known {
        return Ok(());
    }
    // The reply with the next epoch may have been lost.
    let is_behind_by_a_reply =
        said < known && said == current.previous_epoch && has_only(request, &current.assigned);
    if is_behind_by_a_reply {
        return Ok(());
    }
    let side = if said > known { "greater" } else { "smaller" };
    Err(Refusal::new(
        ErrorCode::FencedMemberEpoch,
        format!(
            "The consumer group member has a {side} member epoch ({said}) than the one known by the group \
             coordinator ({known}). The member must abandon all its partitions and rejoin."
        ),
    ))
}

/// Whether a member says what it has, and that it has nothing else than that.
fn has_only(request: &ConsumerGroupHeartbeatRequest, assigned: &OwnedPartitions) -> bool {
    let Some(reported) = &request.topic_partitions else { return false };
    reported.iter().all(|topic| {
        let assigned = assigned.get(&logway_model::TopicId(topic.topic_id));
        let is_assigned = |number: &i32| {
            assigned.is_some_and(|of| of.contains_key(&logway_model::PartitionId(*number)))
        };
        topic.partitions.iter().all(is_assigned)
    })
}

/// What a member wants by its request. What it does not say stays as it was; but one that joins says all of it, and wants
/// nothing that another wanted who had its instance id before.
fn updated(former: &Subscription, heartbeat: &Heartbeat) -> Subscription {
    let Heartbeat { request, client, .. } = heartbeat;
    let mut wanted = match GroupEpoch(request.member_epoch) {
        GroupEpoch::JOINING => {
            Subscription { instance_id: former.instance_id.clone(), ..Subscription::default() }
        }
        _ => former.clone(),
    };
    let replace = |text: &mut Option<Arc<str>>, by: Option<&str>| {
        if let Some(by) = by {
            *text = Some(by.into());
        }
    };
    if let Some(instance) = &request.instance_id {
        wanted.instance_id = Some(InstanceId::from(instance));
    }
    replace(&mut wanted.rack_id, request.rack_id.as_deref());
    replace(&mut wanted.pattern, request.subscribed_topic_regex.as_deref());
    if request.rebalance_timeout_ms != -1 {
        wanted.rebalance_timeout_ms = request.rebalance_timeout_ms;
    }
    if let Some(assignor) = &request.server_assignor {
        wanted.assignor = Some(ProtocolName::from(assignor));
    }
    if let Some(topics) = &request.subscribed_topic_names {
        wanted.topics = topics.iter().map(CommittedTopic::from).collect();
    }
    wanted.client_id = client.id.as_str().into();
    wanted.client_host = client.host.as_str().into();
    wanted.classic = None;
    wanted
}
