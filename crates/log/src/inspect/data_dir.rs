//! A log directory, looked at as a whole.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use logway_model::TopicPartition;

use super::checkpoint_check::CheckpointCheck;
use super::identity::Identity;
use super::journal_check;
use super::known::Known;
use super::partition_check::{self, CheckedPartition, FoundLog};
use super::repair::Change;
use super::root_files::RootFiles;
use super::{ExpectedLogs, Problem};
use crate::LogError;
use crate::checkpoint::MetaProperties;
use crate::fs::{FileLock, Fs};

/// The file whose lock keeps others away while a broker, or a repair, has the directory.
const LOCK_FILE: &str = ".lock";

/// How a directory is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// To be read, by nobody else: its lock is held, if it has one.
    Read,
    /// To be changed, too: its lock is held, and made if need be.
    Repair,
    /// To be read while a broker may be at work; what that is about to write looks unfinished.
    BesideBroker,
}

/// A log directory whose files are looked at, partition by partition, and in the end its own.
pub struct DataDir {
    fs: Arc<dyn Fs>,
    path: PathBuf,
    _lock: Option<FileLock>,
    files: RootFiles,
    expected: Option<ExpectedLogs>,
    found: BTreeMap<TopicPartition, FoundLog>,
}

impl DataDir {
    /// Takes a log directory.
    ///
    /// # Errors
    ///
    /// [`LogError::Locked`] if a broker has it and that is not allowed, [`LogError::Io`] if it
    /// cannot be listed or locked.
    pub fn open(fs: Arc<dyn Fs>, path: &Path, access: Access) -> Result<DataDir, LogError> {
        fs.read_dir(path).map_err(LogError::io("list", path))?;
        let files = RootFiles::read(&*fs, path)?;
        let lock = match access {
            Access::BesideBroker => None,
            Access::Repair if files.are_there() => Some(lock(&*fs, path)?),
            Access::Read | Access::Repair => lock_if_there(&*fs, path)?,
        };
        // What a broker wrote before it gave the lock up counts.
        let files = if lock.is_some() { RootFiles::read(&*fs, path)? } else { files };
        let (expected, found) = (None, BTreeMap::new());
        Ok(DataDir { fs, path: path.to_owned(), _lock: lock, files, expected, found })
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it says that it is a log directory.
    pub fn is_log_dir(&self) -> bool {
        self.files.are_there()
    }

    /// Whose directory it is, as far as it can be read.
    pub fn owner(&self) -> Option<MetaProperties> {
        self.files.owner.value().copied()
    }

    /// Has the logs compared with what the metadata says of them.
    pub fn expect(&mut self, expected: ExpectedLogs) {
        self.expected = Some(expected);
    }

    /// The directories of partitions that are in it.
    ///
    /// # Errors
    ///
    /// [`LogError::Io`] if the directory cannot be listed.
    pub fn partition_dirs(&self) -> Result<Vec<PathBuf>, LogError> {
        let entries = self.fs.read_dir(&self.path).map_err(LogError::io("list", &self.path))?;
        let is_partition = |name: &&str| TopicPartition::from_dir_name(name).is_some();
        let names = entries.iter().filter(|entry| entry.is_dir);
        let names = names.filter_map(|entry| entry.name.to_str().filter(is_partition));
        Ok(names.map(|name| self.path.join(name)).collect())
    }

    /// Looks at the files of a partition, in this directory or anywhere.
    ///
    /// # Errors
    ///
    /// [`LogError::Io`] if its directory cannot be listed; all else is a [`Problem`].
    pub fn check_partition(
        &mut self,
        dir: &Path,
        mut on_problem: impl FnMut(Problem),
    ) -> Result<CheckedPartition, LogError> {
        let name = dir.file_name().and_then(|name| name.to_str());
        let partition = name.and_then(TopicPartition::from_dir_name);
        let known = match &partition {
            Some(partition) if self.files.are_there() => {
                self.files.known_of(partition, self.expected.as_ref())
            }
            _ => Known::default(),
        };
        let checked = partition_check::check(&*self.fs, dir, known, &mut on_problem)?;
        if let Some(partition) = partition {
            self.found.insert(partition, checked.log);
        }
        Ok(checked)
    }

    /// Looks at the directory's own files, when all partitions have been looked at; returns what a
    /// repair does to them.
    pub fn check_files(&self, mut on_problem: impl FnMut(Problem)) -> Vec<Change> {
        let (fs, root) = (&*self.fs, &*self.path);
        if !self.files.are_there() && self.found.is_empty() {
            return Vec::new();
        }
        let identity = Identity {
            fs,
            root,
            owner: &self.files.owner.read,
            expected: self.expected.as_ref(),
            has_logs: !self.found.is_empty(),
        };
        let mut changes = identity.check(&mut on_problem);
        if self.files.are_there() && !self.files.is_clean {
            journal_check::check(fs, root, &mut on_problem);
        }
        let checkpoints = CheckpointCheck {
            fs,
            root,
            files: &self.files,
            found: &self.found,
            expected: self.expected.as_ref(),
            report: &mut on_problem,
        };
        changes.extend(checkpoints.run());
        changes
    }

    /// Does what a check has found to be done.
    ///
    /// # Errors
    ///
    /// As [`Change::carry_out`].
    pub fn carry_out(&self, change: &Change) -> Result<Option<PathBuf>, LogError> {
        change.carry_out(&self.fs)
    }
}

/// Takes the lock of a log directory. One without the file is nobody's, and a file system that is
/// only read keeps brokers away by itself.
fn lock_if_there(fs: &dyn Fs, root: &Path) -> Result<Option<FileLock>, LogError> {
    let path = root.join(LOCK_FILE);
    if !fs.exists(&path).map_err(LogError::io("look for", &path))? {
        return Ok(None);
    }
    match lock(fs, root) {
        Ok(lock) => Ok(Some(lock)),
        Err(LogError::Io { source, .. }) if source.kind() == io::ErrorKind::ReadOnlyFilesystem => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn lock(fs: &dyn Fs, root: &Path) -> Result<FileLock, LogError> {
    let path = root.join(LOCK_FILE);
    fs.lock(&path).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => LogError::Locked { dir: root.to_owned() },
        _ => LogError::io("lock", &path)(error),
    })
}
