//! How far files were read that are not done with.
//!
//! A note has the marks of its file beside the name: the next file of that name is read from its start.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde_json::{Value, json};

use super::super::identity::{Identity, born, modified};
use super::super::write_whole;

/// The name of the notes in the tracker directory.
const FILE: &str = "logway-position.json";

/// What was read of a file, and what it is known by.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Note {
    inode: u64,
    /// When the file was made, if its file system says so.
    born: Option<u64>,
    /// When it was written last, in nanoseconds since 1970.
    modified: u64,
    pub(super) identity: Identity,
}

impl Note {
    pub(super) fn new(metadata: &Metadata) -> Note {
        let modified = modified(metadata).duration_since(UNIX_EPOCH).unwrap_or_default();
        Note {
            inode: metadata.ino(),
            born: born(metadata),
            modified: u64::try_from(modified.as_nanos()).unwrap_or(u64::MAX),
            identity: Identity::default(),
        }
    }

    /// Whether it is of this file. A file that is made later may have the inode of an earlier one, and begin like it: then
    /// times tell. If nothing tells, it is not, and lines come twice.
    fn is_of(&self, file: &File, metadata: &Metadata) -> bool {
        let now = Note::new(metadata);
        let is_same_age = match (self.born, now.born) {
            (Some(before), Some(now)) => before == now,
            _ => self.modified == now.modified,
        };
        self.inode == now.inode && is_same_age && self.identity.is_beginning_of(file)
    }
}

/// The notes of a spool directory, by the paths of files.
#[derive(Debug)]
pub(super) struct Notes {
    path: PathBuf,
    by_path: BTreeMap<String, Note>,
}

impl Notes {
    /// Reads what an earlier process has noted. A file that is none of notes is as good as none: then lines come twice.
    pub(super) fn read(tracker: &Path) -> Notes {
        let path = tracker.join(FILE);
        let noted = fs::read_to_string(&path).ok();
        let noted = noted.and_then(|text| serde_json::from_str::<Vec<Value>>(&text).ok());
        let by_path = noted.unwrap_or_default().iter().filter_map(note_of).collect();
        Notes { path, by_path }
    }

    /// Whether a file of this name was begun.
    pub(super) fn has(&self, path: &Path) -> bool {
        self.by_path.contains_key(&key(path))
    }

    /// The note of a file; a new one if there is none that is of this file.
    pub(super) fn of(&self, path: &Path, file: &File, metadata: &Metadata) -> Note {
        let noted = self.by_path.get(&key(path));
        match noted.filter(|note| note.is_of(file, metadata)) {
            Some(note) => note.clone(),
            None => Note::new(metadata),
        }
    }

    pub(super) fn write(&mut self, path: &Path, note: &Note) -> io::Result<()> {
        self.by_path.insert(key(path), note.clone());
        self.flush()
    }

    /// Forgets a file that is done with.
    pub(super) fn remove(&mut self, path: &Path) -> io::Result<()> {
        match self.by_path.remove(&key(path)) {
            Some(_) => self.flush(),
            None => Ok(()),
        }
    }

    fn flush(&self) -> io::Result<()> {
        if self.by_path.is_empty() {
            return match fs::remove_file(&self.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        }
        let noted = self.by_path.iter().map(|(path, note)| {
            let mut entry = note.identity.marks();
            entry["file"] = json!(path);
            entry["position"] = json!(note.identity.position);
            entry["inode"] = json!(note.inode);
            entry["born"] = json!(note.born);
            entry["modified"] = json!(note.modified);
            entry
        });
        write_whole(&self.path, Value::Array(noted.collect()).to_string().as_bytes())
    }
}

fn key(path: &Path) -> String {
    path.display().to_string()
}

fn note_of(entry: &Value) -> Option<(String, Note)> {
    let number = |name: &str| entry[name].as_u64();
    let note = Note {
        inode: number("inode")?,
        born: number("born"),
        modified: number("modified")?,
        identity: Identity::noted(number("position")?, Some(Identity::marks_of(entry)?)),
    };
    Some((entry["file"].as_str()?.to_owned(), note))
}
