//! A node is removed from the cluster, so that a new machine can take its number.

use std::time::Duration;

use logway_metadata::controller::RemoveBroker;
use logway_metadata::record::BrokerRecord;
use logway_model::{BrokerId, DirectoryId, ErrorCode};
use logway_node::Node;
use logway_quorum::{MembersChange, QuorumError};
use tokio::time::{Instant, sleep, timeout};

use super::producer::Clients;

/// Between two tries.
const PAUSE: Duration = Duration::from_millis(20);

/// A node says within this time what is committed, or another one is asked.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// Who is not removed within this time stays.
const REMOVED_WITHIN: Duration = Duration::from_secs(15);

/// What was asked for is done within this time, or never: messages are repeated for 2 s, and leaders change.
const SETTLED_WITHIN: Duration = Duration::from_secs(10);

/// Removes a node that does not run, as an operator does who has lost its disk, if others have all that it had. Gives whether it is
/// removed; it is known when this returns.
pub(super) async fn remove(id: BrokerId, clients: Clients) -> bool {
    let give_up_at = Instant::now() + REMOVED_WITHIN;
    let mut is_needed = false;
    let mut asked_at: Option<Instant> = None;
    loop {
        for asked in clients.serving.all() {
            let began = Instant::now();
            let Some(known) = look(&asked.node, id).await else { continue };
            let Some(directory) = known.directory else { return true };
            if !known.is_going && (is_needed || began > give_up_at) {
                // That one copy of a request was refused says nothing about the next one, which may be on its way. What a leader
                // with a majority does not have when there is none any more, never comes.
                if asked_at.is_none_or(|asked| began.duration_since(asked) > SETTLED_WITHIN) {
                    return false;
                }
            } else if !known.is_active {
                is_needed = ask(&asked.node, id, directory).await;
                asked_at = Some(Instant::now());
            }
        }
        sleep(PAUSE).await;
    }
}

/// What a majority knows of a node.
struct Known {
    /// None if it is not a member any more.
    directory: Option<DirectoryId>,
    /// Its removal has begun, and is to be ended whatever else has come about since.
    is_going: bool,
    is_active: bool,
}

async fn look(node: &Node, id: BrokerId) -> Option<Known> {
    let current = timeout(ANSWER_MAX, node.quorum.wait_until_current()).await;
    if !matches!(current, Ok(Ok(_))) {
        return None;
    }
    // A member that has not registered as a broker yet is known to the quorum alone.
    let quorum = node.quorum.describe(ANSWER_MAX).await.ok()?;
    let image = node.image();
    let member = quorum.members.iter().find(|member| member.id == id).map(|it| it.directory);
    let registered = image.broker(id).and_then(BrokerRecord::metadata_directory);
    let directory = member.or(registered);
    let removed = directory.and_then(|directory| image.removed_brokers().by_directory(directory));
    Some(Known { directory, is_going: removed.is_some(), is_active: image.is_active(id) })
}

/// Asks for a removal. Gives whether it is refused since the node is the last one in sync.
async fn ask(node: &Node, id: BrokerId, directory: DirectoryId) -> bool {
    match timeout(ANSWER_MAX, leave(node, id, directory)).await {
        Ok(Err(error)) => {
            tracing::debug!(%id, %error, "a node is not removed");
            matches!(error, QuorumError::Refused(it) if it.code == ErrorCode::PolicyViolation)
        }
        Ok(Ok(())) | Err(_) => false,
    }
}

/// Removes the broker, then the member. The controller judges whether the broker serves, or is the last one in sync. Nobody else
/// can: the request may come late, after others have restarted, and a dead node that is taken for alive may lead by then.
async fn leave(node: &Node, id: BrokerId, directory: DirectoryId) -> Result<(), QuorumError> {
    let directory = Some(directory);
    node.quorum.submit(RemoveBroker { id, directory, is_replaced: true }).await?;
    node.quorum.change_members(MembersChange::Remove { id, directory }).await?;
    Ok(())
}
