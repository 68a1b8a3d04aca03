//! Streams: topics that Kinesis clients use, and their shards.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use logway_model::{PartitionId, TopicId, Uuid};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A place in the hash space of a stream, which has 2^128 of them. Written as AWS writes it: a decimal number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HashKey(pub u128);

impl fmt::Display for HashKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Text that is no number from 0 to 2^128 - 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is not a number from 0 to 2^128 - 1")]
pub struct NotAHashKey;

impl FromStr for HashKey {
    type Err = NotAHashKey;

    fn from_str(text: &str) -> Result<HashKey, NotAHashKey> {
        text.parse().map(HashKey).map_err(|_| NotAHashKey)
    }
}

/// A text, because JSON's numbers are not this large.
impl Serialize for HashKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for HashKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<HashKey, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A part of the hash space, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HashRange {
    /// The first key.
    pub start: HashKey,
    /// The last key.
    pub end: HashKey,
}

impl HashRange {
    /// The whole space.
    pub const ALL: HashRange = HashRange { start: HashKey(0), end: HashKey(u128::MAX) };

    /// The space in equal parts. The last one takes what is left over.
    pub fn evenly(count: usize) -> Vec<HashRange> {
        let count = u128::try_from(count).unwrap_or(1).max(1);
        // floor(2^128 / count), although 2^128 itself does not fit.
        let part = (u128::MAX / count).wrapping_add(u128::from(u128::MAX % count == count - 1));
        (0..count)
            .map(|index| HashRange {
                // With one part, `part` has wrapped to nothing, and is not used.
                start: HashKey(index.wrapping_mul(part)),
                end: HashKey(match index + 1 == count {
                    true => u128::MAX,
                    false => (index + 1).wrapping_mul(part) - 1,
                }),
            })
            .collect()
    }

    /// Whether a key is in it.
    pub fn contains(&self, key: HashKey) -> bool {
        (self.start..=self.end).contains(&key)
    }
}

/// A topic is a stream, in this state; replaces what was known of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamRecord {
    /// The topic.
    pub topic_id: TopicId,
    /// Its state.
    pub state: StreamState,
}

/// What a stream is, but for its shards and what the settings of its topic say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamState {
    /// When it was made, in ms since 1970.
    pub created_ms: i64,
    /// Since when it is in its present phase, in ms since 1970.
    pub phase_since_ms: i64,
    /// What it is on the way from or to.
    pub phase: StreamPhase,
    /// How its capacity is managed.
    pub mode: StreamMode,
    /// The largest record, in KiB.
    pub max_record_kib: u32,
    /// The throughput that it is to be warm for, in MiB per second.
    pub warm_mibps: Option<u32>,
    /// The key that clients said it is encrypted with. It is a switch that is kept and told.
    pub encryption_key: Option<String>,
    /// The enhanced metrics that are on, by AWS's names.
    pub shard_metrics: Vec<String>,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// Its resource policy, as it was given.
    pub policy: Option<String>,
    /// Its registered consumers, by name.
    pub consumers: BTreeMap<String, StreamConsumer>,
}

/// What a stream is on the way from or to. How long the phases are seen is a setting of the front door.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamPhase {
    /// It was made.
    Created,
    /// It was changed in a way that AWS takes time for.
    Changed,
    /// It is to be deleted.
    Deleting,
}

/// How a stream's capacity is managed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamMode {
    /// By its owner.
    Provisioned,
    /// By the service.
    OnDemand,
}

/// A consumer with a throughput of its own (enhanced fan-out).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamConsumer {
    /// When it was registered, in ms since 1970. It is a part of the consumer's name (ARN).
    pub created_ms: i64,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// Its resource policy, as it was given.
    pub policy: Option<String>,
}

/// A partition is a shard, in this state; replaces what was known of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShardRecord {
    /// The topic, which is a stream.
    pub topic_id: TopicId,
    /// The partition: that of a known shard, or the next one. It exists already.
    pub partition: PartitionId,
    /// Its state.
    pub shard: Shard,
}

/// A part of a stream's hash space for a part of the stream's life.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shard {
    /// The keys that it takes.
    pub range: HashRange,
    /// The shards that it was made of: none, one by a split, two by a merge.
    pub parents: Vec<PartitionId>,
    /// When it was made, in seconds since 1970; later than the end of its parents. A part of its sequence numbers.
    pub created_s: i64,
    /// Its end, if it takes no more records.
    pub closed: Option<ShardEnd>,
}

/// The end of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShardEnd {
    /// When it was closed, in ms since 1970.
    pub at_ms: i64,
    /// The exclusive end of its records, once its leader has told it.
    pub offset: Option<i64>,
}

/// What all streams of the cluster share; replaces what was known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamsRecord {
    /// What tokens are sealed with, also those of other doors than that of streams: 32 random bytes, which no command changes.
    pub token_key: [Uuid; 2],
    /// Whether the account is committed to a least throughput, which is a switch that is kept and told; since when,
    /// in ms since 1970.
    pub commitment_since_ms: Option<i64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_ranges_cover_everything_once() {
        for count in [1, 2, 3, 4, 5, 7, 100, 9_999] {
            let ranges = HashRange::evenly(count);
            assert_eq!(ranges.len(), count);
            assert_eq!(ranges[0].start, HashRange::ALL.start);
            assert_eq!(ranges[count - 1].end, HashRange::ALL.end);
            for pair in ranges.windows(2) {
                assert!(pair[0].start <= pair[0].end);
                assert_eq!(pair[0].end.0 + 1, pair[1].start.0);
            }
        }
    }

    #[test]
    fn the_parts_are_those_of_aws() {
        let starts = |count| HashRange::evenly(count).into_iter().map(|range| range.start.0);
        assert!(starts(2).eq([0, 1 << 127]));
        assert!(starts(4).eq([0, 1 << 126, 1 << 127, 3 << 126]));
        let third = 113_427_455_640_312_821_154_458_202_477_256_070_485;
        assert!(starts(3).eq([0, third, 2 * third]));
    }
}
