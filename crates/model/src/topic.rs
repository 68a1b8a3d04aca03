//! Names of topics and partitions.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A topic name that obeys Kafka's rules, cheap to clone.
///
/// 1 to 249 characters of `[a-zA-Z0-9._-]`, and neither `.` nor `..`, because the name becomes
/// the name of a directory.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicName(Arc<str>);

/// The longest topic name: with `-`, a partition number and a suffix it still fits a file name.
const TOPIC_NAME_MAX_BYTES: usize = 249;

impl TopicName {
    /// Checks a name.
    pub fn new(name: &str) -> Result<TopicName, InvalidTopicName> {
        let reason = match name {
            "" => "it is empty",
            "." | ".." => "'.' and '..' are directories",
            _ if name.len() > TOPIC_NAME_MAX_BYTES => "it is longer than 249 characters",
            _ if !name.bytes().all(is_legal) => {
                "only ASCII letters, digits, '.', '_' and '-' are allowed"
            }
            _ => return Ok(TopicName(name.into())),
        };
        Err(InvalidTopicName { name: shorten(name), reason })
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_legal(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-')
}

/// An error message must not repeat a name of megabytes.
fn shorten(name: &str) -> String {
    const SHOWN_CHARS: usize = 64;
    match name.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

/// A text that cannot name a topic, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("topic name '{name}' is invalid: {reason}")]
pub struct InvalidTopicName {
    name: String,
    reason: &'static str,
}

impl fmt::Display for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl Borrow<str> for TopicName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl FromStr for TopicName {
    type Err = InvalidTopicName;

    fn from_str(name: &str) -> Result<TopicName, InvalidTopicName> {
        TopicName::new(name)
    }
}

impl Serialize for TopicName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for TopicName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TopicName, D::Error> {
        let name = String::deserialize(deserializer)?;
        TopicName::new(&name).map_err(serde::de::Error::custom)
    }
}

/// The number of a partition within its topic, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PartitionId(pub i32);

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A partition of a topic; written `topic-partition`, which is also its directory's name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// The topic.
    pub topic: TopicName,
    /// The partition's number.
    pub partition: PartitionId,
}

impl TopicPartition {
    /// A partition of a topic.
    pub fn new(topic: TopicName, partition: PartitionId) -> TopicPartition {
        TopicPartition { topic, partition }
    }

    /// Reads a directory name back: the number after the last `-` is the partition.
    pub fn from_dir_name(name: &str) -> Option<TopicPartition> {
        let (topic, partition) = name.rsplit_once('-')?;
        let partition: i32 = partition.parse().ok().filter(|&number| number >= 0)?;
        Some(TopicPartition::new(TopicName::new(topic).ok()?, PartitionId(partition)))
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_kafkas_rules() {
        for good in ["a", "A.b_c-9", "...", &"x".repeat(249)] {
            assert!(TopicName::new(good).is_ok(), "{good}");
        }
        for bad in ["", ".", "..", "a b", "a/b", "ü", &"x".repeat(250)] {
            assert!(TopicName::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn directory_names_round_trip() {
        let partition = TopicPartition::from_dir_name("a-b-12").expect("is a partition");
        assert_eq!(partition.topic.as_str(), "a-b");
        assert_eq!(partition.partition, PartitionId(12));
        assert_eq!(partition.to_string(), "a-b-12");
        for other in ["a", "a-", "-1", "a-x", "meta.properties"] {
            assert_eq!(TopicPartition::from_dir_name(other), None, "{other}");
        }
    }
}
