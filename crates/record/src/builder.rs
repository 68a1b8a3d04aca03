//! Encoding a batch.

use bytes::Bytes;
use logway_model::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, TimestampMs};

use crate::header::CRC_COVERS_FROM;
use crate::raw_record::RecordParts;
use crate::{
    Attributes, BATCH_HEADER_BYTES, BatchHeader, Compression, Header, LOG_OVERHEAD_BYTES,
    RecordError, RecordProblem, TargetCompression, crc,
};

/// Builds a batch from records, one after the other.
///
/// As a client must send it, unless told otherwise: base offset 0, no leader epoch, create time,
/// no producer id.
#[derive(Debug, Clone)]
pub struct BatchBuilder {
    header: BatchHeader,
    records: Vec<u8>,
    next_offset_delta: i32,
}

impl BatchBuilder {
    /// A batch without records, to be compressed so.
    pub fn new(compression: Compression) -> BatchBuilder {
        let header = BatchHeader {
            base_offset: Offset::ZERO,
            length_bytes: 0,
            leader_epoch: LeaderEpoch::NONE,
            crc: 0,
            attributes: Attributes::default().with_compression(compression),
            last_offset_delta: 0,
            base_timestamp: TimestampMs::NONE,
            max_timestamp: TimestampMs::NONE,
            producer_id: ProducerId::NONE,
            producer_epoch: ProducerEpoch::NONE,
            base_sequence: Sequence::NONE,
            record_count: 0,
        };
        BatchBuilder { header, records: Vec::new(), next_offset_delta: 0 }
    }

    /// With the place that a leader would give the batch.
    #[must_use]
    pub fn with_assignment(mut self, base_offset: Offset, leader_epoch: LeaderEpoch) -> Self {
        self.header.base_offset = base_offset;
        self.header.leader_epoch = leader_epoch;
        self
    }

    /// With the identity of an idempotent producer and the sequence of the first record.
    #[must_use]
    pub fn with_producer(
        mut self,
        id: ProducerId,
        epoch: ProducerEpoch,
        base_sequence: Sequence,
    ) -> Self {
        self.header.producer_id = id;
        self.header.producer_epoch = epoch;
        self.header.base_sequence = base_sequence;
        self
    }

    /// With other attributes; the codec that they name is the one that is used.
    #[must_use]
    pub fn with_attributes(mut self, attributes: Attributes) -> Self {
        self.header.attributes = attributes;
        self
    }

    /// The attributes so far, to change some of them.
    pub fn attributes(&self) -> Attributes {
        self.header.attributes
    }

    /// Appends a record at the next offset.
    ///
    /// # Errors
    ///
    /// [`RecordError::TooLargeToEncode`] when the batch would pass 2 GiB, and
    /// [`RecordProblem::OutOfRange`] when the timestamp is further from the first one than 64
    /// bits can say. The batch is then as it was.
    pub fn append(
        &mut self,
        timestamp: TimestampMs,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[Header],
    ) -> Result<(), RecordError> {
        self.append_at(self.next_offset_delta, timestamp, key, value, headers)
    }

    /// Appends a record at an offset relative to the base offset; those in between stay unused,
    /// as compaction leaves them.
    ///
    /// # Errors
    ///
    /// Those of [`BatchBuilder::append`], and [`RecordProblem::UnexpectedOffsetDelta`] when the
    /// offset is not beyond the one before.
    pub fn append_at(
        &mut self,
        offset_delta: i32,
        timestamp: TimestampMs,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[Header],
    ) -> Result<(), RecordError> {
        let expected = self.next_offset_delta;
        if offset_delta < expected {
            let problem = RecordProblem::UnexpectedOffsetDelta { found: offset_delta, expected };
            return Err(self.refuse_next(problem));
        }
        let is_first = self.is_empty();
        let base_timestamp = if is_first { timestamp } else { self.header.base_timestamp };
        let (Some(timestamp_delta_ms), Some(next_offset_delta)) =
            (timestamp.0.checked_sub(base_timestamp.0), offset_delta.checked_add(1))
        else {
            return Err(self.refuse_next(RecordProblem::OutOfRange));
        };
        let parts = RecordParts { timestamp_delta_ms, offset_delta, key, value, headers };
        batch_length(self.records.len() + parts.size_bytes())?;

        parts.encode(&mut self.records);
        self.next_offset_delta = next_offset_delta;
        self.header.last_offset_delta = offset_delta;
        self.header.base_timestamp = base_timestamp;
        self.header.max_timestamp = self.header.max_timestamp.max(timestamp);
        self.header.record_count += 1;
        Ok(())
    }

    /// How many records there are.
    pub fn record_count(&self) -> i32 {
        self.header.record_count
    }

    /// Whether there is no record yet.
    pub fn is_empty(&self) -> bool {
        self.record_count() == 0
    }

    /// The size of the batch so far, if it were not compressed.
    pub fn uncompressed_bytes(&self) -> usize {
        BATCH_HEADER_BYTES + self.records.len()
    }

    /// As [`BatchBuilder::finish`], compressed with `target` whatever the attributes say.
    ///
    /// # Errors
    ///
    /// Those of [`BatchBuilder::finish`].
    pub fn finish_with(mut self, target: TargetCompression) -> Result<Bytes, RecordError> {
        if self.is_empty() {
            return Err(RecordError::EmptyBatch);
        }
        self.header.attributes = self.header.attributes.with_compression(target.codec());
        let body = target.compress(self.records.into());
        whole(self.header, &body)
    }

    /// Compresses the records and writes the header.
    ///
    /// # Errors
    ///
    /// [`RecordError::EmptyBatch`]; [`RecordError::UnknownCompression`] when the attributes that
    /// were set name no codec; [`RecordError::TooLargeToEncode`] when compression made the batch
    /// grow beyond 2 GiB.
    pub fn finish(self) -> Result<Bytes, RecordError> {
        if self.is_empty() {
            return Err(RecordError::EmptyBatch);
        }
        let target = self.header.attributes.compression()?;
        self.finish_with(target.into())
    }

    fn refuse_next(&self, problem: RecordProblem) -> RecordError {
        RecordError::MalformedRecord {
            base_offset: self.header.base_offset,
            index: self.header.record_count as usize,
            problem,
        }
    }
}

/// Header and body, once the header says how long the body is and what its CRC is.
pub(crate) fn whole(mut header: BatchHeader, body: &[u8]) -> Result<Bytes, RecordError> {
    header.length_bytes = batch_length(body.len())?;
    header.crc = crc::crc32c_of_both(&header.encode()[CRC_COVERS_FROM..], body);
    let mut bytes = Vec::with_capacity(header.size_bytes());
    bytes.extend_from_slice(&header.encode());
    bytes.extend_from_slice(body);
    Ok(bytes.into())
}

/// The length field of a batch with such a body.
fn batch_length(body_bytes: usize) -> Result<i32, RecordError> {
    let size_bytes = body_bytes.saturating_add(BATCH_HEADER_BYTES);
    i32::try_from(size_bytes - LOG_OVERHEAD_BYTES)
        .map_err(|_| RecordError::TooLargeToEncode { size_bytes })
}
