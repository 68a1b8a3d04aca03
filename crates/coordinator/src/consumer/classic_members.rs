//! Members of the classic protocol in a consumer group.
//!
//! They join, sync and say that they live as in a classic group, but nobody waits for anybody: each reply is made from
//! where the member is. Where it has something to give up or to take over, its heartbeat says REBALANCE_IN_PROGRESS; it
//! joins again, which is a step of [`reconcile`](super::reconcile), and syncs for what it has then.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use logway_model::{ErrorCode, PartitionId, TopicId};
use logway_wire::messages::consumer_group_heartbeat_request::TopicPartitions as Reported;
use logway_wire::messages::consumer_protocol_assignment::TopicPartition;
use logway_wire::messages::consumer_protocol_subscription::TopicPartition as OwnedPartition;
use logway_wire::messages::leave_group_request::MemberIdentity;
use logway_wire::messages::{
    ConsumerProtocolAssignment, ConsumerProtocolSubscription, HeartbeatRequest, HeartbeatResponse,
    JoinGroupResponse, LeaveGroupRequest, LeaveGroupResponse, SyncGroupRequest, SyncGroupResponse,
};
use logway_wire::{Encoder, Message, WireString};

use crate::cluster_view::ClusterView;
use crate::groups::Groups;
use crate::ids::{CommittedTopic, GroupId, InstanceId, MemberId, ProtocolName};
use crate::member::{Protocols, rebalance_timeout_ms};
use crate::membership::{Join, join_refusal, leave_outcome, sync_refusal};
use crate::memory::Growth;
use crate::request::{Reply, Request, RequestBody};
use crate::subscription::CONSUMER_PROTOCOL_TYPE;
use crate::timers::Timer;
use crate::turn::Turn;

use super::draft::Draft;
use super::member::{ClassicMember, Member, MemberState, Subscription};
use super::migration::{protocol_version, read_subscription};
use super::requests::{Work, is_for_room};

/// From this version on, a member has to come back with the id that it was given (KIP-394).
const MEMBER_ID_REQUIRED_VERSION: i16 = 4;

/// From this version on, LeaveGroup names several members (KIP-345).
const LEAVE_BATCH_VERSION: i16 = 3;

impl Groups {
    /// A request of the classic protocol to a consumer group.
    pub(crate) fn classic_to_consumers(&mut self, turn: &mut Turn, id: &GroupId, request: Request) {
        let Some(group) = self.consumer(id) else { return };
        let is_join = matches!(request.body, RequestBody::JoinGroup { .. });
        if is_join && group.is_empty() {
            return self.give_way_to_classic(turn, id, request);
        }
        let mut work = Work::new(Draft::new(id.clone(), group.clone()), turn, Growth::OfGroup);
        let Request { token, version, client, body } = request;
        let reply = match body {
            RequestBody::JoinGroup { request, fresh_id } => {
                let join = Join { token, version, client, request, fresh_id };
                let joined = work.attempt(turn, |draft, turn| Ok(draft.join_classic(turn, &join)?));
                match joined {
                    Ok(joined) => Reply::JoinGroup(joined),
                    Err(refusal) => {
                        let id = work.draft.member_id(&join.request.member_id);
                        if is_for_room(refusal.code) {
                            // It has done what a rebalance wants of it.
                            work.draft.await_rebalance(turn, &id);
                        }
                        let refusal = work.told(turn, &id, refusal);
                        join_refusal(&join.request.member_id, refusal.code)
                    }
                }
            }
            RequestBody::SyncGroup(request) => match work.draft.sync_classic(turn, &request) {
                Ok(synced) => Reply::SyncGroup(synced),
                Err(code) => sync_refusal(code),
            },
            RequestBody::Heartbeat(request) => {
                let code = work.draft.heartbeat_classic(turn, &request);
                let error_code = code.err().unwrap_or(ErrorCode::None).code();
                Reply::Heartbeat(HeartbeatResponse { error_code, ..Default::default() })
            }
            RequestBody::LeaveGroup(request) => {
                Reply::LeaveGroup(work.draft.leave_classic(turn, version, &request))
            }
            _ => return,
        };
        work.replies.push((token, reply));
        self.finish_work(turn, id, work);
    }
}

impl Draft {
    fn join_classic(
        &mut self,
        turn: &mut Turn,
        join: &Join,
    ) -> Result<JoinGroupResponse, ErrorCode> {
        let request = &join.request;
        let settings = turn.settings;
        let session_timeouts_ms = settings.session_timeout_min_ms..=settings.session_timeout_max_ms;
        if !session_timeouts_ms.contains(&request.session_timeout_ms) {
            return Err(ErrorCode::InvalidSessionTimeout);
        }
        let is_unknown = request.member_id.is_empty();
        let id = match is_unknown {
            true => MemberId::from(&*join.fresh_id.hyphenated()),
            false => self.member_id(&request.member_id),
        };
        let protocols = Protocols::from_request(&request.protocols).into_pairs();
        let said = self.check_protocols(&request.protocol_type, &protocols)?;
        let instance = request.group_instance_id.as_ref().map(InstanceId::from);
        if is_unknown && instance.is_none() && join.version >= MEMBER_ID_REQUIRED_VERSION {
            return Ok(JoinGroupResponse {
                error_code: ErrorCode::MemberIdRequired.code(),
                member_id: id.to_wire(),
                ..JoinGroupResponse::default()
            });
        }
        let former = self.find_classic(turn, &id, instance.as_ref(), is_unknown)?;
        self.check_room(turn, &id).map_err(|refusal| refusal.code)?;
        let name = protocols.first().map(|(name, _)| name.to_wire());
        let wanted = Subscription {
            instance_id: instance.or_else(|| former.subscription.instance_id.clone()),
            rack_id: said.rack_id.as_deref().filter(|rack| !rack.is_empty()).map(Into::into),
            client_id: join.client.id.as_str().into(),
            client_host: join.client.host.as_str().into(),
            topics: said.topics.iter().map(CommittedTopic::from).collect(),
            rebalance_timeout_ms: rebalance_timeout_ms(request),
            classic: Some(ClassicMember {
                session_timeout_ms: request.session_timeout_ms,
                protocols,
            }),
            ..Subscription::default()
        };
        let reported = reported(turn.view, &said.owned_partitions);
        let epoch_before = self.epoch();
        // It knows no patterns, so those of others are not looked up with its eyes.
        self.subscribe(turn, &id, &former, wanted, None).map_err(|refusal| refusal.code)?;
        self.assign(turn);
        let has_news = self.epoch() != epoch_before;
        let reconciled = self.reconcile(turn, &id, has_news, Some(&reported), true);
        reconciled.map_err(|refusal| refusal.code)?;
        let generation_id = self.member(id.as_str()).map_or(-1, |member| member.current.epoch.0);
        if !self.downgrade_if_due(turn) {
            self.reset_session(turn, &id);
            self.await_rebalance(turn, &id);
        }
        Ok(JoinGroupResponse {
            member_id: id.to_wire(),
            generation_id,
            protocol_type: Some(CONSUMER_PROTOCOL_TYPE.into()),
            protocol_name: name,
            ..JoinGroupResponse::default()
        })
    }

    /// Whether a member speaks what the others of its kind do, and what it says.
    fn check_protocols(
        &self,
        protocol_type: &str,
        protocols: &[(ProtocolName, Bytes)],
    ) -> Result<ConsumerProtocolSubscription, ErrorCode> {
        let classics =
            self.members().filter_map(|(_, member)| member.subscription.classic.as_ref());
        let mut count = 0;
        let mut speakers: HashMap<&ProtocolName, usize> = HashMap::new();
        for other in classics {
            count += 1;
            let names: HashSet<_> = other.protocols.iter().map(|(name, _)| name).collect();
            names.into_iter().for_each(|name| *speakers.entry(name).or_default() += 1);
        }
        let is_spoken =
            |(name, _): &(ProtocolName, Bytes)| speakers.get(name).copied().unwrap_or(0) == count;
        let first = protocols.first().filter(|_| protocol_type == CONSUMER_PROTOCOL_TYPE);
        let (_, metadata) = first.ok_or(ErrorCode::InconsistentGroupProtocol)?;
        if !protocols.iter().any(is_spoken) {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        read_subscription(metadata).map_err(|_malformed| ErrorCode::InconsistentGroupProtocol)
    }

    /// The member of a JoinGroup, as it was, or as it is when it is new.
    fn find_classic(
        &mut self,
        turn: &mut Turn,
        id: &MemberId,
        instance: Option<&InstanceId>,
        is_unknown: bool,
    ) -> Result<Member, ErrorCode> {
        let Some(instance) = instance else {
            return Ok(self.member(id.as_str()).cloned().unwrap_or_default());
        };
        let present = self.static_member(instance).map(|(id, member)| (id.clone(), member.clone()));
        match present {
            None if is_unknown => Ok(Member::default()),
            None => Err(ErrorCode::UnknownMemberId),
            Some((present_id, present)) if is_unknown => {
                Ok(self.replace_static(turn, &present_id, &present, id))
            }
            Some((present_id, _)) if present_id != *id => Err(ErrorCode::FencedInstanceId),
            Some((_, present)) => Ok(present),
        }
    }

    fn await_classic_unless_done(&self, turn: &mut Turn, id: &MemberId) {
        if !turn.timers.is_set(&Timer::Rebalance(self.id.clone(), id.clone())) {
            self.await_rebalance(turn, id);
        }
    }

    /// A member of the classic protocol, if it is who it says, in the generation that it says.
    fn check_classic(
        &self,
        id: &MemberId,
        instance: Option<&WireString>,
        generation: i32,
    ) -> Result<&Member, ErrorCode> {
        if let Some(instance) = instance.map(InstanceId::from) {
            let present = self.static_member(&instance);
            let (present, _) = present.ok_or(ErrorCode::UnknownMemberId)?;
            if present != id {
                return Err(ErrorCode::FencedInstanceId);
            }
        }
        let member = self.member(id.as_str()).ok_or(ErrorCode::UnknownMemberId)?;
        if member.subscription.classic.is_none() {
            return Err(ErrorCode::UnknownMemberId);
        }
        match member.current.epoch.0 == generation {
            true => Ok(member),
            false => Err(ErrorCode::IllegalGeneration),
        }
    }

    fn sync_classic(
        &self,
        turn: &mut Turn,
        request: &SyncGroupRequest,
    ) -> Result<SyncGroupResponse, ErrorCode> {
        let id = MemberId::from(&request.member_id);
        let instance = request.group_instance_id.as_ref();
        let member = self.check_classic(&id, instance, request.generation_id)?;
        let classic = member.subscription.classic.as_ref().ok_or(ErrorCode::UnknownMemberId)?;
        let is_type = |name: &WireString| name.as_str() == CONSUMER_PROTOCOL_TYPE;
        let first = classic.protocols.first().map(|(name, _)| name.as_str());
        let is_name = |name: &WireString| Some(name.as_str()) == first;
        if !request.protocol_type.as_ref().is_none_or(is_type)
            || !request.protocol_name.as_ref().is_none_or(is_name)
        {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        let is_revoking = member.current.state == MemberState::UnrevokedPartitions;
        if self.assignment_epoch() > member.current.epoch && !is_revoking {
            self.await_classic_unless_done(turn, &id);
            return Err(ErrorCode::RebalanceInProgress);
        }
        turn.timers.clear(Timer::Rebalance(self.id.clone(), id.clone()));
        self.reset_session(turn, &id);
        let version = protocol_version(classic);
        let assigned = member.current.assigned.iter();
        let partitions =
            assigned.map(|(topic, of)| (topic, of.keys().copied().collect::<Vec<_>>()));
        let partitions: Vec<_> = partitions.collect();
        Ok(SyncGroupResponse {
            protocol_type: request.protocol_type.clone(),
            protocol_name: request.protocol_name.clone(),
            assignment: encode_assignment(
                turn.view,
                partitions.iter().map(|(topic, of)| (*topic, of)),
                version,
            ),
            ..SyncGroupResponse::default()
        })
    }

    fn heartbeat_classic(
        &self,
        turn: &mut Turn,
        request: &HeartbeatRequest,
    ) -> Result<(), ErrorCode> {
        let id = MemberId::from(&request.member_id);
        let instance = request.group_instance_id.as_ref();
        let member = self.check_classic(&id, instance, request.generation_id)?;
        self.reset_session(turn, &id);
        let is_behind = member.current.epoch < self.assignment_epoch();
        let has_a_step = match member.current.state {
            MemberState::Stable => false,
            MemberState::UnreleasedPartitions => !self.waits_for_others(&id, member),
            MemberState::UnrevokedPartitions | MemberState::Unknown => true,
        };
        if !is_behind && !has_a_step {
            return Ok(());
        }
        self.await_classic_unless_done(turn, &id);
        Err(ErrorCode::RebalanceInProgress)
    }

    /// Whether others have yet to give up something that a member shall have.
    fn waits_for_others(&self, id: &MemberId, member: &Member) -> bool {
        let target = self.target(id.as_str()).map(|target| &**target);
        target.into_iter().flatten().any(|(topic, partitions)| {
            let has = member.current.assigned.get(topic);
            let is_missing = |number: &&PartitionId| !has.is_some_and(|of| of.contains_key(number));
            let missing = partitions.iter().filter(is_missing);
            missing.into_iter().any(|number| self.owner(*topic, *number).is_some())
        })
    }

    fn leave_classic(
        &mut self,
        turn: &mut Turn,
        version: i16,
        request: &LeaveGroupRequest,
    ) -> LeaveGroupResponse {
        let single =
            [MemberIdentity { member_id: request.member_id.clone(), ..MemberIdentity::default() }];
        let leaving = match version >= LEAVE_BATCH_VERSION {
            true => &*request.members,
            false => &single,
        };
        let mut gone = Vec::new();
        let mut outcomes = Vec::new();
        for identity in leaving {
            let code = match self.find_leaving_classic(identity) {
                Ok(id) => {
                    gone.push(id);
                    ErrorCode::None
                }
                Err(code) => code,
            };
            outcomes.push(leave_outcome(identity, code));
        }
        gone.sort();
        gone.dedup();
        if !gone.is_empty() {
            self.fence(turn, &gone);
        }
        if version < LEAVE_BATCH_VERSION {
            let error_code = outcomes.first().map_or(0, |outcome| outcome.error_code);
            return LeaveGroupResponse { error_code, ..LeaveGroupResponse::default() };
        }
        LeaveGroupResponse { members: outcomes, ..LeaveGroupResponse::default() }
    }

    fn find_leaving_classic(&self, identity: &MemberIdentity) -> Result<MemberId, ErrorCode> {
        let id = MemberId::from(&identity.member_id);
        let Some(instance) = identity.group_instance_id.as_ref().map(InstanceId::from) else {
            let is_member = self.member(id.as_str()).is_some();
            return if is_member { Ok(id) } else { Err(ErrorCode::UnknownMemberId) };
        };
        match self.static_member(&instance) {
            None => Err(ErrorCode::UnknownMemberId),
            // Operators remove static members by their instance alone.
            Some((present, _)) if id.as_str().is_empty() || *present == id => Ok(present.clone()),
            Some(_) => Err(ErrorCode::FencedInstanceId),
        }
    }
}

/// What a member of the classic protocol says that it has.
fn reported(view: &dyn ClusterView, owned: &[OwnedPartition]) -> Vec<Reported> {
    let topics = owned.iter().filter_map(|owned| {
        let topic_id = view.topic(&owned.topic)?.id.0;
        Some(Reported { topic_id, partitions: owned.partitions.clone(), ..Reported::default() })
    });
    topics.collect()
}

/// What a member of the classic protocol is assigned, as a leader would have written it.
pub(super) fn encode_assignment<'a, P>(
    view: &dyn ClusterView,
    topics: impl Iterator<Item = (&'a TopicId, &'a P)>,
    version: i16,
) -> Bytes
where
    P: 'a,
    &'a P: IntoIterator<Item = &'a PartitionId>,
{
    let assigned = topics.filter_map(|(topic, partitions)| {
        Some(TopicPartition {
            topic: WireString::copy_of(&view.topic_name(*topic)?),
            partitions: partitions.into_iter().map(|partition| partition.0).collect(),
            ..TopicPartition::default()
        })
    });
    let assignment = ConsumerProtocolAssignment {
        assigned_partitions: assigned.collect(),
        ..ConsumerProtocolAssignment::default()
    };
    let mut to = Encoder::new();
    to.i16(version);
    assignment
        .encode(&mut to, version)
        .expect("names of topics are short, and the version is known");
    to.into_bytes().expect("it holds no records")
}
