//! Lines of a file from a place on, read by a thread that may wait for the disk.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use bytes::Bytes;

use super::lines::without_return;

const PIECE_BYTES: usize = 64 << 10;

/// A line, and where it is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FileLine {
    pub(crate) offset: u64,
    pub(crate) line: Bytes,
    /// Whether it is only a part of a line that is longer than the bound.
    pub(crate) is_part: bool,
}

/// Where a batch ends: behind so many lines, or the line with which it has so many bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) lines: usize,
    pub(crate) bytes: usize,
    /// How long a line may be.
    pub(crate) line_bytes: usize,
}

/// Some lines, and the place behind them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct FileBatch {
    pub(crate) lines: Vec<FileLine>,
    pub(crate) end: u64,
    /// The bytes of them, as they are in the file.
    pub(crate) raw: Vec<u8>,
    /// Whether the file has no more lines now.
    pub(crate) is_all: bool,
}

/// Reads lines from `offset` on. A last line without its end is left, unless `takes_rest`.
pub(crate) fn read_lines(
    file: &File,
    offset: u64,
    bounds: Bounds,
    takes_rest: bool,
) -> io::Result<FileBatch> {
    let line_bytes_max = bounds.line_bytes;
    let (mut lines, mut raw, mut is_all) = (Vec::new(), Vec::new(), false);
    // In `raw`: where the next line begins, and how far no line feed is behind that.
    let (mut begin, mut scanned) = (0, 0);
    while lines.len() < bounds.lines && begin < bounds.bytes {
        let found = memchr::memchr(b'\n', &raw[scanned..]).map(|at| scanned + at - begin);
        let left_bytes = raw.len() - begin;
        let (line_bytes, taken_bytes) = match found {
            Some(at) if at <= line_bytes_max => (at, at + 1),
            _ if left_bytes > line_bytes_max => (line_bytes_max, line_bytes_max),
            _ => {
                scanned = raw.len();
                raw.resize(scanned + PIECE_BYTES, 0);
                let count = file.read_at(&mut raw[scanned..], offset + scanned as u64)?;
                raw.truncate(scanned + count);
                if count > 0 {
                    continue;
                }
                is_all = true;
                if !takes_rest || left_bytes == 0 {
                    break;
                }
                (left_bytes, left_bytes)
            }
        };
        let line = Bytes::copy_from_slice(&raw[begin..begin + line_bytes]);
        let is_part = line_bytes == line_bytes_max && taken_bytes == line_bytes;
        let offset = offset + begin as u64;
        lines.push(FileLine { offset, line: without_return(line), is_part });
        begin += taken_bytes;
        scanned = begin;
    }
    raw.truncate(begin);
    Ok(FileBatch { lines, end: offset + begin as u64, raw, is_all })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn whole_lines_are_read_and_the_rest_is_left() {
        let mut file = tempfile::tempfile().expect("is made");
        file.write_all(b"one\r\n\nfar too long\nrest").expect("is written");
        let texts = |batch: &FileBatch| -> Vec<String> {
            batch.lines.iter().map(|l| String::from_utf8_lossy(&l.line).into_owned()).collect()
        };
        let read = |offset, (lines, bytes), takes_rest| {
            let bounds = Bounds { lines, bytes, line_bytes: 5 };
            read_lines(&file, offset, bounds, takes_rest).expect("is read")
        };
        let batch = read(0, (2, 100), false);
        assert_eq!((texts(&batch), batch.end), (vec!["one".to_owned(), String::new()], 6));
        assert!(!batch.is_all);
        let batch = read(6, (100, 100), false);
        assert_eq!(texts(&batch), ["far t", "oo lo", "ng"]);
        assert!(batch.lines[0].is_part && !batch.lines[2].is_part);
        assert_eq!((batch.end, batch.is_all), (19, true));
        let batch = read(19, (100, 100), false);
        assert_eq!((batch.lines.len(), batch.end, batch.is_all), (0, 19, true));
        assert_eq!(texts(&read(19, (100, 100), true)), ["rest"]);
        // A batch has the line with which it reaches the bound, so that it has one at least.
        for (bytes, lines) in [(1, 1), (5, 1), (6, 2), (7, 3), (100, 5)] {
            let batch = read(0, (100, bytes), false);
            assert_eq!((batch.lines.len(), batch.is_all), (lines, lines == 5), "{bytes} bytes");
        }
    }
}
