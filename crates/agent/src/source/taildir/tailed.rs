//! One file that is read while it grows.

use std::fs::{File, Metadata};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use super::super::identity::{FileId, Identity, Mark, born, modified};

/// A file, and how far it was read.
#[derive(Debug)]
pub(super) struct Tailed {
    pub(super) id: FileId,
    pub(super) path: PathBuf,
    /// When the file was made, if its file system says so. An inode that got another file has another time.
    pub(super) born: Option<u64>,
    pub(super) identity: Identity,
    /// Its set, once it was seen.
    pub(super) group: Option<usize>,
    /// While lines come.
    pub(super) file: Option<File>,
    /// When a line of it was delivered last, or it has grown.
    pub(super) active_at: Instant,
    /// When a look found it last.
    pub(super) found_at: Instant,
    /// Whether no look of this process has found it: it is what an earlier one has noted.
    pub(super) is_noted_only: bool,
    /// Whether the last look did not find it.
    pub(super) is_gone: bool,
    /// Whether it had no name any more when it was closed.
    pub(super) is_deleted: bool,
    pub(super) is_at_end: bool,
    /// Whether it was truncated, and nothing was read of it since but NULs.
    pub(super) is_truncated: bool,
    seen: Option<(u64, SystemTime)>,
    /// How long it was when it was asked last, while it is open.
    open_bytes: u64,
}

impl Tailed {
    pub(super) fn new(id: FileId, path: PathBuf) -> Tailed {
        Tailed {
            id,
            path,
            born: None,
            identity: Identity::default(),
            group: None,
            file: None,
            active_at: Instant::now(),
            found_at: Instant::now(),
            is_noted_only: false,
            is_gone: false,
            is_deleted: false,
            is_at_end: false,
            is_truncated: false,
            seen: None,
            open_bytes: 0,
        }
    }

    /// As Flume's file has it, and with the marks that only ours has.
    pub(super) fn remembered(
        id: FileId,
        path: PathBuf,
        position: u64,
        marks: Option<(Mark, Mark)>,
    ) -> Tailed {
        let mut tailed = Tailed::new(id, path);
        tailed.is_noted_only = true;
        tailed.identity = Identity::noted(position, marks);
        tailed
    }

    /// Whether nothing was written since it was looked at, and it is open if there is something to read.
    pub(super) fn has_seen(&self, metadata: &Metadata) -> bool {
        let is_unchanged = self.seen == Some((metadata.len(), modified(metadata)));
        is_unchanged && (self.file.is_some() || metadata.len() == self.identity.position)
    }

    pub(super) fn note_seen(&mut self, metadata: &Metadata) {
        self.born = born(metadata).or(self.born);
        self.seen = Some((metadata.len(), modified(metadata)));
    }

    /// How long nothing was read of it and nothing written into it; nothing if it is not open.
    pub(super) fn quiet_for(&mut self) -> Option<Duration> {
        let metadata = self.file.as_ref()?.metadata();
        let bytes = metadata.map_or(self.open_bytes, |metadata| metadata.len());
        if bytes != self.open_bytes {
            (self.open_bytes, self.active_at) = (bytes, Instant::now());
        }
        Some(self.active_at.elapsed())
    }

    /// Whether the line that ends at the position was delivered without its end, so that its end is no line.
    pub(super) fn is_in_line(&self) -> bool {
        let (Some(file), Some(before)) = (&self.file, self.identity.position.checked_sub(1)) else {
            return false;
        };
        let mut byte = [0];
        file.read_exact_at(&mut byte, before).is_ok() && byte != *b"\n"
    }

    /// Whether the inode is another file's now.
    pub(super) fn is_replaced(&self, metadata: &Metadata) -> bool {
        matches!((self.born, born(metadata)), (Some(before), Some(now)) if before != now)
    }

    /// Whether the content is still the one that was read. Without marks, as Flume leaves a position, its path has to be
    /// the same, too.
    pub(super) fn is_same(&self, file: &File, path: &Path) -> bool {
        let is_marked = self.identity.tail.length > 0;
        self.identity.is_beginning_of(file)
            && (is_marked || self.path == path || self.identity.position == 0)
    }

    /// It has other content now; what was read of the old one is given back.
    pub(super) fn start_anew(&mut self, path: &Path) -> Identity {
        self.path = path.to_owned();
        std::mem::take(&mut self.identity)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::identity::tests::file;
    use super::*;

    #[test]
    fn what_flume_remembers_holds_for_the_same_path_alone() {
        let id = FileId { device: None, inode: 1 };
        let tailed = Tailed::remembered(id, PathBuf::from("/a"), 3, None);
        assert!(tailed.is_same(&file(b"12345"), Path::new("/a")));
        assert!(!tailed.is_same(&file(b"12345"), Path::new("/b")));
        assert!(!tailed.is_same(&file(b"12"), Path::new("/a")));
    }
}
