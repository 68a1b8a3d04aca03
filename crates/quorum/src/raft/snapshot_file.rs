//! The snapshot on disk: text, one JSON value a line.
//!
//! | line   | content                                                                       |
//! |--------|-------------------------------------------------------------------------------|
//! | first  | `{"format":"logway-metadata-snapshot/1","meta":…}`: where in the log it stands |
//! | middle | a metadata record each                                                        |
//! | last   | `{"records":N,"crc32c":C}`: how many, and the CRC-32C of all bytes before this line |
//!
//! There is one snapshot. The next one is written beside it, synced and renamed over it, and only
//! then is the log before it dropped.

use std::io::IoSlice;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crc_fast::{CrcAlgorithm, checksum};
use logway_log::fs::{OpenMode, read_to_end};
use logway_metadata::{MetadataImage, MetadataRecord};
use serde::{Deserialize, Serialize};

use super::{LogId, SnapshotMeta};
use crate::directory::{Directory, SNAPSHOT_FILE};
use crate::error::QuorumError;

const NEW_FILE_NAME: &str = "snapshot.json.new";
const FORMAT: &str = "logway-metadata-snapshot/1";

/// Far more than the metadata of a cluster takes; a longer file is not a snapshot.
const SNAPSHOT_MAX_BYTES: usize = 1 << 30;

#[derive(Serialize, Deserialize)]
struct Header {
    format: String,
    meta: SnapshotMeta,
}

#[derive(Serialize, Deserialize)]
struct Trailer {
    records: usize,
    crc32c: u64,
}

/// A snapshot whose bytes are what was written; its records are not read yet.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) meta: SnapshotMeta,
    /// The file's bytes.
    pub(super) bytes: Vec<u8>,
}

/// The place of the snapshot. Calls may wait for the disk.
#[derive(Clone)]
pub(super) struct SnapshotFile {
    directory: Arc<Directory>,
    /// Where in the log the snapshot stands. Held while one is written, so that two do not write
    /// one file.
    present: Arc<Mutex<Option<LogId>>>,
}

impl SnapshotFile {
    /// The place in a directory, with the snapshot that is there.
    pub(super) fn open(
        directory: Arc<Directory>,
    ) -> Result<(SnapshotFile, Option<Snapshot>), QuorumError> {
        let file = SnapshotFile { directory, present: Arc::default() };
        let snapshot = file.read()?;
        *file.lock_present() = snapshot.as_ref().and_then(|snapshot| snapshot.meta.last_log_id);
        Ok((file, snapshot))
    }

    /// The snapshot, if one was ever written.
    pub(super) fn read(&self) -> Result<Option<Snapshot>, QuorumError> {
        let path = self.path();
        let fs = &self.directory.fs;
        if !fs.exists(&path).map_err(QuorumError::io("look for", &path))? {
            return Ok(None);
        }
        let file = fs.open(&path, OpenMode::Read).map_err(QuorumError::io("open", &path))?;
        let bytes =
            read_to_end(&*file, SNAPSHOT_MAX_BYTES).map_err(QuorumError::io("read", &path))?;
        self.check(bytes).map(Some)
    }

    /// Makes bytes that [`encode`] made the snapshot, unless a newer one is there by now.
    pub(super) fn write(&self, meta: &SnapshotMeta, bytes: &[u8]) -> Result<(), QuorumError> {
        let mut present = self.lock_present();
        if *present > meta.last_log_id {
            return Ok(());
        }
        let fs = &self.directory.fs;
        let new_path = self.directory.path.join(NEW_FILE_NAME);
        let write = || -> std::io::Result<()> {
            let file = fs.open(&new_path, OpenMode::CreateTruncate)?;
            file.write_all_at(&[IoSlice::new(bytes)], 0)?;
            file.sync_all()
        };
        let written = self.directory.space.write_aside(write);
        written.map_err(QuorumError::io("write", &new_path))?;
        fs.rename(&new_path, &self.path()).map_err(QuorumError::io("rename", &new_path))?;
        self.directory.sync()?;
        *present = meta.last_log_id;
        Ok(())
    }

    /// Takes bytes for a snapshot if they are what [`encode`] made.
    pub(super) fn check(&self, bytes: Vec<u8>) -> Result<Snapshot, QuorumError> {
        match check(&bytes) {
            Ok(meta) => Ok(Snapshot { meta, bytes }),
            Err(reason) => Err(self.error(reason)),
        }
    }

    /// The image that a snapshot's records make.
    pub(super) fn image(&self, snapshot: &Snapshot) -> Result<MetadataImage, QuorumError> {
        image(&snapshot.bytes).map_err(|reason| self.error(reason))
    }

    fn error(&self, reason: String) -> QuorumError {
        QuorumError::Snapshot { path: self.path(), reason }
    }

    fn path(&self) -> PathBuf {
        self.directory.path.join(SNAPSHOT_FILE)
    }

    fn lock_present(&self) -> MutexGuard<'_, Option<LogId>> {
        // A panic while writing leaves at worst a file that the next write replaces.
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bytes of a snapshot of an image.
pub(super) fn encode(
    meta: &SnapshotMeta,
    image: &MetadataImage,
) -> Result<Vec<u8>, serde_json::Error> {
    let records = image.to_records();
    let mut bytes = Vec::new();
    push_line(&mut bytes, &Header { format: FORMAT.to_owned(), meta: meta.clone() })?;
    for record in &records {
        push_line(&mut bytes, record)?;
    }
    let crc32c = checksum(CrcAlgorithm::Crc32Iscsi, &bytes);
    push_line(&mut bytes, &Trailer { records: records.len(), crc32c })?;
    Ok(bytes)
}

fn push_line(bytes: &mut Vec<u8>, value: &impl Serialize) -> Result<(), serde_json::Error> {
    serde_json::to_writer(&mut *bytes, value)?;
    bytes.push(b'\n');
    Ok(())
}

/// Checks the frame of a snapshot: that it is whole, unchanged and of a format that is known.
/// The error is what is wrong.
fn check(bytes: &[u8]) -> Result<SnapshotMeta, String> {
    let (content, trailer) = split_trailer(bytes).ok_or("it is cut off")?;
    let trailer: Trailer =
        serde_json::from_slice(trailer).map_err(|error| format!("its last line: {error}"))?;
    if checksum(CrcAlgorithm::Crc32Iscsi, content) != trailer.crc32c {
        return Err("its checksum does not match its content".to_owned());
    }
    let header = lines(content).next().unwrap_or_default();
    let header: Header =
        serde_json::from_slice(header).map_err(|error| format!("its first line: {error}"))?;
    if header.format != FORMAT {
        return Err(format!("its format '{}' is not one this version reads", header.format));
    }
    match lines(content).skip(1).count() {
        records if records == trailer.records => Ok(header.meta),
        records => Err(format!("it has {records} records instead of {}", trailer.records)),
    }
}

/// The image of a snapshot that was checked. The error is what is wrong with a record.
fn image(bytes: &[u8]) -> Result<MetadataImage, String> {
    let (content, _) = split_trailer(bytes).ok_or("it is cut off")?;
    let read = |(line, number)| {
        serde_json::from_slice(line).map_err(|error| format!("line {number}: {error}"))
    };
    let records: Result<Vec<MetadataRecord>, String> =
        lines(content).zip(1..).skip(1).map(read).collect();
    MetadataImage::default().apply(&records?).map_err(|error| error.to_string())
}

/// The last line, and all before it.
fn split_trailer(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let text = bytes.strip_suffix(b"\n")?;
    let end_of_content = text.iter().rposition(|&byte| byte == b'\n')?;
    Some(text.split_at(end_of_content + 1))
}

fn lines(content: &[u8]) -> impl Iterator<Item = &[u8]> {
    content.split_inclusive(|&byte| byte == b'\n')
}
