//! Whether a segment's batches are good, and its indexes tell the truth about them.

use std::ops::ControlFlow;

use logway_model::{Offset, TimestampMs};
use logway_record::{Batch, DecodeLimit};

use super::epoch_runs::EpochRuns;
use super::index_cursor::{Fault, IndexCursor, IndexEntry};
use super::known::Known;
use super::{Damage, PlacedBatch, Problem, Repair, SegmentFile, Verified, Walked};
use crate::LogError;
use crate::file_names::INDEX_EXTENSION;
use crate::fs::Fs;
use crate::index::{OffsetPosition, TimestampOffset};

/// So many bad entries of an index are named; it is made anew as a whole in any case.
const BAD_ENTRIES_MAX: usize = 10;

/// A segment that has more than this and a second batch should have an offset index.
const UNINDEXED_MAX_BYTES: u64 = 4096;

/// The check of one segment and its indexes.
pub(super) struct SegmentCheck<'a> {
    pub(super) segment: &'a SegmentFile,
    /// Where the next segment begins; `None` for the last one.
    pub(super) next_base: Option<Offset>,
    pub(super) known: Known<'a>,
    /// Whether its indexes are there already, and not about to be replaced with it.
    pub(super) has_indexes: bool,
    /// What was looked at, in this segment and those before.
    pub(super) verified: &'a mut Verified,
    /// The leader epochs up to here.
    pub(super) epochs: &'a mut EpochRuns,
    pub(super) report: &'a mut dyn FnMut(Problem),
    pub(super) found: FoundSegment,
}

/// What the check of a segment found.
#[derive(Debug, Default)]
pub(super) struct FoundSegment {
    /// Offsets were left out from one batch to the next, or before the first.
    pub(super) has_inner_gaps: bool,
    /// Good batches, or none, are at its very end.
    pub(super) is_whole: bool,
    /// The offset index has to be made anew.
    pub(super) needs_offsets: bool,
    /// The time index has to be made anew.
    pub(super) needs_times: bool,
    batches: u64,
    /// Where the last good batch ends, in bytes.
    end_position: u64,
    largest: Option<TimestampOffset>,
    bad_entries: usize,
}

impl SegmentCheck<'_> {
    pub(super) fn run(mut self, fs: &dyn Fs) -> FoundSegment {
        let mut offsets = self.open_index::<OffsetPosition>(fs);
        let mut times = self.open_index::<TimestampOffset>(fs);
        self.found.is_whole = true;
        match self.walk(fs, &mut offsets, &mut times) {
            Ok(true) if self.has_indexes => self.check_ends(&mut offsets, &mut times),
            Ok(true) => {}
            // Entries about batches that nobody can find say nothing.
            Ok(false) => self.found.is_whole = false,
            Err(error) => {
                let mut problem = Problem::of_error(fs, &self.segment.path, error);
                problem.position = problem.position.max(self.found.end_position);
                (self.report)(problem);
                self.found.is_whole = false;
            }
        }
        self.found
    }

    /// Goes through all batches; returns whether the last bytes are one.
    fn walk(
        &mut self,
        fs: &dyn Fs,
        offsets: &mut IndexCursor<OffsetPosition>,
        times: &mut IndexCursor<TimestampOffset>,
    ) -> Result<bool, LogError> {
        for walked in self.segment.batches(fs)? {
            let placed = match walked? {
                Walked::Batch(placed) => placed,
                Walked::Damage(damage) => {
                    let (end_position, end) = (damage.end_position, damage.lost.end);
                    self.damage(damage);
                    let Some(end) = end else { return Ok(false) };
                    while self.take(offsets, |entry| entry.position < end_position).is_some() {}
                    while self.take(times, |entry| entry.offset < end).is_some() {}
                    continue;
                }
            };
            self.check_batch(&placed);
            while let Some((at, entry)) =
                self.take(offsets, |entry| entry.position <= placed.position)
            {
                self.check_offset_entry(offsets, at, entry, &placed);
            }
            let last_offset = placed.batch.last_offset();
            while let Some((at, entry)) = self.take(times, |entry| entry.offset <= last_offset) {
                self.check_time_entry(times, at, entry, &placed.batch);
            }
        }
        Ok(true)
    }

    /// Reports damage; what was lost by it is no gap that compaction has left.
    fn damage(&mut self, damage: Damage) {
        let Damage { position, reason, mut lost, .. } = damage;
        let is_followed = lost.end.is_some();
        if let Some(end) = lost.end {
            self.verified.end_offset = self.verified.end_offset.max(Some(end));
        } else {
            lost.end = self.next_base.filter(|&next_base| next_base > lost.first);
        }
        let is_end = self.next_base.is_none() && !is_followed;
        let problem =
            Problem::new(&self.segment.path, position, reason).unfinished_if(match is_end {
                true => self.known.is_unflushed(lost.first),
                false => self.known.is_cut_off_at(lost.first),
            });
        // Behind the last batch of a segment that ends where the next one begins, nothing can be lost.
        let is_surplus = self.next_base.is_some_and(|next_base| next_base <= lost.first);
        (self.report)(Problem { lost: (!is_surplus).then_some(lost), ..problem });
    }

    fn check_batch(&mut self, placed: &PlacedBatch) {
        let PlacedBatch { position, batch } = placed;
        let (base, last) = (batch.base_offset(), batch.last_offset());
        let expected = self.verified.end_offset.unwrap_or(self.segment.base_offset);
        self.found.has_inner_gaps |= base > expected.max(self.segment.base_offset);
        if base < expected.max(self.segment.base_offset) {
            let reason = format!("offset {base} comes where {expected} is next");
            self.batch_problem(*position, expected, reason);
        }
        if let Some(next_base) = self.next_base.filter(|&next_base| last >= next_base) {
            let reason = format!("offset {last} belongs into the segment of {next_base}");
            self.batch_problem(*position, base, reason);
        }
        match count_records(batch) {
            Ok(records) => self.verified.records += records,
            Err(reason) => self.batch_problem(*position, base, reason),
        }
        if let Some(problem) = self.epochs.note(self.segment, placed) {
            (self.report)(problem);
        }
        self.note_timestamp(batch);
        self.found.batches += 1;
        self.found.end_position = position + batch.size_bytes() as u64;
        self.verified.batches += 1;
        self.verified.bytes += batch.size_bytes() as u64;
        self.verified.first_offset.get_or_insert(base);
        self.verified.end_offset = Some(last.next().max(expected));
    }

    /// A batch that compaction has emptied has no record with its largest timestamp.
    fn note_timestamp(&mut self, batch: &Batch) {
        let (timestamp, offset) = (batch.header().max_timestamp, batch.last_offset());
        let is_largest = self.found.largest.is_none_or(|largest| timestamp > largest.timestamp);
        if is_largest && batch.header().record_count != 0 {
            self.found.largest = Some(TimestampOffset { timestamp, offset });
        }
    }

    fn check_offset_entry(
        &mut self,
        offsets: &mut IndexCursor<OffsetPosition>,
        at: u64,
        entry: OffsetPosition,
        placed: &PlacedBatch,
    ) {
        let last_offset = placed.batch.last_offset();
        if (entry.position, entry.offset) != (placed.position, last_offset) {
            let reason = format!(
                "it has offset {} at byte {}, but the batch at byte {} ends with {}",
                entry.offset, entry.position, placed.position, last_offset
            );
            self.bad_entry(offsets, at, reason);
        }
    }

    fn check_time_entry(
        &mut self,
        times: &mut IndexCursor<TimestampOffset>,
        at: u64,
        entry: TimestampOffset,
        batch: &Batch,
    ) {
        let (last_offset, of_batch) = (batch.last_offset(), batch.header().max_timestamp);
        let largest = self.found.largest.map_or(TimestampMs::NONE, |largest| largest.timestamp);
        if (entry.offset, entry.timestamp) != (last_offset, of_batch) {
            let reason = format!(
                "it has timestamp {} for offset {}, but the batch up to {} has {}",
                entry.timestamp, entry.offset, last_offset, of_batch
            );
            self.bad_entry(times, at, reason);
        } else if entry.timestamp < largest {
            let reason = format!(
                "it has timestamp {} as the largest up to offset {}, but there is {largest}",
                entry.timestamp, entry.offset
            );
            self.bad_entry(times, at, reason);
        }
    }

    /// Looks at what the indexes have behind the last batch, and whether the time index goes so far.
    fn check_ends(
        &mut self,
        offsets: &mut IndexCursor<OffsetPosition>,
        times: &mut IndexCursor<TimestampOffset>,
    ) {
        if let Some((at, entry)) = self.take(offsets, |_| true) {
            let reason = format!("it points to byte {}, behind the batches", entry.position);
            self.bad_entry(offsets, at, reason);
        }
        if let Some((at, entry)) = self.take(times, |_| true) {
            let reason = format!("it points to offset {}, behind the batches", entry.offset);
            self.bad_entry(times, at, reason);
        }
        if self.next_base.is_some() || self.known.is_clean {
            self.check_presence(offsets);
            self.check_last_time(times);
        }
    }

    /// The last entry of a settled time index has the segment's largest timestamp: a search for a
    /// later one passes the segment over.
    fn check_last_time(&mut self, times: &IndexCursor<TimestampOffset>) {
        let largest = self.found.largest.filter(|largest| largest.timestamp > TimestampMs::NONE);
        let Some(largest) = largest.filter(|_| !self.found.needs_times) else { return };
        let said = times.last().map_or(TimestampMs::NONE, |last| last.timestamp);
        if said < largest.timestamp {
            let reason = match times.last() {
                None => "it has no entry for the segment's largest timestamp".to_owned(),
                Some(_) => format!(
                    "it ends with timestamp {said}, but the batch up to offset {} has {}",
                    largest.offset, largest.timestamp
                ),
            };
            // It is written when the segment is sealed, which may be under way.
            let is_unfinished = self.known.may_be_in_use() || self.known.is_scanned(self.next_base);
            self.report_index::<TimestampOffset>(times.position(), reason, is_unfinished);
        }
    }

    /// A segment without an offset index is read all the same, but slowly.
    fn check_presence(&mut self, offsets: &IndexCursor<OffsetPosition>) {
        let is_long = self.segment.len_bytes > UNINDEXED_MAX_BYTES && self.found.batches > 1;
        if is_long && !offsets.exists() && !self.found.needs_offsets {
            let path = self.segment.path.with_extension(OffsetPosition::EXTENSION);
            let problem = Problem::new(path, 0, "it is missing").repaired_by(Repair::Rebuild);
            self.found.needs_offsets = true;
            (self.report)(problem.unfinished_if(true));
        }
    }

    fn open_index<E: IndexEntry>(&mut self, fs: &dyn Fs) -> IndexCursor<E> {
        if !self.has_indexes {
            return IndexCursor::none(self.segment);
        }
        let cursor = IndexCursor::open(fs, self.segment).unwrap_or_else(|error| {
            let path = self.segment.path.with_extension(E::EXTENSION);
            let reason = Problem::of_error(fs, &path, error).reason;
            self.index_problem::<E>(0, reason);
            IndexCursor::none(self.segment)
        });
        if let Some(torn) = cursor.torn_at() {
            let reason = format!("the entry has not its {} bytes", E::ENTRY_BYTES);
            self.index_problem::<E>(torn, reason);
        }
        cursor
    }

    fn take<E: IndexEntry>(
        &mut self,
        cursor: &mut IndexCursor<E>,
        is_wanted: impl FnOnce(&E) -> bool,
    ) -> Option<(u64, E)> {
        match cursor.next_if(is_wanted) {
            Ok(taken) => taken,
            Err(Fault { position, reason }) => {
                self.index_problem::<E>(position, reason);
                None
            }
        }
    }

    fn bad_entry<E: IndexEntry>(&mut self, cursor: &mut IndexCursor<E>, at: u64, reason: String) {
        self.index_problem::<E>(at, reason);
        self.found.bad_entries += 1;
        if self.found.bad_entries >= BAD_ENTRIES_MAX {
            cursor.give_up();
        }
    }

    fn index_problem<E: IndexEntry>(&mut self, position: u64, reason: String) {
        let is_remade = self.known.is_scanned(self.next_base);
        self.report_index::<E>(position, reason, is_remade);
    }

    fn report_index<E: IndexEntry>(&mut self, position: u64, reason: String, is_unfinished: bool) {
        let path = self.segment.path.with_extension(E::EXTENSION);
        match E::EXTENSION {
            INDEX_EXTENSION => self.found.needs_offsets = true,
            _ => self.found.needs_times = true,
        }
        let problem = Problem::new(path, position, reason).repaired_by(Repair::Rebuild);
        (self.report)(problem.unfinished_if(is_unfinished));
    }

    fn batch_problem(&mut self, position: u64, offset: Offset, reason: String) {
        let problem = Problem::new(&self.segment.path, position, reason);
        (self.report)(problem.unfinished_if(self.known.is_cut_off_at(offset)));
    }
}

/// Walks all records of a batch and counts them; nothing of them is kept.
fn count_records(batch: &Batch) -> Result<u64, String> {
    let mut count = 0;
    let walked = batch.walk(DecodeLimit::BATCH_MAX, |_| {
        count += 1;
        ControlFlow::Continue(())
    });
    walked.map(|()| count).map_err(|error| error.to_string())
}
