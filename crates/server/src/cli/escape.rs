//! Backslash escapes in arguments, for bytes that are hard to type.

use std::iter::Peekable;
use std::str::Chars;

/// Reads what follows a backslash: `n`, `t`, `r`, `0`, `\`, or `x` and two hexadecimal digits.
///
/// # Errors
///
/// What is wrong, for the user.
pub(super) fn after_backslash(chars: &mut Peekable<Chars<'_>>) -> Result<u8, String> {
    match chars.next() {
        Some('n') => Ok(b'\n'),
        Some('t') => Ok(b'\t'),
        Some('r') => Ok(b'\r'),
        Some('0') => Ok(0),
        Some('\\') => Ok(b'\\'),
        Some('x') => {
            let mut digit = || chars.next().and_then(|digit| digit.to_digit(16));
            let value = digit().zip(digit()).map(|(high, low)| high * 16 + low);
            let byte = value.and_then(|value| u8::try_from(value).ok());
            byte.ok_or_else(|| "'\\x' needs two hexadecimal digits".to_owned())
        }
        Some(other) => Err(format!("'\\{other}' is no escape: use \\n \\t \\r \\0 \\\\ or \\xHH")),
        None => Err("a '\\' at the end escapes nothing".to_owned()),
    }
}

/// A text with its escapes as the bytes that they stand for.
pub(super) fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '\\' => bytes.push(after_backslash(&mut chars)?),
            _ => bytes.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_stand_for_bytes() {
        assert_eq!(unescape(r"a\tb\n\r\0\\\xfFü").as_deref(), Ok(&b"a\tb\n\r\0\\\xff\xc3\xbc"[..]));
        for bad in [r"\", r"\q", r"\x", r"\x1", r"\xg0"] {
            assert!(unescape(bad).is_err(), "{bad}");
        }
    }
}
