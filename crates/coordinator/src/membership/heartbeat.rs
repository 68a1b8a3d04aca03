//! Heartbeats, and what happens when they stay away.

use logway_model::ErrorCode;
use logway_wire::messages::HeartbeatRequest;
use tracing::info;

use crate::ids::MemberId;
use crate::turn::Turn;

use super::{GroupState, Membership};

impl Membership {
    /// Handles a heartbeat; the error is the answer.
    pub(crate) fn heartbeat(
        &mut self,
        turn: &mut Turn,
        request: &HeartbeatRequest,
    ) -> Result<(), ErrorCode> {
        let instance_id = request.group_instance_id.as_deref();
        self.check_generation(&request.member_id, instance_id, request.generation_id)?;
        self.reset_session(turn, &MemberId::from(&request.member_id));
        match self.state {
            // This is how members learn that they have to join.
            GroupState::PreparingRebalance => Err(ErrorCode::RebalanceInProgress),
            _ => Ok(()),
        }
    }

    /// A commit of a member, which is a sign of life.
    pub(crate) fn note_commit(&mut self, turn: &mut Turn, member_id: &str) {
        if matches!(self.state, GroupState::Stable | GroupState::PreparingRebalance) {
            self.reset_session(turn, &MemberId::from(member_id));
        }
    }

    /// A member, or one that was only given an id, has not been heard of for too long.
    pub(crate) fn session_expired(&mut self, turn: &mut Turn, member_id: &MemberId) {
        if self.pending_join.contains(member_id) {
            info!(group = %self.group, member = %member_id, "has not come back with its id");
            self.remove(turn, member_id.as_str());
            self.complete_join_after_expiry(turn);
            return;
        }
        match self.roster.get(member_id.as_str()) {
            Some(member) if !member.is_excused() => {}
            _ => return,
        }
        info!(group = %self.group, member = %member_id, "has not been heard of in time");
        self.remove(turn, member_id.as_str());
        match self.state {
            GroupState::Stable | GroupState::CompletingRebalance => {
                self.prepare_rebalance(turn, &format!("the session of {member_id} has expired"));
            }
            GroupState::PreparingRebalance => self.complete_join_after_expiry(turn),
            GroupState::Empty => {}
        }
    }
}
