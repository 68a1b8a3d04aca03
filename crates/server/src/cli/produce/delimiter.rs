//! What ends a record in the input.

use crate::cli::escape::unescape;

/// The bytes between records; none if the whole input is one record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Delimiter(Vec<u8>);

impl Default for Delimiter {
    /// The end of a line.
    fn default() -> Delimiter {
        Delimiter(b"\n".to_vec())
    }
}

impl Delimiter {
    /// Reads an argument with its escapes.
    ///
    /// # Errors
    ///
    /// What is wrong, for the user.
    pub(super) fn parse(text: &str) -> Result<Delimiter, String> {
        unescape(text).map(Delimiter)
    }

    /// The bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// What a piece of the input is called.
    pub(super) fn noun(&self) -> &'static str {
        match &*self.0 {
            b"\n" | b"\r\n" => "line",
            _ => "record",
        }
    }
}
