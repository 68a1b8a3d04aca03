//! What a start finds of moves.

use std::sync::Arc;

use logway_log::checkpoint::{MoveState, ReplicaMove as MoveFile};
use logway_log::{Log, LogDir};
use logway_model::DirectoryId;

use crate::Node;
use crate::tasks::off_thread;

impl Node {
    /// Goes on with the moves that the last stop or crash interrupted, and clears away what is left
    /// of those that were done. To be called once, when the topics are served.
    ///
    /// A second log that no move explains is set aside: somebody has copied it there, and only they
    /// know why.
    pub(crate) async fn resume_moves(self: &Arc<Self>) {
        let logs: Vec<_> = self.log_dirs.logs_where_assigned().collect();
        for (dir, log) in logs {
            let Some(place) = self.assigned_directory(&log) else { continue };
            let is_partitions = place == dir.directory_id();
            let pause =
                || Some(self.log_dirs.by_id(place)?.pause_compaction(log.topic_partition()));
            match log.replica_move() {
                Some(MoveFile { state: MoveState::Moved, .. }) if is_partitions => {
                    self.clear_leftover(&log, &dir).await;
                }
                _ if is_partitions || self.is_leftover(&dir, &log) => {}
                Some(MoveFile { state: MoveState::Copying, .. }) => {
                    self.begin_move(&log, dir, pause());
                }
                // The switch was taken back: the copy has nothing but what the log has.
                Some(MoveFile { from, .. }) if from == place => {
                    self.begin_move(&log, dir, pause());
                }
                _ => set_aside(dir, log).await,
            }
        }
    }

    /// The directory of a log's partition, which need not be that of the log; `None` while the
    /// partition is offline.
    fn assigned_directory(&self, log: &Log) -> Option<DirectoryId> {
        let table = self.topics();
        let topic = table.by_id(log.topic_id()).ok()?;
        Some(topic.partition(log.topic_partition().partition).ok()?.directory())
    }

    /// Whether the log was moved elsewhere from here.
    fn is_leftover(&self, dir: &LogDir, log: &Log) -> bool {
        let moved = MoveFile { state: MoveState::Moved, from: dir.directory_id() };
        self.log_dirs.online().any(|other| {
            let other = other.log(log.topic_partition());
            other.is_some_and(|other| other.replica_move() == Some(moved))
        })
    }

    /// Removes the log that a replica which has moved left behind, and then the note of it. What
    /// fails now, the next start does.
    pub(super) async fn clear_leftover(self: &Arc<Self>, log: &Arc<Log>, dir: &Arc<LogDir>) {
        let Some(MoveFile { state: MoveState::Moved, from }) = log.replica_move() else { return };
        let Some(from) = self.log_dirs.by_id(from) else { return };
        // Somebody has moved the log by hand to where it came from: there is no other.
        let is_back = Arc::ptr_eq(&from, dir);
        let (kept, dir) = (Arc::clone(log), Arc::clone(dir));
        let cleared = off_thread(move || {
            let partition = kept.topic_partition();
            let is_same = |left: Arc<Log>| left.topic_id() == kept.topic_id();
            let could_not_be_opened = from.failed_log(partition).is_some();
            if !is_back && (could_not_be_opened || from.log(partition).is_some_and(is_same)) {
                from.delete_log(partition)?;
            }
            dir.set_replica_move(&kept, None)
        });
        if let Err(error) = cleared.await {
            let partition = log.topic_partition();
            tracing::warn!(%partition, %error, "what is left of a moved replica cannot be removed; \
                the next start tries again");
        }
    }
}

/// Keeps a second log of a partition, under another name.
pub(super) async fn set_aside(dir: Arc<LogDir>, log: Arc<Log>) {
    let aside = Arc::clone(&log);
    let set_aside = off_thread(move || dir.set_aside(aside.topic_partition())).await;
    let partition = log.topic_partition();
    match set_aside {
        Ok(path) => {
            tracing::warn!(%partition, path = path.as_deref().map(|path| display(path.display())),
            "a second log of a partition is set aside; remove it if it is not needed")
        }
        Err(error) => tracing::error!(%partition, %error,
            "a second log of a partition cannot be set aside"),
    }
}
