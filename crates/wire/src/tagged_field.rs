//! Fields that a flexible version may carry beyond those it defines (KIP-482).

use bytes::Bytes;

/// A tagged field that the definition does not know, kept so that it can be passed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawTaggedField {
    /// The field's number, unique in its struct.
    pub tag: u32,
    /// The field's bytes, without their length.
    pub data: Bytes,
}
