//! Public keys of who signs tokens, from a server (OAUTHBEARER, KIP-768): got at the start, and again now and then.
//!
//! Keys stay in force until others have come: a server that is gone, slow, or says nonsense locks nobody out who could
//! log in before. A client cannot have the server asked more often than each [`ASKED_EVERY`].

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hyper::body::{Body as _, Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use logway_metadata::settings::{BearerSettings, KeyServer, KeySource};
use logway_security::TlsError;
use logway_security::bearer::{BearerError, BearerTokens, KEY_SET_BYTES_MAX, KeysReload};
use logway_security::tls::{authorities_of_system, client_config};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::accept::stopped;
use crate::backoff::Backoff;
use crate::tasks::off_worker;

/// How long a server may take for its answer, connecting included.
const FETCH_MAX: Duration = Duration::from_secs(10);

/// A token that names a key which is not there has the server asked, but not more often.
pub(crate) const ASKED_EVERY: Duration = Duration::from_secs(10);

/// How often it is looked whether such a token has come.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Why a server's keys cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum KeyServerError {
    /// It cannot be reached, or ends the connection.
    #[error("cannot reach {server}: {source}")]
    Unreachable {
        /// Its URL.
        server: String,
        /// Why.
        source: io::Error,
    },
    /// Its answer is no HTTP.
    #[error("{server} gives no answer: {source}")]
    NoAnswer {
        /// Its URL.
        server: String,
        /// Why.
        source: hyper::Error,
    },
    /// It has no keys to give. Redirects are not followed.
    #[error("{server} answers with status {status}")]
    Status {
        /// Its URL.
        server: String,
        /// What it says.
        status: StatusCode,
    },
    /// It gives more than a key set can be.
    #[error("{server} gives more than {KEY_SET_BYTES_MAX} bytes")]
    TooLarge {
        /// Its URL.
        server: String,
    },
    /// It takes too long.
    #[error("{server} has not answered within {FETCH_MAX:?}")]
    TooLate {
        /// Its URL.
        server: String,
    },
    /// The authorities that it is trusted by.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// What it gives is no key set.
    #[error(transparent)]
    Bearer(#[from] BearerError),
}

/// What judges a listener's tokens. Keys of a server are asked for as long as `retry.backoff.max.ms` allows.
pub(crate) async fn load(settings: &BearerSettings) -> Result<BearerTokens, KeyServerError> {
    let server = match &settings.key_set {
        KeySource::File(_) => return Ok(BearerTokens::load(settings)?),
        KeySource::Server(server) => server,
    };
    if !server.has_tls {
        tracing::warn!(%server, "who controls the network can replace keys that come by HTTP; use https");
    }
    let end = Instant::now() + server.retry_max;
    let mut backoff = Backoff::between(server.retry_min, server.retry_max);
    loop {
        let loaded = match fetch(server).await {
            Ok(text) => BearerTokens::of_server(settings, &text).map_err(KeyServerError::from),
            Err(error) => Err(error),
        };
        let pause = backoff.pause();
        match loaded {
            Err(error) if Instant::now() + pause < end => {
                tracing::warn!(%error, "the keys of who signs tokens cannot be had yet");
                sleep(pause).await;
            }
            loaded => return loaded,
        }
    }
}

/// Asks a server again, until its listener closes: as often as the settings say, sooner after a failure, and when a token
/// names a key that is not there.
pub(crate) async fn follow(
    listener: &str,
    tokens: &BearerTokens,
    server: &KeyServer,
    asked_every: Duration,
    mut stopping: watch::Receiver<bool>,
) {
    let mut backoff = Backoff::between(server.retry_min, server.retry_max);
    let mut asked = Instant::now();
    let mut next = asked + server.refresh;
    loop {
        let look = LOOK_INTERVAL.min(next.saturating_duration_since(Instant::now()));
        if timeout(look, stopping.wait_for(|&stop| stop)).await.is_ok() {
            return;
        }
        let is_wanted = asked.elapsed() >= asked_every && tokens.lacks_key();
        if Instant::now() < next && !is_wanted {
            continue;
        }
        let fetched = tokio::select! {
            fetched = fetch(server) => fetched,
            () = stopped(&mut stopping) => return,
        };
        asked = Instant::now();
        let error = match fetched.map(|text| tokens.replace(&text)) {
            Err(error) => error,
            Ok(KeysReload::Refused(error)) => error.into(),
            Ok(outcome) => {
                if let KeysReload::Done(keys) = outcome {
                    tracing::info!(listener, keys, "new keys of who signs tokens are in force");
                }
                backoff.reset();
                next = asked + server.refresh;
                continue;
            }
        };
        tracing::error!(listener, %error, "the new keys cannot be had, and those before stay in force");
        next = asked + backoff.pause();
    }
}

/// Asks a server once.
async fn fetch(server: &KeyServer) -> Result<Vec<u8>, KeyServerError> {
    let too_late = || KeyServerError::TooLate { server: server.to_string() };
    timeout(FETCH_MAX, connect_and_ask(server)).await.map_err(|_| too_late())?
}

async fn connect_and_ask(server: &KeyServer) -> Result<Vec<u8>, KeyServerError> {
    let unreachable = |source| KeyServerError::Unreachable { server: server.to_string(), source };
    let socket = TcpStream::connect((&*server.host, server.port)).await.map_err(unreachable)?;
    if !server.has_tls {
        return ask(server, socket).await;
    }
    let config = off_worker(|| trusting(server))?;
    let name = ServerName::try_from(server.host.clone())
        .map_err(|error| unreachable(io::Error::new(io::ErrorKind::InvalidInput, error)))?;
    let session = TlsConnector::from(config).connect(name, socket).await.map_err(unreachable)?;
    ask(server, session).await
}

/// Its certificate is of an authority of the system, or of one that the listener trusts.
fn trusting(server: &KeyServer) -> Result<Arc<ClientConfig>, TlsError> {
    let authorities: Vec<_> =
        authorities_of_system().into_iter().chain(server.truststore.iter().cloned()).collect();
    client_config(&authorities, &[], SystemTime::now())
}

async fn ask(
    server: &KeyServer,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<Vec<u8>, KeyServerError> {
    let no_answer = |source| KeyServerError::NoAnswer { server: server.to_string(), source };
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(no_answer)?;
    let answered = async move {
        let host = format!("{}:{}", server.url_host(), server.port);
        let request = Request::get(&server.target)
            .header(header::HOST, host)
            .header(header::ACCEPT, "application/json, application/jwk-set+json")
            .body(String::new())
            .expect("the settings have taken this URL");
        let response = sender.send_request(request).await.map_err(no_answer)?;
        let status = response.status();
        if status != StatusCode::OK {
            return Err(KeyServerError::Status { server: server.to_string(), status });
        }
        read(server, response.into_body()).await
        // The connection ends with its sender.
    };
    let (answered, _) = tokio::join!(answered, connection);
    answered
}

async fn read(server: &KeyServer, mut body: Incoming) -> Result<Vec<u8>, KeyServerError> {
    let mut text = Vec::new();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let frame = frame
            .map_err(|source| KeyServerError::NoAnswer { server: server.to_string(), source })?;
        text.extend_from_slice(frame.data_ref().unwrap_or(&Bytes::new()));
        if text.len() > KEY_SET_BYTES_MAX {
            return Err(KeyServerError::TooLarge { server: server.to_string() });
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
