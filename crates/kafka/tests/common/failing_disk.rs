//! The real file system, on which one disk can fail or stand still.

use std::fs;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use logway_log::fs::{DirEntry, File, FileLock, Fs, OpenMode, RealFs};
use logway_model::TimestampMs;

/// The real file system. What lies under `disk` fails, or waits, from the moment on that the test
/// says.
#[derive(Clone)]
pub struct FailingDisk {
    disk: PathBuf,
    has_failed: Arc<AtomicBool>,
    hold: Arc<(Mutex<Option<Writes>>, Condvar)>,
    /// What the file contains whose renaming is reported to have failed.
    doubtful: Arc<Mutex<Option<String>>>,
    /// Which files find no space.
    full: Arc<Mutex<Option<String>>>,
}

const EIO: i32 = 5;

/// Which writes have to wait.
struct Writes {
    path_part: String,
    /// How many pass first.
    passes: usize,
    is_one_waiting: bool,
}

impl FailingDisk {
    pub fn new(disk: &Path) -> FailingDisk {
        FailingDisk {
            disk: disk.to_owned(),
            has_failed: Arc::default(),
            hold: Arc::default(),
            doubtful: Arc::default(),
            full: Arc::default(),
        }
    }

    /// The next renaming of a file that contains `text` is done, and fails all the same.
    pub fn doubt_renaming_of(&self, text: &str) {
        *self.doubtful.lock().expect("nobody panics") = Some(text.to_owned());
    }

    /// Whether that is still to come.
    pub fn is_in_doubt(&self) -> bool {
        self.doubtful.lock().expect("nobody panics").is_some()
    }

    /// From now on nothing can be written there, and what is open cannot be synced.
    pub fn fail(&self) {
        self.has_failed.store(true, Ordering::SeqCst);
    }

    /// From now on only writes to files whose paths contain `path_part` wait, after so many more.
    pub fn hold_writes_after(&self, path_part: &str, passes: usize) {
        let writes = Writes { path_part: path_part.to_owned(), passes, is_one_waiting: false };
        *self.hold.0.lock().expect("nobody panics") = Some(writes);
        self.hold.1.notify_all();
    }

    /// Whether a write waits.
    pub fn holds(&self) -> bool {
        let hold = self.hold.0.lock().expect("nobody panics");
        hold.as_ref().is_some_and(|writes| writes.is_one_waiting)
    }

    /// Lets all go on that wait.
    pub fn release(&self) {
        *self.hold.0.lock().expect("nobody panics") = None;
        self.hold.1.notify_all();
    }

    /// From now on no file whose path contains `path_part` can be written to, for want of space.
    pub fn refuse_writes_to(&self, path_part: &str) {
        *self.full.lock().expect("nobody panics") = Some(path_part.to_owned());
    }

    fn check_space(&self, path: &Path) -> io::Result<()> {
        const ENOSPC: i32 = 28;
        let full = self.full.lock().expect("nobody panics");
        let is_meant = |part: &String| path.to_string_lossy().contains(part);
        match path.starts_with(&self.disk) && full.as_ref().is_some_and(is_meant) {
            true => Err(io::Error::from_raw_os_error(ENOSPC)),
            false => Ok(()),
        }
    }

    fn wait(&self, path: &Path) {
        let mut hold = self.hold.0.lock().expect("nobody panics");
        while let Some(writes) = &mut *hold {
            let is_meant =
                path.starts_with(&self.disk) && path.to_string_lossy().contains(&writes.path_part);
            if !is_meant {
                return;
            }
            if let Some(passes) = writes.passes.checked_sub(1) {
                writes.passes = passes;
                return;
            }
            writes.is_one_waiting = true;
            hold = self.hold.1.wait(hold).expect("nobody panics");
        }
    }

    fn check(&self, path: &Path) -> io::Result<()> {
        match path.starts_with(&self.disk) && self.has_failed.load(Ordering::SeqCst) {
            true => Err(io::Error::from_raw_os_error(EIO)),
            false => Ok(()),
        }
    }
}

impl Fs for FailingDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        if mode != OpenMode::Read {
            self.check(path)?;
        }
        let file = RealFs.open(path, mode)?;
        Ok(Arc::new(FileOnDisk { file, path: path.to_owned(), disk: self.clone() }))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.check(path)?;
        RealFs.create_dir_all(path)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.check(path)?;
        RealFs.remove_file(path)
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        self.check(path)?;
        RealFs.remove_dir_all(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check(from)?;
        let mut doubtful = self.doubtful.lock().expect("nobody panics");
        let is_meant = to.starts_with(&self.disk)
            && doubtful.as_ref().is_some_and(|text| {
                fs::read_to_string(from).is_ok_and(|content| content.contains(text))
            });
        RealFs.rename(from, to)?;
        match is_meant {
            true => {
                *doubtful = None;
                Err(io::Error::from_raw_os_error(EIO))
            }
            false => Ok(()),
        }
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        RealFs.read_dir(path)
    }

    fn file_len(&self, path: &Path) -> io::Result<Option<u64>> {
        RealFs.file_len(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.check(path)?;
        RealFs.sync_dir(path)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        RealFs.exists(path)
    }

    fn lock(&self, path: &Path) -> io::Result<FileLock> {
        RealFs.lock(path)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        RealFs.free_bytes(path)
    }
}

struct FileOnDisk {
    file: Arc<dyn File>,
    path: PathBuf,
    disk: FailingDisk,
}

impl File for FileOnDisk {
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        self.file.read_at(buf, position)
    }

    /// Succeeds, as a write to the page cache does.
    fn write_all_at(&self, slices: &[IoSlice<'_>], position: u64) -> io::Result<()> {
        self.disk.check_space(&self.path)?;
        self.disk.wait(&self.path);
        self.file.write_all_at(slices, position)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.check(&self.path)?;
        self.file.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.disk.check(&self.path)?;
        self.file.sync_all()
    }

    fn set_len(&self, len_bytes: u64) -> io::Result<()> {
        self.disk.check(&self.path)?;
        self.file.set_len(len_bytes)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn modified(&self) -> io::Result<TimestampMs> {
        self.file.modified()
    }

    fn set_modified(&self, modified: TimestampMs) -> io::Result<()> {
        self.disk.check(&self.path)?;
        self.file.set_modified(modified)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.file.fd()
    }
}
