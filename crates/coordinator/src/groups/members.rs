//! What members ask: the checks in front of the group, and finding it.

use logway_model::ErrorCode;
use logway_wire::messages::leave_group_request::MemberIdentity;
use logway_wire::messages::{
    HeartbeatRequest, HeartbeatResponse, LeaveGroupRequest, LeaveGroupResponse, SyncGroupRequest,
};

use crate::consumer::Waiting;
use crate::ids::GroupId;
use crate::membership::{Join, join_refusal, leave_outcome, sync_refusal};
use crate::memory::Growth;
use crate::request::{Reply, Request, RequestBody, RequestToken};
use crate::turn::Turn;

use super::Groups;

/// From this version on, LeaveGroup names several members (KIP-345).
const LEAVE_BATCH_VERSION: i16 = 3;

impl Groups {
    /// A request of the classic protocol. It waits where the group is about to become a consumer group, or to cease to
    /// be one.
    pub(crate) fn classic_in_turn(&mut self, turn: &mut Turn, request: Request) {
        let Some(group) = request.body.member_of().map(GroupId::from) else { return };
        if turn.outbox.has_consumer_group_in_flight(&group) || self.waiting.contains_key(&group) {
            self.work_on_consumers(turn, &group, Waiting::Request(Box::new(request)));
        } else {
            self.classic_request(turn, request);
        }
    }

    /// The same where nothing is on its way that could change what kind of group it is.
    pub(crate) fn classic_request(&mut self, turn: &mut Turn, request: Request) {
        let Some(group) = request.body.member_of().map(GroupId::from) else { return };
        if self.consumer(&group).is_some() {
            return self.classic_to_consumers(turn, &group, request);
        }
        if self.streams(&group).is_some() {
            return self.classic_to_streams(turn, &group, request);
        }
        let Request { token, version, client, body } = request;
        match body {
            RequestBody::JoinGroup { request, fresh_id } => {
                self.join(turn, Join { token, version, client, request, fresh_id });
            }
            RequestBody::SyncGroup(request) => self.sync(turn, token, &request),
            RequestBody::Heartbeat(request) => self.heartbeat(turn, token, &request),
            RequestBody::LeaveGroup(request) => self.leave(turn, token, version, &request),
            _ => {}
        }
    }

    /// JoinGroup.
    fn join(&mut self, turn: &mut Turn, join: Join) {
        let request = &join.request;
        let settings = turn.settings;
        let session_timeouts_ms = settings.session_timeout_min_ms..=settings.session_timeout_max_ms;
        let group_id = GroupId::from(&request.group_id);
        let is_known = self.by_id.contains_key(&group_id);
        let refused = if request.group_id.is_empty() {
            Some(ErrorCode::InvalidGroupId)
        } else if !session_timeouts_ms.contains(&request.session_timeout_ms) {
            Some(ErrorCode::InvalidSessionTimeout)
        } else if !is_known && !request.member_id.is_empty() {
            Some(ErrorCode::UnknownMemberId)
        } else if !is_known && self.by_id.len() >= settings.groups_max {
            Some(ErrorCode::PolicyViolation)
        } else {
            None
        };
        if let Some(code) = refused {
            turn.reply(join.token, join_refusal(&request.member_id, code));
            return;
        }
        let growth = if is_known { Growth::OfGroup } else { Growth::New };
        let (group, _) = self.get_or_insert(&group_id);
        group.membership.join(turn, join, growth);
    }

    /// SyncGroup.
    fn sync(&mut self, turn: &mut Turn, token: RequestToken, request: &SyncGroupRequest) {
        match self.find_members(&request.group_id) {
            Ok(group) => group.membership.sync(turn, token, request),
            Err(code) => turn.reply(token, sync_refusal(code)),
        }
    }

    /// Heartbeat.
    fn heartbeat(&mut self, turn: &mut Turn, token: RequestToken, request: &HeartbeatRequest) {
        let alive = self
            .find_members(&request.group_id)
            .and_then(|group| group.membership.heartbeat(turn, request));
        let error_code = alive.err().unwrap_or(ErrorCode::None).code();
        let response = HeartbeatResponse { error_code, ..HeartbeatResponse::default() };
        turn.reply(token, Reply::Heartbeat(response));
    }

    /// LeaveGroup.
    fn leave(
        &mut self,
        turn: &mut Turn,
        token: RequestToken,
        version: i16,
        request: &LeaveGroupRequest,
    ) {
        let single =
            [MemberIdentity { member_id: request.member_id.clone(), ..MemberIdentity::default() }];
        let leaving = match version >= LEAVE_BATCH_VERSION {
            true => &*request.members,
            false => &single,
        };
        let mark = turn.outbox.appends();
        let mut response = match self.find_members(&request.group_id) {
            Ok(group) => group.membership.leave(turn, leaving),
            Err(ErrorCode::UnknownMemberId) => {
                let outcomes = leaving
                    .iter()
                    .map(|identity| leave_outcome(identity, ErrorCode::UnknownMemberId));
                LeaveGroupResponse { members: outcomes.collect(), ..LeaveGroupResponse::default() }
            }
            Err(code) => {
                LeaveGroupResponse { error_code: code.code(), ..LeaveGroupResponse::default() }
            }
        };
        if version < LEAVE_BATCH_VERSION {
            // There the error of the one member is the error of the request.
            let outcomes = std::mem::take(&mut response.members);
            let code = outcomes.first().map_or(0, |outcome| outcome.error_code);
            response.error_code = if response.error_code == 0 { code } else { response.error_code };
        }
        // That a group is empty is for the log to know before the last member goes.
        turn.outbox.reply_after(mark, token, Reply::LeaveGroup(response));
    }

    /// The group that a member speaks of, or the error if it cannot be a member.
    fn find_members(&mut self, group_id: &str) -> Result<&mut super::Group, ErrorCode> {
        if group_id.is_empty() {
            return Err(ErrorCode::InvalidGroupId);
        }
        self.by_id.get_mut(group_id).ok_or(ErrorCode::UnknownMemberId)
    }
}

/// The answer to a LeaveGroup that does not reach its group.
pub(crate) fn leave_refusal(code: ErrorCode) -> Reply {
    Reply::LeaveGroup(LeaveGroupResponse {
        error_code: code.code(),
        ..LeaveGroupResponse::default()
    })
}
