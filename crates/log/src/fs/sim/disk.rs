//! The state of a simulated file system, behind its one lock.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use logway_model::TimestampMs;
use rustix::io::Errno;

use super::content::Content;
use super::fault::{Failure, Fault, SimOperation, strike};
use super::holds::Holds;
use super::rng::Rng;
use super::tree::{NodeId, Tree};

/// A disk with its page cache.
#[derive(Debug)]
pub(super) struct Disk {
    pub(super) tree: Tree,
    files: BTreeMap<NodeId, OpenableFile>,
    pub(super) faults: Vec<Fault>,
    pub(super) locks: BTreeSet<PathBuf>,
    pub(super) capacity_bytes: u64,
    used_bytes: u64,
    /// How many operations that change something were begun.
    pub(super) changes: u64,
    /// The one of them at which the machine stops.
    pub(super) crash_at: Option<u64>,
    pub(super) crashed: bool,
    /// The one of them at which the file system stops.
    pub(super) stop_at: Option<u64>,
    pub(super) stopped: bool,
    pub(super) holds: Holds,
    /// How many power cuts there were.
    pub(super) cache_life: u64,
    rng: Rng,
}

#[derive(Debug, Clone)]
struct OpenableFile {
    content: Content,
    /// A disk has no clock: what nobody has dated is always new.
    modified: TimestampMs,
    handles: usize,
    named: bool,
    /// How many of its syncs failed. Each handle is told once of those since it was opened.
    failed_syncs: u64,
}

impl OpenableFile {
    fn named(content: Content) -> OpenableFile {
        let modified = TimestampMs(i64::MAX);
        OpenableFile { content, modified, handles: 0, named: true, failed_syncs: 0 }
    }
}

impl Disk {
    pub(super) fn new(seed: u64, capacity_bytes: u64) -> Disk {
        Disk {
            tree: Tree::new(),
            files: BTreeMap::new(),
            faults: Vec::new(),
            locks: BTreeSet::new(),
            capacity_bytes,
            used_bytes: 0,
            changes: 0,
            crash_at: None,
            crashed: false,
            stop_at: None,
            stopped: false,
            holds: Holds::default(),
            cache_life: 0,
            rng: Rng::new(seed),
        }
    }

    /// Begins an operation; an error if the machine is down or goes down now.
    pub(super) fn begin(
        &mut self,
        operation: SimOperation,
        path: &Path,
    ) -> io::Result<Option<Failure>> {
        if self.crashed {
            return Err(crash_error());
        }
        if !operation.is_change() {
            return Ok(strike(&mut self.faults, operation, path));
        }
        self.changes += 1;
        if self.crash_at == Some(self.changes) {
            self.crashed = true;
        }
        let failure = self.stop(operation).or_else(|| strike(&mut self.faults, operation, path));
        let (number, path) = (self.changes, path.display());
        tracing::trace!(number, ?operation, %path, ?failure, self.crashed, "a change");
        Ok(failure)
    }

    /// What becomes of a change that is made when the file system stops, or later.
    fn stop(&mut self, operation: SimOperation) -> Option<Failure> {
        let is_now = self.stop_at == Some(self.changes);
        self.stopped |= is_now;
        match operation {
            _ if !self.stopped => None,
            SimOperation::SyncDir if is_now => Some(Failure::Ignored),
            _ => Some(Failure::Io),
        }
    }

    /// As [`Disk::begin_whole`], where an operation that can change something does not.
    pub(super) fn begin_look(&mut self, operation: SimOperation, path: &Path) -> io::Result<()> {
        if self.crashed {
            return Err(crash_error());
        }
        let failure = strike(&mut self.faults, operation, path);
        failure.and_then(Failure::error).map_or(Ok(()), Err)
    }

    /// Begins an operation that does nothing if it fails.
    pub(super) fn begin_whole(&mut self, operation: SimOperation, path: &Path) -> io::Result<()> {
        self.begin_change(operation, path).map(drop)
    }

    /// As [`Disk::begin_whole`], and says whether the operation is to be done: not if it is ignored.
    pub(super) fn begin_change(
        &mut self,
        operation: SimOperation,
        path: &Path,
    ) -> io::Result<bool> {
        let failure = self.begin(operation, path)?;
        match failure.and_then(Failure::error) {
            Some(error) => Err(error),
            None if self.crashed => Err(crash_error()),
            None => Ok(failure != Some(Failure::Ignored)),
        }
    }

    pub(super) fn free_bytes(&self) -> u64 {
        self.capacity_bytes.saturating_sub(self.used_bytes)
    }

    /// The content of a file that has a name.
    pub(super) fn named_file(&mut self, path: &Path) -> io::Result<&mut Content> {
        let node = self.tree.find(path)?;
        let file = self.files.get_mut(&node).ok_or(io::ErrorKind::IsADirectory)?;
        Ok(&mut file.content)
    }

    pub(super) fn content(&self, node: NodeId) -> &Content {
        &self.files[&node].content
    }

    pub(super) fn modified(&self, node: NodeId) -> TimestampMs {
        self.files[&node].modified
    }

    pub(super) fn set_modified(&mut self, node: NodeId, modified: TimestampMs) {
        self.file(node).modified = modified;
    }

    pub(super) fn add_file(&mut self, node: NodeId) {
        self.files.insert(node, OpenableFile::named(Content::default()));
    }

    /// Counts a new handle.
    pub(super) fn open_handle(&mut self, node: NodeId) {
        self.file(node).handles += 1;
    }

    /// Counts a handle that is closed; the last one of a removed file gives back its space.
    pub(super) fn close_handle(&mut self, node: NodeId) {
        let file = self.file(node);
        file.handles -= 1;
        self.release_if_unused(node);
    }

    /// Follows the removal of a file's name.
    ///
    /// The content stays, because a crash may bring the name back.
    pub(super) fn unname(&mut self, node: NodeId) {
        self.file(node).named = false;
        self.release_if_unused(node);
    }

    fn release_if_unused(&mut self, node: NodeId) {
        let file = &self.files[&node];
        if file.handles == 0 && !file.named {
            self.used_bytes -= file.content.len() as u64;
        }
    }

    /// Writes as far as the space, a failure or the crash lets it, and says what stopped it.
    pub(super) fn write(
        &mut self,
        node: NodeId,
        bytes: &[u8],
        position: u64,
        failure: Option<Failure>,
    ) -> io::Result<()> {
        let end_max = self.content(node).len() as u64 + self.free_bytes();
        let room = usize::try_from(end_max.saturating_sub(position)).unwrap_or(usize::MAX);
        let stopped = if self.crashed {
            Some(crash_error())
        } else {
            let full = (room < bytes.len()).then(|| Errno::NOSPC.into());
            failure.and_then(Failure::error).or(full)
        };
        let mut written = bytes.len().min(room);
        if self.crashed || failure.and_then(Failure::error).is_some() {
            written = self.rng.below(written + 1);
        }
        if written > 0 {
            let position = usize::try_from(position).expect("it is within the capacity");
            self.resize(node, |content| content.write(&bytes[..written], position));
        }
        stopped.map_or(Ok(()), Err)
    }

    pub(super) fn set_len(&mut self, node: NodeId, len_bytes: u64) -> io::Result<()> {
        if len_bytes > self.content(node).len() as u64 + self.free_bytes() {
            return Err(Errno::NOSPC.into());
        }
        let len = usize::try_from(len_bytes).expect("it is within the capacity");
        self.resize(node, |content| content.set_len(len));
        Ok(())
    }

    /// How many syncs of a file have failed.
    pub(super) fn failed_syncs(&self, node: NodeId) -> u64 {
        self.files[&node].failed_syncs
    }

    /// Syncs a file through a handle that was told of the failures up to `told`.
    ///
    /// As on Linux, a failure that another handle's sync met is reported to this one once, by a
    /// sync that does write what is dirty now; a handle opened after the failure hears nothing
    /// of it.
    pub(super) fn sync(
        &mut self,
        node: NodeId,
        told: &mut u64,
        failure: Option<Failure>,
    ) -> io::Result<()> {
        if self.crashed {
            return Err(crash_error());
        }
        let mut error = failure.and_then(Failure::error);
        let mut rng = self.rng.clone();
        let file = self.file(node);
        match error {
            None if failure == Some(Failure::Ignored) => return Ok(()),
            None => file.content.sync(),
            Some(_) => {
                file.content.fail_sync(&mut rng);
                file.failed_syncs += 1;
            }
        }
        if *told != file.failed_syncs {
            *told = file.failed_syncs;
            error = error.or(Some(Errno::IO.into()));
        }
        self.rng = rng;
        error.map_or(Ok(()), Err)
    }

    /// Syncs the names in a directory. After a failure what was new is durable or never will be.
    pub(super) fn sync_dir(&mut self, path: &Path) -> io::Result<()> {
        let failure = self.begin(SimOperation::SyncDir, path)?;
        if self.crashed {
            return Err(crash_error());
        }
        let dir = self.tree.find(path)?;
        if !self.tree.is_dir(dir) {
            return Err(Errno::NOTDIR.into());
        }
        match failure {
            None | Some(Failure::FlippedBit | Failure::ShortRead) => self.tree.sync(dir),
            // It could not even be opened, or nobody tried.
            Some(Failure::Invalid | Failure::NoDescriptors | Failure::Ignored) => {}
            Some(Failure::Io | Failure::NoSpace) => self.tree.fail_sync(dir, &mut self.rng),
        }
        failure.and_then(Failure::error).map_or(Ok(()), Err)
    }

    /// How much a short read gives of so many bytes.
    pub(super) fn choose_part(&mut self, bytes: usize) -> usize {
        if bytes < 2 { bytes } else { 1 + self.rng.below(bytes - 1) }
    }

    /// A bit of a buffer of this many bytes.
    pub(super) fn choose_bit(&mut self, bytes: usize) -> (usize, u8) {
        (self.rng.below(bytes), 1 << self.rng.below(8))
    }

    /// The disk as it is found after a power cut.
    pub(super) fn after_crash(&mut self) -> Disk {
        self.crashed = true;
        let tree = self.tree.after_crash(&mut self.rng);
        let mut survivor = Disk::new(self.rng.next_u64(), self.capacity_bytes);
        survivor.cache_life = self.cache_life + 1;
        for node in tree.reachable() {
            let Some(file) = self.files.get(&node) else { continue };
            let content = file.content.after_crash(&mut self.rng);
            survivor.used_bytes += content.len() as u64;
            let survived = OpenableFile { modified: file.modified, ..OpenableFile::named(content) };
            survivor.files.insert(node, survived);
        }
        survivor.tree = tree;
        survivor
    }

    /// The disk, with its page cache, as the next process finds it after this one was killed.
    pub(super) fn after_kill(&mut self) -> Disk {
        self.crashed = true;
        let mut survivor = Disk::new(self.rng.next_u64(), self.capacity_bytes);
        survivor.cache_life = self.cache_life;
        survivor.used_bytes = self.used_bytes;
        survivor.tree = self.tree.clone();
        survivor.files = self.files.clone();
        for file in survivor.files.values_mut() {
            if file.handles > 0 && !file.named {
                survivor.used_bytes -= file.content.len() as u64;
            }
            file.handles = 0;
        }
        survivor
    }

    fn resize(&mut self, node: NodeId, change: impl FnOnce(&mut Content)) {
        let content = &mut self.file(node).content;
        let before = content.len() as u64;
        change(content);
        let after = content.len() as u64;
        self.used_bytes = self.used_bytes + after - before;
    }

    fn file(&mut self, node: NodeId) -> &mut OpenableFile {
        self.files.get_mut(&node).expect("a file that somebody knows is kept")
    }
}

/// What every operation fails with once the machine is down.
pub(super) fn crash_error() -> io::Error {
    io::Error::other("the simulated machine has crashed")
}
