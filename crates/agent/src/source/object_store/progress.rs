//! What was read: a line for each object, and how far the last one was read.
//!
//! The first line has the address of the store. Each other one is the hash of an object's name and version. Lines are
//! added when an object was read to its end, with `!` behind it if it is damaged. A line that a kill leaves in part is cut
//! off, and that object is read again.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use logway_security::signature_v4::hex;
use serde_json::{Value, json};

use super::super::write_whole;
use super::store::Found;

/// The hash of an object's name and version.
pub(super) type Id = [u8; 16];

/// What the file begins with; the address is behind it.
const HEAD: &str = "logway objects 1 ";

/// What is gone from the store is forgotten when it is more than what is there, and more than this. So a directory that
/// is not mounted for a while does not make all of it new.
const GONE_MAX: usize = 10_000;

/// An object that was read in part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Begun {
    pub(super) object: Found,
    /// So many events of it are in channels.
    pub(super) events: u64,
}

pub(super) struct Progress {
    path: PathBuf,
    begun_path: PathBuf,
    url: String,
    file: File,
    /// What was read, and whether it was whole.
    read: HashMap<Id, bool>,
    begun: Option<Begun>,
}

impl Progress {
    pub(super) fn new(path: PathBuf, url: &str) -> Result<Progress, String> {
        let at = |error: io::Error| format!("positionFile {}: {error}", path.display());
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(at)?;
        }
        let text = match fs::read(&path) {
            Ok(text) => {
                if has_lost_all(&text) {
                    tracing::warn!(
                        path = %path.display(),
                        "positionFile has nothing that was read: all objects are read, also those that were before"
                    );
                }
                text
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(at(error)),
        };
        let read =
            parse(&text, url).map_err(|why| format!("positionFile {} {why}", path.display()))?;
        let mut begun_path = path.clone().into_os_string();
        begun_path.push(".begun");
        let begun_path = PathBuf::from(begun_path);
        let begun = begun(&begun_path).filter(|begun| !read.contains_key(&begun.object.id()));
        let file = written(&path, url, &read).map_err(at)?;
        Ok(Progress { path, begun_path, url: url.to_owned(), file, read, begun })
    }

    /// Whether an object was read, and then whether it was whole.
    pub(super) fn read(&self, id: &Id) -> Option<bool> {
        self.read.get(id).copied()
    }

    pub(super) fn begun(&self) -> Option<Begun> {
        self.begun.clone()
    }

    /// Notes how far an object was read.
    pub(super) fn note(&mut self, begun: &Begun) -> Result<(), String> {
        let Begun { object: Found { key, tag, bytes }, events } = begun;
        let note = json!({ "key": key, "tag": tag, "bytes": bytes, "events": events });
        let written = write_whole(&self.begun_path, note.to_string().as_bytes());
        written.map_err(|error| format!("{}: {error}", self.begun_path.display()))?;
        self.begun = Some(begun.clone());
        Ok(())
    }

    /// Notes that an object was read to its end, or to where it is damaged.
    pub(super) fn finish(&mut self, id: Id, is_whole: bool) -> Result<(), String> {
        let added =
            writeln!(self.file, "{}", line(&id, is_whole)).and_then(|()| self.file.sync_data());
        added.map_err(|error| format!("positionFile {}: {error}", self.path.display()))?;
        self.read.insert(id, is_whole);
        self.begun = None;
        Ok(())
    }

    /// Forgets the object that was read in part.
    pub(super) fn give_up(&mut self) {
        self.begun = None;
    }

    /// Forgets what is not there any more, if it is much.
    pub(super) fn forget_all_but(&mut self, listed: &HashSet<Id>) -> Result<(), String> {
        let gone = self.read.keys().filter(|id| !listed.contains(*id)).count();
        if gone > GONE_MAX.max(listed.len()) {
            self.read.retain(|id, _| listed.contains(id));
            let file = written(&self.path, &self.url, &self.read);
            self.file =
                file.map_err(|error| format!("positionFile {}: {error}", self.path.display()))?;
        }
        Ok(())
    }
}

/// Whether a file that is there has not even its first line. It is written as a whole, so that no kill leaves it so.
fn has_lost_all(text: &[u8]) -> bool {
    !text.contains(&b'\n')
}

/// What a file says was read.
fn parse(text: &[u8], url: &str) -> Result<HashMap<Id, bool>, String> {
    let mut read = HashMap::new();
    // Behind the last line feed is what a kill has left.
    let Some(whole) = memchr::memrchr(b'\n', text).map(|end| &text[..end]) else { return Ok(read) };
    let mut lines = whole.split(|byte| *byte == b'\n');
    let head = lines.next().and_then(|line| std::str::from_utf8(line).ok());
    match head.and_then(|head| head.strip_prefix(HEAD)) {
        Some(known) if known == url => {}
        Some(known) => return Err(format!("is about {known}, and not about {url}")),
        None => return Err("is no list of objects that were read".to_owned()),
    }
    for line in lines {
        let damaged = line.strip_suffix(b"!");
        let id = id_of(damaged.unwrap_or(line)).ok_or_else(|| {
            format!("has a line that is no object's: '{}'", String::from_utf8_lossy(line))
        })?;
        read.insert(id, damaged.is_none());
    }
    Ok(read)
}

fn line(id: &Id, is_whole: bool) -> String {
    format!("{}{}", hex(id), if is_whole { "" } else { "!" })
}

fn id_of(line: &[u8]) -> Option<Id> {
    let number = u128::from_str_radix(std::str::from_utf8(line).ok()?, 16).ok()?;
    (line.len() == 32).then_some(number.to_be_bytes())
}

/// Writes the file anew, and opens it for more.
fn written(path: &Path, url: &str, read: &HashMap<Id, bool>) -> io::Result<File> {
    let mut text = format!("{HEAD}{url}\n");
    for (id, is_whole) in read {
        text += &line(id, *is_whole);
        text.push('\n');
    }
    write_whole(path, text.as_bytes())?;
    File::options().append(true).open(path)
}

fn begun(path: &Path) -> Option<Begun> {
    let note: Value = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    let text = |name: &str| note[name].as_str().map(str::to_owned);
    let object = Found { key: text("key")?, tag: text("tag")?, bytes: note["bytes"].as_u64()? };
    Some(Begun { object, events: note["events"].as_u64()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str) -> Found {
        Found { key: format!("a/{name}"), tag: "t".to_owned(), bytes: 5 }
    }

    #[test]
    fn what_was_read_is_known_to_the_next_start() {
        let folder = tempfile::tempdir().expect("is made");
        let path = folder.path().join("below/positions");
        let open = || Progress::new(path.clone(), "s3://a/b");
        let mut progress = open().expect("is new");
        assert_eq!(progress.begun(), None);
        progress.finish(object("one").id(), true).expect("is noted");
        let begun = Begun { object: object("two"), events: 7 };
        progress.note(&begun).expect("is noted");
        // A kill leaves a part of a line.
        File::options()
            .append(true)
            .open(&path)
            .and_then(|mut it| it.write_all(b"00ff"))
            .expect("is written");
        let mut progress = open().expect("is sound");
        let read =
            |progress: &Progress| ["one", "two"].map(|name| progress.read(&object(name).id()));
        assert_eq!(read(&progress), [Some(true), None]);
        assert_eq!(progress.begun(), Some(begun));
        progress.finish(object("two").id(), false).expect("is noted");
        let progress = open().expect("is sound");
        assert_eq!(read(&progress), [Some(true), Some(false)]);
        assert_eq!(progress.begun(), None, "it was read to its end");

        for (text, is_lost) in [(&b""[..], true), (b"logway objects", true), (b"logway\n", false)] {
            assert_eq!(has_lost_all(text), is_lost);
        }
        let error = Progress::new(path.clone(), "s3://a/c").err().expect("is another store's");
        assert!(error.ends_with("is about s3://a/b, and not about s3://a/c"), "{error}");
        for text in ["nothing\n", "logway objects 1 s3://a/b\nxyz\n"] {
            fs::write(&path, text).expect("is written");
            assert!(open().is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_gone_is_forgotten_when_it_is_much() {
        let folder = tempfile::tempdir().expect("is made");
        let path = folder.path().join("positions");
        let mut progress = Progress::new(path.clone(), "u").expect("is new");
        progress.read =
            (0..GONE_MAX as u128 + 1).map(|number| (number.to_be_bytes(), true)).collect();
        let [first, second] = [0, 1].map(|number: u128| number.to_be_bytes());
        progress.forget_all_but(&HashSet::from([first])).expect("is judged");
        assert_eq!(progress.read(&second), Some(true), "it may be back");
        progress.read.insert([9; 16], true);
        progress.forget_all_but(&HashSet::from([first])).expect("is judged");
        assert_eq!([first, second].map(|id| progress.read(&id)), [Some(true), None]);
        let progress = Progress::new(path, "u").expect("is sound");
        assert_eq!(progress.read, HashMap::from([(first, true)]));
    }
}
