//! Telling text from other bytes.
//!
//! An image, an Avro file or anything compressed can be cut at the bytes that are line ends in text.
//! The pieces are of no use to anybody, and nobody notices before they are read.

use std::str;

use crate::cli::error::CliError;

/// Whether bytes are UTF-8 without control characters that no text has.
pub(super) fn is_text(bytes: &[u8]) -> bool {
    first_strange(bytes).is_none()
}

/// Refuses an input that does not begin as text. A character that is cut off at the end of `head` is no
/// fault.
///
/// # Errors
///
/// Where it is no text, and what to do.
pub(super) fn check_head(head: &[u8], name: &str) -> Result<(), CliError> {
    match first_strange(head) {
        Some(at) if !is_cut_off(&head[at..]) => {
            let byte = head[at];
            let what =
                format!("{name} is not text: byte {at} is 0x{byte:02x}; nothing of it was sent");
            Err(CliError::Input(what).with_hint(ADVICE))
        }
        _ => Ok(()),
    }
}

const ADVICE: &str = "-d '' sends all of it as one record, -d '\\0' cuts it at NUL bytes, \
                      -d '\\n' cuts it at each 0x0a all the same";

/// The first byte that no text has.
fn first_strange(bytes: &[u8]) -> Option<usize> {
    let valid = match str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            // What is valid before it may be strange even so.
            let (valid, _) = bytes.split_at(error.valid_up_to());
            return Some(first_control(valid).unwrap_or(valid.len()));
        }
    };
    first_control(valid.as_bytes())
}

/// Tools write backspaces, bells, form feeds and escape sequences into logs.
fn first_control(bytes: &[u8]) -> Option<usize> {
    let is_control = |byte: &u8| (*byte < 0x20) & !matches!(byte, 0x07..=0x0d | 0x1b);
    // All of them first, without a way out in between: the compiler makes that many at a time.
    let has_one = bytes.iter().fold(false, |has_one, byte| has_one | is_control(byte));
    if has_one { bytes.iter().position(is_control) } else { None }
}

/// Whether bytes are the beginning of a character and nothing else.
fn is_cut_off(bytes: &[u8]) -> bool {
    str::from_utf8(bytes)
        .is_err_and(|error| error.error_len().is_none() && error.valid_up_to() == 0)
}

/// What has been said of the records of an input, once each.
#[derive(Debug, Default)]
pub(super) struct Remarks {
    has_said_strange: bool,
    has_said_carriage_return: bool,
}

impl Remarks {
    /// A remark on a line, if it is odd in a way that was not remarked on.
    pub(super) fn on(&mut self, line: &[u8], number: u64, name: &str) -> Option<String> {
        if !self.has_said_strange && !is_text(line) {
            self.has_said_strange = true;
            return Some(format!(
                "line {number} of {name} is not text, and is sent all the same: is that file really \
                 made of lines? See -d DELIMITER"
            ));
        }
        if !self.has_said_carriage_return && line.ends_with(b"\r") {
            self.has_said_carriage_return = true;
            return Some(format!(
                "line {number} of {name} ends in \\r\\n, and the \\r is part of the record; -d '\\r\\n' \
                 takes both away"
            ));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_people_read_is_text() {
        for text in ["", "a\tb\r", "\x1b[31mred\x1b[0m", "grüße \u{1f600}", "\x07\x08\x0b\x0c"] {
            assert!(is_text(text.as_bytes()), "{text}");
        }
        for bytes in [&b"a\0b"[..], b"\xff\xfe", b"Obj\x01\x04", b"\x1f\x8b\x08\0", b"caf\xe9"] {
            assert!(!is_text(bytes), "{bytes:?}");
        }
    }

    #[test]
    fn a_head_may_end_within_a_character() {
        let text = "a\n\u{1f600}".as_bytes();
        for end in 0..=text.len() {
            assert!(check_head(&text[..end], "t").is_ok(), "{end}");
        }
        let error = check_head(b"\x89PNG\r\n", "cat.png").expect_err("no text").to_string();
        assert_eq!(error, "cat.png is not text: byte 0 is 0x89; nothing of it was sent");
        assert!(check_head(b"ab\xc3(", "t").is_err(), "it is not only cut off");
        assert!(check_head(b"Obj\x01\xc3", "t").is_err());
    }

    #[test]
    fn each_oddity_is_remarked_on_once() {
        let mut remarks = Remarks::default();
        assert_eq!(remarks.on(b"a", 1, "t"), None);
        assert!(
            remarks.on(b"a\r", 2, "t").is_some_and(|said| said.starts_with("line 2 of t ends"))
        );
        assert!(remarks.on(b"\0\r", 3, "t").is_some_and(|said| said.contains("is not text")));
        assert_eq!(remarks.on(b"\0\r", 4, "t"), None);
    }
}
