//! One partition, as promised.

use std::collections::{BTreeMap, VecDeque};

use logway_log::{AppendOutcome, LogConfig};
use logway_model::{
    LeaderEpoch, Offset, ProducerId, Sequence, TimestampMs, TopicId, TopicPartition,
};
use logway_record::Batch;

use super::compaction::Compaction;
use super::kept::Kept;
use super::kind::Kind;
use super::replica::Truncated;
use crate::batch::content;
use crate::violation::{Violation, ensure};

/// What was promised of a partition, and what may or may not have happened.
///
/// Invariants: the batches in `kept` follow each other without a gap and end at `end`, whatever
/// compaction has left of them; `safe_end` is not behind it; what is `unanswered` is in the order in
/// which it was sent.
#[derive(Debug)]
pub(crate) struct Partition {
    pub(crate) name: TopicPartition,
    pub(crate) topic_id: TopicId,
    /// Which log directory it is in.
    pub(crate) dir: usize,
    pub(crate) kind: Kind,
    /// Its log was made, and that was acknowledged.
    pub(crate) is_created: bool,
    pub(super) start: Offset,
    /// Log starts that were asked for without an answer.
    starts_in_doubt: Vec<Offset>,
    is_retention_in_doubt: bool,
    /// The epochs of what lies before may be forgotten: a log start that nobody was told of moved
    /// on, and back again with the crash, and the epochs are written down before it.
    epochs_known_from: Offset,
    pub(super) kept: VecDeque<Kept>,
    pub(super) end: Offset,
    /// What lies before must survive a power cut.
    pub(super) safe_end: Offset,
    /// What lies before is in the page cache at least, and survives the end of the process alone.
    pub(super) cached_end: Offset,
    pub(super) unanswered: Vec<Sent>,
    /// What producers send again after a start.
    retries: Vec<Batch>,
    /// The sequences with which idempotent producers go on.
    sequences: BTreeMap<ProducerId, Sequence>,
    /// `None` if it is not compacted.
    compaction: Option<Compaction>,
    /// What a truncation without an answer makes of it.
    pub(super) truncation_in_doubt: Option<Truncated>,
    /// The newest epoch of which anything was sent.
    pub(crate) led_epoch: LeaderEpoch,
    /// The largest high watermark that was said, of what is not cut off.
    pub(super) high_watermark: Option<Offset>,
    /// One was said in this life: the last one.
    pub(super) is_bounded: bool,
    pub(super) bound: Offset,
}

#[derive(Debug, Clone)]
pub(super) struct Sent {
    pub(super) batch: Batch,
    pub(super) epoch: LeaderEpoch,
}

/// What a log has after a start.
pub(crate) struct Found {
    pub(crate) start: Offset,
    pub(crate) end: Offset,
    /// What the log says is on stable storage.
    pub(crate) flushed: Offset,
    pub(crate) high_watermark: Offset,
    pub(crate) batches: Vec<Batch>,
}

impl Partition {
    /// A partition of a new topic, whose log has these settings.
    pub(crate) fn new(
        name: TopicPartition,
        topic_id: TopicId,
        dir: usize,
        kind: Kind,
        config: &LogConfig,
    ) -> Partition {
        Partition {
            name,
            topic_id,
            dir,
            kind,
            is_created: false,
            start: Offset::ZERO,
            starts_in_doubt: Vec::new(),
            is_retention_in_doubt: false,
            epochs_known_from: Offset::ZERO,
            kept: VecDeque::new(),
            end: Offset::ZERO,
            safe_end: Offset::ZERO,
            cached_end: Offset::ZERO,
            unanswered: Vec::new(),
            retries: Vec::new(),
            sequences: BTreeMap::new(),
            compaction: kind.is_compacted().then(|| Compaction::new(config)),
            truncation_in_doubt: None,
            led_epoch: LeaderEpoch(0),
            high_watermark: None,
            is_bounded: false,
            bound: Offset::ZERO,
        }
    }

    /// Where it starts.
    pub(crate) fn start(&self) -> Offset {
        self.start
    }

    /// Where it ends.
    pub(crate) fn end(&self) -> Offset {
        self.end
    }

    /// Whether the log may not know any more of which epoch a batch is.
    pub(crate) fn may_forget_epoch(&self, kept: &Kept) -> bool {
        kept.last < self.epochs_known_from
    }

    /// The batches that have records from the start on.
    pub(crate) fn kept(&self) -> &VecDeque<Kept> {
        &self.kept
    }

    /// The sequence with which a producer goes on.
    pub(crate) fn next_sequence(&self, id: ProducerId) -> Sequence {
        self.sequences.get(&id).copied().unwrap_or(Sequence(0))
    }

    /// A producer has made its next batch, of so many records.
    pub(crate) fn advance(&mut self, id: ProducerId, records: usize) {
        let next = self.next_sequence(id).advance(i32::try_from(records).expect("a few records"));
        self.sequences.insert(id, next);
    }

    /// A batch is on its way to the log.
    pub(crate) fn send(&mut self, batch: &Batch, epoch: LeaderEpoch) {
        self.unanswered.push(Sent { batch: batch.clone(), epoch });
    }

    /// The log has taken a batch, or had it.
    pub(crate) fn acknowledge(
        &mut self,
        batch: &Batch,
        outcome: &AppendOutcome,
    ) -> Result<(), Violation> {
        let place = self.unanswered.iter().position(|sent| is_same(&sent.batch, batch));
        let place = place.expect("only what was sent is answered");
        let (base, last) = (outcome.base_offset, outcome.last_offset);
        let known = self.kept.iter().find(|kept| is_same(&kept.batch, batch));
        if outcome.is_duplicate {
            self.unanswered.remove(place);
            return ensure(known.is_none_or(|kept| (kept.base, kept.last) == (base, last)), || {
                format!("{}: a duplicate is answered with {base}-{last}: {known:?}", self.name)
            });
        }
        ensure(known.is_none(), || format!("{}: taken twice, at {base}: {known:?}", self.name))?;
        ensure(base == self.end, || {
            format!("{}: a batch got offset {base}, and {} was next", self.name, self.end)
        })?;
        let sent = self.unanswered.remove(place);
        self.keep(Kept::at(self.end, sent.epoch, sent.batch));
        // What was sent before it and not answered has failed, or it would have this place.
        let failed: Vec<Sent> = self.unanswered.drain(..place).collect();
        self.retry_later(failed);
        ensure(last.next() == self.end, || format!("{}: {base} to {last}", self.name))?;
        if self.kind.is_durable() {
            self.safe_end = self.end;
        }
        Ok(())
    }

    /// Somebody could see that all before this is on stable storage.
    pub(crate) fn note_flushed(&mut self, flushed: Offset) {
        self.safe_end = self.safe_end.max(flushed);
    }

    /// The log was closed in good order.
    pub(crate) fn note_closed(&mut self) {
        self.safe_end = self.end;
    }

    /// The process was killed, and nothing else.
    pub(crate) fn note_killed(&mut self) {
        self.cached_end = self.end;
    }

    /// The power has gone.
    pub(crate) fn note_power_cut(&mut self) {
        self.cached_end = Offset::ZERO;
    }

    /// The log start is to move.
    pub(crate) fn ask_for_start(&mut self, start: Offset) {
        self.starts_in_doubt.push(start);
    }

    /// Retention may move the log start.
    pub(crate) fn ask_for_retention(&mut self) {
        self.is_retention_in_doubt = true;
    }

    /// The log start has moved, for good.
    pub(crate) fn acknowledge_start(&mut self, start: Offset) -> Result<(), Violation> {
        ensure(start >= self.start && start <= self.end, || {
            format!("{}: the log start {start} is not in {}-{}", self.name, self.start, self.end)
        })?;
        self.starts_in_doubt.clear();
        self.is_retention_in_doubt = false;
        self.move_start(start);
        Ok(())
    }

    /// Takes what idempotent producers had no answer for when the world ended.
    pub(crate) fn take_retries(&mut self) -> Vec<Batch> {
        std::mem::take(&mut self.retries)
    }

    /// The first record at or after a time: its offset. All records of a batch have the same.
    pub(crate) fn offset_at(&self, timestamp: TimestampMs) -> Option<Offset> {
        let late = self.kept.iter().filter(|kept| kept.batch.header().max_timestamp >= timestamp);
        let mut offsets = late.flat_map(|kept| (kept.base.0..=kept.last.0).map(Offset));
        offsets.find(|offset| *offset >= self.start && self.has_record(*offset))
    }

    /// The batch that a reader at an offset finds first: where it begins.
    pub(crate) fn batch_at(&self, offset: Offset) -> Option<Offset> {
        let is_there = |kept: &&Kept| {
            self.compaction.as_ref().is_none_or(|compaction| compaction.has_batch(kept))
        };
        let mut batches = self.kept.iter().filter(is_there);
        batches.find(|kept| kept.last >= offset).map(|kept| kept.base)
    }

    /// How many records compaction was seen to have taken away since this was last asked.
    pub(crate) fn take_gone_count(&mut self) -> u64 {
        self.compaction.as_mut().map_or(0, Compaction::take_gone_count)
    }

    /// The cleaner begins to work on all logs.
    pub(crate) fn begin_cleaning(&mut self) {
        if let Some(compaction) = &mut self.compaction {
            compaction.begin();
        }
    }

    /// The cleaner has ended its work.
    pub(crate) fn end_cleaning(&mut self) {
        if let Some(compaction) = &mut self.compaction {
            compaction.end(self.end);
        }
    }

    /// Somebody has read a log that has nothing under way.
    pub(crate) fn observe(&mut self, found: &Found, now: TimestampMs) -> Result<(), Violation> {
        ensure((found.start, found.end) == (self.start, self.end), || {
            let (name, start, end) = (&self.name, self.start, self.end);
            format!("{name} is {start} to {end}, and found as {} to {}", found.start, found.end)
        })?;
        self.compare(&found.batches, now)
    }

    /// The world has started again. `may_skip` says whether a batch can be there although one that was
    /// sent before it is not: that one may have been refused, by a disk that is full.
    pub(crate) fn recovered(
        &mut self,
        found: &Found,
        may_skip: bool,
        now: TimestampMs,
    ) -> Result<(), Violation> {
        self.judge_truncation(found);
        self.check_high_watermark(found)?;
        self.check_start(found)?;
        self.move_start(found.start);
        let safe_end = self.safe_end.max(self.cached_end);
        ensure(found.end >= safe_end, || {
            format!("{} ends at {}, and must have {safe_end}", self.name, found.end)
        })?;
        while self.kept.pop_back_if(|kept| kept.last >= found.end).is_some() {}
        self.end = self.kept.back().map_or(self.end.min(found.end), |last| last.last.next());
        let unanswered = std::mem::take(&mut self.unanswered);
        let known = found.batches.partition_point(|batch| batch.base_offset() < self.end);
        self.keep_in_doubt(&unanswered, &found.batches[known..], may_skip)?;
        ensure(self.end == found.end, || {
            format!("{} ends at {}, and its batches at {}", self.name, found.end, self.end)
        })?;
        self.compare(&found.batches, now)?;
        self.end_cleaning();
        ensure(!self.kind.is_durable() || found.flushed == self.end, || {
            let (name, end, flushed) = (&self.name, self.end, found.flushed);
            format!("{name} is shown up to {end}, and on stable storage up to {flushed}")
        })?;
        self.note_flushed(found.flushed);
        self.retry_later(unanswered);
        Ok(())
    }

    /// Finds out which of the batches that were sent without an answer the log has taken.
    fn keep_in_doubt(
        &mut self,
        unanswered: &[Sent],
        found: &[Batch],
        may_skip: bool,
    ) -> Result<(), Violation> {
        let mut in_doubt = unanswered.iter();
        for batch in found {
            loop {
                let sent = in_doubt.next().ok_or_else(|| {
                    let header = batch.header();
                    Violation::new(format!("{}: this was not sent next: {header:?}", self.name))
                })?;
                // A follower is sent nothing twice, but what fills gaps is the same.
                let is_known = self.kind != Kind::Followed
                    && self.kept.iter().any(|kept| is_same(&kept.batch, &sent.batch));
                if is_known && !may_skip {
                    continue;
                }
                let kept = Kept::at(self.end, sent.epoch, sent.batch.clone());
                let is_next = match self.compaction {
                    Some(_) => kept.left_in(batch).is_some(),
                    None => is_same(&sent.batch, batch),
                };
                if is_next {
                    self.keep(kept);
                    break;
                }
                if !may_skip {
                    // Compaction may have left nothing of it.
                    let is_gone = self.compaction.is_some() && batch.base_offset() > kept.last;
                    ensure(is_gone, || {
                        format!("{}: this was not sent next: {:?}", self.name, batch.header())
                    })?;
                    self.keep(kept);
                }
            }
        }
        Ok(())
    }

    fn check_start(&mut self, found: &Found) -> Result<(), Violation> {
        let asked = std::mem::take(&mut self.starts_in_doubt);
        let was_retained = std::mem::take(&mut self.is_retention_in_doubt);
        let furthest = asked.iter().copied().chain(was_retained.then_some(self.end)).max();
        self.epochs_known_from = self.epochs_known_from.max(furthest.unwrap_or(Offset::ZERO));
        let is_asked = asked.contains(&found.start);
        let is_expired = was_retained && found.start > self.start;
        ensure(found.start == self.start || is_asked || is_expired, || {
            let (name, start) = (&self.name, self.start);
            format!("{name} starts at {}, and started at {start}, or {asked:?}", found.start)
        })
    }

    /// Compares the batches that the log has with those that it was sent.
    fn compare(&mut self, found: &[Batch], now: TimestampMs) -> Result<(), Violation> {
        let name = &self.name;
        if let Some(compaction) = &mut self.compaction {
            return compaction.compare(name, &self.kept, found, self.start, now);
        }
        let mut found = found.iter();
        for kept in &self.kept {
            let Some(found) = found.next() else {
                let missing = format!("{name}: the batch at {} is missing", kept.base);
                return Err(Violation::new(missing));
            };
            ensure(kept.is_whole(found), || {
                format!("{name}: {:?} is where {kept:?} was", found.header())
            })?;
        }
        let stranger = found.next().map(Batch::header);
        ensure(stranger.is_none(), || format!("{name}: nobody has sent {stranger:?}"))
    }

    fn has_record(&self, offset: Offset) -> bool {
        self.compaction.as_ref().is_none_or(|compaction| compaction.has_record(offset))
    }

    /// Producers that are not idempotent give up, and so does a leader: its next answer says what is there.
    fn retry_later(&mut self, unanswered: Vec<Sent>) {
        if self.kind == Kind::Followed {
            return;
        }
        let batches = unanswered.into_iter().map(|sent| sent.batch);
        self.retries.extend(batches.filter(|batch| batch.header().producer_id.is_some()));
    }

    pub(super) fn keep(&mut self, kept: Kept) {
        self.end = kept.last.next();
        self.kept.push_back(kept);
    }

    fn move_start(&mut self, start: Offset) {
        self.start = start;
        while self.kept.pop_front_if(|kept| kept.last < start).is_some() {}
        if let Some(compaction) = &mut self.compaction {
            compaction.move_start(start);
        }
    }
}

fn is_same(one: &Batch, other: &Batch) -> bool {
    content(one) == content(other)
}
