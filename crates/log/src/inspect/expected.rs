//! What the metadata says of the logs of a broker.

use std::collections::BTreeMap;

use logway_model::{BrokerId, DirectoryId, TopicId, TopicPartition};

/// The logs that a broker has as the metadata knows it. The caller reads the metadata: this crate
/// knows nothing of it.
#[derive(Debug, Clone)]
pub struct ExpectedLogs {
    /// Whose metadata it is.
    pub node_id: BrokerId,
    /// The log directories of the broker.
    pub directories: Vec<DirectoryId>,
    /// The logs.
    pub logs: BTreeMap<TopicPartition, ExpectedLog>,
}

/// A log as the metadata knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpectedLog {
    /// The id of its topic.
    pub topic_id: TopicId,
    /// The log directory that it is in; [`DirectoryId::UNASSIGNED`] if nobody has said.
    pub directory: DirectoryId,
}

impl ExpectedLogs {
    /// Whether a log belongs into a log directory.
    pub(super) fn is_in(&self, log: &ExpectedLog, directory: DirectoryId) -> bool {
        log.directory == directory
            || (log.directory == DirectoryId::UNASSIGNED && self.directories.len() <= 1)
    }
}
