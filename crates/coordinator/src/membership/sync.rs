//! SyncGroup.

use std::collections::BTreeMap;

use bytes::Bytes;
use logway_model::ErrorCode;
use logway_wire::WireString;
use logway_wire::messages::{SyncGroupRequest, SyncGroupResponse};

use crate::ids::{MemberId, ProtocolName};
use crate::member::Member;
use crate::memory::Growth;
use crate::outbox::Then;
use crate::record::GroupMetadata;
use crate::request::{Reply, RequestToken};
use crate::timers::Timer;
use crate::turn::Turn;

use super::{GroupState, Membership};

/// An assignment counts with the members and with the record of the group.
const COPIES: usize = 2;

/// The answer to a SyncGroup that is refused.
pub(crate) fn refusal(code: ErrorCode) -> Reply {
    Reply::SyncGroup(SyncGroupResponse { error_code: code.code(), ..SyncGroupResponse::default() })
}

impl Membership {
    /// Handles a SyncGroup: at once if the group is stable, else when the leader's assignment is in the log.
    pub(crate) fn sync(
        &mut self,
        turn: &mut Turn,
        token: RequestToken,
        request: &SyncGroupRequest,
    ) {
        if let Err(code) = self.check_sync(request) {
            turn.reply(token, refusal(code));
            return;
        }
        let member_id = MemberId::from(&request.member_id);
        self.pending_sync.remove(&member_id);
        if self.pending_sync.is_empty() {
            turn.timers.clear(Timer::Sync(self.group.clone()));
        }
        if self.state == GroupState::Stable {
            let assignment = self.roster.get(member_id.as_str()).map(|member| &member.assignment);
            let assignment = assignment.cloned().unwrap_or_default();
            turn.reply(token, Reply::SyncGroup(self.synced(assignment)));
            return;
        }
        let replaced = self
            .roster
            .change(member_id.as_str(), |member| member.awaiting_sync.replace(token))
            .flatten();
        if let Some(earlier) = replaced {
            turn.reply(earlier, refusal(ErrorCode::RebalanceInProgress));
        }
        // Sent again, the first one counts: two of one generation in the log could differ.
        let is_on_its_way = self.generation_in_flight == Some(self.generation);
        if self.is_leader(member_id.as_str()) && !is_on_its_way {
            self.store_assignment(turn, request);
        }
    }

    fn check_sync(&self, request: &SyncGroupRequest) -> Result<(), ErrorCode> {
        let instance_id = request.group_instance_id.as_deref();
        self.check_generation(&request.member_id, instance_id, request.generation_id)?;
        let differs = |asked: &Option<WireString>, own: &Option<ProtocolName>| {
            asked.as_ref().zip(own.as_ref()).is_some_and(|(asked, own)| asked != own.as_str())
        };
        if differs(&request.protocol_type, &self.protocol_type)
            || differs(&request.protocol_name, &self.protocol)
        {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        match self.state {
            GroupState::Empty => Err(ErrorCode::UnknownMemberId),
            GroupState::PreparingRebalance => Err(ErrorCode::RebalanceInProgress),
            GroupState::CompletingRebalance | GroupState::Stable => Ok(()),
        }
    }

    /// Sends the leader's assignment to the log. Members that it does not mention get none.
    fn store_assignment(&mut self, turn: &mut Turn, request: &SyncGroupRequest) {
        let assigned: BTreeMap<&str, &Bytes> = request
            .assignments
            .iter()
            .map(|assigned| (assigned.member_id.as_str(), &assigned.assignment))
            .collect();
        let assignment_of = |member: &Member| {
            // A copy, because the request's frame holds more than that.
            let assignment = assigned.get(member.id.as_str());
            assignment.map(|bytes| Bytes::copy_from_slice(bytes)).unwrap_or_default()
        };
        let members = self.roster.members();
        let assigned_bytes: usize = members
            .map(|member| assigned.get(member.id.as_str()).map_or(0, |bytes| bytes.len()))
            .sum();
        if self.roster.held_bytes() + assigned_bytes > turn.settings.group_bytes_max {
            let generation = self.generation;
            // As if the log had refused it.
            self.assignment_stored(turn, generation, Err(ErrorCode::UnknownServerError), None);
            return;
        }
        let present_bytes: usize =
            self.roster.members().map(|member| member.assignment.len()).sum();
        let growth_bytes = COPIES * assigned_bytes.saturating_sub(present_bytes);
        let Some(held) = turn.memory.try_hold(growth_bytes, Growth::OfGroup) else {
            let generation = self.generation;
            // At any other error members would give up.
            self.assignment_stored(turn, generation, Err(ErrorCode::RebalanceInProgress), None);
            return;
        };
        let record = self.record(assignment_of);
        self.generation_in_flight = Some(self.generation);
        let then =
            Then::AssignmentStored { group: self.group.clone(), generation: self.generation };
        turn.append_held(vec![record], then, held);
    }

    /// The assignment is in the log, or could not be written.
    pub(crate) fn assignment_stored(
        &mut self,
        turn: &mut Turn,
        generation: i32,
        outcome: Result<(), ErrorCode>,
        metadata: Option<&GroupMetadata>,
    ) {
        if self.generation_in_flight == Some(generation) {
            self.generation_in_flight = None;
        }
        // Another rebalance may have begun meanwhile.
        if self.state != GroupState::CompletingRebalance || self.generation != generation {
            return;
        }
        match (outcome, metadata) {
            (Ok(()), Some(metadata)) => {
                let stored: BTreeMap<&MemberId, &Bytes> = metadata
                    .members
                    .iter()
                    .map(|member| (&member.member_id, &member.assignment))
                    .collect();
                self.hand_out(turn, |member_id| {
                    stored.get(member_id).copied().cloned().unwrap_or_default()
                });
                self.move_to(GroupState::Stable, turn.now.wall);
            }
            (outcome, _) => {
                let code = outcome.err().unwrap_or(ErrorCode::UnknownServerError);
                self.refuse_syncs(turn, code);
                // They have their answer; there is nobody to be told of the rebalance.
                self.prepare_rebalance(turn, "the assignment could not be stored");
            }
        }
    }

    /// Sets everybody's assignment, and answers those that wait for theirs.
    fn hand_out(&mut self, turn: &mut Turn, assignment_of: impl Fn(&MemberId) -> Bytes) {
        for member_id in self.roster.ids() {
            let assignment = assignment_of(&member_id);
            let waiting = self.roster.change(member_id.as_str(), |member| {
                member.assignment = assignment.clone();
                member.awaiting_sync.take()
            });
            let Some(token) = waiting.flatten() else { continue };
            turn.reply(token, Reply::SyncGroup(self.synced(assignment)));
            // Its session may have expired while it was excused.
            self.reset_session(turn, &member_id);
        }
    }

    /// Refuses those that wait for their assignments.
    ///
    /// What was assigned before stays, and so does the memory for it: another group could take that, and this one would
    /// never get an assignment again.
    pub(super) fn refuse_syncs(&mut self, turn: &mut Turn, code: ErrorCode) {
        for member_id in self.roster.ids() {
            let take = |member: &mut Member| member.awaiting_sync.take();
            let Some(token) = self.roster.change(member_id.as_str(), take).flatten() else {
                continue;
            };
            turn.reply(token, refusal(code));
            self.reset_session(turn, &member_id);
        }
    }

    fn synced(&self, assignment: Bytes) -> SyncGroupResponse {
        SyncGroupResponse {
            protocol_type: self.protocol_type.as_ref().map(|name| name.to_wire()),
            protocol_name: self.protocol.as_ref().map(|name| name.to_wire()),
            assignment,
            ..SyncGroupResponse::default()
        }
    }
}
