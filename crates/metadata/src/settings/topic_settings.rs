//! The settings of one topic, ready for use.

use super::broker_settings::BrokerSettings;
use super::definition::Setting;
use super::layers::{Layers, topic_value};
use super::topic::topic_setting;
use super::value::Value;
use crate::error::MetadataError;
use crate::image::{MetadataImage, Overrides};

/// `cleanup.policy`: how old data leaves a topic. Neither keeps everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CleanupPolicy {
    /// Segments that are too old or too many are dropped.
    pub delete: bool,
    /// The last record of each key is kept; records must have keys.
    pub compact: bool,
}

/// `compression.type`: how batches are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompressionType {
    /// As the producer sent them.
    Producer,
    /// Without compression.
    Uncompressed,
    /// With gzip.
    Gzip,
    /// With snappy.
    Snappy,
    /// With lz4.
    Lz4,
    /// With zstd.
    Zstd,
}

/// `message.timestamp.type`: whose time a record carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimestampType {
    /// The producer's.
    CreateTime,
    /// The broker's at the time of the append.
    LogAppendTime,
}

/// Every setting of a topic with the value that holds: the topic's own or the broker's default.
///
/// A field is named as the setting with underscores, and means what the table of
/// [`topic`](super::topic) settings says.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs, reason = "the table documents each setting once")]
pub struct TopicSettings {
    pub cleanup_policy: CleanupPolicy,
    pub compression_gzip_level: i32,
    pub compression_lz4_level: i32,
    pub compression_type: CompressionType,
    pub compression_zstd_level: i32,
    pub delete_retention_ms: i64,
    pub file_delete_delay_ms: i64,
    pub flush_messages: i64,
    pub flush_ms: i64,
    pub index_interval_bytes: i32,
    pub max_compaction_lag_ms: i64,
    pub max_message_bytes: i32,
    pub message_timestamp_after_max_ms: i64,
    pub message_timestamp_before_max_ms: i64,
    pub message_timestamp_type: TimestampType,
    pub min_cleanable_dirty_ratio: f64,
    pub min_compaction_lag_ms: i64,
    pub min_insync_replicas: i32,
    pub preallocate: bool,
    /// `None` is without bound.
    pub retention_bytes: Option<i64>,
    /// `None` is for ever.
    pub retention_ms: Option<i64>,
    pub segment_bytes: i32,
    pub segment_index_bytes: i32,
    pub segment_jitter_ms: i64,
    pub segment_ms: i64,
    pub unclean_leader_election_enable: bool,
}

impl TopicSettings {
    /// The settings of a topic with these overrides, on this broker.
    ///
    /// Fails if a stored value is not valid; the controller stores none, so this happens only
    /// when the metadata was written by another version.
    pub fn resolve(
        overrides: &Overrides,
        image: &MetadataImage,
        broker: &BrokerSettings,
    ) -> Result<TopicSettings, MetadataError> {
        let fields = Fields { overrides, layers: Layers::new(image, broker) };
        Ok(TopicSettings {
            cleanup_policy: cleanup_policy(fields.value("cleanup.policy")?),
            compression_gzip_level: fields.int("compression.gzip.level")?,
            compression_lz4_level: fields.int("compression.lz4.level")?,
            compression_type: compression_type(fields.value("compression.type")?),
            compression_zstd_level: fields.int("compression.zstd.level")?,
            delete_retention_ms: fields.long("delete.retention.ms")?,
            file_delete_delay_ms: fields.long("file.delete.delay.ms")?,
            flush_messages: fields.long("flush.messages")?,
            flush_ms: fields.long("flush.ms")?,
            index_interval_bytes: fields.int("index.interval.bytes")?,
            max_compaction_lag_ms: fields.long("max.compaction.lag.ms")?,
            max_message_bytes: fields.int("max.message.bytes")?,
            message_timestamp_after_max_ms: fields.long("message.timestamp.after.max.ms")?,
            message_timestamp_before_max_ms: fields.long("message.timestamp.before.max.ms")?,
            message_timestamp_type: timestamp_type(fields.value("message.timestamp.type")?),
            min_cleanable_dirty_ratio: fields.double("min.cleanable.dirty.ratio")?,
            min_compaction_lag_ms: fields.long("min.compaction.lag.ms")?,
            min_insync_replicas: fields.int("min.insync.replicas")?,
            preallocate: fields.boolean("preallocate")?,
            retention_bytes: bounded(fields.long("retention.bytes")?),
            retention_ms: bounded(fields.long("retention.ms")?),
            segment_bytes: fields.int("segment.bytes")?,
            segment_index_bytes: fields.int("segment.index.bytes")?,
            segment_jitter_ms: fields.long("segment.jitter.ms")?,
            segment_ms: fields.long("segment.ms")?,
            unclean_leader_election_enable: fields.boolean("unclean.leader.election.enable")?,
        })
    }

    /// `min.insync.replicas` of a topic with these overrides, as [`resolve`](TopicSettings::resolve) has it. A value that
    /// another version has stored and this one cannot read counts as 1.
    pub(crate) fn min_insync_replicas(
        overrides: &Overrides,
        image: &MetadataImage,
        broker: &BrokerSettings,
    ) -> i32 {
        let fields = Fields { overrides, layers: Layers::new(image, broker) };
        fields.int("min.insync.replicas").unwrap_or(1)
    }

    /// `retention.ms` of a topic with these overrides, as [`resolve`](TopicSettings::resolve) has it; `None` keeps records
    /// for ever. So does a value that another version has stored and this one cannot read.
    pub fn retention_ms(
        overrides: &Overrides,
        image: &MetadataImage,
        broker: &BrokerSettings,
    ) -> Option<i64> {
        let fields = Fields { overrides, layers: Layers::new(image, broker) };
        fields.long("retention.ms").ok().and_then(bounded)
    }

    /// Whether a topic with these overrides has on the disk what it acknowledges: `flush.messages` is 1.
    pub(crate) fn is_durable(
        overrides: &Overrides,
        image: &MetadataImage,
        broker: &BrokerSettings,
    ) -> bool {
        let fields = Fields { overrides, layers: Layers::new(image, broker) };
        fields.long("flush.messages").is_ok_and(|messages| messages <= 1)
    }

    /// The rules that concern more than one setting.
    ///
    /// Not a part of [`resolve`](TopicSettings::resolve): a change of a broker's default must not
    /// make the topics that it contradicts unusable.
    pub(crate) fn check_together(&self) -> Result<(), MetadataError> {
        let (min, max) = (self.min_compaction_lag_ms, self.max_compaction_lag_ms);
        if min <= max {
            return Ok(());
        }
        let setting = topic_setting("min.compaction.lag.ms")?;
        let reason = format!("it must not be greater than max.compaction.lag.ms, which is {max}");
        Err(setting.invalid(&min.to_string(), reason))
    }
}

/// Reads fields by name. A name or type that the table does not have is a panic that any test
/// which resolves any topic's settings would show.
struct Fields<'a> {
    overrides: &'a Overrides,
    layers: Layers<'a>,
}

impl Fields<'_> {
    fn value(&self, name: &str) -> Result<Value, MetadataError> {
        let setting: &'static Setting =
            topic_setting(name).expect("the table has every field's setting");
        let places = self.layers.of_topic(setting, self.overrides);
        topic_value(setting, &places[0])
    }

    fn int(&self, name: &str) -> Result<i32, MetadataError> {
        match self.value(name)? {
            Value::Int(number) => Ok(number),
            other => unreachable!("'{name}' is {other:?}, not an int"),
        }
    }

    fn long(&self, name: &str) -> Result<i64, MetadataError> {
        match self.value(name)? {
            Value::Long(number) => Ok(number),
            other => unreachable!("'{name}' is {other:?}, not a long"),
        }
    }

    fn double(&self, name: &str) -> Result<f64, MetadataError> {
        match self.value(name)? {
            Value::Double(number) => Ok(number),
            other => unreachable!("'{name}' is {other:?}, not a double"),
        }
    }

    fn boolean(&self, name: &str) -> Result<bool, MetadataError> {
        match self.value(name)? {
            Value::Boolean(value) => Ok(value),
            other => unreachable!("'{name}' is {other:?}, not a boolean"),
        }
    }
}

fn bounded(number: i64) -> Option<i64> {
    (number >= 0).then_some(number)
}

fn cleanup_policy(value: Value) -> CleanupPolicy {
    let has = |word: &str| value.items().iter().any(|item| item == word);
    CleanupPolicy { delete: has("delete"), compact: has("compact") }
}

fn compression_type(value: Value) -> CompressionType {
    match value.to_string().as_str() {
        "producer" => CompressionType::Producer,
        "uncompressed" => CompressionType::Uncompressed,
        "gzip" => CompressionType::Gzip,
        "snappy" => CompressionType::Snappy,
        "lz4" => CompressionType::Lz4,
        "zstd" => CompressionType::Zstd,
        other => unreachable!("'{other}' is not in the table"),
    }
}

fn timestamp_type(value: Value) -> TimestampType {
    match value.to_string().as_str() {
        "CreateTime" => TimestampType::CreateTime,
        "LogAppendTime" => TimestampType::LogAppendTime,
        other => unreachable!("'{other}' is not in the table"),
    }
}
