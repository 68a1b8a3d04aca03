//! A client says who it is by SASL (KIP-12, KIP-43, KIP-152), and says it again when its session ends (KIP-368).
//!
//! ```text
//!              SaslHandshake             token, the last one
//!  Asked ───────────────────▶ Telling ───────────────────────▶ Known ──┐
//!    │ no such mechanism         │ not believed          ▲              │ SaslHandshake
//!    ▼                           ▼                       └── Telling ◀──┘
//!  Refused ◀─────────────────────┘
//! ```
//!
//! The first time is a conversation of its own, in [`Connection`](crate::connection), which reads little and knows
//! three APIs. The second time the same requests come among others. In both the handlers ask here, and a connection
//! that was refused is closed behind its answer.

mod session_end;
mod token;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use logway_metadata::sasl::SaslMechanism;
use logway_model::ErrorCode;
use logway_security::sasl::Exchange;

use session_end::SessionEnd;
pub(crate) use token::{Answered, NotBelieved, take_token};

/// What is known of who the client of one connection is.
#[derive(Debug, Default)]
pub(crate) struct Authentication {
    state: Mutex<State>,
    /// The connection is to be closed.
    is_refused: AtomicBool,
    /// When the client has to say again who it is.
    session_end: SessionEnd,
    /// Whether the client is known by a delegation token, and not by what the user itself has.
    is_delegate: AtomicBool,
}

#[derive(Debug, Default)]
enum State {
    /// It has said nothing.
    #[default]
    Asked,
    /// It has chosen a mechanism, and sends tokens.
    Telling { exchange: Exchange, carriage: Carriage, is_again: bool },
    /// A token is being looked at.
    Judged,
    /// It has said who it is, by this mechanism.
    Known(SaslMechanism),
    /// It is not who it says, or does not keep to the order of things.
    Refused,
}

/// How tokens travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carriage {
    /// Each is a frame by itself, as behind version 0 of SaslHandshake.
    Raw,
    /// In requests SaslAuthenticate.
    Requests,
}

impl Authentication {
    /// A client chooses a mechanism.
    ///
    /// Errors are `UNSUPPORTED_SASL_MECHANISM` and `ILLEGAL_SASL_STATE`; the connection is closed behind both.
    pub(crate) fn choose(
        &self,
        enabled: &[SaslMechanism],
        asked: &str,
        carriage: Carriage,
    ) -> Result<(), ErrorCode> {
        let mut state = self.state();
        let known = match *state {
            State::Asked => None,
            State::Known(mechanism) => Some(mechanism),
            State::Telling { .. } | State::Judged | State::Refused => {
                self.refuse(&mut state);
                return Err(ErrorCode::IllegalSaslState);
            }
        };
        let mechanism = asked.parse().ok().filter(|asked| enabled.contains(asked));
        let Some(mechanism) = mechanism else {
            self.refuse(&mut state);
            return Err(ErrorCode::UnsupportedSaslMechanism);
        };
        if known.is_some_and(|known| known != mechanism) {
            self.refuse(&mut state);
            return Err(ErrorCode::IllegalSaslState);
        }
        let (exchange, is_again) = (Exchange::new(mechanism), known.is_some());
        *state = State::Telling { exchange, carriage, is_again };
        Ok(())
    }

    /// Whether the next frame is a token by itself.
    pub(crate) fn takes_raw_tokens(&self) -> bool {
        matches!(*self.state(), State::Telling { carriage: Carriage::Raw, .. })
    }

    /// Whether the client has said who it is.
    pub(crate) fn is_known(&self) -> bool {
        matches!(*self.state(), State::Known(_))
    }

    /// Whether it has said so by a delegation token.
    pub(crate) fn is_delegate(&self) -> bool {
        self.is_delegate.load(Ordering::Acquire)
    }

    /// Whether the connection has to be closed.
    pub(crate) fn is_refused(&self) -> bool {
        self.is_refused.load(Ordering::Relaxed)
    }

    /// Whether the client had to say again who it is, and has not.
    pub(crate) fn has_expired(&self) -> bool {
        self.session_end.is_over()
    }

    /// Takes the exchange to be worked on; `None`, and the connection is refused, where no token is expected.
    fn take_exchange(&self) -> Option<(Exchange, Carriage, bool)> {
        let mut state = self.state();
        match std::mem::replace(&mut *state, State::Judged) {
            State::Telling { exchange, carriage, is_again } => Some((exchange, carriage, is_again)),
            _ => {
                self.refuse(&mut state);
                None
            }
        }
    }

    fn refuse(&self, state: &mut State) {
        *state = State::Refused;
        self.is_refused.store(true, Ordering::Relaxed);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change under the lock is one assignment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use logway_metadata::sasl::ScramMechanism;

    use super::*;

    const ENABLED: [SaslMechanism; 2] =
        [SaslMechanism::Plain, SaslMechanism::Scram(ScramMechanism::Sha256)];

    #[test]
    fn a_mechanism_is_chosen_once_and_must_be_enabled() {
        let client = Authentication::default();
        assert_eq!(client.choose(&ENABLED, "PLAIN", Carriage::Raw), Ok(()));
        assert!(client.takes_raw_tokens() && !client.is_known());
        let twice = client.choose(&ENABLED, "PLAIN", Carriage::Raw);
        assert_eq!(twice, Err(ErrorCode::IllegalSaslState));
        assert!(client.is_refused());

        for unknown in ["SCRAM-SHA-512", "GSSAPI", "", "plain"] {
            let client = Authentication::default();
            let chosen = client.choose(&ENABLED, unknown, Carriage::Requests);
            assert_eq!(chosen, Err(ErrorCode::UnsupportedSaslMechanism), "{unknown}");
            assert!(client.is_refused());
        }
    }

    #[test]
    fn a_token_that_nobody_waits_for_is_refused() {
        let client = Authentication::default();
        assert!(client.take_exchange().is_none() && client.is_refused());
    }

    #[test]
    fn who_is_known_keeps_the_mechanism() {
        let client = Authentication::default();
        *client.state() = State::Known(SaslMechanism::Plain);
        assert_eq!(client.choose(&ENABLED, "PLAIN", Carriage::Requests), Ok(()));
        assert!(!client.is_refused());
        *client.state() = State::Known(SaslMechanism::Plain);
        let other = client.choose(&ENABLED, "SCRAM-SHA-256", Carriage::Requests);
        assert_eq!(other, Err(ErrorCode::IllegalSaslState));
    }
}
