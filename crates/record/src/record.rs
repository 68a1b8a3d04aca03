//! A record as a program sees it.

use bytes::Bytes;
use logway_model::{Offset, TimestampMs};

/// A record with its absolute offset and timestamp.
///
/// Key, value and headers share the memory that the batch was decoded from, and keep all of it
/// alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its place in the partition.
    pub offset: Offset,
    /// When it was made, or, with log append time, when it was appended.
    pub timestamp: TimestampMs,
    /// What compaction and partitioning go by.
    pub key: Option<Bytes>,
    /// The payload; `None` is a tombstone on a compacted topic.
    pub value: Option<Bytes>,
    /// The headers in their order; keys can occur more than once.
    pub headers: Vec<Header>,
}

/// A header of a record (KIP-82).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The name, UTF-8 by convention. Bytes that are not are kept, because a broker passes
    /// records on as they are.
    pub key: Bytes,
    /// The content.
    pub value: Option<Bytes>,
}

impl Header {
    /// A header.
    pub fn new(key: impl Into<Bytes>, value: Option<Bytes>) -> Header {
        Header { key: key.into(), value }
    }
}
