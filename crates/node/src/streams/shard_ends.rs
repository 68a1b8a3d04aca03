//! The leader of a closed shard tells where it ends.
//!
//! The metadata closes a shard before it is known which records it has. From then on its leader takes no append. It waits
//! for those that were on their way, and until all records are committed; then it tells the controller the end. The
//! shards that were made of it wait for that.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use logway_log::Completion;
use logway_metadata::TopicImage;
use logway_metadata::controller::{EndShards, EndedShard};
use logway_model::{LeaderEpoch, Offset, PartitionId, TopicId};
use tokio::time::{Instant, sleep, timeout_at};

use crate::Node;
use crate::backoff::Backoff;
use crate::replica::Replica;

/// Between two tries to tell the controller.
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(2);

/// How long one try waits for the records of all shards to be committed. The role may change meanwhile.
const COMMIT_MAX: Duration = Duration::from_secs(5);

/// The streams that have a task which ends their shards.
#[derive(Debug, Default)]
pub(crate) struct ShardEnds {
    /// Whether there may be more to do than the task has seen, by topic.
    under_way: Mutex<HashMap<TopicId, bool>>,
}

impl ShardEnds {
    /// Takes note that there may be shards to end; whether a task has to be started for it.
    fn begin(&self, topic: TopicId) -> bool {
        let mut under_way = self.under_way();
        match under_way.get_mut(&topic) {
            Some(has_more) => {
                *has_more = true;
                false
            }
            None => under_way.insert(topic, false).is_none(),
        }
    }

    /// The task has nothing more to do; whether nobody has asked for more meanwhile.
    fn finish(&self, topic: TopicId) -> bool {
        let mut under_way = self.under_way();
        match under_way.get_mut(&topic) {
            Some(has_more) if *has_more => {
                *has_more = false;
                false
            }
            _ => {
                under_way.remove(&topic);
                true
            }
        }
    }

    fn under_way(&self) -> MutexGuard<'_, HashMap<TopicId, bool>> {
        // What it guards is right after each step.
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What became of a try.
#[derive(Debug, Default)]
struct Tried {
    /// How many shards have ended.
    ended: usize,
    /// Those that could not be ended yet, with the reason.
    failed: Vec<NotEnded>,
}

/// A shard that cannot be ended yet.
#[derive(Debug, Clone, PartialEq, Eq)]
struct NotEnded {
    partition: PartitionId,
    reason: String,
}

impl Node {
    /// Ends the closed shards of these topics that are led here, beside the caller.
    pub(crate) fn end_closed_shards(self: &Arc<Self>, topics: &[Arc<TopicImage>]) {
        let resharding = topics
            .iter()
            .filter(|topic| topic.stream.as_ref().is_some_and(|stream| stream.is_resharding()));
        for topic in resharding {
            if self.shard_ends.begin(topic.id) {
                tokio::spawn(end_shards(Arc::downgrade(self), topic.id));
            }
        }
    }

    /// The closed shards of a stream that are led here and have not told their end.
    fn shards_to_end(&self, id: TopicId) -> Vec<(PartitionId, Arc<Replica>)> {
        let topics = self.topics();
        let Ok(served) = topics.by_id(id) else { return Vec::new() };
        // As it is served, which may be older than the newest image: of that, replicas do not know yet what is closed.
        let Some(stream) = &served.image.stream else { return Vec::new() };
        let waits = stream.numbered_shards().filter(|(_, shard)| {
            let has_no_end = shard.closed.is_some_and(|end| end.offset.is_none());
            has_no_end && stream.has_ended_parents(shard)
        });
        let led = waits
            .filter_map(|(number, _)| Some((number, Arc::clone(served.partition(number).ok()?))));
        led.collect()
    }

    async fn try_to_end_shards(&self, topic_id: TopicId) -> Tried {
        let waiting = self.shards_to_end(topic_id);
        let (shards, mut failed) = ends_of(topic_id, &waiting, Instant::now() + COMMIT_MAX).await;
        if shards.is_empty() {
            return Tried { ended: 0, failed };
        }
        let numbers: Vec<PartitionId> = shards.iter().map(|shard| shard.partition).collect();
        let told = match self.quorum.submit(EndShards { shards }).await {
            Ok(committed) => {
                let replies =
                    committed.reply.into_iter().map(|reply| reply.map_err(|it| it.message));
                let replies = replies.collect();
                // What is to be done next is seen in the image that has the ends.
                match self.reconciliation.reached(committed.index).await {
                    Ok(()) => replies,
                    Err(failure) => vec![Err(failure.message); numbers.len()],
                }
            }
            Err(error) => vec![Err(error.to_string()); numbers.len()],
        };
        let ended = told.iter().filter(|told| told.is_ok()).count();
        let refused = numbers.into_iter().zip(told);
        failed.extend(
            refused
                .filter_map(|(partition, told)| Some(NotEnded { partition, reason: told.err()? })),
        );
        Tried { ended, failed }
    }
}

/// The ends of shards that take no more. All are closed before one is waited for, and all are waited for until the same
/// deadline: one that is held up holds up no other.
async fn ends_of(
    topic_id: TopicId,
    waiting: &[(PartitionId, Arc<Replica>)],
    deadline: Instant,
) -> (Vec<EndedShard>, Vec<NotEnded>) {
    let closed: Vec<_> = waiting.iter().map(|(_, replica)| replica.close_intake()).collect();
    let (mut ended, mut failed) = (Vec::new(), Vec::new());
    for ((partition, replica), closed) in waiting.iter().zip(closed) {
        let end = timeout_at(deadline, end_of(replica, closed)).await;
        let late = |_| "its records are not on all in-sync replicas yet".to_owned();
        match end.map_err(late).flatten() {
            Ok((leader_epoch, offset)) => {
                let partition = *partition;
                ended.push(EndedShard { topic_id, partition, leader_epoch, offset });
            }
            Err(reason) => failed.push(NotEnded { partition: *partition, reason }),
        }
    }
    (ended, failed)
}

/// Where the records of a shard end that was closed, once all of them are committed; with the epoch. Else why not.
async fn end_of(
    replica: &Replica,
    closed: Option<(LeaderEpoch, Completion<Offset>)>,
) -> Result<(LeaderEpoch, i64), String> {
    let moved = || "another node leads it, or its log is moved".to_owned();
    let (epoch, all_written) = closed.ok_or_else(moved)?;
    all_written.await.map_err(|error| error.to_string())?;
    let end = replica.log().log_end_offset();
    replica.committed(end, epoch).await.map_err(|error| error.to_string())?;
    Ok((epoch, end.0))
}

/// Ends the shards of a stream, until none waits for this node.
async fn end_shards(node: Weak<Node>, topic: TopicId) {
    let mut backoff = Backoff::between(RETRY_MIN, RETRY_MAX);
    let mut told = Vec::new();
    loop {
        let Some(strong) = node.upgrade() else { return };
        let Tried { ended, failed } = strong.try_to_end_shards(topic).await;
        tell_news(topic, &failed, &told);
        match (ended, failed.is_empty()) {
            (0, true) => {
                if strong.shard_ends.finish(topic) {
                    return;
                }
            }
            (_, true) => backoff.reset(),
            (_, false) => {
                drop(strong);
                sleep(backoff.pause()).await;
            }
        }
        told = failed;
    }
}

/// Each reason is told once, as long as it stays.
fn tell_news(topic: TopicId, failed: &[NotEnded], told: &[NotEnded]) {
    for NotEnded { partition, reason } in failed.iter().filter(|failed| !told.contains(failed)) {
        tracing::warn!(%topic, %partition, reason, "a closed shard cannot be ended yet");
    }
}

#[cfg(test)]
mod tests {
    use logway_log::fs::SimFs;
    use logway_metadata::controller::{Reshard, Resharding};
    use logway_metadata::record::HashKey;
    use logway_metadata::{Intake, StreamImage};
    use logway_model::{BrokerId, Uuid};

    use super::*;
    use crate::append::NotTaken;
    use crate::replica::tests::{batch, durable, partition};
    use crate::streams::anywhere::tests::Alone;
    use crate::tasks::wall_clock;

    #[tokio::test]
    async fn a_closed_shard_tells_its_end_and_takes_nothing_more() {
        let (_dir, replica) = partition(&SimFs::new(1), durable());
        let on_their_way: Vec<_> = (0..5)
            .map(|_| replica.append(vec![batch()], logway_log::AppendOrigin::Client))
            .collect();
        let (epoch, end) = end_of(&replica, replica.close_intake()).await.expect("it leads");
        assert_eq!((epoch, end), (LeaderEpoch(0), 5));
        for append in on_their_way {
            append.future.await.expect("was taken before");
        }
        assert_eq!(replica.intake(), Intake::Closed);
        replica.set_intake(Intake::Open);
        assert_eq!(replica.intake(), Intake::Closed, "older metadata does not open it again");
        let late = replica.append(vec![batch()], logway_log::AppendOrigin::Client);
        assert!(matches!(late.not_taken, Some(NotTaken::Closed(_))), "{late:?}");
        late.future.await.expect_err("the log was not asked");
        assert_eq!(replica.log().log_end_offset().0, end);
        replica.follow(LeaderEpoch(1), BrokerId(2));
        end_of(&replica, replica.close_intake()).await.expect_err("another one tells it");
    }

    #[tokio::test]
    async fn a_shard_that_is_held_up_holds_up_no_other() {
        let stuck_fs = SimFs::new(1);
        let (_stuck_dir, stuck) = partition(&stuck_fs, durable());
        let (_dir, free) = partition(&SimFs::new(2), durable());
        stuck_fs.hold_syncs();
        let _under_way = stuck.append(vec![batch()], logway_log::AppendOrigin::Client);
        let waiting = [(PartitionId(0), stuck), (PartitionId(1), free)];
        let deadline = Instant::now() + Duration::from_secs(1);
        let (ended, failed) = ends_of(TopicId(Uuid([2; 16])), &waiting, deadline).await;
        let numbers = |shard: &EndedShard| shard.partition;
        assert_eq!(ended.iter().map(numbers).collect::<Vec<_>>(), [PartitionId(1)]);
        assert_eq!(failed.len(), 1);
        assert!(failed[0].reason.contains("not on all in-sync replicas"), "{failed:?}");
        assert!(waiting.iter().all(|(_, replica)| replica.intake() == Intake::Closed));
        stuck_fs.release_syncs();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_shard_is_ended_when_its_replica_knows_that_it_is_closed() {
        let alone = Alone::start().await;
        let topic_id = alone.shard.topic;
        let not_yet = alone.node.reconciling.lock().await;
        let resharding = Resharding::Split { shard: alone.shard.number, at: HashKey(9) };
        let now_ms = wall_clock().0;
        let split = Reshard { topic_id, resharding, shards_max: None, now_ms };
        alone.node.quorum.submit(split).await.expect("can be split");
        let mut images = alone.node.quorum.watch();
        let is_resharding = || {
            let image = alone.node.image();
            let topic = image.topic_by_id(topic_id).expect("is there");
            topic.stream.as_ref().is_some_and(StreamImage::is_resharding)
        };
        while !is_resharding() {
            images.changed().await.expect("the node runs");
        }
        assert!(alone.node.shards_to_end(topic_id).is_empty(), "older metadata may open it again");
        drop(not_yet);
        while is_resharding() {
            images.changed().await.expect("the node runs");
        }
        alone.node.stop().await.expect("stops");
    }

    #[test]
    fn a_task_that_is_about_to_end_goes_on_if_there_is_more() {
        let (ends, topic) = (ShardEnds::default(), TopicId(Uuid([1; 16])));
        assert!(ends.begin(topic));
        assert!(!ends.begin(topic), "one task does it all");
        assert!(!ends.finish(topic), "it was asked for more");
        assert!(ends.finish(topic));
        assert!(ends.begin(topic));
    }
}
