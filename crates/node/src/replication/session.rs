//! What a leader remembers of a follower between its requests (as KIP-227 has for clients), so that a request and an
//! answer cost what has changed, and not what there is.
//!
//! Each partition of a session waits by itself: it is marked when there is something to say of it. What waits for the
//! marks is the follower's request.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use logway_log::checkpoint::Divergence;
use logway_model::{BrokerId, ErrorCode, LeaderEpoch, Offset};
use logway_replication::FollowerFetch;
use logway_replication::message::{
    FetchFromLeader, FollowedPartition, FollowerEnd, FollowerStart, LedPartition,
};
use tokio::sync::Notify;
use tokio::time::{Duration, Instant};

use crate::replica::{FollowerStanding, Replica};
use crate::rising_offset::{RisingOffset, WaitKey};

/// Partitions that a session may have had. A follower begins another session long before.
const SLOTS_MAX: usize = 2_000_000;

/// Nothing tells when a log's beginning moves: with each answer, so many partitions are looked at where answers are rare.
const LOOKED_AT: usize = 512;

/// And so many where one answer follows the other.
const LOOKED_AT_OFTEN: usize = 32;

/// Answers with more time between them are rare.
const RARE: Duration = Duration::from_millis(100);

/// The sessions of this node's followers: one each.
#[derive(Default)]
pub(crate) struct FetchSessions(Mutex<BTreeMap<BrokerId, Arc<FetchSession>>>);

impl FetchSessions {
    /// The session of a request, which may begin it. `None` if the request is not of the follower's present session.
    ///
    /// A request to begin one may come late or twice, so it has to be of a newer session than the present one.
    fn of(&self, request: &FetchFromLeader) -> Option<Arc<FetchSession>> {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let present = sessions.get(&request.follower);
        let id = (request.broker_epoch, request.session);
        if request.number > 0 {
            return present.filter(|session| session.id == id).cloned();
        }
        if present.is_some_and(|session| session.id >= id) {
            return None;
        }
        let begun = Arc::new(FetchSession::new(request.follower, id));
        if let Some(replaced) = sessions.insert(request.follower, Arc::clone(&begun)) {
            replaced.marks.end();
        }
        Some(begun)
    }

    /// Takes what a follower tells: how far it is counts from here on. `None` if the request is not the next one of its
    /// session; nothing of it was taken then.
    pub(super) fn take(&self, led: &Led<'_>, request: &FetchFromLeader) -> Option<Taken> {
        let session = self.of(request)?;
        let could_join = session.take(led, request)?;
        Some(Taken { session, could_join })
    }
}

/// A request that was taken.
pub(super) struct Taken {
    pub(super) session: Arc<FetchSession>,
    /// The follower could be in sync with a partition, and is not.
    pub(super) could_join: bool,
}

/// What this node leads.
pub(super) struct Led<'a> {
    /// The replica that a follower means, if it leads in the epoch that the follower believes in.
    pub(super) find: &'a dyn Fn(FollowedPartition) -> Result<Arc<Replica>, ErrorCode>,
    /// How far a follower is counts though its records are not the leader's, to see whether a simulation notices.
    pub(super) counts_diverging: bool,
}

/// One follower's session with this leader.
pub(crate) struct FetchSession {
    follower: BrokerId,
    /// The follower's broker epoch, and the number that it gave the session.
    id: (i64, u64),
    state: Mutex<State>,
    marks: Arc<Marks>,
}

struct State {
    /// Which request comes next.
    next_number: u32,
    /// `None` for what has ended.
    slots: Vec<Option<Slot>>,
    /// Where to go on looking for logs whose beginning has moved.
    looked_at: usize,
    /// When it was looked last.
    last_look: Instant,
}

/// A partition of a session.
struct Slot {
    followed: FollowedPartition,
    /// Not itself: a follower that is gone must not keep what was deleted.
    replica: Weak<Replica>,
    standing: Standing,
    told_watermark: Offset,
    told_start: Offset,
    /// While the follower is not in sync.
    catch_up: Option<CatchUp>,
    /// For more records.
    waits_for_end: Option<WaitKey>,
    /// For a higher watermark.
    waits_for_watermark: Option<WaitKey>,
}

/// A follower on its way to being in sync.
#[derive(Clone, Copy)]
struct CatchUp {
    /// What was there when it began, or when it had all that was there then.
    until: Offset,
    /// How often it had that.
    round: u32,
}

impl CatchUp {
    /// The follower asks for what is behind `end`, and the log ends at `log_end`.
    fn go_on(known: Option<CatchUp>, end: Offset, log_end: Offset) -> CatchUp {
        match known {
            None => CatchUp { until: log_end, round: 0 },
            Some(CatchUp { until, round }) if end >= until && log_end > end => {
                CatchUp { until: log_end, round: round.saturating_add(1) }
            }
            Some(known) => known,
        }
    }
}

/// What the leader is to do about a partition.
enum Standing {
    /// Nothing, until it is told how far the follower is.
    Silent,
    /// To say this at once.
    Says(LedPartition),
    /// To send what is behind this end.
    Copies(Offset),
}

/// What a partition that was marked needs.
pub(super) enum Marked {
    Nothing,
    Says(LedPartition),
    /// The records of the replica behind this offset. Of a follower that is not in sync: how often it has had all
    /// that was there when it began.
    Copies(Arc<Replica>, Offset, Option<u32>),
}

/// The partitions that there is something to say about.
#[derive(Default)]
struct Marks {
    sets: Mutex<MarkSets>,
    /// Something is ready, or the session is over.
    news: Notify,
}

#[derive(Default)]
struct MarkSets {
    /// The answer is due. The one that has waited for longest is first.
    ready: VecDeque<u32>,
    /// To be told with the next answer.
    quiet: Vec<u32>,
    /// Ready, but for a bound on what is copied.
    held_back: Vec<u32>,
    is_over: bool,
}

impl Marks {
    fn sets(&self) -> MutexGuard<'_, MarkSets> {
        // What it guards is right after each step.
        self.sets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ready(&self, slot: u32) {
        self.sets().ready.push_back(slot);
        self.news.notify_one();
    }

    fn quiet(&self, slot: u32) {
        self.sets().quiet.push(slot);
    }

    /// Another session has taken the place of this one.
    fn end(&self) {
        self.sets().is_over = true;
        self.news.notify_one();
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(replica) = self.replica.upgrade() {
            self.stop_waiting(&replica);
        }
    }
}

impl Slot {
    fn new(followed: FollowedPartition) -> Slot {
        Slot {
            followed,
            replica: Weak::new(),
            standing: Standing::Silent,
            told_watermark: Offset(-1),
            told_start: Offset(-1),
            catch_up: None,
            waits_for_end: None,
            waits_for_watermark: None,
        }
    }

    fn stop_waiting(&mut self, replica: &Replica) {
        let take_back = |of: &RisingOffset, wait: &mut Option<WaitKey>| {
            if let Some(wait) = wait.take() {
                of.unsubscribe(wait);
            }
        };
        take_back(replica.log_end(), &mut self.waits_for_end);
        take_back(replica.high_watermark(), &mut self.waits_for_watermark);
    }

    fn led(&mut self, led: &Led<'_>) -> Result<Arc<Replica>, ErrorCode> {
        let known = self.replica.upgrade();
        if let Some(known) = known.filter(|known| known.leads_in(self.followed.leader_epoch)) {
            return Ok(known);
        }
        let replica = (led.find)(self.followed)?;
        self.replica = Arc::downgrade(&replica);
        Ok(replica)
    }

    /// Begins to wait until there is something to say.
    fn begin_waiting(&mut self, number: u32, replica: &Replica, marks: &Arc<Marks>) {
        if let Standing::Copies(end) = self.standing {
            let marked = Arc::clone(marks);
            let wait = replica.log_end().call(end, move || marked.ready(number));
            match replica.log_end().get() > end {
                // The one who looks finds it there.
                true => {
                    replica.log_end().unsubscribe(wait);
                    marks.ready(number);
                }
                false => self.waits_for_end = Some(wait),
            }
        }
        self.wait_for_watermark(number, replica, marks);
    }

    fn wait_for_watermark(&mut self, number: u32, replica: &Replica, marks: &Arc<Marks>) {
        let (watermark, told) = (replica.high_watermark(), self.told_watermark);
        if told >= replica.log_end().get() {
            // It does not rise before there is more to copy.
            return;
        }
        let marked = Arc::clone(marks);
        let wait = watermark.call(told, move || marked.quiet(number));
        match watermark.get() > told {
            true => {
                watermark.unsubscribe(wait);
                marks.quiet(number);
            }
            false => self.waits_for_watermark = Some(wait),
        }
    }

    /// What to say without records.
    fn part(&mut self, number: u32, replica: &Replica) -> LedPartition {
        let part = LedPartition {
            high_watermark: replica.high_watermark().get(),
            log_start: replica.log().log_start_offset(),
            ..LedPartition::of(number)
        };
        (self.told_watermark, self.told_start) = (part.high_watermark, part.log_start);
        part
    }

    /// The same where the follower gets nothing. It takes no watermark from that, and may be cut off to below one that it
    /// knows: so it is told again, also where no record is left to come with it.
    fn refusal(&mut self, number: u32, replica: &Replica) -> LedPartition {
        let part = self.part(number, replica);
        (self.told_watermark, self.told_start) = (Offset(-1), Offset(-1));
        part
    }
}

impl FetchSession {
    fn new(follower: BrokerId, id: (i64, u64)) -> FetchSession {
        let last_look = Instant::now();
        let state = State { next_number: 0, slots: Vec::new(), looked_at: 0, last_look };
        FetchSession { follower, id, state: Mutex::new(state), marks: Arc::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // What it guards is right after each step.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says whether the follower could be in sync and is not; `None` if the request is not the next one.
    fn take(&self, led: &Led<'_>, request: &FetchFromLeader) -> Option<bool> {
        let state = &mut *self.state();
        let slots = state.slots.len() + request.begun.len();
        if request.number != state.next_number || slots > SLOTS_MAX {
            return None;
        }
        state.next_number += 1;
        for slot in &request.ended {
            if let Some(slot) = slot_of(&mut state.slots, *slot) {
                *slot = None;
            }
        }
        state.slots.extend(request.begun.iter().map(|followed| Some(Slot::new(*followed))));
        let mut could_join = false;
        for told in &request.told {
            if let Some(Some(slot)) = slot_of(&mut state.slots, told.slot) {
                could_join |= self.hear(led, slot, *told);
            }
        }
        for FollowerStart { slot, start } in &request.starts {
            if let Some(Some(slot)) = slot_of(&mut state.slots, *slot)
                && let Some(replica) = slot.replica.upgrade()
            {
                let epoch = slot.followed.leader_epoch;
                replica.on_follower_start(epoch, (self.follower, self.id.0), *start);
            }
        }
        Some(could_join)
    }

    /// The follower tells how far it is with a partition. Says whether it could be in sync and is not.
    fn hear(&self, led: &Led<'_>, slot: &mut Slot, told: FollowerEnd) -> bool {
        if let Some(replica) = slot.replica.upgrade() {
            slot.stop_waiting(&replica);
        }
        let replica = match slot.led(led) {
            Ok(replica) => replica,
            Err(error) => {
                slot.standing =
                    Standing::Says(LedPartition { error, ..LedPartition::of(told.slot) });
                self.marks.ready(told.slot);
                return false;
            }
        };
        let epoch = slot.followed.leader_epoch;
        let parting = parting(&replica, told);
        // Only now is it known that this was the leader's log: one that leads no more is cut off.
        if !replica.leads_in(epoch) {
            self.say(slot, no_longer_led(told.slot));
            return false;
        }
        if let Some(parting) = parting.filter(|_| !led.counts_diverging) {
            let part = parting.part(slot.refusal(told.slot, &replica));
            self.say(slot, part);
            return false;
        }
        let (broker, broker_epoch) = (self.follower, self.id.0);
        // A follower that was just added may know it before its leader does. How far it is would not count, and it says so
        // once: where nothing is written, it would never be in sync.
        let fetch = FollowerFetch { broker, broker_epoch, end: told.end };
        let FollowerStanding::Follows { could_join, in_sync } = replica.on_fetch(epoch, fetch)
        else {
            let part = slot.refusal(told.slot, &replica);
            self.say(slot, LedPartition { error: ErrorCode::UnknownLeaderEpoch, ..part });
            return false;
        };
        slot.catch_up = (!in_sync)
            .then(|| CatchUp::go_on(slot.catch_up, told.end, replica.log().log_end_offset()));
        slot.standing = Standing::Copies(told.end);
        slot.begin_waiting(told.slot, &replica, &self.marks);
        could_join
    }

    /// Has something said at once.
    fn say(&self, slot: &mut Slot, part: LedPartition) {
        let number = part.slot;
        slot.standing = Standing::Says(part);
        self.marks.ready(number);
    }

    /// Ends when there is something to say, or the session is over.
    pub(super) async fn news(&self) {
        self.marks.news.notified().await;
    }

    /// Whether another session has taken the place of this one.
    pub(super) fn is_over(&self) -> bool {
        self.marks.sets().is_over
    }

    /// The next partition that was marked, and what it needs.
    pub(super) fn next_marked(&self) -> Option<(u32, Marked)> {
        let number = self.marks.sets().ready.pop_front()?;
        let state = &mut *self.state();
        let Some(Some(slot)) = slot_of(&mut state.slots, number) else {
            return Some((number, Marked::Nothing));
        };
        let marked = match std::mem::replace(&mut slot.standing, Standing::Silent) {
            Standing::Silent => Marked::Nothing,
            Standing::Says(part) => Marked::Says(part),
            Standing::Copies(end) => {
                let epoch = slot.followed.leader_epoch;
                match slot.replica.upgrade().filter(|replica| replica.leads_in(epoch)) {
                    None => Marked::Says(no_longer_led(number)),
                    Some(replica) => {
                        slot.standing = Standing::Copies(end);
                        Marked::Copies(replica, end, slot.catch_up.map(|it| it.round))
                    }
                }
            }
        };
        Some((number, marked))
    }

    /// The answer is full: a partition is first in the next one.
    pub(super) fn put_back(&self, slot: u32) {
        self.marks.sets().ready.push_front(slot);
        self.marks.news.notify_one();
    }

    /// A partition has to wait for a bound on what is copied: until [`FetchSession::take_held_back`].
    pub(super) fn hold_back(&self, slot: u32) {
        self.marks.sets().held_back.push(slot);
    }

    /// What was held back is looked at again, behind what is ready.
    pub(super) fn take_held_back(&self) {
        let sets = &mut *self.marks.sets();
        sets.ready.extend(sets.held_back.drain(..));
    }

    /// What to say of a partition whose records behind `end` were read. `None` if the follower has said more of it
    /// meanwhile.
    pub(super) fn copied(
        &self,
        number: u32,
        replica: &Replica,
        end: Offset,
        read: Result<bytes::Bytes, ErrorCode>,
    ) -> Option<LedPartition> {
        let state = &mut *self.state();
        let Some(Some(slot)) = slot_of(&mut state.slots, number) else { return None };
        if !matches!(slot.standing, Standing::Copies(now) if now == end) {
            return None;
        }
        slot.stop_waiting(replica);
        if matches!(&read, Ok(records) if records.is_empty()) {
            slot.begin_waiting(number, replica, &self.marks);
            return None;
        }
        slot.standing = Standing::Silent;
        // Only now is it known that it was the leader's log that was read: one that leads no more is cut off.
        if !replica.leads_in(slot.followed.leader_epoch) {
            return Some(no_longer_led(number));
        }
        let error = match read {
            Ok(records) => return Some(LedPartition { records, ..slot.part(number, replica) }),
            // What is left is said when the follower asks again.
            Err(ErrorCode::OffsetOutOfRange) => ErrorCode::ReplicaNotAvailable,
            Err(error) => error,
        };
        Some(LedPartition { error, ..slot.refusal(number, replica) })
    }

    /// What is told with an answer, though none was due for it: watermarks that rose, and logs whose beginning has moved.
    pub(super) fn quiet_news(&self) -> Vec<LedPartition> {
        let risen = std::mem::take(&mut self.marks.sets().quiet);
        let mut parts = Vec::new();
        let state = &mut *self.state();
        for number in risen {
            let Some(Some(slot)) = slot_of(&mut state.slots, number) else { continue };
            slot.waits_for_watermark = None;
            self.tell_quietly(number, slot, &mut parts);
        }
        let count = state.slots.len();
        let since = std::mem::replace(&mut state.last_look, Instant::now()).elapsed();
        let looks = if since > RARE { LOOKED_AT } else { LOOKED_AT_OFTEN };
        for _ in 0..count.min(looks) {
            let number = state.looked_at % count;
            state.looked_at = number + 1;
            let Some(slot) = &mut state.slots[number] else { continue };
            let replica = slot.replica.upgrade();
            let start = replica.map(|replica| replica.log().log_start_offset());
            let has_moved = slot.told_start.0 >= 0 && start.is_some_and(|it| it > slot.told_start);
            if has_moved {
                let number = u32::try_from(number).expect("there are fewer slots");
                self.tell_quietly(number, slot, &mut parts);
            }
        }
        parts
    }

    fn tell_quietly(&self, number: u32, slot: &mut Slot, parts: &mut Vec<LedPartition>) {
        // The others are told with what is said of them next.
        let copies = matches!(slot.standing, Standing::Copies(_));
        let epoch = slot.followed.leader_epoch;
        let replica = slot.replica.upgrade().filter(|replica| copies && replica.leads_in(epoch));
        let Some(replica) = replica else { return };
        let told = slot.told_watermark;
        parts.push(slot.part(number, &replica));
        if slot.waits_for_watermark.is_none() {
            slot.wait_for_watermark(number, &replica, &self.marks);
        }
        debug_assert!(slot.told_watermark >= told, "a watermark went back");
    }
}

fn slot_of(slots: &mut [Option<Slot>], number: u32) -> Option<&mut Option<Slot>> {
    slots.get_mut(usize::try_from(number).ok()?)
}

fn no_longer_led(number: u32) -> LedPartition {
    LedPartition { error: ErrorCode::NotLeaderOrFollower, ..LedPartition::of(number) }
}

/// Why a follower's log is not the beginning of the leader's.
enum Parting {
    /// The follower begins anew: nothing is left of what comes next, or the two have nothing in common that is known.
    OutOfRange,
    /// The two part here (KIP-595).
    At(LeaderEpoch, Offset),
}

impl Parting {
    fn part(self, part: LedPartition) -> LedPartition {
        match self {
            Parting::OutOfRange => LedPartition { error: ErrorCode::OffsetOutOfRange, ..part },
            Parting::At(epoch, end) => LedPartition { diverging: Some((epoch, end)), ..part },
        }
    }
}

/// Where a follower's log parts from this one, if it does. How far it is says nothing then.
fn parting(replica: &Replica, told: FollowerEnd) -> Option<Parting> {
    let log = replica.log();
    let FollowerEnd { end, last_epoch, .. } = told;
    if end < log.log_start_offset() {
        return Some(Parting::OutOfRange);
    }
    let log_end = log.log_end_offset();
    if last_epoch == LeaderEpoch::NONE {
        return (end > log_end).then_some(Parting::OutOfRange);
    }
    match log.divergence(last_epoch, end) {
        Divergence::None => (end > log_end).then_some(Parting::At(last_epoch, log_end)),
        Divergence::At(parts) => Some(Parting::At(parts.epoch, parts.end_offset)),
        Divergence::UnknownEpoch => Some(Parting::OutOfRange),
    }
}

#[cfg(test)]
mod tests;
