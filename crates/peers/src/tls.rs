//! TLS between nodes: who is believed to be a node of the cluster.
//!
//! A certificate of the cluster's authority is not enough, because nodes that were removed have one as well, and the authority's
//! key. So who has shown one is looked up in what the cluster knows of its nodes: [`Admission`]. Who has none gets one
//! kind of call: the one by which a node asks to be admitted.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use logway_metadata::join_token::Digest;
use logway_model::DirectoryId;
use logway_security::nodes::{ANY_NODE, NodeTls, node_key_of};
use rustls::ClientConfig;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// What a cluster knows of its nodes.
pub trait Admission: Send + Sync + 'static {
    /// Whether the cluster knows a node by its key, of a certain directory if one is named. Other nodes may be asked.
    fn admits(
        self: Arc<Self>,
        key: Digest,
        directory: Option<DirectoryId>,
    ) -> Pin<Box<dyn Future<Output = bool> + Send>>;

    /// Whether that is still so, of one that was admitted. It is asked at each call, so it must be cheap.
    fn still_admits(&self, key: Digest, directory: DirectoryId) -> bool;
}

/// How a node proves itself to others, and they to it.
#[derive(Clone)]
pub struct PeerTls {
    /// Its certificate.
    pub tls: Arc<NodeTls>,
    /// Whom it believes.
    pub admission: Arc<dyn Admission>,
}

pub(crate) type ReadHalf = Box<dyn AsyncRead + Send + Unpin>;

pub(crate) type WriteHalf = Box<dyn AsyncWrite + Send + Unpin>;

/// Who is at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proven {
    /// Nobody is asked to prove anything.
    Unasked,
    /// A node whose certificate is the authority's. Whether the cluster knows it is yet to be asked.
    Node(Digest),
    /// Somebody without a certificate.
    Stranger,
}

/// How a connection is made.
#[derive(Clone)]
pub(crate) enum Way {
    Plain,
    Tls(PeerTls),
    /// As a node that is not admitted yet.
    Joining(Arc<ClientConfig>),
}

pub(crate) fn plain(socket: TcpStream) -> (ReadHalf, WriteHalf) {
    let (read, write) = socket.into_split();
    (Box::new(read), Box::new(write))
}

/// Answers a handshake.
pub(crate) async fn accept(
    tls: &PeerTls,
    socket: TcpStream,
) -> io::Result<(ReadHalf, WriteHalf, Proven)> {
    let stream = TlsAcceptor::from(tls.tls.server()).accept(socket).await?;
    let proven = match stream.get_ref().1.peer_certificates() {
        None => Proven::Stranger,
        Some(chain) => Proven::Node(key(chain)?),
    };
    let (read, write) = tokio::io::split(stream);
    Ok((Box::new(read), Box::new(write), proven))
}

/// Begins one, and looks whether a node of the cluster has answered it.
pub(crate) async fn connect(way: &Way, socket: TcpStream) -> io::Result<(ReadHalf, WriteHalf)> {
    let config = match way {
        Way::Plain => return Ok(plain(socket)),
        Way::Tls(tls) => tls.tls.client(),
        Way::Joining(config) => Arc::clone(config),
    };
    let name = ServerName::try_from(ANY_NODE).expect("it is a name");
    let stream = TlsConnector::from(config).connect(name, socket).await?;
    if let Way::Tls(tls) = way {
        let key = key(stream.get_ref().1.peer_certificates().unwrap_or_default())?;
        if !Arc::clone(&tls.admission).admits(key, None).await {
            return refused(
                "the cluster does not know the key of the node there: it was removed, or never admitted",
            );
        }
    }
    let (read, write) = tokio::io::split(stream);
    Ok((Box::new(read), Box::new(write)))
}

fn key(chain: &[CertificateDer<'_>]) -> io::Result<Digest> {
    match node_key_of(chain) {
        Some(key) => Ok(key),
        None => refused("its certificate is not that of a node"),
    }
}

fn refused<T>(reason: &str) -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::PermissionDenied, reason))
}
