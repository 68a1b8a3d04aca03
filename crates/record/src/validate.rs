//! What a leader asks of a batch before it appends it.

use std::ops::ControlFlow;

use logway_model::{Offset, ProducerEpoch, ProducerId, Sequence, TimestampMs};

use crate::{
    Batch, BatchHeader, Compression, DecodeLimit, InvalidBatch, RecordError, RecordFault,
    RecordProblem, RecordVisitor, RefusedRecords, TargetCompression, TimestampType, WalkedRecord,
};

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
    /// What compressed records may unpack to.
    pub decode_limit: DecodeLimit,
    /// `compression.type`, with its level: what batches of another codec are compressed with anew.
    /// `None` is `producer`: each batch stays as it is.
    pub compression: Option<TargetCompression>,
    /// The time.
    pub now: TimestampMs,
}

/// What is known of a valid batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchSummary {
    /// The size of the whole batch.
    pub size_bytes: usize,
    /// How many records it has, which is as many as it takes offsets; at least 1.
    pub record_count: i32,
    /// The latest timestamp of its records; [`TimestampMs::NONE`] if none has any.
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

/// Judges a producer's batch by the rules of the topic, down to each record's structure, as Apache
/// Kafka does: a batch that consumers cannot read would stop all of them.
///
/// Stricter than Kafka in one thing: offset deltas must count from 0 in a batch that is not
/// compressed, too, where Kafka does not look at them and consumers get what they say.
///
/// The header's max timestamp is not believed. Where it is not that of the records, the summary's
/// differs from it, and the batch is to be appended [`Batch::with_max_timestamp`], as Kafka does
/// it: a client that does not keep the account gets its records in, and searches by time find them.
///
/// # Errors
///
/// The first rule that the batch breaks; of its records, all that break one of the topic's.
pub fn validate_for_append(
    batch: &Batch,
    rules: &AppendRules,
) -> Result<BatchSummary, InvalidBatch> {
    let (compression, producer) = check_header(batch, rules)?;
    let mut judge = RecordJudge::new(rules);
    batch.visit(rules.decode_limit, &mut judge).map_err(InvalidBatch::Undecodable)?;
    let max_timestamp = judge.verdict()?;
    let header = batch.header();
    Ok(BatchSummary {
        size_bytes: batch.size_bytes(),
        record_count: header.record_count,
        max_timestamp,
        compression,
        is_transactional: header.attributes.is_transactional(),
        producer,
    })
}

/// Walks all records of a batch and holds them against its header, for verifying a log.
///
/// Each offset must be the one after that before it, or, where compaction has removed records, any
/// later one of the batch, and no timestamp may pass the maximum. The CRC is not looked at.
///
/// # Errors
///
/// Those of [`Batch::walk`], and [`RecordError::MalformedRecord`] for the first record that is out
/// of place.
pub fn validate_records_deep(batch: &Batch, limit: DecodeLimit) -> Result<(), RecordError> {
    let BatchHeader { base_offset, max_timestamp, .. } = *batch.header();
    let mut index = 0;
    let mut is_late = false;
    batch.walk(limit, |record| {
        if record.timestamp > max_timestamp {
            is_late = true;
            return ControlFlow::Break(());
        }
        index += 1;
        ControlFlow::Continue(())
    })?;
    match is_late {
        true => {
            let problem = RecordProblem::AfterMaxTimestamp;
            Err(RecordError::MalformedRecord { base_offset, index, problem })
        }
        false => Ok(()),
    }
}

/// Judges what is known without the records: their codec, and who has sent them.
pub(crate) fn check_header(
    batch: &Batch,
    rules: &AppendRules,
) -> Result<(Compression, Option<ProducerStamp>), InvalidBatch> {
    let header = batch.header();
    check_size(batch, rules)?;
    check_crc(batch)?;
    check_offsets(header)?;
    Ok((check_attributes(header)?, check_producer(header)?))
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

/// Judges one record after the other.
pub(crate) struct RecordJudge {
    keys_required: bool,
    /// With log append time, what the producer says of the time is overwritten and does not matter.
    is_create_time: bool,
    earliest: TimestampMs,
    latest: TimestampMs,
    max_timestamp: TimestampMs,
    index: usize,
    refused: RefusedRecords,
}

impl RecordJudge {
    pub(crate) fn new(rules: &AppendRules) -> RecordJudge {
        RecordJudge {
            keys_required: rules.keys_required,
            is_create_time: rules.timestamp_type == TimestampType::CreateTime,
            earliest: TimestampMs(rules.now.0.saturating_sub(rules.timestamp_before_max_ms)),
            latest: TimestampMs(rules.now.0.saturating_add(rules.timestamp_after_max_ms)),
            max_timestamp: TimestampMs::NONE,
            index: 0,
            refused: RefusedRecords::default(),
        }
    }

    /// The latest timestamp, when all records were judged; or those that have broken a rule.
    pub(crate) fn verdict(self) -> Result<TimestampMs, InvalidBatch> {
        match self.refused.count() {
            0 => Ok(self.max_timestamp),
            _ => Err(InvalidBatch::Records(self.refused)),
        }
    }
}

impl RecordVisitor for RecordJudge {
    #[inline(always)]
    fn on_key_piece(&mut self, _piece: &[u8]) {}

    #[inline(always)]
    fn on_record(&mut self, record: WalkedRecord) -> ControlFlow<()> {
        let (timestamp, earliest, latest) = (record.timestamp, self.earliest, self.latest);
        let is_in_range = (earliest..=latest).contains(&timestamp);
        if self.keys_required && !record.has_key {
            self.refused.add(self.index, RecordFault::MissingKey);
        } else if self.is_create_time && !is_in_range && timestamp != TimestampMs::NONE {
            let fault = RecordFault::TimestampOutOfRange { timestamp, earliest, latest };
            self.refused.add(self.index, fault);
        }
        self.max_timestamp = self.max_timestamp.max(timestamp);
        self.index += 1;
        ControlFlow::Continue(())
    }
}
