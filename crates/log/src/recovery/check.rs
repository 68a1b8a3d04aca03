//! The look at segments that need no scan.

use std::sync::Arc;

use logway_model::Offset;

use super::listing::Listing;
use super::scan_log::Part;
use super::{Finding, ProducersOnDisk, Recovery, RecoveryOptions};
use crate::LogError;
use crate::file_names::{LOG_EXTENSION, file_path};
use crate::producer_state::ProducerStateTable;
use crate::segment::Segment;

impl Recovery<'_> {
    /// Compares the segments before the one at `until` with what is known of them, and mends what
    /// readers would stumble over in those that differ.
    ///
    /// It goes by the listing of the directory, so that it opens nothing if all is well.
    pub(super) fn check_segments_before(
        &mut self,
        until: usize,
        listing: &Listing,
    ) -> Result<(), LogError> {
        self.report_removed_segments(until, listing);
        for index in 0..until {
            let segment = Arc::clone(&self.segments[index]);
            if !self.is_as_listed(&segment) {
                self.mend(&segment, self.segments[index + 1].base_offset(), listing)?;
            }
        }
        Ok(())
    }

    /// Makes the indexes of full segments anew where they are missing: such segments have a time
    /// index and, unless they are tiny, an offset index.
    pub(super) fn rebuild_missing_indexes(&mut self, listing: &Listing) -> Result<(), LogError> {
        let interval_bytes = self.options.index_interval_bytes;
        for index in 0..self.segments.len() - 1 {
            let segment = Arc::clone(&self.segments[index]);
            let lacks_index = listing.segment(segment.base_offset()).is_some_and(|found| {
                let needs_offsets = found.len_bytes > u64::from(interval_bytes);
                !found.has_time_index || (needs_offsets && !found.has_index)
            });
            if segment.size_bytes() == 0 || !lacks_index {
                continue;
            }
            let segment_path = segment.path().display();
            tracing::warn!(segment = %segment_path, "an index is missing and is made anew");
            match segment.replace_indexes(interval_bytes) {
                Ok(()) => {}
                Err(LogError::Corrupt { .. }) => {
                    self.mend(&segment, self.segments[index + 1].base_offset(), listing)?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reports that the records from `from` to `to` are missing, behind the segment `before`.
    pub(super) fn report_missing(&mut self, before: &Segment, from: Offset, to: Offset) {
        let is_segments_start = self.listed.is_some_and(|listed| listed.find(from).is_some());
        let path = match is_segments_start {
            true => file_path(self.options.dir, from, LOG_EXTENSION),
            false => before.path().to_owned(),
        };
        let partition = self.options.partition;
        tracing::error!(
            %partition, segment = %path.display(), %from, %to,
            "records that were on stable storage are missing"
        );
        self.findings.push(Finding::Missing { path, from, to });
    }

    /// Reports the segments whose files are gone: those that were listed, or whose indexes are
    /// still there.
    fn report_removed_segments(&mut self, until: usize, listing: &Listing) {
        let log_start = self.log_start;
        let listed = self.listed.into_iter().flat_map(|list| list.with_ends());
        let listed = listed.filter(|(_, end)| *end > log_start);
        // One whose removal was interrupted is before the log start.
        let orphans = listing.orphans.iter().copied().filter(|&orphan| orphan >= log_start);
        let limit = self.segments[until].base_offset();
        let mut removed: Vec<Offset> = listed
            .map(|(segment, _)| segment.base_offset)
            .chain(orphans)
            .filter(|&base| base < limit && listing.segment(base).is_none())
            .collect();
        removed.sort_unstable();
        removed.dedup();
        for (index, &base) in removed.iter().enumerate() {
            let next = self.segments.partition_point(|segment| segment.base_offset() <= base);
            let next = self.segments[next].base_offset();
            let to = removed.get(index + 1).map_or(next, |&removed| removed.min(next));
            let path = file_path(self.options.dir, base, LOG_EXTENSION);
            let (partition, from) = (self.options.partition, base.max(log_start));
            tracing::error!(
                %partition, segment = %path.display(), %from, %to,
                "a segment is gone, with records that were on stable storage"
            );
            self.findings.push(Finding::Missing { path, from, to });
        }
    }

    /// Whether a full segment is as long as it was. An empty one has lost its records, unless it
    /// is known that it had none.
    fn is_as_listed(&self, segment: &Segment) -> bool {
        let size_bytes = segment.size_bytes();
        match self.listed.and_then(|list| list.find(segment.base_offset())) {
            None => size_bytes > 0,
            Some((listed, false)) => size_bytes == listed.size_bytes,
            // It has grown until it was full.
            Some((listed, true)) => size_bytes >= listed.size_bytes.max(1),
        }
    }

    /// Finds out what is good of a full segment that ended before `next`, and reports the rest.
    fn mend(&mut self, segment: &Segment, next: Offset, listing: &Listing) -> Result<(), LogError> {
        let mut end = segment.base_offset();
        let findings = self.findings.len();
        if segment.size_bytes() == 0 {
            segment.reset_indexes()?;
        }
        self.scan_segment(segment, Some(next), &mut end, Part::Earlier)?;
        if end < next && self.findings.len() == findings {
            self.report_missing(segment, end, next);
        }
        self.rebuild_aborted(segment, next, listing)?;
        segment.sync_indexes()
    }

    /// Makes the index of aborted transactions anew, from the producers as they were where the segment begins.
    fn rebuild_aborted(
        &self,
        segment: &Segment,
        next: Offset,
        listing: &Listing,
    ) -> Result<(), LogError> {
        let RecoveryOptions { fs, dir, partition, producer_limits, .. } = *self.options;
        let mut producers = ProducerStateTable::new(partition.clone(), producer_limits.clone());
        let (snapshots, segments) = (&listing.snapshots[..], &self.segments[..]);
        let on_disk = ProducersOnDisk { fs: &**fs, dir, snapshots, segments };
        let base = segment.base_offset();
        on_disk.load(base, &mut producers, |error| {
            tracing::warn!(%error, "a snapshot of the producers is not believed");
        })?;
        segment.aborted.reset()?;
        let mut aborted = Vec::new();
        on_disk.replay(base..next, &mut producers, |ended| aborted.extend(ended.aborted))?;
        aborted.iter().try_for_each(|aborted| segment.aborted.append(aborted))
    }
}
