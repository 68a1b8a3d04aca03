//! The follower's half of a fetch session: which partitions it follows at one leader, and what the leader has yet to be told
//! of them.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use logway_model::{BrokerId, LeaderEpoch, Offset, PartitionId, TopicId};
use logway_replication::message::{
    FetchFromLeader, FollowedPartition, FollowerEnd, FollowerStart, Wants,
};
use tokio::time::Instant;

use super::following::{Asked, Next};
use crate::replica::freshness::Answered;
use crate::topics::TopicTable;

/// A partition that could not be copied is asked for again after this time, and twice as late each time, up to
/// [`RETRY_DOUBLED_MAX`] times.
const RETRY_AFTER: Duration = Duration::from_millis(50);

const RETRY_DOUBLED_MAX: u32 = 5;

/// Of so many partitions a request tells at most. The others come with the next.
const TOLD_MAX: usize = 20_000;

/// Slots that have ended and are not worth another session yet.
const ENDED_MAX: usize = 1_000;

/// With each request, the beginnings of so many logs are looked at where requests are rare.
const LOOKED_AT: usize = 512;

/// And so many where one request follows the other.
const LOOKED_AT_OFTEN: usize = 32;

/// Requests with more time between them are rare.
const RARE: Duration = Duration::from_millis(100);

/// What one follower says to one leader.
pub(super) struct Asking {
    session: u64,
    next_number: u32,
    /// What the leader has answered.
    pub(super) answered: Arc<Answered>,
    /// `None` for what is not followed there any more.
    slots: Vec<Option<Followed>>,
    by_partition: HashMap<(TopicId, PartitionId), u32>,
    /// The leader knows the slots before this one.
    begun: usize,
    ended: Vec<u32>,
    to_tell: VecDeque<u32>,
    later: BTreeSet<(Instant, u32)>,
    /// Where to go on looking for logs whose beginning has moved.
    looked_at: usize,
    /// When it was looked last.
    last_look: Instant,
}

struct Followed {
    asked: Asked,
    topic: TopicId,
    /// So many times in turn it could not be copied.
    failures: u32,
    /// Where the leader knows that the log begins.
    told_start: Option<Offset>,
}

impl Followed {
    /// Where the log begins, if that is news to the leader.
    fn take_start(&mut self) -> Option<Offset> {
        let start = self.asked.replica.log().log_start_offset();
        (self.told_start.replace(start) != Some(start)).then_some(start)
    }
}

impl Asking {
    /// Begins a session.
    pub(super) fn new(session: u64) -> Asking {
        Asking {
            session,
            next_number: 0,
            answered: Arc::default(),
            slots: Vec::new(),
            by_partition: HashMap::new(),
            begun: 0,
            ended: Vec::new(),
            to_tell: VecDeque::new(),
            later: BTreeSet::new(),
            looked_at: 0,
            last_look: Instant::now(),
        }
    }

    /// Follows what the table has at the leader, and nothing else. Returns the partitions that are new. One that is
    /// followed in another epoch than before is another: what the leader says of the earlier one must not count.
    pub(super) fn adopt(&mut self, topics: &TopicTable, leader: BrokerId) -> Vec<Asked> {
        let before = std::mem::take(&mut self.by_partition);
        let mut begun = Vec::new();
        for (topic, replica) in topics.replicas() {
            if replica.leader_followed() != Some(leader) {
                continue;
            }
            let (key, epoch) =
                ((topic, replica.topic_partition().partition), replica.leader_epoch());
            let is_same = |slot: &&u32| {
                let followed = self.slots[**slot as usize].as_ref();
                followed.is_some_and(|it| {
                    it.asked.epoch == epoch && Arc::ptr_eq(&it.asked.replica, replica)
                })
            };
            let slot = before.get(&key).filter(is_same).copied().unwrap_or_else(|| {
                let end = replica.log().log_end_offset();
                let asked = Asked { replica: Arc::clone(replica), epoch, end };
                begun.push(asked.clone());
                self.begin(Followed { asked, topic, failures: 0, told_start: None })
            });
            self.by_partition.insert(key, slot);
        }
        for (key, slot) in before {
            if self.by_partition.get(&key) != Some(&slot) {
                self.slots[slot as usize] = None;
                self.ended.push(slot);
            }
        }
        begun
    }

    fn begin(&mut self, followed: Followed) -> u32 {
        let slot = u32::try_from(self.slots.len()).expect("a session ends long before");
        self.slots.push(Some(followed));
        self.to_tell.push_back(slot);
        slot
    }

    /// Whether nothing is followed there.
    pub(super) fn is_empty(&self) -> bool {
        self.by_partition.is_empty()
    }

    /// Whether so much of the session has ended that another one is cheaper.
    pub(super) fn is_worn(&self) -> bool {
        self.slots.len() > 2 * self.by_partition.len() + ENDED_MAX
    }

    /// Whether the leader is to be told something.
    pub(super) fn has_news(&mut self) -> bool {
        let now = Instant::now();
        while let Some((_, slot)) = self.later.first().filter(|(at, _)| *at <= now).copied() {
            self.later.pop_first();
            self.to_tell.push_back(slot);
        }
        self.begun < self.slots.len() || !self.ended.is_empty() || !self.to_tell.is_empty()
    }

    /// When there will be something to tell, if that is known.
    pub(super) fn news_at(&self) -> Option<Instant> {
        self.later.first().map(|(at, _)| *at)
    }

    /// The number of the last request.
    pub(super) fn last_number(&self) -> u32 {
        self.next_number.saturating_sub(1)
    }

    /// What is to be told now: the slots, with what they were asked for.
    pub(super) fn take_untold(&mut self) -> Vec<u32> {
        let count = self.to_tell.len().min(TOLD_MAX);
        self.to_tell.drain(..count).filter(|slot| self.slots[*slot as usize].is_some()).collect()
    }

    /// A partition of the session, if it is followed still.
    pub(super) fn asked(&mut self, slot: u32) -> Option<&mut Asked> {
        Some(&mut self.slots.get_mut(slot as usize)?.as_mut()?.asked)
    }

    /// The next request, which tells how far these are.
    pub(super) fn request(
        &mut self,
        (follower, broker_epoch): (BrokerId, i64),
        told: &[u32],
        wants: Option<Wants>,
    ) -> FetchFromLeader {
        let nothing = || FollowedPartition {
            topic: TopicId::default(),
            partition: PartitionId(-1),
            leader_epoch: LeaderEpoch::NONE,
        };
        let begin = |followed: &Option<Followed>| {
            // It has ended before it was told of, and keeps its number.
            let Some(Followed { asked, topic, .. }) = followed else { return nothing() };
            let partition = asked.replica.topic_partition().partition;
            FollowedPartition { topic: *topic, partition, leader_epoch: asked.epoch }
        };
        let begun = self.slots[self.begun..].iter().map(begin).collect();
        self.begun = self.slots.len();
        let number = self.next_number;
        self.next_number += 1;
        let tell = |slot: &u32| {
            let asked = &self.slots[*slot as usize].as_ref()?.asked;
            let replica = &asked.replica;
            let knows = (asked.epoch, replica.high_watermark().get());
            replica.freshness().on_end_told(knows, &self.answered, number);
            let last_epoch = asked.replica.log().latest_epoch();
            Some(FollowerEnd { slot: *slot, end: asked.end, last_epoch })
        };
        let ends = told.iter().filter_map(tell).collect();
        let starts = self.starts(told);
        FetchFromLeader {
            follower,
            broker_epoch,
            session: self.session,
            number,
            wants,
            begun,
            told: ends,
            starts,
            ended: std::mem::take(&mut self.ended),
        }
    }

    /// Where logs begin, of those of which something is told and of some others: nothing tells when a log's beginning moves.
    fn starts(&mut self, told: &[u32]) -> Vec<FollowerStart> {
        let count = self.slots.len();
        let since = std::mem::replace(&mut self.last_look, Instant::now()).elapsed();
        let looks = if since > RARE { LOOKED_AT } else { LOOKED_AT_OFTEN };
        let others = (0..count.min(looks)).map(|step| (self.looked_at + step) % count);
        // The leader may not know yet what those are of which nothing was told.
        let was_told = |slot: &usize| {
            self.slots[*slot].as_ref().is_some_and(|followed| followed.told_start.is_some())
        };
        let others: Vec<usize> = others.filter(was_told).collect();
        let others = others.into_iter().filter_map(|slot| u32::try_from(slot).ok());
        let mut starts = Vec::new();
        for slot in told.iter().copied().chain(others) {
            let followed = self.slots.get_mut(slot as usize).and_then(Option::as_mut);
            if let Some(start) = followed.and_then(Followed::take_start) {
                starts.push(FollowerStart { slot, start });
            }
        }
        self.looked_at = (self.looked_at + looks) % count.max(1);
        starts
    }

    /// The leader may not have taken where a log begins: it is told with what it is told of the log next.
    pub(super) fn forget_told_start(&mut self, slot: u32) {
        if let Some(Some(followed)) = self.slots.get_mut(slot as usize) {
            followed.told_start = None;
        }
    }

    /// Tells the leader of a partition again, not before a time.
    pub(super) fn tell_at(&mut self, slot: u32, at: Instant) {
        if let Some(Some(followed)) = self.slots.get_mut(slot as usize) {
            followed.failures = 0;
            self.later.insert((at, slot));
        }
    }

    /// Tells the leader of a partition again.
    pub(super) fn tell(&mut self, slot: u32, when: Next) {
        let Some(Some(followed)) = self.slots.get_mut(slot as usize) else { return };
        match when {
            Next::AtOnce => {
                followed.failures = 0;
                self.to_tell.push_back(slot);
            }
            Next::Later => {
                let doubled = followed.failures.min(RETRY_DOUBLED_MAX);
                followed.failures = doubled + 1;
                self.later.insert((Instant::now() + RETRY_AFTER * (1 << doubled), slot));
            }
        }
    }
}
