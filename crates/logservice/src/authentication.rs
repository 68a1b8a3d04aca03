//! Who a call is of: by the certificate of its connection, or by the header `authorization`.
//!
//! A password is checked once for each connection, as on other front doors: it takes a processor for milliseconds.

use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use logway_metadata::sasl::SaslMechanism;
use logway_metadata::settings::SaslSettings;
use logway_node::access::{AccessMemory, Principal};
use logway_security::bearer::time_left;
use logway_security::sasl::{Exchange, Refusal, Step};
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, sleep_until};

use crate::connection_info::ConnectionInfo;
use crate::grpc::status::{Code, Status};
use crate::service::Service;

/// Whom a call is of.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) principal: Principal,
    /// What was decided for the principal.
    pub(crate) access_memory: AccessMemory,
    /// When it has to say again who it is.
    pub(crate) until: Option<Instant>,
}

impl Known {
    pub(crate) fn new(principal: Principal, until: Option<Instant>) -> Arc<Known> {
        Arc::new(Known { principal, access_memory: AccessMemory::default(), until })
    }
}

/// Users that a connection remembers: more than one is rare.
const REMEMBERED_MAX: usize = 8;

/// Those who were believed on a connection, by the digest of what they said.
#[derive(Debug, Default)]
pub(crate) struct Remembered(Mutex<Vec<([u8; 32], Arc<Known>)>>);

impl Remembered {
    fn find(&self, digest: &[u8; 32]) -> Option<Arc<Known>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        known.retain(|(_, it)| it.until.is_none_or(|until| until > now));
        known.iter().find(|(it, _)| it == digest).map(|(_, known)| Arc::clone(known))
    }

    fn add(&self, digest: [u8; 32], user: Arc<Known>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED_MAX {
            known.remove(0);
        }
        known.push((digest, user));
    }
}

/// Finds out whom a call is of. Who is not believed learns so after the delay that the listener has, counted from when the
/// call came.
pub(crate) async fn authenticate(
    service: &Service,
    connection: &ConnectionInfo,
    headers: &HeaderMap,
) -> Result<Arc<Known>, Status> {
    let Some(settings) = &connection.listener.settings.sasl else {
        return Ok(Arc::clone(&connection.of_certificate));
    };
    let came_at = Instant::now();
    let Some(said) = headers.get(AUTHORIZATION) else {
        let message = "this listener asks who you are: send the metadata 'authorization'";
        return Err(unauthenticated(message));
    };
    let digest = Sha256::digest(said.as_bytes()).into();
    if let Some(known) = connection.remembered.find(&digest) {
        return Ok(known);
    }
    let is_encrypted = connection.listener.tls.is_some();
    let (mechanism, token) = evidence(said.as_bytes(), settings, is_encrypted)?;
    let mut exchange = Exchange::new(mechanism);
    let tokens = connection.listener.tokens.as_ref();
    let step = service.node.take_step(&mut exchange, &token, tokens, &service.strangers).await;
    let refusal = match step {
        Ok(Step::Done { known, .. }) => {
            let of_token = known.expires.map(time_left);
            let session = settings.session_max.into_iter().chain(of_token).min();
            let until = session.and_then(|session| Instant::now().checked_add(session));
            let known = Known::new(Principal::user(known.user), until);
            connection.remembered.add(digest, Arc::clone(&known));
            return Ok(known);
        }
        Ok(Step::NotBelieved { refusal, .. }) | Err(refusal) => refusal,
        Ok(Step::Challenge(_)) => Refusal { user: None, reason: "one token was not enough" },
    };
    let user = refusal.user.as_deref().unwrap_or_default();
    let mechanism = mechanism.name();
    service.node.note_not_believed(connection.peer, user, mechanism, refusal.reason);
    sleep_until(came_at + settings.failure_delay).await;
    Err(unauthenticated("the user or the password is wrong, or the token is not good"))
}

fn unauthenticated(message: &str) -> Status {
    Status::new(Code::Unauthenticated, "NOT_AUTHENTICATED", message)
        .remedy("send 'authorization: Basic …' or 'authorization: Bearer …'")
}

/// The mechanism that a client has chosen by the scheme, and what it says in it.
///
/// A listener takes a password over TLS as well where it has SCRAM, of which gRPC knows nothing; in the clear only where it has
/// PLAIN.
fn evidence(
    said: &[u8],
    settings: &SaslSettings,
    is_encrypted: bool,
) -> Result<(SaslMechanism, Vec<u8>), Status> {
    let text = std::str::from_utf8(said).unwrap_or_default();
    let (scheme, rest) = text.split_once(' ').unwrap_or((text, ""));
    let (mechanism, token) = if scheme.eq_ignore_ascii_case("basic") {
        let pair = STANDARD.decode(rest.trim()).unwrap_or_default();
        let Some(colon) = pair.iter().position(|byte| *byte == b':') else {
            return Err(unauthenticated("'Basic' needs user:password in base64"));
        };
        let token = [b"\0", &pair[..colon], b"\0", &pair[colon + 1..]].concat();
        (SaslMechanism::Plain, token)
    } else if scheme.eq_ignore_ascii_case("bearer") {
        let token = format!("n,,\u{1}auth=Bearer {}\u{1}\u{1}", rest.trim());
        (SaslMechanism::OauthBearer, token.into_bytes())
    } else {
        return Err(unauthenticated("the scheme must be Basic or Bearer"));
    };
    let is_taken = |enabled: &SaslMechanism| {
        let is_scram = matches!(enabled, SaslMechanism::Scram(_));
        *enabled == mechanism || mechanism == SaslMechanism::Plain && is_encrypted && is_scram
    };
    match settings.mechanisms.iter().any(is_taken) {
        true => Ok((mechanism, token)),
        false => {
            let mechanism = mechanism.name();
            let message = format!("this listener does not take {mechanism}");
            Err(unauthenticated(&message))
        }
    }
}
