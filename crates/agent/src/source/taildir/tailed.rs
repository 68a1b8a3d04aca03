//! One file that is read while it grows.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// How many bytes of a file's beginning, and before the position, tell it from others.
pub(super) const MARK_BYTES: usize = 1024;

/// Fewer bytes than these tell nothing about a copy: two files may begin with the same short line.
pub(super) const TELLING_BYTES: u64 = 32;

/// What was read of a file: how far, and by what it is known again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) position: u64,
    /// The first bytes up to the position, as a mark.
    pub(super) head: Mark,
    /// The last bytes before the position.
    pub(super) tail: Mark,
    /// The bytes of both, while they are few or this process has read them.
    head_bytes: Vec<u8>,
    tail_bytes: Vec<u8>,
}

/// So many bytes with this hash.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) length: u64,
    pub(super) hash: u64,
}

/// FNV-1a of 64 bits: a hash has to be the same in every process.
const HASH_OF_NOTHING: u64 = 0xcbf2_9ce4_8422_2325;

fn hash_on(hash: u64, byte: u8) -> u64 {
    (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
}

impl Mark {
    fn of(bytes: &[u8]) -> Mark {
        let hash = bytes.iter().fold(HASH_OF_NOTHING, |hash, byte| hash_on(hash, *byte));
        Mark { length: bytes.len() as u64, hash }
    }

    /// Whether the file has these bytes there.
    fn is_at(self, file: &File, offset: u64) -> bool {
        if self.length == 0 {
            return true;
        }
        let mut bytes = vec![0; (self.length as usize).min(MARK_BYTES)];
        file.read_exact_at(&mut bytes, offset).is_ok() && Mark::of(&bytes) == self
    }
}

/// A file's first bytes, which are compared with many marks.
pub(super) struct Beginning {
    /// Of the first byte, of the first two, and so on; before them that of nothing.
    hashes: Vec<u64>,
}

impl Beginning {
    pub(super) fn of(file: &File) -> io::Result<Beginning> {
        let mut bytes = vec![0; MARK_BYTES];
        let mut length = 0;
        while length < MARK_BYTES {
            match file.read_at(&mut bytes[length..], length as u64)? {
                0 => break,
                count => length += count,
            }
        }
        let mut hashes = vec![HASH_OF_NOTHING];
        let mut hash = HASH_OF_NOTHING;
        for byte in &bytes[..length] {
            hash = hash_on(hash, *byte);
            hashes.push(hash);
        }
        Ok(Beginning { hashes })
    }

    /// Whether the file begins with what a mark is of.
    pub(super) fn has(&self, head: Mark) -> bool {
        let hash = usize::try_from(head.length).ok().and_then(|length| self.hashes.get(length));
        hash == Some(&head.hash)
    }
}

/// Whether another file begins with the first `bytes` of this one, by the first and the last KiB of them.
pub(super) fn is_beginning(file: &File, bytes: u64, other: &File) -> io::Result<bool> {
    let length = bytes.min(MARK_BYTES as u64);
    let (mut ours, mut theirs) = (vec![0; length as usize], vec![0; length as usize]);
    for offset in [0, bytes - length] {
        file.read_exact_at(&mut ours, offset)?;
        other.read_exact_at(&mut theirs, offset)?;
        if ours != theirs {
            return Ok(false);
        }
    }
    Ok(true)
}

impl Identity {
    /// As if so much of a file had been read.
    pub(super) fn of(file: &File, position: u64) -> io::Result<Identity> {
        let length = position.min(MARK_BYTES as u64);
        let read = |offset| {
            let mut bytes = vec![0; length as usize];
            file.read_exact_at(&mut bytes, offset).map(|()| bytes)
        };
        let (head_bytes, tail_bytes) = (read(0)?, read(position - length)?);
        let (head, tail) = (Mark::of(&head_bytes), Mark::of(&tail_bytes));
        Ok(Identity { position, head, tail, head_bytes, tail_bytes })
    }

    /// Notes that the bytes up to `end` were read.
    pub(super) fn advance(&mut self, raw: &[u8], end: u64) {
        let is_from_start = self.position == self.head_bytes.len() as u64;
        if is_from_start && self.head_bytes.len() < MARK_BYTES {
            let part = raw.len().min(MARK_BYTES - self.head_bytes.len());
            self.head_bytes.extend_from_slice(&raw[..part]);
            self.head = Mark::of(&self.head_bytes);
        }
        let kept = raw.len().min(MARK_BYTES);
        self.tail_bytes.extend_from_slice(&raw[raw.len() - kept..]);
        let surplus = self.tail_bytes.len().saturating_sub(MARK_BYTES);
        self.tail_bytes.drain(..surplus);
        self.tail = Mark::of(&self.tail_bytes);
        self.position = end;
    }

    /// Whether a file begins with what was read. If nothing was read, it tells nothing.
    pub(super) fn is_beginning_of(&self, file: &File) -> bool {
        let length = file.metadata().map_or(0, |metadata| metadata.len());
        length >= self.position
            && self.head.is_at(file, 0)
            && self.tail.is_at(file, self.position.saturating_sub(self.tail.length))
    }

    /// Whether there is enough of it to know a copy by.
    pub(super) fn is_telling(&self) -> bool {
        self.head.length >= TELLING_BYTES && self.tail.length >= TELLING_BYTES
    }
}

/// Which file it is on this machine. Inodes are numbers of one file system: two have the same ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct FileId {
    /// Of the file system; unknown in what Flume has noted.
    pub(super) device: Option<u64>,
    pub(super) inode: u64,
}

impl FileId {
    pub(super) fn of(metadata: &Metadata) -> FileId {
        FileId { device: Some(metadata.dev()), inode: metadata.ino() }
    }
}

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
    pub(super) read_at: Instant,
    /// When a look found it last.
    pub(super) found_at: Instant,
    /// Whether no look of this process has found it: it is what an earlier one has noted.
    pub(super) is_noted_only: bool,
    pub(super) is_at_end: bool,
    seen: Option<(u64, SystemTime)>,
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
            read_at: Instant::now(),
            found_at: Instant::now(),
            is_noted_only: false,
            is_at_end: false,
            seen: None,
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
        let (head, tail) = marks.unwrap_or_default();
        tailed.identity = Identity { position, head, tail, ..Identity::default() };
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

pub(super) fn modified(metadata: &Metadata) -> SystemTime {
    metadata.modified().unwrap_or(UNIX_EPOCH)
}

/// In nanoseconds since 1970.
fn born(metadata: &Metadata) -> Option<u64> {
    let since = metadata.created().ok()?.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_nanos()).ok()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().expect("is made");
        file.write_all(bytes).expect("is written");
        file
    }

    #[test]
    fn a_file_is_known_by_its_beginning_and_by_what_was_read_last() {
        let text: Vec<u8> = (0..5000u32).map(|n| (n % 251) as u8).collect();
        let mut identity = Identity::default();
        for part in text.chunks(700) {
            identity.advance(part, identity.position + part.len() as u64);
        }
        assert!(identity.is_telling());
        assert!(identity.is_beginning_of(&file(&text)));
        let longer = [&text[..], b"more"].concat();
        assert!(identity.is_beginning_of(&file(&longer)));
        assert!(!identity.is_beginning_of(&file(&text[..4999])));
        for changed_at in [0, 1023, 4999] {
            let mut changed = text.clone();
            changed[changed_at] ^= 1;
            assert!(!identity.is_beginning_of(&file(&changed)), "changed at {changed_at}");
        }
    }

    #[test]
    fn what_flume_remembers_holds_for_the_same_path_alone() {
        let id = FileId { device: None, inode: 1 };
        let tailed = Tailed::remembered(id, PathBuf::from("/a"), 3, None);
        assert!(tailed.is_same(&file(b"12345"), Path::new("/a")));
        assert!(!tailed.is_same(&file(b"12345"), Path::new("/b")));
        assert!(!tailed.is_same(&file(b"12"), Path::new("/a")));
    }
}
