//! What a server says to a client that tells who it is (RFC 4422): tokens in, tokens out.
//!
//! How tokens travel is the front door's affair, and so are deadlines and limits of size.

mod bearer;
mod client;
mod plain;
mod scram_exchange;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use logway_metadata::credential::ScramCredential;
use logway_metadata::sasl::{SaslMechanism, ScramMechanism};
use ring::hmac;

use crate::bearer::BearerTokens;
use crate::delegation_token::DelegationTokens;
use crate::scram::{NoRandomness, mac, random_bytes};
pub use client::{Login, WrongAnswer};
use scram_exchange::ScramExchange;

/// Looks up what is stored of a user's password.
pub type FindCredential<'a> =
    dyn Fn(&str, ScramMechanism) -> Option<Arc<ScramCredential>> + Sync + 'a;

/// What exchanges have in common: a secret of this process that strangers are told apart by.
pub struct Strangers {
    secret: [u8; 32],
}

impl fmt::Debug for Strangers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Strangers")
    }
}

impl Strangers {
    /// With a new secret.
    pub fn new() -> Result<Strangers, NoRandomness> {
        Ok(Strangers { secret: random_bytes()? })
    }

    /// What a user would have who does not exist: the same each time it is asked for, and of no password.
    fn credential(&self, user: &str, mechanism: ScramMechanism) -> Arc<ScramCredential> {
        const SALT_BYTES: usize = 24;
        let key = hmac::Key::new(hmac::HMAC_SHA512, &self.secret);
        let name = format!("{}:{user}", mechanism.name());
        let mut salt = hmac::sign(&key, name.as_bytes()).as_ref().to_vec();
        let keys = mac(mechanism, &self.secret, &salt);
        salt.truncate(SALT_BYTES);
        Arc::new(ScramCredential {
            salt: logway_metadata::credential::Bytes(salt),
            iterations: crate::scram::DEFAULT_ITERATIONS,
            stored_key: logway_metadata::credential::Bytes(keys.clone()),
            server_key: logway_metadata::credential::Bytes(keys),
        })
    }
}

/// What a client is judged by.
#[derive(Clone, Copy)]
pub struct Evidence<'a> {
    /// Looks up what is stored of a user's password.
    pub find: &'a FindCredential<'a>,
    /// What those have who do not exist.
    pub strangers: &'a Strangers,
    /// Judges tokens that an authority has signed, where there are any.
    pub tokens: Option<&'a BearerTokens>,
    /// What programs log in with for users, where there is any.
    pub delegation_tokens: Option<DelegationTokens<'a>>,
}

/// One client that tells who it is, by one mechanism.
#[derive(Debug)]
pub struct Exchange {
    mechanism: SaslMechanism,
    state: State,
}

#[derive(Debug)]
enum State {
    Plain,
    Scram(ScramExchange),
    Bearer,
    /// It is told that its token is not believed, and refused when it has heard it.
    NotBelieved,
    Ended,
}

/// What a token of the client led to.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// The client has to say more.
    Challenge(Vec<u8>),
    /// The client is told that it is not believed, and is refused when it has heard that: with the next token.
    NotBelieved {
        /// What it is told.
        token: Vec<u8>,
        /// Why.
        refusal: Refusal,
    },
    /// It is this user, and is told so.
    Done {
        /// Who it is.
        known: Known,
        /// The last token.
        token: Vec<u8>,
    },
}

/// Who a client is that was believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// The user.
    pub user: String,
    /// When it is not known any more, since 1970, if that by which it is known has an end.
    pub expires: Option<Duration>,
    /// Whether it is known by a delegation token of the user.
    pub is_delegate: bool,
}

impl Known {
    /// By a password.
    fn by_password(user: String) -> Known {
        Known { user, expires: None, is_delegate: false }
    }
}

/// A client that is not who it says. The client is not told the reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Refusal {
    /// Who it said that it is, as far as it did.
    pub user: Option<String>,
    /// Why it is not believed, without a secret in it.
    pub reason: &'static str,
}

impl Refusal {
    fn new(reason: &'static str) -> Refusal {
        Refusal { user: None, reason }
    }
}

impl Exchange {
    /// A client has chosen a mechanism.
    pub fn new(mechanism: SaslMechanism) -> Exchange {
        let state = match mechanism {
            SaslMechanism::Plain => State::Plain,
            SaslMechanism::Scram(mechanism) => State::Scram(ScramExchange::new(mechanism)),
            SaslMechanism::OauthBearer => State::Bearer,
        };
        Exchange { mechanism, state }
    }

    /// The mechanism.
    pub fn mechanism(&self) -> SaslMechanism {
        self.mechanism
    }

    /// Whether the client was told that it is not believed.
    pub fn is_refused(&self) -> bool {
        matches!(self.state, State::NotBelieved)
    }

    /// Whether the step with this token hashes a password, which takes milliseconds.
    pub fn is_slow(&self, token: &[u8]) -> bool {
        match &self.state {
            State::Plain => true,
            State::Scram(exchange) => exchange.is_slow(token),
            State::Bearer | State::NotBelieved | State::Ended => false,
        }
    }

    /// Takes a token of the client. After a refusal or the end, each further one is refused.
    pub fn step(&mut self, token: &[u8], evidence: Evidence<'_>) -> Result<Step, Refusal> {
        let Evidence { find, strangers, tokens, .. } = evidence;
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Plain => plain::check(token, find, strangers),
            State::Scram(mut exchange) => {
                let step = exchange.step(token, evidence)?;
                if matches!(step, Step::Challenge(_)) {
                    self.state = State::Scram(exchange);
                }
                Ok(step)
            }
            State::Bearer => bearer::check(token, tokens).or_else(|refusal| {
                self.state = State::NotBelieved;
                Ok(Step::NotBelieved { token: bearer::INVALID.to_vec(), refusal })
            }),
            State::NotBelieved => Err(Refusal::new("it has heard that it is not believed")),
            State::Ended => Err(Refusal::new("the exchange has ended")),
        }
    }
}

#[cfg(test)]
mod tests;
