//! Identities of brokers, clusters, directories and topics.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// 128 bits, written as Kafka writes them: 22 characters of unpadded URL-safe base64.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// All zeros: "no id".
    pub const ZERO: Uuid = Uuid([0; 16]);

    /// A version 4 UUID of the given random bits.
    pub fn from_random(mut bits: [u8; 16]) -> Uuid {
        bits[6] = (bits[6] & 0x0f) | 0x40;
        bits[8] = (bits[8] & 0x3f) | 0x80;
        Uuid(bits)
    }

    /// As others write it (RFC 9562): 36 characters, hexadecimal digits in five groups.
    pub fn hyphenated(self) -> String {
        let hex: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
    }

    /// Whether this is [`Uuid::ZERO`].
    pub fn is_zero(self) -> bool {
        self == Uuid::ZERO
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is not a [`Uuid`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a base64 UUID of 22 characters")]
pub struct InvalidUuid(String);

impl FromStr for Uuid {
    type Err = InvalidUuid;

    fn from_str(text: &str) -> Result<Uuid, InvalidUuid> {
        let invalid = || InvalidUuid(text.to_owned());
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| invalid())?;
        Ok(Uuid(bytes.try_into().map_err(|_| invalid())?))
    }
}

impl Serialize for Uuid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Uuid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Uuid, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

macro_rules! uuid_newtype {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
        )]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

uuid_newtype! {
    /// Names a topic for good: a topic deleted and created again has another id (KIP-516).
    TopicId
}
uuid_newtype! {
    /// Names a log directory (KIP-858).
    DirectoryId
}
uuid_newtype! {
    /// Names a cluster.
    ClusterId
}

impl DirectoryId {
    /// Of a replica whose log directory nobody has said yet.
    pub const UNASSIGNED: DirectoryId = DirectoryId(Uuid::ZERO);
}

/// The number of a broker in its cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BrokerId(pub i32);

impl fmt::Display for BrokerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::Uuid;

    #[test]
    fn text_form_is_kafkas() {
        // The id that Kafka reserves for its metadata topic: 1 in 128 bits.
        let mut bytes = [0; 16];
        bytes[15] = 1;
        assert_eq!(Uuid(bytes).to_string(), "AAAAAAAAAAAAAAAAAAAAAQ");
        assert_eq!("AAAAAAAAAAAAAAAAAAAAAQ".parse(), Ok(Uuid(bytes)));
        assert!("AAAA".parse::<Uuid>().is_err());
        assert!("!!!".parse::<Uuid>().is_err());
    }
}
