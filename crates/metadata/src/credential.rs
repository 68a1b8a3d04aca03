//! What is stored of a password.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

/// A user's password for one mechanism of SCRAM, as a server keeps it (RFC 5802).
///
/// Nobody can log in with it, but who has it can try passwords until one fits. So it is never shown: what is printed
/// of it has no keys.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScramCredential {
    /// What the password was hashed with.
    pub salt: Bytes,
    /// How often it was hashed.
    pub iterations: u32,
    /// What a client's proof is checked by.
    pub stored_key: Bytes,
    /// What the server proves itself by.
    pub server_key: Bytes,
}

impl fmt::Debug for ScramCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let iterations = self.iterations;
        f.debug_struct("ScramCredential").field("iterations", &iterations).finish_non_exhaustive()
    }
}

/// Bytes that are written as Base64, and not printed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Bytes(pub Vec<u8>);

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl From<Bytes> for String {
    fn from(bytes: Bytes) -> String {
        STANDARD.encode(bytes.0)
    }
}

impl TryFrom<String> for Bytes {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Bytes, &'static str> {
        STANDARD.decode(text).map(Bytes).map_err(|_| "it is no Base64")
    }
}
