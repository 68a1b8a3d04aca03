//! What a test makes go wrong.

use std::io;
use std::path::{Path, PathBuf};
use std::thread;

use rustix::io::Errno;

/// A system call of the simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SimOperation {
    /// Opening or creating a file.
    Open,
    /// Reading from a file.
    Read,
    /// Writing to a file.
    Write,
    /// Syncing a file.
    Sync,
    /// Changing the length of a file.
    SetLen,
    /// Creating a directory.
    CreateDir,
    /// Removing a file or a directory.
    Remove,
    /// Renaming a file or a directory.
    Rename,
    /// Listing a directory.
    ReadDir,
    /// Syncing a directory.
    SyncDir,
    /// Asking in which life of the page cache this is.
    CacheLife,
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The disk reports an error (`EIO`). A write may have been done in part; after a sync, of a
    /// file or a directory, what was new is lost or not, and no later sync writes it.
    Io,
    /// The disk is full (`ENOSPC`).
    NoSpace,
    /// The file system cannot do that (`EINVAL`); nothing was tried.
    Invalid,
    /// The process has too many files open (`EMFILE`); nothing was tried.
    NoDescriptors,
    /// A read succeeds with one bit changed; the disk itself is right.
    FlippedBit,
    /// A read gives less than there is, but something.
    ShortRead,
    /// The call succeeds and nothing is done: a sync, a change of length, a rename or a removal that
    /// somebody forgot, or a disk that lies. A power cut does not end the life of the page cache.
    /// Other operations are done all the same.
    Ignored,
}

/// A failure that waits for its operation.
///
/// `Fault::new(SimOperation::Sync, Failure::Io).in_path(".log").after(2)` lets two syncs of
/// segments pass and fails all after them.
#[derive(Debug, Clone)]
pub struct Fault {
    operation: SimOperation,
    failure: Failure,
    paths: Paths,
    /// The name of the thread that is meant; `None` for all.
    thread: Option<String>,
    passes: u64,
    times: u64,
}

/// Which paths a fault means.
#[derive(Debug, Clone)]
enum Paths {
    With(String),
    Only(PathBuf),
}

impl Fault {
    /// A failure of every such operation.
    pub fn new(operation: SimOperation, failure: Failure) -> Fault {
        let paths = Paths::With(String::new());
        Fault { operation, failure, paths, thread: None, passes: 0, times: u64::MAX }
    }

    /// Only of those whose path contains `part`.
    #[must_use]
    pub fn in_path(mut self, part: &str) -> Fault {
        self.paths = Paths::With(part.to_owned());
        self
    }

    /// Only of those of this path.
    #[must_use]
    pub fn at_path(mut self, path: &Path) -> Fault {
        self.paths = Paths::Only(path.to_owned());
        self
    }

    /// Only of those that a thread of this name makes.
    #[must_use]
    pub fn on_thread(mut self, name: &str) -> Fault {
        self.thread = Some(name.to_owned());
        self
    }

    /// Only after `passes` of them have passed.
    #[must_use]
    pub fn after(mut self, passes: u64) -> Fault {
        self.passes = passes;
        self
    }

    /// Only `times` times.
    #[must_use]
    pub fn times(mut self, times: u64) -> Fault {
        self.times = times;
        self
    }

    /// Counts an operation, and says whether the fault strikes it.
    fn strikes(&mut self, operation: SimOperation, path: &Path) -> bool {
        let meant = self.operation == operation
            && self.times > 0
            && self.paths.have(path)
            && self.thread.as_deref().is_none_or(|name| thread::current().name() == Some(name));
        if !meant {
            return false;
        }
        if self.passes > 0 {
            self.passes -= 1;
            return false;
        }
        self.times -= 1;
        true
    }
}

impl Paths {
    fn have(&self, path: &Path) -> bool {
        match self {
            Paths::With(part) => path.to_string_lossy().contains(part),
            Paths::Only(only) => path == only,
        }
    }
}

impl SimOperation {
    /// Whether it changes something, so that the machine can stop in the middle of it.
    pub(super) fn is_change(self) -> bool {
        !matches!(self, SimOperation::Read | SimOperation::ReadDir | SimOperation::CacheLife)
    }
}

impl Failure {
    /// The error that the caller sees, if it sees one.
    pub(super) fn error(self) -> Option<io::Error> {
        match self {
            Failure::Io => Some(Errno::IO.into()),
            Failure::NoSpace => Some(Errno::NOSPC.into()),
            Failure::Invalid => Some(Errno::INVAL.into()),
            Failure::NoDescriptors => Some(Errno::MFILE.into()),
            Failure::FlippedBit | Failure::ShortRead | Failure::Ignored => None,
        }
    }
}

/// The failure that the first fault that is meant gives.
pub(super) fn strike(
    faults: &mut [Fault],
    operation: SimOperation,
    path: &Path,
) -> Option<Failure> {
    faults.iter_mut().find_map(|fault| fault.strikes(operation, path).then_some(fault.failure))
}
