//! A batch that a log has taken.

use std::fmt;

use logway_model::{LeaderEpoch, Offset};
use logway_record::{Batch, DecodeLimit, Record};

use crate::batch::content;

/// A batch that a log has, or had before compaction took records of it away.
#[derive(Clone)]
pub(crate) struct Kept {
    pub(crate) base: Offset,
    pub(crate) last: Offset,
    pub(crate) epoch: LeaderEpoch,
    pub(crate) batch: Batch,
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Kept { base, last, epoch, batch } = self;
        let (id, sequence) = (batch.header().producer_id, batch.header().base_sequence);
        write!(
            f,
            "the batch {base} to {last} of epoch {epoch}, of producer {id:?} from {sequence} on"
        )
    }
}

impl Kept {
    /// A batch that was sent, at the place where the log has taken it.
    pub(super) fn at(base: Offset, epoch: LeaderEpoch, batch: Batch) -> Kept {
        let last = base + i64::from(batch.header().last_offset_delta);
        Kept { base, last, epoch, batch }
    }

    /// Whether a batch is this one, at its place and as it was sent.
    pub(super) fn is_whole(&self, found: &Batch) -> bool {
        self.is_at(found) && content(found) == content(&self.batch)
    }

    /// The records as they were sent, at their places.
    pub(super) fn records(&self) -> Vec<Record> {
        let sent = records(&self.batch).expect("what was sent can be read");
        let offset = |record: &Record| self.base + (record.offset - self.batch.base_offset());
        sent.into_iter().map(|record| Record { offset: offset(&record), ..record }).collect()
    }

    /// The records that a batch has which compaction has left of this one; `None` if it leaves no such
    /// batch.
    pub(super) fn left_in(&self, found: &Batch) -> Option<Vec<Record>> {
        let producer = |batch: &Batch| {
            let header = batch.header();
            (header.producer_id, header.producer_epoch, header.base_sequence)
        };
        if !self.is_at(found)
            || found.last_offset() != self.last
            || producer(found) != producer(&self.batch)
        {
            return None;
        }
        let (left, sent) = (records(found)?, self.records());
        let is_touched = left.len() < sent.len() || found.header().delete_horizon().is_some();
        let are_as_sent = left.iter().all(|record| sent.contains(record))
            && left.is_sorted_by(|one, next| one.offset < next.offset);
        (are_as_sent && (is_touched || self.is_whole(found))).then_some(left)
    }

    fn is_at(&self, found: &Batch) -> bool {
        found.base_offset() == self.base
            && found.header().leader_epoch == self.epoch
            && found.verify_crc().is_ok()
    }
}

/// `None` if they cannot be read.
fn records(batch: &Batch) -> Option<Vec<Record>> {
    batch.records(DecodeLimit::DEFAULT).ok()?.collect::<Result<_, _>>().ok()
}
