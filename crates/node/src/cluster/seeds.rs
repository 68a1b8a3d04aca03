//! The addresses that a node was told to join: which cluster is there.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use logway_model::ClusterId;
use logway_peers::{Carrier, PeerError};
use logway_quorum::QuorumError;
use thiserror::Error;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use super::FindNodes;
use crate::start::NodeError;

/// One node is greeted for so long before the next one is.
const GREETING_MAX: Duration = Duration::from_secs(2);

/// Once a cluster is found, the other addresses may take so long to turn out to be of another one.
const OTHERS_MAX: Duration = Duration::from_millis(500);

/// A node that comes back looks for so long whether the addresses are of another cluster. Its own may be down.
const CHECK_MAX: Duration = Duration::from_secs(1);

/// Between two rounds through all addresses.
const PAUSE: Duration = Duration::from_millis(200);

/// It is said so often that the cluster cannot be found.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// A machine that is off looks like this, and a program that is neither.
const NO_ANSWER: &str = "nobody answers there, neither as a node nor as a broker";

/// Nodes of the cluster to join.
pub(super) struct Seeds {
    pub(super) carrier: Arc<dyn Carrier>,
    pub(super) addresses: Vec<String>,
    pub(super) find_nodes: FindNodes,
    /// Where this node itself listens.
    pub(super) own: Vec<SocketAddr>,
}

/// A cluster was found.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) cluster: ClusterId,
    /// The address of those that were given by which it was found.
    by: String,
    /// Where its nodes listen for nodes.
    pub(super) nodes: Vec<String>,
    /// The address by which a node of it sees this one.
    pub(super) own_address: IpAddr,
}

/// The addresses to join are not of the one cluster that they should be of.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WrongCluster {
    /// They are of two.
    #[error(
        "the addresses to join are of two clusters: {one_address} of {one}, and {other_address} of {other}"
    )]
    Two {
        /// The first cluster.
        one: ClusterId,
        /// An address of it.
        one_address: String,
        /// The second cluster.
        other: ClusterId,
        /// An address of that.
        other_address: String,
    },
    /// The node belongs to another cluster already.
    #[error("{} holds the data of a node of cluster {own}, and {address} is of cluster {other}", .path.display())]
    NotOurs {
        /// The log directory.
        path: PathBuf,
        /// The cluster that it belongs to.
        own: ClusterId,
        /// The cluster to join.
        other: ClusterId,
        /// The address to join.
        address: String,
    },
}

impl Seeds {
    /// Looks until a node says to which cluster it belongs. An address may be that of a node for nodes, or the one that
    /// its clients know.
    pub(super) async fn find(&self, deadline: Instant) -> Result<Found, NodeError> {
        let mut said_at: Option<Instant> = None;
        loop {
            let reason = match self.look(deadline.max(Instant::now() + GREETING_MAX)).await? {
                Ok(found) => return Ok(found),
                Err(reasons) => reasons.join("; "),
            };
            if Instant::now() >= deadline {
                return Err(QuorumError::Unreachable { reason }.into());
            }
            if said_at.is_none_or(|at| at.elapsed() >= LOG_INTERVAL) {
                said_at = Some(Instant::now());
                let addresses = self.addresses.join(",");
                let left = deadline.saturating_duration_since(Instant::now());
                tracing::warn!(addresses, reason, ?left, "looking for the cluster to join");
            }
            sleep(PAUSE).await;
        }
    }

    /// Fails if an address is of another cluster than the one that the directory at `path` belongs to. Nobody needs to
    /// be there: those of the node's own cluster may be down.
    pub(super) async fn check(&self, own: ClusterId, path: &Path) -> Result<(), NodeError> {
        match self.look(Instant::now() + CHECK_MAX).await? {
            Ok(Found { cluster: other, by: address, .. }) if other != own => {
                Err(WrongCluster::NotOurs { path: path.to_owned(), own, other, address }.into())
            }
            _ => Ok(()),
        }
    }

    /// One round through all addresses. The inner error says what each of them did.
    async fn look(&self, deadline: Instant) -> Result<Result<Found, Vec<String>>, WrongCluster> {
        let mut looks = JoinSet::new();
        for address in &self.addresses {
            let (carrier, find_nodes) = (Arc::clone(&self.carrier), self.find_nodes.clone());
            let (address, is_own) = (address.clone(), self.is_own(address));
            looks.spawn(async move {
                let looked = match is_own {
                    true => Err(vec![format!("{address}: this node itself listens there")]),
                    false => look_at(&*carrier, &find_nodes, &address).await,
                };
                (address, looked)
            });
        }
        let mut pending: BTreeSet<&str> = self.addresses.iter().map(String::as_str).collect();
        let (mut found, mut reasons): (Option<Found>, _) = (None, Vec::new());
        let mut until = deadline;
        while let Ok(Some(looked)) = timeout_at(until, looks.join_next()).await {
            // A task that panicked has said so.
            let Ok((address, looked)) = looked else { continue };
            pending.remove(&*address);
            match looked {
                Ok(one) => {
                    found = Some(match found {
                        Some(before) => before.beside(one)?,
                        None => one,
                    });
                    until = until.min(Instant::now() + OTHERS_MAX);
                }
                Err(more) => reasons.extend(more),
            }
        }
        reasons.extend(pending.iter().map(|address| format!("{address}: {NO_ANSWER}")));
        Ok(found.ok_or(reasons))
    }

    fn is_own(&self, address: &str) -> bool {
        address.parse().is_ok_and(|address| self.own.contains(&address))
    }
}

impl Found {
    /// Both, if they are one.
    fn beside(mut self, other: Found) -> Result<Found, WrongCluster> {
        if self.cluster != other.cluster {
            return Err(WrongCluster::Two {
                one: self.cluster,
                one_address: self.by,
                other: other.cluster,
                other_address: other.by,
            });
        }
        self.nodes.extend(other.nodes);
        Ok(self)
    }
}

/// Greets who is at an address, and if that is no node for nodes, those that it tells clients of.
async fn look_at(
    carrier: &dyn Carrier,
    find_nodes: &FindNodes,
    address: &str,
) -> Result<Found, Vec<String>> {
    let reason = match greet(carrier, address, vec![address.to_owned()], address).await {
        Ok(found) => return Ok(found),
        Err(reason) => reason,
    };
    let nodes = match find_nodes(address.to_owned()).await {
        None => return Err(vec![format!("{address}: {reason}")]),
        Some(nodes) if nodes.is_empty() => {
            return Err(vec![format!("{address}: the broker there listens for no other nodes")]);
        }
        Some(nodes) => nodes,
    };
    let mut reasons = Vec::new();
    for node in &nodes {
        match greet(carrier, node, nodes.clone(), address).await {
            Ok(found) => return Ok(found),
            Err(reason) => reasons.push(format!("{node}: {reason}")),
        }
    }
    Err(reasons)
}

/// Greets one node, which is found by an address that was given and stands for `nodes`.
async fn greet(
    carrier: &dyn Carrier,
    node: &str,
    nodes: Vec<String>,
    by: &str,
) -> Result<Found, String> {
    let greeting = carrier.greet(node, GREETING_MAX).await.map_err(|error| match error {
        PeerError::Unreachable(reason) => reason,
        PeerError::TimedOut => NO_ANSWER.to_owned(),
    })?;
    let cluster = greeting.cluster.ok_or("the node there belongs to no cluster yet")?;
    Ok(Found { cluster, by: by.to_owned(), nodes, own_address: greeting.own_address })
}

#[cfg(test)]
mod tests {
    use logway_model::Uuid;
    use logway_peers::{PeerListener, PeerServer, TcpCarrier};
    use tokio::net::TcpListener;

    use super::*;

    const ONE: ClusterId = ClusterId(Uuid([1; 16]));
    const OTHER: ClusterId = ClusterId(Uuid([2; 16]));
    const NOWHERE: &str = "127.0.0.1:1";

    /// Somebody who listens for nodes, and belongs to a cluster or to none.
    async fn node(cluster: Option<ClusterId>) -> (PeerServer, String) {
        let listener = PeerListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.address().to_string();
        let server = PeerServer::start(listener, None);
        if let Some(cluster) = cluster {
            server.belongs_to(cluster);
        }
        (server, address)
    }

    /// `behind` is what the broker at any address tells of nodes.
    async fn seeds(addresses: &[&str], behind: Option<&[&str]>) -> Seeds {
        let owned = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
        let behind = behind.map(owned);
        let listener = PeerListener::bind("127.0.0.1:0").await.expect("a free port");
        Seeds {
            carrier: Arc::new(TcpCarrier::new(listener, None)),
            addresses: owned(addresses),
            find_nodes: Arc::new(move |_| {
                let behind = behind.clone();
                Box::pin(async { behind })
            }),
            own: Vec::new(),
        }
    }

    async fn failure(seeds: &Seeds) -> String {
        seeds.find(Instant::now()).await.err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[tokio::test]
    async fn a_cluster_is_found_by_one_of_its_nodes_or_behind_a_broker() {
        let (_server, address) = node(Some(ONE)).await;
        let found =
            seeds(&[NOWHERE, &address], None).await.find(Instant::now()).await.expect("is there");
        assert_eq!((found.cluster, found.nodes), (ONE, vec![address.clone()]));
        let behind = seeds(&[NOWHERE], Some(&[&address])).await;
        let found = behind.find(Instant::now()).await.expect("is there");
        assert_eq!((found.cluster, found.nodes, &*found.by), (ONE, vec![address], NOWHERE));
    }

    #[tokio::test]
    async fn what_is_wrong_with_each_address_is_said() {
        assert!(
            failure(&seeds(&[NOWHERE], None).await)
                .await
                .contains("127.0.0.1:1: Connection refused")
        );
        let alone = failure(&seeds(&[NOWHERE], Some(&[])).await).await;
        assert!(alone.contains("listens for no other nodes"), "{alone}");
        let (_server, lost) = node(None).await;
        let unfounded = failure(&seeds(&[&lost], None).await).await;
        assert!(unfounded.contains("belongs to no cluster yet"), "{unfounded}");
        let mut own = seeds(&[&lost], None).await;
        own.own.push(lost.parse().expect("is one"));
        assert!(failure(&own).await.contains("this node itself"));
        let silent = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let silent = silent.local_addr().expect("is bound").to_string();
        assert!(failure(&seeds(&[&silent], None).await).await.contains(&silent));
    }

    #[tokio::test]
    async fn two_clusters_are_not_one() {
        let ((_one, one_address), (_other, other_address)) =
            (node(Some(ONE)).await, node(Some(OTHER)).await);
        let failure = failure(&seeds(&[&one_address, &other_address], None).await).await;
        for said in [&ONE.to_string(), &OTHER.to_string(), &one_address, &other_address] {
            assert!(failure.contains(said.as_str()), "{failure}");
        }
    }

    #[tokio::test]
    async fn data_of_another_cluster_is_noticed_and_a_cluster_that_is_down_is_not() {
        let (_server, address) = node(Some(OTHER)).await;
        let path = Path::new("/data");
        assert!(seeds(&[NOWHERE], None).await.check(ONE, path).await.is_ok());
        assert!(seeds(&[NOWHERE, &address], None).await.check(OTHER, path).await.is_ok());
        let failure =
            seeds(&[&address], None).await.check(ONE, path).await.expect_err("is another");
        assert!(failure.to_string().starts_with("/data holds"), "{failure}");
    }
}
