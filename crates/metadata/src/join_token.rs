//! What lets a node be admitted to a cluster whose nodes talk by TLS.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

/// A SHA-256: of a public key, by which a node is known, or of a secret.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(pub [u8; 32]);

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Base64 that needs no escape in any text.
impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

/// Text that is no digest or no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is not of this form")]
pub struct WrongForm;

impl FromStr for Digest {
    type Err = WrongForm;

    fn from_str(text: &str) -> Result<Digest, WrongForm> {
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| WrongForm)?;
        bytes.try_into().map(Digest).map_err(|_| WrongForm)
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> String {
        digest.to_string()
    }
}

impl TryFrom<String> for Digest {
    type Error = WrongForm;

    fn try_from(text: String) -> Result<Digest, WrongForm> {
        text.parse()
    }
}

/// What the cluster keeps of a join token, as `SECRET:EXPIRES:USES` in the setting `logway.join.tokens`: nobody can join
/// by what is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct JoinToken {
    /// Of the token's secret. By it a token is known.
    pub secret: Digest,
    /// When it expires, in milliseconds since 1970.
    pub expires_ms: i64,
    /// How many nodes can still join by it, at least one.
    pub uses: u32,
}

impl JoinToken {
    /// Those of a list, as the setting has it.
    pub fn parse_list(text: &str) -> Vec<JoinToken> {
        text.split(',').filter_map(|token| token.parse().ok()).collect()
    }
}

impl From<JoinToken> for String {
    fn from(token: JoinToken) -> String {
        token.to_string()
    }
}

impl TryFrom<String> for JoinToken {
    type Error = WrongForm;

    fn try_from(text: String) -> Result<JoinToken, WrongForm> {
        text.parse()
    }
}

impl fmt::Display for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.secret, self.expires_ms, self.uses)
    }
}

impl FromStr for JoinToken {
    type Err = WrongForm;

    fn from_str(text: &str) -> Result<JoinToken, WrongForm> {
        let mut parts = text.split(':');
        let mut next = || parts.next().ok_or(WrongForm);
        let (secret, expires, uses) = (next()?, next()?, next()?);
        let token = JoinToken {
            secret: secret.parse()?,
            expires_ms: expires.parse().map_err(|_| WrongForm)?,
            uses: uses.parse().map_err(|_| WrongForm)?,
        };
        match (token.uses, token.expires_ms, parts.next()) {
            (1.., 0.., None) => Ok(token),
            _ => Err(WrongForm),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_of_a_token_is_read_as_it_was_written() {
        let token = JoinToken { secret: Digest([200; 32]), expires_ms: 1_700_000_000_000, uses: 2 };
        let text = token.to_string();
        assert_eq!(text.parse(), Ok(token));
        for wrong in ["", "a:1:1", &format!("{text}:1"), &text.replace(":2", ":0"), &text[1..]] {
            assert_eq!(wrong.parse::<JoinToken>(), Err(WrongForm), "{wrong}");
        }
    }
}
