//! The snapshot on disk: text, one JSON value a line.
//!
//! | line   | content                                                                       |
//! |--------|-------------------------------------------------------------------------------|
//! | first  | `{"format":"logway-metadata-snapshot/1","meta":…}`: where in the log it stands; `image_at`, the entry that last changed the image, and `recent`, the last commands, where there are any |
//! | middle | a metadata record each                                                        |
//! | last   | `{"records":N,"crc32c":C}`: how many, and the CRC-32C of all bytes before this line |
//!
//! There is one snapshot. The next one is written beside it, synced and renamed over it, and only
//! then is the log before it dropped ([`SnapshotFile::wait_for`]). It is written and read line by
//! line, never whole in memory, and sent to other nodes from the file and into a file.

use std::io::{self, IoSlice};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crc_fast::{CrcAlgorithm, Digest};
use logway_log::fs::{File, OpenMode};
use logway_metadata::{MetadataImage, MetadataRecord};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::snapshot_data::{LineReader, SnapshotData};
use super::{LogId, SnapshotMeta};
use crate::command_id::{RecentCommands, RecentCommandsRecord};
use crate::directory::{Directory, SNAPSHOT_FILE};
use crate::error::QuorumError;

const NEW_FILE_NAME: &str = "snapshot.json.new";
const RECEIVED_FILE_NAME: &str = "snapshot.json.received";
const FORMAT: &str = "logway-metadata-snapshot/1";

/// So much is gathered before it is written.
const BUFFER_BYTES: usize = 256 << 10;

/// So many records are applied to the image at once.
const RECORDS_AT_ONCE: usize = 1_000;

#[derive(Serialize, Deserialize)]
struct Header {
    format: String,
    meta: SnapshotMeta,
    /// Snapshots of versions that knew one node only have neither of the two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    image_at: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    recent: Option<RecentCommandsRecord>,
}

#[derive(Serialize, Deserialize)]
struct Trailer {
    records: usize,
    crc32c: u64,
}

/// What a snapshot holds.
#[derive(Debug)]
pub(super) struct Content {
    pub(super) meta: SnapshotMeta,
    pub(super) image: MetadataImage,
    /// The entry that last changed the image.
    pub(super) image_at: u64,
    pub(super) recent: RecentCommands,
}

/// The snapshot that is in place.
#[derive(Debug, Clone, Default)]
struct Present {
    meta: Option<SnapshotMeta>,
    /// One that came from another node could not be put in place.
    has_failed: bool,
}

impl Present {
    fn last_log_id(&self) -> Option<LogId> {
        self.meta.as_ref().and_then(|meta| meta.last_log_id)
    }
}

/// The place of the snapshot. Calls may wait for the disk.
#[derive(Clone)]
pub(super) struct SnapshotFile {
    directory: Arc<Directory>,
    present: watch::Sender<Present>,
    /// Held while a snapshot is put in place, so that two do not write one file.
    placing: Arc<Mutex<()>>,
}

impl SnapshotFile {
    /// The place in a directory, with the snapshot that is there.
    pub(super) fn open(
        directory: Arc<Directory>,
    ) -> Result<(SnapshotFile, Option<Content>), QuorumError> {
        let present = watch::Sender::default();
        let file = SnapshotFile { directory, present, placing: Arc::default() };
        let content = match file.directory.has(SNAPSHOT_FILE)? {
            true => Some(file.read(&file.data(SNAPSHOT_FILE)?)?),
            false => None,
        };
        let meta = content.as_ref().map(|content| content.meta.clone());
        file.present.send_replace(Present { meta, has_failed: false });
        Ok((file, content))
    }

    /// The snapshot, if one was ever written, for somebody who reads it later. It stays readable when
    /// the next one takes its name.
    pub(super) fn current(&self) -> Result<Option<(SnapshotMeta, SnapshotData)>, QuorumError> {
        let _placing = self.lock_placing();
        let Some(meta) = self.present.borrow().meta.clone() else { return Ok(None) };
        Ok(Some((meta, self.data(SNAPSHOT_FILE)?)))
    }

    /// Makes an image the snapshot, unless a newer one is there by now.
    pub(super) fn write(&self, content: &Content) -> Result<SnapshotData, QuorumError> {
        let _placing = self.lock_placing();
        if self.present.borrow().last_log_id() <= content.meta.last_log_id {
            let path = self.path(NEW_FILE_NAME);
            let write = || -> io::Result<()> {
                let file = self.directory.fs.open(&path, OpenMode::CreateTruncate)?;
                encode(content, &*file)?;
                file.sync_all()
            };
            let written = self.directory.space.write_aside(write);
            written.map_err(QuorumError::io("write", &path))?;
            self.put_in_place(NEW_FILE_NAME, &content.meta)?;
        }
        self.data(SNAPSHOT_FILE)
    }

    /// An empty file for what another node sends.
    pub(super) fn begin_receiving(&self) -> Result<SnapshotData, QuorumError> {
        let path = self.path(RECEIVED_FILE_NAME);
        let fs = &self.directory.fs;
        let file = fs.open(&path, OpenMode::CreateTruncate);
        let file = file.map_err(QuorumError::io("create", &path))?;
        SnapshotData::new(file, path)
    }

    /// Makes what came from another node the snapshot. `before` is done when it is known to be whole and
    /// right, before it takes its name.
    pub(super) fn install(
        &self,
        meta: &SnapshotMeta,
        data: &SnapshotData,
        before: impl FnOnce(LogId) -> Result<(), QuorumError>,
    ) -> Result<Content, QuorumError> {
        let installed = self.try_install(meta, data, before);
        if installed.is_err() {
            self.present.send_modify(|present| present.has_failed = true);
        }
        installed
    }

    fn try_install(
        &self,
        meta: &SnapshotMeta,
        data: &SnapshotData,
        before: impl FnOnce(LogId) -> Result<(), QuorumError>,
    ) -> Result<Content, QuorumError> {
        let content = self.read(data)?;
        if content.meta != *meta {
            return Err(self.error("it is not the one that was announced".to_owned()));
        }
        let _placing = self.lock_placing();
        if self.present.borrow().last_log_id() > meta.last_log_id {
            return Ok(content);
        }
        let data = match data.path == self.path(RECEIVED_FILE_NAME) {
            true => data.clone(),
            false => self.copy(data)?,
        };
        data.file.sync_all().map_err(QuorumError::io("sync", &data.path))?;
        if let Some(log_id) = meta.last_log_id {
            before(log_id)?;
        }
        self.put_in_place(RECEIVED_FILE_NAME, meta)?;
        Ok(content)
    }

    /// Waits until the snapshot on stable storage has an entry, so that the log may drop it.
    ///
    /// openraft tells the log to purge what a snapshot from the leader covers while the state machine
    /// is still installing it. A power cut in between would leave neither.
    pub(super) async fn wait_for(&self, log_id: LogId) -> Result<(), QuorumError> {
        let mut present = self.present.subscribe();
        let is_there = |present: &Present| present.last_log_id() >= Some(log_id);
        let settled = present.wait_for(|present| is_there(present) || present.has_failed).await;
        match settled {
            Ok(present) if is_there(&present) => Ok(()),
            _ => Err(self.error("it could not be put in place".to_owned())),
        }
    }

    fn put_in_place(&self, name: &str, meta: &SnapshotMeta) -> Result<(), QuorumError> {
        let path = self.path(name);
        let renamed = self.directory.fs.rename(&path, &self.path(SNAPSHOT_FILE));
        renamed.map_err(QuorumError::io("rename", &path))?;
        self.directory.sync()?;
        self.present.send_modify(|present| present.meta = Some(meta.clone()));
        Ok(())
    }

    fn copy(&self, data: &SnapshotData) -> Result<SnapshotData, QuorumError> {
        let copy = self.begin_receiving()?;
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut offset = 0;
        loop {
            let read = data.read_at(&mut buffer, offset)?;
            if read == 0 {
                return Ok(copy);
            }
            copy.write_at(&buffer[..read], offset)?;
            offset += read as u64;
        }
    }

    /// Reads a snapshot, and checks that it is whole, unchanged and of a format that is known.
    fn read(&self, data: &SnapshotData) -> Result<Content, QuorumError> {
        decode(data).map_err(|reason| self.error(reason))
    }

    fn data(&self, name: &str) -> Result<SnapshotData, QuorumError> {
        let path = self.path(name);
        let file = self.directory.fs.open(&path, OpenMode::Read);
        SnapshotData::new(file.map_err(QuorumError::io("open", &path))?, path)
    }

    fn error(&self, reason: String) -> QuorumError {
        QuorumError::Snapshot { path: self.path(SNAPSHOT_FILE), reason }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path.join(name)
    }

    fn lock_placing(&self) -> MutexGuard<'_, ()> {
        // A panic while writing leaves at worst a file that the next write replaces.
        self.placing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lines on their way to a file.
struct LineWriter<'f> {
    file: &'f dyn File,
    digest: Digest,
    buffer: Vec<u8>,
    written: u64,
}

impl LineWriter<'_> {
    fn push(&mut self, value: &impl Serialize) -> io::Result<()> {
        let begin = self.buffer.len();
        serde_json::to_writer(&mut self.buffer, value)?;
        self.buffer.push(b'\n');
        self.digest.update(&self.buffer[begin..]);
        if self.buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_all_at(&[IoSlice::new(&self.buffer)], self.written)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

fn encode(content: &Content, file: &dyn File) -> io::Result<()> {
    let digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    let mut lines = LineWriter { file, digest, buffer: Vec::new(), written: 0 };
    let records = content.image.to_records();
    lines.push(&Header {
        format: FORMAT.to_owned(),
        meta: content.meta.clone(),
        image_at: Some(content.image_at),
        recent: Some(content.recent.to_record()),
    })?;
    for record in &records {
        lines.push(record)?;
    }
    let crc32c = lines.digest.finalize();
    lines.push(&Trailer { records: records.len(), crc32c })?;
    lines.flush()
}

/// What a snapshot holds, or what is wrong with it.
pub(super) fn decode(data: &SnapshotData) -> Result<Content, String> {
    let mut lines = LineReader::new(data);
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    let mut reading = Reading::default();
    let Some(mut line) = lines.next()? else { return Err("it is empty".to_owned()) };
    // The last line is known as such when nothing follows it.
    while let Some(next) = lines.next()? {
        digest.update(&line);
        reading.take(&line);
        line = next;
    }
    let trailer: Trailer =
        serde_json::from_slice(&line).map_err(|error| format!("its last line: {error}"))?;
    if digest.finalize() != trailer.crc32c {
        return Err("its checksum does not match its content".to_owned());
    }
    reading.finish(trailer.records)
}

/// A snapshot, as far as it has been read.
#[derive(Default)]
struct Reading {
    header: Option<Header>,
    image: MetadataImage,
    waiting: Vec<MetadataRecord>,
    records: usize,
    /// The first thing that could not be read. What is damaged should be called that, so this is told
    /// when the checksum is known to be right.
    problem: Option<String>,
}

impl Reading {
    fn take(&mut self, line: &[u8]) {
        if self.problem.is_none() {
            self.problem = self.try_take(line).err();
        }
    }

    fn try_take(&mut self, line: &[u8]) -> Result<(), String> {
        if self.header.is_none() {
            let header: Header =
                serde_json::from_slice(line).map_err(|error| format!("its first line: {error}"))?;
            if header.format != FORMAT {
                let format = header.format;
                return Err(format!("its format '{format}' is not one this version reads"));
            }
            self.header = Some(header);
            return Ok(());
        }
        self.records += 1;
        let record = serde_json::from_slice(line);
        self.waiting.push(record.map_err(|error| format!("line {}: {error}", self.records + 1))?);
        if self.waiting.len() >= RECORDS_AT_ONCE { self.apply() } else { Ok(()) }
    }

    fn apply(&mut self) -> Result<(), String> {
        self.image = self.image.apply(&self.waiting).map_err(|error| error.to_string())?;
        self.waiting.clear();
        Ok(())
    }

    fn finish(mut self, records: usize) -> Result<Content, String> {
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        self.apply()?;
        if self.records != records {
            return Err(format!("it has {} records instead of {records}", self.records));
        }
        let Header { meta, image_at, recent, .. } = self.header.ok_or("it is cut off")?;
        let last = meta.last_log_id.map_or(0, |id| id.index);
        let recent = RecentCommands::from_record(recent.unwrap_or_default());
        Ok(Content { meta, image: self.image, image_at: image_at.unwrap_or(last), recent })
    }
}
