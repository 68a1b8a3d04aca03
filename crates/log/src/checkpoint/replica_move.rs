//! `replica-move`: what the log in a partition's directory has to do with a move of the partition
//! from another log directory of the same broker.
//!
//! ```text
//! version: 0
//! state: copying
//! from: ykSLSUUeSxCxXu2TE1BN2g
//! ```
//!
//! The file is Logway's own. Apache Kafka gives such a log another directory's name, which ends in
//! `-future`, and renames it when the copy is complete.

use std::path::Path;

use logway_model::{DirectoryId, Uuid};

use super::{excerpt, malformed, read_text, replace_file};
use crate::LogError;
use crate::fs::Fs;

/// How far the move of a partition to the directory of a log has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplicaMove {
    /// Whether the log is the partition's.
    pub state: MoveState,
    /// The id of the log directory that the partition comes from.
    pub from: DirectoryId,
}

/// Which of the two logs of a partition that is moved is the partition's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MoveState {
    /// The one that it comes from; this one is a copy that is not complete.
    Copying,
    /// This one; what is left of the other is to be removed.
    Moved,
}

const FILE_MAX_BYTES: usize = 4 << 10;

impl ReplicaMove {
    /// The name of the file in the partition's directory.
    pub const FILE: &str = "replica-move";

    /// Replaces the file at `path`; it is durable on return.
    pub fn write(&self, fs: &dyn Fs, path: &Path) -> Result<(), LogError> {
        let state = match self.state {
            MoveState::Copying => "copying",
            MoveState::Moved => "moved",
        };
        let text = format!("version: 0\nstate: {state}\nfrom: {}\n", self.from);
        replace_file(fs, path, text.as_bytes())
    }

    /// Reads the file at `path`; `None` if it does not exist.
    pub fn read(fs: &dyn Fs, path: &Path) -> Result<Option<ReplicaMove>, LogError> {
        let Some(text) = read_text(fs, path, FILE_MAX_BYTES)? else { return Ok(None) };
        let mut lines = text.lines();
        let mut field = |number, key: &str| {
            let value = lines.next().and_then(|line| line.strip_prefix(key)?.strip_prefix(": "));
            value.ok_or_else(|| malformed(path, number, format!("'{key}: …' is expected")))
        };
        let (version, state) = (field(1, "version")?, field(2, "state")?);
        let from = field(3, "from")?;
        if version != "0" {
            return Err(malformed(path, 1, format!("unknown version {}", excerpt(version))));
        }
        let state = match state {
            "copying" => MoveState::Copying,
            "moved" => MoveState::Moved,
            other => return Err(malformed(path, 2, format!("unknown state {}", excerpt(other)))),
        };
        let from: Uuid = from.parse().map_err(|error| malformed(path, 3, format!("{error}")))?;
        Ok(Some(ReplicaMove { state, from: DirectoryId(from) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::SimFs;

    #[test]
    fn what_was_written_is_read() {
        let (fs, path) = (SimFs::new(1), Path::new(ReplicaMove::FILE));
        assert_eq!(ReplicaMove::read(&fs, path).expect("there is none"), None);
        for state in [MoveState::Copying, MoveState::Moved] {
            let written = ReplicaMove { state, from: DirectoryId(Uuid([7; 16])) };
            written.write(&fs, path).expect("is written");
            assert_eq!(ReplicaMove::read(&fs, path).expect("is read"), Some(written));
        }
    }

    #[test]
    fn damage_is_reported_with_its_line() {
        let (fs, path) = (SimFs::new(1), Path::new(ReplicaMove::FILE));
        for (text, line) in [
            ("", 1),
            ("version: 1\nstate: moved\nfrom: AAAAAAAAAAAAAAAAAAAAAQ\n", 1),
            ("version: 0\nstate: gone\nfrom: AAAAAAAAAAAAAAAAAAAAAQ\n", 2),
            ("version: 0\nstate: moved\nfrom: AAAA\n", 3),
            ("version: 0\nstate: moved\n", 3),
        ] {
            replace_file(&fs, path, text.as_bytes()).expect("is written");
            match ReplicaMove::read(&fs, path) {
                Err(LogError::Malformed { line: found, .. }) => assert_eq!(found, line, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }
}
