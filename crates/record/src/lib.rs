//! Codec for record batches: header view, full decode and encode, compression.
//!
//! This is the project's only codec of Kafka's record batches of version 2 (KIP-98), the one
//! format in which records travel and are stored. Bytes in, values out, no I/O. It works at three
//! depths:
//!
//! - The *header* of a batch answers what a fetch needs to know. [`Batch`] is a header with the
//!   received bytes; [`PatchedHeader`] gives it the offsets of the log.
//! - A *walk* ([`Batch::walk`]) passes over the records, through their decompressor if need be, and
//!   holds none: [`validate_for_append`] judges a producer's batch by it, and a search for a
//!   timestamp goes by it. The record bytes are not copied, and what is unpacked is dropped.
//! - The *records* are decoded by [`RecordIter`] and encoded by [`BatchBuilder`], for the command
//!   line and tests.
//!
//! A topic's `compression.type` has batches compressed anew ([`recompress_for_append`]), in the walk
//! that judges them. Compaction visits the keys in a walk ([`Batch::visit`]) and copies the records that stay piece by
//! piece ([`Batch::rewriting`]), so that it holds no batch unpacked either.
//!
//! Nothing that comes from a client or a disk makes this crate panic, or allocate more than the
//! bytes given to it or the [`DecodeLimit`] allow.

mod attributes;
mod batch;
mod batches;
mod builder;
mod compression;
mod crc;
mod error;
mod fields;
mod header;
mod invalid_batch;
mod limit;
mod marker;
mod patch;
mod placeholder;
mod raw_record;
mod recompression;
mod record;
mod record_iter;
mod refused_records;
mod retained_records;
mod rewriting;
mod validate;
mod varint;
mod walk;

pub use attributes::{Attributes, TimestampType};
pub use batch::Batch;
pub use batches::Batches;
pub use builder::BatchBuilder;
pub use compression::{Compression, TargetCompression, UnknownCompressionName};
pub use error::{RecordError, RecordProblem};
pub use header::{
    BATCH_HEADER_BYTES, BatchHeader, CRC_COVERS_FROM, LOG_OVERHEAD_BYTES, MAGIC_AT, MAGIC_V2,
};
pub use invalid_batch::InvalidBatch;
pub use limit::DecodeLimit;
pub use marker::{TransactionMarker, TransactionOutcome};
pub use patch::PatchedHeader;
pub use recompression::recompress_for_append;
pub use record::{Header, Record};
pub use record_iter::RecordIter;
pub use refused_records::{RecordFault, RefusedRecord, RefusedRecords};
pub use retained_records::RetainedRecords;
pub use rewriting::{Rewrite, Rewriting};
pub use validate::{
    AppendRules, BatchSummary, ProducerStamp, validate_for_append, validate_records_deep,
};
pub use walk::{RecordVisitor, WalkedRecord};
