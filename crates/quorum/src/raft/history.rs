//! What a start makes of what a directory holds: whether log and snapshot belong together, and that nobody leads yet.

use std::path::Path;

use openraft::StorageHelper;
use openraft::storage::{RaftLogStorage, RaftStateMachine};

use super::log_store::LogStore;
use super::state_machine::StateMachine;
use super::{LogId, StorageError, Vote};
use crate::directory::{LOG_FILE, SNAPSHOT_FILE};
use crate::error::QuorumError;

/// Refuses a log and a snapshot that do not belong together: one of them was lost, or put back from
/// an older copy, and with it what was committed.
///
/// An entry is in the log before it is applied, and a snapshot has it before the log drops it. There is
/// one exception: a snapshot that the leader has sent is ahead of the log until the log is purged up
/// to it. The log then says that it was being installed, and openraft finishes the purge.
pub(super) async fn check_history(
    log: &mut LogStore,
    state_machine: &mut StateMachine,
    dir: &Path,
) -> Result<(), QuorumError> {
    let unusable = |error: StorageError| QuorumError::Stopped { reason: error.to_string() };
    let state = log.get_log_state().await.map_err(unusable)?;
    let vote = log.read_vote().await.map_err(unusable)?;
    let (applied, _) = state_machine.applied_state().await.map_err(unusable)?;
    let path = dir.join(LOG_FILE);
    let position = |id: Option<LogId>| id.map_or_else(|| "nothing".to_owned(), |id| id.to_string());
    if state.last_purged_log_id > applied {
        let reason = format!(
            "the metadata up to {} is in the snapshot, and that is gone or older: put the newest one \
             back",
            position(state.last_purged_log_id)
        );
        return Err(QuorumError::Snapshot { path: dir.join(SNAPSHOT_FILE), reason });
    }
    if applied > state.last_log_id && applied != log.installing().await? {
        let reason = format!(
            "it ends with {}, but the snapshot knows {}: it was lost, or is an older copy; put the \
             newest one back",
            position(state.last_log_id),
            position(applied)
        );
        return Err(QuorumError::Log { path, reason });
    }
    // The entry of term 0, with the first membership, is written before there is a vote.
    let has_led = state.last_log_id.is_some_and(|id| id.leader_id.term > 0);
    if has_led && vote.is_none() {
        return Err(QuorumError::Log { path, reason: "it has entries and no vote".to_owned() });
    }
    Ok(())
}

/// Has a leader that comes back follow until it is elected again, if there are other nodes.
///
/// openraft would have it lead on in its term. But what it knows to be committed is then older than what it had committed,
/// and no first entry of a new term tells when it has caught up. It would show an image without the newest
/// topics as the newest there is, and a node that starts takes logs of unknown topics for strays.
pub(super) async fn step_down(
    log: &mut LogStore,
    state_machine: &mut StateMachine,
    own_id: u64,
) -> Result<(), QuorumError> {
    let unusable = |error: StorageError| QuorumError::Stopped { reason: error.to_string() };
    let Some(vote) = log.read_vote().await.map_err(unusable)? else { return Ok(()) };
    let leader = vote.leader_id();
    if !vote.is_committed() || leader.voted_for() != Some(own_id) {
        return Ok(());
    }
    let membership = StorageHelper::new(log, state_machine).get_membership().await;
    let membership = membership.map_err(unusable)?;
    if membership.effective().nodes().count() > 1 {
        // It has voted for itself, as before.
        log.save_vote(&Vote::new(leader.term, own_id)).await.map_err(unusable)?;
    }
    Ok(())
}
