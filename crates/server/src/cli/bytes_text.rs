//! Bytes as text: themselves if they are UTF-8, otherwise base64.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Bytes in a form that JSON can hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BytesText<'a> {
    /// The text, or the base64.
    pub(super) text: Cow<'a, str>,
    /// `base64`, if it is not the text itself.
    pub(super) encoding: Option<&'static str>,
}

impl<'a> BytesText<'a> {
    /// Chooses the form.
    pub(super) fn new(bytes: &'a [u8]) -> BytesText<'a> {
        match std::str::from_utf8(bytes) {
            Ok(text) => BytesText { text: Cow::Borrowed(text), encoding: None },
            Err(_) => {
                BytesText { text: Cow::Owned(STANDARD.encode(bytes)), encoding: Some("base64") }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_not_text_is_encoded() {
        assert_eq!(BytesText::new("ü".as_bytes()).encoding, None);
        let encoded = BytesText::new(b"\xff\x00");
        assert_eq!((&*encoded.text, encoded.encoding), ("/wA=", Some("base64")));
    }
}
