//! What a test makes go wrong.

use std::io;
use std::path::Path;

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
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The disk reports an error (`EIO`). A write may have been done in part; after a sync, of a
    /// file or a directory, what was new is lost or not, and no later sync writes it.
    Io,
    /// The disk is full (`ENOSPC`).
    NoSpace,
    /// The process has too many files open (`EMFILE`); nothing was tried.
    NoDescriptors,
    /// A read succeeds with one bit changed; the disk itself is right.
    FlippedBit,
}

/// A failure that waits for its operation.
///
/// `Fault::new(SimOperation::Sync, Failure::Io).in_path(".log").after(2)` lets two syncs of
/// segments pass and fails all after them.
#[derive(Debug, Clone)]
pub struct Fault {
    operation: SimOperation,
    failure: Failure,
    path_part: String,
    passes: u64,
    times: u64,
}

impl Fault {
    /// A failure of every such operation.
    pub fn new(operation: SimOperation, failure: Failure) -> Fault {
        Fault { operation, failure, path_part: String::new(), passes: 0, times: u64::MAX }
    }

    /// Only of those whose path contains `part`.
    #[must_use]
    pub fn in_path(mut self, part: &str) -> Fault {
        part.clone_into(&mut self.path_part);
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
            && path.to_string_lossy().contains(&self.path_part);
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

impl Failure {
    /// The error that the caller sees; none for a flipped bit.
    pub(super) fn error(self) -> Option<io::Error> {
        match self {
            Failure::Io => Some(Errno::IO.into()),
            Failure::NoSpace => Some(Errno::NOSPC.into()),
            Failure::NoDescriptors => Some(Errno::MFILE.into()),
            Failure::FlippedBit => None,
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
