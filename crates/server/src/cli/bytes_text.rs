//! Bytes as text: themselves if they are UTF-8, otherwise base64.

use std::borrow::Cow;

use super::byte_encoding::{ByteEncoding, JsonEncoding};

/// Bytes in a form that JSON can hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BytesText<'a> {
    /// The text, or what stands for the bytes.
    pub(super) text: Cow<'a, str>,
    /// What it is written in, if it is not the text itself.
    pub(super) encoding: Option<JsonEncoding>,
}

impl<'a> BytesText<'a> {
    /// Bytes in an encoding that somebody chose; raw ones have a form of their own choosing.
    pub(super) fn new(bytes: &'a [u8], chosen: ByteEncoding) -> BytesText<'a> {
        match (chosen.in_json(), std::str::from_utf8(bytes)) {
            (None, Ok(text)) => BytesText { text: Cow::Borrowed(text), encoding: None },
            (encoding, _) => {
                let encoding = encoding.unwrap_or(JsonEncoding::Base64);
                BytesText { text: Cow::Owned(encoding.encode(bytes)), encoding: Some(encoding) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_not_text_is_encoded() {
        let raw = ByteEncoding::Raw;
        assert_eq!(BytesText::new("ü".as_bytes(), raw).encoding, None);
        let encoded = BytesText::new(b"\xff\x00", raw);
        assert_eq!((&*encoded.text, encoded.encoding), ("/wA=", Some(JsonEncoding::Base64)));
    }

    #[test]
    fn an_encoding_that_was_chosen_is_for_text_as_well() {
        let encoded = BytesText::new(b"a", ByteEncoding::Hex);
        assert_eq!((&*encoded.text, encoded.encoding), ("61", Some(JsonEncoding::Hex)));
    }
}
