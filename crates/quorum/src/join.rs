//! A node joins a cluster, before it has anything of it.

use std::sync::Arc;
use std::time::Duration;

use logway_model::{BrokerId, DirectoryId};
use tokio::time::Instant;

use crate::error::QuorumError;
use crate::membership::JoinRequest;
use crate::peer::PeerNetwork;
use crate::raft::{JoinAnswer, ask_to_join};

/// A cluster has admitted this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinedCluster {
    /// The number that the node has from now on. It is to be kept with its data directory.
    pub id: BrokerId,
}

/// One node is asked for so long before the next one is.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// Between two rounds through all addresses.
const PAUSE: Duration = Duration::from_millis(100);

/// Asks a cluster to admit this node, at any of some addresses of its nodes. Nothing is written here.
///
/// The leader puts the node down as a learner and begins to send it everything. So the node should be
/// opened with [`Start::Join`](crate::Start::Join) next, under the number that this returns. A node that
/// is killed in between asks again with the same directory, and gets the same number.
///
/// Fails with [`QuorumError::Admission`] when the leader refuses the node, and with
/// [`QuorumError::Unreachable`] when no leader was found in time.
pub async fn join(
    network: Arc<dyn PeerNetwork>,
    addresses: &[String],
    request: JoinRequest,
    patience: Duration,
) -> Result<JoinedCluster, QuorumError> {
    let deadline = Instant::now() + patience;
    let own: DirectoryId = request.directory;
    // The leader's address comes first once it is known.
    let mut next: Vec<String> = addresses.to_vec();
    loop {
        let mut reasons = Vec::new();
        let mut found = None;
        for address in &next {
            match ask_to_join(&network, own, address, &request, ANSWER_TIMEOUT).await {
                JoinAnswer::Admitted(id) => return Ok(JoinedCluster { id }),
                JoinAnswer::Refused(refusal) => return Err(QuorumError::Admission(refusal)),
                JoinAnswer::Leader(leader) => {
                    found = Some(leader);
                    break;
                }
                JoinAnswer::NoLeader(reason) => reasons.push(format!("{address}: {reason}")),
            }
        }
        if Instant::now() >= deadline {
            return Err(QuorumError::Unreachable { reason: reasons.join("; ") });
        }
        if found.is_none() || found.as_ref() == next.first() {
            tokio::time::sleep(PAUSE).await;
        }
        next = found.into_iter().chain(addresses.iter().cloned()).collect();
    }
}
