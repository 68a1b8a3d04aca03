//! Join tokens, as who adds a node to a cluster has them.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use logway_metadata::join_token::{Digest, WrongForm};

use crate::nodes::digest_of;
use crate::scram::{NoRandomness, random_bytes};

/// In front of each token, so that people and scanners of secrets see what it is.
const PREFIX: &str = "logway-join-";

const VERSION: u8 = 1;

/// The longest token: with the addresses of some hundred nodes.
const TOKEN_MAX_BYTES: usize = 16 << 10;

/// Lets a node into a cluster: it says where that is, by which authority to know it, and what to be known by.
#[derive(Clone, PartialEq, Eq)]
pub struct IssuedJoinToken {
    /// Of the certificate of the cluster's authority.
    pub authority: Digest,
    secret: [u8; 32],
    /// Where nodes listen for nodes.
    pub addresses: Vec<String>,
}

/// The secret is not printed.
impl fmt::Debug for IssuedJoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let addresses = &self.addresses;
        f.debug_struct("IssuedJoinToken").field("addresses", addresses).finish_non_exhaustive()
    }
}

impl IssuedJoinToken {
    /// A token with a secret that nobody has seen.
    pub fn new(authority: Digest, addresses: Vec<String>) -> Result<IssuedJoinToken, NoRandomness> {
        Ok(IssuedJoinToken { authority, secret: random_bytes()?, addresses })
    }

    /// What the cluster knows the token by.
    pub fn secret_digest(&self) -> Digest {
        digest_of(&self.secret)
    }

    /// What a node shows to be admitted.
    pub fn secret(&self) -> &[u8; 32] {
        &self.secret
    }

    /// The whole token. Who has it can join.
    pub fn to_text(&self) -> String {
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&self.authority.0);
        bytes.extend_from_slice(&self.secret);
        bytes.extend_from_slice(self.addresses.join(",").as_bytes());
        format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))
    }
}

impl FromStr for IssuedJoinToken {
    type Err = WrongForm;

    fn from_str(text: &str) -> Result<IssuedJoinToken, WrongForm> {
        let text = text.trim();
        let text = text.strip_prefix(PREFIX).filter(|text| text.len() <= TOKEN_MAX_BYTES);
        let bytes = URL_SAFE_NO_PAD.decode(text.ok_or(WrongForm)?).map_err(|_| WrongForm)?;
        let (version, rest) = bytes.split_first().ok_or(WrongForm)?;
        let (authority, rest) = rest.split_first_chunk::<32>().ok_or(WrongForm)?;
        let (secret, addresses) = rest.split_first_chunk::<32>().ok_or(WrongForm)?;
        let addresses = std::str::from_utf8(addresses).map_err(|_| WrongForm)?;
        let addresses = addresses.split(',').filter(|address| !address.is_empty());
        match *version == VERSION {
            true => Ok(IssuedJoinToken {
                authority: Digest(*authority),
                secret: *secret,
                addresses: addresses.map(str::to_owned).collect(),
            }),
            false => Err(WrongForm),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_it_was_written_and_not_printed() {
        let addresses = vec!["10.0.0.1:9093".to_owned(), "[::1]:9093".to_owned()];
        let token = IssuedJoinToken::new(Digest([7; 32]), addresses).expect("is made");
        let text = token.to_text();
        assert_eq!(text.parse(), Ok(token.clone()));
        assert_eq!(format!(" {text}\n").parse(), Ok(token.clone()));
        assert!(!format!("{token:?}").contains(&token.secret_digest().to_string()[..6]));
        for wrong in ["", "logway-join-", &text[1..], &text[..80], "logway-join-AgAA"] {
            assert!(wrong.parse::<IssuedJoinToken>().is_err(), "{wrong}");
        }
    }
}
