//! What a start finds of moves.

use std::sync::Arc;

use logway_log::checkpoint::{MoveState, ReplicaMove as MoveFile};
use logway_log::{Log, LogDir};

use crate::Broker;
use crate::broker::off_thread;

impl Broker {
    /// Goes on with the moves that the last stop or crash interrupted, and clears away what is left
    /// of those that were done. To be called once, when the topics are served.
    ///
    /// A second log that no move explains is set aside: somebody has copied it there, and only they
    /// know why.
    pub(crate) async fn resume_moves(self: &Arc<Self>) {
        let dirs = self.log_dirs.online();
        let logs: Vec<(Arc<LogDir>, Arc<Log>)> = dirs
            .flat_map(|dir| dir.logs().into_iter().map(move |log| (Arc::clone(&dir), log)))
            .collect();
        for (dir, log) in logs {
            let Some(is_partitions) = self.is_partitions(&dir, &log) else { continue };
            match log.replica_move() {
                Some(MoveFile { state: MoveState::Moved, .. }) if is_partitions => {
                    self.clear_leftover(&log, &dir).await;
                }
                Some(MoveFile { state: MoveState::Copying, .. }) if !is_partitions => {
                    self.begin_move(&log, dir);
                }
                None if !is_partitions && !self.is_leftover(&dir, &log) => {
                    let aside = Arc::clone(&log);
                    let set_aside =
                        off_thread(move || dir.set_aside(aside.topic_partition())).await;
                    let partition = log.topic_partition();
                    match set_aside {
                        Ok(path) => tracing::warn!(%partition, ?path,
                            "a second log of a partition is set aside; remove it if it is not needed"),
                        Err(error) => tracing::error!(%partition, %error,
                            "a second log of a partition cannot be set aside"),
                    }
                }
                _ => {}
            }
        }
    }

    /// Whether a log is the one of its partition, and not another of the same name; `None` while the
    /// partition is offline.
    fn is_partitions(&self, dir: &LogDir, log: &Log) -> Option<bool> {
        let table = self.topics();
        let topic = table.by_id(log.topic_id()).ok()?;
        let partition = topic.partition(log.topic_partition().partition).ok()?;
        Some(partition.directory() == dir.directory_id())
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
        let (kept, dir) = (Arc::clone(log), Arc::clone(dir));
        let cleared = off_thread(move || {
            let partition = kept.topic_partition();
            let is_same = |left: Arc<Log>| left.topic_id() == kept.topic_id();
            let could_not_be_opened = from.failed_log(partition).is_some();
            if could_not_be_opened || from.log(partition).is_some_and(is_same) {
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
