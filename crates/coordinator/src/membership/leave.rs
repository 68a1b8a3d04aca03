//! LeaveGroup.

use logway_model::ErrorCode;
use logway_wire::messages::LeaveGroupResponse;
use logway_wire::messages::leave_group_request::MemberIdentity;
use logway_wire::messages::leave_group_response::MemberResponse;
use tracing::info;

use crate::turn::Turn;

use super::{GroupState, Membership, join};

/// The answer about a member.
pub(crate) fn outcome(identity: &MemberIdentity, code: ErrorCode) -> MemberResponse {
    MemberResponse {
        member_id: identity.member_id.clone(),
        group_instance_id: identity.group_instance_id.clone(),
        error_code: code.code(),
        ..MemberResponse::default()
    }
}

impl Membership {
    /// Takes members out, each by itself, and lets the others rebalance once.
    pub(crate) fn leave(
        &mut self,
        turn: &mut Turn,
        leaving: &[MemberIdentity],
    ) -> LeaveGroupResponse {
        let mut response = LeaveGroupResponse::default();
        let mut has_left = false;
        for identity in leaving {
            let code = self.leave_one(turn, identity).err().unwrap_or(ErrorCode::None);
            has_left |= !code.is_error();
            response.members.push(outcome(identity, code));
        }
        if has_left {
            match self.state {
                GroupState::Stable | GroupState::CompletingRebalance => {
                    self.prepare_rebalance(turn, "members have left");
                }
                GroupState::PreparingRebalance => self.complete_join_if_all_are_here(turn),
                GroupState::Empty => {}
            }
        }
        response
    }

    fn leave_one(&mut self, turn: &mut Turn, identity: &MemberIdentity) -> Result<(), ErrorCode> {
        let instance_id = identity.group_instance_id.as_deref();
        let member_id = match identity.member_id.as_str() {
            // An operator takes a static member out, whose id is not known outside.
            "" => instance_id
                .and_then(|instance_id| self.roster.static_id(instance_id))
                .cloned()
                .ok_or(ErrorCode::UnknownMemberId)?,
            member_id => {
                if !self.pending_join.contains(member_id) {
                    self.check_member(member_id, instance_id)?;
                }
                member_id.into()
            }
        };
        let reason = identity.reason.as_deref().map_or("not provided", join::excerpt);
        info!(group = %self.group, member = %member_id, ?reason, "leaves");
        self.remove(turn, member_id.as_str());
        Ok(())
    }
}
