//! The format that offset checkpoints and leader epoch checkpoints share.
//!
//! ```text
//! 0              version
//! 2              count of entries
//! orders 0 4711  entries, one a line; the fields are separated by spaces
//! orders 1 4712
//! ```
//!
//! Every line ends with `\n`, also the last: a number that lost its last digits is not taken
//! for a smaller one. A file of no bytes is an empty list, because Apache Kafka creates its
//! checkpoints so.

use std::fmt::{Display, Write};
use std::path::Path;

use logway_model::Offset;

use super::{excerpt, malformed};
use crate::LogError;

const VERSION: &str = "0";

/// Writes a list.
pub(super) fn encode<T: Display>(entries: impl ExactSizeIterator<Item = T>) -> String {
    let mut text = format!("{VERSION}\n{}\n", entries.len());
    for entry in entries {
        writeln!(text, "{entry}").expect("a String takes all text");
    }
    text
}

/// Reads a list; `parse_entry` gets the fields of a line and says what is wrong with them.
pub(super) fn decode<T>(
    path: &Path,
    text: &str,
    mut parse_entry: impl FnMut(&[&str]) -> Result<T, String>,
) -> Result<Vec<T>, LogError> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let mut lines = Lines { path, rest: text, line: 0 };
    let version = lines.next()?;
    if version != VERSION {
        return Err(malformed(path, 1, format!("unknown version {}", excerpt(version))));
    }
    let count = lines.next()?;
    let count: usize = count
        .parse()
        .map_err(|_| malformed(path, 2, format!("{} is no count of entries", excerpt(count))))?;

    let mut entries = Vec::new();
    while !lines.rest.is_empty() {
        let text = lines.next()?;
        let fields: Vec<&str> = text.split_ascii_whitespace().take(FIELDS_MAX).collect();
        let entry = parse_entry(&fields).map_err(|reason| {
            malformed(path, lines.line, format!("{reason}: {}", excerpt(text)))
        })?;
        entries.push(entry);
    }
    if entries.len() != count {
        let reason = format!("{count} entries were announced, {} are there", entries.len());
        return Err(malformed(path, 2, reason));
    }
    Ok(entries)
}

/// Enough to see that a line has too many.
const FIELDS_MAX: usize = 8;

/// Parses an unsigned decimal field.
pub(super) fn number<T: TryFrom<u64>>(field: &str, what: &str) -> Result<T, String> {
    let digits_only = field.bytes().all(|byte| byte.is_ascii_digit());
    let value: Option<u64> = field.parse().ok().filter(|_| digits_only);
    value
        .and_then(|value| T::try_from(value).ok())
        .ok_or_else(|| format!("the {what} is not valid"))
}

/// Parses an offset that a log can have.
pub(super) fn offset(field: &str, what: &str) -> Result<Offset, String> {
    let offset = Offset(number(field, what)?);
    if offset >= Offset::LIMIT {
        return Err(format!("the {what} is beyond what any log reaches"));
    }
    Ok(offset)
}

struct Lines<'a> {
    path: &'a Path,
    rest: &'a str,
    line: usize,
}

impl<'a> Lines<'a> {
    fn next(&mut self) -> Result<&'a str, LogError> {
        self.line += 1;
        let Some((line, rest)) = self.rest.split_once('\n') else {
            return Err(malformed(self.path, self.line, "the file ends within the line"));
        };
        self.rest = rest;
        Ok(line)
    }
}
