//! What other files say of a log, and whether that can be.

use logway_model::Offset;

use super::listing::Listing;
use super::{Finding, Recovery, for_each_batch};
use crate::LogError;
use crate::file_names::{SNAPSHOT_EXTENSION, file_path};
use crate::producer_state::snapshot;
use crate::segment::Segment;

impl Recovery<'_> {
    /// Takes into account that what a snapshot of the producers knows was on stable storage. One
    /// that knows more than all other files is looked at: only a whole one counts.
    pub(super) fn ask_snapshots(&mut self, listing: &Listing) -> Result<(), LogError> {
        let known = self.durable_end;
        for &offset in listing.snapshots.iter().rev().take_while(|&&offset| offset > known) {
            let path = file_path(self.options.dir, offset, SNAPSHOT_EXTENSION);
            match snapshot::read(&**self.options.fs, &path) {
                Ok(_) => {
                    self.durable_end = offset;
                    return Ok(());
                }
                Err(error @ LogError::Corrupt { .. }) => {
                    tracing::warn!(%error, "a snapshot of the producers is not believed");
                    self.findings.push(Finding::Rebuilt { error });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Refuses a log start that cannot be, because the log never got there.
    ///
    /// The checkpoint has no checksum, and a log start is written down only when all before it is
    /// on stable storage. One behind everything that is there, or is known to have been, is
    /// damage: to believe it would hide all records, and delete most. A log without records has
    /// nothing to hide; there it is believed, so that no offset is given twice.
    pub(super) fn judge_log_start(&mut self, listing: &Listing) -> Result<(), LogError> {
        let (Some(last), Some(last_with_records)) = (
            listing.segments.last(),
            listing.segments.iter().rev().find(|segment| segment.len_bytes > 0),
        ) else {
            return Ok(());
        };
        if self.log_start <= self.durable_end.max(last.base_offset) {
            return Ok(());
        }
        let super::RecoveryOptions { fs, dir, partition, .. } = *self.options;
        let (base_offset, len_bytes) = (last_with_records.base_offset, last_with_records.len_bytes);
        let segment = Segment::existing(fs, dir, base_offset, len_bytes);
        let mut end = base_offset;
        for_each_batch(&segment, Offset::LIMIT, |batch| {
            end = batch.header.next_offset();
            Ok(())
        })?;
        if self.log_start <= end {
            return Ok(());
        }
        let claimed = self.log_start;
        self.log_start = Offset::ZERO;
        let first = listing.segments.first().map_or(Offset::ZERO, |first| first.base_offset);
        tracing::error!(
            %partition, %claimed, log_end = %end, log_start = %first,
            "the checkpoint says that the log starts behind its end: that is not believed, and \
             records that were deleted may be back"
        );
        self.findings.push(Finding::ImpossibleLogStart { claimed, end });
        Ok(())
    }
}
