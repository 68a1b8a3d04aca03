//! Whether the log and the snapshot of a directory belong together.

use std::path::Path;

use openraft::storage::{RaftLogStorage, RaftStateMachine};

use super::log_store::LogStore;
use super::state_machine::StateMachine;
use super::{LogId, StorageError};
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
