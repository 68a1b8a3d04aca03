//! Moves of replicas from one log directory of this broker to another (KIP-113), while they are
//! written and read.
//!
//! The target gets a second log of the partition, the *copy*, to which batches go as they are in
//! the first one, with their offsets and epochs. When it has caught up:
//!
//! 1. the copy's `replica-move` file is written anew, and says that it is a copy;
//! 2. the metadata is told that the replica is in the target (KIP-858);
//! 3. the partition holds back what comes in: nobody is refused, and what is on its way is written;
//! 4. the rest is copied, and put on stable storage with the log start;
//! 5. the file says from now on that this is the log: the one moment at which the replica moves;
//! 6. the partition goes on with the copy, first with what was held back;
//! 7. the log that is left is removed, and then the file.
//!
//! Which of two logs a start takes is one rule: the one in the directory that the metadata names,
//! unless its file says that it is a copy; then the one that it is a copy of. So the copy is taken
//! only if the metadata says so *and* the file does, and each of the two is changed while the other
//! one is known to speak for the log that was there before:
//!
//! | a crash | metadata | file | taken | why it has all that was acknowledged |
//! |---|---|---|---|---|
//! | before 2 | before | any | the first | the copy was never written to by clients |
//! | in 2 | either | copy | the first | as before |
//! | from 2 to 5 | target | copy | the first | as before |
//! | in 5 | target | either | either | nothing is acknowledged since both have the same records |
//! | after 5 | target | log | the copy | what came later went to it |
//!
//! Meanwhile the first log is not compacted. Else a tombstone could go before it is copied, behind a
//! copy of what it has deleted. A copy of a compacted log that is found after its directory was
//! offline is made anew for the same reason.
//!
//! A step that fails leaves one of these rows, and the next attempt begins with 1. Only after a
//! failure of 5, with the file in doubt, appends cannot go on at once: first the metadata is told
//! that the replica is where it was, which is the first row. Until that has succeeded appends wait,
//! then are refused. The file counts for nothing then, and 1 makes it certain before 2 makes it
//! count again.
//!
//! | file | idea |
//! |---|---|
//! | [`copying`] | one move, step by step |
//! | [`leftovers`] | what a start finds of moves |

mod copying;
mod leftovers;

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use logway_log::{CompactionPause, Log, LogDir};
use logway_metadata::controller::{AssignReplicasToDirs, ReplicaDirectory};
use logway_model::{DirectoryId, ErrorCode, PartitionId, TopicId, TopicPartition};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::Node;
use crate::failure::Failure;
use crate::replica::Replica;
use crate::tasks::{off_thread, to_its_end};
use copying::Copying;

/// How long a client waits for the end of a move that it takes back: a disk may not answer.
const CANCEL_MAX: Duration = Duration::from_secs(10);

/// The moves that are under way.
#[derive(Default)]
pub struct ReplicaMoves {
    inner: Mutex<Inner>,
    is_stopping: watch::Sender<bool>,
}

#[derive(Default)]
struct Inner {
    moves: BTreeMap<TopicPartition, Arc<ReplicaMove>>,
    tasks: JoinSet<()>,
    /// One copy at a time is made in each directory: several would only share the disk.
    turns: HashMap<DirectoryId, Arc<Semaphore>>,
}

/// The move of one replica.
pub struct ReplicaMove {
    partition: TopicPartition,
    topic_id: TopicId,
    target: Arc<LogDir>,
    is_cancelled: watch::Sender<bool>,
    has_ended: watch::Sender<bool>,
}

impl ReplicaMoves {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.inner().moves.len()
    }

    fn get(&self, partition: &TopicPartition) -> Option<Arc<ReplicaMove>> {
        self.inner().moves.get(partition).cloned()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // What it guards is right after each single step.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends what is under way, where it is: the next start goes on with it.
    pub(crate) async fn stop(&self) {
        self.is_stopping.send_replace(true);
        let mut tasks = std::mem::take(&mut self.inner().tasks);
        while tasks.join_next().await.is_some() {}
    }
}

impl ReplicaMove {
    fn id(&self) -> PartitionId {
        self.partition.partition
    }

    /// Ends the move and waits until nothing is left of it, or it is done all the same. Fails if that
    /// takes too long: it goes on to end.
    async fn cancel(&self) -> Result<(), ErrorCode> {
        self.is_cancelled.send_replace(true);
        let mut ended = self.has_ended.subscribe();
        match timeout(CANCEL_MAX, ended.wait_for(|ended| *ended)).await {
            // The sender is ours, so that it has ended.
            Ok(_) => Ok(()),
            Err(_elapsed) => Err(ErrorCode::RequestTimedOut),
        }
    }
}

impl Node {
    /// Begins to move a replica to another log directory. When this returns, its copy exists there.
    /// A move to where it is ends one that is under way.
    pub async fn move_replica(
        self: &Arc<Self>,
        topic: &str,
        id: PartitionId,
        target: &Arc<LogDir>,
    ) -> Result<(), ErrorCode> {
        let (topic_id, partition) = {
            let table = self.topics();
            let topic = table.by_name(topic)?;
            (topic.image.id, Arc::clone(topic.partition(id)?))
        };
        let name = partition.topic_partition().clone();
        while !*self.replica_moves.is_stopping.borrow() {
            if let Some(other) = self.replica_moves.get(&name) {
                if Arc::ptr_eq(&other.target, target) && other.topic_id == topic_id {
                    return Ok(());
                }
                other.cancel().await?;
                continue;
            }
            if partition.directory() == target.directory_id() {
                return Ok(());
            }
            let (node, moved, to) = (Arc::clone(self), Arc::clone(&partition), Arc::clone(target));
            // A copy that was made and not begun with would be in the way of the next.
            let begun =
                to_its_end(async move { node.make_copy_and_begin(&moved, topic_id, &to).await });
            match begun.await {
                Ok(true) => return Ok(()),
                // Somebody else was faster.
                Ok(false) => {}
                Err(failure) => {
                    tracing::error!(partition = %name, reason = failure.message,
                        "a replica cannot be moved");
                    return Err(failure.code);
                }
            }
        }
        Err(ErrorCode::NotLeaderOrFollower)
    }

    async fn make_copy_and_begin(
        self: &Arc<Self>,
        partition: &Arc<Replica>,
        topic_id: TopicId,
        target: &Arc<LogDir>,
    ) -> Result<bool, Failure> {
        // Meanwhile the topic is not deleted, and no other of its name is made.
        let _reconciling = self.reconciling.lock().await;
        let id = partition.topic_partition().partition;
        let is_served = self.topics().by_id(topic_id).is_ok_and(|topic| {
            topic.partition(id).is_ok_and(|served| Arc::ptr_eq(served, partition))
        });
        if !is_served || !self.log_dirs.has(partition) {
            let message = "the partition is not served any more";
            return Err(Failure::new(ErrorCode::UnknownTopicOrPartition, message));
        }
        let (moved, to) = (Arc::clone(partition), Arc::clone(target));
        let source = self.log_dirs.by_id(partition.directory());
        let (copy, pause) = off_thread(move || {
            let pause = source.map(|dir| dir.pause_compaction(moved.topic_partition()));
            copying::make_copy(&moved, topic_id, &to).map(|copy| (copy, pause))
        })
        .await?;
        Ok(self.begin_move(&copy, Arc::clone(target), pause))
    }

    /// Begins to fill a copy, unless one is being filled; the log that is copied is not compacted
    /// meanwhile. To be called in a runtime.
    fn begin_move(
        self: &Arc<Self>,
        copy: &Log,
        target: Arc<LogDir>,
        pause: Option<CompactionPause>,
    ) -> bool {
        let mut inner = self.replica_moves.inner();
        let partition = copy.topic_partition().clone();
        if inner.moves.contains_key(&partition) || *self.replica_moves.is_stopping.borrow() {
            return false;
        }
        let turn = inner.turns.entry(target.directory_id());
        let turn = Arc::clone(turn.or_insert_with(|| Arc::new(Semaphore::new(1))));
        let new = Arc::new(ReplicaMove {
            partition: partition.clone(),
            topic_id: copy.topic_id(),
            target,
            is_cancelled: watch::Sender::default(),
            has_ended: watch::Sender::default(),
        });
        tracing::info!(%partition, to = %new.target.path().display(), "a replica is being moved");
        // Those that have ended are forgotten here, or their results would pile up.
        while inner.tasks.try_join_next().is_some() {}
        let copying = Copying::new(Arc::downgrade(self), Arc::clone(&new), pause);
        inner.tasks.spawn(copying.run(turn));
        inner.moves.insert(partition, new);
        true
    }

    /// Tells the metadata where a replica is.
    fn assign_replica(
        &self,
        moved: &ReplicaMove,
        directory: DirectoryId,
    ) -> impl Future<Output = Result<(), Failure>> + use<'_> {
        let (topic_id, partition) = (moved.topic_id, moved.id());
        let replicas = vec![ReplicaDirectory { topic_id, partition, directory }];
        let node = self.settings.node_id;
        async move {
            self.quorum.submit(AssignReplicasToDirs { broker: node, replicas }).await?;
            Ok(())
        }
    }
}
