//! Offset checkpoints: one offset for each partition of a log directory.
//!
//! The file is a list of `TOPIC PARTITION OFFSET` lines; the offset is a number or, among the
//! recovery points, [`UNKNOWN`]'s -1.

use std::collections::BTreeMap;
use std::path::Path;

use logway_model::{Offset, PartitionId, TopicName, TopicPartition};

use super::{entry_list, read_text, replace_file};
use crate::LogError;
use crate::fs::Fs;

/// Below these offsets everything is on stable storage; recovery scans from here.
pub const RECOVERY_POINT_FILE: &str = "recovery-point-offset-checkpoint";

/// Where the logs start, for those whose start is not that of their first segment.
pub const LOG_START_OFFSET_FILE: &str = "log-start-offset-checkpoint";

/// Up to where the logs were compacted.
pub const CLEANER_OFFSET_FILE: &str = "cleaner-offset-checkpoint";

/// The high watermarks of the logs: what no leader takes back.
pub const HIGH_WATERMARK_FILE: &str = "replication-offset-checkpoint";

/// The recovery point of a log that was lost with an earlier checkpoint, before the log could be
/// opened: nobody knows what of it was on stable storage. Apache Kafka, if it opens the directory,
/// scans such a log from its beginning.
pub const UNKNOWN: Offset = Offset(-1);

/// A quarter of a million partitions with the longest names.
const FILE_MAX_BYTES: usize = 64 << 20;

/// Replaces the checkpoint file at `path`; it is durable on return.
pub fn write(
    fs: &dyn Fs,
    path: &Path,
    offsets: &BTreeMap<TopicPartition, Offset>,
) -> Result<(), LogError> {
    let lines = offsets
        .iter()
        .map(|(partition, offset)| format!("{} {} {offset}", partition.topic, partition.partition));
    replace_file(fs, path, entry_list::encode(lines).as_bytes())
}

/// Reads a checkpoint file; `None` if it does not exist or holds nothing, not even a version, as
/// Apache Kafka leaves it before the first checkpoint: then nobody knows.
pub fn read(
    fs: &dyn Fs,
    path: &Path,
) -> Result<Option<BTreeMap<TopicPartition, Offset>>, LogError> {
    let text = read_text(fs, path, FILE_MAX_BYTES)?.unwrap_or_default();
    if text.is_empty() {
        return Ok(None);
    }
    let mut offsets = BTreeMap::new();
    entry_list::decode(path, &text, |fields| {
        let &[topic, partition, offset] = fields else {
            return Err("a topic, a partition and an offset are expected".to_owned());
        };
        let topic = TopicName::new(topic).map_err(|error| error.to_string())?;
        let partition = PartitionId(entry_list::number(partition, "partition")?);
        let offset = match offset {
            "-1" => UNKNOWN,
            digits => entry_list::offset(digits, "offset")?,
        };
        match offsets.insert(TopicPartition::new(topic, partition), offset) {
            Some(_) => Err("the partition is there twice".to_owned()),
            None => Ok(()),
        }
    })?;
    Ok(Some(offsets))
}
