//! What is wrong with a file, and what can be done about it.

use std::path::{Path, PathBuf};

use logway_model::Offset;

use super::LostOffsets;
use crate::LogError;
use crate::fs::{Fs, OpenMode, read_to_end};

/// Something in a data directory that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file, or the directory.
    pub path: PathBuf,
    /// Where in it, in bytes from its start; 0 for the file as a whole.
    pub position: u64,
    /// What is wrong.
    pub reason: String,
    /// The records that cannot be read because of it.
    pub lost: Option<LostOffsets>,
    /// Whether an append or another change may be under way, or was when the broker was killed; the
    /// next start of the broker settles it.
    pub may_be_unfinished: bool,
    /// What a repair does about it. `None` if it cannot: for records that are damaged or gone, and
    /// where nobody can tell which of two files is right.
    pub repair: Option<Repair>,
}

/// What a repair does about a file. It never touches records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repair {
    /// It is made anew from the batches.
    Rebuild,
    /// It is written with what the other files say; the old one stays beside it.
    Rewrite,
    /// It gets another name: the broker does without it, or makes it anew.
    SetAside,
}

impl Problem {
    /// One of which nothing else is known.
    pub(super) fn new(
        path: impl Into<PathBuf>,
        position: u64,
        reason: impl Into<String>,
    ) -> Problem {
        Problem {
            path: path.into(),
            position,
            reason: reason.into(),
            lost: None,
            may_be_unfinished: false,
            repair: None,
        }
    }

    /// What an error says that a file gave when it was read.
    pub(super) fn of_error(fs: &dyn Fs, path: &Path, error: LogError) -> Problem {
        match error {
            LogError::Corrupt { path, position, reason } => Problem::new(path, position, reason),
            LogError::Malformed { path, line, reason } => {
                let position = line_position(fs, &path, line);
                Problem::new(path, position, format!("line {line}: {reason}"))
            }
            LogError::Io { op, source, .. } => {
                Problem::new(path, 0, format!("the system cannot {op} it: {source}"))
            }
            other => Problem::new(path, 0, other.to_string()),
        }
    }

    /// The same with records that cannot be read because of it.
    pub(super) fn losing(self, first: Offset, end: Offset) -> Problem {
        Problem { lost: Some(LostOffsets { first, end: Some(end) }), ..self }
    }

    /// The same, which a repair puts right.
    pub(super) fn repaired_by(self, repair: Repair) -> Problem {
        Problem { repair: Some(repair), ..self }
    }

    /// The same, which the next start settles if `may_be_unfinished`.
    pub(super) fn unfinished_if(self, may_be_unfinished: bool) -> Problem {
        Problem { may_be_unfinished, ..self }
    }
}

/// Where a line of a text begins, in bytes; lines count from 1. 0 if nobody can tell.
pub(super) fn line_position(fs: &dyn Fs, path: &Path, line: usize) -> u64 {
    /// More than any of our text files may have.
    const TEXT_MAX_BYTES: usize = 256 << 20;
    let Ok(file) = fs.open(path, OpenMode::Read) else { return 0 };
    let Ok(text) = read_to_end(&*file, TEXT_MAX_BYTES) else { return 0 };
    let lines = text.split_inclusive(|&byte| byte == b'\n');
    lines.take(line.saturating_sub(1)).map(|line| line.len() as u64).sum()
}
