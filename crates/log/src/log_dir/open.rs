//! Opening a directory of logs.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use logway_model::{DirectoryId, TopicPartition};

use super::cleaning::Cleaning;
use super::delete::CONDEMNED_SUFFIX;
use super::journalled::Journalled;
use super::opened::{OfUnopened, Opened};
use super::remembered::Remembered;
use super::{HighWatermarks, LogDir, LogDirOptions, Running};
use crate::checkpoint::cache_life::CacheLife;
use crate::checkpoint::offset_checkpoint::RECOVERY_POINT_FILE;
use crate::checkpoint::{MetaProperties, clean_shutdown};
use crate::dir_syncs::DirSyncs;
use crate::fs::{FileLock, Fs, create_dir_durably};
use crate::producer_state::ProducerLimits;
use crate::random::random_uuid;
use crate::recovery::{RecoveredLog, RecoveryOptions, recover_log};
use crate::writer::{self, Background, CommandQueue, Job, OffsetCheckpoints, WriterOptions};
use crate::{LogError, LogMetrics, RecoveryReport};

/// The file whose lock keeps other processes away, as Kafka's does.
const LOCK_FILE: &str = ".lock";

/// See [`LogDir::open`].
pub(super) fn open(options: LogDirOptions, metrics: LogMetrics) -> Result<LogDir, LogError> {
    let started = Instant::now();
    let fs = &*options.fs;
    let root = &options.path;
    let identity = root.join(MetaProperties::FILE);
    if !fs.exists(&identity).map_err(LogError::io("look for", &identity))? {
        create_dir_durably(fs, root, |op, path, error| LogError::io(op, path)(error))?;
    }
    let lock = take_lock(fs, &options)?;
    let found = Found::list(fs, &options)?;
    let directory_id = claim(fs, &options, !found.partitions.is_empty())?;

    let marker = root.join(clean_shutdown::CLEAN_SHUTDOWN_FILE);
    let mut report =
        RecoveryReport { was_clean: clean_shutdown::is_marked(fs, &marker)?, ..Default::default() };
    let journalled = Journalled::read(&options, &mut report)?;
    let has_logs = !found.partitions.is_empty();
    let remembered = Remembered::read(fs, root, has_logs, journalled.ends(), &mut report)?;
    clean_shutdown::unmark(fs, &marker)?;
    if !report.was_clean {
        // What a killed process has put here last may be in the page cache alone, and files of logs are
        // removed because of what it says.
        fs.sync_dir(root).map_err(LogError::io("sync", root))?;
    }

    let producer_limits =
        ProducerLimits::new(options.producers_per_log_max, options.producers_max, metrics.clone());
    let cache_life = CacheLife::find(fs, root);
    let high_watermarks = Arc::new(HighWatermarks::read(fs, root)?);
    let known = Known {
        report: &report,
        remembered: &remembered,
        journalled: &journalled,
        high_watermarks: &high_watermarks,
        is_same_cache: cache_life.is_same(),
    };
    let outcomes = recover_all(&options, &producer_limits, &known, &found.partitions);
    let listener = options.failure_listener.clone();
    let queue = Arc::new(CommandQueue::new(root.clone(), options.queue_bytes_max, listener));
    let root_syncs = Arc::new(DirSyncs::new(root.as_path()));
    let background = Background::spawn(
        Arc::clone(&options.fs),
        root.clone(),
        Arc::clone(&queue),
        Arc::clone(&root_syncs),
    )?;
    for path in found.condemned {
        background.send(Job::DeleteDir { path, delay: Duration::ZERO });
    }

    let mut opened =
        Opened::new(&options, Arc::clone(&queue), &high_watermarks, &remembered, report);
    opened.tails.reserve(outcomes.len());
    for (partition, outcome) in outcomes {
        opened.add(partition, outcome);
    }
    opened.add_vanished();
    journalled.settle(&options, |partition| opened.changes.failed.contains_key(partition))?;
    let OfUnopened { offsets, lists: lists_of_unopened, unscanned } = opened.write_down()?;
    match unscanned.is_empty() {
        true => cache_life.keep(fs),
        false => cache_life.forget(fs)?,
    }
    let Opened { logs, tails, changes, lists, strangers, mut report, .. } = opened;
    let is_known = |partition: &TopicPartition| {
        logs.contains_key(partition) || changes.failed.contains_key(partition)
    };
    high_watermarks.keep_only(fs, &root_syncs, is_known)?;
    let is_same =
        |partition: &TopicPartition| logs.contains_key(partition) && !strangers.contains(partition);
    let cleaning = Cleaning::open(fs, root, is_same)?;

    let jobs = background.sender();
    let producer_expiration_ms = Arc::new(AtomicI64::new(options.producer_expiration_ms));
    let writer_options = WriterOptions {
        dir: root.clone(),
        fs: Arc::clone(&options.fs),
        clock: Arc::clone(&options.clock),
        metrics,
        burst_bytes_max: options.burst_bytes_max,
        checkpoint_interval: options.checkpoint_interval,
        high_watermark_interval: options.high_watermark_interval,
        retention_check_interval: options.retention_check_interval,
        producer_expiration_ms: Arc::clone(&producer_expiration_ms),
        producer_limits: producer_limits.clone(),
        sync_threads_max: options.sync_threads_max,
        journal_bytes: options.journal_bytes,
        journal_after_rounds: options.journal_after_rounds,
        root_syncs: Arc::clone(&root_syncs),
        high_watermarks: Arc::clone(&high_watermarks),
        of_unopened: offsets,
        lists_of_unopened,
        unscanned,
    };
    let writer = writer::spawn(writer_options, Arc::clone(&queue), background, tails)?;
    report.elapsed = started.elapsed();
    Ok(LogDir {
        directory_id,
        report,
        queue,
        root_syncs,
        producer_limits,
        producer_expiration_ms,
        logs: RwLock::new(logs),
        changes: Mutex::new(changes),
        lists: Mutex::new(lists),
        high_watermarks,
        cleaning,
        running: Mutex::new(Some(Running { writer, jobs, lock })),
        options,
    })
}

fn take_lock(fs: &dyn Fs, options: &LogDirOptions) -> Result<FileLock, LogError> {
    let path = options.path.join(LOCK_FILE);
    fs.lock(&path).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => LogError::Locked { dir: options.path.clone() },
        _ => LogError::io("lock", &path)(error),
    })
}

/// Makes sure that the directory is this broker's; a new one becomes it.
fn claim(fs: &dyn Fs, options: &LogDirOptions, has_logs: bool) -> Result<DirectoryId, LogError> {
    let path = options.path.join(MetaProperties::FILE);
    let Some(found) = MetaProperties::read(fs, &path)? else {
        if has_logs && options.new_directory_id.is_none() {
            // Under a new id, all that it holds would be offline.
            return Err(LogError::IdentityMissing { dir: options.path.clone() });
        }
        let points = options.path.join(RECOVERY_POINT_FILE);
        if !has_logs && !fs.exists(&points).map_err(LogError::io("look for", &points))? {
            // From here on, a checkpoint that is missing is one that was lost.
            OffsetCheckpoints::default().write(fs, &options.path)?;
        }
        let directory_id = options.new_directory_id.unwrap_or_else(|| DirectoryId(random_uuid()));
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

/// What is known of the logs before they are opened.
struct Known<'a> {
    report: &'a RecoveryReport,
    remembered: &'a Remembered,
    journalled: &'a Journalled,
    is_same_cache: bool,
    high_watermarks: &'a HighWatermarks,
}

/// Opens all logs, a few at the same time.
fn recover_all(
    options: &LogDirOptions,
    producer_limits: &ProducerLimits,
    known: &Known<'_>,
    partitions: &[(TopicPartition, PathBuf)],
) -> Vec<Outcome> {
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Vec::with_capacity(partitions.len()));
    let work = || {
        while let Some((partition, dir)) = partitions.get(next.fetch_add(1, Ordering::Relaxed)) {
            let remembered = known.remembered.of(partition);
            let recovered = recover_log(&RecoveryOptions {
                fs: &options.fs,
                partition,
                dir,
                is_clean: known.report.was_clean,
                is_same_cache: known.is_same_cache,
                expected: remembered.expected(),
                index_interval_bytes: options.default_config.index_interval_bytes,
                sync_later_bytes: options.sync_later_bytes,
                checked_bytes_min: options.checked_bytes_min,
                producer_limits,
                journalled: known.journalled.of(partition),
                high_watermark: known.high_watermarks.of(partition),
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
