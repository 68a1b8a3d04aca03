//! What programs log in with for users (KIP-48): an id, and the HMAC of the id by a key that all nodes have.
//!
//! A program logs in by SCRAM: the id is its user name, and its password the HMAC in Base64.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use logway_metadata::credential::{Bytes, ScramCredential};
use logway_metadata::delegation_token::DelegationToken;
use logway_metadata::sasl::ScramMechanism;
use logway_metadata::settings::Secret;
use ring::hmac;

use crate::bearer::time_left;
use crate::nodes::digest_of;
use crate::scram::{DEFAULT_ITERATIONS, credential_of, salted_password};

/// Looks up the token of an id.
pub type FindToken<'a> = dyn Fn(&str) -> Option<Arc<DelegationToken>> + Sync + 'a;

/// The key of all tokens, `delegation.token.secret.key`.
pub struct TokenKey(hmac::Key);

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenKey")
    }
}

/// The SHA-256 of a token's HMAC, by which the metadata knows it. Nobody logs in with it.
pub fn hmac_digest(hmac: &[u8]) -> Bytes {
    Bytes(digest_of(hmac).0.to_vec())
}

/// The password of programs that log in with a token.
pub fn password_of(hmac: &[u8]) -> String {
    STANDARD.encode(hmac)
}

impl TokenKey {
    /// Of the text in the settings.
    pub fn new(secret: &Secret) -> TokenKey {
        TokenKey(hmac::Key::new(hmac::HMAC_SHA512, secret.reveal().as_bytes()))
    }

    /// The HMAC of a token's id.
    pub fn hmac(&self, id: &str) -> Vec<u8> {
        hmac::sign(&self.0, id.as_bytes()).as_ref().to_vec()
    }

    /// The HMAC of a token that was made with this key.
    pub fn hmac_of(&self, token: &DelegationToken) -> Option<Vec<u8>> {
        Some(self.hmac(&token.id)).filter(|hmac| hmac_digest(hmac) == token.hmac_digest)
    }

    /// What a server keeps of the password of a token, whether there is a token of the id or not. It takes milliseconds.
    ///
    /// The salt is made of the key and the id: so it is the same each time and on each node, and tells nothing of whether
    /// there is such a token.
    fn credential(&self, id: &str, mechanism: ScramMechanism) -> ScramCredential {
        const SALT_BYTES: usize = 24;
        // It begins as no id does, so that no salt has anything of a password.
        let salt_of = format!("salt of {mechanism:?} for {id}");
        let mut salt = self.hmac(&salt_of);
        salt.truncate(SALT_BYTES);
        let password = password_of(&self.hmac(id));
        let salted = salted_password(mechanism, password.as_bytes(), &salt, DEFAULT_ITERATIONS);
        credential_of(mechanism, &salted, salt, DEFAULT_ITERATIONS)
    }
}

/// The tokens that programs may log in with.
#[derive(Clone, Copy)]
pub struct DelegationTokens<'a> {
    /// Their key.
    pub key: &'a TokenKey,
    /// Looks up what is known of one.
    pub find: &'a FindToken<'a>,
}

impl DelegationTokens<'_> {
    /// What is kept of the password of an id, and the token of the id or why nobody gets in with it. Both take the same
    /// time for tokens that there are and others.
    pub(crate) fn look_up(
        &self,
        id: &str,
        mechanism: ScramMechanism,
    ) -> (ScramCredential, Result<Arc<DelegationToken>, &'static str>) {
        let credential = self.key.credential(id, mechanism);
        let digest = hmac_digest(&self.key.hmac(id));
        let token = (self.find)(id).filter(|token| token.hmac_digest == digest);
        let token = token.ok_or("there is no such token").and_then(|token| {
            let is_over = time_left(end(&token)).is_zero();
            if is_over { Err("the token has expired") } else { Ok(token) }
        });
        (credential, token)
    }
}

/// Since 1970, when nobody is known by a token any more.
pub(crate) fn end(token: &DelegationToken) -> Duration {
    Duration::from_millis(u64::try_from(token.expires_ms.min(token.max_ms).0).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scram::is_password;

    fn key(secret: &str) -> TokenKey {
        TokenKey::new(&Secret::new(secret.to_owned()))
    }

    #[test]
    fn the_hmac_is_kafkas() {
        // Of `printf 5dkfy8KPQ4-hLMJ6M1DWsg | openssl dgst -sha512 -hmac secret -binary | base64`.
        let hmac = STANDARD.encode(key("secret").hmac("5dkfy8KPQ4-hLMJ6M1DWsg"));
        assert_eq!(
            hmac,
            "BfPx2VOSZLNqBpubaRZumGfh5LfpS49OJTmozmZenUHa6fRNZ9VFyh4MeyLVqM878buiWNdbEhTHgR4xwmCf4Q=="
        );
    }

    #[test]
    fn the_password_of_a_token_is_its_hmac_in_base64() {
        let key = key("secret");
        for mechanism in ScramMechanism::ALL {
            let credential = key.credential("id", mechanism);
            assert_eq!(credential.iterations, 4_096);
            assert_eq!(credential.salt, key.credential("id", mechanism).salt);
            assert_ne!(credential.salt, key.credential("it", mechanism).salt);
            assert!(is_password(mechanism, &STANDARD.encode(key.hmac("id")), &credential));
            assert!(!is_password(mechanism, &STANDARD.encode(key.hmac("it")), &credential));
        }
    }

    #[test]
    fn a_key_is_not_printed() {
        assert_eq!(format!("{:?}", key("secret")), "TokenKey");
    }
}
