//! Whether a file that nobody knows is the copy of one that was read.
//!
//! `copytruncate` copies a file, and truncates it then. So a file is a copy if both hold:
//!
//! - it begins with what was read of another file;
//! - that other file was truncated, and the copy was written before.
//!
//! Files that only begin alike are read each from its start: reports, or logs with the same banner. A look may fall
//! between the copy and the truncation. So a file that begins as one that is there waits for that, but not for long.
//! Where it stays open what a file is, its lines come twice.

use std::collections::HashMap;
use std::fs::{self, File, Metadata};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use super::super::identity::{Beginning, FileId, Identity, TELLING_BYTES, is_beginning, modified};
use super::tailed::Tailed;
use super::{FILES_MAX, open};

/// How long a file that may be a copy waits for the truncation, since it has grown last.
const COPY_PATIENCE: Duration = Duration::from_secs(2);

/// So many times as long it waits at most: a copy of a large file grows for some time.
const PATIENCES_MAX: u32 = 30;

/// A file that was found. Where its reading begins is not decided yet.
#[derive(Debug)]
pub(super) struct Stranger {
    pub(super) path: PathBuf,
    pub(super) group: usize,
    pub(super) file: File,
    pub(super) metadata: Metadata,
    /// Where reading begins if it is a new one.
    pub(super) begin: u64,
    doubt: Option<Doubt>,
}

/// A file begins as another one, which is not truncated.
#[derive(Debug)]
struct Doubt {
    since: Instant,
    grown_at: Instant,
    bytes: u64,
    original: FileId,
    /// How much of it was read of the other one, too.
    agreed_bytes: u64,
}

/// What was read of a file before it was truncated.
#[derive(Debug)]
struct Truncated {
    id: FileId,
    identity: Identity,
    seen_at: SystemTime,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    New,
    /// It is read on from there.
    Copy {
        position: u64,
    },
    Wait,
}

#[derive(Debug)]
pub(super) struct Copies {
    truncated: Vec<Truncated>,
    pub(super) patience: Duration,
}

impl Stranger {
    pub(super) fn new(
        path: PathBuf,
        group: usize,
        file: File,
        metadata: Metadata,
        begin: u64,
    ) -> Stranger {
        Stranger { path, group, file, metadata, begin, doubt: None }
    }
}

impl Copies {
    pub(super) fn new() -> Copies {
        Copies { truncated: Vec::new(), patience: COPY_PATIENCE }
    }

    pub(super) fn note_truncated(&mut self, id: FileId, identity: Identity) {
        if identity.is_telling() {
            // The marks are enough, and take a twentieth of the memory.
            let identity = Identity::noted(identity.position, Some((identity.head, identity.tail)));
            self.truncated.push(Truncated { id, identity, seen_at: SystemTime::now() });
            // All of them may be truncated at once.
            let surplus = self.truncated.len().saturating_sub(FILES_MAX);
            self.truncated.drain(..surplus);
        }
    }

    /// Judges a file, after all known ones were looked at. Those of them that are there are in `alike`.
    pub(super) fn judge(
        &mut self,
        stranger: &mut Stranger,
        known: &HashMap<FileId, Tailed>,
        alike: &Alike,
    ) -> Verdict {
        let Ok(beginning) = Beginning::of(&stranger.file) else { return Verdict::New };
        if let Some(position) = self.truncated_since(stranger, &beginning) {
            return Verdict::Copy { position };
        }
        let candidates = alike.to(&beginning).iter().filter_map(|id| {
            let agreed_bytes = agreed_bytes(stranger, &beginning, known.get(id)?)?;
            Some((agreed_bytes, *id))
        });
        let Some((agreed_bytes, original)) = candidates.max() else { return Verdict::New };
        let (now, bytes) = (Instant::now(), stranger.metadata.len());
        let before = stranger.doubt.as_ref();
        let since = before.map_or(now, |doubt| doubt.since);
        let unchanged = before.filter(|doubt| doubt.bytes == bytes);
        let grown_at = unchanged.map_or(now, |doubt| doubt.grown_at);
        stranger.doubt = Some(Doubt { since, grown_at, bytes, original, agreed_bytes });
        let is_over = now.duration_since(grown_at) >= self.patience
            || now.duration_since(since) >= self.patience * PATIENCES_MAX;
        if is_over { Verdict::New } else { Verdict::Wait }
    }

    /// How much was read of the truncated file that this is a copy of. Each has one copy.
    fn truncated_since(&mut self, stranger: &Stranger, beginning: &Beginning) -> Option<u64> {
        let written_at = modified(&stranger.metadata);
        let candidates = self.truncated.iter().enumerate();
        let candidates = candidates.filter(|(_, truncated)| written_at <= truncated.seen_at);
        let is_whole = |truncated: &Truncated| {
            beginning.has(truncated.identity.head)
                && truncated.identity.is_beginning_of(&stranger.file)
        };
        let whole = candidates.clone().filter(|(_, truncated)| is_whole(truncated));
        if let Some((index, _)) = whole.max_by_key(|(_, truncated)| truncated.identity.position) {
            return Some(self.truncated.remove(index).identity.position);
        }
        // Lines came after the copy was made, and were read before the truncation.
        let doubt = stranger.doubt.as_ref()?;
        let (index, _) = candidates.clone().find(|(_, it)| it.id == doubt.original)?;
        self.truncated.remove(index);
        Some(doubt.agreed_bytes)
    }
}

/// Known files, by what they begin with. When many files are rotated at once, there are as many strangers: to compare each of
/// them with each known file takes too long.
#[derive(Debug)]
pub(super) struct Alike(HashMap<u64, Vec<FileId>>);

impl Alike {
    pub(super) fn of<'a>(known: impl Iterator<Item = &'a Tailed>) -> Alike {
        let mut alike: HashMap<u64, Vec<FileId>> = HashMap::new();
        for tailed in known {
            // What it begins with may not be read yet, and may be read before the truncation.
            let unread = || Beginning::of(tailed.file.as_ref()?).ok()?.first();
            if let Some(first) = tailed.identity.first().or_else(unread) {
                alike.entry(first).or_default().push(tailed.id);
            }
        }
        Alike(alike)
    }

    fn to(&self, beginning: &Beginning) -> &[FileId] {
        beginning.first().and_then(|first| self.0.get(&first)).map_or(&[], Vec::as_slice)
    }
}

/// How many bytes a stranger begins with that were read of a known file with the same first bytes; nothing if it begins
/// otherwise, or says too little.
fn agreed_bytes(stranger: &Stranger, beginning: &Beginning, tailed: &Tailed) -> Option<u64> {
    let (identity, bytes) = (&tailed.identity, stranger.metadata.len());
    if bytes < TELLING_BYTES {
        return None;
    }
    if !identity.is_telling() {
        return Some(identity.position);
    }
    if bytes >= identity.head.length && !beginning.has(identity.head) {
        return None;
    }
    // A copy is not longer than its original, unless that was truncated a moment ago.
    let original_bytes = match &tailed.file {
        Some(file) => file.metadata(),
        None => fs::metadata(&tailed.path),
    };
    if (identity.position..bytes).contains(&original_bytes.ok()?.len()) {
        return None;
    }
    if bytes >= identity.position {
        return identity.is_beginning_of(&stranger.file).then_some(identity.position);
    }
    // A copy that is being written, or one behind which lines came.
    let opened = match &tailed.file {
        Some(_) => None,
        None => open(&tailed.path, tailed.id).ok().flatten(),
    };
    let original = tailed.file.as_ref().or(opened.as_ref())?;
    is_beginning(&stranger.file, bytes, original).ok()?.then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::super::identity::tests::file;
    use super::*;

    #[test]
    fn a_stranger_is_compared_with_those_that_begin_as_it_does() {
        let beginning = "a line which is longer than what tells";
        let of = |inode, text: &str, is_read: bool| {
            let id = FileId { device: Some(1), inode };
            let mut tailed = Tailed::new(id, PathBuf::from("/a"));
            match is_read {
                true => tailed.identity.advance(text.as_bytes(), text.len() as u64),
                false => tailed.file = Some(file(text.as_bytes())),
            }
            tailed
        };
        let known = [
            of(1, &format!("{beginning} one"), true),
            of(2, &format!("{beginning} two"), false),
            of(3, &format!("another {beginning}"), true),
            of(4, &format!("another {beginning}"), false),
            of(5, "short", true),
        ];
        let alike = Alike::of(known.iter());
        let to = |text: &str| {
            let beginning = Beginning::of(&file(text.as_bytes())).expect("is read");
            alike.to(&beginning).iter().map(|id| id.inode).collect::<Vec<_>>()
        };
        assert_eq!(to(&format!("{beginning} three")), [1, 2]);
        assert_eq!(to(&format!("another {beginning}")), [3, 4]);
        assert!(to(&format!("no {beginning}")).is_empty());
        assert!(to("short").is_empty());
    }
}
