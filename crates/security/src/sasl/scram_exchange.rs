//! SCRAM (RFC 5802): a client proves that it knows a password, and the server that it knows the client.
//!
//! ```text
//! client   n,,n=user,r=NONCE[,extension=value …]
//! server   r=NONCE+OURS,s=SALT,i=ITERATIONS
//! client   c=biws,r=NONCE+OURS,p=PROOF
//! server   v=SIGNATURE
//! ```
//!
//! Without channel binding: it would bind to the certificate, and Kafka's clients have none of it. The extension
//! `tokenauth=true` says that the user is the id of a delegation token (KIP-48); others mean nothing here.

use std::fmt::Write as _;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use logway_metadata::credential::ScramCredential;
use logway_metadata::sasl::ScramMechanism;
use ring::digest;

use super::{Evidence, Known, Refusal, Step};
use crate::delegation_token::end;
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
    /// What the user would have had who does not exist.
    unused: Option<Arc<ScramCredential>>,
}

/// Who it is that has the credential, or why nobody gets in with it.
type Account = Result<Known, &'static str>;

#[derive(Debug)]
struct Begun {
    user: String,
    credential: Arc<ScramCredential>,
    account: Account,
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
    /// Whether the user is the id of a delegation token.
    is_by_token: bool,
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
        ScramExchange { mechanism, begun: None, unused: None }
    }

    /// Whether the step with this token hashes a password: what is kept of a delegation token's is made when it is needed.
    pub(super) fn is_slow(&self, token: &[u8]) -> bool {
        let first = || ClientFirst::parse(std::str::from_utf8(token).ok()?).ok();
        self.begun.is_none() && first().is_some_and(|first| first.is_by_token)
    }

    pub(super) fn step(&mut self, token: &[u8], evidence: Evidence<'_>) -> Result<Step, Refusal> {
        let text = std::str::from_utf8(token).map_err(|_| Refusal::new("the token is no UTF-8"))?;
        match self.begun.take() {
            None => self.begin(text, evidence),
            Some(begun) => begun.end(self.mechanism, text),
        }
    }

    fn begin(&mut self, text: &str, evidence: Evidence<'_>) -> Result<Step, Refusal> {
        let ClientFirst { header, bare, user, nonce, is_by_token } = ClientFirst::parse(text)?;
        let (credential, account) = match is_by_token {
            true => self.token(&user, evidence),
            false => self.password(&user, evidence),
        };
        let ours = random_bytes::<NONCE_BYTES>();
        let ours = ours.map_err(|_| Refusal::new("the system gives no random numbers"))?;
        let client_nonce_bytes = nonce.len();
        let nonce = format!("{nonce}{}", STANDARD.encode(ours));
        let (salt, iterations) = (STANDARD.encode(&credential.salt.0), credential.iterations);
        let reply = format!("r={nonce},s={salt},i={iterations}");
        let header = STANDARD.encode(header);
        let messages = format!("{bare},{reply}");
        self.begun =
            Some(Begun { user, credential, account, header, nonce, client_nonce_bytes, messages });
        Ok(Step::Challenge(reply.into_bytes()))
    }

    fn password(&mut self, user: &str, evidence: Evidence<'_>) -> (Arc<ScramCredential>, Account) {
        // Made for users that exist, too, and kept until the end, so that the first answer takes as long: two
        // microseconds less told them from strangers after a hundred tries.
        let strangers = evidence.strangers.credential(user, self.mechanism);
        let known = Known::by_password(user.to_owned());
        match (evidence.find)(user, self.mechanism) {
            Some(credential) => {
                self.unused = Some(strangers);
                (credential, Ok(known))
            }
            None => (strangers, Err("there is no such user")),
        }
    }

    fn token(&self, id: &str, evidence: Evidence<'_>) -> (Arc<ScramCredential>, Account) {
        let Some(tokens) = evidence.delegation_tokens else {
            let credential = evidence.strangers.credential(id, self.mechanism);
            return (credential, Err("there are no delegation tokens here"));
        };
        let (credential, token) = tokens.look_up(id, self.mechanism);
        let account = token.map(|token| Known {
            user: token.owner.clone(),
            expires: Some(end(&token)),
            is_delegate: true,
        });
        (Arc::new(credential), account)
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
        let known = self.account.clone().map_err(refuse)?;
        if !is_proved {
            return Err(refuse("the password is wrong"));
        }
        let signature = STANDARD.encode(mac(mechanism, &server_key.0, messages.as_bytes()));
        Ok(Step::Done { known, token: format!("v={signature}").into_bytes() })
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
        let is_by_token = is_by_token(attributes).ok_or_else(wrong)?;
        let is_nonce = nonce.bytes().all(|byte| byte.is_ascii_graphic()) && !nonce.is_empty();
        if !is_nonce || nonce.len() > CLIENT_NONCE_MAX_BYTES {
            return Err(wrong());
        }
        let acts_for = identity.strip_prefix("a=").and_then(unescaped);
        if !identity.is_empty() && acts_for.as_deref() != Some(&user) {
            let reason = "it wants to act for another user";
            return Err(Refusal { user: Some(user), reason });
        }
        Ok(ClientFirst { header, bare, user, nonce, is_by_token })
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

/// Whether extensions say that the user is a delegation token; `None` if they are none. As in Kafka the last one counts.
fn is_by_token<'a>(extensions: impl Iterator<Item = &'a str>) -> Option<bool> {
    let mut is_by_token = false;
    for extension in extensions {
        let (name, value) = extension.split_once('=')?;
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphabetic());
        if !is_name || value.is_empty() {
            return None;
        }
        if name == "tokenauth" {
            is_by_token = value.eq_ignore_ascii_case("true");
        }
    }
    Some(is_by_token)
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
