//! SCRAM (RFC 5802): a client proves that it knows a password, and the server that it knows the client.
//!
//! ```text
//! client   n,,n=user,r=NONCE[,extension=value …]
//! server   r=NONCE+OURS,s=SALT,i=ITERATIONS
//! client   c=biws,r=NONCE+OURS,p=PROOF
//! server   v=SIGNATURE
//! ```
//!
//! Without channel binding: it would bind to the certificate, and Kafka's clients have none of it.

use std::fmt::Write as _;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use logway_metadata::credential::ScramCredential;
use logway_metadata::sasl::ScramMechanism;
use ring::digest;

use super::{FindCredential, Refusal, Step, Strangers};
use crate::scram::{digest_of, is_equal, mac, random_bytes};

const NONCE_BYTES: usize = 24;

/// The longest nonce of a client that is repeated to it.
const CLIENT_NONCE_MAX_BYTES: usize = 1_024;

/// A client at one mechanism.
#[derive(Debug)]
pub(super) struct ScramExchange {
    mechanism: ScramMechanism,
    /// What has been said, once the client has begun.
    begun: Option<Begun>,
}

#[derive(Debug)]
struct Begun {
    user: String,
    credential: Arc<ScramCredential>,
    is_known: bool,
    /// What the client's second message has to repeat, in Base64: the beginning of the first.
    header: String,
    /// Both nonces, the client's first.
    nonce: String,
    client_nonce_bytes: usize,
    /// The client's first message without its beginning, and ours.
    messages: String,
}

/// The client's first message.
#[derive(Debug, PartialEq, Eq)]
struct ClientFirst<'a> {
    header: &'a str,
    bare: &'a str,
    user: String,
    nonce: &'a str,
}

/// The client's second message.
#[derive(Debug, PartialEq, Eq)]
struct ClientFinal<'a> {
    channel_binding: &'a str,
    nonce: &'a str,
    proof: Vec<u8>,
    without_proof: &'a str,
}

impl ScramExchange {
    pub(super) fn new(mechanism: ScramMechanism) -> ScramExchange {
        ScramExchange { mechanism, begun: None }
    }

    pub(super) fn step(
        &mut self,
        token: &[u8],
        find: &FindCredential<'_>,
        strangers: &Strangers,
    ) -> Result<Step, Refusal> {
        let text = std::str::from_utf8(token).map_err(|_| Refusal::new("the token is no UTF-8"))?;
        match self.begun.take() {
            None => self.begin(text, find, strangers),
            Some(begun) => begun.end(self.mechanism, text),
        }
    }

    fn begin(
        &mut self,
        text: &str,
        find: &FindCredential<'_>,
        strangers: &Strangers,
    ) -> Result<Step, Refusal> {
        let ClientFirst { header, bare, user, nonce } = ClientFirst::parse(text)?;
        let found = find(&user, self.mechanism);
        let is_known = found.is_some();
        let credential = found.unwrap_or_else(|| strangers.credential(&user, self.mechanism));
        let ours = random_bytes::<NONCE_BYTES>();
        let ours = ours.map_err(|_| Refusal::new("the system gives no random numbers"))?;
        let client_nonce_bytes = nonce.len();
        let nonce = format!("{nonce}{}", STANDARD.encode(ours));
        let (salt, iterations) = (STANDARD.encode(&credential.salt.0), credential.iterations);
        let reply = format!("r={nonce},s={salt},i={iterations}");
        let header = STANDARD.encode(header);
        let messages = format!("{bare},{reply}");
        self.begun =
            Some(Begun { user, credential, is_known, header, nonce, client_nonce_bytes, messages });
        Ok(Step::Challenge(reply.into_bytes()))
    }
}

impl Begun {
    fn end(self, mechanism: ScramMechanism, text: &str) -> Result<Step, Refusal> {
        let refuse = |reason| Refusal { user: Some(self.user.clone()), reason };
        let last = ClientFinal::parse(text).map_err(|error| refuse(error.reason))?;
        if !self.is_nonce(last.nonce) || last.channel_binding != self.header {
            return Err(refuse("the second message does not follow from the first"));
        }
        let mut messages = self.messages.clone();
        write!(messages, ",{}", last.without_proof).expect("writing to a string cannot fail");
        let ScramCredential { stored_key, server_key, .. } = &*self.credential;
        let signature = mac(mechanism, &stored_key.0, messages.as_bytes());
        let key: Vec<u8> = signature.iter().zip(&last.proof).map(|(a, b)| a ^ b).collect();
        let of_proof = digest::digest(digest_of(mechanism), &key);
        let is_proved =
            last.proof.len() == signature.len() && is_equal(of_proof.as_ref(), &stored_key.0);
        match is_proved && self.is_known {
            true => {
                let signature = STANDARD.encode(mac(mechanism, &server_key.0, messages.as_bytes()));
                let token = format!("v={signature}").into_bytes();
                Ok(Step::Done { user: self.user, token, expires: None })
            }
            false if self.is_known => Err(refuse("the password is wrong")),
            false => Err(refuse("there is no such user")),
        }
    }
}

impl Begun {
    /// Whether the client repeats both nonces. librdkafka before 2.6.1 says its own once more in front of them, which
    /// binds the proof to ours no less.
    fn is_nonce(&self, said: &str) -> bool {
        let behind_own = said.strip_prefix(&self.nonce[..self.client_nonce_bytes]);
        said == self.nonce || behind_own == Some(&self.nonce)
    }
}

impl<'a> ClientFirst<'a> {
    fn parse(text: &'a str) -> Result<ClientFirst<'a>, Refusal> {
        let wrong = || Refusal::new("the first message is none of SCRAM");
        let mut parts = text.splitn(3, ',');
        let (flag, identity) = (parts.next().ok_or_else(wrong)?, parts.next().ok_or_else(wrong)?);
        let bare = parts.next().ok_or_else(wrong)?;
        if flag.starts_with("p=") {
            return Err(Refusal::new("it asks for channel binding"));
        }
        if flag != "n" && flag != "y" {
            return Err(wrong());
        }
        let header = &text[..text.len() - bare.len()];
        let mut attributes = bare.split(',');
        let user = attributes.next().and_then(|it| it.strip_prefix("n=")).ok_or_else(wrong)?;
        let nonce = attributes.next().and_then(|it| it.strip_prefix("r=")).ok_or_else(wrong)?;
        let user = unescaped(user).filter(|user| !user.is_empty()).ok_or_else(wrong)?;
        let is_nonce = nonce.bytes().all(|byte| byte.is_ascii_graphic()) && !nonce.is_empty();
        if !is_nonce || nonce.len() > CLIENT_NONCE_MAX_BYTES {
            return Err(wrong());
        }
        let acts_for = identity.strip_prefix("a=").and_then(unescaped);
        if !identity.is_empty() && acts_for.as_deref() != Some(&user) {
            let reason = "it wants to act for another user";
            return Err(Refusal { user: Some(user), reason });
        }
        Ok(ClientFirst { header, bare, user, nonce })
    }
}

impl<'a> ClientFinal<'a> {
    fn parse(text: &'a str) -> Result<ClientFinal<'a>, Refusal> {
        let wrong = || Refusal::new("the second message is none of SCRAM");
        let (without_proof, proof) = text.rsplit_once(",p=").ok_or_else(wrong)?;
        let proof = STANDARD.decode(proof).map_err(|_| wrong())?;
        let mut attributes = without_proof.split(',');
        let channel_binding =
            attributes.next().and_then(|it| it.strip_prefix("c=")).ok_or_else(wrong)?;
        let nonce = attributes.next().and_then(|it| it.strip_prefix("r=")).ok_or_else(wrong)?;
        Ok(ClientFinal { channel_binding, nonce, proof, without_proof })
    }
}

/// A name as it is, of one in which `=2C` stands for a comma and `=3D` for an equals sign.
fn unescaped(name: &str) -> Option<String> {
    let mut text = String::with_capacity(name.len());
    let mut rest = name;
    while let Some((before, behind)) = rest.split_once('=') {
        text.push_str(before);
        text.push(match behind.get(..2)? {
            "2C" => ',',
            "3D" => '=',
            _ => return None,
        });
        rest = &behind[2..];
    }
    text.push_str(rest);
    Some(text)
}
