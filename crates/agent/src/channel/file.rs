//! A durable channel: one log of the storage engine, in a directory of its own.
//!
//! A put is one record batch, so that it is there as a whole or not at all, and completes when it is on stable
//! storage. Puts that come together share a sync. What has been taken and committed is behind the log start,
//! which follows in the background: after a crash some events are taken again, and none is missed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use logway_log::{
    AppendBatches, Log, LogConfig, LogDir, LogDirOptions, LogError, LogMetrics, ReadRequest,
};
use logway_model::{
    BrokerId, ClusterId, LeaderEpoch, Offset, PartitionId, TimestampMs, TopicId, TopicName,
    TopicPartition, Uuid,
};
use logway_record::{Batch, BatchBuilder, Batches, Compression, DecodeLimit, Header, RecordError};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::damage::find_behind;
use super::memory::bytes_of;
use super::room::{Claim, Room};
use crate::declaration::{Declaration, Fallback, Key, Kind, Role, key};
use crate::error::{ChannelError, StartError, because};
use crate::event::{Event, Headers};
use crate::settings::Settings;

pub(crate) const DECLARATION: Declaration = Declaration {
    role: Role::Channel,
    name: "file",
    aliases: &["org.apache.flume.channel.file.FileChannel"],
    doc: "Events wait on disk, in segments of the storage engine's log. A put returns when its events are on stable \
          storage; puts that come together share one sync. Files that Flume's own file channel has written are \
          not read: let Flume empty them before.",
    keys: &[key(
        "capacity",
        Kind::Number(1, i64::MAX, "events"),
        Fallback::Is("1000000"),
        "How many events it holds.",
    )],
    shared: &[FILES, super::TRANSACTION, super::KEEP_ALIVE],
};

/// About the files, also of a channel that only overflows into them.
pub(super) const FILES: &[Key] = &[
    key(
        "dataDirs",
        Kind::Text,
        Fallback::Is("~/.flume/file-channel/data"),
        "The directory of its files. Flume takes several, with commas between; here it is one.",
    ),
    key(
        "checkpointDir",
        Kind::Ignored("the log has its checkpoints beside its files"),
        Fallback::Nothing,
        "Where Flume keeps its checkpoint.",
    ),
    key(
        "minimumRequiredSpace",
        Kind::Number(1 << 20, i64::MAX, "bytes"),
        Fallback::Is("524288000"),
        "With less space free on the disk, puts are refused.",
    ),
    key(
        "maxFileSize",
        Kind::Number(1 << 20, i64::MAX, "bytes"),
        Fallback::Is("2146435071"),
        "How large a segment grows, at most 1 GiB. A segment is deleted when all in it has been taken.",
    ),
    key(
        "useDualCheckpoints",
        Kind::Ignored("checkpoints are written beside the old one and renamed"),
        Fallback::Nothing,
        "Flume's second checkpoint.",
    ),
    key(
        "backupCheckpointDir",
        Kind::Ignored("see useDualCheckpoints"),
        Fallback::Nothing,
        "Its directory.",
    ),
    key(
        "checkpointInterval",
        Kind::Ignored("the log decides"),
        Fallback::Nothing,
        "Flume's time between checkpoints.",
    ),
    key(
        "use-log-replay-v1",
        Kind::Ignored("it is about Flume's files"),
        Fallback::Nothing,
        "Flume's older replay.",
    ),
    key(
        "use-fast-replay",
        Kind::Ignored("it is about Flume's files"),
        Fallback::Nothing,
        "Flume's replay without a queue.",
    ),
    key(
        "checkpointOnClose",
        Kind::Ignored("it always is written"),
        Fallback::Nothing,
        "Whether Flume writes a checkpoint at its end.",
    ),
];

/// What a put may have: it is one batch in memory, twice.
pub(super) const TRANSACTION_BYTES_MAX: u64 = 64 << 20;

/// The most of a log that is read at once.
const READ_BYTES: u64 = 1 << 20;

/// How many bytes of events are kept in memory behind those that are next, so that they need not be read.
const READY_BYTES_MAX: usize = 8 << 20;

const SEGMENT_BYTES_MAX: u64 = 1 << 30;

/// The folder in the data directory, so that nothing mixes with what Flume has there.
const FOLDER: &str = "logway-channel";

/// A channel's log, and how far it has been taken.
#[derive(Debug)]
pub(super) struct FileQueue {
    pub(super) room: Arc<Room>,
    channel: String,
    path: PathBuf,
    space_bytes_min: u64,
    log: Arc<Log>,
    dir: Arc<Dir>,
    cursor: Arc<Mutex<Cursor>>,
    /// The log start has to follow.
    committed: Arc<Notify>,
    /// Events that could not be read, and that nobody has counted yet.
    lost: AtomicU64,
    follower: JoinHandle<()>,
}

/// A [`LogDir`] that can be shown.
struct Dir(LogDir);

impl std::fmt::Debug for Dir {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Dir({})", self.0.path().display())
    }
}

/// How far the log has been taken. Offsets below `next` are in `ready`, in `taken`, or done with.
#[derive(Debug)]
struct Cursor {
    /// The first offset that is not in memory.
    next: Offset,
    ready: BTreeMap<Offset, Event>,
    ready_bytes: usize,
    taken: BTreeSet<Offset>,
}

impl Cursor {
    /// Everything before is done with.
    fn low(&self) -> Offset {
        let ready = self.ready.first_key_value().map(|(offset, _)| *offset);
        let taken = self.taken.first().copied();
        [ready, taken].into_iter().flatten().min().unwrap_or(self.next).min(self.next)
    }

    fn add(&mut self, offset: Offset, event: Event) {
        self.ready_bytes += event.size_bytes();
        self.ready.insert(offset, event);
    }

    /// Adds the events of a batch that are next.
    fn add_batch(&mut self, batch: &Batch, events: Vec<(Offset, Event)>) {
        let first = self.next;
        for (offset, event) in events.into_iter().filter(|(offset, _)| *offset >= first) {
            self.add(offset, event);
        }
        self.next = batch.header().next_offset();
    }
}

impl FileQueue {
    /// Opens the log, with what a process before this has left in it. Bytes are bounded by the disk alone.
    pub(super) async fn open(
        settings: &Settings,
        events_max: u64,
    ) -> Result<FileQueue, StartError> {
        let dirs = settings.required("dataDirs").to_owned();
        if dirs.contains(',') {
            return Err(format!("dataDirs is '{dirs}': a file channel has one directory here"));
        }
        let data = settings.path("dataDirs");
        let path = data.join(FOLDER);
        let segment_bytes = settings.number("maxFileSize").min(SEGMENT_BYTES_MAX);
        warn_of_flumes_files(&settings.name, &data);
        let opening = path.clone();
        let opened = tokio::task::spawn_blocking(move || open_log(&opening, segment_bytes)).await;
        let opened = opened.map_err(because("the log was not opened"))?;
        let (dir, log) = opened.map_err(|error| no_log(&path, &error))?;
        let next = log.log_start_offset();
        let cursor =
            Cursor { next, ready: BTreeMap::new(), ready_bytes: 0, taken: BTreeSet::new() };
        let (cursor, committed) = (Arc::new(Mutex::new(cursor)), Arc::new(Notify::new()));
        let follower =
            tokio::spawn(follow(Arc::clone(&log), Arc::clone(&cursor), Arc::clone(&committed)));
        let room = Room::new(&settings.name, events_max, i64::MAX as u64);
        room.found(u64::try_from(log.log_end_offset().0 - next.0).unwrap_or(0), 0);
        Ok(FileQueue {
            room,
            channel: settings.name.clone(),
            path,
            space_bytes_min: settings.number("minimumRequiredSpace"),
            log,
            dir: Arc::new(Dir(dir)),
            cursor,
            committed,
            lost: AtomicU64::new(0),
            follower,
        })
    }

    fn cursor(&self) -> MutexGuard<'_, Cursor> {
        self.cursor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A name that an event keeps, however often it is taken.
    pub(super) fn event_id(&self, offset: Offset) -> String {
        format!("{}-{}", self.dir.0.directory_id(), offset.0)
    }

    /// Claims room, waiting for it as long as `patience`.
    pub(super) async fn claim(
        &self,
        events: &[Event],
        patience: Duration,
    ) -> Result<Claim, ChannelError> {
        let (found, bound) = (bytes_of(events), TRANSACTION_BYTES_MAX);
        if found > bound {
            let channel = self.channel.clone();
            return Err(ChannelError::TooLarge { channel, found, bound, unit: "bytes" });
        }
        self.check_space()?;
        self.room.claim(events.len() as u64, 0, patience).await
    }

    /// Whether the disk has room.
    fn check_space(&self) -> Result<(), ChannelError> {
        let stat = rustix::fs::statvfs(&self.path).map_err(|error| {
            self.failed(format!("cannot look at {}: {error}", self.path.display()))
        })?;
        let free_bytes = stat.f_bavail.saturating_mul(stat.f_frsize);
        if free_bytes < self.space_bytes_min {
            let (channel, path) = (self.channel.clone(), self.path.display().to_string());
            return Err(ChannelError::NoSpace {
                channel,
                path,
                free_bytes,
                bound_bytes: self.space_bytes_min,
            });
        }
        Ok(())
    }

    /// Puts events; returns when they are on stable storage.
    pub(super) async fn put(&self, events: Vec<Event>) -> Result<(), ChannelError> {
        let batch = encode(&events).map_err(|error| self.failed(error))?;
        let append = AppendBatches::new(vec![batch], LeaderEpoch(0));
        let outcome = self.log.append(append).await.map_err(|error| self.failed(error))?;
        let mut cursor = self.cursor();
        let bytes: usize = events.iter().map(Event::size_bytes).sum();
        // Else they are read from the log when it is their turn.
        if cursor.next == outcome.base_offset && cursor.ready_bytes + bytes <= READY_BYTES_MAX {
            for (index, event) in events.into_iter().enumerate() {
                cursor.add(outcome.base_offset + index as i64, event);
            }
            cursor.next = outcome.last_offset + 1;
        }
        Ok(())
    }

    /// Takes what is next, perhaps nothing.
    pub(super) fn take(&self, max: usize) -> Result<Vec<(Offset, Event)>, ChannelError> {
        let mut cursor = self.cursor();
        if cursor.ready.is_empty() {
            self.read_ahead(&mut cursor)?;
        }
        let mut taken = Vec::new();
        while taken.len() < max
            && let Some((offset, event)) = cursor.ready.pop_first()
        {
            cursor.ready_bytes -= event.size_bytes();
            cursor.taken.insert(offset);
            taken.push((offset, event));
        }
        Ok(taken)
    }

    /// Under the lock of the cursor, so that nothing is read twice. What is read was written lately, or is read
    /// from a disk that has nothing else to do for this channel.
    fn read_ahead(&self, cursor: &mut Cursor) -> Result<(), ChannelError> {
        let upper_bound = self.log.flushed_offset();
        while cursor.ready.is_empty() && cursor.next < upper_bound {
            let before = cursor.next;
            for batch in Batches::with_partial_tail(self.read(before, upper_bound)?) {
                // What is damaged, or missing in between, ends what can be read at once.
                let Ok(batch) = batch else { break };
                let Ok(events) = decode_batch(&batch) else { break };
                if batch.base_offset() > cursor.next {
                    break;
                }
                cursor.add_batch(&batch, events);
            }
            if cursor.next == before {
                self.pass_damage(cursor, upper_bound)?;
            }
        }
        Ok(())
    }

    /// Batches from an offset on; none if the first is damaged or gone.
    fn read(&self, offset: Offset, upper_bound: Offset) -> Result<Bytes, ChannelError> {
        let request =
            ReadRequest { offset, max_bytes: READ_BYTES, upper_bound, at_least_one_batch: true };
        match self.log.read(request).and_then(|slice| slice.checked()) {
            Ok(slice) => slice.read().map_err(|error| self.failed(error)),
            Err(LogError::Corrupt { .. }) => Ok(Bytes::new()),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Goes on behind what cannot be read, at the next batch that can be, and gives up what lies between. Each offset
    /// is an event, so that it is known how many those are.
    fn pass_damage(&self, cursor: &mut Cursor, upper_bound: Offset) -> Result<(), ChannelError> {
        let from = cursor.next;
        let behind = find_behind(&self.path, from, upper_bound);
        let behind = behind.map_err(|error| self.failed(error))?;
        let resumed = behind.batch.as_ref().map_or(upper_bound, |(batch, _)| batch.base_offset());
        cursor.next = resumed.max(from);
        if let Some((batch, events)) = behind.batch {
            cursor.add_batch(&batch, events);
        }
        let lost = u64::try_from(resumed - from).unwrap_or(0);
        if lost > 0 {
            self.room.give_back(lost, 0);
            self.lost.fetch_add(lost, Ordering::Relaxed);
            self.committed.notify_one();
            tracing::error!(
                channel = self.channel, path = %behind.path.display(), position = behind.position, events = lost,
                reason = behind.reason, "events cannot be read from the disk, and are lost; what is behind them is read"
            );
        }
        Ok(())
    }

    /// How many events were lost since this was last asked.
    pub(super) fn take_lost(&self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }

    /// What was taken is done with.
    pub(super) fn commit(&self, offsets: &[Offset]) {
        let mut cursor = self.cursor();
        for offset in offsets {
            cursor.taken.remove(offset);
        }
        drop(cursor);
        self.committed.notify_one();
    }

    /// What was taken is next again.
    pub(super) fn put_back(&self, events: Vec<(Offset, Event)>) {
        let mut cursor = self.cursor();
        for (offset, event) in events {
            cursor.taken.remove(&offset);
            cursor.add(offset, event);
        }
    }

    /// Notes how far it was taken, and closes the files.
    pub(super) async fn close(&self) {
        self.follower.abort();
        let low = self.cursor().low();
        if let Err(error) = self.log.delete_records_before(low).await {
            tracing::error!(channel = self.channel, %error, "what was taken last will be taken again");
        }
        let dir = Arc::clone(&self.dir);
        let closed = tokio::task::spawn_blocking(move || dir.0.close()).await;
        if let Ok(Err(error)) = closed {
            tracing::error!(channel = self.channel, %error, "the log was not closed in good order");
        }
    }

    fn failed(&self, error: impl std::fmt::Display) -> ChannelError {
        ChannelError::Storage { channel: self.channel.clone(), reason: error.to_string() }
    }
}

impl Drop for FileQueue {
    fn drop(&mut self) {
        self.follower.abort();
    }
}

/// Has the log start follow what was committed, with one change on its way at a time.
async fn follow(log: Arc<Log>, cursor: Arc<Mutex<Cursor>>, committed: Arc<Notify>) {
    const PAUSE: Duration = Duration::from_millis(20);
    loop {
        committed.notified().await;
        let low = cursor.lock().unwrap_or_else(PoisonError::into_inner).low();
        if low > log.log_start_offset()
            && let Err(error) = log.delete_records_before(low).await
        {
            tracing::error!(offset = low.0, %error, "it cannot be noted what was taken from a channel");
        }
        // Commits of the meantime share the next change.
        tokio::time::sleep(PAUSE).await;
    }
}

fn open_log(path: &Path, segment_bytes: u64) -> Result<(LogDir, Arc<Log>), LogError> {
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
fn no_log(path: &Path, error: &LogError) -> StartError {
    match error {
        LogError::IdentityMissing { dir } => format!(
            "{}/meta.properties is gone: put it back, or write it anew with the lines version=1, node.id=0, cluster.id={} \
             and directory.id={}",
            dir.display(),
            cluster_id(),
            logway_log::random_uuid(),
        ),
        error => format!("{}: {error}", path.display()),
    }
}

fn warn_of_flumes_files(channel: &str, data: &Path) {
    let Ok(entries) = std::fs::read_dir(data) else { return };
    let is_flumes = |name: &str| {
        name.strip_prefix("log-")
            .is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let found =
        entries.filter_map(Result::ok).any(|e| e.file_name().to_str().is_some_and(is_flumes));
    if found {
        tracing::warn!(channel, directory = %data.display(),
            "files of Flume's own file channel are here: they are not read, Flume has to empty them");
    }
}

fn encode(events: &[Event]) -> Result<Batch, RecordError> {
    let mut builder = BatchBuilder::new(Compression::None);
    let now = now();
    for event in events {
        let header = |(name, value): (&str, &str)| {
            Header::new(name.as_bytes().to_vec(), Some(Bytes::copy_from_slice(value.as_bytes())))
        };
        let headers: Vec<Header> = event.headers.iter().map(header).collect();
        builder.append(now, None, Some(&event.body), &headers)?;
    }
    let mut bytes = builder.finish()?;
    Batch::split_first(&mut bytes)
}

/// The events of a batch with their offsets.
pub(super) fn decode_batch(batch: &Batch) -> Result<Vec<(Offset, Event)>, RecordError> {
    let records = batch.records(DecodeLimit::DEFAULT)?;
    let decoded = records
        .map(|record| record.map(|record| (record.offset, decode(record.value, &record.headers))));
    decoded.collect()
}

fn decode(value: Option<Bytes>, headers: &[Header]) -> Event {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let headers = headers
        .iter()
        .map(|header| (text(&header.key), header.value.as_deref().map(text).unwrap_or_default()));
    // A copy: or one event that waits would keep its whole batch in memory.
    let body = value.map(|value| Bytes::copy_from_slice(&value)).unwrap_or_default();
    Event { headers: headers.collect::<Headers>(), body }
}

fn now() -> TimestampMs {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    TimestampMs(since.map_or(0, |since| since.as_millis() as i64))
}
