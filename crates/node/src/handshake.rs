//! TLS handshakes of front doors whose protocol takes any stream. Connections of Kafka clients drive TLS themselves.

use std::io;
use std::time::Duration;

use logway_security::ServerTls;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::accept::stopped;

/// How long a TLS handshake may take, at every front door.
pub const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// Shakes hands with a client by the certificate in force. `None` when the listener closes meanwhile.
pub async fn shake_hands(
    tls: &ServerTls,
    socket: TcpStream,
    stopping: &mut watch::Receiver<bool>,
) -> Option<io::Result<TlsStream<TcpStream>>> {
    let handshake = TlsAcceptor::from(tls.config()).accept(socket);
    tokio::select! {
        shaken = timeout(HANDSHAKE_MAX, handshake) => {
            Some(shaken.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())))
        }
        () = stopped(stopping) => None,
    }
}
