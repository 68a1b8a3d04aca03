//! The log's file: numbered entries and a few named values, in one redb database.
//!
//! | table     | key         | value                                                        |
//! |-----------|-------------|--------------------------------------------------------------|
//! | `entries` | index (u64) | the entry as JSON: its log id, and records or a membership   |
//! | `state`   | `format`    | `1`, the version of this layout                              |
//! |           | `node_id`   | whose log it is                                              |
//! |           | `vote`      | the vote as JSON                                             |
//! |           | `purged`    | the id of the last entry that was dropped at the front       |
//! |           | `origin`    | `joined` where the node was to join a cluster; else nothing  |
//! |           | `installing`| the last entry of the last snapshot from another node        |
//! |           | `committed` | the id of an entry up to which all is known to be committed  |
//!
//! Every change is one transaction, on stable storage when the call returns, except where
//! [`Durability::None`] is asked for: such a change is kept with the next one that is synced.

use std::fmt::Display;
use std::ops::RangeBounds;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use logway_log::fs::OpenMode;
use logway_model::BrokerId;
use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};

use crate::directory::{Directory, LOG_FILE, SNAPSHOT_FILE};
use crate::error::QuorumError;
use crate::options::Start;
use crate::redb_file::RedbFile;

const ENTRIES: TableDefinition<u64, &[u8]> = TableDefinition::new("entries");
const STATE: TableDefinition<&str, &[u8]> = TableDefinition::new("state");

const FORMAT: &str = "format";
const FORMAT_VERSION: &[u8] = b"1";
const NODE_ID: &str = "node_id";
const ORIGIN: &str = "origin";
const JOINED: &[u8] = b"joined";

const NEW_FILE_NAME: &str = "log.redb.new";

/// Entries are read once, when they are applied, so there is little to gain from a cache.
const CACHE_BYTES: usize = 1 << 20;

type EntriesTable<'t> = redb::Table<'t, u64, &'static [u8]>;
type StateTable<'t> = redb::Table<'t, &'static str, &'static [u8]>;

/// The open log. Every call may wait for the disk.
pub(crate) struct LogFile {
    // Comes before the directory, so that it is closed before the directory's lock is let go.
    database: Database,
    path: PathBuf,
    directory: Arc<Directory>,
}

impl LogFile {
    /// Opens the log in a directory, or creates an empty one for a node.
    pub(crate) fn open(
        directory: Arc<Directory>,
        node_id: BrokerId,
        start: Start,
    ) -> Result<LogFile, QuorumError> {
        let path = directory.path.join(LOG_FILE);
        match directory.has(LOG_FILE)? {
            true => {
                let log = LogFile::open_file(directory, path, OpenMode::ReadWrite)?;
                log.check_owner(node_id)?;
                Ok(log)
            }
            false if directory.has(SNAPSHOT_FILE)? => {
                let reason = "it is gone, and the snapshot that is there knows only a part of the \
                              metadata: put it back";
                Err(log_error(&path, reason))
            }
            false => LogFile::create(directory, path, node_id, start),
        }
    }

    /// Creates the log under another name and gives it its own once it is whole, so that a crash
    /// leaves no half of a log.
    fn create(
        directory: Arc<Directory>,
        path: PathBuf,
        node_id: BrokerId,
        start: Start,
    ) -> Result<LogFile, QuorumError> {
        let new_path = directory.path.join(NEW_FILE_NAME);
        let mut log = LogFile::open_file(directory, new_path, OpenMode::CreateTruncate)?;
        log.write(Durability::Immediate, |_, state| {
            state.insert(FORMAT, FORMAT_VERSION)?;
            state.insert(NODE_ID, node_id.to_string().as_bytes())?;
            if start == Start::Join {
                state.insert(ORIGIN, JOINED)?;
            }
            Ok(())
        })?;
        let fs = &log.directory.fs;
        fs.rename(&log.path, &path).map_err(QuorumError::io("rename", &log.path))?;
        log.directory.sync()?;
        log.path = path;
        Ok(log)
    }

    fn open_file(
        directory: Arc<Directory>,
        path: PathBuf,
        mode: OpenMode,
    ) -> Result<LogFile, QuorumError> {
        let file = directory.fs.open(&path, mode).map_err(QuorumError::io("open", &path))?;
        let file = RedbFile::new(file, Arc::clone(&directory.space))
            .map_err(QuorumError::io("open", &path))?;
        let database = redb::Builder::new()
            .set_cache_size(CACHE_BYTES)
            // What something else wrote into the file must be an error here, not a panic later.
            .set_check_integrity_on_open(mode != OpenMode::CreateTruncate)
            .create_with_backend(file)
            .map_err(|error| log_error(&path, error))?;
        Ok(LogFile { database, path, directory })
    }

    /// Adds entries, or replaces the ones that have their numbers.
    pub(crate) fn append(
        &self,
        durability: Durability,
        entries: &[(u64, Vec<u8>)],
    ) -> Result<(), QuorumError> {
        self.write(durability, |table, _| {
            for (index, entry) in entries {
                table.insert(index, entry.as_slice())?;
            }
            Ok(())
        })
    }

    /// Drops the entries from an index on.
    pub(crate) fn truncate(&self, from: u64) -> Result<(), QuorumError> {
        self.write(Durability::Immediate, |entries, _| Ok(entries.retain_in(from.., |_, _| false)?))
    }

    /// Drops the entries up to and including an index, and keeps a value about them.
    pub(crate) fn purge(&self, to: u64, key: &str, value: &[u8]) -> Result<(), QuorumError> {
        self.write(Durability::Immediate, |entries, state| {
            state.insert(key, value)?;
            Ok(entries.retain_in(..=to, |_, _| false)?)
        })
    }

    /// The entries of a range that there are, in order.
    pub(crate) fn entries(
        &self,
        range: impl RangeBounds<u64>,
    ) -> Result<Vec<(u64, Vec<u8>)>, QuorumError> {
        let read = || -> Result<_, redb::Error> {
            let entries = self.database.begin_read()?.open_table(ENTRIES)?;
            let mut found = Vec::new();
            for entry in entries.range(range)? {
                let (index, entry) = entry?;
                found.push((index.value(), entry.value().to_vec()));
            }
            Ok(found)
        };
        read().map_err(|error| self.error(error))
    }

    /// The first entries of a range, of so many bytes together, but one at least.
    pub(crate) fn entries_within(
        &self,
        range: impl RangeBounds<u64>,
        bytes_max: usize,
    ) -> Result<Vec<(u64, Vec<u8>)>, QuorumError> {
        let read = || -> Result<_, redb::Error> {
            let entries = self.database.begin_read()?.open_table(ENTRIES)?;
            let (mut found, mut bytes) = (Vec::new(), 0);
            for entry in entries.range(range)? {
                let (index, entry) = entry?;
                bytes += entry.value().len();
                if bytes > bytes_max && !found.is_empty() {
                    break;
                }
                found.push((index.value(), entry.value().to_vec()));
            }
            Ok(found)
        };
        read().map_err(|error| self.error(error))
    }

    /// Whether the log was made for a node that joins a cluster. Such a node never founds one.
    pub(crate) fn has_joined(&self) -> Result<bool, QuorumError> {
        Ok(self.value(ORIGIN)?.as_deref() == Some(JOINED))
    }

    /// The last entry, if there is any.
    pub(crate) fn last_entry(&self) -> Result<Option<(u64, Vec<u8>)>, QuorumError> {
        let read = || -> Result<_, redb::Error> {
            let entries = self.database.begin_read()?.open_table(ENTRIES)?;
            let last = entries.last()?;
            Ok(last.map(|(index, entry)| (index.value(), entry.value().to_vec())))
        };
        read().map_err(|error| self.error(error))
    }

    /// A named value.
    pub(crate) fn value(&self, key: &str) -> Result<Option<Vec<u8>>, QuorumError> {
        let read = || -> Result<_, redb::Error> {
            let state = self.database.begin_read()?.open_table(STATE)?;
            Ok(state.get(key)?.map(|value| value.value().to_vec()))
        };
        read().map_err(|error| self.error(error))
    }

    /// Sets a named value.
    pub(crate) fn set_value(
        &self,
        durability: Durability,
        key: &str,
        value: &[u8],
    ) -> Result<(), QuorumError> {
        self.write(durability, |_, state| {
            state.insert(key, value)?;
            Ok(())
        })
    }

    /// An error about this log.
    pub(crate) fn error(&self, reason: impl Display) -> QuorumError {
        log_error(&self.path, reason)
    }

    fn check_owner(&self, node_id: BrokerId) -> Result<(), QuorumError> {
        let format = self.value(FORMAT)?.unwrap_or_default();
        if format != FORMAT_VERSION {
            let format = String::from_utf8_lossy(&format).into_owned();
            return Err(self.error(format!("its format '{format}' is not one this version reads")));
        }
        let stored = self.value(NODE_ID)?.unwrap_or_default();
        if stored != node_id.to_string().as_bytes() {
            return Err(QuorumError::NodeIdChanged {
                path: self.directory.path.clone(),
                stored: String::from_utf8_lossy(&stored).into_owned(),
                configured: node_id,
            });
        }
        Ok(())
    }

    fn write(
        &self,
        durability: Durability,
        change: impl FnOnce(&mut EntriesTable<'_>, &mut StateTable<'_>) -> Result<(), redb::Error>,
    ) -> Result<(), QuorumError> {
        let write = || -> Result<(), redb::Error> {
            let mut transaction = self.database.begin_write()?;
            transaction.set_durability(durability)?;
            {
                let mut entries = transaction.open_table(ENTRIES)?;
                let mut state = transaction.open_table(STATE)?;
                change(&mut entries, &mut state)?;
            }
            Ok(transaction.commit()?)
        };
        write().map_err(|error| self.error(error))
    }
}

fn log_error(path: &Path, reason: impl Display) -> QuorumError {
    QuorumError::Log { path: path.to_owned(), reason: reason.to_string() }
}
