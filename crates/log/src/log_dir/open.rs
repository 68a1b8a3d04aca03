//! Opening a directory of logs.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use logway_model::{DirectoryId, Offset, TopicPartition};

use super::delete::CONDEMNED_SUFFIX;
use super::{Changes, LogDir, LogDirOptions, Running};
use crate::checkpoint::{MetaProperties, clean_shutdown, offset_checkpoint};
use crate::fs::{FileLock, Fs};
use crate::log::{Log, LogIdentity};
use crate::producer_state::ProducerLimits;
use crate::random::random_uuid;
use crate::recovery::{RecoveredLog, RecoveryOptions, recover_log};
use crate::writer::{
    self, Background, CommandQueue, Job, LogTail, OffsetCheckpoints, OpenedTail, WriterOptions,
};
use crate::{Finding, LogError, LogMetrics, RecoveryReport};

/// The file whose lock keeps other processes away, as Kafka's does.
const LOCK_FILE: &str = ".lock";

/// See [`LogDir::open`].
pub(super) fn open(options: LogDirOptions, metrics: LogMetrics) -> Result<LogDir, LogError> {
    let started = Instant::now();
    let fs = &*options.fs;
    let root = &options.path;
    create_durably(fs, root)?;
    let lock = take_lock(fs, &options)?;
    let directory_id = claim(fs, &options)?;

    let marker = root.join(clean_shutdown::CLEAN_SHUTDOWN_FILE);
    let mut report =
        RecoveryReport { was_clean: clean_shutdown::is_marked(fs, &marker)?, ..Default::default() };
    let mut checkpoints = read_checkpoints(fs, &options, &mut report)?;
    clean_shutdown::unmark(fs, &marker)?;

    let found = Found::list(fs, &options)?;
    let producer_limits =
        ProducerLimits::new(options.producers_per_log_max, options.producers_max, metrics.clone());
    let outcomes =
        recover_all(&options, &producer_limits, &report, &checkpoints, &found.partitions);
    let queue = Arc::new(CommandQueue::new(root.clone(), options.queue_bytes_max));
    let background = Background::spawn(Arc::clone(&options.fs), root.clone(), Arc::clone(&queue))?;
    for path in found.condemned {
        background.send(Job::DeleteDir { path, delay: Duration::ZERO });
    }

    let mut changes = Changes::default();
    let mut logs = BTreeMap::new();
    let mut tails = Vec::new();
    for (partition, outcome) in outcomes {
        match outcome {
            Ok(None) => {}
            Ok(Some(recovered)) => {
                note_recovered(&recovered, &mut report);
                let key = changes.next_key();
                let queue = Arc::clone(&queue);
                let identity = LogIdentity {
                    key,
                    partition: partition.clone(),
                    topic_id: recovered.topic_id,
                    queue,
                };
                let (log, tail) = start_log(&options, identity, recovered, report.was_clean);
                logs.insert(partition, log);
                tails.push(tail);
            }
            Err(error) => {
                tracing::error!(%partition, %error, "a log cannot be opened");
                report.failed.push((partition.clone(), error.clone()));
                changes.failed.insert(partition, error);
            }
        }
    }
    let is_known = |partition: &TopicPartition| {
        logs.contains_key(partition) || changes.failed.contains_key(partition)
    };
    let with_records = checkpoints.recovery_points.iter().filter(|(_, end)| **end > Offset::ZERO);
    let vanished: Vec<TopicPartition> = with_records
        .map(|(partition, _)| partition.clone())
        .filter(|partition| !is_known(partition))
        .collect();
    let has_strangers = checkpoints
        .retain(|partition| logs.contains_key(partition) || changes.failed.contains_key(partition));
    for partition in vanished {
        tracing::error!(%partition, "the directory of a partition with records has vanished");
    }
    if has_strangers {
        // A log that is made under such a name must not inherit the offsets of the old one.
        checkpoints.write(fs, root)?;
    }
    checkpoints.retain(|partition| changes.failed.contains_key(partition));

    let jobs = background.sender();
    let writer_options = WriterOptions {
        dir: root.clone(),
        fs: Arc::clone(&options.fs),
        clock: Arc::clone(&options.clock),
        metrics,
        burst_bytes_max: options.burst_bytes_max,
        checkpoint_interval: options.checkpoint_interval,
        retention_check_interval: options.retention_check_interval,
        producer_expiration_ms: options.producer_expiration_ms,
        producer_limits: producer_limits.clone(),
        sync_threads_max: options.sync_threads_max,
        of_unopened: checkpoints,
    };
    let writer = writer::spawn(writer_options, Arc::clone(&queue), background, tails)?;
    report.elapsed = started.elapsed();
    Ok(LogDir {
        directory_id,
        report,
        queue,
        producer_limits,
        logs: RwLock::new(logs),
        changes: Mutex::new(changes),
        running: Mutex::new(Some(Running { writer, jobs, lock })),
        options,
    })
}

/// Creates a directory and those above it so that a power cut does not take them back.
fn create_durably(fs: &dyn Fs, path: &Path) -> Result<(), LogError> {
    let exists = |path: &Path| fs.exists(path).map_err(LogError::io("look for", path));
    let mut parents = Vec::new();
    for dir in path.ancestors() {
        if dir.as_os_str().is_empty() || exists(dir)? {
            break;
        }
        parents.extend(dir.parent());
    }
    fs.create_dir_all(path).map_err(LogError::io("create", path))?;
    for parent in parents {
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        fs.sync_dir(parent).map_err(LogError::io("sync", parent))?;
    }
    Ok(())
}

fn take_lock(fs: &dyn Fs, options: &LogDirOptions) -> Result<FileLock, LogError> {
    let path = options.path.join(LOCK_FILE);
    fs.lock(&path).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => LogError::Locked { dir: options.path.clone() },
        _ => LogError::io("lock", &path)(error),
    })
}

/// Makes sure that the directory is this broker's; a new one becomes it.
fn claim(fs: &dyn Fs, options: &LogDirOptions) -> Result<DirectoryId, LogError> {
    let path = options.path.join(MetaProperties::FILE);
    let Some(found) = MetaProperties::read(fs, &path)? else {
        let directory_id = DirectoryId(random_uuid());
        let (node_id, cluster_id) = (options.node_id, options.cluster_id);
        MetaProperties { node_id, cluster_id, directory_id }.write(fs, &path)?;
        return Ok(directory_id);
    };
    if (found.node_id, found.cluster_id) != (options.node_id, options.cluster_id) {
        return Err(LogError::WrongOwner {
            dir: options.path.clone(),
            found_node: found.node_id,
            found_cluster: found.cluster_id,
        });
    }
    Ok(found.directory_id)
}

/// Reads the offset checkpoints. One that is damaged is reported and counts as missing: then
/// everything is scanned.
fn read_checkpoints(
    fs: &dyn Fs,
    options: &LogDirOptions,
    report: &mut RecoveryReport,
) -> Result<OffsetCheckpoints, LogError> {
    let mut read = |name| match offset_checkpoint::read(fs, &options.path.join(name)) {
        Err(error @ LogError::Malformed { .. }) => {
            tracing::error!(%error, "a checkpoint is damaged");
            report.was_clean = false;
            report.findings.push(Finding::Rebuilt { error });
            Ok(BTreeMap::new())
        }
        result => result,
    };
    Ok(OffsetCheckpoints {
        recovery_points: read(offset_checkpoint::RECOVERY_POINT_FILE)?,
        log_starts: read(offset_checkpoint::LOG_START_OFFSET_FILE)?,
    })
}

/// What is in a log directory.
#[derive(Default)]
struct Found {
    partitions: Vec<(TopicPartition, PathBuf)>,
    /// Directories of logs that were deleted.
    condemned: Vec<PathBuf>,
}

impl Found {
    fn list(fs: &dyn Fs, options: &LogDirOptions) -> Result<Found, LogError> {
        let root = &options.path;
        let mut found = Found::default();
        for entry in fs.read_dir(root).map_err(LogError::io("list", root))? {
            let path = root.join(&entry.name);
            let Some(name) = entry.name.to_str().filter(|_| entry.is_dir) else { continue };
            if name.ends_with(CONDEMNED_SUFFIX) {
                found.condemned.push(path);
            } else if let Some(partition) = TopicPartition::from_dir_name(name) {
                found.partitions.push((partition, path));
            } else {
                // The metadata's own, or `lost+found` where the directory is a mount point.
                tracing::debug!(path = %path.display(), "not the directory of a partition");
            }
        }
        Ok(found)
    }
}

type Outcome = (TopicPartition, Result<Option<RecoveredLog>, LogError>);

/// Opens all logs, a few at the same time.
fn recover_all(
    options: &LogDirOptions,
    producer_limits: &ProducerLimits,
    report: &RecoveryReport,
    checkpoints: &OffsetCheckpoints,
    partitions: &[(TopicPartition, PathBuf)],
) -> Vec<Outcome> {
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Vec::with_capacity(partitions.len()));
    let work = || {
        while let Some((partition, dir)) = partitions.get(next.fetch_add(1, Ordering::Relaxed)) {
            let offset_in = |offsets: &BTreeMap<TopicPartition, Offset>| {
                offsets.get(partition).copied().unwrap_or(Offset::ZERO)
            };
            let recovered = recover_log(&RecoveryOptions {
                fs: &options.fs,
                partition,
                dir,
                is_clean: report.was_clean,
                recovery_point: offset_in(&checkpoints.recovery_points),
                log_start: offset_in(&checkpoints.log_starts),
                index_interval_bytes: options.default_config.index_interval_bytes,
                producer_limits,
            });
            let mut outcomes = outcomes.lock().unwrap_or_else(PoisonError::into_inner);
            outcomes.push((partition.clone(), recovered));
        }
    };
    thread::scope(|scope| {
        for _ in 1..options.recovery_threads.min(partitions.len()) {
            scope.spawn(work);
        }
        work();
    });
    outcomes.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn note_recovered(recovered: &RecoveredLog, report: &mut RecoveryReport) {
    report.opened_logs += 1;
    report.scanned_logs += usize::from(recovered.scanned_bytes > 0);
    report.scanned_bytes += recovered.scanned_bytes;
    report.findings.extend(recovered.findings.iter().cloned());
}

/// The handle of a log, and its tail for the writer.
fn start_log(
    options: &LogDirOptions,
    identity: LogIdentity,
    recovered: RecoveredLog,
    was_clean: bool,
) -> (Arc<Log>, LogTail) {
    let dir = options.path.join(identity.partition.to_string());
    let config = Arc::clone(&options.default_config);
    let log = Arc::new(Log::new(identity, config, recovered.view.clone()));
    let tail = LogTail::new(OpenedTail {
        log: Arc::clone(&log),
        fs: Arc::clone(&options.fs),
        dir: dir.into(),
        view: recovered.view,
        producers: recovered.producers,
        is_changed: recovered.scanned_bytes > 0,
        needs_dir_sync: !was_clean,
        now: options.clock.now(),
    });
    (log, tail)
}
