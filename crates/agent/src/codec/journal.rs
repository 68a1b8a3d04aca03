//! The journal's export format: entries with an empty line behind each. A field is `NAME=text` in a line, or, if it
//! has other characters, `NAME` in a line, its length in eight bytes (little-endian), its bytes and a line feed.
//!
//! Source: systemd's "Journal Export Formats".

use bytes::{Buf, Bytes, BytesMut};

use super::Malformed;

/// An entry, field by field.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) fields: Vec<(String, Bytes)>,
    /// Fields that are not there because they are too long.
    pub(crate) left_out: usize,
}

impl Entry {
    /// The text of the first field of a name.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        let field = self.fields.iter().find(|(found, _)| found == name);
        field.and_then(|(_, value)| std::str::from_utf8(value).ok())
    }
}

/// Entries of bytes that come in pieces. It keeps one entry at most, none of whose fields is above a bound.
#[derive(Debug)]
pub(crate) struct Entries {
    buffer: BytesMut,
    entry: Entry,
    entry_bytes: usize,
    /// So many bytes belong to a field that is too long.
    passed_by: u64,
    entry_bytes_max: usize,
}

/// The longest name of a field is 64 bytes, and nothing of a line is known before there is an end or a `=`.
const NAME_BYTES_MAX: usize = 256;

/// What a field takes beside its texts, about.
const FIELD_BYTES: usize = 64;

impl Entries {
    pub(crate) fn new(entry_bytes_max: usize) -> Entries {
        let (buffer, entry) = (BytesMut::new(), Entry::default());
        Entries { buffer, entry, entry_bytes: 0, passed_by: 0, entry_bytes_max }
    }

    /// Where what comes next is put.
    pub(crate) fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// The next entry that is whole.
    ///
    /// # Errors
    ///
    /// The bytes are no journal's; nothing behind them is read.
    pub(crate) fn next(&mut self) -> Result<Option<Entry>, Malformed> {
        loop {
            let part = usize::try_from(self.passed_by).unwrap_or(usize::MAX).min(self.buffer.len());
            self.buffer.advance(part);
            self.passed_by -= part as u64;
            let Some(end) = memchr::memchr(b'\n', &self.buffer) else {
                return self.long_line();
            };
            if end == 0 {
                self.buffer.advance(1);
                self.entry_bytes = 0;
                let entry = std::mem::take(&mut self.entry);
                match entry.fields.is_empty() && entry.left_out == 0 {
                    true => continue,
                    false => return Ok(Some(entry)),
                }
            }
            if let Some(equals) = memchr::memchr(b'=', &self.buffer[..end]) {
                let mut line = self.buffer.split_to(end).freeze();
                self.buffer.advance(1);
                let name = name(&line[..equals])?;
                line.advance(equals + 1);
                self.add(name, line);
                continue;
            }
            let name = name(&self.buffer[..end])?;
            let Some(length) = self.buffer[end + 1..].first_chunk::<8>() else { return Ok(None) };
            let length = u64::from_le_bytes(*length);
            let begin = end + 1 + 8;
            if length > self.entry_bytes_max as u64 {
                self.buffer.advance(begin);
                self.passed_by = length.saturating_add(1);
                self.entry.left_out += 1;
                continue;
            }
            let length = length as usize;
            if self.buffer.len() < begin + length + 1 {
                return Ok(None);
            }
            self.buffer.advance(begin);
            let value = self.buffer.split_to(length).freeze();
            if self.buffer[0] != b'\n' {
                return Err(Malformed::new("a field of the journal is not as long as it says"));
            }
            self.buffer.advance(1);
            self.add(name, value);
        }
    }

    /// A line without an end yet.
    fn long_line(&mut self) -> Result<Option<Entry>, Malformed> {
        let equals = memchr::memchr(b'=', &self.buffer);
        match (equals, self.buffer.len()) {
            (None, length) if length > NAME_BYTES_MAX => {
                Err(Malformed::new("what comes is no journal's export format"))
            }
            (Some(_), length) if length > self.entry_bytes_max + NAME_BYTES_MAX => {
                Err(Malformed::new("a line of the journal is too long"))
            }
            _ => Ok(None),
        }
    }

    fn add(&mut self, name: String, value: Bytes) {
        self.entry_bytes += FIELD_BYTES + name.len() + value.len();
        // Without its cursor nothing would come behind an entry.
        let is_cursor = name == "__CURSOR" && self.entry.text("__CURSOR").is_none();
        match self.entry_bytes > self.entry_bytes_max && !is_cursor {
            true => self.entry.left_out += 1,
            // Each has its own bytes, or a small one would keep what came with it.
            false => self.entry.fields.push((name, Bytes::copy_from_slice(&value))),
        }
    }
}

fn name(bytes: &[u8]) -> Result<String, Malformed> {
    let is_sound = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    match !bytes.is_empty() && bytes.len() <= NAME_BYTES_MAX && bytes.iter().all(is_sound) {
        true => Ok(String::from_utf8_lossy(bytes).into_owned()),
        false => {
            let text = String::from_utf8_lossy(&bytes[..bytes.len().min(NAME_BYTES_MAX)]);
            Err(Malformed(format!("a field of the journal is called '{}'", text.escape_debug())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &[u8] = b"__CURSOR=s=1;i=2\nPRIORITY=6\nMESSAGE\n\x08\0\0\0\0\0\0\0a\nb\xff=\n\nc\n\n__CURSOR=x\nMESSAGE=\n\n";

    fn read(max: usize, piece: usize, bytes: &[u8]) -> Result<Vec<Entry>, Malformed> {
        let (mut entries, mut found) = (Entries::new(max), Vec::new());
        for part in bytes.chunks(piece) {
            entries.buffer().extend_from_slice(part);
            while let Some(entry) = entries.next()? {
                found.push(entry);
            }
        }
        Ok(found)
    }

    #[test]
    fn entries_are_read_however_they_come() {
        for piece in [1, 2, 7, 1000] {
            let found = read(1000, piece, TWO).expect("are entries");
            assert_eq!(found.len(), 2, "{piece}");
            assert_eq!(found[0].text("__CURSOR"), Some("s=1;i=2"));
            assert_eq!(
                found[0].fields[2],
                ("MESSAGE".to_owned(), Bytes::from_static(b"a\nb\xff=\n\nc"))
            );
            assert_eq!(found[1].text("MESSAGE"), Some(""));
        }
    }

    #[test]
    fn what_is_too_long_is_left_out_and_what_is_no_journal_is_an_error() {
        for piece in [1, 1000] {
            let found = read(7, piece, TWO).expect("are entries");
            assert_eq!((found[0].left_out, found[0].text("__CURSOR")), (2, Some("s=1;i=2")));
            assert_eq!(found[1].left_out, 1);
        }
        let mut endless = b"A\n".to_vec();
        endless.extend_from_slice(&u64::MAX.to_le_bytes());
        endless.extend_from_slice(&[b'x'; 5000]);
        assert_eq!(read(100, 64, &endless), Ok(Vec::new()));
        for odd in
            [&b"not a journal at all\n"[..], b"=x\n", &[b'x'; 500], b"A\n\x01\0\0\0\0\0\0\0ab"]
        {
            assert!(read(100, 64, odd).is_err(), "{odd:?}");
        }
        assert!(read(100, 64, &[b"A=", &[b'x'; 5000][..]].concat()).is_err());
    }
}
