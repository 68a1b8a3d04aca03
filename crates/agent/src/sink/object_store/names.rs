//! Which objects events are in, and what they are called.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use crate::channel::Taken;
use crate::error::{SinkError, StartError};
use crate::sink::paths::{directory, sorted};
use crate::sink::template::Template;

/// The longest name of an object behind its last slash, beside the prefix and the extension.
const OWN_NAME_BYTES: usize = 128;

/// An event's id in a name: longer ones are cut, the hash tells names apart.
const ID_BYTES_MAX: usize = 80;

pub(super) struct Names {
    path: Template,
    is_absolute: bool,
    prefix: String,
    extension: String,
    bytes_max: usize,
}

impl Names {
    pub(super) fn new(
        path: &str,
        prefix: &str,
        extension: String,
        bytes_max: usize,
    ) -> Result<Names, StartError> {
        if prefix.contains('/') || prefix.len() > ID_BYTES_MAX {
            return Err(format!(
                "filePrefix '{prefix}' has a '/' or more than {ID_BYTES_MAX} bytes"
            ));
        }
        let bytes_max = bytes_max - OWN_NAME_BYTES - prefix.len() - extension.len();
        let is_absolute = path.starts_with('/');
        let path = Template::parse(path)?;
        Ok(Names { path, is_absolute, prefix: prefix.to_owned(), extension, bytes_max })
    }

    /// The events of each object, by its path.
    pub(super) fn objects(&self, batch: &Taken) -> Result<BTreeMap<String, Vec<usize>>, SinkError> {
        sorted(batch, |event| self.directory(&self.path.of_at(event, batch.began_ms())))
    }

    fn directory(&self, path: &str) -> Result<String, String> {
        directory(path, self.is_absolute, self.bytes_max)
    }

    /// A name that only these events have, in this order. Events from memory have none that lasts: the batch has one.
    pub(super) fn name(&self, batch: &Taken, events: &[usize]) -> String {
        let mut hash = Sha256::new();
        let mut first = None;
        for &index in events {
            let id = batch
                .event_id(index)
                .unwrap_or_else(|| format!("{}-{index}", batch.name().hyphenated()));
            hash.update((id.len() as u64).to_le_bytes());
            hash.update(id.as_bytes());
            let event = &batch.events[index];
            hash.update((event.body.len() as u64).to_le_bytes());
            hash.update(&event.body);
            first.get_or_insert(id);
        }
        let sound = |letter: char| {
            if letter.is_ascii_alphanumeric() || "-_.".contains(letter) { letter } else { '_' }
        };
        let first: String =
            first.unwrap_or_default().chars().map(sound).take(ID_BYTES_MAX).collect();
        let hash = logway_security::signature_v4::hex(&hash.finalize()[..12]);
        format!("{}-{first}-{hash}{}", self.prefix, self.extension)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_nowhere_else() {
        let names = Names::new("a", "events", ".json".to_owned(), 1024).expect("is sound");
        assert_eq!(names.directory("a//b/"), Ok("a/b/".to_owned()));
        for path in ["a/../b", "./a", "a/\0", "a\n", &"x".repeat(300), &"x/".repeat(600)] {
            assert!(names.directory(path).is_err(), "{path}");
        }
        let names = Names::new("/a", "events", String::new(), 4096).expect("is sound");
        assert_eq!(names.directory("/a/b"), Ok("/a/b/".to_owned()));
        assert!(Names::new("a", "x/y", String::new(), 1024).is_err());
    }
}
