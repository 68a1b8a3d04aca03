//! The structs inside messages.

use crate::{DecodeError, Decoder, EncodeError, Encoder};

/// A struct inside a message, which has no versions of its own: it is read and written at those of its message.
pub(crate) trait WireStruct: Sized {
    /// The least bytes that a value takes on the wire, never 0; counts are checked against it.
    fn wire_bytes_min(version: i16) -> usize;

    /// Reads the struct.
    fn decode(from: &mut Decoder, version: i16) -> Result<Self, DecodeError>;

    /// Writes the struct.
    fn encode(&self, to: &mut Encoder, version: i16) -> Result<(), EncodeError>;
}
