//! From one generation to the next.

use std::collections::BTreeSet;

use bytes::Bytes;
use logway_model::{ErrorCode, GroupType};
use tracing::{debug, info};

use crate::ids::MemberId;
use crate::member::Member;
use crate::request::Reply;
use crate::timers::Timer;
use crate::turn::Turn;

use super::{GroupState, InitialRebalance, Membership, join, sync};

impl Membership {
    /// Starts a rebalance, or gets on with the one that is under way.
    pub(super) fn rebalance_or_complete_join(&mut self, turn: &mut Turn, reason: &str) {
        match self.state {
            GroupState::PreparingRebalance => self.complete_join_if_all_are_here(turn),
            _ => self.prepare_rebalance(turn, reason),
        }
    }

    /// Asks all members to join anew.
    pub(crate) fn prepare_rebalance(&mut self, turn: &mut Turn, reason: &str) {
        debug_assert!(
            self.state != GroupState::PreparingRebalance,
            "it is one rebalance at a time"
        );
        debug!(group = %self.group, generation = self.generation, ?reason, "preparing a rebalance");
        if self.state == GroupState::CompletingRebalance {
            self.refuse_syncs(turn, ErrorCode::RebalanceInProgress);
        }
        self.pending_sync.clear();
        turn.timers.clear(Timer::Sync(self.group.clone()));
        let is_initial = self.state == GroupState::Empty;
        self.move_to(GroupState::PreparingRebalance, turn.now.wall);
        if is_initial {
            // The first member rarely comes alone; waiting for the others saves them a rebalance each.
            let delay_ms = u64::from(turn.settings.initial_rebalance_delay_ms);
            let remaining_ms = self.roster.rebalance_timeout_ms().saturating_sub(delay_ms);
            self.initial_rebalance =
                Some(InitialRebalance { delay_ms, remaining_ms, member_added: false });
            turn.set_timer(Timer::Join(self.group.clone()), delay_ms);
        } else if self.have_all_joined() {
            self.complete_join(turn);
        } else {
            let timeout_ms = self.roster.rebalance_timeout_ms();
            turn.set_timer(Timer::Join(self.group.clone()), timeout_ms);
        }
    }

    fn have_all_joined(&self) -> bool {
        self.roster.len() == self.roster.awaiting_join() && self.pending_join.is_empty()
    }

    /// Ends the wait for members if nobody is missing; the first rebalance waits for those that nobody knows yet.
    pub(super) fn complete_join_if_all_are_here(&mut self, turn: &mut Turn) {
        let is_joining = self.state == GroupState::PreparingRebalance;
        if is_joining && self.initial_rebalance.is_none() && self.have_all_joined() {
            self.complete_join(turn);
        }
    }

    /// The same after someone's session has expired, which ends the wait of a first rebalance too.
    pub(super) fn complete_join_after_expiry(&mut self, turn: &mut Turn) {
        if self.state == GroupState::PreparingRebalance && self.have_all_joined() {
            self.complete_join(turn);
        }
    }

    /// The time to join is over.
    pub(crate) fn join_expired(&mut self, turn: &mut Turn) {
        if self.state != GroupState::PreparingRebalance {
            return;
        }
        match &mut self.initial_rebalance {
            Some(initial) if initial.member_added && initial.remaining_ms > 0 => {
                let waited_ms = initial.delay_ms;
                initial.member_added = false;
                initial.delay_ms =
                    u64::from(turn.settings.initial_rebalance_delay_ms).min(initial.remaining_ms);
                initial.remaining_ms = initial.remaining_ms.saturating_sub(waited_ms);
                let delay_ms = initial.delay_ms;
                turn.set_timer(Timer::Join(self.group.clone()), delay_ms);
            }
            _ => self.complete_join(turn),
        }
    }

    /// Starts the next generation with those that have joined. Static members stay although they have not.
    fn complete_join(&mut self, turn: &mut Turn) {
        turn.timers.clear(Timer::Join(self.group.clone()));
        self.initial_rebalance = None;
        let is_missing =
            |member: &&Member| member.awaiting_join.is_none() && member.instance_id.is_none();
        let missing: Vec<MemberId> =
            self.roster.members().filter(is_missing).map(|member| member.id.clone()).collect();
        for member_id in missing {
            info!(group = %self.group, member = %member_id, "has not joined in time");
            self.remove(turn, member_id.as_str());
        }
        if self.roster.is_empty() {
            self.become_empty(turn);
        } else if self.elect_leader_that_joined() {
            self.start_generation(turn);
        } else {
            // Only static members, none of which is here: their sessions decide.
            let timeout_ms = self.roster.rebalance_timeout_ms();
            turn.set_timer(Timer::Join(self.group.clone()), timeout_ms);
        }
    }

    /// Whether the leader has joined or another could take its place.
    fn elect_leader_that_joined(&mut self) -> bool {
        let has_joined = |member: &&Member| member.awaiting_join.is_some();
        let leader = self.leader.as_ref().and_then(|leader| self.roster.get(leader.as_str()));
        if leader.as_ref().is_some_and(has_joined) {
            return true;
        }
        let Some(member) = self.roster.members().find(has_joined) else { return false };
        self.leader = Some(member.id.clone());
        true
    }

    fn become_empty(&mut self, turn: &mut Turn) {
        self.count_generation();
        self.protocol = None;
        self.move_to(GroupState::Empty, turn.now.wall);
        self.subscribed_topics = self.is_consumer_group().then(BTreeSet::new);
        self.subscribed_bytes = 0;
        info!(group = %self.group, generation = self.generation, "is empty");
        // If this fails, the log still has the former members: after the next load they time out, and it is told
        // again.
        turn.append(vec![self.record(|_| Bytes::new())], None);
    }

    fn start_generation(&mut self, turn: &mut Turn) {
        self.count_generation();
        turn.rebalances.note(GroupType::Classic);
        self.protocol = self.roster.elect_protocol();
        self.read_subscriptions();
        self.move_to(GroupState::CompletingRebalance, turn.now.wall);
        info!(
            group = %self.group,
            generation = self.generation,
            members = self.roster.len(),
            "has a new generation"
        );
        for member_id in self.roster.ids() {
            let waiting = self.roster.change(member_id.as_str(), |member| {
                member.is_new = false;
                member.awaiting_join.take()
            });
            if let Some(token) = waiting.flatten() {
                let joined = self.joined(&member_id);
                turn.reply(token, Reply::JoinGroup(joined));
            }
            self.reset_session(turn, &member_id);
            self.pending_sync.insert(member_id);
        }
        let timeout_ms = self.roster.rebalance_timeout_ms();
        turn.set_timer(Timer::Sync(self.group.clone()), timeout_ms);
    }

    fn count_generation(&mut self) {
        self.generation = self.generation.checked_add(1).unwrap_or(0);
    }

    /// The time to ask for assignments is over.
    pub(crate) fn sync_expired(&mut self, turn: &mut Turn) {
        let is_syncing = matches!(self.state, GroupState::CompletingRebalance | GroupState::Stable);
        if !is_syncing || self.pending_sync.is_empty() {
            return;
        }
        for member_id in std::mem::take(&mut self.pending_sync) {
            info!(group = %self.group, member = %member_id, "has not asked for its assignment");
            self.remove(turn, member_id.as_str());
        }
        self.prepare_rebalance(turn, "members have not asked for their assignments in time");
    }

    /// Takes a member out, pending or not, and answers what it waits for.
    pub(super) fn remove(&mut self, turn: &mut Turn, member_id: &str) {
        let was_pending = self.pending_join.remove(member_id);
        let removed = self.roster.remove(member_id);
        self.pending_sync.remove(member_id);
        if was_pending || removed.is_some() {
            turn.timers.clear(Timer::Session(self.group.clone(), MemberId::from(member_id)));
        }
        let Some(member) = removed else { return };
        // Its client may be alive after all: this makes it join again.
        if let Some(token) = member.awaiting_join {
            turn.reply(token, join::refusal("", ErrorCode::UnknownMemberId));
        }
        if let Some(token) = member.awaiting_sync {
            turn.reply(token, sync::refusal(ErrorCode::UnknownMemberId));
        }
        if self.is_leader(member_id) {
            self.leader = self.roster.first_id().cloned();
        }
    }

    /// Waits for a sign of life anew.
    pub(crate) fn reset_session(&self, turn: &mut Turn, member_id: &MemberId) {
        if let Some(member) = self.roster.get(member_id.as_str()) {
            let timeout_ms = member.session_timeout_ms.unsigned_abs().into();
            let session = Timer::Session(self.group.clone(), member_id.clone());
            turn.set_timer(session, timeout_ms);
        }
    }

    /// What a loaded group has to wait for.
    pub(crate) fn start(&mut self, turn: &mut Turn) {
        for member_id in self.roster.ids() {
            self.reset_session(turn, &member_id);
        }
        if self.roster.len() > turn.settings.group_size_max {
            self.prepare_rebalance(turn, "the group has more members than are allowed now");
        }
    }

    /// Answers all that wait: the shard ends.
    pub(crate) fn stop(&mut self, turn: &mut Turn) {
        let code = ErrorCode::NotCoordinator;
        for (member_id, join, sync) in self.roster.waiting() {
            if let Some(token) = join {
                turn.reply(token, join::refusal(member_id.as_str(), code));
            }
            if let Some(token) = sync {
                turn.reply(token, sync::refusal(code));
            }
        }
    }
}
