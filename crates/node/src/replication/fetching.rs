//! A follower asks its leaders.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use logway_model::{BrokerId, TopicId};
use logway_peers::{Kind, Lane};
use logway_replication::message::{
    FetchFromLeader, FollowedPartition, LedPartition, decode_answer,
};
use tokio::time::{Instant, sleep};

use super::following::{Asked, Next, cut_to_watermark, follow};
use crate::Node;
use crate::backoff::Backoff;
use crate::cluster::{Mutation, node_address};
use crate::replica::Replica;
use crate::topics::TopicTable;

/// A partition that could not be copied is asked for again after this time.
const RETRY_AFTER: Duration = Duration::from_millis(50);

/// Where there is nothing to ask for, it is looked again after this time at the latest.
const IDLE: Duration = Duration::from_millis(500);

/// An answer takes so much longer than the leader may wait, or never comes.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// So many partitions are asked for in one request. Those of a table of more take turns.
const PARTITIONS_MAX: usize = 20_000;

/// Keeps a task for each broker that leads something which this one follows, for as long as the node exists.
pub(crate) async fn fetch_from_leaders(node: Weak<Node>) {
    let mut begun: BTreeSet<BrokerId> = BTreeSet::new();
    let Some(strong) = node.upgrade() else { return };
    let mut tables = strong.reconciliation.tables();
    drop(strong);
    loop {
        let Some(strong) = node.upgrade() else { return };
        let leaders = leaders(&strong.topics());
        drop(strong);
        for leader in leaders {
            if begun.insert(leader) {
                tokio::spawn(fetch_from(Weak::clone(&node), leader));
            }
        }
        if tables.changed().await.is_err() {
            return;
        }
    }
}

/// The brokers that replicas here follow.
fn leaders(topics: &TopicTable) -> BTreeSet<BrokerId> {
    topics.replicas().filter_map(|(_, replica)| replica.leader_followed()).collect()
}

/// A replica that follows the leader of this task.
struct Followed {
    asked: Asked,
    topic: TopicId,
    /// Not before then.
    at: Option<Instant>,
}

/// Copies from one leader. Where nothing here follows it, it waits until something does: a task that ended could miss
/// that.
async fn fetch_from(node: Weak<Node>, leader: BrokerId) {
    let Some(strong) = node.upgrade() else { return };
    let mut tables = strong.reconciliation.tables();
    drop(strong);
    let mut followed = Vec::new();
    let mut table: Weak<TopicTable> = Weak::new();
    let mut turn = 0;
    let mut backoff = Backoff::between(Duration::from_millis(20), Duration::from_secs(1));
    loop {
        let Some(strong) = node.upgrade() else { return };
        // First, so that the next table is news.
        tables.mark_unchanged();
        let newest = strong.topics.load_full();
        if table.upgrade().is_none_or(|known| !Arc::ptr_eq(&known, &newest)) {
            followed = followed_from(&newest, leader);
            table = Arc::downgrade(&newest);
            if strong.breaks(Mutation::CutsToWatermark) {
                let asked = followed.iter().map(|it: &Followed| it.asked.clone()).collect();
                cut_to_watermark(&strong, asked).await;
            }
        }
        drop(newest);
        let now = Instant::now();
        let due: Vec<usize> = due(&followed, now, &mut turn);
        if due.is_empty() {
            drop(strong);
            let retry_at = followed.iter().filter_map(|it| it.at).min();
            let pause = retry_at.map_or(IDLE, |at| at.saturating_duration_since(now)).min(IDLE);
            tokio::select! {
                _ = tables.changed() => {}
                () = sleep(pause) => {}
            }
            continue;
        }
        match fetch_once(&strong, leader, &mut followed, &due).await {
            Ok(()) => backoff.reset(),
            Err(reason) => {
                tracing::debug!(%leader, reason, "a leader does not answer");
                drop(strong);
                tokio::select! {
                    _ = tables.changed() => {}
                    () = sleep(backoff.pause()) => {}
                }
            }
        }
    }
}

fn followed_from(topics: &TopicTable, leader: BrokerId) -> Vec<Followed> {
    let follows =
        topics.replicas().filter(|(_, replica)| replica.leader_followed() == Some(leader));
    let followed = |(topic, replica): (_, &Arc<Replica>)| Followed {
        asked: Asked {
            replica: Arc::clone(replica),
            epoch: replica.leader_epoch(),
            end: replica.log().log_end_offset(),
        },
        topic,
        at: None,
    };
    follows.map(followed).collect()
}

/// Which ones to ask for now: each request begins with others, so that a full answer leaves nobody out for ever.
fn due(followed: &[Followed], now: Instant, turn: &mut usize) -> Vec<usize> {
    let count = followed.len();
    if count == 0 {
        return Vec::new();
    }
    let start = *turn % count;
    *turn = start + 1;
    let is_due = |index: &usize| followed[*index].at.is_none_or(|at| at <= now);
    (start..count).chain(0..start).filter(is_due).take(PARTITIONS_MAX).collect()
}

async fn fetch_once(
    node: &Arc<Node>,
    leader: BrokerId,
    followed: &mut [Followed],
    due: &[usize],
) -> Result<(), String> {
    let cluster = node.cluster.as_ref().ok_or("this node is alone")?;
    let epoch = cluster.session().ok_or("this broker has not started yet")?;
    let address = node_address(&node.image(), leader).ok_or("its address is not known")?;
    let settings = &node.settings.cluster;
    let flushes = !node.breaks(Mutation::TellsBeforeFlush);
    let due = &take_ends(followed, due, flushes).await[..];
    if due.is_empty() {
        return Ok(());
    }
    let partition = |index: &usize| {
        let Followed { asked, topic, .. } = &followed[*index];
        let log = asked.replica.log();
        FollowedPartition {
            topic: *topic,
            partition: asked.replica.topic_partition().partition,
            leader_epoch: asked.epoch,
            end: asked.end,
            last_epoch: log.latest_epoch(),
            log_start: log.log_start_offset(),
        }
    };
    let wait = settings.fetch_wait_max;
    let request = FetchFromLeader {
        follower: node.settings.node_id,
        broker_epoch: epoch.0,
        max_wait_ms: u32::try_from(wait.as_millis()).unwrap_or(u32::MAX),
        min_bytes: 1,
        max_bytes: settings.fetch_max_bytes,
        partitions: due.iter().map(partition).collect(),
    };
    let answer = ask(node, &address, &request, wait + ANSWER_MAX).await?;
    let asked: Vec<Asked> = due.iter().map(|index| followed[*index].asked.clone()).collect();
    let next = follow(node, &asked, answer).await;
    let later = Instant::now() + RETRY_AFTER;
    for (index, next) in due.iter().zip(next) {
        followed[*index].at = (next == Next::Later).then_some(later);
    }
    Ok(())
}

/// Takes note of how far the logs are. Returns those that can say so: what is on the disk counts, on a durable topic.
/// What an earlier role has left unflushed is flushed first. A log that cannot be flushed asks for nothing, or its leader
/// would take for safe what a power cut takes away.
async fn take_ends(followed: &mut [Followed], due: &[usize], flushes: bool) -> Vec<usize> {
    let mut flushed = Vec::with_capacity(due.len());
    for index in due {
        let Followed { asked, at, .. } = &mut followed[*index];
        let log = asked.replica.log();
        asked.end = log.log_end_offset();
        if log.config().is_durable()
            && flushes
            && log.flushed_offset() < asked.end
            && let Err(error) = log.flush().await
        {
            let partition = asked.replica.topic_partition();
            tracing::warn!(%partition, %error, "a follower's log cannot be flushed");
            *at = Some(Instant::now() + RETRY_AFTER);
            continue;
        }
        flushed.push(*index);
    }
    flushed
}

async fn ask(
    node: &Node,
    address: &str,
    request: &FetchFromLeader,
    time_max: Duration,
) -> Result<Vec<LedPartition>, String> {
    let cluster = node.cluster.as_ref().ok_or("this node is alone")?;
    let (lane, kind) = (Lane::Replication, Kind::Fetch);
    let sent = cluster.carrier.request(address, lane, kind, request.encode(), time_max).await;
    let bytes = sent.map_err(|error| error.to_string())?;
    decode_answer(bytes).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use logway_log::fs::SimFs;
    use logway_log::fs::sim::{Failure, Fault, SimOperation};
    use logway_model::{LeaderEpoch, Offset, Uuid};

    use super::*;
    use crate::replica::tests::{batch, durable, not_durable, partition};

    #[tokio::test]
    async fn a_log_that_cannot_be_flushed_tells_no_end() {
        let fs = SimFs::new(1);
        let (_dir, replica) = partition(&fs, not_durable());
        replica.append(vec![batch()]).future.await.expect("is written");
        fs.inject(Fault::new(SimOperation::Sync, Failure::Io));
        replica.set_config(durable());
        replica.follow(LeaderEpoch(1), BrokerId(2));
        let asked = Asked { replica, epoch: LeaderEpoch(1), end: Offset::ZERO };
        let mut followed = [Followed { asked, topic: TopicId(Uuid([2; 16])), at: None }];

        assert_eq!(take_ends(&mut followed, &[0], true).await, [0; 0]);
        assert!(followed[0].at.is_some(), "it is tried again later");
    }
}
