//! Lines out of a stream, none of them longer than a bound.

use std::io::{self, BufRead, Read};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

/// How much is read at once.
const PIECE_BYTES: usize = 16 << 10;

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A line without its end; a carriage return at its end is left away.
    Whole(Bytes),
    /// A line goes on beyond the bound; this is its beginning. The rest comes next.
    TooLong(Bytes),
}

/// Reads lines; holds at most one, and a piece behind it.
pub(crate) struct LineReader<R> {
    stream: R,
    buffer: BytesMut,
    /// So far no line ends.
    scanned: usize,
    line_bytes_max: usize,
    is_over: bool,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(crate) fn new(stream: R, line_bytes_max: usize) -> LineReader<R> {
        LineReader { stream, buffer: BytesMut::new(), scanned: 0, line_bytes_max, is_over: false }
    }

    /// The next line, or `None` at the end of the stream. Cancel safe.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            if let Some(line) = self.ready() {
                return Ok(Some(line));
            }
            if self.is_over {
                let rest = self.buffer.split().freeze();
                self.scanned = 0;
                return Ok((!rest.is_empty()).then(|| Line::Whole(without_return(rest))));
            }
            self.buffer.reserve(PIECE_BYTES);
            let mut limited = (&mut self.stream).take(PIECE_BYTES as u64);
            if limited.read_buf(&mut self.buffer).await? == 0 {
                self.is_over = true;
            }
        }
    }

    /// A line that is there already.
    pub(crate) fn ready(&mut self) -> Option<Line> {
        let found = memchr::memchr(b'\n', &self.buffer[self.scanned..]).map(|at| self.scanned + at);
        match found {
            Some(end) if end <= self.line_bytes_max => {
                let line = self.buffer.split_to(end);
                self.buffer.advance(1);
                self.scanned = 0;
                Some(Line::Whole(without_return(Bytes::copy_from_slice(&line))))
            }
            _ if self.buffer.len() > self.line_bytes_max => {
                let line = self.buffer.split_to(self.line_bytes_max);
                self.scanned = 0;
                Some(Line::TooLong(Bytes::copy_from_slice(&line)))
            }
            _ => {
                self.scanned = self.buffer.len();
                None
            }
        }
    }
}

/// Adds the next line to `line`, without its end, from a reader that may wait for a disk; `false` if there is none. Of a line
/// that is longer than the bound it is a part.
pub(crate) fn read_line(
    reader: &mut impl BufRead,
    line_bytes_max: usize,
    line: &mut Vec<u8>,
) -> io::Result<bool> {
    let before = line.len();
    reader.by_ref().take(line_bytes_max as u64).read_until(b'\n', line)?;
    let count = line.len() - before;
    if line.last() == Some(&b'\n') && count > 0 {
        line.pop();
    } else if count == line_bytes_max && reader.fill_buf()?.first() == Some(&b'\n') {
        reader.consume(1);
    }
    Ok(count > 0)
}

/// As Java's readers take lines.
pub(crate) fn without_return(line: Bytes) -> Bytes {
    match line.last() {
        Some(b'\r') => line.slice(..line.len() - 1),
        _ => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_reader_are_cut_in_the_same_way() {
        let mut reader =
            io::BufReader::with_capacity(3, &b"one\r\n\ntoo long a line\nsix---\nlast"[..]);
        let (mut found, mut line) = (Vec::new(), Vec::new());
        while read_line(&mut reader, 6, &mut line).expect("is read") {
            found.push(String::from_utf8(std::mem::take(&mut line)).expect("is text"));
        }
        assert_eq!(found, ["one\r", "", "too lo", "ng a l", "ine", "six---", "last"]);
    }

    #[tokio::test]
    async fn lines_are_cut_at_their_ends_and_at_the_bound() {
        let text = b"one\r\n\ntoo long a line\nlast";
        let mut lines = LineReader::new(&text[..], 6);
        let mut found = Vec::new();
        while let Some(line) = lines.next().await.expect("is read") {
            found.push(match line {
                Line::Whole(line) => String::from_utf8(line.to_vec()).expect("is text"),
                Line::TooLong(line) => format!("{}…", String::from_utf8_lossy(&line)),
            });
        }
        assert_eq!(found, ["one", "", "too lo…", "ng a l…", "ine", "last"]);
    }
}
