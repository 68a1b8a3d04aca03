//! A durable channel: one log of the storage engine, in a directory of its own.
//!
//! A put is one record batch, so that it is there as a whole or not at all, and completes when it is on stable
//! storage. Puts that come together share a sync. What has been taken and committed is behind the log start,
//! or noted beside the log if events before it are not. Both follow in the background: after a crash some events
//! are taken again, and none is missed.

mod codec;
mod cursor;
mod done;
mod note;
mod opening;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use logway_log::{AppendBatches, Finding, Log, LogDir, LogError, ReadRequest};
use logway_model::{LeaderEpoch, Offset};
use logway_record::Batches;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;

pub(super) use self::codec::decode_batch;
use self::codec::encode;
use self::cursor::Cursor;
pub(super) use self::done::Done;
use self::note::NoteFile;
use self::opening::{no_log, open_log};
use super::damage::find_behind;
use super::memory::bytes_of;
use super::room::{Claim, Room};
use crate::declaration::{Declaration, Fallback, Key, Kind, Role, key};
use crate::error::{ChannelError, StartError, because};
use crate::event::Event;
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

/// How often is noted what was committed although events before it were not.
const NOTE_INTERVAL: Duration = Duration::from_secs(5);

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
    note: Arc<NoteFile>,
    /// The log start and the note have to follow.
    committed: Arc<Notify>,
    /// Events that were gone when the log was opened. They hold room until the first take.
    gone: AtomicU64,
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
        let range = log.log_start_offset()..log.log_end_offset();
        let note = Arc::new(NoteFile::new(&path, dir.directory_id()));
        let noted = note.read();
        let gone = missing_before(&settings.name, &dir, range.start, &noted);
        let done =
            keep_known(&note, noted, range.clone()).map_err(|error| no_log(&path, &error))?;
        let held = u64::try_from(range.end - range.start).unwrap_or(0) - done.count();
        let cursor = Arc::new(Mutex::new(Cursor::new(range.start, done)));
        let committed = Arc::new(Notify::new());
        let follower = Follower {
            channel: settings.name.clone(),
            log: Arc::clone(&log),
            cursor: Arc::clone(&cursor),
            note: Arc::clone(&note),
            committed: Arc::clone(&committed),
        };
        let follower = tokio::spawn(follower.run());
        let room = Room::new(&settings.name, events_max, i64::MAX as u64);
        room.found(held + gone, 0);
        Ok(FileQueue {
            room,
            channel: settings.name.clone(),
            path,
            space_bytes_min: settings.number("minimumRequiredSpace"),
            log,
            dir: Arc::new(Dir(dir)),
            cursor,
            note,
            committed,
            gone: AtomicU64::new(gone),
            lost: AtomicU64::new(0),
            follower,
        })
    }

    fn cursor(&self) -> MutexGuard<'_, Cursor> {
        lock(&self.cursor)
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
            cursor.go_on_at(outcome.last_offset + 1);
        }
        Ok(())
    }

    /// Takes what is next, perhaps nothing. It goes on behind what is in memory: what was put back may be refused for
    /// ever, and must not be all that is taken.
    pub(super) fn take(&self, max: usize) -> Result<Vec<(Offset, Event)>, ChannelError> {
        self.lose(self.gone.swap(0, Ordering::Relaxed));
        let mut cursor = self.cursor();
        let mut taken = Vec::new();
        cursor.take(&mut taken, max);
        if taken.len() < max {
            let read = self.read_ahead(&mut cursor);
            // What was taken is not held back by what cannot be read behind it.
            if taken.is_empty() {
                read?
            }
            cursor.take(&mut taken, max);
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
        let lost = cursor.pass(from..resumed.max(from));
        if let Some((batch, events)) = behind.batch {
            cursor.add_batch(&batch, events);
        }
        if lost > 0 {
            self.lose(lost);
            self.committed.notify_one();
            tracing::error!(
                channel = self.channel, path = %behind.path.display(), position = behind.position, events = lost,
                reason = behind.reason, "events cannot be read from the disk, and are lost; what is behind them is read"
            );
        }
        Ok(())
    }

    fn lose(&self, events: u64) {
        if events > 0 {
            self.room.give_back(events, 0);
            self.lost.fetch_add(events, Ordering::Relaxed);
        }
    }

    /// How many events were lost since this was last asked.
    pub(super) fn take_lost(&self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }

    /// What was taken is done with.
    pub(super) fn commit(&self, offsets: &[Offset]) {
        self.cursor().commit(offsets);
        self.committed.notify_one();
    }

    /// What was taken is next again.
    pub(super) fn put_back(&self, events: Vec<(Offset, Event)>) {
        self.cursor().put_back(events);
    }

    /// Notes how far it was taken, and closes the files.
    pub(super) async fn close(&self) {
        self.follower.abort();
        write_note(&self.channel, &self.cursor, &self.note).await;
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

/// Has the log start, and the note beside the log, follow what was committed.
struct Follower {
    log: Arc<Log>,
    channel: String,
    cursor: Arc<Mutex<Cursor>>,
    note: Arc<NoteFile>,
    committed: Arc<Notify>,
}

impl Follower {
    /// Runs for ever, with one change on its way at a time.
    async fn run(self) {
        const PAUSE: Duration = Duration::from_millis(20);
        let mut note_at = Instant::now();
        loop {
            let has_note = lock(&self.cursor).has_note();
            tokio::select! {
                () = self.committed.notified() => {}
                () = tokio::time::sleep_until(note_at), if has_note => {}
            }
            let low = lock(&self.cursor).low();
            if low > self.log.log_start_offset()
                && let Err(error) = self.log.delete_records_before(low).await
            {
                tracing::error!(offset = low.0, %error, "it cannot be noted what was taken from a channel");
            }
            if note_at <= Instant::now() && lock(&self.cursor).has_note() {
                write_note(&self.channel, &self.cursor, &self.note).await;
                note_at = Instant::now() + NOTE_INTERVAL;
            }
            // Commits of the meantime share the next change.
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Writes down what was committed although events before it were not, if that has changed.
async fn write_note(channel: &str, cursor: &Arc<Mutex<Cursor>>, file: &Arc<NoteFile>) {
    let (cursor, file) = (Arc::clone(cursor), Arc::clone(file));
    let written = tokio::task::spawn_blocking(move || {
        file.write_latest(|| lock(&cursor).take_note()).inspect_err(|_| lock(&cursor).keep_note())
    });
    if let Ok(Err(error)) = written.await {
        tracing::error!(channel, %error, "some of what was taken may be taken again after a restart");
    }
}

fn lock(cursor: &Mutex<Cursor>) -> MutexGuard<'_, Cursor> {
    cursor.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What was done with before this process, of the offsets that the log has. What the note says of others is forgotten:
/// they are given to other events yet.
fn keep_known(file: &NoteFile, mut done: Done, range: Range<Offset>) -> Result<Done, LogError> {
    let is_beyond = done.count_in(range.end..Offset::LIMIT) > 0;
    done.keep_only(range.clone());
    if is_beyond {
        file.write_latest(|| Some((range.start, done.clone())))?;
    }
    Ok(done)
}

/// How many events were before the log's first segment, and are gone with the segments in which they were.
fn missing_before(channel: &str, dir: &LogDir, start: Offset, done: &Done) -> u64 {
    let mut lost = 0;
    for finding in &dir.recovery_report().findings {
        let &Finding::Missing { ref path, from, to } = finding else { continue };
        let to = to.min(start);
        if from < to {
            let events = u64::try_from(to - from).unwrap_or(0) - done.count_in(from..to);
            lost += events;
            tracing::error!(channel, path = %path.display(), from = from.0, to = to.0, events, "a file of the channel is gone, and its events are lost");
        }
    }
    lost
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
