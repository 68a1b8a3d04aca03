//! A follower asks its leaders.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use logway_metadata::MetadataImage;
use logway_model::{BrokerId, ErrorCode, TopicPartition};
use logway_peers::{Carried, Kind, Lane, PeerError};
use logway_replication::message::{LeaderReply, LedPartition, Wants};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::asking::Asking;
use super::following::{Asked, Next, cut_to_watermark, follow};
use crate::Node;
use crate::backoff::Backoff;
use crate::cluster::{Mutation, node_address};
use crate::replica::Replica;
use crate::replica::freshness::AskedAt;
use crate::tasks::steady_time;
use crate::topics::TopicTable;

/// Where nothing follows a leader, it is looked again after this time at the latest.
const IDLE: Duration = Duration::from_millis(500);

/// An answer takes so much longer than the leader may wait, or never comes.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// What cannot be copied is said this often.
const FAILURES_INTERVAL: Duration = Duration::from_secs(10);

/// A request that was made, and what the leader says to it.
type Replying = Carried<Result<Bytes, PeerError>>;

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

/// Copies from one leader. Where nothing here follows it, it waits until something does: a task that ended could miss
/// that.
async fn fetch_from(node: Weak<Node>, leader: BrokerId) {
    let Some(strong) = node.upgrade() else { return };
    let tables = strong.reconciliation.tables();
    drop(strong);
    let (asking, table) = (Asking::new(1), Weak::new());
    let mut fetching = Fetching { leader, tables, asking, table, failures_said_at: None };
    let mut backoff = Backoff::between(Duration::from_millis(20), Duration::from_secs(1));
    for session in 2.. {
        loop {
            let Some(strong) = node.upgrade() else { return };
            fetching.adopt(&strong).await;
            if fetching.asking.is_worn() {
                break;
            }
            if fetching.asking.is_empty() {
                drop(strong);
                tokio::select! {
                    _ = fetching.tables.changed() => {}
                    () = sleep(IDLE) => {}
                }
                continue;
            }
            match fetching.fetch_once(&strong).await {
                Ok(()) => backoff.reset(),
                Err(reason) => {
                    tracing::debug!(%leader, reason, "a leader does not answer");
                    drop(strong);
                    tokio::select! {
                        _ = fetching.tables.changed() => {}
                        () = sleep(backoff.pause()) => {}
                    }
                    break;
                }
            }
        }
        (fetching.asking, fetching.table) = (Asking::new(session), Weak::new());
    }
}

/// One leader, and what it is asked.
struct Fetching {
    leader: BrokerId,
    tables: watch::Receiver<u64>,
    asking: Asking,
    /// What was adopted last.
    table: Weak<TopicTable>,
    failures_said_at: Option<Instant>,
}

impl Fetching {
    /// Follows what the newest table has at the leader.
    async fn adopt(&mut self, node: &Node) {
        // First, so that the next table is news.
        self.tables.mark_unchanged();
        let newest = node.topics.load_full();
        if self.table.upgrade().is_some_and(|known| Arc::ptr_eq(&known, &newest)) {
            return;
        }
        let begun = self.asking.adopt(&newest, self.leader);
        self.table = Arc::downgrade(&newest);
        if node.breaks(Mutation::CutsToWatermark) {
            cut_to_watermark(node, begun).await;
        }
    }

    /// Asks for what is behind the ends, and does what comes of it.
    async fn fetch_once(&mut self, node: &Arc<Node>) -> Result<(), String> {
        let (asked_at, parts) = self.ask(node).await?;
        let (mut slots, mut asked, mut awaited, mut answer) = (vec![], vec![], vec![], vec![]);
        let (image, mut held_back) = (node.image(), vec![]);
        for part in parts {
            // What has ended meanwhile is of no interest.
            let Some(of) = self.asking.asked(part.slot) else { continue };
            let of = of.clone();
            let is_refused = part.error != ErrorCode::None || part.diverging.is_some();
            if is_refused {
                self.asking.forget_told_start(part.slot);
            }
            let knows = (of.epoch, of.replica.high_watermark().get());
            let mut freshness = of.replica.freshness();
            match is_refused {
                true => freshness.on_error(knows),
                false => {
                    let awaits = part.awaits_follower();
                    freshness.on_told(knows, part.high_watermark, asked_at.at, awaits);
                }
            }
            drop(freshness);
            slots.push(part.slot);
            awaited.push(part.awaits_follower());
            held_back.push(take_under_bound(node, &image, &of.replica, part.records.len()));
            asked.push(of);
            answer.push(part);
        }
        // Behind what it says of those that it names.
        self.asking.answered.note(asked_at);
        let followed = follow(node, &asked, answer).await;
        self.report(followed.failed);
        let told = slots.into_iter().zip(followed.next).zip(awaited).zip(held_back);
        for (((slot, next), awaited), held_back) in told {
            match (next, held_back) {
                (Next::AtOnce, Some(at)) => self.asking.tell_at(slot, at),
                (Next::AtOnce, None) if !awaited => {}
                _ => self.asking.tell(slot, next),
            }
        }
        Ok(())
    }

    /// Says what cannot be copied, once in a while: on a full disk that is everything, again and again.
    fn report(&mut self, failed: Vec<(TopicPartition, String)>) {
        let Some((partition, error)) = failed.first() else { return };
        if self.failures_said_at.is_none_or(|at| at.elapsed() >= FAILURES_INTERVAL) {
            self.failures_said_at = Some(Instant::now());
            let (leader, others) = (self.leader, failed.len() - 1);
            tracing::error!(%partition, others, %leader, error, "a follower cannot append");
        }
    }

    /// Asks, and tells the leader meanwhile what is new. An error ends the session: nobody knows what of it the leader
    /// has heard. Says when it was asked.
    async fn ask(&mut self, node: &Arc<Node>) -> Result<(AskedAt, Vec<LedPartition>), String> {
        let settings = &node.settings.cluster;
        let wait = settings.fetch_wait_max;
        let wants = Wants {
            max_wait_ms: u32::try_from(wait.as_millis()).unwrap_or(u32::MAX),
            max_bytes: settings.fetch_max_bytes,
        };
        let mut answer = self.send(node, Some(wants), wait + ANSWER_MAX).await?;
        let asked_at = AskedAt { number: self.asking.last_number(), at: steady_time() };
        let mut telling: Option<Replying> = None;
        loop {
            let has_told = telling.is_none();
            let news_at = self.asking.news_at();
            tokio::select! {
                reply = &mut answer => {
                    // The leader has read it before what comes next.
                    if let Some(telling) = telling {
                        taken(telling.await)?;
                    }
                    return Ok((asked_at, taken(reply)?));
                }
                reply = async { telling.as_mut().expect("there is one").await }, if !has_told => {
                    telling = None;
                    taken(reply)?;
                }
                _ = self.tables.changed(), if has_told => self.adopt(node).await,
                () = async { sleep_until(news_at.expect("there is one")).await },
                    if has_told && news_at.is_some() => {}
            }
            if telling.is_none() && self.asking.has_news() {
                telling = Some(self.send(node, None, ANSWER_MAX).await?);
            }
        }
    }

    /// Sends the next request of the session. What it returns has to be waited for to be sent.
    async fn send(
        &mut self,
        node: &Arc<Node>,
        wants: Option<Wants>,
        time_max: Duration,
    ) -> Result<Replying, String> {
        let cluster = node.cluster.as_ref().ok_or("this node is alone")?;
        let epoch = cluster.session().ok_or("this broker has not started yet")?;
        let address = node_address(&node.image(), self.leader).ok_or("its address is not known")?;
        let flushes = !node.breaks(Mutation::TellsBeforeFlush);
        let mut told = Vec::new();
        if self.asking.has_news() {
            for slot in self.asking.take_untold() {
                let asked = self.asking.asked(slot).expect("it was just taken");
                match take_end(asked, flushes).await {
                    true => told.push(slot),
                    false => self.asking.tell(slot, Next::Later),
                }
            }
        }
        let request = self.asking.request((node.settings.node_id, epoch.0), &told, wants);
        let (lane, kind) = (Lane::Replication, Kind::Fetch);
        Ok(cluster.carrier.request(&address, lane, kind, request.encode(), time_max))
    }
}

/// Notes that records come for a replica that is not in sync, where a bound is set for it. Says when more may come.
fn take_under_bound(
    node: &Node,
    image: &MetadataImage,
    replica: &Replica,
    bytes: usize,
) -> Option<Instant> {
    if bytes == 0 {
        return None;
    }
    let partition = replica.topic_partition();
    let bound = node.followers_bound(image, partition)?;
    let known = image.topic(partition.topic.as_str())?.partition(partition.partition)?;
    if known.isr.contains(&node.settings.node_id) {
        return None;
    }
    bound.charge(bytes as u64);
    bound.busy_until()
}

/// What the leader has to say, if it has taken the request.
fn taken(reply: Result<Bytes, PeerError>) -> Result<Vec<LedPartition>, String> {
    let bytes = reply.map_err(|error| error.to_string())?;
    match LeaderReply::decode(bytes).map_err(|error| error.to_string())? {
        LeaderReply::Taken(parts) => Ok(parts),
        LeaderReply::OtherSession => Err("it does not know the fetch session".to_owned()),
    }
}

/// Takes note of how far a log is. Says whether that can be told: what is on the disk counts, on a durable topic.
/// What an earlier role has left unflushed is flushed first. A log that cannot be flushed asks for nothing, or its leader
/// would take for safe what a power cut takes away.
async fn take_end(asked: &mut Asked, flushes: bool) -> bool {
    let log = asked.replica.log();
    asked.end = log.log_end_offset();
    if log.config().is_durable()
        && flushes
        && log.flushed_offset() < asked.end
        && let Err(error) = log.flush().await
    {
        let partition = asked.replica.topic_partition();
        tracing::warn!(%partition, %error, "a follower's log cannot be flushed");
        return false;
    }
    true
}

#[cfg(test)]
mod tests {
    use logway_log::fs::SimFs;
    use logway_log::fs::sim::{Failure, Fault, SimOperation};
    use logway_model::{LeaderEpoch, Offset};

    use super::*;
    use crate::replica::tests::{batch, durable, not_durable, partition};

    #[tokio::test]
    async fn a_log_that_cannot_be_flushed_tells_no_end() {
        let fs = SimFs::new(1);
        let (_dir, replica) = partition(&fs, not_durable());
        replica
            .append(vec![batch()], logway_log::AppendOrigin::Client)
            .future
            .await
            .expect("is written");
        fs.inject(Fault::new(SimOperation::Sync, Failure::Io));
        replica.set_config(durable());
        replica.follow(LeaderEpoch(1), BrokerId(2));
        let mut asked = Asked { replica, epoch: LeaderEpoch(1), end: Offset::ZERO };

        assert!(!take_end(&mut asked, true).await);
    }
}
