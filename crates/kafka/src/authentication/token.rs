//! A token of a client: what it leads to, and when the client learns of it.

use std::sync::atomic::Ordering;

use logway_metadata::settings::SaslSettings;
use logway_node::access::Principal;
use logway_security::bearer::time_left;
use logway_security::sasl::{Known, Refusal, Step};
use tokio::time::{Duration, Instant, sleep_until};

use super::{Carriage, State};
use crate::request::ConnectionInfo;
use crate::service::Service;

/// What a client is told that was believed so far.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Answered {
    /// The next token.
    pub(crate) token: Vec<u8>,
    /// For how long it is known, once it is; 0 is for ever.
    pub(crate) lifetime_ms: i64,
}

/// A client was not believed. It is told no more than that.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct NotBelieved {
    /// For the client.
    pub(crate) message: String,
}

/// Looks at a token. A client that is not believed learns so after the delay that the listener has, counted from when
/// the token came: how long it took to find out tells nothing.
pub(crate) async fn take_token(
    service: &Service,
    connection: &ConnectionInfo,
    settings: &SaslSettings,
    carriage: Carriage,
    token: &[u8],
) -> Result<Answered, NotBelieved> {
    let came_at = Instant::now();
    let judged = judge(service, connection, settings, carriage, token).await;
    let Refused { refusal, mechanism, told, is_noted } = match judged {
        Ok(answered) => return Ok(answered),
        Err(refused) => refused,
    };
    if !is_noted {
        note_refusal(service, connection, &refusal, mechanism);
    }
    sleep_until(came_at + settings.failure_delay).await;
    if let Some(token) = told {
        return Ok(Answered { token, lifetime_ms: 0 });
    }
    // Kafka's words, which clients' users know.
    let message = format!(
        "Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"
    );
    Err(NotBelieved { message })
}

fn note_refusal(
    service: &Service,
    connection: &ConnectionInfo,
    refusal: &Refusal,
    mechanism: &'static str,
) {
    let user = refusal.user.as_deref().unwrap_or_default();
    service.node.note_not_believed(connection.peer, user, mechanism, refusal.reason);
}

/// 0 would be for ever.
const SESSION_MIN: Duration = Duration::from_millis(1);

/// A client that is not believed.
struct Refused {
    refusal: Refusal,
    mechanism: &'static str,
    /// What it is told first, where the mechanism has words for it.
    told: Option<Vec<u8>>,
    /// It was refused before, and has heard of it.
    is_noted: bool,
}

impl Refused {
    fn new(refusal: Refusal, mechanism: &'static str) -> Refused {
        Refused { refusal, mechanism, told: None, is_noted: false }
    }
}

async fn judge(
    service: &Service,
    connection: &ConnectionInfo,
    settings: &SaslSettings,
    carriage: Carriage,
    token: &[u8],
) -> Result<Answered, Refused> {
    let Some(authentication) = &connection.authentication else {
        return Err(Refused::new(refusal("this listener asks nobody"), "none"));
    };
    let Some((mut exchange, expected, is_again)) = authentication.take_exchange() else {
        return Err(Refused::new(refusal("no mechanism was chosen"), "none"));
    };
    let (mechanism, is_noted) = (exchange.mechanism(), exchange.is_refused());
    let step = match expected == carriage {
        true => {
            let tokens = connection.listener.tokens.as_ref();
            service.node.take_step(&mut exchange, token, tokens).await
        }
        false => Err(refusal("tokens come in another form than was chosen")),
    };
    let mut state = authentication.state();
    let believed = match step {
        Ok(Step::NotBelieved { token, refusal }) => {
            *state = State::Telling { exchange, carriage, is_again };
            let told = Some(token);
            return Err(Refused { told, ..Refused::new(refusal, mechanism.name()) });
        }
        Ok(Step::Challenge(token)) => Ok((token, None)),
        Ok(Step::Done { known, token }) => {
            match is_again && connection.principal().name() != known.user {
                true => {
                    let reason = "it was another user before";
                    Err(Refusal { user: Some(known.user), reason })
                }
                false => Ok((token, Some(known))),
            }
        }
        Err(refusal) => Err(refusal),
    };
    match believed {
        Ok((token, None)) => {
            *state = State::Telling { exchange, carriage, is_again };
            Ok(Answered { token, lifetime_ms: 0 })
        }
        Ok((token, Some(Known { user, expires, is_delegate }))) => {
            // Before the user is known: no request may take a program for the user itself.
            authentication.is_delegate.store(is_delegate, Ordering::Release);
            // The second time it is set, and the same.
            let _ = connection.authenticated.set(Principal::user(user));
            *state = State::Known(mechanism);
            // Nobody is known for longer than its token is good for, unlike in Kafka, which asks for
            // connections.max.reauth.ms first.
            let of_token = expires.map(|expires| time_left(expires).max(SESSION_MIN));
            let session = settings.session_max.into_iter().chain(of_token).min();
            authentication.session_end.set(session);
            let lifetime = session.unwrap_or(Duration::ZERO);
            let lifetime_ms = i64::try_from(lifetime.as_millis()).unwrap_or(i64::MAX);
            Ok(Answered { token, lifetime_ms })
        }
        Err(refused) => {
            authentication.refuse(&mut state);
            Err(Refused { is_noted, ..Refused::new(refused, mechanism.name()) })
        }
    }
}

fn refusal(reason: &'static str) -> Refusal {
    Refusal { user: None, reason }
}
