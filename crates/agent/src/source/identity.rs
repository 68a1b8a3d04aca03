//! By what a file is known again: what it is on this machine, and what was read of it.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

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
    /// The bytes of both, once this process has read them.
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

    /// The hash of as many bytes as tell something of a file, if it has so many.
    pub(super) fn first(&self) -> Option<u64> {
        self.hashes.get(TELLING_BYTES as usize).copied()
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

    /// What was noted of a position; without marks if there are none.
    pub(super) fn noted(position: u64, marks: Option<(Mark, Mark)>) -> Identity {
        let (head, tail) = marks.unwrap_or_default();
        Identity { position, head, tail, ..Identity::default() }
    }

    /// Reads the bytes of the marks, which no note has: without them the marks would not grow with what is read next.
    /// The file has to be the one that was noted.
    pub(super) fn complete(&mut self, file: &File) -> io::Result<()> {
        if self.tail_bytes.is_empty() {
            *self = Identity::of(file, self.position)?;
        }
        Ok(())
    }

    /// The marks, as they are noted: a JSON object.
    pub(super) fn marks(&self) -> Value {
        json!({
            "headLength": self.head.length, "headHash": format!("{:x}", self.head.hash),
            "tailLength": self.tail.length, "tailHash": format!("{:x}", self.tail.hash),
        })
    }

    /// The head and the tail, from such an object.
    pub(super) fn marks_of(noted: &Value) -> Option<(Mark, Mark)> {
        let mark = |length: &str, hash: &str| {
            let hash = u64::from_str_radix(noted[hash].as_str()?, 16).ok()?;
            Some(Mark { length: noted[length].as_u64()?, hash })
        };
        Some((mark("headLength", "headHash")?, mark("tailLength", "tailHash")?))
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

    /// The hash of the first bytes, as of a [`Beginning`], if so many were read.
    pub(super) fn first(&self) -> Option<u64> {
        self.head_bytes.get(..TELLING_BYTES as usize).map(|bytes| Mark::of(bytes).hash)
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

pub(super) fn modified(metadata: &Metadata) -> SystemTime {
    metadata.modified().unwrap_or(UNIX_EPOCH)
}

/// In nanoseconds since 1970.
pub(super) fn born(metadata: &Metadata) -> Option<u64> {
    let since = metadata.created().ok()?.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_nanos()).ok()
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::Write;

    use super::*;

    /// A file with these bytes, and without a name.
    pub(in crate::source) fn file(bytes: &[u8]) -> File {
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
}
