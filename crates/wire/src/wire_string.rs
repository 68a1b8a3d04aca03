//! Strings that share the frame's memory.

use std::borrow::{Borrow, Cow};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

use bytes::Bytes;

/// Immutable UTF-8 text over [`Bytes`]; cloning is cheap.
///
/// A decoded string is a slice of its frame and keeps the *whole frame* in memory: what outlives the request should
/// hold [`WireString::detached`] or a `String` instead.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct WireString(Bytes);

impl WireString {
    /// The empty string.
    pub const fn new() -> WireString {
        WireString(Bytes::new())
    }

    /// A string over static memory.
    pub const fn from_static(text: &'static str) -> WireString {
        WireString(Bytes::from_static(text.as_bytes()))
    }

    /// Takes the bytes without copying.
    ///
    /// # Errors
    /// The bytes, if they are not UTF-8.
    pub fn from_utf8(bytes: Bytes) -> Result<WireString, Bytes> {
        match std::str::from_utf8(&bytes) {
            Ok(_) => Ok(WireString(bytes)),
            Err(_) => Err(bytes),
        }
    }

    /// Copies the text.
    pub fn copy_of(text: &str) -> WireString {
        WireString(Bytes::copy_from_slice(text.as_bytes()))
    }

    /// A copy that shares no memory with the frame.
    pub fn detached(&self) -> WireString {
        WireString(Bytes::copy_from_slice(&self.0))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        // Checked again rather than assumed: this keeps the crate free of `unsafe`, and names are short.
        std::str::from_utf8(&self.0).expect("every constructor takes only UTF-8")
    }

    /// The bytes of the text.
    pub fn as_bytes(&self) -> &Bytes {
        &self.0
    }
}

impl Deref for WireString {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for WireString {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl Borrow<str> for WireString {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl From<&'static str> for WireString {
    /// Without copying; see [`WireString::copy_of`] for text that does not live for ever.
    fn from(text: &'static str) -> WireString {
        WireString::from_static(text)
    }
}

impl From<Cow<'static, str>> for WireString {
    fn from(text: Cow<'static, str>) -> WireString {
        match text {
            Cow::Borrowed(text) => text.into(),
            Cow::Owned(text) => text.into(),
        }
    }
}

impl From<String> for WireString {
    fn from(text: String) -> WireString {
        WireString(Bytes::from(text))
    }
}

impl From<WireString> for String {
    fn from(text: WireString) -> String {
        text.as_str().to_owned()
    }
}

impl PartialEq<str> for WireString {
    fn eq(&self, other: &str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl PartialEq<&str> for WireString {
    fn eq(&self, other: &&str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl PartialOrd for WireString {
    fn partial_cmp(&self, other: &WireString) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for WireString {
    fn cmp(&self, other: &WireString) -> Ordering {
        // UTF-8 sorts as its code points do, so this is also the order of `str`.
        self.0.cmp(&other.0)
    }
}

impl Hash for WireString {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // As `str` hashes, which `Borrow<str>` demands.
        self.as_str().hash(state);
    }
}

impl fmt::Display for WireString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_str(), f)
    }
}

impl fmt::Debug for WireString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn shares_the_frame_until_detached() {
        let frame = Bytes::from_static(b"..name..");
        let name = WireString::from_utf8(frame.slice(2..6)).unwrap();
        assert!(frame.as_ptr_range().contains(&name.as_ptr()));
        assert!(!frame.as_ptr_range().contains(&name.detached().as_ptr()));
        assert_eq!(name, name.detached());
    }

    #[test]
    fn is_found_by_str() {
        let map = HashMap::from([(WireString::from("topic"), 1)]);
        assert_eq!(map.get("topic"), Some(&1));
    }

    #[test]
    fn sorts_as_str_does() {
        let mut texts = ["b", "a", "é", "z", "", "木", "ab"];
        let mut strings = texts.map(WireString::from);
        texts.sort_unstable();
        strings.sort_unstable();
        assert_eq!(strings, texts.map(WireString::from));
    }

    #[test]
    fn refuses_what_is_not_utf8() {
        assert!(WireString::from_utf8(Bytes::from_static(&[0xff])).is_err());
    }
}
