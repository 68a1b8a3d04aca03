//! The clock of a node: heartbeats of a leader, elections of a voter that hears none, the voters of the
//! quorum, and snapshots.
//!
//! A node that is alone has no clock: its driver sleeps until somebody joins.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use openraft::ServerState;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::message::{Reply, Request};
use super::shared::Shared;
use super::{Consensus, Vote};
use crate::leader::Leader;
use crate::membership::{JoinRequest, Member, MembersChange};
use crate::options::Timings;

/// A leader looks at its voters with every so many heartbeats.
const HEARTBEATS_PER_LOOK: u32 = 4;

/// The election timeouts of voters lie in so many slots.
const SLOTS: u32 = 3;

/// The pause between elections doubles so often: on a disk that needs seconds for a vote, too, one will
/// be counted in time.
const TRIES_MAX: u32 = 5;

/// A leader whose disk has done nothing for so long, though there is something to do, speaks to nobody any more: what
/// the others have to commit waits for it.
const DISK_STALL_MAX: Duration = Duration::from_secs(2);

/// Who has heard no leader for so long asks the others, as often, whether it was removed.
const QUESTION_INTERVAL: Duration = Duration::from_secs(1);

/// What the driver does next.
enum Part {
    /// Nothing, until something changes.
    Wait,
    Lead(Vote),
    Follow,
    /// Nothing but look around: it has no vote.
    Learn,
}

/// The clock of one node.
pub(crate) struct Driver {
    consensus: Consensus,
    leader: Leader,
    /// When to stand for election if no leader is heard until then.
    election_at: Instant,
    /// How often it has stood for election since a leader was heard.
    tries: u32,
    beats: u32,
    /// Answers that are awaited; they are given up with the driver.
    calls: JoinSet<()>,
    next_announcement: Instant,
    next_question: Instant,
}

impl Driver {
    pub(crate) fn new(consensus: Consensus, leader: Leader) -> Driver {
        let now = Instant::now();
        let election_at = now + consensus.shared.timings.election_timeout_max;
        Driver {
            consensus,
            leader,
            election_at,
            tries: 0,
            beats: 0,
            calls: JoinSet::new(),
            next_announcement: now,
            next_question: now,
        }
    }

    /// Runs until the node has stopped.
    pub(crate) async fn run(mut self) {
        let mut changes = self.consensus.raft.server_metrics();
        let mut is_news = true;
        while self.consensus.check_running().is_ok() {
            changes.borrow_and_update();
            self.shared().learn_members(&self.consensus.raft.metrics().borrow());
            if let Some(id) = self.consensus.removed(self.shared().member().directory) {
                self.shared().set_removed(id);
                return;
            }
            if is_news {
                self.shared().tell_news();
            }
            let until = match self.part() {
                Part::Wait => None,
                Part::Lead(vote) => Some(self.lead(vote).await),
                Part::Follow => Some(self.follow().await),
                Part::Learn => Some(self.learn().await),
            };
            if let Err(error) = self.consensus.snapshot_if_due().await {
                tracing::error!(%error, "cannot write a snapshot of the metadata");
            }
            while self.calls.try_join_next().is_some() {}
            let change = changes.changed();
            let result = match until {
                None => change.await.map(|()| true),
                Some(until) => tokio::select! {
                    biased;
                    () = tokio::time::sleep_until(until) => Ok(false),
                    changed = change => changed.map(|()| true),
                },
            };
            match result {
                Ok(has_changed) => is_news = has_changed,
                Err(_) => return,
            }
        }
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.consensus.shared
    }

    fn part(&self) -> Part {
        if self.shared().is_alone() {
            return Part::Wait;
        }
        let metrics = self.consensus.raft.metrics();
        let metrics = metrics.borrow();
        match metrics.state {
            ServerState::Leader => Part::Lead(metrics.vote),
            ServerState::Shutdown => Part::Wait,
            _ if self.shared().members().is_voter(self.shared().own_id) => Part::Follow,
            _ => Part::Learn,
        }
    }

    /// Speaks to everybody: through openraft, which also tells them what is committed, and past it, so
    /// that a disk on which openraft's task waits for a moment does not look like the end of this leader. While a disk
    /// hangs it is silent, and the others elect another one.
    async fn lead(&mut self, vote: Vote) -> Instant {
        let (shared, now) = (self.shared().clone(), Instant::now());
        if shared.disk_progress.stalled_for() > DISK_STALL_MAX {
            return now + shared.timings.lease;
        }
        let term = vote.leader_id.term;
        shared.contacts.leads(term, now);
        let has_majority = !shared.is_silent(term);
        for &id in shared.members().nodes.keys().filter(|&&id| id != shared.own_id) {
            self.calls.spawn(heartbeat(shared.clone(), id, vote, has_majority));
        }
        _ = self.consensus.raft.trigger().heartbeat().await;
        self.beats = self.beats.wrapping_add(1);
        if self.beats.is_multiple_of(HEARTBEATS_PER_LOOK) {
            let consensus = self.consensus.clone();
            self.calls.spawn(async move { consensus.improve_voters().await });
            self.announce();
        }
        self.election_at = now + shared.timings.election_timeout_max;
        self.tries = 0;
        now + shared.timings.heartbeat
    }

    /// Waits for the leader, and stands for election if none is heard.
    async fn follow(&mut self) -> Instant {
        let (shared, now) = (self.shared().clone(), Instant::now());
        let timings = shared.timings;
        if let Some(heard) = shared.contacts.leader_at()
            && heard + timings.election_timeout_min > self.election_at
        {
            self.election_at = heard + self.election_timeout();
            self.tries = 0;
        }
        if now >= self.election_at {
            let pause = shared.between(timings.lease / 2, timings.lease);
            self.election_at = now + pause * (1 << self.tries);
            self.tries = (self.tries + 1).min(TRIES_MAX);
            let consensus = self.consensus.clone();
            self.calls.spawn(async move { campaign(consensus).await });
        }
        self.announce();
        self.ask_whether_removed();
        self.election_at.min(now + timings.lease)
    }

    /// How long this voter waits for a leader that has gone silent. The voters take turns: two that stand at
    /// the same time would both wait for votes that the other one has. A little chance comes on top.
    fn election_timeout(&self) -> Duration {
        let shared = self.shared();
        let last_leader = self.consensus.raft.metrics().borrow().vote.leader_id.node_id;
        let before = |&id: &u64| id != last_leader && id < shared.own_id;
        let rank = shared.members().all_voters().into_iter().filter(before).count();
        let Timings { election_timeout_min: min, election_timeout_max: max, .. } = shared.timings;
        let slot = (max - min) / SLOTS;
        let rank = u32::try_from(rank).unwrap_or(SLOTS).min(SLOTS - 1);
        min + slot * rank + shared.between(Duration::ZERO, slot / 2)
    }

    async fn learn(&mut self) -> Instant {
        self.announce();
        self.ask_whether_removed();
        Instant::now() + self.shared().timings.lease
    }

    /// Asks everybody, if no leader is heard: one that was removed while it was away would wait for ever. Who knows of it
    /// refuses any request of it, so the mildest will do.
    fn ask_whether_removed(&mut self) {
        let (shared, now) = (self.shared().clone(), Instant::now());
        let has_leader = shared.contacts.is_within_lease(now, QUESTION_INTERVAL);
        if has_leader || now < self.next_question {
            return;
        }
        self.next_question = now + QUESTION_INTERVAL;
        for &id in shared.members().nodes.keys().filter(|&&id| id != shared.own_id) {
            let shared = shared.clone();
            self.calls.spawn(async move {
                let Some(peer) = shared.peer(id) else { return };
                _ = shared.call(&peer, &Request::CommittedIndex, &[], QUESTION_INTERVAL).await;
            });
        }
    }

    /// Tells the leader where this node is reached now and what it is for, if the members have something else.
    fn announce(&mut self) {
        let (shared, now) = (self.shared().clone(), Instant::now());
        let own = shared.member();
        let members = shared.members();
        let told = |member: &Member| (member.directory, member.votes_only);
        let is_as_told = |member: &Member| member.addr == own.addr && told(member) == told(&own);
        let is_known = members.nodes.get(&shared.own_id).is_none_or(is_as_told);
        let can_tell = !own.addr.is_empty();
        if is_known || !can_tell || now < self.next_announcement {
            return;
        }
        self.next_announcement = now + shared.submit_timeout;
        let id = Some(crate::membership::broker_id(shared.own_id));
        let (directory, address) = (own.directory, own.addr.clone());
        let (replaces, votes_only) = (false, own.votes_only);
        let change =
            MembersChange::Join(JoinRequest { id, directory, address, replaces, votes_only });
        let leader = self.leader.clone();
        self.calls.spawn(async move {
            if let Err(error) = leader.change_members(change).await {
                tracing::warn!(%error, "the quorum does not know where this node is reached");
            }
        });
    }
}

/// Tells a member that the leader is alive, and learns whether it still takes it for the leader.
async fn heartbeat(shared: Arc<Shared>, id: u64, vote: Vote, has_majority: bool) {
    let Some(peer) = shared.peer(id) else { return };
    let (sent_at, timeout) = (Instant::now(), shared.timings.election_timeout_max);
    let request = Request::Heartbeat { vote, has_majority };
    if let Ok(Reply::Heartbeat { vote: other }) = shared.call(&peer, &request, &[], timeout).await {
        match other > vote {
            true => shared.contacts.is_ahead(id),
            false => shared.contacts.confirmed(id, vote.leader_id.term, sent_at),
        }
    }
}

/// Asks the other voters whether they would vote for this node, and stands for election if a majority
/// would. Otherwise nothing changes anywhere.
async fn campaign(consensus: Consensus) {
    let shared = consensus.shared.clone();
    let members = shared.members();
    let last_log_id = consensus.raft.data_metrics().borrow().last_log;
    let mut questions = JoinSet::new();
    for id in members.all_voters().into_iter().filter(|&id| id != shared.own_id) {
        let shared = shared.clone();
        questions.spawn(async move {
            let peer = shared.peer(id)?;
            let (request, timeout) = (Request::PreVote { last_log_id }, shared.timings.lease);
            let reply = shared.call(&peer, &request, &[], timeout).await;
            matches!(reply, Ok(Reply::PreVote { granted: true })).then_some(id)
        });
    }
    let mut granted = BTreeSet::from([shared.own_id]);
    while !members.is_majority(&granted) {
        match questions.join_next().await {
            Some(Ok(Some(id))) => _ = granted.insert(id),
            Some(_) => {}
            None => return,
        }
    }
    if shared.contacts.is_within_lease(Instant::now(), shared.timings.lease) {
        // A leader has spoken meanwhile.
        return;
    }
    tracing::info!("no leader is heard: this node stands for election");
    if let Err(error) = consensus.raft.trigger().elect().await {
        tracing::warn!(%error, "cannot stand for election");
    }
}
