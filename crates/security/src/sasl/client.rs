//! The client's side of an exchange: for the command line, and for tests of the server's side.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use logway_metadata::sasl::{SaslMechanism, ScramMechanism};
use ring::digest;

use crate::scram::{NoRandomness, digest_of, is_equal, mac, random_bytes, salted_password};

const NONCE_BYTES: usize = 24;

/// More often than this no server may have a password hashed: it would be an attack.
const ITERATIONS_MAX: u32 = 1_000_000;

/// Somebody who says who he is.
pub struct Login {
    mechanism: SaslMechanism,
    user: String,
    password: String,
    scram: Option<ScramLogin>,
}

/// What a client answers that was told that its token is not believed (RFC 7628).
const HEARD: &[u8] = b"\x01";

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("user", &self.user).finish_non_exhaustive()
    }
}

struct ScramLogin {
    mechanism: ScramMechanism,
    bare: String,
    nonce: String,
    /// What the server has to prove itself by, once the client has.
    expected: Option<Vec<u8>>,
}

/// What a server says that is not what it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the server's answer is none of this mechanism: {0}")]
pub struct WrongAnswer(&'static str);

impl Login {
    /// Begins; gives the first token, too. With OAUTHBEARER the password is the token, which says whose it is.
    pub fn new(
        mechanism: SaslMechanism,
        user: &str,
        password: &str,
    ) -> Result<(Login, Vec<u8>), NoRandomness> {
        Login::with_extension(mechanism, user, password, "")
    }

    /// Begins with a delegation token. Its HMAC in Base64 is the password (KIP-48).
    pub fn by_token(
        mechanism: ScramMechanism,
        id: &str,
        hmac: &str,
    ) -> Result<(Login, Vec<u8>), NoRandomness> {
        Login::with_extension(SaslMechanism::Scram(mechanism), id, hmac, ",tokenauth=true")
    }

    fn with_extension(
        mechanism: SaslMechanism,
        user: &str,
        password: &str,
        extension: &str,
    ) -> Result<(Login, Vec<u8>), NoRandomness> {
        let login = |scram| Login {
            mechanism,
            user: user.to_owned(),
            password: password.to_owned(),
            scram,
        };
        match mechanism {
            SaslMechanism::Plain => Ok((login(None), format!("\0{user}\0{password}").into_bytes())),
            SaslMechanism::OauthBearer => {
                let token = format!("n,,\u{1}auth=Bearer {password}\u{1}\u{1}");
                Ok((login(None), token.into_bytes()))
            }
            SaslMechanism::Scram(mechanism) => {
                let nonce = STANDARD.encode(random_bytes::<NONCE_BYTES>()?);
                let name = user.replace('=', "=3D").replace(',', "=2C");
                let bare = format!("n={name},r={nonce}{extension}");
                let token = format!("n,,{bare}").into_bytes();
                Ok((login(Some(ScramLogin { mechanism, bare, nonce, expected: None })), token))
            }
        }
    }

    /// The mechanism.
    pub fn mechanism(&self) -> SaslMechanism {
        self.mechanism
    }

    /// Takes what the server says; `None` when all is said.
    pub fn step(&mut self, token: &[u8]) -> Result<Option<Vec<u8>>, WrongAnswer> {
        let Some(scram) = &mut self.scram else {
            let is_refused = self.mechanism == SaslMechanism::OauthBearer && !token.is_empty();
            return Ok(is_refused.then(|| HEARD.to_vec()));
        };
        let text = std::str::from_utf8(token).map_err(|_| WrongAnswer("it is no UTF-8"))?;
        match scram.expected.take() {
            None => scram.prove(text, &self.password).map(Some),
            Some(expected) => {
                let signature = text.strip_prefix("v=").and_then(|it| STANDARD.decode(it).ok());
                match signature.is_some_and(|signature| is_equal(&signature, &expected)) {
                    true => Ok(None),
                    false => Err(WrongAnswer("the server does not know the password")),
                }
            }
        }
    }
}

impl ScramLogin {
    fn prove(&mut self, challenge: &str, password: &str) -> Result<Vec<u8>, WrongAnswer> {
        let mut parts = challenge.splitn(3, ',');
        let mut part = |prefix: &str| parts.next().and_then(|part| part.strip_prefix(prefix));
        let wrong = || WrongAnswer("its first message has not nonce, salt and iterations");
        let nonce = part("r=").ok_or_else(wrong)?;
        let salt = part("s=").and_then(|it| STANDARD.decode(it).ok()).ok_or_else(wrong)?;
        let iterations = part("i=").and_then(|it| it.parse().ok()).ok_or_else(wrong)?;
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return Err(WrongAnswer("its nonce is not made of ours"));
        }
        if !(1..=ITERATIONS_MAX).contains(&iterations) {
            return Err(WrongAnswer("it would have the password hashed too often"));
        }
        let salted = salted_password(self.mechanism, password.as_bytes(), &salt, iterations);
        let client_key = mac(self.mechanism, &salted, b"Client Key");
        let stored_key = digest::digest(digest_of(self.mechanism), &client_key);
        // The beginning of the first message, `n,,`.
        let without_proof = format!("c=biws,r={nonce}");
        let messages = format!("{},{challenge},{without_proof}", self.bare);
        let signature = mac(self.mechanism, stored_key.as_ref(), messages.as_bytes());
        let proof: Vec<u8> = client_key.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
        let server_key = mac(self.mechanism, &salted, b"Server Key");
        self.expected = Some(mac(self.mechanism, &server_key, messages.as_bytes()));
        Ok(format!("{without_proof},p={}", STANDARD.encode(proof)).into_bytes())
    }
}
