//! Cutting bytes into records.

use std::io::{BufRead, BufReader, Read};

use super::delimiter::Delimiter;
use super::input::cannot_read;
use crate::cli::error::CliError;

/// The longest record: more than brokers take in all but extreme settings, and little enough to
/// hold in memory a few times.
const PIECE_BYTES_MAX: usize = 64 << 20;

/// The pieces of an input, without what ends them. The last one need not have an end.
#[derive(Debug)]
pub(super) struct Pieces<R> {
    reader: BufReader<R>,
    name: String,
    delimiter: Delimiter,
    piece: Vec<u8>,
    number: u64,
    piece_bytes_max: usize,
    is_at_end: bool,
}

impl<R: Read> Pieces<R> {
    /// Pieces of `reader`, which messages call `name`.
    pub(super) fn new(reader: BufReader<R>, name: String, delimiter: Delimiter) -> Pieces<R> {
        Pieces {
            reader,
            name,
            delimiter,
            piece: Vec::new(),
            number: 0,
            piece_bytes_max: PIECE_BYTES_MAX,
            is_at_end: false,
        }
    }

    /// What comes first; empty at the end. Blocks until there is something.
    pub(super) fn head(&mut self) -> Result<&[u8], CliError> {
        self.reader.fill_buf().map_err(|source| cannot_read(&self.name, source))
    }

    /// Whether the next piece is there already, so that reading it does not block.
    pub(super) fn is_ready(&self) -> bool {
        match self.delimiter.bytes().last() {
            Some(last) => self.reader.buffer().contains(last),
            None => false,
        }
    }

    /// The next piece, or `None` at the end. Blocks until there is one.
    pub(super) fn next_piece(&mut self) -> Result<Option<&[u8]>, CliError> {
        self.piece.clear();
        if self.is_at_end {
            return Ok(None);
        }
        let is_complete = match self.delimiter.bytes().last().copied() {
            Some(last) => self.read_through(last)?,
            None => self.read_all()?,
        };
        let is_whole_input = self.delimiter.bytes().is_empty();
        self.is_at_end = !is_complete;
        if !is_complete && self.piece.is_empty() && !is_whole_input {
            return Ok(None);
        }
        self.number += 1;
        if is_complete {
            self.piece.truncate(self.piece.len() - self.delimiter.bytes().len());
        }
        if self.piece.len() > self.piece_bytes_max {
            return Err(self.too_long());
        }
        Ok(Some(&self.piece))
    }

    /// Reads up to the end of a piece, whose last byte is `last`, and says whether it has one.
    fn read_through(&mut self, last: u8) -> Result<bool, CliError> {
        loop {
            let read_bytes = self.read_bounded(|reader, piece| reader.read_until(last, piece))?;
            if self.piece.ends_with(self.delimiter.bytes()) {
                return Ok(true);
            }
            // What merely ends as the delimiter does is part of the piece.
            if read_bytes == 0 || self.piece.len() > self.piece_bytes_max {
                return Ok(false);
            }
        }
    }

    fn read_all(&mut self) -> Result<bool, CliError> {
        self.read_bounded(|reader, piece| reader.read_to_end(piece))?;
        Ok(false)
    }

    /// Reads more of a piece, but hardly more than a piece may have.
    fn read_bounded(
        &mut self,
        read: impl FnOnce(&mut std::io::Take<&mut BufReader<R>>, &mut Vec<u8>) -> std::io::Result<usize>,
    ) -> Result<usize, CliError> {
        let bytes_max = self.piece_bytes_max + self.delimiter.bytes().len() + 1;
        let left = bytes_max.saturating_sub(self.piece.len());
        let mut bounded = self.reader.by_ref().take(left as u64);
        read(&mut bounded, &mut self.piece).map_err(|source| cannot_read(&self.name, source))
    }

    fn too_long(&self) -> CliError {
        let Pieces { name, number, piece_bytes_max, .. } = self;
        let noun = self.delimiter.noun();
        CliError::Input(format!("{noun} {number} of {name} is longer than {piece_bytes_max} bytes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces_of<'a>(input: &'a [u8], delimiter: &str) -> Pieces<&'a [u8]> {
        let delimiter = Delimiter::parse(delimiter).expect("a delimiter");
        // Smaller than the pieces, so that they come in parts.
        Pieces::new(BufReader::with_capacity(2, input), "test".to_owned(), delimiter)
    }

    fn cut(input: &[u8], delimiter: &str) -> Vec<Vec<u8>> {
        let mut pieces = pieces_of(input, delimiter);
        let mut all = Vec::new();
        while let Some(piece) = pieces.next_piece().expect("short pieces") {
            all.push(piece.to_vec());
        }
        all
    }

    #[test]
    fn every_byte_but_the_line_end_is_kept() {
        assert_eq!(cut(b"", r"\n"), Vec::<Vec<u8>>::new());
        assert_eq!(cut(b"a\n\nb", r"\n"), [&b"a"[..], b"", b"b"]);
        assert_eq!(cut(b"a\r\n\xff\x00\n", r"\n"), [&b"a\r"[..], b"\xff\x00"]);
    }

    #[test]
    fn delimiters_can_be_any_bytes() {
        assert_eq!(cut(b"a\nb\0\0c\0", r"\0"), [&b"a\nb"[..], b"", b"c"]);
        assert_eq!(cut(b"a\nb\r\n\r\nc\r", r"\r\n"), [&b"a\nb"[..], b"", b"c\r"]);
        assert_eq!(cut(b"a--b-c--", "--"), [&b"a"[..], b"b-c"]);
        assert_eq!(cut(b"aaaaa", "aa"), [&b""[..], b"", b"a"]);
    }

    #[test]
    fn without_a_delimiter_everything_is_one_record() {
        assert_eq!(cut(b"a\nb\0c\n", ""), [b"a\nb\0c\n"]);
        assert_eq!(cut(b"", ""), [b""], "an empty file is an empty record");
    }

    #[test]
    fn an_endless_record_is_refused() {
        let mut pieces = pieces_of(b"abc\nabcd\nabcde\nabc", r"\n");
        pieces.piece_bytes_max = 4;
        assert_eq!(pieces.next_piece().expect("3 bytes"), Some(&b"abc"[..]));
        assert_eq!(pieces.next_piece().expect("4 bytes"), Some(&b"abcd"[..]));
        let error = pieces.next_piece().expect_err("5 bytes").to_string();
        assert_eq!(error, "line 3 of test is longer than 4 bytes");
        for (input, delimiter) in [(&b"abcdefgh"[..], ""), (b"a-a-a-a-a--", "--")] {
            let mut pieces = pieces_of(input, delimiter);
            pieces.piece_bytes_max = 4;
            let error = pieces.next_piece().expect_err("more than 4 bytes").to_string();
            assert_eq!(error, "record 1 of test is longer than 4 bytes");
            assert!(pieces.piece.capacity() < 100);
        }
    }
}
