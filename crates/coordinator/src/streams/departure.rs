//! Members that leave, those that are thrown out, and what else happens to a group without a request.

use logway_wire::messages::{StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse};
use tracing::info;

use crate::consumer::{Draft, MemberState, RETRY_INTERVAL_MS, Refusal};
use crate::ids::MemberId;
use crate::timers::Timer;
use crate::turn::Turn;

use super::group::StreamsGroup;
use super::heartbeat::Answer;
use super::record::StreamsRecord;

impl Draft<StreamsGroup> {
    /// A member leaves.
    pub(super) fn leave(
        &mut self,
        turn: &mut Turn,
        request: &StreamsGroupHeartbeatRequest,
    ) -> Result<Answer, Refusal> {
        let id = self.member_id(&request.member_id);
        if self.member(id.as_str()).is_none() {
            return Err(self.unknown_member(&id));
        }
        info!(group = %self.id, member = %id, "has left");
        if request.shutdown_application {
            self.note(|group| group.ask_shutdown(&id));
        }
        self.fence(turn, &id);
        let response = StreamsGroupHeartbeatResponse {
            member_id: id.to_wire(),
            member_epoch: request.member_epoch,
            status: Some(Vec::new()),
            ..StreamsGroupHeartbeatResponse::default()
        };
        Ok((response, Vec::new()))
    }

    /// Takes a member out of the group.
    fn fence(&mut self, turn: &mut Turn, id: &MemberId) {
        self.write(StreamsRecord::Current(id.clone(), None));
        if self.target(id.as_str()).is_some() {
            self.write(StreamsRecord::Target(id.clone(), None));
        }
        self.write(StreamsRecord::Member(id.clone(), None));
        turn.timers.clear(Timer::Session(self.id.clone(), id.clone()));
        turn.timers.clear(Timer::Rebalance(self.id.clone(), id.clone()));
        turn.timers.clear(Timer::AskedForTopics(self.id.clone(), id.clone()));
        if self.is_empty() {
            turn.timers.clear(Timer::FirstAssign(self.id.clone()));
            turn.timers.clear(Timer::MissingTopics(self.id.clone()));
        }
        self.bump_epoch(turn);
        self.assign(turn);
    }

    /// A time that was set for the group, or for one of its members, is over.
    pub(super) fn time_is_over(&mut self, turn: &mut Turn, timer: &Timer) {
        // It was set anew while the group was busy.
        if turn.timers.is_set(timer) {
            return;
        }
        match timer {
            Timer::Session(_, id) if self.member(id.as_str()).is_some() => {
                info!(group = %self.id, member = %id, "has not been heard of in time");
                self.fence(turn, id);
            }
            Timer::Rebalance(_, id) => {
                let is_late = self
                    .member(id.as_str())
                    .is_some_and(|member| member.current.state == MemberState::UnrevokedPartitions);
                if is_late {
                    info!(group = %self.id, member = %id, "has not given up its tasks in time");
                    self.fence(turn, id);
                }
            }
            Timer::Assign(_) | Timer::FirstAssign(_) => self.refresh(turn),
            _ => {}
        }
    }

    /// Waits for signs of life of all members, as far as that is not done.
    pub(super) fn start_timers(&self, turn: &mut Turn) {
        let members = self.members().map(|(id, member)| (id.clone(), member.clone()));
        for (id, member) in members.collect::<Vec<_>>() {
            if !turn.timers.is_set(&Timer::Session(self.id.clone(), id.clone())) {
                self.reset_session(turn, &id);
            }
            let rebalance = Timer::Rebalance(self.id.clone(), id.clone());
            let is_revoking = member.current.state == MemberState::UnrevokedPartitions;
            if is_revoking && !turn.timers.is_set(&rebalance) {
                self.await_rebalance(turn, &id);
            }
        }
    }

    /// What could not be written down is tried again, after a while: the log may refuse for long.
    pub(crate) fn try_again_later(&self, turn: &mut Turn) {
        if !self.is_empty() {
            turn.set_timer(Timer::Assign(self.id.clone()), RETRY_INTERVAL_MS);
        }
    }

    /// The cluster's topics have changed, or may have; or an assignment is due.
    pub(super) fn refresh(&mut self, turn: &mut Turn) {
        if !self.is_empty() {
            self.bump_if_changed(turn);
            self.assign(turn);
        }
    }
}
