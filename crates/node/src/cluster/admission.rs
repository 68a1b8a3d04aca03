//! Who is believed to be a node of the cluster, where nodes talk by TLS; and how one is admitted that has a join token.
//!
//! The metadata has the key of each node. A node goes by what it knows of the metadata, which may be old: it was down, or is
//! new and has none yet. So one that is not known is asked for at the others that are: a node that was
//! admitted since may be the only one that can bring the metadata up to date. Only keys that some known node vouches for
//! are believed, because a node that was removed can make certificates.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use futures_core::future::BoxFuture;
use logway_metadata::controller::{AdmitNodeKey, FoundNodeKeys, join_tokens, was_admitted};
use logway_metadata::join_token::Digest;
use logway_model::{DirectoryId, ErrorCode, Uuid};
use logway_peers::{Admission, Identity, Kind, Lane, PeerError, ask_for_admission};
use logway_security::join_token::IssuedJoinToken;
use logway_security::nodes::{digest_of, joining_client};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::time::{Instant, sleep};

use super::SecureNodes;
use crate::Node;
use crate::failure::Failure;
use crate::tasks::wall_clock;

/// A node is asked for so long whom it knows.
const VOUCHING_MAX: Duration = Duration::from_secs(1);

/// What was heard of a node counts for so long. By then the metadata has it.
const VOUCHED_MAX: Duration = Duration::from_secs(60);

/// More keys are not remembered.
const VOUCHED_KEYS_MAX: usize = 1_000;

/// The log says so often that somebody was not admitted.
const REFUSAL_LOG_INTERVAL: Duration = Duration::from_secs(10);

/// An admission may take so long at the node that is asked.
const ADMITTING_MAX: Duration = Duration::from_secs(10);

/// One node is asked for so long to admit this one.
const ASKING_MAX: Duration = Duration::from_secs(15);

/// All of them together. Those of a cluster may be started at the same moment.
const ASKING_PATIENCE: Duration = Duration::from_secs(60);

/// Between two rounds through all addresses.
const PAUSE: Duration = Duration::from_millis(500);

/// The nodes that are known by their keys.
#[derive(Default)]
pub struct KnownNodes {
    /// What the cluster told when it admitted this node.
    told: HashMap<DirectoryId, Digest>,
    /// Who has the metadata, once it is open.
    node: OnceLock<Weak<Node>>,
    /// What other nodes have told of those that the metadata here does not have.
    vouched: Mutex<HashMap<(DirectoryId, Digest), Instant>>,
    /// When the log said last that somebody was not admitted.
    said_at: Mutex<Option<Instant>>,
}

impl KnownNodes {
    /// As the cluster has told them. The metadata counts as soon as it has any.
    pub fn new(told: impl IntoIterator<Item = (DirectoryId, Digest)>) -> Arc<KnownNodes> {
        Arc::new(KnownNodes { told: told.into_iter().collect(), ..KnownNodes::default() })
    }

    /// From now on the metadata of a node counts.
    pub(super) fn follow(&self, node: Weak<Node>) {
        // It is done once, when the node has been opened.
        let _ = self.node.set(node);
    }

    fn node(&self) -> Option<Arc<Node>> {
        self.node.get()?.upgrade()
    }

    /// Whether it knows of no node at all: the cluster's nodes talk in the clear, or there is none yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.told.is_empty()
    }

    /// What the cluster told counts where the metadata says nothing: a new node has but a part of that yet.
    fn all(&self) -> HashMap<DirectoryId, Digest> {
        let mut known = self.told.clone();
        if let Some(node) = self.node() {
            let image = node.image();
            known.extend(image.node_keys());
            known.retain(|directory, _| image.removed_brokers().by_directory(*directory).is_none());
        }
        known
    }

    /// What this node knows of the node of a directory.
    fn standing(&self, directory: DirectoryId) -> Standing {
        let image = self.node().map(|node| node.image());
        let image = image.as_deref();
        if image.is_some_and(|it| it.removed_brokers().by_directory(directory).is_some()) {
            return Standing::Removed;
        }
        let known = image.and_then(|image| image.node_key(directory));
        let known = known.or_else(|| self.told.get(&directory).copied());
        known.map_or(Standing::Unknown, Standing::Known)
    }

    /// The same of whoever has a key, in the name of a directory or of none.
    fn standing_of_key(&self, key: Digest, directory: Option<DirectoryId>) -> Standing {
        match directory {
            Some(directory) => self.standing(directory),
            None if self.all().values().any(|known| *known == key) => Standing::Known(key),
            None => Standing::Unknown,
        }
    }

    /// Whether the log may say once more that somebody was not admitted: anybody can ask.
    fn may_say(&self) -> bool {
        let mut said_at = self.said_at.lock().unwrap_or_else(PoisonError::into_inner);
        let may = said_at.is_none_or(|at| at.elapsed() >= REFUSAL_LOG_INTERVAL);
        if may {
            *said_at = Some(Instant::now());
        }
        may
    }

    fn is_vouched_for(&self, key: Digest, directory: Option<DirectoryId>) -> bool {
        let mut vouched = self.vouched.lock().unwrap_or_else(PoisonError::into_inner);
        vouched.retain(|_, heard| heard.elapsed() < VOUCHED_MAX);
        vouched.keys().any(|(of, known)| *known == key && directory.is_none_or(|it| it == *of))
    }

    /// Asks the known nodes, one after the other, until one knows the key.
    async fn ask_others(&self, key: Digest, directory: Option<DirectoryId>) -> bool {
        let Some(node) = self.node() else { return false };
        let Some(cluster) = &node.cluster else { return false };
        let known = self.all();
        for member in node.quorum.members() {
            if member.id == node.settings.node_id || !known.contains_key(&member.directory) {
                continue;
            }
            let asked = cluster.carrier.request(
                &member.address,
                Lane::Control,
                Kind::NodeKey,
                key.0.to_vec(),
                VOUCHING_MAX,
            );
            let Ok(reply) = asked.await else { continue };
            let Ok(of) = <[u8; 16]>::try_from(&reply[..]) else { continue };
            let of = DirectoryId(Uuid(of));
            let mut vouched = self.vouched.lock().unwrap_or_else(PoisonError::into_inner);
            if vouched.len() < VOUCHED_KEYS_MAX {
                vouched.insert((of, key), Instant::now());
            }
            return directory.is_none_or(|directory| directory == of);
        }
        false
    }
}

/// What a node knows of another one.
enum Standing {
    /// It is known by this key.
    Known(Digest),
    /// It belongs to the cluster no longer.
    Removed,
    /// Other nodes may know it.
    Unknown,
}

impl Admission for KnownNodes {
    fn admits(
        self: Arc<Self>,
        key: Digest,
        directory: Option<DirectoryId>,
    ) -> BoxFuture<'static, bool> {
        Box::pin(async move {
            match self.standing_of_key(key, directory) {
                Standing::Known(known) => known == key,
                Standing::Removed => false,
                Standing::Unknown if self.is_vouched_for(key, directory) => true,
                Standing::Unknown => self.ask_others(key, directory).await,
            }
        })
    }

    fn still_admits(&self, key: Digest, directory: DirectoryId) -> bool {
        match self.standing(directory) {
            Standing::Known(known) => known == key,
            Standing::Removed => false,
            Standing::Unknown => self.is_vouched_for(key, Some(directory)),
        }
    }
}

/// What is asked of a node by one that has a join token.
#[derive(Serialize, Deserialize)]
struct AdmissionRequest {
    /// The secret of the token, which nobody else can tell.
    secret: Digest,
    directory: DirectoryId,
    key: Digest,
}

/// What a node gets that is admitted.
#[derive(Clone, Serialize, Deserialize)]
pub struct Admitted {
    /// The authority's key, in PEM. Each node has it, so that none is needed for another to go on.
    pub authority_key: String,
    /// Its certificate, in PEM.
    pub authority: String,
    /// By which keys nodes are known.
    pub nodes: Vec<(DirectoryId, Digest)>,
}

/// The answer, as it travels.
#[derive(Serialize, Deserialize)]
enum AdmissionReply {
    Admitted(Admitted),
    /// The token is none of the cluster's.
    Refused(String),
    /// Something else, which may pass.
    Failed(String),
}

/// Why a node was not admitted.
#[derive(Debug, Error)]
pub enum AdmissionError {
    /// The cluster refuses the token.
    #[error("the cluster does not admit this node: {0}")]
    Refused(String),
    /// No node of the cluster has answered.
    #[error("no node of the cluster can be asked to admit this one: {0}")]
    Unreachable(String),
    /// There can be no TLS.
    #[error(transparent)]
    Tls(#[from] logway_security::TlsError),
}

/// Asks the nodes at these addresses, until one answers, to admit the node of a directory with this key.
pub async fn be_admitted(
    token: &IssuedJoinToken,
    addresses: &[String],
    directory: DirectoryId,
    key: Digest,
) -> Result<Admitted, AdmissionError> {
    let config = joining_client(token.authority)?;
    let own = Identity { cluster: None, node: None, directory };
    let request = AdmissionRequest { secret: Digest(*token.secret()), directory, key };
    let request = serde_json::to_vec(&request).expect("it has no maps");
    let deadline = Instant::now() + ASKING_PATIENCE;
    loop {
        let mut reasons = Vec::new();
        for address in addresses {
            let asked =
                ask_for_admission(address, Arc::clone(&config), own, request.clone(), ASKING_MAX);
            let reason = match asked.await {
                Ok(reply) => match serde_json::from_slice(&reply) {
                    Ok(AdmissionReply::Admitted(admitted)) => return Ok(admitted),
                    Ok(AdmissionReply::Refused(reason)) => {
                        return Err(AdmissionError::Refused(reason));
                    }
                    Ok(AdmissionReply::Failed(reason)) => reason,
                    Err(_) => "its answer cannot be read: is it of another version?".to_owned(),
                },
                Err(PeerError::Unreachable(reason)) => reason,
                Err(PeerError::TimedOut) => "nobody answers there".to_owned(),
            };
            reasons.push(format!("{address}: {reason}"));
        }
        let reasons = reasons.join("; ");
        if Instant::now() >= deadline {
            return Err(AdmissionError::Unreachable(reasons));
        }
        tracing::warn!(reasons, "asking to be admitted");
        sleep(PAUSE).await;
    }
}

/// What a node has for those that it admits: the authority's key and its certificate, in PEM.
#[derive(Clone)]
pub struct AuthorityPem {
    /// The key.
    pub key: String,
    /// The certificate.
    pub certificate: String,
}

impl Node {
    /// Which directory a key is known for, as another node asks it.
    pub(super) fn directory_of_key(&self, key: &[u8]) -> Option<Vec<u8>> {
        let image = self.image();
        let found = image.node_keys().find(|(_, known)| known.0[..] == *key);
        found.map(|(directory, _)| directory.0.0.to_vec())
    }

    /// Admits a node that has a join token.
    pub(super) async fn admit_node(self: &Arc<Self>, request: &[u8]) -> Option<Vec<u8>> {
        let SecureNodes { authority, known } = self.cluster.as_ref()?.secure.as_ref()?;
        let request: AdmissionRequest = serde_json::from_slice(request).ok()?;
        let directory = request.directory;
        let reply = match self.admit_key(request).await {
            Ok(()) => {
                tracing::info!(%directory, "a node was admitted by a join token");
                AdmissionReply::Admitted(Admitted {
                    authority_key: authority.key.clone(),
                    authority: authority.certificate.clone(),
                    nodes: self.image().node_keys().collect(),
                })
            }
            Err(Failure { code, message, .. }) => {
                if known.may_say() {
                    tracing::warn!(%directory, message, "a node was not admitted");
                }
                match code {
                    ErrorCode::ClusterAuthorizationFailed
                    | ErrorCode::PolicyViolation
                    | ErrorCode::BrokerIdNotRegistered => AdmissionReply::Refused(message),
                    _ => AdmissionReply::Failed(message),
                }
            }
        };
        Some(serde_json::to_vec(&reply).expect("it has no maps"))
    }

    async fn admit_key(self: &Arc<Self>, request: AdmissionRequest) -> Result<(), Failure> {
        let AdmissionRequest { secret, directory, key } = request;
        let secret = digest_of(&secret.0);
        let now_ms = wall_clock().0;
        let command = AdmitNodeKey { secret, directory, key, now_ms };
        let image = self.image();
        // Anybody can ask. Only who has a token that is known may keep the controller busy.
        let is_known = join_tokens(&image).iter().any(|token| token.secret == secret);
        if !is_known && !was_admitted(&image, &command) {
            let message = "the join token is not known: it was used, has expired or was revoked, or is another cluster's";
            return Err(Failure::new(ErrorCode::ClusterAuthorizationFailed, message));
        }
        self.submit(command, Some(ADMITTING_MAX), None).await
    }

    /// Makes this node the first one that is known by its key, where none is.
    pub async fn found_node_keys(
        self: &Arc<Self>,
        key: Digest,
        authority: Digest,
    ) -> Result<(), Failure> {
        let directory = self.log_dirs.metadata_directory_id();
        if self.image().node_key(directory) == Some(key) {
            return Ok(());
        }
        let command = FoundNodeKeys { directory, key, authority };
        self.submit(command, None, None).await
    }
}
