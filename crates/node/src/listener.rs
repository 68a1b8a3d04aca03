//! Listeners of every front door: binding them, and what all connections to one have in common.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use logway_metadata::record::Endpoint;
use logway_metadata::settings::{BrokerSettings, ListenerSettings, SecurityProtocol};
use logway_security::bearer::{BearerTokens, KeysReload};
use logway_security::{ServerTls, TlsError};
use thiserror::Error;
use tokio::net::{TcpListener, TcpSocket, lookup_host};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::key_server::{self, ASKED_EVERY, KeyServerError};
use crate::listener_files::{self, look_at_certificate};
use crate::quotas::ListenerLimits;

/// Connections of one listener that may wait to be accepted. The kernel may allow fewer
/// (`net.core.somaxconn`).
const BACKLOG_MAX: u32 = 4_096;

/// A listener that is open.
#[derive(Debug)]
pub struct Listener {
    /// What it is, as the settings say.
    pub settings: ListenerSettings,
    /// How many connections it may have.
    pub limits: ListenerLimits,
    /// Its certificate, where it has TLS.
    pub tls: Option<ServerTls>,
    /// Judges its clients' tokens, where they may have any.
    pub tokens: Option<BearerTokens>,
}

/// Why a listener cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ListenerError {
    /// Its certificate.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The keys of who signs tokens.
    #[error(transparent)]
    Keys(#[from] KeyServerError),
}

/// Why a listener cannot be opened.
#[derive(Debug, Error)]
pub enum ListenError {
    /// An address to listen on cannot be had.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The configured address.
        address: Endpoint,
        /// Why.
        source: io::Error,
    },
    /// Other machines could reach it, and it is not guarded.
    #[error(
        "listener {listener}: other machines could reach {address}, and it is {protocol}: clients there are not asked \
         who they are, or nothing is encrypted"
    )]
    Exposed {
        /// Which one.
        listener: String,
        /// Where.
        address: SocketAddr,
        /// What is spoken there.
        protocol: SecurityProtocol,
    },
    /// It cannot have TLS, or judge its clients' tokens.
    #[error("listener {listener}: {source}")]
    Files {
        /// Which one.
        listener: String,
        /// Why.
        source: ListenerError,
    },
}

/// An address that is bound, and the listener that it belongs to. Connections to it wait until they are served.
#[derive(Debug)]
pub struct Bound {
    /// Where connections are accepted.
    pub socket: TcpListener,
    /// What was bound: port 0 becomes a free one.
    pub address: SocketAddr,
    /// The listener.
    pub listener: Arc<Listener>,
}

impl Bound {
    /// Binds each address of each listener. To be done before a node starts, so that a port in use is known before
    /// any file is touched. `protocols` are what clients may agree on in a TLS handshake.
    pub async fn bind(
        settings: &BrokerSettings,
        listeners: &[ListenerSettings],
        protocols: &[&str],
    ) -> Result<Vec<Bound>, ListenError> {
        let mut bound = Vec::new();
        for of_listener in listeners {
            let name = || of_listener.name.clone();
            let listener = Listener::load(settings, of_listener, protocols).await;
            let listener =
                listener.map_err(|source| ListenError::Files { listener: name(), source })?;
            let listener = Arc::new(listener);
            let check = |address: SocketAddr| {
                let protocol = of_listener.protocol;
                match settings.may_listen(address.ip(), of_listener.is_guarded()) {
                    true => Ok(()),
                    false => Err(ListenError::Exposed { listener: name(), address, protocol }),
                }
            };
            for (socket, address) in listen(&of_listener.addresses, check).await? {
                bound.push(Bound { socket, address, listener: Arc::clone(&listener) });
            }
        }
        Ok(bound)
    }

    /// Its name and address, where other machines can reach it without a guard.
    pub fn exposed(&self) -> Option<String> {
        let is_exposed = !self.listener.settings.is_guarded() && !self.address.ip().is_loopback();
        is_exposed.then(|| format!("{} {}", self.listener.settings.name, self.address))
    }
}

impl Listener {
    /// One to which nobody has connected, with the keys of who signs tokens for its clients.
    async fn load(
        settings: &BrokerSettings,
        listener: &ListenerSettings,
        protocols: &[&str],
    ) -> Result<Listener, ListenerError> {
        let mut loaded = Listener::new(settings, listener, protocols)?;
        if let Some(bearer) = listener.sasl.as_ref().and_then(|sasl| sasl.bearer.as_ref()) {
            loaded.tokens = Some(key_server::load(bearer).await?);
        }
        Ok(loaded)
    }

    /// One to which nobody has connected, and which takes no tokens. Fails where files cannot be used that it needs.
    pub fn new(
        settings: &BrokerSettings,
        listener: &ListenerSettings,
        protocols: &[&str],
    ) -> Result<Listener, TlsError> {
        let load = |tls| ServerTls::load(tls, protocols, SystemTime::now());
        Ok(Listener {
            settings: listener.clone(),
            limits: ListenerLimits::new(settings, listener),
            tls: listener.tls.as_ref().map(load).transpose()?,
            tokens: None,
        })
    }
}

/// Puts new certificates and keys in force while listeners are open. Each listener is looked at once, however many addresses it
/// has.
pub fn follow_files<'a>(
    bound: impl Iterator<Item = &'a Bound>,
    stopping: &watch::Receiver<bool>,
    tasks: &mut JoinSet<()>,
) {
    let mut listeners: Vec<_> = bound.map(|bound| &bound.listener).collect();
    // The addresses of one stand beside each other.
    listeners.dedup_by(|one, other| Arc::ptr_eq(one, other));
    for listener in listeners.into_iter().filter(|listener| listener.has_files()) {
        let (looked_at, asking) = (Arc::clone(listener), Arc::clone(listener));
        let look = move || looked_at.look_at_files();
        tasks.spawn(listener_files::follow_files(look, stopping.clone()));
        let stopping = stopping.clone();
        tasks.spawn(async move { asking.follow_key_server(stopping).await });
    }
}

impl Listener {
    /// Whether anything of it is in files that may be replaced.
    fn has_files(&self) -> bool {
        self.tls.is_some() || self.tokens.is_some()
    }

    /// Asks for new keys where a server has them, until the listener closes.
    async fn follow_key_server(&self, stopping: watch::Receiver<bool>) {
        let tokens = self.tokens.as_ref();
        if let Some((tokens, server)) = tokens.and_then(|tokens| Some((tokens, tokens.server()?))) {
            let name = &self.settings.name;
            key_server::follow(name, tokens, server, ASKED_EVERY, stopping).await;
        }
    }

    fn look_at_files(&self) {
        let listener = &self.settings.name;
        if let Some(tls) = &self.tls {
            look_at_certificate(listener, tls);
        }
        match self.tokens.as_ref().map(BearerTokens::reload) {
            Some(KeysReload::Done(keys)) => {
                tracing::info!(listener, keys, "new keys of who signs tokens are in force");
            }
            Some(KeysReload::Refused(error)) => {
                tracing::error!(listener, %error,
                    "the new keys cannot be used, and those before stay in force");
            }
            Some(KeysReload::Unchanged) | None => {}
        }
    }
}

/// `check` refuses addresses before they are bound.
async fn listen(
    endpoints: &[Endpoint],
    check: impl Fn(SocketAddr) -> Result<(), ListenError>,
) -> Result<Vec<(TcpListener, SocketAddr)>, ListenError> {
    let mut listeners = Vec::new();
    for endpoint in endpoints {
        let fail = |source| ListenError::Bind { address: endpoint.clone(), source };
        let addresses = lookup_host((endpoint.host.as_str(), endpoint.port)).await;
        let mut bound = Err(io::ErrorKind::AddrNotAvailable.into());
        for address in addresses.map_err(fail)? {
            check(address)?;
            bound = bind(address);
            if bound.is_ok() {
                break;
            }
        }
        let listener = bound.map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        listeners.push((listener, address));
    }
    Ok(listeners)
}

/// As [`TcpListener::bind`], but with room for more connections that are about to be accepted: one
/// that finds none begins anew a second later, and after a restart all clients come at once.
fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // The connections of a broker that has just ended keep its address for a while.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG_MAX)
}
