//! What is said of values that are not of their shape, in AWS's words.

use std::cell::RefCell;

use base64_simd::STANDARD;
use bytes::Bytes;

use crate::shape::Kind;

/// A value as it was found, where its shape wanted another one.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Found<'a> {
    Boolean,
    Number,
    Text(&'a str),
    Bytes,
    List,
    Map,
}

/// The first thing that is wrong with the types of a request. The rest of it is read all the same: if it cannot be
/// parsed, that is what the client is told.
#[derive(Debug, Default)]
pub(crate) struct TypeErrors(RefCell<Option<String>>);

/// As much of a value is repeated.
const REPEATED_CHARS: usize = 256;

impl TypeErrors {
    /// Notes one, unless another came before.
    pub(crate) fn note(&self, message: String) {
        self.0.borrow_mut().get_or_insert(message);
    }

    /// Notes that a value is not of its kind.
    pub(crate) fn note_mismatch(&self, kind: &Kind, found: Found<'_>) {
        self.note(mismatch(kind, found));
    }

    /// Notes that there is no entry where a list has one. What is of another type has been noted before.
    pub(crate) fn note_absent_entry(&self) {
        self.note("An entry of a list must not be null".to_owned());
    }

    /// What was noted.
    pub(crate) fn into_first(self) -> Option<String> {
        self.0.into_inner()
    }
}

fn mismatch(kind: &Kind, found: Found<'_>) -> String {
    let class = match (kind, found) {
        (Kind::List(_), Found::Map) => {
            return "Start of structure or map found where not expected.".to_owned();
        }
        (Kind::List(_), _) => return "Expected list or null".to_owned(),
        (_, Found::List) => return "Start of list found where not expected".to_owned(),
        (Kind::Map(..), _) => return "Expected map or null".to_owned(),
        (Kind::Structure(_), _) => return "Expected null".to_owned(),
        (_, Found::Map) => return "Start of structure or map found where not expected.".to_owned(),
        (Kind::Boolean, Found::Text(text)) => {
            let text: String = text.to_uppercase().chars().take(REPEATED_CHARS).collect();
            return format!("'{text}' can not be converted to an Boolean");
        }
        (_, Found::Boolean) => "java.lang.Boolean",
        (_, Found::Number) => "com.amazon.coral.value.json.numbers.TruncatingBigNumber",
        (_, Found::Text(_)) => "java.lang.String",
        (_, Found::Bytes) => "java.nio.HeapByteBuffer",
    };
    let target = match kind {
        Kind::Boolean => "an Boolean",
        Kind::Integer => "an Integer",
        Kind::Long => "an Long",
        Kind::Double => "a Double",
        Kind::Blob => "a Blob",
        Kind::Timestamp => "milliseconds since epoch",
        _ => "an String",
    };
    format!("class {class} can not be converted to {target}")
}

/// The bytes of a text in base64.
pub(crate) fn blob_of_text(text: &str, errors: &TypeErrors) -> Option<Bytes> {
    match STANDARD.decode_to_vec(text) {
        Ok(bytes) => Some(bytes.into()),
        Err(_) => {
            let shown: String = text.chars().take(REPEATED_CHARS).collect();
            errors
                .note(format!("'{shown}' can not be converted to a Blob: {}", wrong_base64(text)));
            None
        }
    }
}

fn wrong_base64(text: &str) -> String {
    let length = text.encode_utf16().count();
    if !length.is_multiple_of(4) {
        return format!(
            "Base64 encoded length is expected a multiple of 4 bytes but found: {length}"
        );
    }
    let is_digit = |letter: char| letter.is_ascii_alphanumeric() || "+/=".contains(letter);
    let without_padding = text.trim_end_matches('=');
    match text.chars().find(|letter| !is_digit(*letter)) {
        Some(letter) => format!("Invalid Base64 character: '{letter}'"),
        None if without_padding.contains('=') => "Invalid Base64 character: '='".to_owned(),
        None => "Invalid last non-pad Base64 character dectected".to_owned(),
    }
}

/// A number as its kind keeps it: what is too large for 32 bits is cut.
pub(crate) fn number_of_kind(kind: &Kind, number: i64) -> i64 {
    match kind {
        Kind::Integer => number.clamp(i32::MIN.into(), i32::MAX.into()),
        _ => number,
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD as OTHER;

    use super::*;

    #[test]
    fn base64_is_what_others_take_it_for() {
        // Of each length, with each padding, with bits behind the last byte, and with what is no letter of it.
        let mut letters = b"AAAAQUJDRA+/xYz0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJ".to_vec();
        for length in 0..letters.len() {
            for end in ["", "=", "==", "===", "A=", "Q=", "B=", "Q==", "R==", "*", "\u{fc}", "\n"] {
                let text = format!("{}{end}", String::from_utf8_lossy(&letters[..length]));
                let ours = STANDARD.decode_to_vec(&text).ok();
                assert_eq!(ours, OTHER.decode(&text).ok(), "{text}");
            }
        }
        for place in 0..letters.len() {
            for letter in [b' ', b'-', b'_', b'=', 0, 0xff] {
                let before = std::mem::replace(&mut letters[place], letter);
                let text = [&letters[..60], b"AAAA"].concat();
                assert_eq!(
                    STANDARD.decode_to_vec(&text).ok(),
                    OTHER.decode(&text).ok(),
                    "{text:x?}"
                );
                letters[place] = before;
            }
        }
    }
}
