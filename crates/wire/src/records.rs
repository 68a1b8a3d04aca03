//! The `records` type: record batches inside a message.

use bytes::Bytes;

/// Record batches as a message carries them: never parsed here.
///
/// Decoding always gives [`Records::InMemory`], a slice of the frame. A broker that sends from files puts
/// [`Records::External`] into its response: the encoder then writes only the length, and notes the place as a
/// [`Hole`](crate::Hole).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Records {
    /// The bytes themselves.
    InMemory(Bytes),
    /// Bytes that the caller sends itself.
    External {
        /// How many bytes the caller will send.
        len_bytes: usize,
        /// The caller's name for them, handed back in the [`Hole`](crate::Hole).
        token: usize,
    },
}

impl Records {
    /// How many bytes of record batches there are.
    pub fn len_bytes(&self) -> usize {
        match self {
            Records::InMemory(bytes) => bytes.len(),
            Records::External { len_bytes, .. } => *len_bytes,
        }
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len_bytes() == 0
    }

    /// The bytes, if they are in memory; those of a decoded message always are.
    pub fn bytes(&self) -> Option<&Bytes> {
        match self {
            Records::InMemory(bytes) => Some(bytes),
            Records::External { .. } => None,
        }
    }

    /// The bytes, if they are in memory; those of a decoded message always are.
    pub fn into_bytes(self) -> Option<Bytes> {
        match self {
            Records::InMemory(bytes) => Some(bytes),
            Records::External { .. } => None,
        }
    }
}

impl Default for Records {
    fn default() -> Records {
        Records::InMemory(Bytes::new())
    }
}

impl From<Bytes> for Records {
    fn from(bytes: Bytes) -> Records {
        Records::InMemory(bytes)
    }
}
