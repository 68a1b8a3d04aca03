//! What a consumer hands out.

use std::collections::HashSet;

use logway_model::{Offset, TopicId, TopicPartition};
use logway_record::{Batch, DecodeLimit, Record, RecordError};

use crate::ClientError;

/// Something that happened to a partition.
#[derive(Debug, Clone)]
pub enum FetchEvent {
    /// Records came.
    Records(FetchedRecords),
    /// Records that were asked for exist no more, because of retention or a deletion.
    Skipped {
        /// The partition.
        partition: TopicPartition,
        /// What would have been read next.
        from: Offset,
        /// What is read next.
        to: Offset,
    },
    /// The topic was deleted, and there is another one of its name, which is read from its start. What was not read of
    /// the former is gone with it.
    Recreated {
        /// The partition.
        partition: TopicPartition,
        /// What would have been read next of the former topic.
        from: Offset,
        /// What is read next, of the other topic.
        to: Offset,
        /// The id of the other topic.
        topic_id: TopicId,
    },
}

/// Consecutive batches of one partition, not decoded yet.
#[derive(Debug, Clone)]
pub struct FetchedRecords {
    pub(super) partition: TopicPartition,
    pub(super) batches: Vec<Batch>,
    /// The base offsets of those whose transactions were aborted: the reader does not want them.
    pub(super) aborted: HashSet<Offset>,
    /// The first offset that is wanted: batches begin where they begin.
    pub(super) from: Offset,
    /// The first offset that is not wanted any more.
    pub(super) until: Option<Offset>,
    pub(super) decode_limit: DecodeLimit,
}

impl FetchedRecords {
    /// The partition.
    pub fn partition(&self) -> &TopicPartition {
        &self.partition
    }

    /// What comes after them: the next to be read when all of them have been.
    pub fn next_offset(&self) -> Offset {
        let next = self.batches.last().map_or(self.from, |batch| batch.header().next_offset());
        self.until.map_or(next, |until| next.min(until))
    }

    /// The records with their offsets; those that transactions leave behind for the brokers'
    /// own use are left out, and so are those that [`crate::Isolation`] keeps from the reader.
    ///
    /// # Errors
    ///
    /// A batch that does not match its checksum or cannot be decoded.
    pub fn records(&self) -> impl Iterator<Item = Result<Record, ClientError>> + '_ {
        let is_data = |batch: &&Batch| {
            let is_control = batch.header().attributes.is_control();
            !is_control && !self.aborted.contains(&batch.base_offset())
        };
        self.batches.iter().filter(is_data).flat_map(|batch| self.decode(batch))
    }

    fn decode(&self, batch: &Batch) -> impl Iterator<Item = Result<Record, ClientError>> + '_ {
        let (base_offset, next) = (batch.base_offset(), batch.header().next_offset());
        let records = batch.verify_crc().and_then(|()| batch.records(self.decode_limit));
        let (records, failed) = match records {
            Ok(records) => (Some(records), None),
            Err(error) => (None, Some(Err(error))),
        };
        let is_wanted = |record: &Result<Record, RecordError>| {
            record.as_ref().map_or(true, |record| {
                record.offset >= self.from && self.until.is_none_or(|until| record.offset < until)
            })
        };
        records.into_iter().flatten().chain(failed).filter(is_wanted).map(move |record| {
            record.map_err(|source| ClientError::UnreadableRecords {
                partition: self.partition.clone(),
                offset: base_offset,
                next: Some(next),
                source,
            })
        })
    }
}
