//! Who a node is, before its log directories are opened.
//!
//! | first log directory | `--join` | it |
//! |---|---|---|
//! | has an owner | given or not | is the node that owns it, simply back; addresses of another cluster are an error |
//! | is empty | not given | founds a cluster of one |
//! | is empty | given | asks the cluster to be admitted, and gets a number |
//!
//! A voter founds no cluster: there would be no broker in it.
//!
//! The number and the directory's id belong together for ever. So the id is drawn and written down before the cluster
//! is asked: a node that is killed in between asks again as the same one. The file goes when the node has its place in
//! the quorum; while it is there, no start founds a cluster (nats-server#2792).

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use logway_log::checkpoint::known_dirs::KNOWN_DIRS_FILE;
use logway_log::checkpoint::{MetaProperties, joining};
use logway_log::fs::{Fs, RealFs};
use logway_log::{LogError, random_uuid};
use logway_metadata::record::{Endpoint, Listener};
use logway_metadata::settings::{BrokerSettings, NODE_ID_SETTING, NodeRole};
use logway_model::{BrokerId, ClusterId, DirectoryId};
use logway_peers::{Identity, QuorumCalls};
use logway_quorum::{JoinRequest, Start, join};
use tokio::time::Instant;

use super::seeds::{Found, Seeds};
use super::{BoundListener, Cluster, ClusterOptions};
use crate::start::NodeError;
use crate::tasks::off_thread;

/// A node looks for its cluster for so long. Those of a cluster may be started at the same moment, in any order.
const JOIN_PATIENCE: Duration = Duration::from_secs(60);

/// The cluster that has admitted this node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Joined {
    pub(crate) cluster: ClusterId,
    /// What the first log directory is called.
    pub(crate) directory: DirectoryId,
}

/// A node that knows who it is.
pub(crate) struct Identified {
    pub(crate) settings: Arc<BrokerSettings>,
    /// `None` for one that is alone and stays so.
    pub(crate) cluster: Option<Cluster>,
    /// Only if it was admitted just now.
    pub(crate) joined: Option<Joined>,
    pub(crate) start: Start,
}

impl Identified {
    /// A node that no other can reach.
    pub(crate) fn alone(settings: Arc<BrokerSettings>) -> Identified {
        Identified { settings, cluster: None, joined: None, start: Start::Found }
    }

    /// Finds out who this node is, and has it admitted if it is new to a cluster.
    ///
    /// # Errors
    ///
    /// Says why it cannot join. Then nothing was written but its own name.
    pub(crate) async fn of(
        fs: &Arc<dyn Fs>,
        settings: Arc<BrokerSettings>,
        options: ClusterOptions,
    ) -> Result<Identified, NodeError> {
        let ClusterOptions { carrier, host, clients, join, replaces, find_nodes, secure, mutation } =
            options;
        let bound = carrier.address();
        let root = root_of(&settings);
        let known = Known::read(fs, root.clone(), &settings).await?;
        carrier.set_own(Identity { cluster: None, node: None, directory: known.directory() });
        let address = |greeted: Option<IpAddr>| {
            let ip = own_ip(bound.ip(), greeted);
            let host = host.clone().unwrap_or_else(|| ip.to_string());
            Endpoint { host, port: bound.port() }
        };
        let of_clients = clients.iter().filter_map(|it| Some(SocketAddr::new(it.ip?, it.port)));
        let own = of_clients.chain([bound]);
        let seeds = Seeds {
            carrier: Arc::clone(&carrier),
            addresses: join,
            find_nodes,
            own: own.collect(),
        };
        let votes_only = settings.cluster.role == NodeRole::Voter;
        let is_to_join = !seeds.addresses.is_empty();
        let (settings, address, joined, start) = match known {
            Known::Owned { owner, is_joining } => {
                if replaces && !is_joining {
                    tracing::warn!(
                        "this node has data and replaces nobody: take --replace out of its command line, or a start with an empty \
                         directory replaces it"
                    );
                }
                if is_to_join {
                    seeds.check(owner.cluster_id, &root).await?;
                }
                let start = if is_joining || is_to_join { Start::Join } else { Start::Found };
                let settings = match settings.given(NODE_ID_SETTING) {
                    // Another number than the directory's is refused when that is opened.
                    Some(_) => settings,
                    None => Arc::new(settings.with_node_id(owner.node_id)),
                };
                (settings, address(None), None, start)
            }
            // What is missing is said when the directories are opened; nothing is joined or founded before.
            Known::Incomplete => (settings, address(None), None, Start::Found),
            Known::New(_) if !is_to_join && votes_only => return Err(NodeError::LonelyVoter),
            Known::New(_) if !is_to_join => (settings, address(None), None, Start::Found),
            Known::New(directory) => {
                let wanted = settings.given(NODE_ID_SETTING).map(|_| settings.node_id);
                let deadline = Instant::now() + JOIN_PATIENCE;
                let Found { cluster, nodes, own_address, .. } = seeds.find(deadline).await?;
                carrier.set_own(Identity { cluster: Some(cluster), node: None, directory });
                let (files, root) = (Arc::clone(fs), root.clone());
                off_thread(move || joining::write(&*files, &root, directory)).await?;
                let address = address(Some(own_address));
                let address_of_node = address.to_string();
                let request = JoinRequest {
                    id: wanted,
                    directory,
                    address: address_of_node,
                    replaces,
                    votes_only,
                };
                let patience = deadline.saturating_duration_since(Instant::now());
                tracing::info!(%cluster, "asking the cluster to admit this node");
                let admitted = self::join(
                    Arc::new(QuorumCalls(Arc::clone(&carrier))),
                    &nodes,
                    request,
                    patience,
                )
                .await?;
                tracing::info!(node = %admitted.id, %cluster, "the cluster has admitted this node");
                let settings = Arc::new(settings.with_node_id(admitted.id));
                (settings, address, Some(Joined { cluster, directory }), Start::Join)
            }
        };
        let client_listeners = client_listeners(&settings, clients, &address);
        let cluster = Cluster::new(carrier, address, client_listeners, secure, mutation);
        Ok(Identified { settings, cluster: Some(cluster), joined, start })
    }
}

/// The node has its place in the quorum: what was written down for the way there is not needed any more.
pub(crate) async fn forget_joining(fs: &Arc<dyn Fs>, root: &Path) -> Result<(), LogError> {
    let (fs, root) = (Arc::clone(fs), root.to_owned());
    off_thread(move || joining::forget(&*fs, &root)).await
}

impl Cluster {
    /// The node knows its cluster and its directory: it calls in its own name, and takes no calls of others' clusters.
    pub(crate) fn belongs_to(&self, cluster: ClusterId, node: BrokerId, directory: DirectoryId) {
        self.carrier.set_own(Identity { cluster: Some(cluster), node: Some(node), directory });
        self.carrier.belongs_to(cluster);
    }

    /// From now on other nodes are answered.
    pub(crate) fn answer_calls(&self, node: &Arc<crate::Node>) {
        if let Some(secure) = &self.secure {
            secure.known.follow(Arc::downgrade(node));
        }
        self.carrier.serve(Arc::new(super::calls::Calls(Arc::downgrade(node))));
    }
}

/// The first log directory, before anything of it is opened.
#[derive(Debug, Clone, Copy)]
pub struct FirstDirectory {
    /// What it is called, or will be.
    pub id: DirectoryId,
    /// Whether nobody owns it yet.
    pub is_new: bool,
    /// Whether the node has asked to be admitted, and has no place in the cluster yet.
    pub is_joining: bool,
}

impl FirstDirectory {
    /// As the settings name it.
    pub async fn look(settings: &BrokerSettings) -> Result<FirstDirectory, NodeError> {
        let (fs, root): (Arc<dyn Fs>, _) = (Arc::new(RealFs), root_of(settings));
        let known = Known::read(&fs, root.clone(), settings).await?;
        let name = off_thread(move || joining::read(&*fs, &root)).await?;
        let is_new = matches!(known, Known::New(_));
        Ok(FirstDirectory { id: known.directory(), is_new, is_joining: name.is_some() })
    }

    /// Writes down what a new one will be called. To be done before a cluster is asked to admit the node, so that one that is
    /// killed asks again as the same.
    pub async fn begin_to_join(self, settings: &BrokerSettings) -> Result<(), NodeError> {
        if !self.is_new {
            return Ok(());
        }
        let root = root_of(settings);
        Ok(off_thread(move || joining::write(&RealFs, &root, self.id)).await?)
    }
}

fn root_of(settings: &BrokerSettings) -> PathBuf {
    std::path::absolute(&settings.log_dirs[0]).unwrap_or(settings.log_dirs[0].clone())
}

/// What the first log directory says of its owner.
enum Known {
    Owned {
        owner: MetaProperties,
        is_joining: bool,
    },
    /// Something is missing that was there: the owner of another directory, or the file that says it.
    Incomplete,
    /// Nobody owns any directory; this will be the id of the first.
    New(DirectoryId),
}

impl Known {
    async fn read(
        fs: &Arc<dyn Fs>,
        root: PathBuf,
        settings: &BrokerSettings,
    ) -> Result<Known, NodeError> {
        let (fs, dirs) = (Arc::clone(fs), settings.log_dirs.clone());
        let read = move || -> Result<Known, LogError> {
            let owner_of = |dir: &Path| MetaProperties::read(&*fs, &dir.join(MetaProperties::FILE));
            let name = joining::read(&*fs, &root)?;
            if let Some(owner) = owner_of(&root)? {
                return Ok(Known::Owned { owner, is_joining: name.is_some() });
            }
            let others = dirs.iter().skip(1);
            let is_known = fs.exists(&root.join(KNOWN_DIRS_FILE)).unwrap_or(true)
                || others.map(|dir| owner_of(dir)).any(|owner| !matches!(owner, Ok(None)));
            match is_known {
                true => Ok(Known::Incomplete),
                false => Ok(Known::New(name.unwrap_or_else(|| DirectoryId(random_uuid())))),
            }
        };
        Ok(off_thread(read).await?)
    }

    fn directory(&self) -> DirectoryId {
        match self {
            Known::Owned { owner, .. } => owner.directory_id,
            Known::New(directory) => *directory,
            Known::Incomplete => DirectoryId::UNASSIGNED,
        }
    }
}

/// The address by which others reach this machine, where it listens on all: the one by which a node has seen it, or
/// that of the way out.
fn own_ip(bound: IpAddr, greeted: Option<IpAddr>) -> IpAddr {
    if !bound.is_unspecified() {
        return bound.to_canonical();
    }
    greeted.or_else(way_out).unwrap_or(Ipv4Addr::LOCALHOST.into()).to_canonical()
}

/// The address of the interface by which packets leave for other networks. Nothing is sent.
pub fn way_out() -> Option<IpAddr> {
    // Of a network that is for documents alone (RFC 5737).
    const ELSEWHERE: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 1), 9);
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect(ELSEWHERE).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

/// What clients of a cluster are told of each listener: what is configured, the address that is bound, or that of the
/// node.
fn client_listeners(
    settings: &BrokerSettings,
    bound: Vec<BoundListener>,
    of_node: &Endpoint,
) -> Vec<Listener> {
    let told = bound.into_iter().map(|BoundListener { name, ip, port }| {
        let known = settings.listeners.iter().find(|listener| listener.name == name);
        let configured = known.and_then(|listener| listener.advertised.clone());
        let bound = ip.map(|ip| Endpoint { host: ip.to_canonical().to_string(), port });
        let of_node = || Endpoint { port, ..of_node.clone() };
        Listener { name, endpoint: configured.or(bound).unwrap_or_else(of_node) }
    });
    told.collect()
}
