//! A topic with its shards.

use std::collections::BTreeMap;

use logway_model::{ErrorCode, PartitionId, TopicId, Uuid};
use serde::{Deserialize, Serialize};

use super::super::config_change::STREAM_BATCH_BYTES;
use super::super::create_topics::plan;
use super::super::features::with_features;
use super::super::{
    COMMAND_RECORDS_MAX, Command, ControllerError, Decision, NewTopic, too_many_partitions,
};
use super::check_shard_limit;
use super::make_sealing_key::first_record;
use crate::image::{MetadataImage, is_internal};
use crate::record::{
    HashRange, MetadataRecord, Shard, ShardRecord, StreamMode, StreamPhase, StreamRecord,
    StreamState,
};
use crate::settings::BrokerSettings;

/// How much older than itself a stream is said to be: its first record gets a time after that of its shards.
const AGE_S: i64 = 2;

/// Makes a stream. The first one turns the feature on that streams need.
///
/// Errors: `TOPIC_ALREADY_EXISTS`, `INVALID_TOPIC_EXCEPTION` for the name, `POLICY_VIOLATION` for too many shards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateStream {
    /// The name, not checked yet.
    pub name: String,
    /// A random id that no topic has had.
    pub topic_id: TopicId,
    /// How many shards it begins with; at least one.
    pub shard_count: u32,
    /// How its capacity is managed.
    pub mode: StreamMode,
    /// The largest record, in KiB.
    pub max_record_kib: u32,
    /// The throughput that it is to be warm for, in MiB per second.
    pub warm_mibps: Option<u32>,
    /// How long records are kept, in ms.
    pub retention_ms: i64,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
    /// How many open shards all streams may have together.
    pub shards_max: Option<u32>,
    /// The time, in ms since 1970.
    pub now_ms: i64,
    /// 32 random bytes for tokens, should there be none yet.
    pub token_key: [Uuid; 2],
}

impl Command for CreateStream {
    type Reply = ();

    fn evaluate(
        self,
        image: &MetadataImage,
        broker: &BrokerSettings,
    ) -> Result<Decision<()>, ControllerError> {
        if is_internal(&self.name) {
            let message = format!("Topic '{}' is internal and no stream.", self.name);
            return Err(ControllerError::new(ErrorCode::InvalidTopicException, message));
        }
        let mut records = Vec::from_iter(first_record(image, self.token_key));
        let count = usize::try_from(self.shard_count.max(1)).unwrap_or(usize::MAX);
        // A partition and a shard each, the topic, the stream, and settings.
        if count > COMMAND_RECORDS_MAX / 2 - 20 {
            return Err(too_many_partitions(COMMAND_RECORDS_MAX / 2 - 20));
        }
        check_shard_limit(image, count, self.shards_max)?;
        let topic_id = self.topic_id;
        let topic = NewTopic {
            name: self.name,
            id: topic_id,
            num_partitions: i32::try_from(count).expect("it is bounded"),
            replication_factor: -1,
            assignments: Vec::new(),
            configs: topic_settings(self.retention_ms),
        };
        let (of_topic, _created) = plan(topic, image, broker, COMMAND_RECORDS_MAX)?;
        records.extend(of_topic);
        let state = StreamState {
            created_ms: self.now_ms,
            phase_since_ms: self.now_ms,
            phase: StreamPhase::Created,
            mode: self.mode,
            max_record_kib: self.max_record_kib,
            warm_mibps: self.warm_mibps,
            encryption_key: None,
            shard_metrics: Vec::new(),
            tags: self.tags,
            policy: None,
            consumers: BTreeMap::new(),
        };
        records.push(MetadataRecord::Stream(Box::new(StreamRecord { topic_id, state })));
        let created_s = self.now_ms.div_euclid(1_000) - AGE_S;
        records.extend((0..).zip(HashRange::evenly(count)).map(|(number, range)| {
            let shard = Shard { range, parents: Vec::new(), created_s, closed: None };
            MetadataRecord::Shard(ShardRecord { topic_id, partition: PartitionId(number), shard })
        }));
        Ok(with_features(Decision { records, reply: () }, image))
    }
}

fn topic_settings(retention_ms: i64) -> Vec<(String, Option<String>)> {
    [
        ("cleanup.policy", "delete".to_owned()),
        ("max.message.bytes", STREAM_BATCH_BYTES.to_string()),
        ("message.timestamp.type", "LogAppendTime".to_owned()),
        ("retention.bytes", "-1".to_owned()),
        ("retention.ms", retention_ms.to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), Some(value)))
    .into()
}
