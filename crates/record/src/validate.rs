//! What a leader asks of a batch before it appends it.

use logway_model::{Offset, ProducerEpoch, ProducerId, Sequence, TimestampMs};

use crate::record_iter::RawRecords;
use crate::{
    BATCH_HEADER_BYTES, Batch, BatchHeader, Compression, DecodeLimit, InvalidBatch, RecordError,
    RecordProblem, TimestampType,
};

/// The least that a record takes: its length, attributes, two deltas, two lengths and a count, each
/// in one byte.
const RECORD_BYTES_MIN: usize = 7;

/// What a topic's settings, and the clock, say about its batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppendRules {
    /// `max.message.bytes`: the size of a whole batch.
    pub max_batch_bytes: usize,
    /// `message.timestamp.type`.
    pub timestamp_type: TimestampType,
    /// `message.timestamp.before.max.ms`: how far behind `now` a timestamp may be.
    pub timestamp_before_max_ms: i64,
    /// `message.timestamp.after.max.ms`: how far ahead of `now` a timestamp may be.
    pub timestamp_after_max_ms: i64,
    /// Whether each record must have a key: `cleanup.policy` includes `compact`.
    pub keys_required: bool,
    /// What looking for the keys may take. Records are not decoded otherwise.
    pub decode_limit: DecodeLimit,
    /// The time.
    pub now: TimestampMs,
}

/// What is known of a valid batch from its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchSummary {
    /// The size of the whole batch.
    pub size_bytes: usize,
    /// How many records it has, which is as many as it takes offsets; at least 1.
    pub record_count: i32,
    /// The latest timestamp according to the producer. One that is negative is as good as none.
    pub max_timestamp: TimestampMs,
    /// How the records are compressed.
    pub compression: Compression,
    /// Whether it is part of a transaction; then it has a producer.
    pub is_transactional: bool,
    /// The idempotent producer's stamp, if it has one.
    pub producer: Option<ProducerStamp>,
}

/// By what a retried batch is recognised (KIP-98). No number is negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerStamp {
    /// Whose batch it is.
    pub id: ProducerId,
    /// That producer's incarnation.
    pub epoch: ProducerEpoch,
    /// The number of the first record.
    pub base_sequence: Sequence,
    /// The number of the last record, wrapped after the largest.
    pub last_sequence: Sequence,
}

/// Judges a producer's batch by the rules of the topic.
///
/// All but the last rule go by the header and the CRC, because the record bytes are not decoded
/// on the way to the disk. Apache Kafka decodes and decompresses every batch here. The
/// difference: a producer that frames its records wrongly under a right CRC is not found out by
/// the leader, but by whoever reads them, or by [`validate_records_deep`]; and the range of
/// timestamps is checked for the latest one and the first record's, not for each. The header's
/// max timestamp, which Kafka corrects, is believed, so that it must at least not contradict
/// the first record's.
///
/// # Errors
///
/// The first rule that the batch breaks.
pub fn validate_for_append(
    batch: &Batch,
    rules: &AppendRules,
) -> Result<BatchSummary, InvalidBatch> {
    let header = batch.header();
    check_size(batch, rules)?;
    check_crc(batch)?;
    check_offsets(header)?;
    let compression = check_attributes(header)?;
    check_room(batch, compression, rules.decode_limit)?;
    let producer = check_producer(header)?;
    check_timestamps(header, rules)?;
    if rules.keys_required {
        check_keys(batch, rules.decode_limit)?;
    }
    Ok(BatchSummary {
        size_bytes: batch.size_bytes(),
        record_count: header.record_count,
        max_timestamp: header.max_timestamp,
        compression,
        is_transactional: header.attributes.is_transactional(),
        producer,
    })
}

/// Decodes all records of a batch and holds them against its header, for verifying a log.
///
/// Each must decode, its offset must be the one after that before it, or, where compaction has
/// removed records, any later one of the batch, and its timestamp must not pass the maximum. The
/// CRC is not looked at.
///
/// # Errors
///
/// Those of [`Batch::records`] and of [`crate::RecordIter`], and
/// [`RecordError::MalformedRecord`] for the first record that is out of place.
pub fn validate_records_deep(batch: &Batch, limit: DecodeLimit) -> Result<(), RecordError> {
    let header = batch.header();
    let is_dense = i64::from(header.record_count) == i64::from(header.last_offset_delta) + 1;
    let mut least_offset = header.base_offset;
    for (index, record) in batch.records(limit)?.enumerate() {
        let record = record?;
        let is_out_of_place =
            record.offset < least_offset || (is_dense && record.offset != least_offset);
        let problem = if is_out_of_place {
            Some(unexpected_offset(header, record.offset, least_offset))
        } else if record.timestamp > header.max_timestamp {
            Some(RecordProblem::AfterMaxTimestamp)
        } else {
            None
        };
        if let Some(problem) = problem {
            let base_offset = header.base_offset;
            return Err(RecordError::MalformedRecord { base_offset, index, problem });
        }
        least_offset = record.offset.next();
    }
    Ok(())
}

fn unexpected_offset(header: &BatchHeader, found: Offset, expected: Offset) -> RecordProblem {
    // Both are within the batch or just after it, where the delta may be one too large.
    let delta = |offset| i32::try_from(offset - header.base_offset).unwrap_or(i32::MAX);
    RecordProblem::UnexpectedOffsetDelta { found: delta(found), expected: delta(expected) }
}

fn check_size(batch: &Batch, rules: &AppendRules) -> Result<(), InvalidBatch> {
    let (size_bytes, max_bytes) = (batch.size_bytes(), rules.max_batch_bytes);
    if size_bytes > max_bytes {
        return Err(InvalidBatch::TooLarge { size_bytes, max_bytes });
    }
    Ok(())
}

fn check_crc(batch: &Batch) -> Result<(), InvalidBatch> {
    let (stored, computed) = (batch.header().crc, batch.compute_crc());
    if stored != computed {
        return Err(InvalidBatch::BadCrc { stored, computed });
    }
    Ok(())
}

fn check_offsets(header: &BatchHeader) -> Result<(), InvalidBatch> {
    let BatchHeader { base_offset, record_count, last_offset_delta, .. } = *header;
    if base_offset != Offset::ZERO {
        return Err(InvalidBatch::NonZeroBaseOffset { base_offset });
    }
    if record_count <= 0 {
        return Err(InvalidBatch::NoRecords { record_count });
    }
    if record_count - 1 != last_offset_delta {
        return Err(InvalidBatch::RecordCountMismatch { record_count, last_offset_delta });
    }
    Ok(())
}

/// A count that the bytes have no room for would move the log's end by up to 2^31 for nothing.
/// What compressed bytes have room for only decoding could tell; what decoding may take bounds it.
fn check_room(
    batch: &Batch,
    compression: Compression,
    limit: DecodeLimit,
) -> Result<(), InvalidBatch> {
    let body_bytes = batch.size_bytes() - BATCH_HEADER_BYTES;
    let room_bytes = match compression {
        Compression::None => body_bytes,
        _ => limit.bytes().max(body_bytes),
    };
    let record_count = batch.header().record_count;
    match usize::try_from(record_count) {
        Ok(count) if count <= room_bytes / RECORD_BYTES_MIN => Ok(()),
        _ => Err(InvalidBatch::NoRoom { record_count, body_bytes }),
    }
}

fn check_attributes(header: &BatchHeader) -> Result<Compression, InvalidBatch> {
    let attributes = header.attributes;
    if attributes.is_control() {
        return Err(InvalidBatch::ControlBatch);
    }
    if attributes.has_delete_horizon() {
        return Err(InvalidBatch::DeleteHorizon);
    }
    if attributes.timestamp_type() == TimestampType::LogAppendTime {
        return Err(InvalidBatch::LogAppendTimeFromProducer);
    }
    Compression::from_id(attributes.codec())
        .map_err(|_| InvalidBatch::UnknownCompression { codec: attributes.codec() })
}

fn check_producer(header: &BatchHeader) -> Result<Option<ProducerStamp>, InvalidBatch> {
    let BatchHeader { producer_id, producer_epoch, base_sequence, .. } = *header;
    if !producer_id.is_some() {
        return match header.attributes.is_transactional() {
            true => Err(InvalidBatch::TransactionWithoutProducer),
            false => Ok(None),
        };
    }
    if producer_epoch.0 < 0 {
        return Err(InvalidBatch::InvalidProducerEpoch { producer_id, producer_epoch });
    }
    if base_sequence.0 < 0 {
        return Err(InvalidBatch::InvalidSequence { producer_id, base_sequence });
    }
    Ok(Some(ProducerStamp {
        id: producer_id,
        epoch: producer_epoch,
        base_sequence,
        last_sequence: base_sequence.advance(header.last_offset_delta),
    }))
}

/// With log append time, what the producer says of the time is overwritten and does not matter.
fn check_timestamps(header: &BatchHeader, rules: &AppendRules) -> Result<(), InvalidBatch> {
    if rules.timestamp_type == TimestampType::LogAppendTime {
        return Ok(());
    }
    let BatchHeader { base_timestamp, max_timestamp, .. } = *header;
    if max_timestamp < base_timestamp {
        return Err(InvalidBatch::MaxTimestampBeforeBase { base_timestamp, max_timestamp });
    }
    let earliest = TimestampMs(rules.now.0.saturating_sub(rules.timestamp_before_max_ms));
    let latest = TimestampMs(rules.now.0.saturating_add(rules.timestamp_after_max_ms));
    for timestamp in [base_timestamp, max_timestamp] {
        if timestamp != TimestampMs::NONE && !(earliest..=latest).contains(&timestamp) {
            return Err(InvalidBatch::TimestampOutOfRange { timestamp, earliest, latest });
        }
    }
    Ok(())
}

fn check_keys(batch: &Batch, limit: DecodeLimit) -> Result<(), InvalidBatch> {
    let records = RawRecords::new(batch, limit).map_err(InvalidBatch::Undecodable)?;
    for (index, record) in records.enumerate() {
        if record.map_err(InvalidBatch::Undecodable)?.key.is_none() {
            return Err(InvalidBatch::MissingKey { index });
        }
    }
    Ok(())
}
