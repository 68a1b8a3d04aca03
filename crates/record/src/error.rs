//! What can be wrong with the bytes of a batch.

use logway_model::Offset;

use crate::{BATCH_HEADER_BYTES, Compression};

/// Bytes that are not a record batch, or not one that can be decoded.
///
/// Base offsets are as read from the damaged bytes, to help find the place; they may lie as well.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Too few bytes are left for a header.
    #[error("the header of a batch takes {BATCH_HEADER_BYTES} bytes, but {have_bytes} are left")]
    TruncatedHeader {
        /// The bytes there are.
        have_bytes: usize,
    },

    /// The batch ends before the length in its header says so.
    #[error(
        "the batch at offset {base_offset} takes {size_bytes} bytes, but {have_bytes} are left"
    )]
    TruncatedBatch {
        /// The base offset in the header.
        base_offset: Offset,
        /// The size of the whole batch according to its header.
        size_bytes: usize,
        /// The bytes there are.
        have_bytes: usize,
    },

    /// Bytes follow where exactly one batch was expected.
    #[error("the batch at offset {base_offset} ends after {size_bytes} bytes of {have_bytes}")]
    TrailingBytes {
        /// The base offset in the header.
        base_offset: Offset,
        /// The size of the whole batch according to its header.
        size_bytes: usize,
        /// The bytes there are.
        have_bytes: usize,
    },

    /// The length field is negative or too small for the header itself.
    #[error("the batch at offset {base_offset} has the impossible length {length_bytes}")]
    InvalidLength {
        /// The base offset in the header.
        base_offset: Offset,
        /// The length field: the bytes that follow it.
        length_bytes: i32,
    },

    /// A format other than version 2; 0 and 1 are those of Kafka before 0.11.
    #[error("the batch at offset {base_offset} has message format {magic}; only 2 is supported")]
    UnsupportedMagic {
        /// The base offset in the header.
        base_offset: Offset,
        /// The format's number.
        magic: i8,
    },

    /// A negative offset, or a last offset that is before the first or beyond 2^63.
    #[error("a batch claims the impossible offsets {base_offset} to {last_offset_delta} after it")]
    InvalidOffsetRange {
        /// The base offset in the header.
        base_offset: Offset,
        /// The last offset, relative to the base offset.
        last_offset_delta: i32,
    },

    /// The bytes are not those that the writer summed up.
    #[error(
        "the batch at offset {base_offset} is corrupt: \
         its CRC-32C is {computed:08x} where {stored:08x} was stored"
    )]
    BadCrc {
        /// The base offset in the header.
        base_offset: Offset,
        /// The checksum in the header.
        stored: u32,
        /// The checksum of the bytes.
        computed: u32,
    },

    /// The attributes name a codec that nobody has defined.
    #[error("compression codec {codec} is unknown")]
    UnknownCompression {
        /// The codec's number.
        codec: u8,
    },

    /// The compressed records do not decompress.
    #[error("the records do not decompress as {compression}: {reason}")]
    Decompress {
        /// The codec in the attributes.
        compression: Compression,
        /// What the decompressor said.
        reason: String,
    },

    /// The records decompress to more bytes than the caller allows.
    #[error("the records decompress from {compression} to more than {limit_bytes} bytes")]
    DecompressedTooLarge {
        /// The codec in the attributes.
        compression: Compression,
        /// The limit.
        limit_bytes: usize,
    },

    /// The record count is negative.
    #[error("the batch at offset {base_offset} claims {record_count} records")]
    InvalidRecordCount {
        /// The base offset in the header.
        base_offset: Offset,
        /// The count in the header.
        record_count: i32,
    },

    /// A record that does not decode.
    #[error("record {index} of the batch at offset {base_offset}: {problem}")]
    MalformedRecord {
        /// The base offset in the header.
        base_offset: Offset,
        /// Which record of the batch, from 0.
        index: usize,
        /// What is wrong with it.
        problem: RecordProblem,
    },

    /// A batch cannot be built without a record.
    #[error("a batch must have a record")]
    EmptyBatch,

    /// A batch cannot be built: it would pass the 2 GiB that its length field can express.
    #[error("a batch of {size_bytes} bytes is larger than the format allows")]
    TooLargeToEncode {
        /// The bytes it would have.
        size_bytes: usize,
    },

    /// The records that stay of a batch pack so much worse than all of them did that the batch
    /// would be too large to be read.
    #[error(
        "what stays of the batch at offset {base_offset} packs to more than {limit_bytes} bytes"
    )]
    RewrittenTooLarge {
        /// Its base offset.
        base_offset: Offset,
        /// What it may have.
        limit_bytes: usize,
    },
}

impl RecordError {
    /// Whether nothing is wrong with the records but that a limit is too low for them.
    pub fn is_over_limit(&self) -> bool {
        matches!(self, RecordError::DecompressedTooLarge { .. })
    }
}

/// What is wrong with a single record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecordProblem {
    /// The bytes end within the record.
    #[error("it is cut off")]
    Truncated,
    /// A variable-length integer with too many bytes or bits.
    #[error("a variable-length integer is malformed")]
    BadVarint,
    /// A length that is negative, or that passes the end of the record.
    #[error("the length {length} of a part does not fit the record")]
    BadLength {
        /// The length.
        length: i32,
    },
    /// A header count that is negative, or larger than the record or the caller's limit has
    /// room for.
    #[error("it claims {count} headers")]
    BadHeaderCount {
        /// The count.
        count: i32,
    },
    /// The parts do not fill the record.
    #[error("{unread_bytes} bytes are left over within it")]
    Overlong {
        /// The bytes after the last header.
        unread_bytes: usize,
    },
    /// Bytes follow the last record of the batch.
    #[error("{unread_bytes} bytes follow where the records should end")]
    TrailingBytes {
        /// The bytes after it.
        unread_bytes: usize,
    },
    /// A timestamp beyond 64 bits, or an offset outside the batch's.
    #[error("its timestamp or offset is outside the batch's range")]
    OutOfRange,
    /// Offsets must rise within a batch, without gaps when a client has just produced it.
    #[error("its offset delta is {found} where {expected} is due")]
    UnexpectedOffsetDelta {
        /// The offset delta in the record.
        found: i32,
        /// The one that follows from its place.
        expected: i32,
    },
    /// A timestamp later than the maximum that the batch's header claims.
    #[error("its timestamp is later than the batch's maximum")]
    AfterMaxTimestamp,
}
