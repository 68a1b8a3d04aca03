//! The idempotent producers of a log, as its files know them.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use logway_model::Offset;

use super::{for_each_batch, note_producer};
use crate::LogError;
use crate::file_names::{SNAPSHOT_EXTENSION, file_path};
use crate::fs::Fs;
use crate::producer_state::{EndedTransaction, ProducerStateTable, snapshot};
use crate::segment::Segment;

/// Where the producers of a log can be read.
pub(crate) struct ProducersOnDisk<'a> {
    pub(crate) fs: &'a dyn Fs,
    /// The directory of the log.
    pub(crate) dir: &'a Path,
    /// The offsets of the snapshots, ascending.
    pub(crate) snapshots: &'a [Offset],
    /// At least one.
    pub(crate) segments: &'a [Arc<Segment>],
}

impl ProducersOnDisk<'_> {
    /// Loads the newest good snapshot that knows the log no further than `end`, and notes the
    /// batches from there to `end`. `on_bad` is told of snapshots that are damaged.
    ///
    /// A snapshot from before the first segment is left behind by a deletion that a crash
    /// interrupted. The batches that followed it are gone, and so it would have their producers go on
    /// with a sequence that they have long used: a producer that is not known at all may go on with
    /// any.
    pub(crate) fn load(
        &self,
        end: Offset,
        producers: &mut ProducerStateTable,
        mut on_bad: impl FnMut(LogError),
    ) -> Result<(), LogError> {
        let mut known = Offset::ZERO;
        let first = self.segments.first().expect("a log has at least one segment").base_offset();
        let is_usable = |&&offset: &&Offset| (first..=end).contains(&offset);
        for &offset in self.snapshots.iter().rev().filter(is_usable) {
            match snapshot::read(self.fs, &file_path(self.dir, offset, SNAPSHOT_EXTENSION)) {
                Ok(found) => {
                    producers.load(found);
                    known = offset;
                    break;
                }
                Err(error @ LogError::Corrupt { .. }) => on_bad(error),
                Err(error) => return Err(error),
            }
        }
        if known == end {
            return Ok(());
        }
        self.replay(known..end, producers, |_| {})
    }

    /// Notes the batches of a part of the log, before which `producers` is known; `on_end` is told of transactions that end
    /// there.
    pub(crate) fn replay(
        &self,
        part: Range<Offset>,
        producers: &mut ProducerStateTable,
        mut on_end: impl FnMut(EndedTransaction),
    ) -> Result<(), LogError> {
        let Range { start, end } = part;
        let first = self.segments.partition_point(|segment| segment.base_offset() <= start);
        for segment in &self.segments[first.saturating_sub(1)..] {
            for_each_batch(segment, end, |batch| {
                if batch.header.base_offset >= start {
                    note_producer(producers, segment, batch)?.into_iter().for_each(&mut on_end);
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}
