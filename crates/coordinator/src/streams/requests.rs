//! What works on a streams group: requests of its members, timers, and news of the cluster.
//!
//! They wait for each other as those of a [consumer group](crate::consumer) do, in the same queue.

use std::collections::VecDeque;

use logway_model::ErrorCode;
use logway_wire::messages::StreamsGroupHeartbeatRequest;

use crate::consumer::{
    Draft, GroupEpoch, MemberState, Refusal, Waiting, Work, is_for_room, of_member,
};
use crate::groups::Groups;
use crate::ids::GroupId;
use crate::membership::GroupState;
use crate::memory::Growth;
use crate::record::GroupRecord;
use crate::request::{Reply, Request, RequestBody};
use crate::turn::Turn;

use super::check::{check, said};
use super::group::StreamsGroup;
use super::heartbeat::refused;
use super::member::CurrentTasks;

impl Groups {
    /// StreamsGroupHeartbeat.
    pub(crate) fn streams_heartbeat(&mut self, turn: &mut Turn, request: Request) {
        let RequestBody::StreamsGroupHeartbeat(heartbeat) = &request.body else { return };
        if let Err(refusal) = check(heartbeat) {
            turn.reply(request.token, refused(refusal));
            return;
        }
        let group = GroupId::from(&heartbeat.group_id);
        self.work_on_consumers(turn, &group, Waiting::Request(Box::new(request)));
    }

    /// Works on what has gathered.
    pub(crate) fn work_on_streams(
        &mut self,
        turn: &mut Turn,
        id: &GroupId,
        together: Vec<Waiting>,
    ) {
        let growth = if self.has_group(id) { Growth::OfGroup } else { Growth::New };
        let draft = match self.streams_draft(turn, id) {
            Ok(draft) => draft,
            Err(refusal) => {
                for (token, _) in together.into_iter().filter_map(Waiting::into_request) {
                    turn.reply(token, refused(refusal.clone()));
                }
                return;
            }
        };
        let mut work = Work::new(draft, turn, growth);
        for next in VecDeque::from(together) {
            match next {
                Waiting::Timer(timer) => work.draft.time_is_over(turn, &timer),
                Waiting::Refresh => work.draft.refresh(turn),
                Waiting::Request(request) => {
                    let reply = work.judge(turn, &request);
                    work.replies.push((request.token, reply));
                }
            }
            work.draft.keep();
        }
        // Not for the log, so it counts at once.
        if let (Some(by), Some(group)) = (work.draft.shutdown_by().cloned(), self.streams_mut(id)) {
            group.ask_shutdown(&by);
        }
        self.finish_work(turn, id, work);
    }

    /// The group as the log knows it, or a new one in the place of an empty one.
    fn streams_draft(&mut self, turn: &Turn, id: &GroupId) -> Result<Draft<StreamsGroup>, Refusal> {
        if let Some(group) = self.streams(id) {
            return Ok(Draft::new(id.clone(), group.clone()));
        }
        let is_consumer = self.consumer(id).is_some();
        let draft = Draft::new(id.clone(), StreamsGroup::new());
        let room_max = turn.settings.groups_max;
        let count = self.len();
        match self.classic(id) {
            None if count < room_max => Ok(draft),
            None => Err(ErrorCode::PolicyViolation.into()),
            Some((membership, has_metadata))
                if !is_consumer && membership.state() == GroupState::Empty =>
            {
                let tombstone = GroupRecord::Metadata { group: id.clone(), metadata: None };
                Ok(draft.behind(has_metadata.then_some(tombstone)))
            }
            Some(_) => {
                let message = format!("Group {id} is not a streams group.");
                Err(Refusal::new(ErrorCode::GroupIdNotFound, message))
            }
        }
    }

    /// An empty streams group gives way to a member of the classic protocol; one with members knows none.
    pub(crate) fn classic_to_streams(&mut self, turn: &mut Turn, id: &GroupId, request: Request) {
        let Some(group) = self.streams(id) else { return };
        match request.body {
            RequestBody::JoinGroup { .. } if group.is_empty() => {
                let tombstones = group.tombstones().into_iter();
                let records = tombstones
                    .map(|record| GroupRecord::Streams { group: id.clone(), record })
                    .collect();
                turn.append_before(records, request);
            }
            RequestBody::JoinGroup { .. } => {
                let reply = request.body.refused(ErrorCode::InconsistentGroupProtocol);
                turn.reply(request.token, reply);
            }
            _ => turn.reply(request.token, request.body.refused(ErrorCode::UnknownMemberId)),
        }
    }

    /// Waits for signs of life of all members, as far as that is not done.
    pub(crate) fn start_streams_timers(&mut self, turn: &mut Turn, id: &GroupId) {
        if let Some(group) = self.streams(id) {
            Draft::new(id.clone(), group.clone()).start_timers(turn);
        }
    }

    /// The cluster has changed: groups that need one of the topics look whether there is something new to assign.
    pub(crate) fn refresh_streams(
        &mut self,
        turn: &mut Turn,
        needs_changed: impl Fn(&StreamsGroup) -> bool,
    ) {
        for id in self.streams_groups(needs_changed) {
            self.refresh(turn, &id);
        }
    }
}

impl Work<StreamsGroup> {
    /// Works on a request. The draft stays as it was if the request is refused.
    fn judge(&mut self, turn: &mut Turn, request: &Request) -> Reply {
        let RequestBody::StreamsGroupHeartbeat(asked) = &request.body else {
            unreachable!("other requests are worked on elsewhere")
        };
        let said = self.attempt(turn, |draft, turn| {
            check_group(draft, asked)?;
            match asked.member_epoch {
                ..0 => draft.leave(turn, asked),
                0.. => draft.heartbeat(turn, &request.client, asked),
            }
        });
        match said {
            Ok((response, missing)) => {
                let reply = Reply::StreamsGroupHeartbeat { response: Box::new(response), missing };
                self.with_room(asked, reply)
            }
            Err(refusal) => refused(self.told(turn, asked, refusal)),
        }
    }

    /// What somebody is told whose request was refused. A member lives on, though there is no room for what it asks. What it has
    /// given up is for others all the same, and it is not late.
    fn told(
        &mut self,
        turn: &mut Turn,
        asked: &StreamsGroupHeartbeatRequest,
        refusal: Refusal,
    ) -> Refusal {
        let id = self.draft.member_id(&asked.member_id);
        let Some(member) = self.draft.member(id.as_str()).filter(|_| is_for_room(refusal.code))
        else {
            return refusal;
        };
        let CurrentTasks { state, revoking, .. } = &*member.current;
        let has_given_up = said(asked).is_some_and(|said| !revoking.has_any(&said));
        if *state == MemberState::UnrevokedPartitions && has_given_up {
            // If there is no room for that, either, its time goes on.
            _ = self.attempt(turn, |draft, turn| draft.reconcile(turn, &id, said(asked), false));
        }
        self.draft.reset_session(turn, &id);
        of_member(refusal)
    }

    /// The reply, which can wait for the log, without what many could make large together if there is no room for it.
    fn with_room(&mut self, asked: &StreamsGroupHeartbeatRequest, mut reply: Reply) -> Reply {
        let bytes = reply.waited_bytes();
        let Reply::StreamsGroupHeartbeat { response, missing } = &mut reply else { return reply };
        let is_large = response.partitions_by_user_endpoint.is_some() || !missing.is_empty();
        if is_large && !self.hold(bytes) {
            response.partitions_by_user_endpoint = None;
            response.endpoint_information_epoch = asked.endpoint_information_epoch;
            missing.clear();
        }
        reply
    }
}

/// Only who joins can do so in a group that there is not.
fn check_group(
    draft: &Draft<StreamsGroup>,
    request: &StreamsGroupHeartbeatRequest,
) -> Result<(), Refusal> {
    let is_joining = GroupEpoch(request.member_epoch) == GroupEpoch::JOINING;
    if is_joining || draft.has_version() {
        return Ok(());
    }
    let message = match request.member_epoch {
        ..0 => format!("Group {} not found.", draft.id),
        0.. => format!("Streams group {} not found.", draft.id),
    };
    Err(Refusal::new(ErrorCode::GroupIdNotFound, message))
}
