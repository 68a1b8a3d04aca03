//! What becomes of a batch.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use logway_model::{Offset, ProducerEpoch, ProducerId, TimestampMs};
use logway_record::{
    Batch, BatchHeader, DecodeLimit, RecordError, RecordVisitor, RetainedRecords, Rewrite,
    WalkedRecord,
};

use super::key_hash::KeyHasher;
use super::key_map::KeyMap;
use super::transactions::Transactions;

/// What becomes of a batch.
#[derive(Debug)]
pub(super) enum Filtered {
    /// It stays as it is, byte for byte.
    AsIs,
    /// Some of its records stay, or it gets a delete horizon.
    Rewritten(Rewrite),
    /// Nothing but its place, its producer and its sequence stays.
    Emptied,
    /// Nothing stays.
    Dropped,
}

/// What comes behind a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Behind {
    /// Another batch of its segment.
    Batch,
    /// Another segment, with batches or about to get some.
    Segment,
    /// Nothing yet: the log ends with it.
    LogEnd,
}

/// Where a producer that may go on has written last: that batch is never dropped, because the next
/// start may have to learn its sequence from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LastWrite {
    /// The last batch with records ends here.
    Records(Offset),
    /// In this epoch, nothing but a transaction's marker is known.
    Marker(ProducerEpoch),
}

/// The last writes of the producers of a log.
pub(crate) type LastWrites = HashMap<ProducerId, LastWrite>;

/// Records that were looked at and not kept, by reason, and those kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct FilterCounts {
    pub(super) kept: u64,
    /// A newer record has the key, or the transaction was taken back.
    pub(super) superseded: u64,
    /// Tombstones whose time had come, and markers.
    pub(super) deleted: u64,
    /// Records without a key: the topic was not compacted when they came.
    pub(super) keyless: u64,
}

/// Judges the batches of a log, in its order: a pure function but for what it counts and what it
/// knows of the transactions under way.
///
/// The rules are Apache Kafka's (`Cleaner.cleanInto`, KIP-98, KIP-534). Records before `end` are
/// judged, those from there on stay. Of a key, the newest record stays, if it was not taken back.
/// A tombstone stays until its batch's delete horizon, which the first cleaning that finds it sets.
/// A marker stays while anything of its transaction does, and then until a horizon of its own. What
/// is the last write of a producer, or the end of a segment, leaves an empty batch.
///
/// The last record of the log stays, whatever it is, until something is appended behind it. In Apache
/// Kafka it is in the segment that is appended to, which is never cleaned. Clients count on a record
/// before the end offset: without one, some ask for the empty batch again and again, and others wait
/// for ever.
pub(super) struct Filter<'a> {
    pub(super) keys: &'a KeyMap,
    pub(super) transactions: &'a Transactions,
    pub(super) last_writes: &'a LastWrites,
    pub(super) end: Offset,
    /// Where the log ended on stable storage when the round began: a crash may take what is behind.
    pub(super) log_end: Offset,
    pub(super) now: TimestampMs,
    /// The horizon of what is found for the first time.
    pub(super) new_horizon: TimestampMs,
    /// The producers of whose transaction under way something was seen.
    pub(super) with_data: HashSet<ProducerId>,
    pub(super) counts: FilterCounts,
    /// The earliest horizon that is still to come.
    pub(super) next_horizon: Option<TimestampMs>,
}

/// Looks at the records of a batch.
struct Judge<'a> {
    filter: &'a Filter<'a>,
    /// The time of the batch's tombstones has come.
    is_past_horizon: bool,
    /// Its transaction was taken back.
    is_aborted: bool,
    /// The last record of the log, if the batch has it.
    logs_last: Option<Offset>,
    /// Of the key that passes.
    key: KeyHasher,
    retained: RetainedRecords,
    /// Among those that stay and could go.
    has_tombstones: bool,
    counts: FilterCounts,
}

/// What becomes of a record, and why.
enum Verdict {
    Kept,
    Superseded,
    Deleted,
    Keyless,
}

impl Filter<'_> {
    /// Judges the next batch.
    pub(super) fn filter(
        &mut self,
        batch: &Batch,
        behind: Behind,
    ) -> Result<Filtered, RecordError> {
        let header = batch.header();
        if header.base_offset >= self.end {
            return Ok(Filtered::AsIs);
        }
        let keeps_place = behind != Behind::Batch || self.is_last_write(header);
        let is_transactional = header.attributes.is_transactional();
        if header.attributes.is_control() {
            // Other control batches than markers say something of the log itself.
            return if is_transactional {
                self.filter_marker(batch, behind, keeps_place)
            } else {
                Ok(Filtered::AsIs)
            };
        }
        if is_transactional {
            self.with_data.insert(header.producer_id);
        }
        let mut judge = self.judge(header);
        judge.is_aborted = is_transactional && self.transactions.is_aborted(header);
        judge.logs_last = (behind == Behind::LogEnd).then(|| header.last_offset());
        batch.visit(DecodeLimit::BATCH_MAX, &mut judge)?;
        let Judge { retained, has_tombstones, counts, .. } = judge;
        self.counts = counts;
        if retained.retained() == 0 {
            return Ok(emptied(header, keeps_place));
        }
        let delete_horizon = has_tombstones.then(|| self.horizon_of(header)).flatten();
        if retained.removed() == 0 && delete_horizon.is_none() {
            return Ok(Filtered::AsIs);
        }
        Ok(Filtered::Rewritten(Rewrite { retained, delete_horizon }))
    }

    fn filter_marker(
        &mut self,
        batch: &Batch,
        behind: Behind,
        keeps_place: bool,
    ) -> Result<Filtered, RecordError> {
        let header = batch.header();
        let has_data = self.with_data.remove(&header.producer_id);
        if header.record_count == 0 {
            return Ok(emptied(header, keeps_place));
        }
        if has_data {
            self.counts.kept += 1;
            return Ok(Filtered::AsIs);
        }
        let is_past_horizon = header.delete_horizon().is_some_and(|horizon| horizon <= self.now);
        if is_past_horizon && behind == Behind::LogEnd {
            self.counts.kept += 1;
            return Ok(Filtered::AsIs);
        }
        if is_past_horizon {
            self.counts.deleted += 1;
            return Ok(emptied(header, keeps_place));
        }
        self.counts.kept += 1;
        let Some(horizon) = self.horizon_of(header) else { return Ok(Filtered::AsIs) };
        let mut retained = RetainedRecords::default();
        batch.walk(DecodeLimit::BATCH_MAX, |_| {
            retained.push(true);
            ControlFlow::Continue(())
        })?;
        Ok(Filtered::Rewritten(Rewrite { retained, delete_horizon: Some(horizon) }))
    }

    fn judge(&self, header: &BatchHeader) -> Judge<'_> {
        Judge {
            filter: self,
            is_past_horizon: header.delete_horizon().is_some_and(|horizon| horizon <= self.now),
            is_aborted: false,
            logs_last: None,
            key: self.keys.hasher(),
            retained: RetainedRecords::default(),
            has_tombstones: false,
            counts: self.counts,
        }
    }

    /// The horizon that a batch gets, unless it has one; notes when it is.
    fn horizon_of(&mut self, header: &BatchHeader) -> Option<TimestampMs> {
        let known = header.delete_horizon();
        let horizon = known.unwrap_or(self.new_horizon);
        self.next_horizon = Some(self.next_horizon.map_or(horizon, |next| next.min(horizon)));
        known.is_none().then_some(horizon)
    }

    fn is_last_write(&self, header: &BatchHeader) -> bool {
        match self.last_writes.get(&header.producer_id) {
            Some(LastWrite::Records(last_offset)) => *last_offset == header.last_offset(),
            Some(LastWrite::Marker(epoch)) => {
                header.attributes.is_control() && *epoch == header.producer_epoch
            }
            None => false,
        }
    }
}

impl Judge<'_> {
    fn verdict(&mut self, record: &WalkedRecord) -> Verdict {
        let key = self.key.finish();
        if record.offset >= self.filter.end {
            return Verdict::Kept;
        }
        if self.is_aborted {
            return Verdict::Superseded;
        }
        let is_logs_last = self.logs_last == Some(record.offset);
        if !record.has_key {
            return if is_logs_last { Verdict::Kept } else { Verdict::Keyless };
        }
        if self.filter.keys.get(key).is_some_and(|newest| newest > record.offset) {
            return Verdict::Superseded;
        }
        if record.has_value {
            return Verdict::Kept;
        }
        if !self.is_past_horizon {
            self.has_tombstones = true;
            return Verdict::Kept;
        }
        // Its horizon is over and not noted again: the next record behind it brings the next round.
        if is_logs_last { Verdict::Kept } else { Verdict::Deleted }
    }
}

impl RecordVisitor for Judge<'_> {
    fn on_key_piece(&mut self, piece: &[u8]) {
        self.key.update(piece);
    }

    fn on_record(&mut self, record: WalkedRecord) -> ControlFlow<()> {
        let verdict = self.verdict(&record);
        self.retained.push(matches!(verdict, Verdict::Kept));
        match verdict {
            Verdict::Kept => self.counts.kept += 1,
            Verdict::Superseded => self.counts.superseded += 1,
            Verdict::Deleted => self.counts.deleted += 1,
            Verdict::Keyless => self.counts.keyless += 1,
        }
        ControlFlow::Continue(())
    }
}

/// What stays of a batch without records.
fn emptied(header: &BatchHeader, keeps_place: bool) -> Filtered {
    match (keeps_place, header.record_count) {
        (false, _) => Filtered::Dropped,
        (true, 0) => Filtered::AsIs,
        (true, _) => Filtered::Emptied,
    }
}
