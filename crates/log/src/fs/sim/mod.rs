//! A simulated file system: memory that behaves as a disk does on its worst days.
//!
//! It keeps apart what programs see (the page cache) and what is on stable storage, for the
//! content of files as for the names in directories, and [`SimFs::crash`] gives the state that a
//! power cut leaves:
//!
//! - Bytes that were written and not synced survive or not, each sector or page for itself; the
//!   file's length is the synced one, the new one or one between.
//! - Names that were created, renamed or removed without a sync of their directory are as
//!   before or as after, each rename as a whole.
//! - After a failed sync the bytes or names concerned are lost or not, and later syncs do not
//!   write them. Each handle that was open then is told of it once, as by Linux; later ones never.
//!
//! Chance comes from one seed, so a run of one thread can be repeated, and one of several if they
//! [take turns](Turns). [`Fault`]s make single operations fail or do nothing,
//! [`SimFs::crash_at_change`] stops the machine at any point, [`SimFs::kill`] ends the process alone,
//! and [`SimFs::hold_syncs`] and [`SimFs::hold_renames_in`] make the disk slow for as long as a
//! test wants.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use super::{DirEntry, File, FileLock, Fs, OpenMode};
use disk::{Disk, crash_error};
use file::SimFile;
use tree::NodeId;

pub use fault::{Failure, Fault, SimOperation};
pub use rng::Rng;
pub use turns::Turns;

mod content;
mod disk;
mod fault;
mod file;
mod holds;
mod rng;
mod tasks;
mod tree;
mod turns;

/// A file system in memory, see [the module](self).
///
/// Clones are the same file system. Paths have no `..`; the current directory is the root.
#[derive(Clone)]
pub struct SimFs {
    disk: SharedDisk,
}

type SharedDisk = Arc<Shared>;

struct Shared {
    disk: Mutex<Disk>,
    /// Signalled when operations are let go, and when one begins to wait.
    holds_changed: Condvar,
    /// The order in which threads change something, if they take turns.
    turns: Option<Arc<Turns>>,
}

/// Enough for a test, and little enough that a wrong length does not exhaust the machine.
const CAPACITY_DEFAULT_BYTES: u64 = 1 << 30;

impl SimFs {
    /// An empty file system of 1 GiB.
    pub fn new(seed: u64) -> SimFs {
        SimFs::of(Disk::new(seed, CAPACITY_DEFAULT_BYTES), None)
    }

    /// An empty file system of 1 GiB that threads change in turns, as do those that come out of it.
    pub fn in_turns(seed: u64, turns: &Arc<Turns>) -> SimFs {
        SimFs::of(Disk::new(seed, CAPACITY_DEFAULT_BYTES), Some(Arc::clone(turns)))
    }

    fn of(disk: Disk, turns: Option<Arc<Turns>>) -> SimFs {
        let (disk, holds_changed) = (Mutex::new(disk), Condvar::new());
        SimFs { disk: Arc::new(Shared { disk, holds_changed, turns }) }
    }

    /// Cuts the power, and gives the file system as it is found at the next start.
    ///
    /// This one, and every file that is open in it, fails from now on. Faults do not live on.
    #[must_use]
    pub fn crash(&self) -> SimFs {
        let survivor = lock(&self.disk).after_crash();
        self.end_with(survivor)
    }

    /// Ends the process, and gives the file system as the next one finds it: with everything that
    /// was written, synced or not.
    ///
    /// This one, and every file that is open in it, fails from now on. Faults do not live on.
    #[must_use]
    pub fn kill(&self) -> SimFs {
        let survivor = lock(&self.disk).after_kill();
        self.end_with(survivor)
    }

    fn end_with(&self, survivor: Disk) -> SimFs {
        self.disk.holds_changed.notify_all();
        SimFs::of(survivor, self.disk.turns.clone())
    }

    /// Stops the machine in the middle of the `number`-th changing operation from now, 1 being
    /// the next: that one fails, done in part or not at all, and so does every later one.
    pub fn crash_at_change(&self, number: u64) {
        let mut disk = lock(&self.disk);
        disk.crash_at = Some(disk.changes + number);
    }

    /// Lets the machine run on: takes back [`SimFs::crash_at_change`].
    pub fn crash_never(&self) {
        lock(&self.disk).crash_at = None;
    }

    /// Stops the file system in the middle of the `number`-th changing operation from now, 1 being the next:
    /// that one fails and so does every later one, while the process goes on and reads what it has written.
    ///
    /// As with ext4 that finds an error in itself, a sync of a directory that is under way then succeeds all
    /// the same, and makes nothing durable. One of a file fails, as [`RealFs`](super::RealFs) sees to.
    pub fn stop_at_change(&self, number: u64) {
        let mut disk = lock(&self.disk);
        disk.stop_at = Some(disk.changes + number);
    }

    /// Whether the file system has stopped, while the machine has not.
    pub fn has_stopped(&self) -> bool {
        lock(&self.disk).stopped
    }

    /// How many changing operations (all but reads) there were; the upper bound for
    /// [`SimFs::crash_at_change`] in a second run.
    pub fn changes(&self) -> u64 {
        lock(&self.disk).changes
    }

    /// Whether the machine has stopped.
    pub fn has_crashed(&self) -> bool {
        lock(&self.disk).crashed
    }

    /// Adds a fault; of several that are meant the first added strikes.
    pub fn inject(&self, fault: Fault) {
        lock(&self.disk).faults.push(fault);
    }

    /// Removes all faults, and takes back [`SimFs::stop_at_change`].
    pub fn heal(&self) {
        let mut disk = lock(&self.disk);
        disk.faults.clear();
        disk.stop_at = None;
        disk.stopped = false;
    }

    /// Lets no sync of a file return until [`SimFs::release_syncs`] or a crash.
    ///
    /// What was written when a sync began becomes durable, what is written while it is held
    /// does not.
    pub fn hold_syncs(&self) {
        self.hold_syncs_in("");
    }

    /// As [`SimFs::hold_syncs`], of the files whose path contains `part`.
    pub fn hold_syncs_in(&self, part: &str) {
        lock(&self.disk).holds.hold(SimOperation::Sync, part);
    }

    /// Lets no sync of a file begin until [`SimFs::release_syncs`] or a crash, which takes what was to be synced.
    pub fn hang_syncs(&self) {
        lock(&self.disk).holds.syncs_hang = true;
    }

    /// Lets all syncs return.
    pub fn release_syncs(&self) {
        lock(&self.disk).holds.syncs_hang = false;
        self.release(SimOperation::Sync);
    }

    /// Waits until so many syncs are held at the same time.
    pub fn wait_for_held_syncs(&self, count: usize) {
        self.wait_for_held(SimOperation::Sync, count);
    }

    /// Lets no rename to a path that contains `part` begin until [`SimFs::release_renames`] or a
    /// crash.
    pub fn hold_renames_in(&self, part: &str) {
        lock(&self.disk).holds.hold(SimOperation::Rename, part);
    }

    /// Lets all renames begin.
    pub fn release_renames(&self) {
        self.release(SimOperation::Rename);
    }

    /// Waits until so many renames are held at the same time.
    pub fn wait_for_held_renames(&self, count: usize) {
        self.wait_for_held(SimOperation::Rename, count);
    }

    fn release(&self, operation: SimOperation) {
        lock(&self.disk).holds.release(operation);
        self.disk.holds_changed.notify_all();
    }

    fn wait_for_held(&self, operation: SimOperation, count: usize) {
        let disk = lock(&self.disk);
        let is_waiting = |disk: &mut Disk| disk.holds.waiting(operation) < count;
        drop(self.disk.holds_changed.wait_while(disk, is_waiting));
    }

    /// Sets the size of the disk.
    pub fn set_capacity_bytes(&self, capacity_bytes: u64) {
        lock(&self.disk).capacity_bytes = capacity_bytes;
    }

    /// Changes a bit of a file for good, as a worn disk does.
    pub fn flip_bit(&self, path: &Path, position: u64, bit: u8) -> io::Result<()> {
        let mut disk = lock(&self.disk);
        let content = disk.named_file(path)?;
        let position = usize::try_from(position).ok().filter(|&position| position < content.len());
        content.flip_bit(position.ok_or(io::ErrorKind::InvalidInput)?, bit);
        Ok(())
    }
}

fn lock(shared: &Shared) -> MutexGuard<'_, Disk> {
    shared.disk.lock().unwrap_or_else(PoisonError::into_inner)
}

/// As [`lock`], for an operation that changes something, when it is this thread's turn.
fn lock_for_turn(shared: &Shared) -> MutexGuard<'_, Disk> {
    if let Some(turns) = &shared.turns
        && !lock(shared).crashed
    {
        turns.take();
    }
    lock(shared)
}

/// Waits for as long as no sync begins.
fn wait_while_hanging<'a>(shared: &'a Shared, disk: MutexGuard<'a, Disk>) -> MutexGuard<'a, Disk> {
    let hangs = |disk: &mut Disk| disk.holds.syncs_hang && !disk.crashed;
    shared.holds_changed.wait_while(disk, hangs).unwrap_or_else(PoisonError::into_inner)
}

/// Waits for as long as such an operation on `path` is held.
fn wait_while_held<'a>(
    shared: &'a Shared,
    mut disk: MutexGuard<'a, Disk>,
    operation: SimOperation,
    path: &Path,
) -> io::Result<MutexGuard<'a, Disk>> {
    if !disk.holds.is_held(operation, path) {
        return Ok(disk);
    }
    disk.holds.begin_wait(operation);
    shared.holds_changed.notify_all();
    let is_held = |disk: &mut Disk| disk.holds.is_held(operation, path) && !disk.crashed;
    let mut disk =
        shared.holds_changed.wait_while(disk, is_held).unwrap_or_else(PoisonError::into_inner);
    disk.holds.end_wait(operation);
    if disk.crashed { Err(crash_error()) } else { Ok(disk) }
}

impl Fs for SimFs {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        let must_exist =
            matches!(mode, OpenMode::Read | OpenMode::ReadWrite | OpenMode::WriteDirect);
        let is_change = !must_exist;
        let mut disk = if is_change { lock_for_turn(&self.disk) } else { lock(&self.disk) };
        match is_change {
            true => disk.begin_whole(SimOperation::Open, path)?,
            false => disk.begin_look(SimOperation::Open, path)?,
        }
        let place = disk.tree.place(path)?;
        let node = match disk.tree.at(&place) {
            Some(node) if disk.tree.is_dir(node) => return Err(Errno::ISDIR.into()),
            Some(_) if mode == OpenMode::CreateNew => return Err(Errno::EXIST.into()),
            Some(node) => {
                if mode == OpenMode::CreateTruncate {
                    disk.set_len(node, 0)?;
                }
                node
            }
            None if must_exist => return Err(Errno::NOENT.into()),
            None => {
                let node = disk.tree.create(place, false);
                disk.add_file(node);
                node
            }
        };
        Ok(Arc::new(SimFile::open(&self.disk, &mut disk, node, path.to_owned(), mode)))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        let mut disk = lock_for_turn(&self.disk);
        disk.begin_whole(SimOperation::CreateDir, path)?;
        let mut above: Vec<&Path> = path.ancestors().collect();
        above.reverse();
        for dir in above {
            match disk.tree.find(dir) {
                Ok(node) if disk.tree.is_dir(node) => {}
                Ok(_) => return Err(Errno::EXIST.into()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let place = disk.tree.place(dir)?;
                    disk.tree.create(place, true);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut disk = lock_for_turn(&self.disk);
        if !disk.begin_change(SimOperation::Remove, path)? {
            return Ok(());
        }
        let node = disk.tree.find(path)?;
        if disk.tree.is_dir(node) {
            return Err(Errno::ISDIR.into());
        }
        remove_all(&mut disk, path, node)
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        let mut disk = lock_for_turn(&self.disk);
        if !disk.begin_change(SimOperation::Remove, path)? {
            return Ok(());
        }
        let node = disk.tree.find(path)?;
        if !disk.tree.is_dir(node) {
            return Err(Errno::NOTDIR.into());
        }
        remove_all(&mut disk, path, node)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let disk = lock_for_turn(&self.disk);
        let mut disk = wait_while_held(&self.disk, disk, SimOperation::Rename, to)?;
        if !disk.begin_change(SimOperation::Rename, to)? {
            return Ok(());
        }
        let node = disk.tree.find(from)?;
        let (from_place, to_place) = (disk.tree.place(from)?, disk.tree.place(to)?);
        let replaced = disk.tree.at(&to_place);
        if replaced == Some(node) {
            return Ok(());
        }
        if to.starts_with(from) {
            return Err(Errno::INVAL.into());
        }
        if let Some(replaced) = replaced {
            check_replaceable(&disk, node, replaced)?;
        }
        disk.tree.rename(from_place, to_place);
        if let Some(replaced) = replaced.filter(|&replaced| !disk.tree.is_dir(replaced)) {
            disk.unname(replaced);
        }
        Ok(())
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let mut disk = lock(&self.disk);
        disk.begin_whole(SimOperation::ReadDir, path)?;
        let dir = disk.tree.find(path)?;
        let entry = |(name, node): (&_, NodeId)| {
            let is_dir = disk.tree.is_dir(node);
            DirEntry { name: Clone::clone(name), is_dir }
        };
        Ok(disk.tree.entries(dir)?.map(entry).collect())
    }

    fn file_len(&self, path: &Path) -> io::Result<Option<u64>> {
        let mut disk = lock(&self.disk);
        disk.begin_whole(SimOperation::Read, path)?;
        match disk.named_file(path) {
            Ok(content) => Ok(Some(content.len() as u64)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        lock_for_turn(&self.disk).sync_dir(path)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let mut disk = lock(&self.disk);
        disk.begin_whole(SimOperation::Read, path)?;
        match disk.tree.find(path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn lock(&self, path: &Path) -> io::Result<FileLock> {
        drop(self.open(path, OpenMode::CreateOrOpen)?);
        if !lock(&self.disk).locks.insert(path.to_owned()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(FileLock::new(HeldLock { disk: Arc::clone(&self.disk), path: path.to_owned() }))
    }

    fn free_bytes(&self, _path: &Path) -> io::Result<u64> {
        let disk = lock(&self.disk);
        if disk.crashed { Err(crash_error()) } else { Ok(disk.free_bytes()) }
    }

    fn cache_life(&self, path: &Path) -> io::Result<Option<String>> {
        let mut disk = lock(&self.disk);
        let failure = disk.begin(SimOperation::CacheLife, path)?;
        if let Some(error) = failure.and_then(Failure::error) {
            return Err(error);
        }
        let node = disk.tree.find(path)?;
        let life = if failure == Some(Failure::Ignored) { 0 } else { disk.cache_life };
        Ok(Some(format!("{life} {node:?}")))
    }
}

/// Removes a node with all that is in it, the leaves first.
fn remove_all(disk: &mut Disk, path: &Path, node: NodeId) -> io::Result<()> {
    if disk.tree.is_dir(node) {
        let entries: Vec<_> =
            disk.tree.entries(node)?.map(|(name, node)| (path.join(name), node)).collect();
        for (path, node) in entries {
            remove_all(disk, &path, node)?;
        }
    } else {
        disk.unname(node);
    }
    let place = disk.tree.place(path)?;
    disk.tree.remove(place);
    Ok(())
}

/// Whether a rename may replace one node by another: a file a file, a directory an empty one.
fn check_replaceable(disk: &Disk, node: NodeId, replaced: NodeId) -> io::Result<()> {
    match (disk.tree.is_dir(node), disk.tree.is_dir(replaced)) {
        (false, false) => Ok(()),
        (true, true) if disk.tree.entries(replaced)?.next().is_none() => Ok(()),
        (true, true) => Err(Errno::NOTEMPTY.into()),
        (false, true) => Err(Errno::ISDIR.into()),
        (true, false) => Err(Errno::NOTDIR.into()),
    }
}

/// A lock, until it is dropped.
struct HeldLock {
    disk: SharedDisk,
    path: PathBuf,
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        lock(&self.disk).locks.remove(&self.path);
    }
}
