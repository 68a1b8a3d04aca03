//! How clients can say who they are.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A SASL mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SaslMechanism {
    /// Name and password as they are (RFC 4616).
    Plain,
    /// A password that is proved and not sent (RFC 5802).
    Scram(ScramMechanism),
    /// A token that an authority has signed (RFC 7628).
    OauthBearer,
}

/// A hash of SCRAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScramMechanism {
    /// SCRAM-SHA-256 (RFC 7677).
    Sha256,
    /// SCRAM-SHA-512.
    Sha512,
}

impl ScramMechanism {
    /// Both.
    pub const ALL: [ScramMechanism; 2] = [ScramMechanism::Sha256, ScramMechanism::Sha512];

    /// The name by which clients ask for it.
    pub const fn name(self) -> &'static str {
        match self {
            ScramMechanism::Sha256 => "SCRAM-SHA-256",
            ScramMechanism::Sha512 => "SCRAM-SHA-512",
        }
    }

    /// Its number in requests (KIP-554).
    pub const fn number(self) -> i8 {
        match self {
            ScramMechanism::Sha256 => 1,
            ScramMechanism::Sha512 => 2,
        }
    }

    /// The mechanism of a number.
    pub fn from_number(number: i8) -> Option<ScramMechanism> {
        ScramMechanism::ALL.into_iter().find(|mechanism| mechanism.number() == number)
    }
}

impl SaslMechanism {
    /// Every mechanism.
    pub const ALL: [SaslMechanism; 4] = [
        SaslMechanism::Plain,
        SaslMechanism::Scram(ScramMechanism::Sha256),
        SaslMechanism::Scram(ScramMechanism::Sha512),
        SaslMechanism::OauthBearer,
    ];

    /// The name by which clients ask for it.
    pub const fn name(self) -> &'static str {
        match self {
            SaslMechanism::Plain => "PLAIN",
            SaslMechanism::Scram(mechanism) => mechanism.name(),
            SaslMechanism::OauthBearer => "OAUTHBEARER",
        }
    }
}

impl fmt::Display for SaslMechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for SaslMechanism {
    type Err = ();

    fn from_str(text: &str) -> Result<SaslMechanism, ()> {
        SaslMechanism::ALL.into_iter().find(|mechanism| mechanism.name() == text).ok_or(())
    }
}
