//! What every generated message can do.

use crate::{ApiKey, DecodeError, Decoder, EncodeError, Encoder, VersionRange};

/// A message of Kafka's protocol, generated from its definition.
///
/// `Default` gives the defaults of the definition. Encoding at a version that lacks a field drops the field if the
/// definition calls it ignorable, and is an error if its value is not the default.
pub trait Message: Sized + Default {
    /// The name in the definition, such as `ProduceRequest`.
    const NAME: &'static str;
    /// The versions that can be decoded and encoded.
    const VALID_VERSIONS: VersionRange;
    /// The valid versions with compact lengths and tagged fields (KIP-482); often empty.
    const FLEXIBLE_VERSIONS: VersionRange;

    /// Reads the message; what follows it in the frame is left unread.
    ///
    /// # Errors
    /// The bytes are not a message of that version, or decoding them would pass the decoder's limit.
    fn decode(from: &mut Decoder, version: i16) -> Result<Self, DecodeError>;

    /// Appends the message.
    ///
    /// # Errors
    /// The version is not valid, or cannot carry one of the values.
    fn encode(&self, to: &mut Encoder, version: i16) -> Result<(), EncodeError>;
}

/// A message that a client sends.
pub trait Request: Message {
    /// What the request asks for.
    const API_KEY: ApiKey;
    /// The message that answers it, at the same version.
    type Response: Response;
}

/// A message that answers a [`Request`].
pub trait Response: Message + Clone {
    /// What the request asked for.
    const API_KEY: ApiKey;

    /// Says for how long the client is slowed down, in a response that can say so at some version (KIP-219).
    fn set_throttle_time_ms(&mut self, _throttle_time_ms: i32) {}
}
