//! Transactions that have ended in a part of the log that was not known to be committed.

use logway_model::Offset;

use super::listing::Listing;
use super::{ProducersOnDisk, Recovery, RecoveryOptions};
use crate::LogError;
use crate::producer_state::ProducerStateTable;
use crate::transactions::EndedLately;

impl Recovery<'_> {
    /// The transactions whose markers are at or behind the high watermark that was last written down. Another leader may
    /// end them otherwise, so that `read_committed` readers must not see them yet. (Apache Kafka forgets them at a start.)
    ///
    /// Without a high watermark, nobody knows what is committed of the whole log. Without replicas elsewhere, all is committed
    /// as soon as the partition is led, and a log with them has a high watermark seconds after it was made. A log without
    /// transactions is not looked at.
    pub(super) fn find_uncommitted(
        &self,
        listing: &Listing,
        end: Offset,
    ) -> Result<EndedLately, LogError> {
        let RecoveryOptions { fs, dir, partition, producer_limits, high_watermark, .. } =
            *self.options;
        let begin = self.segments.first().map_or(Offset::ZERO, |first| first.base_offset());
        let is_committed = high_watermark.is_some_and(|offset| offset >= end) || begin >= end;
        let has_markers =
            || self.producers.iter().any(|(_, producer)| producer.coordinator_epoch >= 0);
        if is_committed || !has_markers() {
            return Ok(EndedLately::default());
        }
        let Some(committed) = high_watermark.map(|offset| offset.max(begin)) else {
            return Ok(EndedLately { unknown: Some(begin..end), ..EndedLately::default() });
        };
        let (snapshots, segments) = (&listing.snapshots[..], &self.segments[..]);
        let on_disk = ProducersOnDisk { fs: &**fs, dir, snapshots, segments };
        let mut producers = ProducerStateTable::new(partition.clone(), producer_limits.clone());
        // Bad snapshots were reported before.
        on_disk.load(committed, &mut producers, |_| {})?;
        let mut ended = Vec::new();
        on_disk.replay(committed..end, &mut producers, |transaction| ended.push(transaction))?;
        Ok(EndedLately { ended, unknown: None })
    }
}
