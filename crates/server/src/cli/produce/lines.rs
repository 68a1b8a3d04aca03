//! Cutting bytes into lines.

use std::io::{BufRead, Read};

use super::input::cannot_read;
use crate::cli::error::CliError;

/// The longest line: more than brokers take as one record in all but extreme settings, and little
/// enough to hold in memory.
const LINE_BYTES_MAX: usize = 64 << 20;

/// The lines of an input, as bytes without the `\n`. The last one need not end with it.
#[derive(Debug)]
pub(super) struct Lines<R> {
    reader: R,
    name: String,
    line: Vec<u8>,
    number: u64,
    line_bytes_max: usize,
}

impl<R: BufRead> Lines<R> {
    /// Lines of `reader`, which messages call `name`.
    pub(super) fn new(reader: R, name: String) -> Lines<R> {
        Lines { reader, name, line: Vec::new(), number: 0, line_bytes_max: LINE_BYTES_MAX }
    }

    /// The next line, or `None` at the end. Blocks until there is one.
    pub(super) fn next_line(&mut self) -> Result<Option<&[u8]>, CliError> {
        self.line.clear();
        let limit = self.line_bytes_max as u64 + 1;
        let mut bounded = self.reader.by_ref().take(limit);
        let read_bytes = bounded
            .read_until(b'\n', &mut self.line)
            .map_err(|source| cannot_read(&self.name, source))?;
        if read_bytes == 0 {
            return Ok(None);
        }
        self.number += 1;
        let is_complete = self.line.pop_if(|last| *last == b'\n').is_some();
        if !is_complete && self.line.len() > self.line_bytes_max {
            return Err(CliError::Input(format!(
                "line {} of {} is longer than {} bytes",
                self.number, self.name, self.line_bytes_max
            )));
        }
        Ok(Some(&self.line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(input: &[u8]) -> Vec<Vec<u8>> {
        let mut lines = Lines::new(input, "test".to_owned());
        let mut all = Vec::new();
        while let Some(line) = lines.next_line().expect("short lines") {
            all.push(line.to_vec());
        }
        all
    }

    #[test]
    fn every_byte_but_the_line_end_is_kept() {
        assert_eq!(lines(b""), Vec::<Vec<u8>>::new());
        assert_eq!(lines(b"a\n\nb"), [&b"a"[..], b"", b"b"]);
        assert_eq!(lines(b"a\r\n\xff\x00\n"), [&b"a\r"[..], b"\xff\x00"]);
    }

    #[test]
    fn an_endless_line_is_refused() {
        let mut lines = Lines::new(&b"abc\nabcd\nabcde"[..], "test".to_owned());
        lines.line_bytes_max = 4;
        assert_eq!(lines.next_line().expect("3 bytes"), Some(&b"abc"[..]));
        assert_eq!(lines.next_line().expect("4 bytes"), Some(&b"abcd"[..]));
        let error = lines.next_line().expect_err("5 bytes").to_string();
        assert_eq!(error, "line 3 of test is longer than 4 bytes");
    }
}
