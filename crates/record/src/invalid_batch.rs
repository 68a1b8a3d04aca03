//! Why a batch is not appended.

use logway_model::{Offset, ProducerEpoch, ProducerId, Sequence};

use crate::{Compression, RecordError, RefusedRecords};

/// The reason for which a leader refuses a producer's batch.
///
/// The bytes are a batch, or it would be a [`RecordError`] before; but it breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidBatch {
    /// Larger than the topic's `max.message.bytes`.
    #[error("the batch has {size_bytes} bytes, and the topic allows {max_bytes}")]
    TooLarge {
        /// The size of the whole batch.
        size_bytes: usize,
        /// The topic's limit.
        max_bytes: usize,
    },

    /// As `compression.type` has it, the batch is larger than the topic's `max.message.bytes`.
    #[error(
        "with the topic's compression.type the batch would be compressed anew with {codec}, to more \
         than the {max_bytes} bytes that the topic allows (max.message.bytes)"
    )]
    RecompressedTooLarge {
        /// The codec of `compression.type`.
        codec: Compression,
        /// The topic's limit.
        max_bytes: usize,
    },

    /// Damaged on the way.
    #[error("the batch is corrupt: its CRC-32C is {computed:08x} where {stored:08x} was stored")]
    BadCrc {
        /// The checksum in the header.
        stored: u32,
        /// The checksum of the bytes.
        computed: u32,
    },

    /// Producers count offsets from 0, and the leader adds the base.
    #[error("the batch has base offset {base_offset} where producers must send 0")]
    NonZeroBaseOffset {
        /// The base offset in the header.
        base_offset: Offset,
    },

    /// Zero or fewer records.
    #[error("the batch claims {record_count} records")]
    NoRecords {
        /// The count in the header.
        record_count: i32,
    },

    /// Offsets in a new batch have no gaps, so there are as many as records.
    #[error("the batch has {record_count} records, but last offset delta {last_offset_delta}")]
    RecordCountMismatch {
        /// The count in the header.
        record_count: i32,
        /// The last offset delta in the header.
        last_offset_delta: i32,
    },

    /// Transaction markers are the coordinator's to write.
    #[error("a producer may not write a control batch")]
    ControlBatch,

    /// Delete horizons are the log cleaner's to set.
    #[error("a producer may not set a delete horizon")]
    DeleteHorizon,

    /// The attributes name a codec that nobody has defined.
    #[error("compression codec {codec} is unknown")]
    UnknownCompression {
        /// The codec's number.
        codec: u8,
    },

    /// A producer id without an epoch.
    #[error("the batch of producer {producer_id} has epoch {producer_epoch}")]
    InvalidProducerEpoch {
        /// Whose batch it is.
        producer_id: ProducerId,
        /// The epoch, which is negative.
        producer_epoch: ProducerEpoch,
    },

    /// A producer id without a sequence number.
    #[error("the batch of producer {producer_id} has sequence {base_sequence}")]
    InvalidSequence {
        /// Whose batch it is.
        producer_id: ProducerId,
        /// The sequence number, which is negative.
        base_sequence: Sequence,
    },

    /// Nobody could ever commit or abort the batch.
    #[error("the batch is transactional, but has no producer id")]
    TransactionWithoutProducer,

    /// The log append time is the leader's to set.
    #[error("a producer may not set the timestamp type LogAppendTime")]
    LogAppendTimeFromProducer,

    /// Some of its records break a rule of the topic.
    #[error("{0}")]
    Records(RefusedRecords),

    /// Nobody could read the records.
    #[error("the records do not decode: {0}")]
    Undecodable(RecordError),
}
