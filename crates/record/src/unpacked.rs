//! The records of a batch where they lie, and a batch of some of them: what compaction works on.

use bytes::Bytes;
use logway_model::{Offset, TimestampMs};

use crate::header::CRC_COVERS_FROM;
use crate::raw_record::RawView;
use crate::{
    Attributes, BATCH_HEADER_BYTES, Batch, BatchHeader, Compression, DecodeLimit,
    LOG_OVERHEAD_BYTES, RecordError, RecordProblem, TimestampType, crc, varint,
};

/// A batch whose records are decompressed, to be looked at one after the other without a copy.
#[derive(Debug, Clone)]
pub struct UnpackedBatch {
    header: BatchHeader,
    records: Bytes,
}

/// A record within an [`UnpackedBatch`].
///
/// Its headers are not decoded: a rewritten batch has them byte for byte, whatever they are.
#[derive(Debug, Clone, Copy)]
pub struct RecordView<'a> {
    /// Its place in the partition.
    pub offset: Offset,
    /// When it was made, or, with log append time, when it was appended.
    pub timestamp: TimestampMs,
    /// What compaction goes by.
    pub key: Option<&'a [u8]>,
    /// The payload; `None` is a tombstone on a compacted topic.
    pub value: Option<&'a [u8]>,
    raw: RawView<'a>,
}

/// What [`UnpackedBatch::retain`] made.
#[derive(Debug, Clone)]
pub struct RetainedBatch {
    /// Its header.
    pub header: BatchHeader,
    /// All of its bytes, header included.
    pub bytes: Bytes,
}

impl Batch {
    /// Decompresses the records, up to `limit`. A batch without records is none to decompress.
    ///
    /// # Errors
    ///
    /// An unknown codec, compressed bytes that do not decompress or exceed the limit, a negative
    /// record count.
    pub fn unpack(&self, limit: DecodeLimit) -> Result<UnpackedBatch, RecordError> {
        let header = *self.header();
        let BatchHeader { base_offset, record_count, .. } = header;
        let records = match record_count {
            ..0 => return Err(RecordError::InvalidRecordCount { base_offset, record_count }),
            0 => self.body(),
            _ => header.attributes.compression()?.decompress(self.body(), limit)?,
        };
        Ok(UnpackedBatch { header, records })
    }

    /// The same place, producer and sequence without any record: what compaction leaves where the
    /// last sequence of a producer, or the end of a segment, must stay known (KIP-98).
    ///
    /// As in Apache Kafka it keeps the largest timestamp, and has neither a base timestamp nor a
    /// delete horizon.
    pub fn emptied(&self) -> RetainedBatch {
        let header = *self.header();
        let attributes = header.attributes.with_compression(Compression::None);
        let header = BatchHeader {
            attributes: attributes.without_delete_horizon(),
            base_timestamp: TimestampMs::NONE,
            record_count: 0,
            ..header
        };
        encode(header, &Bytes::new()).expect("a header alone is short enough")
    }
}

impl UnpackedBatch {
    /// The header of the batch.
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// The records, in their order: as many as the header says, or an error and then nothing more.
    /// Bytes after the last record are an error, too.
    pub fn records(&self) -> RecordViews<'_> {
        let left = usize::try_from(self.header.record_count).unwrap_or(0);
        RecordViews { header: &self.header, index: 0, left, rest: &self.records, has_ended: false }
    }

    /// The batch with only those records for which `is_kept`, at their offsets, compressed as it
    /// was; the base offset, last offset and sequence stay. `None` if there is none.
    ///
    /// With a `delete_horizon` the batch says until when its tombstones must stay (KIP-534). It
    /// takes the place of the base timestamp, which the deltas of the records then refer to.
    ///
    /// # Errors
    ///
    /// What is wrong with a record; [`RecordError::TooLargeToEncode`] past 2 GiB.
    pub fn retain(
        &self,
        delete_horizon: Option<TimestampMs>,
        mut is_kept: impl FnMut(&RecordView<'_>) -> bool,
    ) -> Result<Option<RetainedBatch>, RecordError> {
        let mut header = self.header;
        if let Some(horizon) = delete_horizon {
            header.base_timestamp = horizon;
            header.attributes = header.attributes.with_delete_horizon();
        }
        header.record_count = 0;
        let mut largest = TimestampMs::NONE;
        let mut plain = Vec::new();
        let mut records = self.records();
        while let Some(record) = records.next() {
            let record = record?;
            if !is_kept(&record) {
                continue;
            }
            let rebased = record.encode(&self.header, header.base_timestamp, &mut plain);
            rebased.map_err(|problem| records.error_at_previous(problem))?;
            largest = largest.max(record.timestamp);
            header.record_count += 1;
        }
        if header.record_count == 0 {
            return Ok(None);
        }
        if header.attributes.timestamp_type() == TimestampType::CreateTime {
            header.max_timestamp = largest;
        }
        let body = header.attributes.compression()?.compress(plain.into());
        encode(header, &body).map(Some)
    }
}

/// See [`UnpackedBatch::records`].
#[derive(Debug, Clone)]
pub struct RecordViews<'a> {
    header: &'a BatchHeader,
    index: usize,
    left: usize,
    rest: &'a [u8],
    has_ended: bool,
}

impl<'a> RecordViews<'a> {
    fn decode_next(&mut self) -> Result<RecordView<'a>, RecordProblem> {
        let raw = RawView::decode(&mut self.rest)?;
        Ok(RecordView {
            offset: self.header.offset_at(raw.offset_delta)?,
            timestamp: self.header.timestamp_at(raw.timestamp_delta_ms)?,
            key: raw.key,
            value: raw.value,
            raw,
        })
    }

    fn error_at_previous(&self, problem: RecordProblem) -> RecordError {
        let (base_offset, index) = (self.header.base_offset, self.index.saturating_sub(1));
        RecordError::MalformedRecord { base_offset, index, problem }
    }
}

impl<'a> Iterator for RecordViews<'a> {
    type Item = Result<RecordView<'a>, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        let decoded = match self.left.checked_sub(1) {
            Some(left) => {
                (self.left, self.index) = (left, self.index + 1);
                self.decode_next()
            }
            None if self.rest.is_empty() => {
                self.has_ended = true;
                return None;
            }
            None => Err(RecordProblem::TrailingBytes { unread_bytes: self.rest.len() }),
        };
        self.has_ended = decoded.is_err();
        Some(decoded.map_err(|problem| self.error_at_previous(problem)))
    }
}

impl RecordView<'_> {
    /// Appends the record to `out`, relative to another base timestamp.
    fn encode(
        &self,
        header: &BatchHeader,
        base_timestamp: TimestampMs,
        out: &mut Vec<u8>,
    ) -> Result<(), RecordProblem> {
        if base_timestamp == header.base_timestamp {
            out.extend_from_slice(self.raw.encoded);
            return Ok(());
        }
        let absolute =
            i128::from(header.base_timestamp.0) + i128::from(self.raw.timestamp_delta_ms);
        let delta_ms = i64::try_from(absolute - i128::from(base_timestamp.0))
            .map_err(|_| RecordProblem::OutOfRange)?;
        let content_bytes = size_of_val(&self.raw.attributes)
            + varint::size_bytes(delta_ms)
            + self.raw.from_offset_delta.len();
        let length = i32::try_from(content_bytes).map_err(|_| RecordProblem::OutOfRange)?;
        varint::put(out, i64::from(length));
        out.push(self.raw.attributes as u8);
        varint::put(out, delta_ms);
        out.extend_from_slice(self.raw.from_offset_delta);
        Ok(())
    }
}

/// Puts header and body together, with their length and CRC.
pub(crate) fn encode(mut header: BatchHeader, body: &Bytes) -> Result<RetainedBatch, RecordError> {
    let size_bytes = BATCH_HEADER_BYTES + body.len();
    header.length_bytes = i32::try_from(size_bytes - LOG_OVERHEAD_BYTES)
        .map_err(|_| RecordError::TooLargeToEncode { size_bytes })?;
    header.crc = crc::crc32c_of_both(&header.encode()[CRC_COVERS_FROM..], body);
    let mut bytes = Vec::with_capacity(size_bytes);
    bytes.extend_from_slice(&header.encode());
    bytes.extend_from_slice(body);
    Ok(RetainedBatch { header, bytes: bytes.into() })
}

impl Attributes {
    fn with_delete_horizon(self) -> Attributes {
        self.with(Attributes::DELETE_HORIZON, true)
    }

    fn without_delete_horizon(self) -> Attributes {
        self.with(Attributes::DELETE_HORIZON, false)
    }
}
