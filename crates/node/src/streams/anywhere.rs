//! Appending to, reading and searching a partition, here or by way of the node that leads it.
//!
//! Kafka clients are told who leads and go there. Others know one address, so any node has to answer for each partition.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use logway_log::AppendOutcome;
use logway_model::{
    BrokerId, ErrorCode, LeaderEpoch, Offset, PartitionId, ProducerEpoch, ProducerId, Sequence,
    TimestampMs, TopicId,
};
use logway_peers::{Kind, Lane};
use logway_record::{Batch, RecordError};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::committed::without_aborted;
use super::message::{Answer, Request, Task, decode_answer, encode_answer};
use super::shard_meters::Demand;
use crate::Node;
use crate::append::{Acks, Appender, Appending};
use crate::cluster::node_address;
use crate::failure::Failure;
use crate::read::{Isolation, Patience, ReadBounds, ReadWish, Unread};
use crate::replica::{ReadFrom, Replica};
use crate::tasks::{join_all, off_thread};
use crate::topics::is_internal;

mod skip;
mod source;

pub use skip::SKIP_MAX;
pub use source::ReadSource;

/// A partition, by the id of its topic: one that is made again under its name is another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Partition {
    /// The topic.
    pub topic: TopicId,
    /// Its number.
    pub number: PartitionId,
}

/// Where records are, once they are committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// The offset of the first; the others follow it.
    pub base_offset: Offset,
    /// The time of the append.
    pub time: TimestampMs,
    /// The partition had the batch of this idempotent producer already, by its sequences. Another writer who uses the same id may have
    /// appended it.
    pub is_duplicate: bool,
}

/// What an append is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// It is flushed on the leader; written, where the topic's settings say so.
    Flushed,
    /// It is committed.
    Committed,
}

impl Until {
    fn acks(self) -> Acks {
        match self {
            Until::Flushed => Acks::Leader,
            Until::Committed => Acks::All,
        }
    }
}

/// How far an idempotent producer has come in a partition. All of it is committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerPosition {
    /// The epoch of its last batch.
    pub epoch: ProducerEpoch,
    /// The sequence of its last record.
    pub last_sequence: Sequence,
    /// The offset of that record.
    pub last_offset: Offset,
}

/// What there is in a partition from an offset on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionRead {
    /// The first offset of the partition.
    pub start: Offset,
    /// The exclusive end of what may be read.
    pub end: Offset,
    /// The offset to go on from.
    pub next: Offset,
    /// Whole batches. The first may begin before the offset that was asked for.
    pub batches: Bytes,
}

/// Which parts of a demand are met, in its order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Met(pub Vec<bool>);

/// What is wanted of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionWish {
    /// From this offset on.
    pub offset: Offset,
    /// At most so many bytes; the first batch may be larger. With 0 nothing is read, and it is only said what there is.
    pub max_bytes: u32,
    /// The first batch may be so large. A larger one is not read: this fails with `MESSAGE_TOO_LARGE`. Other nodes send it nevertheless.
    pub first_max_bytes: u32,
    /// Where there is nothing, wait for so long.
    pub wait: Duration,
}

/// What an offset is looked for by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Search {
    /// The first record.
    Start,
    /// The end of what may be read.
    End,
    /// The first record of this time or a later one; where there is none, the end.
    Time(TimestampMs),
}

/// What the leader's answer may take longer than its own deadline.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// The most that another node is given of a partition at once: as much as a batch of a stream may have.
const READ_BYTES_MAX: u32 = 12 << 20;

/// How long a search may take.
const SEARCH_MAX: Duration = Duration::from_secs(10);

/// How long who does not want to wait for records waits for a leader.
const HURRIED_LEADER_MAX: Duration = Duration::from_secs(1);

/// Between two looks who leads.
const LEADER_RETRY: Duration = Duration::from_millis(20);

/// What another node wants.
fn wish_of_another(offset: Offset, max_bytes: u32, wait: Duration) -> PartitionWish {
    let max_bytes = max_bytes.min(READ_BYTES_MAX);
    PartitionWish { offset, max_bytes, first_max_bytes: max_bytes, wait }
}

struct Wish(ReadWish);

impl AsRef<ReadWish> for Wish {
    fn as_ref(&self) -> &ReadWish {
        &self.0
    }
}

impl Node {
    /// Appends a batch to each of some partitions, and waits until it is as safe as `until` says, or for `deadline`. The
    /// outcomes are in the order of the batches. After `LEADER_NOT_AVAILABLE` and `POLICY_VIOLATION` nothing was appended; after
    /// `REQUEST_TIMED_OUT` and `NOT_LEADER_OR_FOLLOWER` the records may be there or not.
    pub async fn append_anywhere(
        self: &Arc<Self>,
        batches: Vec<(Partition, Bytes)>,
        until: Until,
        deadline: Instant,
    ) -> Vec<Result<Appended, Failure>> {
        let mut outcomes: Vec<Option<Result<Appended, Failure>>> = Vec::new();
        let (mut here, mut elsewhere) = (Vec::new(), Vec::new());
        for (index, (partition, batch)) in batches.into_iter().enumerate() {
            outcomes.push(None);
            match self.leading(partition) {
                Ok(replica) => here.push((index, replica, batch)),
                Err(code) if is_elsewhere(code) => elsewhere.push(async move {
                    (index, self.append_there(partition, batch, until, deadline).await)
                }),
                Err(code) => outcomes[index] = Some(Err(failure(code))),
            }
        }
        // What is for others is on its way before this node writes. All of it ends with the caller, whose memory it takes.
        let (elsewhere, here) =
            tokio::join!(join_all(elsewhere), self.append_here(here, until, deadline));
        for (index, outcome) in elsewhere.into_iter().chain(here) {
            outcomes[index] = Some(outcome);
        }
        let missing = || Err(failure(ErrorCode::UnknownServerError));
        outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(missing)).collect()
    }

    /// Appends a batch to a partition if its log ends at `end`, and waits until it is committed, or for `deadline`. So who has read
    /// the whole partition and decides by that, decides by what is there.
    ///
    /// After `OFFSET_OUT_OF_RANGE`, which says that the log ends elsewhere, and `LEADER_NOT_AVAILABLE` nothing was appended. After
    /// `REQUEST_TIMED_OUT` and `NOT_LEADER_OR_FOLLOWER` the batch may be there or not.
    pub async fn append_at_anywhere(
        self: &Arc<Self>,
        partition: Partition,
        end: Offset,
        batch: Bytes,
        deadline: Instant,
    ) -> Result<Appended, Failure> {
        match self.leading(partition) {
            Ok(replica) => self.append_at_here(&replica, end, batch, deadline).await,
            Err(code) if is_elsewhere(code) => {
                if self.leader_elsewhere(partition).is_none() {
                    return Err(failure(ErrorCode::LeaderNotAvailable));
                }
                let left = deadline.saturating_duration_since(Instant::now());
                let wait_ms = u32::try_from(left.as_millis()).unwrap_or(u32::MAX);
                self.ask_leader(partition, Task::AppendAt { end, wait_ms, batch }, deadline).await
            }
            Err(code) => Err(failure(code)),
        }
    }

    /// Reads a partition below its last stable offset. Batches of aborted transactions have no records.
    ///
    /// Errors: `OFFSET_OUT_OF_RANGE`, and those of partitions that cannot be read or whose leader cannot be asked.
    pub async fn read_anywhere(
        self: &Arc<Self>,
        partition: Partition,
        wish: PartitionWish,
    ) -> Result<PartitionRead, Failure> {
        let PartitionWish { offset, max_bytes, first_max_bytes: _, wait } = wish;
        let wait_ms = u32::try_from(wait.as_millis()).unwrap_or(u32::MAX);
        let task = Task::Read { offset, max_bytes, wait_ms };
        let leader_max = if wait.is_zero() { HURRIED_LEADER_MAX } else { wait.max(SEARCH_MAX) };
        let here = || self.read_here(partition, wish, ReadFrom::Leader);
        self.of_leader(partition, task, leader_max, here).await
    }

    /// Waits until a node leads a partition, for a short time: before who wants to read it takes memory for that.
    pub async fn await_leader(&self, partition: Partition) -> Result<(), Failure> {
        let deadline = Instant::now() + HURRIED_LEADER_MAX;
        loop {
            match self.leading(partition) {
                Ok(_) => return Ok(()),
                Err(code) if !is_elsewhere(code) => return Err(failure(code)),
                Err(_) if self.leader_elsewhere(partition).is_some() => return Ok(()),
                Err(code) if Instant::now() >= deadline => return Err(failure(code)),
                Err(_) => sleep_until(deadline.min(Instant::now() + LEADER_RETRY)).await,
            }
        }
    }

    /// Looks for an offset of a partition.
    pub async fn search_anywhere(
        self: &Arc<Self>,
        partition: Partition,
        search: Search,
    ) -> Result<Offset, Failure> {
        let here = || self.search_here(partition, search);
        self.of_leader(partition, Task::Search(search), SEARCH_MAX, here).await
    }

    /// How far an idempotent producer has come in a partition, if the partition knows of it. Waits until that is committed.
    pub async fn producer_anywhere(
        self: &Arc<Self>,
        partition: Partition,
        id: ProducerId,
    ) -> Result<Option<ProducerPosition>, Failure> {
        let here = || self.producer_here(partition, id);
        self.of_leader(partition, Task::Producer(id), SEARCH_MAX, here).await
    }

    /// Deletes the records of a partition before an offset, or all that can be read. Gives the new start.
    ///
    /// Errors: `OFFSET_OUT_OF_RANGE` beyond what can be read, and `POLICY_VIOLATION` where topics delete nothing.
    pub async fn truncate_anywhere(
        self: &Arc<Self>,
        partition: Partition,
        before: Option<Offset>,
    ) -> Result<Offset, Failure> {
        let here = || self.truncate_here(partition, before);
        self.of_leader(partition, Task::Truncate(before), SEARCH_MAX, here).await
    }

    /// Asks the leader of a shard for what its limits have room for (`kinesis.shard.*`), and counts that.
    pub async fn meter_anywhere(
        self: &Arc<Self>,
        partition: Partition,
        demand: Demand,
    ) -> Result<Met, Failure> {
        let here = || async { self.meter_here(partition, &demand) };
        self.of_leader(partition, Task::Meter(demand.clone()), HURRIED_LEADER_MAX, here).await
    }

    /// Does a task here if this node leads, else asks the leader. Waits for one no longer than `leader_max`.
    async fn of_leader<A: Answer, F: Future<Output = Result<A, Failure>>>(
        self: &Arc<Self>,
        partition: Partition,
        task: Task,
        leader_max: Duration,
        here: impl Fn() -> F,
    ) -> Result<A, Failure> {
        let deadline = Instant::now() + leader_max;
        loop {
            let outcome = match self.leading(partition) {
                Ok(_) => here().await,
                Err(code) if is_elsewhere(code) => {
                    let answer_by = deadline.max(Instant::now() + SEARCH_MAX);
                    self.ask_leader(partition, task.clone(), answer_by).await
                }
                Err(code) => Err(failure(code)),
            };
            match outcome {
                Err(error) if is_elsewhere(error.code) && Instant::now() < deadline => {
                    sleep_until(deadline.min(Instant::now() + LEADER_RETRY)).await;
                }
                outcome => return outcome,
            }
        }
    }

    /// Whether this node leads a partition.
    pub fn leads(&self, partition: Partition) -> bool {
        self.leading(partition).is_ok()
    }

    /// The replica here, if it leads.
    fn leading(&self, partition: Partition) -> Result<Arc<Replica>, ErrorCode> {
        self.readable(partition, ReadFrom::Leader)
    }

    /// The replica here, if it serves. No client of any door is served the topics of coordinators: these are for who speaks their
    /// protocol.
    fn readable(&self, partition: Partition, from: ReadFrom) -> Result<Arc<Replica>, ErrorCode> {
        let topics = self.topics();
        match topics.by_id(partition.topic) {
            Ok(topic) if is_internal(topic.name().as_str()) => {
                Err(ErrorCode::InvalidTopicException)
            }
            Ok(topic) => match topic.readable(partition.number, from) {
                // It was added just now.
                Err(ErrorCode::UnknownTopicOrPartition) if self.exists(partition) => {
                    Err(ErrorCode::NotLeaderOrFollower)
                }
                found => found.cloned(),
            },
            // It is made just now, or served elsewhere.
            Err(_) if self.exists(partition) => Err(ErrorCode::NotLeaderOrFollower),
            Err(code) => Err(code),
        }
    }

    fn exists(&self, partition: Partition) -> bool {
        let image = self.image();
        let topic = image.topic_by_id(partition.topic);
        let topic = topic.filter(|topic| !is_internal(topic.name.as_str()));
        topic.is_some_and(|topic| topic.partition(partition.number).is_some())
    }

    /// All of them begin before one is waited for, so that one sync can do for all.
    async fn append_here(
        &self,
        batches: Vec<(usize, Arc<Replica>, Bytes)>,
        until: Until,
        deadline: Instant,
    ) -> Vec<(usize, Result<Appended, Failure>)> {
        if batches.is_empty() {
            return Vec::new();
        }
        // No round of its own: the deadline holds whatever the disk does.
        let appender = Appender::handing_over();
        self.note_request(&appender);
        let mut started = Vec::with_capacity(batches.len());
        for (index, replica, batch) in batches {
            let start = self.start_append(&replica, batch, until, &appender);
            started.push((index, in_time(deadline, start).await));
        }
        // Side by side: one whose disk hangs says nothing about the others.
        let finish = |(index, started)| async move { (index, appended(started, deadline).await) };
        join_all(started.into_iter().map(finish).collect()).await
    }

    async fn start_append(
        &self,
        replica: &Arc<Replica>,
        batch: Bytes,
        until: Until,
        appender: &Appender,
    ) -> Result<Appending, Failure> {
        let batch = Batch::parse(batch).map_err(|error: RecordError| Failure::from(error))?;
        self.append(replica, batch, until.acks(), appender).await
    }

    async fn append_at_here(
        &self,
        replica: &Arc<Replica>,
        end: Offset,
        batch: Bytes,
        deadline: Instant,
    ) -> Result<Appended, Failure> {
        let batch = Batch::parse(batch).map_err(|error: RecordError| Failure::from(error))?;
        let appender = Appender::handing_over();
        self.note_request(&appender);
        let started = in_time(deadline, self.append_at(replica, end, batch, &appender)).await;
        appended(started, deadline).await
    }

    /// Nothing is sent twice: who did not hear whether it was appended cannot know.
    async fn append_there(
        self: &Arc<Self>,
        partition: Partition,
        batch: Bytes,
        until: Until,
        deadline: Instant,
    ) -> Result<Appended, Failure> {
        let left = deadline.saturating_duration_since(Instant::now());
        let wait_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        if self.leader_elsewhere(partition).is_none() {
            return Err(failure(ErrorCode::LeaderNotAvailable));
        }
        let task = Task::Append { wait_ms, until, batch };
        self.ask_leader(partition, task, deadline).await
    }

    /// Where the leader of a partition is reached, if it is another node.
    fn leader_elsewhere(&self, partition: Partition) -> Option<String> {
        let (own, image) = (self.settings.node_id, self.image());
        let topic = image.topic_by_id(partition.topic)?;
        let leader = topic.partition(partition.number)?.leader.filter(|leader| *leader != own)?;
        node_address(&image, leader)
    }

    async fn ask_leader<A: Answer>(
        &self,
        partition: Partition,
        task: Task,
        deadline: Instant,
    ) -> Result<A, Failure> {
        let address = self.leader_elsewhere(partition);
        let (Some(cluster), Some(address)) = (&self.cluster, address) else {
            return Err(failure(ErrorCode::NotLeaderOrFollower));
        };
        let lane = match task {
            Task::Read { wait_ms, .. } if wait_ms > 0 => Lane::Waiting,
            _ => Lane::Clients,
        };
        let is_append = matches!(task, Task::Append { .. } | Task::AppendAt { .. });
        let request = Request { topic: partition.topic, partition: partition.number, task };
        let left = deadline.saturating_duration_since(Instant::now()) + ANSWER_MAX;
        let calling =
            cluster.carrier.request(&address, lane, Kind::Partition, request.encode(), left);
        match calling.await {
            Ok(answer) => decode_answer(answer).map_err(|refusal: Failure| {
                let is_unknown = matches!(
                    refusal.code,
                    ErrorCode::UnknownTopicId | ErrorCode::UnknownTopicOrPartition
                );
                // The leader has not heard yet of what is made just now.
                match is_unknown && self.exists(partition) {
                    true if is_append => failure(ErrorCode::LeaderNotAvailable),
                    true => failure(ErrorCode::NotLeaderOrFollower),
                    false => refusal,
                }
            }),
            Err(error) => {
                let message = format!("the leader of the partition did not answer: {error}");
                Err(Failure::new(ErrorCode::RequestTimedOut, message))
            }
        }
    }

    /// Does for another node what it asks of a partition that this one leads; `None` for what is no request, and for who
    /// is no node of the cluster.
    pub(crate) async fn answer_for_leader(
        self: &Arc<Self>,
        from: BrokerId,
        request: &Bytes,
    ) -> Option<Vec<u8>> {
        self.image().broker(from)?;
        let Request { topic, partition: number, task } = Request::decode(request)?;
        let partition = Partition { topic, number };
        Some(match task {
            Task::Append { wait_ms, until, batch } => {
                let deadline = Instant::now() + Duration::from_millis(wait_ms).min(SEARCH_MAX);
                let appended = match self.leading(partition) {
                    Ok(replica) => {
                        let mut outcomes =
                            self.append_here(vec![(0, replica, batch)], until, deadline).await;
                        let lost = || (0, Err(failure(ErrorCode::UnknownServerError)));
                        outcomes.pop().unwrap_or_else(lost).1
                    }
                    // Nothing was appended, which its own word for it leaves open.
                    Err(code) if is_elsewhere(code) => Err(failure(ErrorCode::LeaderNotAvailable)),
                    Err(code) => Err(failure(code)),
                };
                encode_answer(&appended)
            }
            Task::AppendAt { end, wait_ms, batch } => {
                let wait = Duration::from_millis(wait_ms.into()).min(SEARCH_MAX);
                let deadline = Instant::now() + wait;
                let appended = match self.leading(partition) {
                    Ok(replica) => self.append_at_here(&replica, end, batch, deadline).await,
                    Err(code) if is_elsewhere(code) => Err(failure(ErrorCode::LeaderNotAvailable)),
                    Err(code) => Err(failure(code)),
                };
                encode_answer(&appended)
            }
            Task::Read { offset, max_bytes, wait_ms } => {
                let wait = Duration::from_millis(wait_ms.into()).min(SEARCH_MAX);
                let wish = wish_of_another(offset, max_bytes, wait);
                let read = |wish| self.read_here(partition, wish, ReadFrom::Leader);
                self.read_for_another(wish, read).await
            }
            Task::ReadReplica { offset, max_bytes, wait_ms, staleness_max_ms } => {
                let wait = Duration::from_millis(wait_ms.into()).min(SEARCH_MAX);
                let wish = wish_of_another(offset, max_bytes, wait);
                let staleness_max = Duration::from_millis(staleness_max_ms.into());
                let read = |wish| self.read_replica_here(partition, wish, staleness_max);
                self.read_for_another(wish, read).await
            }
            Task::Search(search) => encode_answer(&self.search_here(partition, search).await),
            Task::Producer(id) => encode_answer(&self.producer_here(partition, id).await),
            Task::Truncate(before) => encode_answer(&self.truncate_here(partition, before).await),
            Task::Meter(demand) => encode_answer(&self.meter_here(partition, &demand)),
            Task::Skip(to) => encode_answer(&self.skip_here(partition, to).await),
        })
    }

    /// Reads for another node, which gets on whatever the size of the first batch. Large ones are read one after the other.
    async fn read_for_another<F: Future<Output = Result<PartitionRead, Failure>>>(
        &self,
        wish: PartitionWish,
        read: impl Fn(PartitionWish) -> F,
    ) -> Vec<u8> {
        match read(wish).await {
            Err(failure) if failure.code == ErrorCode::MessageTooLarge => {
                let _turn = self.memory.readers.large_for_others.take(1).await;
                let wish = PartitionWish { first_max_bytes: u32::MAX, ..wish };
                encode_answer(&read(wish).await)
            }
            read => encode_answer(&read),
        }
    }

    async fn read_here(
        &self,
        partition: Partition,
        wish: PartitionWish,
        from: ReadFrom,
    ) -> Result<PartitionRead, Failure> {
        let PartitionWish { offset, max_bytes, first_max_bytes, wait } = wish;
        let wish = Wish(ReadWish {
            offset,
            max_bytes: max_bytes.into(),
            leader_epoch: LeaderEpoch::NONE,
            last_read_epoch: LeaderEpoch::NONE,
        });
        let find = |_: &Wish| self.readable(partition, from).map_err(Unread::Absent);
        let bounds = ReadBounds { min_bytes: 1, max_bytes: max_bytes.into() };
        let patience = Patience { deadline: Instant::now() + wait, hurry: pending() };
        let outcome = self.read(&[wish], find, Isolation::Committed, bounds, patience).await.pop();
        let found = match outcome {
            Some(Ok(found)) => found,
            Some(Err(Unread::Absent(code) | Unread::Refused(code))) => return Err(failure(code)),
            Some(Err(Unread::OutOfRange(_) | Unread::Diverging(..))) => {
                return Err(failure(ErrorCode::OffsetOutOfRange));
            }
            Some(Err(Unread::Nearer(..))) => return Err(failure(ErrorCode::NotLeaderOrFollower)),
            None => return Err(failure(ErrorCode::UnknownServerError)),
        };
        let (start, next) = (found.slice.log_start_offset, found.slice.next_offset);
        let end = found.replica.last_stable_offset().get();
        if max_bytes == 0 {
            return Ok(PartitionRead { start, end, next: offset, batches: Bytes::new() });
        }
        let size_bytes = found.slice.size_bytes();
        if size_bytes > u64::from(max_bytes.max(first_max_bytes)) {
            let message = format!("a batch of {size_bytes} bytes, larger than its reader wants it");
            return Err(Failure::new(ErrorCode::MessageTooLarge, message));
        }
        let name = found.replica.topic_partition().clone();
        let read = move || {
            let batches = found.slice.read();
            let batches = batches.map_err(|error| Failure::of_reading(&name, &error))?;
            without_aborted(batches, &found.aborted).map_err(Failure::from)
        };
        let batches = off_thread(read).await?;
        Ok(PartitionRead { start, end, next, batches })
    }

    async fn producer_here(
        &self,
        partition: Partition,
        id: ProducerId,
    ) -> Result<Option<ProducerPosition>, Failure> {
        let replica = self.leading(partition).map_err(failure)?;
        let epoch = replica.leader_epoch();
        let known = replica.log().producers().await.map_err(Failure::from)?;
        let Some((_, state)) = known.into_iter().find(|(known, _)| *known == id) else {
            return Ok(None);
        };
        let Some(last) = state.last_batch() else { return Ok(None) };
        let committed = async { Ok(replica.committed(last.last_offset.next(), epoch).await?) };
        in_time(Instant::now() + SEARCH_MAX, committed).await?;
        Ok(Some(ProducerPosition {
            epoch: state.epoch,
            last_sequence: last.last_sequence,
            last_offset: last.last_offset,
        }))
    }

    async fn truncate_here(
        &self,
        partition: Partition,
        before: Option<Offset>,
    ) -> Result<Offset, Failure> {
        let truncation = {
            let topics = self.topics();
            let topic = topics.by_id(partition.topic).map_err(failure)?;
            topic.begin_truncation(partition.number, before).map_err(failure)?
        };
        in_time(Instant::now() + SEARCH_MAX, async { Ok(truncation.await?) }).await
    }

    fn meter_here(&self, partition: Partition, demand: &Demand) -> Result<Met, Failure> {
        self.leading(partition).map_err(failure)?;
        let rates = &self.settings.kinesis.shard_rates;
        Ok(Met(self.shard_meters.meet(partition, demand, rates)))
    }

    async fn search_here(&self, partition: Partition, search: Search) -> Result<Offset, Failure> {
        let replica = self.leading(partition).map_err(failure)?;
        let log = replica.log();
        if !matches!(search, Search::Start) && !replica.knows_what_is_committed() {
            return Err(failure(ErrorCode::NotLeaderOrFollower));
        }
        let end = replica.last_stable_offset().get();
        let time = match search {
            Search::Start => return Ok(log.log_start_offset()),
            Search::End => return Ok(end),
            Search::Time(time) => time,
        };
        let look_up = |limit| log.offset_for_timestamp(time, end, limit);
        let found = self.search(&replica, look_up).await?;
        Ok(found.map_or(end, |found| found.offset))
    }
}

async fn appended(
    started: Result<Appending, Failure>,
    deadline: Instant,
) -> Result<Appended, Failure> {
    let finishing = async { Ok(started?.finish_by(Some(deadline)).await?) };
    let outcome = in_time(deadline, finishing).await?;
    let AppendOutcome { base_offset, log_append_time: time, is_duplicate, .. } = outcome;
    Ok(Appended { base_offset, time, is_duplicate })
}

/// The same until a deadline. A disk that hangs holds nobody up for longer.
async fn in_time<T>(
    deadline: Instant,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let late = |_elapsed| Err(failure(ErrorCode::RequestTimedOut));
    timeout_at(deadline, work).await.unwrap_or_else(late)
}

/// Whether another node may lead, or will.
fn is_elsewhere(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::NotLeaderOrFollower)
}

fn failure(code: ErrorCode) -> Failure {
    let message = match code {
        ErrorCode::NotLeaderOrFollower | ErrorCode::LeaderNotAvailable => {
            "no node leads the partition just now"
        }
        ErrorCode::UnknownTopicId | ErrorCode::UnknownTopicOrPartition => "it does not exist",
        ErrorCode::RequestTimedOut => "it was not done in time, and may still be",
        ErrorCode::InvalidTopicException => "the topic is internal",
        ErrorCode::OffsetOutOfRange => "the offset is outside of the partition",
        ErrorCode::PolicyViolation => "the topic's cleanup.policy deletes nothing",
        ErrorCode::CorruptMessage => "the records there are damaged",
        _ => "the partition cannot be served",
    };
    Failure::new(code, message)
}

#[cfg(test)]
pub(super) mod tests;
