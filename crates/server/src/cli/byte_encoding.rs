//! Bytes as text that survives terminals, pipes and tools: hexadecimal digits or base64.

use std::borrow::Cow;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, STANDARD};
use base64::engine::{DecodePaddingMode, GeneralPurposeConfig};
use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How keys and values are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum ByteEncoding {
    /// The bytes themselves
    #[default]
    Raw,
    /// Two hexadecimal digits a byte
    Hex,
    /// Base64 of RFC 4648, section 4
    Base64,
}

/// How JSON holds bytes that are not written as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum JsonEncoding {
    Hex,
    Base64,
}

/// Tools leave the padding out, or do not.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

impl ByteEncoding {
    /// Bytes in this encoding.
    pub(super) fn encode(self, bytes: &[u8]) -> Cow<'_, [u8]> {
        match self.in_json() {
            None => Cow::Borrowed(bytes),
            Some(encoding) => Cow::Owned(encoding.encode(bytes).into_bytes()),
        }
    }

    /// The bytes that a text stands for.
    ///
    /// # Errors
    ///
    /// What is wrong, for the user.
    pub(super) fn decode(self, text: &[u8]) -> Result<Cow<'_, [u8]>, String> {
        match self.in_json() {
            None => Ok(Cow::Borrowed(text)),
            Some(encoding) => encoding.decode(text).map(Cow::Owned),
        }
    }

    /// The same in JSON, which says nothing of text.
    pub(super) fn in_json(self) -> Option<JsonEncoding> {
        match self {
            ByteEncoding::Raw => None,
            ByteEncoding::Hex => Some(JsonEncoding::Hex),
            ByteEncoding::Base64 => Some(JsonEncoding::Base64),
        }
    }
}

impl JsonEncoding {
    /// Bytes in this encoding.
    pub(super) fn encode(self, bytes: &[u8]) -> String {
        match self {
            JsonEncoding::Hex => {
                let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value)]);
                bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
            }
            JsonEncoding::Base64 => STANDARD.encode(bytes),
        }
    }

    /// The bytes that a text stands for; white space, with which tools break lines, is left out.
    ///
    /// # Errors
    ///
    /// What is wrong, for the user.
    pub(super) fn decode(self, text: &[u8]) -> Result<Vec<u8>, String> {
        let mut text = Cow::Borrowed(text);
        if text.iter().any(u8::is_ascii_whitespace) {
            text.to_mut().retain(|byte| !byte.is_ascii_whitespace());
        }
        match self {
            JsonEncoding::Hex => {
                decode_hex(&text).ok_or_else(|| "it is not pairs of hexadecimal digits".to_owned())
            }
            JsonEncoding::Base64 => {
                LENIENT.decode(&*text).map_err(|error| format!("it is not base64: {error}"))
            }
        }
    }
}

fn decode_hex(text: &[u8]) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_chunks::<2>();
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let byte = |[high, low]: &[u8; 2]| u8::try_from(digit(*high)? * 16 + digit(*low)?).ok();
    rest.is_empty().then(|| pairs.iter().map(byte).collect())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        let bytes: Vec<u8> = (0..=255).collect();
        for encoding in [ByteEncoding::Raw, ByteEncoding::Hex, ByteEncoding::Base64] {
            for length in 0..bytes.len() {
                let encoded = encoding.encode(&bytes[..length]);
                assert_eq!(encoding.decode(&encoded).as_deref(), Ok(&bytes[..length]));
            }
        }
        assert_eq!(&*ByteEncoding::Hex.encode(b"\xff\x00a"), b"ff0061");
        assert_eq!(&*ByteEncoding::Base64.encode(b"\xff\x00"), b"/wA=");
    }

    #[test]
    fn what_tools_write_is_read() {
        assert_eq!(JsonEncoding::Hex.decode(b"FF00\n61 "), Ok(b"\xff\x00a".to_vec()));
        assert_eq!(JsonEncoding::Base64.decode(b"/w\nA"), Ok(b"\xff\x00".to_vec()));
    }

    #[test]
    fn other_text_is_refused() {
        for text in ["f", "zz", "0x00", "\u{fc}"] {
            assert!(JsonEncoding::Hex.decode(text.as_bytes()).is_err(), "{text}");
        }
        for text in ["/", "_-==", "a b c d e"] {
            assert!(JsonEncoding::Base64.decode(text.as_bytes()).is_err(), "{text}");
        }
    }
}
