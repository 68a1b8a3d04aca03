//! The leader's view of its replicas, and the high watermark that follows from it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use logway_model::{BrokerId, LeaderEpoch, Offset};

use crate::isr::{Isr, IsrProposal, ProposedReplica};

mod readers;

pub use readers::ReadableFollower;

/// How far the leader's own log has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalTail {
    /// The offset that the next record gets.
    pub log_end: Offset,
    /// Everything below is on stable storage.
    pub flushed: Offset,
}

/// Who holds the partition, as the metadata says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// Every replica, the leader among them.
    pub replicas: Vec<BrokerId>,
    /// Those that are in sync.
    pub isr: Vec<BrokerId>,
    /// Others may lead instead (KIP-966). They have all that is committed as long as nothing more is.
    pub has_eligible: bool,
    /// Grows with each change of the partition.
    pub partition_epoch: i32,
}

/// What a leader begins with.
#[derive(Debug, Clone)]
pub struct LeaderStart {
    /// The leader itself.
    pub own: BrokerId,
    /// The epoch in which it leads.
    pub epoch: LeaderEpoch,
    /// Who else holds the partition.
    pub membership: Membership,
    /// Whether acknowledged records have to be flushed.
    pub durable: bool,
    /// `min.insync.replicas`. More than there are replicas are never asked for (KAFKA-15583).
    pub in_sync_min: u32,
    /// The log as it is when the epoch begins.
    pub tail: LocalTail,
    /// What the replica knew to be committed before.
    pub high_watermark: Offset,
    /// When the epoch begins.
    pub now: Duration,
}

/// How long followers may be behind and stay in sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FollowerLimits {
    /// `replica.lag.time.max.ms`: since a follower had everything that there was.
    pub lag_max: Duration,
    /// Since a follower has made any progress, though there was something to get. It is short, because each
    /// acknowledgement waits for such a follower: its disk may hang. It counts only while enough others are in
    /// sync.
    pub stall_max: Duration,
    /// The leader's own disk has made no progress for that long, though it has something to write.
    pub own_stalls: bool,
}

/// A follower asks for what is behind its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FollowerFetch {
    /// Who.
    pub broker: BrokerId,
    /// Which incarnation of it.
    pub broker_epoch: i64,
    /// It holds everything before this offset; on a durable topic, on stable storage.
    pub end: Offset,
}

/// What the leader knows of one follower.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Follower {
    broker_epoch: i64,
    /// Nothing is known of one that has not fetched in this epoch.
    end: Option<Offset>,
    /// When it last had everything that there was.
    caught_up_at: Duration,
    /// When it last made progress, or had nothing to make.
    moved_at: Duration,
    /// When it fetched last, and where the log ended then: who gets there later was caught up then.
    fetched_at: Duration,
    log_end_then: Offset,
    /// Where its log begins, if it has said so in its present life.
    start: Option<Offset>,
}

const UNKNOWN_BROKER_EPOCH: i64 = -1;

/// What the leader of one partition knows of its replicas, in one leader epoch.
///
/// Owned by the replica; every method is called under the replica's lock.
///
/// Invariants:
/// - the high watermark never goes back;
/// - it never passes what any in-sync replica holds, of those committed and of those proposed;
/// - on a durable topic it never passes what is flushed on each of them, the leader included, so that a
///   consumer sees no record that a power cut could take back;
/// - it does not rise while fewer than `min.insync.replicas` are in sync, or others are eligible: they might
///   lead, and have what is committed and no more (KIP-966).
#[derive(Debug)]
pub struct Leader {
    own: BrokerId,
    epoch: LeaderEpoch,
    /// Where the log ended when the epoch began: who has less may lack what an earlier epoch has committed.
    epoch_start: Offset,
    durable: bool,
    in_sync_min: u32,
    has_eligible: bool,
    local: LocalTail,
    /// When the leader's own disk last made progress, or had nothing to make.
    flushed_at: Duration,
    followers: BTreeMap<BrokerId, Follower>,
    isr: Isr,
    high_watermark: Offset,
}

impl Leader {
    /// Begins to lead in an epoch. In-sync followers have as long as their limits to be heard of.
    pub fn new(start: LeaderStart) -> Leader {
        let LeaderStart { own, epoch, membership, durable, in_sync_min, tail, high_watermark, now } =
            start;
        assert!(tail.flushed <= tail.log_end, "flushed past the end of the log");
        let isr = Isr::new(membership.isr.iter().copied().collect(), membership.partition_epoch);
        let mut leader = Leader {
            own,
            epoch,
            epoch_start: tail.log_end,
            durable,
            in_sync_min,
            has_eligible: membership.has_eligible,
            local: tail,
            flushed_at: now,
            followers: BTreeMap::new(),
            isr,
            high_watermark,
        };
        leader.set_members(&membership, now);
        leader.advance();
        leader
    }

    /// The epoch in which it leads.
    pub fn epoch(&self) -> LeaderEpoch {
        self.epoch
    }

    /// The exclusive end of what consumers may read.
    pub fn high_watermark(&self) -> Offset {
        self.high_watermark
    }

    /// How many replicas are in sync, the leader among them, and how many have to be for `acks=all`.
    pub fn in_sync(&self) -> (u32, u32) {
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let replicas = count(self.followers.len() + 1);
        (count(self.isr.committed().len()), self.in_sync_min.min(replicas))
    }

    /// The leader's own log grew or was flushed. Returns the high watermark if it moved.
    ///
    /// A leader's log only grows, so of two reports that cross on their way the larger counts. A follower that had
    /// everything says nothing while there is nothing new: its time begins with the growth.
    pub fn on_local_tail(&mut self, tail: LocalTail, now: Duration) -> Option<Offset> {
        assert!(tail.flushed <= tail.log_end, "flushed past the end of the log");
        let was = self.local.log_end;
        if tail.log_end > was {
            let had_all = |follower: &&mut Follower| follower.end.is_some_and(|end| end >= was);
            for follower in self.followers.values_mut().filter(had_all) {
                follower.caught_up_at = now;
                follower.moved_at = now;
            }
        }
        if self.local.flushed >= was || tail.flushed > self.local.flushed {
            self.flushed_at = now;
        }
        self.local.log_end = self.local.log_end.max(tail.log_end);
        self.local.flushed = self.local.flushed.max(tail.flushed);
        self.advance()
    }

    /// `flush.messages` changed. Returns the high watermark if it moved.
    ///
    /// A topic that becomes durable keeps the watermark it has shown; it only stops rising until
    /// the disks have caught up.
    pub fn set_durable(&mut self, durable: bool) -> Option<Offset> {
        self.durable = durable;
        self.advance()
    }

    /// `min.insync.replicas` changed. Returns the high watermark if it moved.
    pub fn set_in_sync_min(&mut self, in_sync_min: u32) -> Option<Offset> {
        self.in_sync_min = in_sync_min;
        self.advance()
    }

    /// A follower tells how far it is, by asking for more. Returns the high watermark if it moved.
    ///
    /// A broker that is no replica changes nothing, and an earlier incarnation of one that is does not either. A follower
    /// whose end is beyond this log's has records of another epoch, and is taken for one that has nothing: it will be told
    /// where it diverges.
    pub fn on_fetch(&mut self, fetch: FollowerFetch, now: Duration) -> Option<Offset> {
        let FollowerFetch { broker, broker_epoch, end } = fetch;
        let log_end = self.local.log_end;
        let follower = self.followers.get_mut(&broker)?;
        if broker_epoch < follower.broker_epoch {
            return None;
        }
        let has_moved = Some(end) > follower.end || end >= log_end;
        if end >= log_end {
            follower.caught_up_at = now;
        } else if end >= follower.log_end_then {
            follower.caught_up_at = follower.caught_up_at.max(follower.fetched_at);
        }
        if has_moved {
            follower.moved_at = now;
        }
        if broker_epoch > follower.broker_epoch {
            follower.start = None;
        }
        follower.broker_epoch = broker_epoch;
        follower.end = (end <= log_end).then_some(end);
        follower.fetched_at = now;
        follower.log_end_then = log_end;
        self.advance()
    }

    /// The metadata says who holds the partition. Returns the high watermark if it moved.
    pub fn on_membership(&mut self, membership: &Membership, now: Duration) -> Option<Offset> {
        let isr = membership.isr.iter().copied().collect();
        if membership.partition_epoch >= self.isr.partition_epoch() {
            self.has_eligible = membership.has_eligible;
        }
        self.isr.commit(isr, membership.partition_epoch);
        self.set_members(membership, now);
        self.advance()
    }

    fn set_members(&mut self, membership: &Membership, now: Duration) {
        let log_end = self.local.log_end;
        self.followers.retain(|broker, _| membership.replicas.contains(broker));
        for broker in membership.replicas.iter().filter(|broker| **broker != self.own) {
            self.followers.entry(*broker).or_insert(Follower {
                broker_epoch: UNKNOWN_BROKER_EPOCH,
                end: None,
                caught_up_at: now,
                moved_at: now,
                fetched_at: now,
                log_end_then: log_end,
                start: None,
            });
        }
    }

    /// What the in-sync replicas should be, if that is not what they are: to be asked for after each fetch of a
    /// follower that is not in sync, and at an interval. `None` while a proposal is under way. A leader whose disk hangs is
    /// not among them: another is to lead.
    ///
    /// Those that must not join are named by `is_barred`: fenced, about to stop, or in another life by now (KIP-841, KIP-903).
    /// The controller would refuse the others with them.
    ///
    /// The caller sends what this returns to the controller, again and again until [`Leader::on_membership`] tells of a newer
    /// partition epoch or the controller refuses it for good ([`Leader::on_refusal`]).
    pub fn propose(
        &mut self,
        limits: FollowerLimits,
        now: Duration,
        is_barred: impl Fn(ProposedReplica) -> bool,
    ) -> Option<IsrProposal> {
        if self.isr.is_proposed() {
            return None;
        }
        let mut isr = self.isr_by(limits, now, &is_barred);
        if self.should_give_up(&isr, limits, now, is_barred) {
            isr.remove(&self.own);
        }
        if isr == *self.isr.committed() {
            return None;
        }
        let proposal = IsrProposal {
            leader_epoch: self.epoch,
            partition_epoch: self.isr.partition_epoch(),
            isr: isr.iter().map(|broker| self.in_life(*broker)).collect(),
        };
        self.isr.propose(isr);
        Some(proposal)
    }

    /// A replica in the life in which it has fetched last.
    fn in_life(&self, broker: BrokerId) -> ProposedReplica {
        let follower = self.followers.get(&broker);
        let broker_epoch = follower.map_or(UNKNOWN_BROKER_EPOCH, |it| it.broker_epoch);
        ProposedReplica { broker, broker_epoch }
    }

    /// The controller has refused the proposal, and it will never be in force. Returns the high watermark if it
    /// moved.
    pub fn on_refusal(&mut self) -> Option<Offset> {
        self.isr.withdraw();
        self.advance()
    }

    fn isr_by(
        &self,
        limits: FollowerLimits,
        now: Duration,
        is_barred: &impl Fn(ProposedReplica) -> bool,
    ) -> BTreeSet<BrokerId> {
        let committed = self.isr.committed();
        let is_in = |broker: &BrokerId| committed.contains(broker);
        let joins = |broker: &BrokerId, follower: &Follower| {
            !is_barred(self.in_life(*broker)) && self.has_caught_up(follower)
        };
        let mut isr: BTreeSet<BrokerId> = BTreeSet::from([self.own]);
        for (broker, follower) in &self.followers {
            let stays = is_in(broker) && !self.lags(follower, limits.lag_max, now);
            if stays || !is_in(broker) && joins(broker, follower) {
                isr.insert(*broker);
            }
        }
        // The slowest first, while enough others are in sync.
        let (_, min) = self.in_sync();
        let mut stalled: Vec<(Duration, BrokerId)> = self
            .followers
            .iter()
            .filter(|(broker, follower)| isr.contains(broker) && self.stalls(follower, limits, now))
            .map(|(broker, follower)| (follower.moved_at, *broker))
            .collect();
        stalled.sort_unstable();
        for (_, broker) in stalled {
            if isr.len() > usize::try_from(min).unwrap_or(usize::MAX).max(1) {
                isr.remove(&broker);
            }
        }
        isr
    }

    /// Whether the leader's own disk hangs, and enough others are in sync to go on without it: nothing is acknowledged as
    /// long as it leads.
    fn should_give_up(
        &self,
        isr: &BTreeSet<BrokerId>,
        limits: FollowerLimits,
        now: Duration,
        is_barred: impl Fn(ProposedReplica) -> bool,
    ) -> bool {
        let (_, min) = self.in_sync();
        let could_lead = |id: &&BrokerId| **id != self.own && !is_barred(self.in_life(**id));
        let others = isr.iter().filter(could_lead).count();
        let is_behind = self.durable && self.local.flushed < self.local.log_end;
        let stalls = is_behind && now.saturating_sub(self.flushed_at) > limits.stall_max;
        (stalls || limits.own_stalls) && others >= usize::try_from(min).unwrap_or(usize::MAX).max(1)
    }

    /// Whether a follower could be in sync and is not: then somebody should ask for a proposal.
    pub fn could_join(&self, broker: BrokerId) -> bool {
        let follower = self.followers.get(&broker);
        !self.isr.committed().contains(&broker) && follower.is_some_and(|it| self.has_caught_up(it))
    }

    /// Whether another broker holds the partition, as far as this leader knows.
    pub fn is_followed_by(&self, broker: BrokerId) -> bool {
        self.followers.contains_key(&broker)
    }

    /// Whether a follower is in sync, as committed.
    pub fn is_in_sync(&self, broker: BrokerId) -> bool {
        self.isr.committed().contains(&broker)
    }

    /// Whether other replicas hold the partition.
    pub fn has_followers(&self) -> bool {
        !self.followers.is_empty()
    }

    /// Whether the high watermark has come to where the epoch began: before that, an earlier leader may have shown
    /// more (KIP-207).
    pub fn knows_what_is_committed(&self) -> bool {
        self.high_watermark >= self.epoch_start
    }

    /// How far its own log has come.
    pub fn local_tail(&self) -> LocalTail {
        self.local
    }

    fn has_caught_up(&self, follower: &Follower) -> bool {
        follower.end.is_some_and(|end| end >= self.high_watermark.max(self.epoch_start))
    }

    fn lags(&self, follower: &Follower, lag_max: Duration, now: Duration) -> bool {
        self.is_behind(follower) && now.saturating_sub(follower.caught_up_at) > lag_max
    }

    fn stalls(&self, follower: &Follower, limits: FollowerLimits, now: Duration) -> bool {
        self.is_behind(follower) && now.saturating_sub(follower.moved_at) > limits.stall_max
    }

    fn is_behind(&self, follower: &Follower) -> bool {
        follower.end.is_none_or(|end| end < self.local.log_end)
    }

    fn advance(&mut self) -> Option<Offset> {
        let (in_sync, min) = self.in_sync();
        if in_sync < min || self.has_eligible {
            return None;
        }
        let own = if self.durable { self.local.flushed } else { self.local.log_end };
        if self.followers.is_empty() && self.isr.is_alone(self.own) {
            return self.raise(own);
        }
        let end_of = |broker: BrokerId| match self.followers.get(&broker) {
            Some(follower) => follower.end.unwrap_or(Offset::ZERO),
            // The leader itself, or one that is no replica any more and counts until the metadata says so.
            None if broker == self.own => own,
            None => Offset::ZERO,
        };
        let committed = self.isr.maximal().map(end_of).fold(own, Offset::min);
        self.raise(committed)
    }

    fn raise(&mut self, committed: Offset) -> Option<Offset> {
        if committed <= self.high_watermark {
            return None;
        }
        self.high_watermark = committed;
        Some(committed)
    }
}

#[cfg(test)]
mod tests;
