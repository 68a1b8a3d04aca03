//! Members that leave, and those that are thrown out.

use logway_model::ErrorCode;
use logway_wire::messages::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};
use tracing::info;

use crate::ids::{InstanceId, MemberId};
use crate::timers::Timer;
use crate::turn::Turn;

use super::GroupEpoch;
use super::draft::Draft;
use super::heartbeat::fenced_instance;
use super::member::{CurrentAssignment, MemberState, OwnedPartitions};
use super::record::ConsumerRecord;
use super::refusal::Refusal;

/// How long what a log has refused waits until it is tried again.
pub(crate) const RETRY_INTERVAL_MS: u64 = 1_000;

/// Whether a member has to give up partitions in time. One that has left for now has the time of its session.
pub(super) fn is_revoking(current: &CurrentAssignment) -> bool {
    current.state == MemberState::UnrevokedPartitions
        && current.epoch != GroupEpoch::LEAVING_FOR_NOW
}

impl Draft {
    /// A member leaves, for good or for now.
    pub(super) fn leave(
        &mut self,
        turn: &mut Turn,
        request: &ConsumerGroupHeartbeatRequest,
    ) -> Result<ConsumerGroupHeartbeatResponse, Refusal> {
        let id = self.find_leaving(request)?;
        match GroupEpoch(request.member_epoch) {
            GroupEpoch::LEAVING_FOR_NOW => self.leave_for_now(&id),
            _ => {
                info!(group = %self.id, member = %id, "has left");
                self.fence(turn, std::slice::from_ref(&id));
            }
        }
        Ok(ConsumerGroupHeartbeatResponse {
            member_id: Some(id.to_wire()),
            member_epoch: request.member_epoch,
            ..ConsumerGroupHeartbeatResponse::default()
        })
    }

    fn find_leaving(&self, request: &ConsumerGroupHeartbeatRequest) -> Result<MemberId, Refusal> {
        let id = MemberId::from(&request.member_id);
        let Some(instance) = request.instance_id.as_ref().map(InstanceId::from) else {
            return match self.member(id.as_str()) {
                Some(_) => Ok(id),
                None => Err(self.unknown_member(&id)),
            };
        };
        match self.static_member(&instance) {
            None => {
                let message = format!("Instance id {instance} is unknown.");
                Err(Refusal::new(ErrorCode::UnknownMemberId, message))
            }
            Some((present, _)) if *present != id => Err(fenced_instance(&id, &instance, present)),
            Some(_) => Ok(id),
        }
    }

    /// A static member will be back: what it has stays its own, until its session is over.
    fn leave_for_now(&mut self, id: &MemberId) {
        let Some(member) = self.member(id.as_str()) else { return };
        info!(group = %self.id, member = %id, "has left for now");
        let mut current = CurrentAssignment::clone(&member.current);
        current.epoch = GroupEpoch::LEAVING_FOR_NOW;
        current.revoking = OwnedPartitions::new();
        // Whoever comes back has had them from the start.
        let epochs = current.assigned.values_mut().flat_map(|partitions| partitions.values_mut());
        epochs.for_each(|epoch| *epoch = GroupEpoch::default());
        self.write(ConsumerRecord::Current(id.clone(), Some(current.into())));
    }

    /// Takes members out of the group.
    pub(super) fn fence(&mut self, turn: &mut Turn, ids: &[MemberId]) {
        for id in ids {
            let Some(member) = self.member(id.as_str()) else { continue };
            let pattern = member.subscription.pattern().cloned();
            self.remove(turn, id);
            if let Some(pattern) = pattern {
                self.forget_pattern(&pattern);
            }
        }
        if !self.downgrade_if_due(turn) {
            self.bump_epoch(turn);
            self.assign(turn);
        }
    }

    /// Takes back what the log says of a member.
    pub(super) fn remove(&mut self, turn: &mut Turn, id: &MemberId) {
        self.write(ConsumerRecord::Current(id.clone(), None));
        if self.target(id.as_str()).is_some() {
            self.write(ConsumerRecord::Target(id.clone(), None));
        }
        self.write(ConsumerRecord::Member(id.clone(), None));
        turn.timers.clear(Timer::Session(self.id.clone(), id.clone()));
        turn.timers.clear(Timer::Rebalance(self.id.clone(), id.clone()));
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
                self.fence(turn, std::slice::from_ref(id));
            }
            Timer::Rebalance(_, id) => {
                let is_late = self.member(id.as_str()).is_some_and(|member| {
                    // One of the classic protocol has not joined or synced; the timer ends when it does.
                    member.subscription.classic.is_some() || is_revoking(&member.current)
                });
                if is_late {
                    info!(group = %self.id, member = %id, "has not followed a rebalance in time");
                    self.fence(turn, std::slice::from_ref(id));
                }
            }
            Timer::Assign(_) => {
                self.refresh(turn);
                self.assign(turn);
            }
            _ => {}
        }
    }

    /// Waits for signs of life of all members, as far as that is not done.
    pub(super) fn start_timers(&self, turn: &mut Turn) {
        let members = self.members().map(|(id, member)| (id.clone(), member.clone()));
        for (id, member) in members.collect::<Vec<_>>() {
            let session = Timer::Session(self.id.clone(), id.clone());
            if !turn.timers.is_set(&session) {
                self.reset_session(turn, &id);
            }
            let rebalance = Timer::Rebalance(self.id.clone(), id.clone());
            let is_consumer = member.subscription.classic.is_none();
            if is_revoking(&member.current) && is_consumer && !turn.timers.is_set(&rebalance) {
                self.await_rebalance(turn, &id);
            }
        }
    }

    /// What could not be written down is tried again, after a while: the log may refuse for long.
    pub(super) fn try_again_later(&self, turn: &mut Turn) {
        if !self.is_empty() {
            turn.set_timer(Timer::Assign(self.id.clone()), RETRY_INTERVAL_MS);
        }
    }

    /// The cluster's topics have changed, or may have.
    pub(super) fn refresh(&mut self, turn: &mut Turn) {
        if self.is_classic() || self.is_empty() {
            return;
        }
        if self.hash_of_topics(turn.view) == self.metadata_hash() {
            // After a load, an assignment may be due.
            self.assign(turn);
            return;
        }
        info!(group = %self.id, "the topics of the group have changed");
        self.bump_epoch(turn);
        self.assign(turn);
    }
}
