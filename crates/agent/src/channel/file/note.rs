//! What a channel notes beside its log: which events are done with although others before them are not.
//!
//! The log start says that all before it is done with. This file, `delivered` in the log's directory, says the rest:
//!
//! ```text
//! version=1
//! directory.id=ID        of the log's directory: about another one it says nothing
//! low=OFFSET             all before is done with
//! done=TEXT              what is done with from there on: see Done
//! crc=NUMBER             CRC-32 of the lines before
//! ```

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use logway_log::LogError;
use logway_log::checkpoint::replace_file;
use logway_log::fs::RealFs;
use logway_model::Offset;

use super::done::Done;

const FILE: &str = "delivered";

/// With more ranges than have room in it, events come again.
const DONE_BYTES_MAX: usize = 4 << 20;

/// The file of one channel.
#[derive(Debug)]
pub(super) struct NoteFile {
    path: PathBuf,
    directory_id: String,
    /// Held while it is written.
    writing: Mutex<()>,
}

impl NoteFile {
    pub(super) fn new(dir: &Path, directory_id: impl ToString) -> NoteFile {
        let directory_id = directory_id.to_string();
        NoteFile { path: dir.join(FILE), directory_id, writing: Mutex::default() }
    }

    /// What is noted. A file that is damaged, or is about another directory, counts as none: events come again then.
    pub(super) fn read(&self) -> Done {
        let text = match std::fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Done::default(),
            Err(error) => {
                tracing::warn!(path = %self.path.display(), %error, "events that were delivered may come again");
                return Done::default();
            }
        };
        self.parse(&text).unwrap_or_else(|| {
            tracing::warn!(path = %self.path.display(), "the file is not what was written: events that were delivered may come again");
            Done::default()
        })
    }

    fn parse(&self, text: &str) -> Option<Done> {
        let (content, crc) = text.trim_end().rsplit_once("crc=")?;
        if crc.parse() != Ok(crc_of(content)) {
            return None;
        }
        let value = |name: &str| content.lines().find_map(|line| line.strip_prefix(name));
        if value("version=")? != "1" || value("directory.id=")? != self.directory_id {
            return None;
        }
        let low = Offset(value("low=")?.parse().ok()?);
        let mut done = Done::from_text(low, value("done=")?)?;
        // The log start follows, and a kill may come between.
        done.insert_range(Offset::ZERO..low);
        Some(done)
    }

    /// Writes what is the latest when nobody else writes, if that is anything: up to where all is done with, and what is
    /// behind that. It is on stable storage then.
    pub(super) fn write_latest(
        &self,
        latest: impl FnOnce() -> Option<(Offset, Done)>,
    ) -> Result<(), LogError> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((low, done)) = latest() else { return Ok(()) };
        let done = done.to_text(low, DONE_BYTES_MAX);
        let mut text =
            format!("version=1\ndirectory.id={}\nlow={low}\ndone={done}\n", self.directory_id);
        let crc = crc_of(&text);
        // Into a text, that does not fail.
        let _ = writeln!(text, "crc={crc}");
        replace_file(&RealFs, &self.path, text.as_bytes())
    }
}

fn crc_of(text: &str) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(text.as_bytes());
    crc.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_unless_it_is_damaged_or_of_another_directory() {
        let dir = tempfile::tempdir().expect("is made");
        let file = NoteFile::new(dir.path(), "a");
        assert_eq!(file.read(), Done::default());
        let mut done = Done::default();
        done.insert_range(Offset(12)..Offset(20));
        let latest = || Some((Offset(10), done.clone()));
        file.write_latest(latest).expect("is written");
        file.write_latest(|| None).expect("nothing is to be written");
        let mut known = done.clone();
        known.insert_range(Offset::ZERO..Offset(10));
        assert_eq!(file.read(), known, "all before is done with");
        assert_eq!(NoteFile::new(dir.path(), "b").read(), Done::default());
        let mut bytes = std::fs::read(&file.path).expect("is there");
        let at = bytes.windows(4).position(|window| window == b"done").expect("is there") + 5;
        bytes[at] ^= 1;
        std::fs::write(&file.path, bytes).expect("is written");
        assert_eq!(file.read(), Done::default());
    }
}
