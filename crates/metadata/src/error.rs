//! What can be wrong with records and settings.

use logway_model::{PartitionId, ProducerId, TopicId, TopicName};

/// An error of this crate.
///
/// The variants up to [`ProducerIdsGoBack`](MetadataError::ProducerIdsGoBack) say that records do
/// not fit the image they were applied to. The controller never makes such records, so they mean a
/// damaged log or a bug, and the broker must not go on with an image that is a guess. The others
/// are about settings that somebody chose.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MetadataError {
    /// A topic's name or id is taken.
    #[error("topic '{name}' with id {id} cannot be added: its name or id is taken")]
    TopicExists {
        /// The name.
        name: TopicName,
        /// The id.
        id: TopicId,
    },
    /// A record speaks of a topic that does not exist.
    #[error("a record names the topic id {id}, which does not exist")]
    UnknownTopicId {
        /// The id.
        id: TopicId,
    },
    /// A record sets something of a topic that does not exist.
    #[error("a record sets '{setting}' of the topic '{name}', which does not exist")]
    UnknownTopicName {
        /// The topic.
        name: TopicName,
        /// The setting.
        setting: String,
    },
    /// Partitions must come in order.
    #[error("partition {partition} of topic '{name}' is not one of the first {count} or the next")]
    PartitionGap {
        /// The topic.
        name: TopicName,
        /// The partition in the record.
        partition: PartitionId,
        /// How many partitions the topic has.
        count: usize,
    },
    /// Shards must come in order, and belong to a stream.
    #[error(
        "shard {partition} of topic '{name}' is neither a known one nor that of the next partition of a stream"
    )]
    ShardGap {
        /// The topic.
        name: TopicName,
        /// The partition in the record.
        partition: PartitionId,
    },
    /// Producer ids would be given out twice.
    #[error("the next producer id cannot go back from {from} to {to}")]
    ProducerIdsGoBack {
        /// The present bound.
        from: ProducerId,
        /// The one in the record.
        to: ProducerId,
    },
    /// No setting has this name.
    #[error("unknown {scope} setting '{name}'{}", did_you_mean(*.nearest))]
    UnknownSetting {
        /// `topic` or `broker`.
        scope: &'static str,
        /// The name, shortened if it is long.
        name: String,
        /// The existing name that it resembles most, if it resembles one.
        nearest: Option<&'static str>,
    },
    /// A setting has a value that it cannot have.
    #[error("invalid value '{value}' for setting '{name}': {reason}")]
    InvalidSetting {
        /// The setting.
        name: &'static str,
        /// The value, shortened if it is long.
        value: String,
        /// What is allowed.
        reason: String,
    },
    /// A setting cannot be changed while the broker runs.
    #[error(
        "setting '{name}' cannot be changed while the broker runs; set it in its file or with --set"
    )]
    ReadOnlySetting {
        /// The setting.
        name: &'static str,
    },
    /// The configuration file is not what it should be.
    #[error("configuration file: {reason}")]
    ConfigFile {
        /// What is wrong, with line and column where known.
        reason: String,
    },
}

fn did_you_mean(nearest: Option<&'static str>) -> String {
    nearest.map(|name| format!("; did you mean '{name}'?")).unwrap_or_default()
}

/// The beginning of a text that a stranger chose: a message must not repeat megabytes.
pub(crate) fn excerpt(text: &str) -> String {
    beginning(text, 64)
}

/// A text of so many characters at most; of a longer one the beginning.
pub(crate) fn beginning(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
