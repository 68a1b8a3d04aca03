//! Events of several lines: a stack trace, a statement.
//!
//! Nothing is kept in memory from look to look. The position stays before an event that may not be complete, and its lines
//! are read once more with those that come. So a kill or a rotation in between takes nothing from it.

use std::time::Duration;

use bytes::Bytes;
use regex_lite::Regex;

use crate::codec::file_lines::{FileBatch, FileLine};
use crate::declaration::{Fallback, Key, Kind, key};
use crate::settings::Settings;

pub(super) const PATTERN: Key = key(
    "multiline.pattern",
    Kind::Regex,
    Fallback::Nothing,
    "Lines in which this is found belong to one event with others. Without it, each line is an event.",
);
pub(super) const WHAT: Key = key(
    "multiline.what",
    Kind::Choice(&["previous", "next"]),
    Fallback::Is("previous"),
    "With which line such a line belongs together: with the one before it, or with the one behind it.",
);
pub(super) const NEGATE: Key = key(
    "multiline.negate",
    Kind::Flag,
    Fallback::Is("false"),
    "Whether those are the lines in which the pattern is not found.",
);
pub(super) const MAX_LINES: Key = key(
    "multiline.maxLines",
    Kind::Number(1, 1_000_000, "lines"),
    Fallback::Is("500"),
    "How many lines an event may have. What is beyond is an event of its own, and counted in `EventReadFail`.",
);
pub(super) const MAX_BYTES: Key = key(
    "multiline.maxBytes",
    Kind::Number(16, 1 << 30, "bytes"),
    Fallback::Is("1048576"),
    "How long an event of several lines may be; so it is with what is beyond.",
);
pub(super) const TIMEOUT: Key = key(
    "multiline.timeout",
    Kind::Number(1, i64::MAX, "ms"),
    Fallback::Is("5000"),
    "After so long without a line, an event is complete to which lines could still belong.",
);

/// How lines are gathered.
#[derive(Debug)]
pub(super) struct Multiline {
    pattern: Regex,
    is_negated: bool,
    joins_next: bool,
    lines_max: usize,
    bytes_max: usize,
    pub(super) timeout: Duration,
}

/// Lines that belong together, as far as they were read.
struct Gathered {
    offset: u64,
    body: Vec<u8>,
    lines: usize,
    is_part: bool,
}

impl Gathered {
    fn new(line: &FileLine) -> Gathered {
        let FileLine { offset, is_part, .. } = *line;
        Gathered { offset, body: line.line.to_vec(), lines: 1, is_part }
    }

    fn push(&mut self, line: &FileLine) {
        self.body.push(b'\n');
        self.body.extend_from_slice(&line.line);
        self.lines += 1;
        self.is_part |= line.is_part;
    }

    fn into_line(self) -> FileLine {
        FileLine { offset: self.offset, line: Bytes::from(self.body), is_part: self.is_part }
    }
}

impl Multiline {
    /// As the settings say; `None` if each line is an event.
    ///
    /// # Errors
    ///
    /// There is no pattern, and another key of this kind is set.
    pub(super) fn new(settings: &Settings) -> Result<Option<Multiline>, String> {
        let Some(pattern) = settings.text(PATTERN.name) else {
            let others = [WHAT, NEGATE, MAX_LINES, MAX_BYTES, TIMEOUT];
            let other = others.iter().find(|key| settings.is_set(key.name));
            return match other {
                Some(key) => Err(format!("{} is set, and {} is not", key.name, PATTERN.name)),
                None => Ok(None),
            };
        };
        Ok(Some(Multiline {
            pattern: Regex::new(pattern).map_err(|error| format!("{}: {error}", PATTERN.name))?,
            is_negated: settings.flag(NEGATE.name),
            joins_next: settings.is(WHAT.name, "next"),
            lines_max: settings.size(MAX_LINES.name),
            bytes_max: settings.size(MAX_BYTES.name),
            timeout: settings.millis(TIMEOUT.name),
        }))
    }

    /// Makes events of lines, and leaves the last one if it may go on, unless `takes_last`. `position` is where the batch
    /// begins.
    pub(super) fn gather(&self, position: u64, batch: FileBatch, takes_last: bool) -> FileBatch {
        let FileBatch { lines, mut end, mut raw, is_all } = batch;
        let mut events = Vec::new();
        let mut open: Option<Gathered> = None;
        // Whether the line before wants the next one.
        let mut wants_next = false;
        for line in &lines {
            let text = String::from_utf8_lossy(&line.line);
            let is_joined = self.pattern.is_match(&text) != self.is_negated;
            let joins_before = if self.joins_next { wants_next } else { is_joined };
            wants_next = self.joins_next && is_joined;
            match &mut open {
                Some(event) if joins_before && self.has_room(event, line) => event.push(line),
                _ => {
                    let before = open.replace(Gathered::new(line));
                    events.extend(before.map(|mut event| {
                        event.is_part |= joins_before;
                        event.into_line()
                    }));
                }
            }
            if self.joins_next && !is_joined {
                events.extend(open.take().map(Gathered::into_line));
            }
        }
        match open {
            Some(event) if takes_last => events.push(event.into_line()),
            Some(event) => {
                end = event.offset;
                raw.truncate(usize::try_from(end - position).unwrap_or(usize::MAX));
            }
            None => {}
        }
        FileBatch { lines: events, end, raw, is_all }
    }

    fn has_room(&self, event: &Gathered, line: &FileLine) -> bool {
        let bytes = event.body.len() + 1 + line.line.len();
        event.lines < self.lines_max && bytes <= self.bytes_max
    }
}
