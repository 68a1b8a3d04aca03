//! Who is there: the first message on a connection.
//!
//! The caller sends:
//!
//! | bytes | field | meaning |
//! |---|---|---|
//! | 8 | magic | `LOGWAYND` |
//! | 2 | version | of this protocol, big-endian; 1 |
//! | 1 | lane | 0 control, 1 append, 2 bulk, 3 replication, 4 clients, 5 waiting |
//! | 16 | cluster | the cluster it belongs to; zero for one that is yet to join |
//! | 4 | node | its number, big-endian; -1 for none yet |
//! | 16 | directory | its data directory |
//!
//! and the other node answers:
//!
//! | bytes | field | meaning |
//! |---|---|---|
//! | 8 | magic | `LOGWAYND` |
//! | 2 | version | the newest that it speaks |
//! | 1 | verdict | 0 welcome, 1 another version, 2 another cluster, 3 a key that the cluster does not know |
//! | 16 | cluster | the cluster that it belongs to |

use std::io;

use logway_model::{BrokerId, ClusterId, DirectoryId, Uuid};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use logway_quorum::Lane;

const MAGIC: [u8; 8] = *b"LOGWAYND";

/// The version of the protocol between nodes.
const VERSION: u16 = 1;

const HELLO_BYTES: usize = 47;

const ANSWER_BYTES: usize = 27;

/// A node, as it introduces itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// The cluster that it belongs to; `None` for one that is yet to join.
    pub cluster: Option<ClusterId>,
    /// Its number, if it has one.
    pub node: Option<BrokerId>,
    /// Its data directory.
    pub directory: DirectoryId,
}

/// What a caller says first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) lane: Lane,
    pub(crate) from: Identity,
}

/// What the called node says about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Welcome,
    OtherVersion,
    OtherCluster,
    UnknownKey,
}

/// What a caller has, or what it says is no hello.
pub(crate) enum Received {
    Hello(Hello),
    OtherVersion(u16),
}

impl Hello {
    pub(crate) async fn send(&self, to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(HELLO_BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_be_bytes());
        bytes.push(lane_number(self.lane));
        bytes.extend_from_slice(&self.from.cluster.map_or([0; 16], |cluster| cluster.0.0));
        bytes.extend_from_slice(&self.from.node.map_or(-1, |node| node.0).to_be_bytes());
        bytes.extend_from_slice(&self.from.directory.0.0);
        to.write_all(&bytes).await?;
        to.flush().await
    }

    /// Reads what a caller says first. An error is what is no node of any version.
    pub(crate) async fn receive(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Received> {
        let mut bytes = [0; HELLO_BYTES];
        from.read_exact(&mut bytes[..10]).await?;
        if bytes[..8] != MAGIC {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it is no node of a cluster"));
        }
        let version = u16::from_be_bytes([bytes[8], bytes[9]]);
        if version != VERSION {
            return Ok(Received::OtherVersion(version));
        }
        from.read_exact(&mut bytes[10..]).await?;
        let lane = lane_of(bytes[10]);
        let lane =
            lane.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no such lane"))?;
        let uuid = |at: usize| Uuid(bytes[at..at + 16].try_into().expect("has 16 bytes"));
        let node = i32::from_be_bytes(bytes[27..31].try_into().expect("has 4 bytes"));
        let from = Identity {
            cluster: Some(uuid(11)).filter(|cluster| !cluster.is_zero()).map(ClusterId),
            node: Some(BrokerId(node)).filter(|node| node.0 >= 0),
            directory: DirectoryId(uuid(31)),
        };
        Ok(Received::Hello(Hello { lane, from }))
    }
}

impl Verdict {
    pub(crate) async fn send(
        self,
        cluster: Option<ClusterId>,
        to: &mut (impl AsyncWrite + Unpin),
    ) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(ANSWER_BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_be_bytes());
        bytes.push(match self {
            Verdict::Welcome => 0,
            Verdict::OtherVersion => 1,
            Verdict::OtherCluster => 2,
            Verdict::UnknownKey => 3,
        });
        bytes.extend_from_slice(&cluster.map_or([0; 16], |cluster| cluster.0.0));
        to.write_all(&bytes).await?;
        to.flush().await
    }

    /// Reads the verdict about a caller of this cluster; an error says why it may not call. Returns the cluster
    /// of the called node, if it belongs to one.
    pub(crate) async fn receive(
        own: Option<ClusterId>,
        from: &mut (impl AsyncRead + Unpin),
    ) -> io::Result<Option<ClusterId>> {
        let mut bytes = [0; ANSWER_BYTES];
        from.read_exact(&mut bytes).await?;
        let refused = |reason| Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
        if bytes[..8] != MAGIC {
            return refused("no node of a cluster listens there".to_owned());
        }
        let version = u16::from_be_bytes([bytes[8], bytes[9]]);
        let cluster = ClusterId(Uuid(bytes[11..].try_into().expect("has 16 bytes")));
        match (bytes[10], own) {
            (0, _) => Ok(Some(cluster).filter(|cluster| !cluster.0.is_zero())),
            (1, _) => refused(format!(
                "it speaks version {version} of the protocol between nodes, and this node {VERSION}"
            )),
            (2, Some(own)) => {
                refused(format!("it belongs to cluster {cluster}, and this node to {own}"))
            }
            (3, _) => refused(
                "the cluster does not know this node by its key: it was removed, or never admitted"
                    .to_owned(),
            ),
            _ => refused("it refuses this node".to_owned()),
        }
    }
}

fn lane_number(lane: Lane) -> u8 {
    match lane {
        Lane::Control => 0,
        Lane::Append => 1,
        Lane::Bulk => 2,
        Lane::Replication => 3,
        Lane::Clients => 4,
        Lane::Waiting => 5,
    }
}

fn lane_of(number: u8) -> Option<Lane> {
    match number {
        0 => Some(Lane::Control),
        1 => Some(Lane::Append),
        2 => Some(Lane::Bulk),
        3 => Some(Lane::Replication),
        4 => Some(Lane::Clients),
        5 => Some(Lane::Waiting),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: ClusterId = ClusterId(Uuid([7; 16]));

    fn hello(cluster: Option<ClusterId>, node: Option<BrokerId>) -> Hello {
        let from = Identity { cluster, node, directory: DirectoryId(Uuid([9; 16])) };
        Hello { lane: Lane::Append, from }
    }

    #[tokio::test]
    async fn a_node_is_known_by_what_it_says() {
        for sent in [hello(Some(OWN), Some(BrokerId(3))), hello(None, None)] {
            let mut bytes = Vec::new();
            sent.send(&mut bytes).await.expect("fits");
            assert_eq!(bytes.len(), HELLO_BYTES);
            match Hello::receive(&mut &bytes[..]).await.expect("is a hello") {
                Received::Hello(received) => assert_eq!(received, sent),
                Received::OtherVersion(version) => panic!("version {version}"),
            }
        }
    }

    #[tokio::test]
    async fn what_is_no_hello_is_refused_and_another_version_is_named() {
        let mut bytes = Vec::new();
        hello(None, None).send(&mut bytes).await.expect("fits");
        bytes[9] = 2;
        let received = Hello::receive(&mut &bytes[..]).await.expect("is a node");
        assert!(matches!(received, Received::OtherVersion(2)));
        let http = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n......";
        assert!(Hello::receive(&mut &http[..]).await.is_err());
        (bytes[9], bytes[10]) = (1, 9);
        assert!(Hello::receive(&mut &bytes[..]).await.is_err(), "no such lane");
        assert!(Hello::receive(&mut &bytes[..20]).await.is_err(), "cut off");
    }

    #[tokio::test]
    async fn a_refusal_says_why() {
        let reason = async |verdict: Verdict| {
            let mut bytes = Vec::new();
            let other = ClusterId(Uuid([8; 16]));
            verdict.send(Some(other), &mut bytes).await.expect("fits");
            Verdict::receive(Some(OWN), &mut &bytes[..]).await.err().map(|error| error.to_string())
        };
        assert_eq!(reason(Verdict::Welcome).await, None);
        let other = reason(Verdict::OtherCluster).await.expect("is refused");
        assert!(other.contains(&OWN.to_string()), "{other}");
        assert!(reason(Verdict::OtherVersion).await.expect("is refused").contains("version 1"));
    }
}
