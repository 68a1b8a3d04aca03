//! JoinGroup.

use logway_model::{ErrorCode, Uuid};
use logway_wire::WireString;
use logway_wire::messages::join_group_response::JoinGroupResponseMember;
use logway_wire::messages::{JoinGroupRequest, JoinGroupResponse};

use crate::groups::new_group_bytes;
use crate::ids::{self, InstanceId, MemberId};
use crate::member::{Member, Protocols, rebalance_timeout_ms};
use crate::memory::Growth;
use crate::request::{Client, Reply, RequestToken};
use crate::timers::Timer;
use crate::turn::Turn;

use super::{GroupState, MEMBER_BYTES, Membership};

/// From this version on, a member has to come back with the id that it was given (KIP-394).
const MEMBER_ID_REQUIRED_VERSION: i16 = 4;

/// How much of a client's words goes into ids and log lines.
const EXCERPT_BYTES: usize = 255;

/// A JoinGroup that the group has to answer.
#[derive(Debug)]
pub(crate) struct Join {
    pub(crate) token: RequestToken,
    pub(crate) version: i16,
    pub(crate) client: Client,
    pub(crate) request: JoinGroupRequest,
    pub(crate) fresh_id: Uuid,
}

impl Join {
    pub(super) fn reason(&self) -> &str {
        self.request.reason.as_deref().map_or("not provided", excerpt)
    }

    /// An id that no other member has, and that tells people whose it is.
    fn new_member_id(&self) -> MemberId {
        let prefix = self.request.group_instance_id.as_ref().unwrap_or(&self.client.id);
        MemberId::from(&*format!("{}-{}", excerpt(prefix), self.fresh_id.hyphenated()))
    }
}

/// The beginning of a client's words.
pub(super) fn excerpt(text: &str) -> &str {
    ids::excerpt(text, EXCERPT_BYTES)
}

/// The answer to a JoinGroup that is refused.
pub(crate) fn refusal(member_id: &str, code: ErrorCode) -> Reply {
    Reply::JoinGroup(JoinGroupResponse {
        error_code: code.code(),
        member_id: WireString::copy_of(member_id),
        ..JoinGroupResponse::default()
    })
}

impl Membership {
    /// Handles a JoinGroup; whoever says who they are must be known. `growth` says whether the group is new.
    pub(crate) fn join(&mut self, turn: &mut Turn, join: Join, growth: Growth) {
        let member_id = join.request.member_id.as_str();
        let protocols = Protocols::from_request(&join.request.protocols);
        if !self.has_room_for(turn, member_id) {
            turn.reply(join.token, refusal("", ErrorCode::GroupMaxSizeReached));
            self.remove(turn, member_id);
            self.complete_join_if_all_are_here(turn);
        } else if !self.speaks(&join.request, &protocols) {
            turn.reply(join.token, refusal(member_id, ErrorCode::InconsistentGroupProtocol));
        } else if let Err(code) = self.check_size(turn, &join, &protocols, growth) {
            turn.reply(join.token, refusal(member_id, code));
        } else if member_id.is_empty() {
            self.join_new(turn, join, protocols);
        } else {
            self.join_again(turn, join, protocols);
        }
    }

    /// Whether the group takes this member, or one more (KIP-389).
    fn has_room_for(&self, turn: &Turn, member_id: &str) -> bool {
        let size_max = turn.settings.group_size_max;
        match self.state {
            GroupState::Empty => self.pending_join.len() < size_max || self.is_pending(member_id),
            // Whoever does not wait yet may be one too many of a group that was larger once.
            GroupState::PreparingRebalance => {
                let waits = |member: &Member| member.awaiting_join.is_some();
                self.roster.get(member_id).is_some_and(waits)
                    || self.roster.awaiting_join() < size_max
                        && (!member_id.is_empty() || self.size() < size_max)
            }
            GroupState::CompletingRebalance | GroupState::Stable => {
                self.roster.contains(member_id)
                    || self.is_pending(member_id) && self.roster.len() < size_max
                    || self.size() < size_max
            }
        }
    }

    /// The members with those that were only given an id.
    fn size(&self) -> usize {
        self.roster.len() + self.pending_join.len()
    }

    fn is_pending(&self, member_id: &str) -> bool {
        self.pending_join.contains(member_id)
    }

    /// Whether the member's kind is the group's, and they have a protocol in common.
    fn speaks(&self, request: &JoinGroupRequest, protocols: &Protocols) -> bool {
        let protocol_type = request.protocol_type.as_str();
        match self.state {
            GroupState::Empty => !protocol_type.is_empty() && !protocols.is_empty(),
            _ => {
                self.protocol_type.as_ref().is_some_and(|own| own.as_str() == protocol_type)
                    && self.roster.has_common_protocol(protocols)
            }
        }
    }

    fn check_size(
        &self,
        turn: &mut Turn,
        join: &Join,
        protocols: &Protocols,
        growth: Growth,
    ) -> Result<(), ErrorCode> {
        let id = MemberId::from(&join.request.member_id);
        let joining = Member::new(id, &join.client, &join.request, protocols.clone()).held_bytes();
        if joining > turn.settings.member_bytes_max {
            return Err(ErrorCode::PolicyViolation);
        }
        let present = self.roster.get(&join.request.member_id).map_or(0, Member::held_bytes);
        if self.roster.held_bytes() - present + joining > turn.settings.group_bytes_max {
            return Err(ErrorCode::GroupMaxSizeReached);
        }
        let group_bytes = match growth {
            Growth::New => new_group_bytes(self.group.as_str()),
            Growth::OfGroup => 0,
        };
        // The first member says what kind of group it is.
        let kind_bytes = match self.roster.is_empty() {
            true => join.request.protocol_type.len().saturating_sub(self.kind_bytes()),
            false => 0,
        };
        let member_bytes = if present == 0 { MEMBER_BYTES } else { 0 };
        let growth_bytes =
            joining.saturating_sub(present) + member_bytes + group_bytes + kind_bytes;
        match turn.reserve(growth_bytes, growth) {
            true => Ok(()),
            false => Err(ErrorCode::CoordinatorLoadInProgress),
        }
    }

    /// A member without an id: gets one, and joins with it at once or after coming back.
    fn join_new(&mut self, turn: &mut Turn, join: Join, protocols: Protocols) {
        let member_id = join.new_member_id();
        let instance_id = join.request.group_instance_id.as_ref().map(InstanceId::from);
        if let Some(instance_id) = instance_id {
            match self.roster.static_id(instance_id.as_str()).cloned() {
                Some(former_id) => {
                    self.replace_static(turn, join, protocols, instance_id, former_id, member_id);
                }
                None => self.add(turn, join, protocols, member_id),
            }
        } else if join.version >= MEMBER_ID_REQUIRED_VERSION {
            let session = Timer::Session(self.group.clone(), member_id.clone());
            turn.set_timer(session, join.request.session_timeout_ms.unsigned_abs().into());
            turn.reply(join.token, refusal(member_id.as_str(), ErrorCode::MemberIdRequired));
            self.pending_join.insert(member_id);
        } else {
            self.add(turn, join, protocols, member_id);
        }
    }

    fn add(&mut self, turn: &mut Turn, join: Join, protocols: Protocols, member_id: MemberId) {
        if let Some(initial) = &mut self.initial_rebalance {
            initial.member_added = true;
        }
        if self.roster.is_empty() {
            self.protocol_type = Some((&join.request.protocol_type).into());
        }
        self.pending_join.remove(&member_id);
        self.leader.get_or_insert_with(|| member_id.clone());
        let mut member = Member::new(member_id.clone(), &join.client, &join.request, protocols);
        member.awaiting_join = Some(join.token);
        self.roster.insert(member);
        // Its client cannot send heartbeats before it has the reply, and may have given up on it: it gets time,
        // but not for ever, as it would ask again.
        let session = Timer::Session(self.group.clone(), member_id.clone());
        turn.set_timer(session, turn.settings.new_member_join_timeout_ms.into());
        let reason = format!("adding member {member_id}, client's reason: {}", join.reason());
        self.rebalance_or_complete_join(turn, &reason);
    }

    /// A member that says who it is.
    fn join_again(&mut self, turn: &mut Turn, join: Join, protocols: Protocols) {
        let member_id = MemberId::from(&join.request.member_id);
        let instance_id = join.request.group_instance_id.as_deref();
        if self.pending_join.contains(&member_id) {
            match instance_id {
                None => self.add(turn, join, protocols, member_id),
                // Only members without an instance id are given ids to come back with.
                Some(_) => {
                    let refused = refusal(member_id.as_str(), ErrorCode::InvalidRequest);
                    turn.reply(join.token, refused);
                }
            }
            return;
        }
        if let Err(code) = self.check_member(member_id.as_str(), instance_id) {
            turn.reply(join.token, refusal(member_id.as_str(), code));
            return;
        }
        let is_leader = self.is_leader(member_id.as_str());
        let is_same =
            self.roster.get(member_id.as_str()).is_some_and(|known| known.protocols == protocols);
        let is_repetition = match self.state {
            // A group with a member is not empty.
            GroupState::Empty | GroupState::PreparingRebalance => false,
            // It may not have received the answer.
            GroupState::CompletingRebalance => is_same,
            // A leader comes back to assign anew: something may have changed that its metadata does not show.
            GroupState::Stable => is_same && !is_leader,
        };
        if is_repetition {
            let joined = self.joined(&member_id);
            turn.reply(join.token, Reply::JoinGroup(joined));
        } else {
            let reason = format!("{member_id} joins again, client's reason: {}", join.reason());
            self.update(turn, &member_id, &join, protocols);
            self.rebalance_or_complete_join(turn, &reason);
        }
    }

    /// Takes over what the member says now, and lets its request wait.
    pub(super) fn update(
        &mut self,
        turn: &mut Turn,
        member_id: &MemberId,
        join: &Join,
        protocols: Protocols,
    ) {
        let replaced = self.roster.change(member_id.as_str(), |member| {
            member.protocols = protocols;
            member.rebalance_timeout_ms = rebalance_timeout_ms(&join.request);
            member.session_timeout_ms = join.request.session_timeout_ms;
            member.awaiting_join.replace(join.token)
        });
        if let Some(earlier) = replaced.flatten() {
            // Nobody waits for the earlier one any more, or they would not ask again.
            turn.reply(earlier, refusal(member_id.as_str(), ErrorCode::RebalanceInProgress));
        }
    }

    /// The answer to a member of the current generation.
    pub(super) fn joined(&self, member_id: &MemberId) -> JoinGroupResponse {
        let members = match self.is_leader(member_id.as_str()) {
            true => self.roster.members().map(|member| self.told_to_leader(member)).collect(),
            false => Vec::new(),
        };
        JoinGroupResponse {
            generation_id: self.generation,
            protocol_type: self.protocol_type.as_ref().map(|name| name.to_wire()),
            protocol_name: Some(
                self.protocol.as_ref().map(|name| name.to_wire()).unwrap_or_default(),
            ),
            leader: self.leader.as_ref().map(MemberId::to_wire).unwrap_or_default(),
            member_id: member_id.to_wire(),
            members,
            ..JoinGroupResponse::default()
        }
    }

    fn told_to_leader(&self, member: &Member) -> JoinGroupResponseMember {
        JoinGroupResponseMember {
            member_id: member.id.to_wire(),
            group_instance_id: member.instance_id.as_ref().map(InstanceId::to_wire),
            metadata: member.protocols.metadata(self.protocol.as_ref()),
            ..JoinGroupResponseMember::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_members_tell_whose_they_are() {
        let fresh_id = Uuid::from_random([0xab; 16]);
        let join = |client: &str, instance: Option<&'static str>| Join {
            token: RequestToken(0),
            version: 9,
            client: Client { id: WireString::copy_of(client), host: WireString::new() },
            request: JoinGroupRequest {
                group_instance_id: instance.map(WireString::from),
                ..JoinGroupRequest::default()
            },
            fresh_id,
        };
        let id = |client: &str, instance| join(client, instance).new_member_id().to_string();
        assert_eq!(id("app", None), "app-abababab-abab-4bab-abab-abababababab");
        assert_eq!(id("app", Some("one")), "one-abababab-abab-4bab-abab-abababababab");
        // No longer than a string on the wire can be, and cut between characters.
        assert_eq!(id(&"ü".repeat(20_000), None).len(), 254 + 37);
    }
}
