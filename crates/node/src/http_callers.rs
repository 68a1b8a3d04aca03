//! Who makes requests over HTTP: told by the certificate of the connection, or by the header `authorization`.
//!
//! A password is checked once for each connection, as on other front doors: it takes a processor for milliseconds.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use logway_metadata::sasl::SaslMechanism;
use logway_metadata::settings::SaslSettings;
use logway_security::ServerTls;
use logway_security::bearer::time_left;
use logway_security::sasl::{Exchange, Refusal, Step};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_rustls::server::TlsStream;

use crate::access::{AccessMemory, Principal};
use crate::handshake::shake_hands;
use crate::listener::Listener;
use crate::{CLIENTS, Node};

/// Somebody who is known.
#[derive(Debug)]
pub struct Known {
    /// As ACLs name them.
    pub principal: Principal,
    /// What was decided for the principal.
    pub access_memory: AccessMemory,
    /// When it has to say again who it is.
    pub until: Option<Instant>,
}

impl Known {
    fn new(principal: Principal, until: Option<Instant>) -> Arc<Known> {
        Arc::new(Known { principal, access_memory: AccessMemory::default(), until })
    }

    /// Somebody who was not asked.
    fn anonymous() -> Arc<Known> {
        Known::new(Principal::anonymous().clone(), None)
    }

    /// Whom the certificate of a connection shows: nobody, if there is none. The error is the subject of one that no user
    /// fits.
    fn by_certificate(
        tls: &ServerTls,
        stream: &TlsStream<TcpStream>,
    ) -> Result<Arc<Known>, String> {
        let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let user = tls.user_of(chain)?;
        Ok(user.map_or_else(Known::anonymous, |user| Known::new(Principal::user(user), None)))
    }
}

/// Users that a connection remembers: more than one is rare.
const REMEMBERED_MAX: usize = 8;

/// Those who were believed on a connection, by the digest of what they said.
#[derive(Debug, Default)]
struct Remembered(Mutex<Vec<([u8; 32], Arc<Known>)>>);

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

/// Why somebody is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotKnown {
    /// There is no header `authorization`.
    #[error("this listener asks who you are: send 'authorization'")]
    Unsaid,
    /// Its scheme is none that is known here.
    #[error("the scheme must be Basic or Bearer")]
    Scheme,
    /// There is no user and password in it.
    #[error("'Basic' needs user:password in base64")]
    Malformed,
    /// The listener does not take what was sent.
    #[error("this listener does not take {}", .0.name())]
    NotTaken(SaslMechanism),
    /// What was sent was checked.
    #[error("the user or the password is wrong, or the token is not good")]
    NotBelieved,
}

/// Why a connection over TLS has no client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoCaller {
    /// The listener closes.
    Stopping,
    /// No handshake came about, or no user fits its certificate. The log says which.
    Broken,
}

/// The client of a connection.
#[derive(Debug)]
pub struct HttpCaller {
    /// Where it is.
    pub peer: SocketAddr,
    /// What it has connected to.
    pub listener: Arc<Listener>,
    of_certificate: Arc<Known>,
    remembered: Remembered,
}

impl HttpCaller {
    /// The client of a connection that is not encrypted.
    pub fn plain(peer: SocketAddr, listener: Arc<Listener>) -> HttpCaller {
        HttpCaller::new(peer, listener, Known::anonymous())
    }

    /// Shakes hands with the client of a connection to a listener that has `tls`; its certificate may show who it is.
    pub async fn over_tls(
        socket: TcpStream,
        peer: SocketAddr,
        listener: &Arc<Listener>,
        tls: &ServerTls,
        stopping: &mut watch::Receiver<bool>,
    ) -> Result<(TlsStream<TcpStream>, HttpCaller), NoCaller> {
        let shaken = shake_hands(tls, socket, stopping).await.ok_or(NoCaller::Stopping)?;
        let stream = shaken.map_err(|error| {
            tracing::info!(target: CLIENTS, %peer, %error, "no TLS handshake");
            NoCaller::Broken
        })?;
        let known = Known::by_certificate(tls, &stream).map_err(|subject| {
            tracing::info!(target: CLIENTS, %peer, subject, "no user fits the certificate");
            NoCaller::Broken
        })?;
        Ok((stream, HttpCaller::new(peer, Arc::clone(listener), known)))
    }

    fn new(peer: SocketAddr, listener: Arc<Listener>, of_certificate: Arc<Known>) -> HttpCaller {
        HttpCaller { peer, listener, of_certificate, remembered: Remembered::default() }
    }

    /// Whom its certificate shows, or nobody.
    pub fn of_certificate(&self) -> Arc<Known> {
        Arc::clone(&self.of_certificate)
    }

    /// Finds out who makes a request with the header `authorization` that is `said`. Who is not believed learns so after the
    /// delay that the listener has, counted from now.
    pub async fn authenticate(
        &self,
        node: &Node,
        said: Option<&[u8]>,
    ) -> Result<Arc<Known>, NotKnown> {
        let Some(settings) = &self.listener.settings.sasl else {
            return Ok(self.of_certificate());
        };
        let came_at = Instant::now();
        let said = said.ok_or(NotKnown::Unsaid)?;
        let digest = Sha256::digest(said).into();
        if let Some(known) = self.remembered.find(&digest) {
            return Ok(known);
        }
        let (mechanism, token) = evidence(said, settings, self.listener.tls.is_some())?;
        let mut exchange = Exchange::new(mechanism);
        let tokens = self.listener.tokens.as_ref();
        let refusal = match node.take_step(&mut exchange, &token, tokens).await {
            Ok(Step::Done { known, .. }) => {
                let of_token = known.expires.map(time_left);
                let session = settings.session_max.into_iter().chain(of_token).min();
                let until = session.and_then(|session| Instant::now().checked_add(session));
                let known = Known::new(Principal::user(known.user), until);
                self.remembered.add(digest, Arc::clone(&known));
                return Ok(known);
            }
            Ok(Step::NotBelieved { refusal, .. }) | Err(refusal) => refusal,
            Ok(Step::Challenge(_)) => Refusal { user: None, reason: "one token was not enough" },
        };
        let user = refusal.user.as_deref().unwrap_or_default();
        node.note_not_believed(self.peer, user, mechanism.name(), refusal.reason);
        sleep_until(came_at + settings.failure_delay).await;
        Err(NotKnown::NotBelieved)
    }
}

/// The mechanism that a client has chosen by the scheme, and what it says in it.
///
/// HTTP knows nothing of SCRAM. A listener that has it takes a password over TLS instead; in the clear it takes one only
/// where it has PLAIN.
fn evidence(
    said: &[u8],
    settings: &SaslSettings,
    is_encrypted: bool,
) -> Result<(SaslMechanism, Vec<u8>), NotKnown> {
    let text = std::str::from_utf8(said).unwrap_or_default();
    let (scheme, rest) = text.split_once(' ').unwrap_or((text, ""));
    let (mechanism, token) = if scheme.eq_ignore_ascii_case("basic") {
        let pair = STANDARD.decode(rest.trim()).unwrap_or_default();
        let colon = pair.iter().position(|byte| *byte == b':').ok_or(NotKnown::Malformed)?;
        let token = [b"\0", &pair[..colon], b"\0", &pair[colon + 1..]].concat();
        (SaslMechanism::Plain, token)
    } else if scheme.eq_ignore_ascii_case("bearer") {
        let token = format!("n,,\u{1}auth=Bearer {}\u{1}\u{1}", rest.trim());
        (SaslMechanism::OauthBearer, token.into_bytes())
    } else {
        return Err(NotKnown::Scheme);
    };
    let is_taken = |enabled: &SaslMechanism| {
        let is_scram = matches!(enabled, SaslMechanism::Scram(_));
        *enabled == mechanism || mechanism == SaslMechanism::Plain && is_encrypted && is_scram
    };
    match settings.mechanisms.iter().any(is_taken) {
        true => Ok((mechanism, token)),
        false => Err(NotKnown::NotTaken(mechanism)),
    }
}
