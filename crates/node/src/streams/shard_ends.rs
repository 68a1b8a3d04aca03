//! The leader of a closed shard tells where it ends.
//!
//! The metadata closes a shard before it is known which records it has. From then on its leader takes no append. It waits
//! for those that were on their way, and until all records are committed; then it tells the controller the end. The
//! shards that were made of it wait for that.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use logway_metadata::TopicImage;
use logway_metadata::controller::{EndShards, EndedShard};
use logway_model::{LeaderEpoch, PartitionId, TopicId};
use tokio::time::{sleep, timeout};

use crate::Node;
use crate::backoff::Backoff;
use crate::replica::Replica;

/// Between two tries to tell the controller.
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(2);

/// How long one try waits for records to be committed. The role may change meanwhile.
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
enum Tried {
    /// No shard waits for this node.
    Nothing,
    /// Some have ended.
    Some,
    /// Some could not be ended yet.
    Failed,
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
        if waiting.is_empty() {
            return Tried::Nothing;
        }
        let mut shards = Vec::new();
        let mut has_failed = false;
        for (partition, replica) in waiting {
            match timeout(COMMIT_MAX, end_of(&replica)).await {
                Ok(Some((leader_epoch, offset))) => {
                    shards.push(EndedShard { topic_id, partition, leader_epoch, offset });
                }
                Ok(None) | Err(_) => has_failed = true,
            }
        }
        if shards.is_empty() {
            return Tried::Failed;
        }
        match self.quorum.submit(EndShards { shards }).await {
            Ok(committed) => {
                has_failed |= committed.reply.iter().any(Result::is_err);
                // What is to be done next is seen in the image that has the ends.
                has_failed |= self.reconciliation.reached(committed.index).await.is_err();
            }
            Err(error) => {
                tracing::warn!(%error, "it cannot be told yet where closed shards end");
                has_failed = true;
            }
        }
        if has_failed { Tried::Failed } else { Tried::Some }
    }
}

/// Where the records of a shard end that takes no more, once all of them are committed; with the epoch.
async fn end_of(replica: &Replica) -> Option<(LeaderEpoch, i64)> {
    let (epoch, all_written) = replica.close_intake()?;
    all_written.await.ok()?;
    let end = replica.log().log_end_offset();
    replica.committed(end, epoch).await.ok()?;
    Some((epoch, end.0))
}

/// Ends the shards of a stream, until none waits for this node.
async fn end_shards(node: Weak<Node>, topic: TopicId) {
    let mut backoff = Backoff::between(RETRY_MIN, RETRY_MAX);
    loop {
        let Some(strong) = node.upgrade() else { return };
        let tried = strong.try_to_end_shards(topic).await;
        match tried {
            Tried::Nothing => {
                if strong.shard_ends.finish(topic) {
                    return;
                }
            }
            Tried::Some => backoff.reset(),
            Tried::Failed => {
                drop(strong);
                sleep(backoff.pause()).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use logway_log::fs::SimFs;
    use logway_metadata::Intake;
    use logway_model::{BrokerId, Uuid};

    use super::*;
    use crate::append::NotTaken;
    use crate::replica::tests::{batch, durable, partition};

    #[tokio::test]
    async fn a_closed_shard_tells_its_end_and_takes_nothing_more() {
        let (_dir, replica) = partition(&SimFs::new(1), durable());
        let on_their_way: Vec<_> = (0..5).map(|_| replica.append(vec![batch()])).collect();
        let (epoch, end) = end_of(&replica).await.expect("it leads");
        assert_eq!((epoch, end), (LeaderEpoch(0), 5));
        for append in on_their_way {
            append.future.await.expect("was taken before");
        }
        assert_eq!(replica.intake(), Intake::Closed);
        replica.set_intake(Intake::Open);
        assert_eq!(replica.intake(), Intake::Closed, "older metadata does not open it again");
        let late = replica.append(vec![batch()]);
        assert!(matches!(late.not_taken, Some(NotTaken::Closed(_))), "{late:?}");
        late.future.await.expect_err("the log was not asked");
        assert_eq!(replica.log().log_end_offset().0, end);
        replica.follow(LeaderEpoch(1), BrokerId(2));
        assert_eq!(end_of(&replica).await, None, "another one tells it");
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
