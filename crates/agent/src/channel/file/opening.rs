//! Opening a channel's log.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use logway_log::checkpoint::MetaProperties;
use logway_log::{Log, LogConfig, LogDir, LogDirOptions, LogError, LogMetrics};
use logway_model::{BrokerId, ClusterId, PartitionId, TopicId, TopicName, TopicPartition, Uuid};

use super::super::damage::vouch_for_what_is_behind_damage;
use crate::error::StartError;

/// Opens the log, with what a process before this has left in it. What is damaged costs its own batch alone.
pub(super) fn open_log(path: &Path, segment_bytes: u64) -> Result<(LogDir, Arc<Log>), LogError> {
    let topic = TopicName::new("channel").expect("is a topic's name");
    let partition = TopicPartition::new(topic, PartitionId(0));
    let config = Arc::new(LogConfig {
        segment_bytes: u32::try_from(segment_bytes).unwrap_or(u32::MAX),
        retention_ms: None,
        segment_ms: i64::MAX as u64,
        max_message_bytes: i32::MAX as u32,
        file_delete_delay_ms: 0,
        ..LogConfig::default()
    });
    let cluster = cluster_id();
    let options = LogDirOptions {
        default_config: Arc::clone(&config),
        sync_threads_max: 1,
        recovery_threads: 1,
        checkpoint_interval: Duration::from_secs(10),
        retention_check_interval: Duration::from_secs(5),
        ..LogDirOptions::new(path, BrokerId(0), cluster)
    };
    vouch_for_what_is_behind_damage(path)?;
    let dir = LogDir::open(options, LogMetrics::default())?;
    if let Some(error) = dir.failed_log(&partition) {
        return Err(error);
    }
    let log = dir.create_log(
        partition,
        TopicId(Uuid::from_random(*b"events that wait")),
        Arc::clone(&config),
    )?;
    log.set_config(config);
    Ok((dir, log))
}

/// The directories of all channels say that they are of this cluster.
fn cluster_id() -> ClusterId {
    ClusterId(Uuid::from_random(*b"logway's channel"))
}

/// Why a channel's log cannot be opened, in words that are not a broker's.
pub(super) fn no_log(path: &Path, error: &LogError) -> StartError {
    let anew = |file: &Path, what: &str| {
        format!(
            "{} {what}: put it back, or write it anew with the lines version=1, node.id=0, cluster.id={} \
             and directory.id={}",
            file.display(),
            cluster_id(),
            logway_log::random_uuid(),
        )
    };
    match error {
        LogError::IdentityMissing { dir } => anew(&dir.join(MetaProperties::FILE), "is gone"),
        LogError::Malformed { path: file, reason, .. } if file.ends_with(MetaProperties::FILE) => {
            anew(file, &format!("is damaged ({reason})"))
        }
        error => format!("{}: {error}", path.display()),
    }
}
