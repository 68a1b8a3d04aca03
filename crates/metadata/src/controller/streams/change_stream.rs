//! All of a stream but its shards.

use std::collections::BTreeMap;

use logway_model::{ErrorCode, TopicId, Uuid};
use serde::{Deserialize, Serialize};

use super::super::config_change::change_records;
use super::super::features::with_features;
use super::super::{Command, ControllerError, Decision};
use super::stream_of;
use crate::image::{MetadataImage, TopicImage};
use crate::record::{
    ConfigResource, MetadataRecord, StreamConsumer, StreamMode, StreamPhase, StreamRecord,
    StreamState, StreamsRecord,
};
use crate::settings::BrokerSettings;

/// Consumers that a stream may have registered.
pub const CONSUMERS_MAX: usize = 20;

/// Tags that a stream or a consumer may have.
pub const TAGS_MAX: usize = 50;

/// Changes a stream, but for its shards.
///
/// Errors: `UNKNOWN_TOPIC_ID`, `RESOURCE_NOT_FOUND` for a consumer, `DUPLICATE_RESOURCE` for a consumer that is there,
/// `POLICY_VIOLATION` for too many consumers or tags, `REASSIGNMENT_IN_PROGRESS` for a stream that is being
/// deleted, and what settings of topics are refused with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeStream {
    /// The stream's topic.
    pub topic_id: TopicId,
    /// What changes.
    pub change: StreamChange,
    /// The time, in ms since 1970.
    pub now_ms: i64,
}

/// One change of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamChange {
    /// How its capacity is managed.
    Mode(StreamMode),
    /// The largest record, in KiB.
    MaxRecord(u32),
    /// The throughput that it is to be warm for, in MiB per second.
    Warm(u32),
    /// The key that it is said to be encrypted with.
    Encryption(Option<String>),
    /// The enhanced metrics that are on.
    ShardMetrics(Vec<String>),
    /// How long records are kept, in ms.
    Retention(i64),
    /// Tags that the stream, or one of its consumers, gets.
    AddTags(Option<String>, BTreeMap<String, String>),
    /// Tags that the stream, or one of its consumers, loses.
    RemoveTags(Option<String>, Vec<String>),
    /// The policy of the stream, or of one of its consumers.
    Policy(Option<String>, Option<String>),
    /// A consumer of this name registers, with these tags.
    Register(String, BTreeMap<String, String>),
    /// The consumer of this name goes.
    Deregister(String),
    /// It is to be deleted.
    BeginDeletion,
}

impl Command for ChangeStream {
    type Reply = ();

    /// Retention can be shortened.
    const MAKES_SPACE: bool = true;

    fn evaluate(
        self,
        image: &MetadataImage,
        broker: &BrokerSettings,
    ) -> Result<Decision<()>, ControllerError> {
        let (topic, stream) = stream_of(image, self.topic_id)?;
        if stream.state.phase == StreamPhase::Deleting {
            return match self.change {
                // Its time goes on.
                StreamChange::BeginDeletion => Ok(Decision { records: Vec::new(), reply: () }),
                _ => Err(is_going(topic)),
            };
        }
        if let StreamChange::Retention(ms) = self.change {
            let records = retention_records(topic, ms, image, broker)?;
            return Ok(Decision { records, reply: () });
        }
        let mut state = stream.state.clone();
        change(&mut state, self.change, self.now_ms)?;
        let record = StreamRecord { topic_id: self.topic_id, state };
        let is_news = record.state != stream.state;
        let records = is_news.then(|| MetadataRecord::Stream(Box::new(record)));
        Ok(Decision { records: records.into_iter().collect(), reply: () })
    }
}

/// A change would take it back that the stream is to be deleted.
fn is_going(topic: &TopicImage) -> ControllerError {
    let message = format!("Stream '{}' is being deleted.", topic.name);
    ControllerError::new(ErrorCode::ReassignmentInProgress, message)
}

fn retention_records(
    topic: &TopicImage,
    retention_ms: i64,
    image: &MetadataImage,
    broker: &BrokerSettings,
) -> Result<Vec<MetadataRecord>, ControllerError> {
    let resource = ConfigResource::Topic(topic.name.clone());
    let mut wanted = topic.overrides.clone();
    wanted.insert("retention.ms".to_owned(), retention_ms.to_string());
    change_records(&resource, &topic.overrides, &wanted, image, broker)
}

fn change(
    state: &mut StreamState,
    change: StreamChange,
    now_ms: i64,
) -> Result<(), ControllerError> {
    let mut phase = None;
    match change {
        StreamChange::Mode(mode) => {
            (state.mode, phase) = (mode, Some(StreamPhase::Changed));
        }
        StreamChange::MaxRecord(kib) => {
            (state.max_record_kib, phase) = (kib, Some(StreamPhase::Changed));
        }
        StreamChange::Warm(mibps) => {
            (state.warm_mibps, phase) = (Some(mibps), Some(StreamPhase::Changed));
        }
        StreamChange::Encryption(key) => {
            (state.encryption_key, phase) = (key, Some(StreamPhase::Changed));
        }
        StreamChange::BeginDeletion => phase = Some(StreamPhase::Deleting),
        StreamChange::ShardMetrics(names) => state.shard_metrics = names,
        StreamChange::Retention(_) => unreachable!("it is a setting of the topic"),
        StreamChange::AddTags(of, tags) => {
            let known = tags_of(state, of.as_deref())?;
            known.extend(tags);
            if known.len() > TAGS_MAX {
                return Err(too_many("tags", TAGS_MAX));
            }
        }
        StreamChange::RemoveTags(of, names) => {
            let known = tags_of(state, of.as_deref())?;
            names.iter().for_each(|name| drop(known.remove(name)));
        }
        StreamChange::Policy(None, policy) => state.policy = policy,
        StreamChange::Policy(Some(of), policy) => consumer_of(state, &of)?.policy = policy,
        StreamChange::Register(name, tags) => register(state, name, tags, now_ms)?,
        StreamChange::Deregister(name) => {
            consumer_of(state, &name)?;
            state.consumers.remove(&name);
        }
    }
    if let Some(phase) = phase {
        (state.phase, state.phase_since_ms) = (phase, now_ms);
    }
    Ok(())
}

fn register(
    state: &mut StreamState,
    name: String,
    tags: BTreeMap<String, String>,
    now_ms: i64,
) -> Result<(), ControllerError> {
    if state.consumers.contains_key(&name) {
        let message = format!("Consumer '{name}' is registered already.");
        return Err(ControllerError::new(ErrorCode::DuplicateResource, message));
    }
    if state.consumers.len() >= CONSUMERS_MAX {
        return Err(too_many("consumers", CONSUMERS_MAX));
    }
    if tags.len() > TAGS_MAX {
        return Err(too_many("tags", TAGS_MAX));
    }
    let consumer = StreamConsumer { created_ms: now_ms, tags, policy: None };
    state.consumers.insert(name, consumer);
    Ok(())
}

fn consumer_of<'a>(
    state: &'a mut StreamState,
    name: &str,
) -> Result<&'a mut StreamConsumer, ControllerError> {
    state.consumers.get_mut(name).ok_or_else(|| {
        let message = format!("No consumer '{name}' is registered.");
        ControllerError::new(ErrorCode::ResourceNotFound, message)
    })
}

fn tags_of<'a>(
    state: &'a mut StreamState,
    consumer: Option<&str>,
) -> Result<&'a mut BTreeMap<String, String>, ControllerError> {
    match consumer {
        None => Ok(&mut state.tags),
        Some(name) => Ok(&mut consumer_of(state, name)?.tags),
    }
}

fn too_many(what: &str, max: usize) -> ControllerError {
    let message = format!("There would be more than {max} {what}.");
    ControllerError::new(ErrorCode::PolicyViolation, message)
}

/// Changes what all streams share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeStreamsAccount {
    /// Since when the account is committed to a least throughput, in ms since 1970; `None` if it is not.
    pub commitment_since_ms: Option<i64>,
    /// 32 random bytes for tokens, should there be none yet.
    pub token_key: [Uuid; 2],
}

impl Command for ChangeStreamsAccount {
    type Reply = ();

    fn evaluate(
        self,
        image: &MetadataImage,
        _broker: &BrokerSettings,
    ) -> Result<Decision<()>, ControllerError> {
        let ChangeStreamsAccount { commitment_since_ms, token_key } = self;
        let token_key = image.sealing_key().unwrap_or(token_key);
        let streams = StreamsRecord { token_key, commitment_since_ms };
        let records = vec![MetadataRecord::Streams(streams)];
        Ok(with_features(Decision { records, reply: () }, image))
    }
}
