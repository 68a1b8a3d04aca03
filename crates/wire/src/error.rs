//! Why bytes are not a message, or a message cannot be bytes.

/// The bytes are not what the definition says, or would take too much memory as values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} at byte {position_bytes}: {kind}")]
pub struct DecodeError {
    /// The field that was being read, as `Struct.field`.
    pub field: &'static str,
    /// How far into the decoder's frame the reader was when it gave up.
    pub position_bytes: usize,
    /// What is wrong.
    pub kind: DecodeErrorKind,
}

/// What is wrong with the bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeErrorKind {
    /// The frame, or the tagged field that holds the value, ends too early.
    #[error("{needed_bytes} bytes needed, {remaining_bytes} left")]
    Truncated {
        /// What the value takes.
        needed_bytes: usize,
        /// What is there.
        remaining_bytes: usize,
    },
    /// A length or count below -1.
    #[error("negative length {0}")]
    NegativeLength(i32),
    /// A string longer than Kafka's 32,767 bytes.
    #[error("string of {0} bytes, more than 32767")]
    StringTooLong(usize),
    /// An array whose elements, at their smallest, could not fit in the bytes that remain.
    #[error(
        "{count} elements of at least {element_bytes_min} bytes each, but {remaining_bytes} bytes left"
    )]
    CountTooLarge {
        /// The count on the wire.
        count: usize,
        /// The least that one element takes on the wire at this version.
        element_bytes_min: usize,
        /// What is there.
        remaining_bytes: usize,
    },
    /// The decoded values would pass the decoder's limit.
    #[error("decoded values would pass the limit of {decoded_bytes_max} bytes")]
    LimitExceeded {
        /// The decoder's limit.
        decoded_bytes_max: usize,
    },
    /// Null, where the version has no null.
    #[error("null where a value is required")]
    UnexpectedNull,
    /// A presence byte of a struct that is neither -1 nor 1 (KIP-893).
    #[error("presence byte {0}, neither -1 nor 1")]
    InvalidPresence(i8),
    /// A variable-length integer of more than 32 bits.
    #[error("variable-length integer of more than 32 bits")]
    VarintOverflow,
    /// Tags must rise (KIP-482): this one repeats or follows a larger one.
    #[error("tag {tag} after tag {previous}")]
    TagOrder {
        /// The offending tag.
        tag: u32,
        /// The tag before it.
        previous: u32,
    },
    /// Bytes are left over at the end of a frame or of a tagged field.
    #[error("{0} bytes left over")]
    TrailingBytes(usize),
    /// The message has no such version.
    #[error("version {0} is not one of the message's versions")]
    UnsupportedVersion(i16),
    /// A request header with an API key that is not in the definitions.
    #[error("unknown API key {0}")]
    UnknownApiKey(i16),
}

/// The message cannot be written at that version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// The message has no such version.
    #[error("{message} has no version {version}")]
    UnsupportedVersion {
        /// The message's name.
        message: &'static str,
        /// The version asked for.
        version: i16,
    },
    /// A field that the version lacks, that may not be dropped, has a value other than its default.
    #[error("version {version} has no field {field}, which is set")]
    UnsupportedField {
        /// The field, as `Struct.field`.
        field: &'static str,
        /// The version asked for.
        version: i16,
    },
    /// The field is `None`, and cannot be null at that version.
    #[error("{field} cannot be null at version {version}")]
    UnexpectedNull {
        /// The field, as `Struct.field`.
        field: &'static str,
        /// The version asked for.
        version: i16,
    },
    /// A string of more than 32,767 bytes, or bytes, records, an array or a frame of more than 2,147,483,646.
    #[error("{field}: length {length} cannot be written")]
    TooLong {
        /// The field, as `Struct.field`.
        field: &'static str,
        /// Its length, in bytes or elements.
        length: usize,
    },
    /// Unknown tagged fields must rise in tag, and not repeat a field that the version knows.
    #[error("unknown tagged field {tag} of {field} is out of order or known at this version")]
    TagOrder {
        /// The struct that holds it.
        field: &'static str,
        /// The offending tag.
        tag: u32,
    },
    /// External records, where only bytes in memory can be written.
    #[error("records that are not in memory cannot be written here")]
    UnexpectedHole,
}
