//! A leader answers a follower.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use logway_log::ReadRequest;
use logway_log::checkpoint::Divergence;
use logway_model::{BrokerId, ErrorCode, LeaderEpoch, Offset};
use logway_replication::FollowerFetch;
use logway_replication::message::{
    FetchFromLeader, FollowedPartition, LedPartition, encode_answer,
};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::Node;
use crate::cluster::Mutation;
use crate::failure::Failure;
use crate::replica::Replica;
use crate::rising_offset::WaitKey;
use crate::tasks::off_thread;

/// A follower may not have a leader wait for longer than this.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// The most that one partition has in an answer, so that the others come along.
const PARTITION_BYTES_MAX: u64 = 1 << 20;

impl Node {
    /// Answers a follower, when there is something to say or it has waited for long enough. `None` for bytes that are
    /// no request of this version.
    ///
    /// How far the follower is counts when its request is read, and not when it is answered: an acknowledgement
    /// that waited behind a parked answer would come half a second late.
    pub(crate) async fn answer_follower(&self, from: BrokerId, request: &Bytes) -> Option<Vec<u8>> {
        let request = FetchFromLeader::decode(request).ok()?;
        // Nobody tells how far another broker is.
        if request.follower != from {
            return None;
        }
        let deadline =
            Instant::now() + Duration::from_millis(request.max_wait_ms.into()).min(WAIT_MAX);
        let mut answering = Answering::begin(self, &request);
        if !answering.read_enough().await {
            let waiter = Arc::new(Notify::new());
            loop {
                // First, so that nothing comes between the look and the wait.
                let _waits = answering.wait_for_more(&waiter);
                if answering.read_enough().await || Instant::now() >= deadline {
                    break;
                }
                tokio::select! {
                    () = waiter.notified() => {}
                    () = sleep_until(deadline) => {}
                }
            }
        }
        Some(encode_answer(&answering.parts).into())
    }

    /// The replica that a follower means, if it leads in the epoch that the follower believes in.
    fn led(&self, asked: &FollowedPartition) -> Result<Arc<Replica>, ErrorCode> {
        let topics = self.topics();
        let replica = topics.by_id(asked.topic)?.partition(asked.partition)?;
        replica.check_leader_epoch(asked.leader_epoch)?;
        match replica.log().latest_epoch() < asked.leader_epoch {
            // The log does not know yet where the epoch starts, so it cannot tell where another parts from it.
            true => Err(ErrorCode::UnknownLeaderEpoch),
            false => Ok(Arc::clone(replica)),
        }
    }
}

/// A request on its way to being answered.
struct Answering<'a> {
    request: &'a FetchFromLeader,
    /// The partitions that have a leader here and a follower there, by their index in the request.
    led: Vec<(usize, Arc<Replica>)>,
    /// What there is to say, without records.
    told: Vec<LedPartition>,
    /// The same with what there is to read.
    parts: Vec<LedPartition>,
    /// Something cannot wait.
    is_urgent: bool,
}

/// Waits for more records, until dropped.
struct Waits(Vec<(Arc<Replica>, WaitKey)>);

impl Drop for Waits {
    fn drop(&mut self) {
        for (replica, key) in &self.0 {
            replica.log_end().unsubscribe(*key);
        }
    }
}

impl<'a> Answering<'a> {
    /// Looks at each partition, and takes note of how far the follower is with those whose beginning it has.
    fn begin(node: &Node, request: &'a FetchFromLeader) -> Answering<'a> {
        let (mut led, mut told) = (Vec::new(), Vec::new());
        let mut could_join = false;
        for (index, asked) in request.partitions.iter().enumerate() {
            let replica = match node.led(asked) {
                Ok(replica) => replica,
                Err(error) => {
                    told.push(LedPartition { error, ..nothing(index) });
                    continue;
                }
            };
            let parting = parting(&replica, asked, index);
            if let Some(part) = parting.filter(|_| !node.breaks(Mutation::CountsDiverging)) {
                told.push(part);
                continue;
            }
            let (broker, broker_epoch, end) = (request.follower, request.broker_epoch, asked.end);
            let fetch = FollowerFetch { broker, broker_epoch, end };
            could_join |= replica.on_fetch(asked.leader_epoch, fetch);
            led.push((index, replica));
        }
        if could_join && let Some(cluster) = &node.cluster {
            cluster.isr_due.notify_one();
        }
        let is_urgent = !told.is_empty();
        Answering { request, led, told, parts: Vec::new(), is_urgent }
    }

    fn wait_for_more(&self, waiter: &Arc<Notify>) -> Waits {
        let wait = |(index, replica): &(usize, Arc<Replica>)| {
            let end = self.request.partitions[*index].end;
            (Arc::clone(replica), replica.log_end().subscribe(end, waiter))
        };
        Waits(self.led.iter().map(wait).collect())
    }

    /// Reads what there is. Says whether that is to be told at once.
    async fn read_enough(&mut self) -> bool {
        let bytes = self.read().await;
        self.is_urgent || bytes >= u64::from(self.request.min_bytes.max(1))
    }

    /// Reads what there is, from each partition in turn. Returns how many bytes that is.
    async fn read(&mut self) -> u64 {
        self.parts = self.told.clone();
        let mut bytes: u64 = 0;
        for (index, replica) in &self.led {
            let asked = &self.request.partitions[*index];
            if let Err(error) = replica.check_leader_epoch(asked.leader_epoch) {
                self.is_urgent = true;
                self.parts.push(LedPartition { error, ..nothing(*index) });
                continue;
            }
            let log = replica.log();
            let left = u64::from(self.request.max_bytes).saturating_sub(bytes);
            let mut part = LedPartition {
                high_watermark: replica.high_watermark().get(),
                log_start: log.log_start_offset(),
                ..nothing(*index)
            };
            let has_more = log.log_end_offset() > asked.end;
            if has_more && (left > 0 || bytes == 0) {
                let wanted = ReadRequest {
                    offset: asked.end,
                    max_bytes: left.min(PARTITION_BYTES_MAX),
                    upper_bound: log.log_end_offset(),
                    at_least_one_batch: bytes == 0,
                };
                match read_records(replica, wanted).await {
                    Ok(records) => {
                        bytes += records.len() as u64;
                        part.records = records;
                    }
                    Err(error) => {
                        self.is_urgent = true;
                        part.error = error;
                    }
                }
            }
            self.parts.push(part);
        }
        bytes
    }
}

fn nothing(index: usize) -> LedPartition {
    LedPartition {
        index: u32::try_from(index).expect("the request has fewer"),
        error: ErrorCode::None,
        high_watermark: Offset::ZERO,
        log_start: Offset::ZERO,
        diverging: None,
        records: Bytes::new(),
    }
}

/// What to tell a follower whose log is not the beginning of this one, or begins where nothing is left. How far it is says
/// nothing then.
fn parting(replica: &Replica, asked: &FollowedPartition, index: usize) -> Option<LedPartition> {
    let log = replica.log();
    let log_start = log.log_start_offset();
    let told = LedPartition {
        high_watermark: replica.high_watermark().get(),
        log_start,
        ..nothing(index)
    };
    let out_of_range = || LedPartition { error: ErrorCode::OffsetOutOfRange, ..told.clone() };
    if asked.end < log_start {
        return Some(out_of_range());
    }
    if asked.last_epoch == LeaderEpoch::NONE {
        return (asked.end > log.log_end_offset()).then(out_of_range);
    }
    match log.divergence(asked.last_epoch, asked.end) {
        Divergence::None if asked.end > log.log_end_offset() => Some(out_of_range()),
        Divergence::None => None,
        Divergence::At(end) => {
            Some(LedPartition { diverging: Some((end.epoch, end.end_offset)), ..told.clone() })
        }
        Divergence::UnknownEpoch => Some(out_of_range()),
    }
}

/// Reads records into memory. What is not in the segment that grows may have to come from the disk.
async fn read_records(replica: &Arc<Replica>, wanted: ReadRequest) -> Result<Bytes, ErrorCode> {
    let (log, partition) = (replica.log(), replica.topic_partition().clone());
    let is_hot = log.is_hot(wanted.offset);
    let read = move || -> Result<Bytes, Failure> {
        let slice = log.read(wanted)?;
        match slice.is_empty() {
            true => Ok(Bytes::new()),
            false => slice.read().map_err(|error| Failure::of_reading(&partition, &error)),
        }
    };
    let read = if is_hot { read() } else { off_thread(read).await };
    read.map_err(|failure| {
        let partition = replica.topic_partition();
        tracing::warn!(%partition, reason = failure.message, "a follower cannot be answered");
        failure.code
    })
}
