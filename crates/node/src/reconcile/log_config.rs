//! Topic settings, resolved, and as the logs need them.

use std::sync::Arc;

use logway_log::{CleanupPolicy, LogConfig};
use logway_metadata::settings::{BrokerSettings, CompressionType, TimestampType, TopicSettings};
use logway_metadata::{MetadataImage, TopicImage};
use logway_record::{TargetCompression, TimestampType as RecordTimestampType};

/// What is in force for a topic.
pub(super) fn settings_of(
    topic: &TopicImage,
    image: &MetadataImage,
    node: &BrokerSettings,
) -> Arc<TopicSettings> {
    let resolved = TopicSettings::resolve(&topic.overrides, image, node).or_else(|error| {
        // Another version wrote the metadata. The topic is served all the same.
        tracing::error!(topic = %topic.name, %error, "a stored setting is not valid; \
            the topic runs on the broker's defaults");
        TopicSettings::resolve(&Default::default(), image, node)
    });
    Arc::new(resolved.expect("the broker's defaults were checked when it started"))
}

/// What `compression.type` has batches compressed with; `None` for `producer`.
fn compression(settings: &TopicSettings) -> Option<TargetCompression> {
    Some(match settings.compression_type {
        CompressionType::Producer => return None,
        CompressionType::Uncompressed => TargetCompression::None,
        CompressionType::Gzip => TargetCompression::Gzip { level: settings.compression_gzip_level },
        CompressionType::Snappy => TargetCompression::Snappy,
        CompressionType::Lz4 => TargetCompression::Lz4 { level: settings.compression_lz4_level },
        CompressionType::Zstd => TargetCompression::Zstd { level: settings.compression_zstd_level },
    })
}

/// A topic's settings as its logs need them.
pub(super) fn log_config(settings: &TopicSettings) -> LogConfig {
    let ms = |number: i64| u64::try_from(number).unwrap_or(0);
    let bytes = |number: i32| u32::try_from(number).unwrap_or(0);
    let policy = settings.cleanup_policy;
    LogConfig {
        segment_bytes: bytes(settings.segment_bytes),
        segment_ms: ms(settings.segment_ms),
        segment_jitter_ms: ms(settings.segment_jitter_ms),
        segment_index_bytes: bytes(settings.segment_index_bytes),
        index_interval_bytes: bytes(settings.index_interval_bytes),
        cleanup: match (policy.compact, policy.delete) {
            (true, true) => CleanupPolicy::CompactAndDelete,
            (true, false) => CleanupPolicy::Compact,
            (false, _) => CleanupPolicy::Delete,
        },
        min_compaction_lag_ms: ms(settings.min_compaction_lag_ms),
        max_compaction_lag_ms: ms(settings.max_compaction_lag_ms),
        min_cleanable_dirty_ratio: settings.min_cleanable_dirty_ratio,
        delete_retention_ms: ms(settings.delete_retention_ms),
        retention_ms: settings.retention_ms.filter(|_| policy.delete).map(ms),
        retention_bytes: settings.retention_bytes.filter(|_| policy.delete).map(ms),
        flush_messages: ms(settings.flush_messages),
        flush_ms: ms(settings.flush_ms),
        max_message_bytes: bytes(settings.max_message_bytes),
        compression: compression(settings),
        timestamp_type: match settings.message_timestamp_type {
            TimestampType::CreateTime => RecordTimestampType::CreateTime,
            TimestampType::LogAppendTime => RecordTimestampType::LogAppendTime,
        },
        timestamp_before_max_ms: ms(settings.message_timestamp_before_max_ms),
        timestamp_after_max_ms: ms(settings.message_timestamp_after_max_ms),
        file_delete_delay_ms: ms(settings.file_delete_delay_ms),
    }
}
