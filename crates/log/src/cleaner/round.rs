//! One round of cleaning one log.

use std::collections::{HashSet, VecDeque};
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::Arc;

use logway_model::{Offset, TimestampMs};
use logway_record::{DecodeLimit, RecordVisitor, TransactionOutcome, WalkedRecord};

use super::batches::{Batches, PlacedBatch, Places, corrupt};
use super::filter::{Filter, FilterCounts};
use super::key_hash::KeyHasher;
use super::key_map::KeyMap;
use super::pace::Pace;
use super::range::{CleanableRange, Group, Limits, groups};
use super::rewrite::{Interrupted, Place, Rewritten, rewrite};
use super::swap;
use super::transactions::Transactions;
use crate::fs::Fs;
use crate::log::Log;
use crate::scan::HeaderScan;
use crate::segment::Segment;
use crate::view::LogView;
use crate::{LogConfig, LogError};

/// One round of cleaning one log: what is dirty is read for its keys, as far as there is memory for
/// them, and then all that is older is written anew without what is superseded, group by group.
///
/// A group is put in place before the next one is begun, the oldest first. So a round that ends
/// early leaves a log in which less is superseded, and no record that a tombstone had deleted can
/// outlive the tombstone.
pub(super) struct Round<'a> {
    pub(super) fs: &'a Arc<dyn Fs>,
    /// The directory of the partition.
    pub(super) dir: &'a Path,
    pub(super) log: &'a Log,
    pub(super) limits: Limits,
    pub(super) pace: Pace<'a>,
    /// The memory for keys.
    pub(super) keys_bytes_max: usize,
    /// So many transactions are noted.
    pub(super) transactions_max: usize,
    /// When the next tombstone or marker may go, as far as is known.
    pub(super) next_horizon: Option<TimestampMs>,
}

/// What a round has done, also one that ended early.
#[derive(Debug, Clone, Default)]
pub(super) struct RoundOutcome {
    /// Everything before is clean; `None` if the round did not come to its end.
    pub(super) cleaned: Option<Offset>,
    /// When the next tombstone or marker may go.
    pub(super) next_horizon: Option<TimestampMs>,
    pub(super) counts: FilterCounts,
    pub(super) keys: usize,
    pub(super) read_bytes: u64,
    pub(super) written_bytes: u64,
    /// The segments that were replaced, and by how many.
    pub(super) segments: (usize, usize),
}

impl Round<'_> {
    /// Does it; what was done is noted in `outcome` as it goes.
    pub(super) fn run(&self, outcome: &mut RoundOutcome) -> Result<(), Interrupted> {
        // Before the look at the log: a batch that comes meanwhile is behind what is cleaned.
        let last_writes = self.log.last_writes().wait()?.ok_or(Interrupted::Cancelled)?;
        let view = self.log.state().current_view();
        let config = self.log.config();
        let range = CleanableRange::of(&view, &config, &self.limits)?;
        let (transactions, known_to) = self.find_transactions(&view, &range)?;
        let end = match transactions.undecided_from() {
            Some(undecided) => undecided.min(known_to),
            None => known_to,
        };
        let has_deletions = self.next_horizon.is_some_and(|horizon| horizon <= self.limits.now);
        if end <= range.first_dirty && !has_deletions {
            // Behind a transaction that does not end, nothing can be done.
            outcome.cleaned = Some(range.first_dirty);
            outcome.next_horizon = self.next_horizon;
            return Ok(());
        }
        let mut keys = KeyMap::new(self.keys_bytes_max);
        let end = self.read_keys(&view, range.first_dirty..end, &transactions, &mut keys)?;
        outcome.keys = keys.len();
        let retention_ms = i64::try_from(config.delete_retention_ms).unwrap_or(i64::MAX);
        let mut filter = Filter {
            keys: &keys,
            transactions: &transactions,
            last_writes: &last_writes,
            end,
            log_end: view.flushed.offset,
            now: self.limits.now,
            new_horizon: TimestampMs(self.limits.now.0.saturating_add(retention_ms)),
            with_data: HashSet::new(),
            counts: FilterCounts::default(),
            next_horizon: None,
        };
        let groups = groups(&view, end, &config);
        // Or else it would keep the files of all that is replaced until the end.
        drop(view);
        let result = self.clean(groups, &config, &mut filter, outcome);
        outcome.counts = filter.counts;
        outcome.next_horizon = filter.next_horizon;
        result?;
        outcome.cleaned = Some(end);
        Ok(())
    }

    /// Finds out how the transactions ended that wrote to the dirty part, and returns up to where:
    /// if there are more than can be noted, what is behind is for the next round.
    fn find_transactions(
        &self,
        view: &LogView,
        range: &CleanableRange,
    ) -> Result<(Transactions, Offset), Interrupted> {
        let mut transactions = Transactions::new(self.transactions_max);
        for (segment, end) in dirty_segments(view, range.first_dirty, range.end) {
            let mut places = Places::of(segment, end);
            let file = segment.file()?;
            let mut headers =
                HeaderScan::new(Arc::clone(&file), segment.path(), 0, segment.size_bytes());
            while let Some(batch) = headers.next()? {
                places.take(&batch.header, batch.position)?;
                match headers.take_read_bytes() {
                    0 => {}
                    read_bytes => self.pace.use_disk(read_bytes)?,
                }
                if batch.header.next_offset() <= range.first_dirty {
                    continue;
                }
                transactions.note(&batch.header, || {
                    let marker = segment.marker(&batch)?;
                    let is_abort = marker.is_some_and(|it| it.outcome == TransactionOutcome::Abort);
                    Ok::<bool, LogError>(is_abort)
                })?;
                if transactions.is_full() {
                    // What is known is known of all that is before the segment, and not of its rest.
                    let known_to = segment.base_offset();
                    let first = transactions.undecided_from().unwrap_or(known_to);
                    if known_to.min(first) > range.first_dirty {
                        return Ok((transactions, known_to));
                    }
                    let reason = "too many transactions come at once".to_owned();
                    let path = segment.path().to_owned();
                    return Err(LogError::Corrupt { path, position: batch.position, reason }.into());
                }
            }
        }
        Ok((transactions, range.end))
    }

    /// Notes the newest record of each key in a part of the log; returns how far it came.
    fn read_keys(
        &self,
        view: &LogView,
        part: Range<Offset>,
        transactions: &Transactions,
        keys: &mut KeyMap,
    ) -> Result<Offset, Interrupted> {
        let mut reader =
            KeyReader { hasher: keys.hasher(), keys, part: part.clone(), full_at: None };
        for (segment, end) in dirty_segments(view, part.start, part.end) {
            let mut batches = Batches::of(segment, end, self.pace)?;
            while let Some(PlacedBatch { batch, position, .. }) = batches.next()? {
                let header = batch.header();
                let is_aborted =
                    header.attributes.is_transactional() && transactions.is_aborted(header);
                if header.attributes.is_control() || is_aborted {
                    continue;
                }
                let visited = batch.visit(DecodeLimit::BATCH_MAX, &mut reader);
                visited.map_err(|error| corrupt(segment, position, &error))?;
                if let Some(full_at) = reader.full_at {
                    return Ok(full_at);
                }
            }
        }
        Ok(part.end)
    }

    fn clean(
        &self,
        groups: Vec<Group>,
        config: &LogConfig,
        filter: &mut Filter<'_>,
        outcome: &mut RoundOutcome,
    ) -> Result<(), Interrupted> {
        let place = Place {
            fs: self.fs,
            syncs: self.log.state().dir_syncs(),
            index_interval_bytes: config.index_interval_bytes,
            pace: self.pace,
        };
        let mut groups = VecDeque::from(groups);
        while let Some(mut group) = groups.pop_front() {
            if !self.log.config().is_compacted() {
                return Err(Interrupted::Cancelled);
            }
            group.drop_before(self.log_begin());
            if group.segments.is_empty() {
                continue;
            }
            let before = (filter.with_data.clone(), filter.counts);
            if self.clean_group(&place, &group, filter, outcome)? {
                continue;
            }
            if self.is_whole(&group) {
                return Err(Interrupted::Cancelled);
            }
            // Retention may be faster than the round, and must not keep it from what is left.
            (filter.with_data, filter.counts) = before;
            groups.push_front(group);
        }
        Ok(())
    }

    /// Puts what stays of a group in its place; `false` if the log is not as it was.
    fn clean_group(
        &self,
        place: &Place<'_>,
        group: &Group,
        filter: &mut Filter<'_>,
        outcome: &mut RoundOutcome,
    ) -> Result<bool, Interrupted> {
        let base_offset = group.segments[0].base_offset();
        // The records of transactions that were aborted before the end are all gone.
        let part = base_offset.max(filter.end)..group.end;
        let aborted = filter.transactions.aborted_with_marker_in(part);
        let rewritten = match rewrite(place, group, filter, &aborted) {
            Ok(rewritten) => rewritten,
            Err(error) => {
                self.discard(base_offset);
                // What was deleted cannot be read.
                let is_gone = matches!(error, Interrupted::Failed(_)) && !self.is_whole(group);
                return if is_gone { Ok(false) } else { Err(error) };
            }
        };
        let Rewritten { read_bytes, size_bytes, is_changed } = rewritten;
        outcome.read_bytes += read_bytes;
        if !is_changed {
            self.discard(base_offset);
            return Ok(true);
        }
        outcome.written_bytes += size_bytes;
        // The last to have the old files closes them, which may take long on a disk: not the
        // writer of the log, if nobody reads them.
        let segments = group.segments.clone();
        if !self.log.replace_segments(segments, size_bytes).wait()? {
            self.discard(base_offset);
            return Ok(false);
        }
        outcome.segments.0 += group.segments.len();
        outcome.segments.1 += 1;
        Ok(true)
    }

    /// Where the first segment begins that there is now.
    fn log_begin(&self) -> Offset {
        self.log.state().current_view().segments[0].base_offset()
    }

    /// Whether no segment of a group was deleted: the oldest go first.
    fn is_whole(&self, group: &Group) -> bool {
        self.log_begin() <= group.segments[0].base_offset()
    }

    fn discard(&self, base_offset: Offset) {
        swap::discard(&**self.fs, self.dir, base_offset);
    }
}

/// Notes where keys are in a part of a log, as long as there is room.
struct KeyReader<'a> {
    /// Of the key that passes.
    hasher: KeyHasher,
    keys: &'a mut KeyMap,
    part: Range<Offset>,
    /// The record whose key did not fit.
    full_at: Option<Offset>,
}

impl RecordVisitor for KeyReader<'_> {
    fn on_key_piece(&mut self, piece: &[u8]) {
        self.hasher.update(piece);
    }

    fn on_record(&mut self, record: WalkedRecord) -> ControlFlow<()> {
        let key = self.hasher.finish();
        let is_wanted = record.has_key && self.part.contains(&record.offset);
        if is_wanted && !self.keys.put(key, record.offset) {
            self.full_at = Some(record.offset);
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

/// The full segments that have records from `start` on and before `end`, each with where the next
/// one begins.
fn dirty_segments(
    view: &LogView,
    start: Offset,
    end: Offset,
) -> impl Iterator<Item = (&Segment, Offset)> {
    let first = view.segment_index(start);
    let full = (first..view.segments.len() - 1).map(|index| (index, view.segment_end(index)));
    let dirty = full.map(|(index, end)| (&*view.segments[index], end));
    dirty.take_while(move |(segment, _)| segment.base_offset() < end)
}
