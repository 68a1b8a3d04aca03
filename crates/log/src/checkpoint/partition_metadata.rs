//! `partition.metadata`: which topic a partition's directory belongs to (KIP-516).
//!
//! ```text
//! version: 0
//! topic_id: ykSLSUUeSxCxXu2TE1BN2g
//! ```
//!
//! As Apache Kafka writes it, the last line has no end of line; the id's fixed length shows
//! that it is whole.

use std::path::Path;

use logway_model::TopicId;

use super::{excerpt, malformed, read_text, replace_file};
use crate::LogError;
use crate::fs::Fs;

/// The identity of the topic that a partition's directory belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionMetadata {
    /// The topic; never zero.
    pub topic_id: TopicId,
}

const FILE_MAX_BYTES: usize = 4 << 10;

impl PartitionMetadata {
    /// The name of the file in the partition's directory.
    pub const FILE: &str = "partition.metadata";

    /// Replaces the file at `path`; it is durable on return.
    pub fn write(&self, fs: &dyn Fs, path: &Path) -> Result<(), LogError> {
        let text = format!("version: 0\ntopic_id: {}", self.topic_id);
        replace_file(fs, path, text.as_bytes())
    }

    /// Reads the file at `path`; `None` if it does not exist.
    pub fn read(fs: &dyn Fs, path: &Path) -> Result<Option<PartitionMetadata>, LogError> {
        let Some(text) = read_text(fs, path, FILE_MAX_BYTES)? else { return Ok(None) };
        let mut lines = text.lines();
        let version = value_of(path, 1, lines.next(), "version")?;
        if version != "0" {
            return Err(malformed(path, 1, format!("unknown version {}", excerpt(version))));
        }
        let topic_id = value_of(path, 2, lines.next(), "topic_id")?;
        let topic_id = topic_id.parse().map_err(|error| malformed(path, 2, format!("{error}")))?;
        let topic_id = TopicId(topic_id);
        if topic_id.0.is_zero() {
            return Err(malformed(path, 2, "the topic id is zero"));
        }
        if lines.next().is_some() {
            return Err(malformed(path, 3, "there is more than a version and a topic id"));
        }
        Ok(Some(PartitionMetadata { topic_id }))
    }
}

fn value_of<'a>(
    path: &Path,
    number: usize,
    line: Option<&'a str>,
    key: &str,
) -> Result<&'a str, LogError> {
    let value =
        line.and_then(|line| line.strip_prefix(key)).and_then(|rest| rest.strip_prefix(':'));
    let value = value.ok_or_else(|| malformed(path, number, format!("'{key}: …' is expected")))?;
    Ok(value.trim())
}
