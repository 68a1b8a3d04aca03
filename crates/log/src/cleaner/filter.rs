//! What becomes of a batch.

use std::collections::{HashMap, HashSet};

use logway_model::{Offset, ProducerEpoch, ProducerId, TimestampMs};
use logway_record::{
    Batch, BatchHeader, DecodeLimit, RecordError, RecordView, RetainedBatch, UnpackedBatch,
};

use super::key_map::KeyMap;
use super::transactions::Transactions;

/// What became of a batch.
#[derive(Debug)]
pub(super) enum Filtered {
    /// It stays as it is.
    AsIs,
    /// Something else stays in its place.
    Replaced(RetainedBatch),
    /// Nothing stays.
    Dropped,
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
pub(super) struct Filter<'a> {
    pub(super) keys: &'a KeyMap,
    pub(super) transactions: &'a Transactions,
    pub(super) last_writes: &'a LastWrites,
    pub(super) end: Offset,
    pub(super) now: TimestampMs,
    /// The horizon of what is found for the first time.
    pub(super) new_horizon: TimestampMs,
    /// The producers of whose transaction under way something was seen.
    pub(super) with_data: HashSet<ProducerId>,
    pub(super) counts: FilterCounts,
    /// The earliest horizon that is still to come.
    pub(super) next_horizon: Option<TimestampMs>,
}

/// What of a batch stays.
struct Judgement {
    kept: u64,
    removed: u64,
    /// Tombstones that stay.
    has_tombstones: bool,
}

impl Filter<'_> {
    /// Judges the next batch; `is_segments_end` if nothing follows it in its segment.
    pub(super) fn filter(
        &mut self,
        batch: &Batch,
        is_segments_end: bool,
    ) -> Result<Filtered, RecordError> {
        let header = batch.header();
        if header.base_offset >= self.end {
            return Ok(Filtered::AsIs);
        }
        let keeps_place = is_segments_end || self.is_last_write(header);
        let is_transactional = header.attributes.is_transactional();
        if header.attributes.is_control() {
            // Other control batches than markers say something of the log itself.
            return if is_transactional {
                self.filter_marker(batch, keeps_place)
            } else {
                Ok(Filtered::AsIs)
            };
        }
        if is_transactional {
            self.with_data.insert(header.producer_id);
        }
        let is_aborted = is_transactional && self.transactions.is_aborted(header);
        let unpacked = batch.unpack(DecodeLimit::DEFAULT)?;
        let judged = self.judge(&unpacked, is_aborted)?;
        if judged.kept == 0 {
            return Ok(emptied(batch, keeps_place));
        }
        let horizon = judged.has_tombstones.then(|| self.horizon_of(header)).flatten();
        if judged.removed == 0 && horizon.is_none() {
            return Ok(Filtered::AsIs);
        }
        let retained =
            unpacked.retain(horizon, |record| self.is_kept(header, record, is_aborted))?;
        Ok(Filtered::Replaced(retained.expect("some are kept")))
    }

    fn filter_marker(&mut self, batch: &Batch, keeps_place: bool) -> Result<Filtered, RecordError> {
        let header = batch.header();
        let has_data = self.with_data.remove(&header.producer_id);
        if header.record_count == 0 {
            return Ok(emptied(batch, keeps_place));
        }
        if has_data {
            self.counts.kept += 1;
            return Ok(Filtered::AsIs);
        }
        if header.delete_horizon().is_some_and(|horizon| horizon <= self.now) {
            self.counts.deleted += 1;
            return Ok(emptied(batch, keeps_place));
        }
        self.counts.kept += 1;
        let Some(horizon) = self.horizon_of(header) else { return Ok(Filtered::AsIs) };
        let retained = batch.unpack(DecodeLimit::DEFAULT)?.retain(Some(horizon), |_| true)?;
        Ok(retained.map_or(Filtered::AsIs, Filtered::Replaced))
    }

    /// The horizon that a batch gets, unless it has one; notes when it is.
    fn horizon_of(&mut self, header: &BatchHeader) -> Option<TimestampMs> {
        let known = header.delete_horizon();
        let horizon = known.unwrap_or(self.new_horizon);
        self.next_horizon = Some(self.next_horizon.map_or(horizon, |next| next.min(horizon)));
        known.is_none().then_some(horizon)
    }

    fn judge(
        &mut self,
        unpacked: &UnpackedBatch,
        is_aborted: bool,
    ) -> Result<Judgement, RecordError> {
        let header = unpacked.header();
        let mut judged = Judgement { kept: 0, removed: 0, has_tombstones: false };
        let mut counts = self.counts;
        for record in unpacked.records() {
            let record = record?;
            if self.is_kept(header, &record, is_aborted) {
                judged.kept += 1;
                judged.has_tombstones |= record.value.is_none() && record.offset < self.end;
                counts.kept += 1;
                continue;
            }
            judged.removed += 1;
            match record.key {
                None if !is_aborted => counts.keyless += 1,
                Some(key) if !is_aborted && self.is_newest(key, record.offset) => {
                    counts.deleted += 1
                }
                _ => counts.superseded += 1,
            }
        }
        self.counts = counts;
        Ok(judged)
    }

    fn is_kept(&self, header: &BatchHeader, record: &RecordView<'_>, is_aborted: bool) -> bool {
        if record.offset >= self.end {
            return true;
        }
        let Some(key) = record.key.filter(|_| !is_aborted) else { return false };
        let may_go = || header.delete_horizon().is_some_and(|horizon| horizon <= self.now);
        self.is_newest(key, record.offset) && (record.value.is_some() || !may_go())
    }

    fn is_newest(&self, key: &[u8], offset: Offset) -> bool {
        self.keys.get(key).is_none_or(|newest| newest <= offset)
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

/// What stays of a batch without records.
fn emptied(batch: &Batch, keeps_place: bool) -> Filtered {
    match (keeps_place, batch.header().record_count) {
        (false, _) => Filtered::Dropped,
        (true, 0) => Filtered::AsIs,
        (true, _) => Filtered::Replaced(batch.emptied()),
    }
}
