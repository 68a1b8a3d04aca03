//! A node is removed from the cluster, so that a new machine can take its number.

use std::time::Duration;

use logway_metadata::image::PartitionImage;
use logway_model::BrokerId;
use logway_node::Node;
use logway_quorum::{MembersChange, QuorumError};
use tokio::time::{Instant, sleep, timeout};

use super::producer::Clients;

/// Between two tries.
const PAUSE: Duration = Duration::from_millis(20);

/// A node says within this time what is committed, or another one is asked.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// Who is not removed within this time stays, if it is known that it was not.
const REMOVED_WITHIN: Duration = Duration::from_secs(15);

/// What was asked for is done within this time, or never: calls are repeated for 2 s, and leaders change.
const SETTLED_WITHIN: Duration = Duration::from_secs(10);

/// How far a removal is.
enum Step {
    Again,
    /// The node is needed, or is not gone.
    Stays,
    Removed,
}

/// Removes a node that does not run, as an operator does who has lost its disk: first others lead what it led, and it is
/// asked whether they have all that it had. Gives whether it is removed; it is known when this returns.
pub(super) async fn remove(id: BrokerId, clients: Clients) -> bool {
    let deadline = Instant::now() + REMOVED_WITHIN;
    let mut unknown_since = None;
    loop {
        for asked in clients.serving.all() {
            match step(&asked.node, id, &mut unknown_since).await {
                Step::Removed => return true,
                Step::Stays if unknown_since.is_none() => return false,
                Step::Stays | Step::Again => {}
            }
        }
        if unknown_since.is_none() && Instant::now() > deadline {
            return false;
        }
        sleep(PAUSE).await;
    }
}

/// Once it may have been asked for, there is no way back: it is looked at until it is done, or certain that it never will
/// be. That another try is refused says nothing about those before it. And each try has to be as justified as the first: by
/// then others may have restarted, and the node, taken for alive, may be the last one in sync.
async fn step(node: &Node, id: BrokerId, unknown_since: &mut Option<Instant>) -> Step {
    let began = Instant::now();
    let current = timeout(ANSWER_MAX, node.quorum.wait_until_current()).await;
    if !matches!(current, Ok(Ok(_))) {
        return Step::Again;
    }
    // A member that has not registered as a broker yet is known to the quorum alone.
    let Ok(quorum) = node.quorum.describe(ANSWER_MAX).await else { return Step::Again };
    let image = node.image();
    if image.broker(id).is_none() && quorum.members.iter().all(|member| member.id != id) {
        return Step::Removed;
    }
    // Time alone settles nothing: the entry may lie in the log of a leader that is cut off. What a leader with a
    // majority does not have when no message is on its way any more, never comes.
    unknown_since.take_if(|since| began.duration_since(*since) > SETTLED_WITHIN);
    // What is left to do of a removal that has begun is done, whatever else has come about since.
    if image.broker(id).is_some() {
        let mut partitions = image.topics().flat_map(|topic| &topic.partitions);
        let is_last = |it: &PartitionImage| it.isr.iter().all(|replica| *replica == id);
        if image.is_active(id) {
            return Step::Again;
        }
        if partitions.any(is_last) {
            return Step::Stays;
        }
    }
    let before = unknown_since.replace(Instant::now());
    match timeout(ANSWER_MAX, node.quorum.change_members(MembersChange::remove(id))).await {
        Ok(Ok(_)) => Step::Removed,
        Ok(Err(error)) => {
            tracing::debug!(%id, %error, "a node is not removed");
            if is_refused(&error) {
                *unknown_since = before;
            }
            Step::Again
        }
        Err(_elapsed) => Step::Again,
    }
}

/// Whether it is certain that nothing was done.
fn is_refused(error: &QuorumError) -> bool {
    // A node that has stopped may have sent it before.
    !matches!(
        error,
        QuorumError::OutcomeUnknown | QuorumError::Forgotten | QuorumError::Stopped { .. }
    )
}
