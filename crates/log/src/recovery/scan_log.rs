//! The scan after a crash.

use std::io::IoSlice;
use std::sync::Arc;

use logway_model::Offset;
use logway_record::BatchHeader;

use super::early_sync::EarlySyncs;
use super::listing::Listing;
use super::{Finding, Recovery, RecoveryOptions, names, unless_disk_full};
use crate::LogError;
use crate::checkpoint::remove_file;
use crate::file_names::{FAILED_SYNC_FILE, SNAPSHOT_EXTENSION, file_path};
use crate::fs::{OpenMode, read_exact_at};
use crate::producer_state::snapshot::{self, Snapshot};
use crate::resync::Search;
use crate::scan::{BatchScan, HeaderScan, PIECE_BYTES, ScannedBatch};
use crate::segment::Segment;
use crate::view::LogPoint;

/// Which part of the log a segment that is scanned is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// One before the end: all of it was on stable storage, and the producers and the leader
    /// epochs in it are known.
    Earlier,
    /// The end, from where on nothing is known.
    End {
        /// Whether there are batches in segments behind this one.
        is_followed: bool,
    },
}

/// How the scan of a segment ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SegmentEnd {
    /// With its last byte.
    Whole,
    /// With the first bad batch of the unflushed tail, which is cut off.
    CutOff,
    /// With damage, behind which nothing good was found.
    Damaged,
}

impl Recovery<'_> {
    /// Scans the log from the recovery point on; returns its end. What is scanned is on stable
    /// storage afterwards. What is known to have been there before needs no sync, so that logs to
    /// which nothing came since the last checkpoint cost none.
    pub(super) fn scan(&mut self, listing: &Listing) -> Result<Offset, LogError> {
        let first = self.first_to_scan(listing);
        self.check_segments_before(first, listing)?;
        let base = self.segments[first].base_offset();
        self.load_producers(listing, base)?;
        self.epochs.truncate_from_end(base);

        // The broker removes a log because of what a move's file says.
        let must_sync = listing.has_failed_sync || listing.has_move;
        self.leaves_syncs = !must_sync && self.may_leave_syncs(first);
        if !self.leaves_syncs && !listing.has_failed_sync {
            self.early_syncs = EarlySyncs::begin(self.options, &self.segments[first..])?;
        }
        let scanned = self.scan_from(first, listing);
        // Else the next start would find clean pages that never reached the disk.
        self.early_syncs.finish().and(scanned)
    }

    fn scan_from(&mut self, first: usize, listing: &Listing) -> Result<Offset, LogError> {
        let (end, next) = self.scan_segments(first, listing)?;
        let has_news = end > self.durable_end;
        self.remove_segments_from(next)?;
        let end = self.make_up_for_loss(end)?;
        if listing.has_failed_sync {
            self.write_again(first)?;
            names::make_again(&**self.options.fs, self.options.dir)?;
        }
        let must_sync = self.is_unsettled || listing.has_failed_sync || listing.has_move;
        self.leaves_syncs &= has_news && !must_sync;
        if !self.leaves_syncs {
            let left = std::mem::take(&mut self.unsynced);
            if has_news || must_sync {
                left.iter().try_for_each(|segment| self.sync(segment))?;
                self.sync_end()?;
            }
        }
        if listing.has_failed_sync || self.is_unsettled {
            let RecoveryOptions { fs, dir, .. } = *self.options;
            remove_file(&**fs, &dir.join(FAILED_SYNC_FILE))?;
        }
        Ok(end)
    }

    /// Whether syncs are left to those who know whether anybody wants them, if the segments from
    /// `first` on are scanned.
    ///
    /// What a process that was killed has left in the page cache takes longer to reach the disk than to be read.
    /// Much of it can only be of a log that was not synced before records were shown and
    /// acknowledged, and it need not be for them to be shown again.
    fn may_leave_syncs(&self, first: usize) -> bool {
        let bytes: u64 = self.segments[first..].iter().map(|segment| segment.size_bytes()).sum();
        // The start removes the journal, and no log starts behind what is on stable storage.
        let is_vouched_for = self.options.journalled.is_empty();
        let base = self.segments[first].base_offset();
        // Where a log starts anew, the name of its first segment alone says so, and may not be on the disk.
        let is_known = base <= self.durable_end.max(self.log_start);
        let is_large = bytes >= self.options.sync_later_bytes;
        is_large && is_vouched_for && is_known && base >= self.log_start
    }

    /// Scans the segments from `first` on; returns where the log ends, and the first segment that
    /// lies behind.
    fn scan_segments(
        &mut self,
        first: usize,
        listing: &Listing,
    ) -> Result<(Offset, usize), LogError> {
        let (mut end, mut next) = (self.segments[first].base_offset(), first);
        while next < self.segments.len() {
            let segment = Arc::clone(&self.segments[next]);
            if segment.base_offset() > end && self.is_cut_off_before(next, end)? {
                break;
            }
            end = segment.base_offset();
            if next > first {
                self.seal_before(next)?;
            }
            self.empty_stale_indexes(&segment, listing)?;
            next += 1;
            let limit = self.segments.get(next).map(|next| next.base_offset());
            let is_followed = self.segments[next..].iter().any(|next| next.size_bytes() > 0);
            let part = Part::End { is_followed };
            if self.scan_segment(&segment, limit, &mut end, part)? == SegmentEnd::CutOff {
                break;
            }
        }
        Ok((end, next))
    }

    /// The segment that holds the recovery point, or one before it.
    ///
    /// A segment may end just at the recovery point and have been rolled after the checkpoint: its
    /// indexes need not be on the disk then. A snapshot of the producers as of its end, or as of a
    /// later one's, says that they are, because it is written after them.
    fn first_to_scan(&self, listing: &Listing) -> usize {
        let recovery_point = self.recovery_point.unwrap_or(Offset::ZERO);
        let at_or_before =
            self.segments.partition_point(|segment| segment.base_offset() <= recovery_point);
        let newest_snapshot = listing.snapshots.last().copied().unwrap_or(Offset::ZERO);
        let is_sealed_before = |segment: &Segment| newest_snapshot >= segment.base_offset();
        let mut first = at_or_before.saturating_sub(1);
        while first > 0 && !is_sealed_before(&self.segments[first]) {
            first -= 1;
        }
        first
    }

    /// Records are missing between the segment before `index`, which ends at `end`, and that one.
    /// Says whether a crash cut them off; if not, they were on stable storage and are lost.
    fn is_cut_off_before(&mut self, index: usize, end: Offset) -> Result<bool, LogError> {
        if end >= self.durable_end && self.knows_recovery_point() {
            return Ok(true);
        }
        let before = Arc::clone(&self.segments[index - 1]);
        let next = self.segments[index].base_offset();
        self.report_missing_end(&before, end, next)?;
        Ok(false)
    }

    /// Reports that a segment should go on to `expected_end`, unless what is there instead is
    /// reported already.
    fn report_missing_end(
        &mut self,
        segment: &Segment,
        end: Offset,
        expected_end: Offset,
    ) -> Result<(), LogError> {
        let position = segment.size_bytes();
        if position == file_bytes(segment)? {
            self.report_missing(segment, end, expected_end);
        }
        Ok(())
    }

    /// Whether it is known where a crash may have cut the log off. If it is not, only what no good
    /// batch follows counts as cut off.
    pub(super) fn knows_recovery_point(&self) -> bool {
        self.recovery_point.is_some()
    }

    /// Empties what a crash brought back of the indexes of a segment that has no batches.
    fn empty_stale_indexes(&self, segment: &Segment, listing: &Listing) -> Result<(), LogError> {
        let found = listing.segment(segment.base_offset());
        if segment.size_bytes() > 0 {
            return Ok(());
        }
        if found.is_some_and(|found| found.has_transaction_index) {
            segment.aborted.reset()?;
        }
        let has_index = found.is_some_and(|found| found.has_index || found.has_time_index);
        if has_index { segment.reset_indexes() } else { Ok(()) }
    }

    /// Does what the roll to the segment at `index` does for the one before it, which is scanned.
    ///
    /// On a full disk, and if syncs are left to others, the log can be read all the same, and the
    /// writer seals the segment later: until then the recovery point stays before it.
    fn seal_before(&mut self, index: usize) -> Result<(), LogError> {
        let full = Arc::clone(&self.segments[index - 1]);
        if self.leaves_syncs {
            self.unsynced.push(Arc::clone(&full));
            self.unsealed.push(full);
            self.snapshot = Some(Snapshot::of(&self.producers));
            return Ok(());
        }
        self.sync(&full)?;
        match self.seal_companions(&full, &self.segments[index]) {
            Err(error) if error.is_disk_full() => {
                let partition = self.options.partition;
                tracing::warn!(%partition, %error, "a full segment is not sealed yet");
                self.unsealed.push(full);
                Ok(())
            }
            result => result,
        }
    }

    fn seal_companions(&self, full: &Segment, next: &Segment) -> Result<(), LogError> {
        let RecoveryOptions { fs, dir, .. } = *self.options;
        full.sync_indexes()?;
        fs.sync_dir(dir).map_err(LogError::io("sync", dir))?;
        let path = file_path(dir, next.base_offset(), SNAPSHOT_EXTENSION);
        snapshot::write(&**fs, &path, &self.producers)
    }

    /// Begins a new segment if the log ends before what is known to have been in it, so that no
    /// offset is given twice; returns the new end.
    fn make_up_for_loss(&mut self, end: Offset) -> Result<Offset, LogError> {
        let RecoveryOptions { fs, dir, .. } = *self.options;
        let known_end = self.durable_end.max(self.log_start);
        if end >= known_end {
            return Ok(end);
        }
        // What lies before the log start was deleted, although a crash may have left some of it.
        let missing_from = end.max(self.log_start);
        if missing_from < self.durable_end {
            let active = self.segments.last().expect("a log has at least one segment");
            self.report_missing_end(&Arc::clone(active), missing_from, self.durable_end)?;
        }
        (self.leaves_syncs, self.snapshot) = (false, None);
        self.segments.push(Arc::new(Segment::create(fs, dir, known_end)?));
        self.seal_before(self.segments.len() - 1)?;
        Ok(known_end)
    }

    /// Scans a segment that begins at or before `end`, and moves `end` behind its last batch.
    /// `limit` is where the next segment begins.
    pub(super) fn scan_segment(
        &mut self,
        segment: &Segment,
        limit: Option<Offset>,
        end: &mut Offset,
        part: Part,
    ) -> Result<SegmentEnd, LogError> {
        if segment.size_bytes() == 0 {
            return Ok(SegmentEnd::Whole);
        }
        segment.reset_indexes()?;
        if part != Part::Earlier {
            segment.aborted.reset()?;
        }
        let file = segment.file()?;
        let file_bytes = segment.size_bytes();
        self.scanned_bytes += file_bytes;
        let mut scan = BatchScan::new(Arc::clone(&file), segment.path(), 0, file_bytes);
        scan.seek(self.pass_over(segment, limit, end, part)?);
        loop {
            let position = scan.position();
            let may_be_cut = part != Part::Earlier && *end >= self.durable_end;
            let is_unflushed = may_be_cut && self.knows_recovery_point();
            let reason = match scan.next_header() {
                Ok(None) => return Ok(SegmentEnd::Whole),
                Ok(Some(header)) => {
                    let batch = ScannedBatch { position, header };
                    let reason = match misplacement(&header, segment, limit, *end, is_unflushed) {
                        None => contradiction(&batch, segment, *end)?,
                        reason => reason,
                    };
                    let Some(reason) = reason else {
                        self.note_batch(segment, &batch, part)?;
                        *end = header.next_offset();
                        continue;
                    };
                    reason
                }
                Err(LogError::Corrupt { reason, .. }) => reason,
                Err(error) => return Err(error),
            };
            if is_unflushed {
                self.cut_off(segment, position, reason)?;
                return Ok(SegmentEnd::CutOff);
            }
            let search = Search {
                file: &file,
                path: segment.path(),
                base_offset: segment.base_offset(),
                len_bytes: segment.size_bytes(),
                end: *end,
            };
            let resumed = search.find_batch_after(position)?;
            let is_last = resumed.is_none() && part == Part::End { is_followed: false };
            if may_be_cut && is_last {
                self.cut_off(segment, position, reason)?;
                return Ok(SegmentEnd::CutOff);
            }
            self.report_damage(segment, position, resumed.unwrap_or(file_bytes), *end, reason);
            let Some(resumed) = resumed else {
                segment.set_size_bytes(position);
                return Ok(SegmentEnd::Damaged);
            };
            segment.index_next_batch();
            scan.seek(resumed);
        }
    }

    /// Notes the batches from the beginning of a segment on that need not be checked to their last byte;
    /// returns where they end.
    ///
    /// Of a log that was in use in the same life of the page cache that is all but the end, where a
    /// write may have been cut off. What does not follow on from what is before ends it, too, and which of the two is
    /// damaged then their bytes must tell: so a batch counts when another one follows on from it.
    fn pass_over(
        &mut self,
        segment: &Segment,
        limit: Option<Offset>,
        end: &mut Offset,
        part: Part,
    ) -> Result<u64, LogError> {
        let RecoveryOptions { is_same_cache, expected, checked_bytes_min, .. } = *self.options;
        // Somebody may have put it here who is no broker.
        let is_known = expected.was_in_use && self.knows_recovery_point();
        if !is_same_cache || !is_known || self.has_failed_sync {
            return Ok(0);
        }
        let file_bytes = segment.size_bytes();
        let unchecked_end = file_bytes.saturating_sub(checked_bytes_min);
        let mut headers = HeaderScan::new(segment.file()?, segment.path(), 0, file_bytes);
        let mut latest: Option<ScannedBatch> = None;
        loop {
            let batch = match headers.next() {
                Ok(Some(batch)) if batch.end() <= unchecked_end => batch,
                Ok(_) | Err(LogError::Corrupt { .. }) => break,
                Err(error) => return Err(error),
            };
            let next_offset = latest.as_ref().map_or(*end, |latest| latest.header.next_offset());
            let has_gap = batch.header.base_offset != next_offset;
            if has_gap || misplacement(&batch.header, segment, limit, next_offset, true).is_some() {
                break;
            }
            if let Some(followed) = latest.replace(batch) {
                self.note_batch(segment, &followed, part)?;
                *end = followed.header.next_offset();
            }
        }
        Ok(latest.map_or(0, |latest| latest.position))
    }

    fn note_batch(
        &mut self,
        segment: &Segment,
        batch: &ScannedBatch,
        part: Part,
    ) -> Result<(), LogError> {
        let (offset, position) = (batch.header.base_offset, batch.position);
        if offset <= self.durable_end {
            self.last_durable = Some(LogPoint { offset, segment: segment.base_offset(), position });
        }
        unless_disk_full(segment.note_batch(batch, self.options.index_interval_bytes))?;
        if part != Part::Earlier {
            let ended = super::note_producer(&mut self.producers, segment, batch)?;
            if let Some(aborted) = ended.and_then(|ended| ended.aborted) {
                unless_disk_full(segment.aborted.append(&aborted))?;
            }
            self.note_epoch(&batch.header);
        }
        Ok(())
    }

    /// Truncates a segment to the batches that are good.
    fn cut_off(
        &mut self,
        segment: &Segment,
        position: u64,
        reason: String,
    ) -> Result<(), LogError> {
        let removed_bytes = segment.size_bytes() - position;
        let path = segment.path().to_owned();
        tracing::warn!(
            segment = %path.display(), kept_bytes = position, removed_bytes, reason,
            "the end of the log was cut off by a crash and is removed"
        );
        self.note_unsettled()?;
        segment.file()?.set_len(position).map_err(LogError::io("cut", &path))?;
        segment.set_size_bytes(position);
        let kept_bytes = position;
        self.findings.push(Finding::TailTruncated { path, kept_bytes, removed_bytes, reason });
        Ok(())
    }

    fn report_damage(
        &mut self,
        segment: &Segment,
        position: u64,
        resumed_position: u64,
        offset: Offset,
        reason: String,
    ) {
        let path = segment.path().to_owned();
        let partition = self.options.partition;
        tracing::error!(
            %partition, segment = %path.display(), position, resumed_position, %offset, reason,
            "records are damaged, and stay where they are"
        );
        self.findings.push(Finding::Corruption {
            path,
            position,
            resumed_position,
            offset,
            reason,
        });
    }

    /// Removes the segments that continued an end that is no longer there. One that comes back with
    /// the next crash would go on from another end.
    fn remove_segments_from(&mut self, index: usize) -> Result<(), LogError> {
        if index < self.segments.len() {
            self.note_unsettled()?;
        }
        for segment in self.segments.split_off(index) {
            let removed_bytes = segment.size_bytes();
            let path = segment.path().to_owned();
            tracing::warn!(
                segment = %path.display(), removed_bytes,
                "a segment continues what a crash cut off and is removed"
            );
            for marked in segment.mark_deleted()? {
                self.options.fs.remove_file(&marked).map_err(LogError::io("remove", &marked))?;
            }
            self.findings.push(Finding::SegmentRemoved { path, removed_bytes });
        }
        Ok(())
    }

    /// Has the next start settle what this one is about to change, if the process is killed before
    /// that is on stable storage: nothing in the page cache would tell of it then. After a power cut
    /// the disk does, so that the mark needs no sync. On a full disk it goes without.
    fn note_unsettled(&mut self) -> Result<(), LogError> {
        self.is_unsettled = true;
        let RecoveryOptions { fs, dir, .. } = *self.options;
        let mark = dir.join(FAILED_SYNC_FILE);
        let marked = fs.open(&mark, OpenMode::CreateOrOpen).map(drop);
        unless_disk_full(marked.map_err(LogError::io("create", &mark)))
    }

    /// Writes the segments from `first` on again, as they are.
    ///
    /// A sync has failed, and the process ended, but the machine did not: then the page cache may
    /// hold batches that are not on the disk and count as clean all the same, so that no sync
    /// would ever write them ("fsyncgate"). Written again, they are.
    fn write_again(&self, first: usize) -> Result<(), LogError> {
        for segment in &self.segments[first..] {
            let path = segment.path();
            let file = segment.file()?;
            let size_bytes = segment.size_bytes();
            let mut position = 0;
            while position < size_bytes {
                let left = usize::try_from(size_bytes - position).unwrap_or(usize::MAX);
                let mut piece = vec![0; left.min(PIECE_BYTES)];
                read_exact_at(&*file, &mut piece, position).map_err(LogError::io("read", path))?;
                file.write_all_at(&[IoSlice::new(&piece)], position)
                    .map_err(LogError::io("write", path))?;
                position += piece.len() as u64;
            }
            sync_data(segment)?;
        }
        Ok(())
    }

    /// Puts the end of the log on stable storage: what a crash of the process alone left in the
    /// page cache is not there yet.
    fn sync_end(&mut self) -> Result<(), LogError> {
        let dir = self.options.dir;
        for index in (0..self.segments.len()).rev().take(2) {
            self.sync(&Arc::clone(&self.segments[index]))?;
        }
        self.options.fs.sync_dir(dir).map_err(LogError::io("sync", dir))
    }

    /// Puts a segment on stable storage. What was synced early need not be again, unless something
    /// was cut off since.
    fn sync(&mut self, segment: &Segment) -> Result<(), LogError> {
        self.early_syncs.finish()?;
        if self.early_syncs.have(segment) && !self.is_unsettled {
            return Ok(());
        }
        sync_data(segment)
    }
}

fn sync_data(segment: &Segment) -> Result<(), LogError> {
    segment.file()?.sync_data().map_err(LogError::io("sync", segment.path()))
}

fn file_bytes(segment: &Segment) -> Result<u64, LogError> {
    segment.file()?.len().map_err(LogError::io("look at", segment.path()))
}

/// Why a batch that is whole does not belong where it is; `None` if it does.
///
/// Compaction leaves gaps between offsets, but not behind the recovery point.
fn misplacement(
    header: &BatchHeader,
    segment: &Segment,
    limit: Option<Offset>,
    end: Offset,
    is_unflushed: bool,
) -> Option<String> {
    let (base, last) = (header.base_offset, header.last_offset());
    if base < end || (base > end && is_unflushed) {
        return Some(format!("the batch at offset {base} comes where {end} is next"));
    }
    if last - segment.base_offset() > i64::from(i32::MAX) {
        return Some(format!("offset {last} is too far from the segment's first"));
    }
    let limit = limit.filter(|&limit| last >= limit)?;
    Some(format!("offset {last} belongs into the next segment, which begins with {limit}"))
}

/// Why a batch behind a gap does not belong where it is: the one behind it belongs into the gap. No checksum covers the
/// offset that a batch begins with.
fn contradiction(
    batch: &ScannedBatch,
    segment: &Segment,
    end: Offset,
) -> Result<Option<String>, LogError> {
    let base = batch.header.base_offset;
    if base == end {
        return Ok(None);
    }
    let (file, file_bytes) = (segment.file()?, segment.size_bytes());
    let next = match HeaderScan::new(file, segment.path(), batch.end(), file_bytes).next() {
        Ok(next) => next,
        Err(LogError::Corrupt { .. }) => None,
        Err(error) => return Err(error),
    };
    let next = next.map(|next| next.header.base_offset);
    let next = next.filter(|&next| (end..batch.header.next_offset()).contains(&next));
    Ok(next.map(|next| {
        format!("the batch at offset {base} comes where {end} is next, and before that at {next}")
    }))
}
