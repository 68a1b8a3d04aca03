//! Static members that come back (KIP-345).

use std::collections::BTreeMap;

use logway_model::ErrorCode;
use logway_wire::messages::JoinGroupResponse;

use crate::ids::{InstanceId, MemberId};
use crate::member::{Member, Protocols};
use crate::outbox::Then;
use crate::request::{Reply, RequestToken};
use crate::timers::Timer;
use crate::turn::Turn;

use super::join::{Join, refusal};
use super::{GroupState, Membership, sync};

/// From this version on, a leader that comes back can be told not to assign (KIP-814).
const SKIP_ASSIGNMENT_VERSION: i16 = 9;

/// A static member that came back while its group was stable, and takes over where it was when the log knows.
#[derive(Debug)]
pub(crate) struct StaticComeback {
    generation: i32,
    token: RequestToken,
    /// The version of its JoinGroup.
    version: i16,
    instance_id: InstanceId,
    member_id: MemberId,
    /// The member as it was, for the case that the new one cannot be stored.
    former: Member,
    /// The leader as it was.
    former_leader: Option<MemberId>,
}

/// The static members of a group that have come back and that the log does not know of yet.
///
/// However often members come back, one record of the group is on its way because of it, and one comeback of each
/// waits for the next.
#[derive(Debug, Default)]
pub(super) struct Comebacks {
    is_on_its_way: bool,
    waiting: BTreeMap<InstanceId, StaticComeback>,
}

impl Comebacks {
    /// Adds one, in place of an earlier one of the same member that waits: the log will never know that.
    fn add(&mut self, comeback: StaticComeback) {
        let comeback = match self.waiting.remove(&comeback.instance_id) {
            Some(StaticComeback { former, former_leader, generation, .. })
                if generation == comeback.generation =>
            {
                StaticComeback { former, former_leader, ..comeback }
            }
            _ => comeback,
        };
        self.waiting.insert(comeback.instance_id.clone(), comeback);
    }
}

impl Membership {
    /// A static member that came back under a new id (KIP-345).
    pub(super) fn replace_static(
        &mut self,
        turn: &mut Turn,
        join: Join,
        protocols: Protocols,
        instance_id: InstanceId,
        former_id: MemberId,
        member_id: MemberId,
    ) {
        let former_leader = self.leader.clone();
        let Some(former) = self.rename_static(turn, &former_id, &member_id) else { return };
        self.update(turn, &member_id, &join, protocols);
        self.reset_session(turn, &member_id);
        match self.state {
            // As long as the assignor stays the same, so does everything else: only the log has to know.
            GroupState::Stable if self.roster.elect_protocol() == self.protocol => {
                let comeback = StaticComeback {
                    generation: self.generation,
                    token: join.token,
                    version: join.version,
                    instance_id,
                    member_id,
                    former,
                    former_leader,
                };
                self.comebacks.add(comeback);
                self.store_comebacks(turn);
            }
            // The leader may be assigning to the former id right now.
            GroupState::Stable | GroupState::CompletingRebalance => {
                let reason =
                    format!("static member {instance_id} is {member_id} now: {}", join.reason());
                self.prepare_rebalance(turn, &reason);
            }
            GroupState::Empty | GroupState::PreparingRebalance => {
                self.complete_join_if_all_are_here(turn);
            }
        }
    }

    /// Gives a static member another id; who still uses the former one is fenced.
    fn rename_static(
        &mut self,
        turn: &mut Turn,
        former_id: &MemberId,
        member_id: &MemberId,
    ) -> Option<Member> {
        let mut former = self.roster.remove(former_id.as_str())?;
        turn.timers.clear(Timer::Session(self.group.clone(), former_id.clone()));
        let fenced = ErrorCode::FencedInstanceId;
        if let Some(token) = former.awaiting_join.take() {
            turn.reply(token, refusal(former_id.as_str(), fenced));
        }
        if let Some(token) = former.awaiting_sync.take() {
            turn.reply(token, sync::refusal(fenced));
        }
        former.is_new = false;
        self.roster.insert(Member { id: member_id.clone(), ..former.clone() });
        if self.is_leader(former_id.as_str()) {
            self.leader = Some(member_id.clone());
        }
        if self.pending_sync.remove(former_id) {
            self.pending_sync.insert(member_id.clone());
        }
        Some(former)
    }

    /// Tells the log of the static members that have come back, unless it is being told of others: the record is that
    /// of the whole group.
    fn store_comebacks(&mut self, turn: &mut Turn) {
        if self.comebacks.is_on_its_way {
            return;
        }
        let waiting = std::mem::take(&mut self.comebacks.waiting).into_values();
        let comebacks: Vec<_> = waiting.filter(|comeback| self.still_waits(comeback)).collect();
        if comebacks.is_empty() {
            return;
        }
        self.comebacks.is_on_its_way = true;
        let record = self.record(|member| member.assignment.clone());
        let then = Then::ComebacksStored { group: self.group.clone(), comebacks };
        turn.append(vec![record], Some(then));
    }

    /// Whether nothing else has answered the member meanwhile, or will.
    fn still_waits(&self, comeback: &StaticComeback) -> bool {
        let member = self.roster.get(comeback.member_id.as_str());
        // If not, it is part of a rebalance now, which will answer it and tell the log.
        let is_as_it_was =
            self.state == GroupState::Stable && self.generation == comeback.generation;
        is_as_it_was && member.is_some_and(|member| member.awaiting_join == Some(comeback.token))
    }

    /// The log knows the static members' new ids, or could not be told.
    pub(crate) fn comebacks_stored(
        &mut self,
        turn: &mut Turn,
        comebacks: &[StaticComeback],
        outcome: Result<(), ErrorCode>,
    ) {
        self.comebacks.is_on_its_way = false;
        for comeback in comebacks {
            if self.still_waits(comeback) {
                self.comeback_stored(turn, comeback, outcome);
            }
        }
        self.store_comebacks(turn);
    }

    fn comeback_stored(
        &mut self,
        turn: &mut Turn,
        comeback: &StaticComeback,
        outcome: Result<(), ErrorCode>,
    ) {
        let member_id = &comeback.member_id;
        self.roster.change(member_id.as_str(), |member| member.awaiting_join = None);
        // Its session may have expired while it was excused.
        self.reset_session(turn, member_id);
        let reply = match outcome {
            Ok(()) => self.rejoined(comeback),
            Err(code) => {
                self.restore_static(turn, comeback);
                JoinGroupResponse { error_code: code.code(), ..JoinGroupResponse::default() }
            }
        };
        turn.reply(comeback.token, Reply::JoinGroup(reply));
    }

    /// Makes the static member again what it was.
    fn restore_static(&mut self, turn: &mut Turn, comeback: &StaticComeback) {
        let former_id = comeback.former.id.clone();
        self.roster.remove(comeback.member_id.as_str());
        turn.timers.clear(Timer::Session(self.group.clone(), comeback.member_id.clone()));
        self.roster.insert(comeback.former.clone());
        if self.is_leader(comeback.member_id.as_str()) {
            self.leader = comeback.former_leader.clone();
        }
        if self.pending_sync.remove(&comeback.member_id) {
            self.pending_sync.insert(former_id.clone());
        }
        debug_assert_eq!(
            self.roster.static_id(comeback.instance_id.as_str()),
            Some(&former_id),
            "the instance is the former member again"
        );
        self.reset_session(turn, &former_id);
    }

    /// The answer to a static member that goes on where it was.
    fn rejoined(&self, comeback: &StaticComeback) -> JoinGroupResponse {
        let joined = self.joined(&comeback.member_id);
        let is_leader = self.is_leader(comeback.member_id.as_str());
        if comeback.version >= SKIP_ASSIGNMENT_VERSION {
            // A leader learns who is there, to watch their subscriptions, but must not assign.
            return JoinGroupResponse { skip_assignment: is_leader, ..joined };
        }
        // A leader of an older version would assign if it knew that it leads: it is told its former id.
        let leader = comeback.former_leader.as_ref().map(MemberId::to_wire).unwrap_or_default();
        JoinGroupResponse { leader, members: Vec::new(), ..joined }
    }
}
