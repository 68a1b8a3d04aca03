//! Info, Watch and Truncate.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Incoming;
use logway_metadata::TopicImage;
use logway_model::{BrokerId, Offset, PartitionId};
use logway_node::access::Operation;
use logway_node::streams::anywhere::{Partition, Search};
use logway_node::{Failure, Node};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use crate::call::{Call, FoundLog, Outcome};
use crate::grpc::inbound::Inbound;
use crate::grpc::outbound::{Reply, framed};
use crate::grpc::status::{Code, Status};
use crate::messages::log::{
    InfoReply, InfoRequest, PartitionInfo, TruncateReply, TruncateRequest, WatchRequest,
};

/// Partitions of a log that are told of at once.
const PARTITIONS_MAX: i32 = 10_000;

/// Leaders that are asked side by side.
const ASKED_AT_ONCE: usize = 32;

const WATCH_INTERVAL: Duration = Duration::from_secs(1);

const WATCH_INTERVAL_MIN: Duration = Duration::from_millis(100);

pub(crate) async fn truncate(call: &Call, inbound: &mut Inbound<Incoming>) -> Outcome {
    let request: TruncateRequest = inbound.only().await?;
    if request.before_offset.is_some_and(|before| before < 0) {
        return Err(Status::invalid("before_offset is negative"));
    }
    let log = call.log(&request.log, Operation::Delete)?;
    let partition = log.partition(request.partition)?;
    let before = request.before_offset.map(Offset);
    let start = call.node().truncate_anywhere(partition, before).await.map_err(|failure| {
        let status = Status::from(failure).with("log", &request.log);
        status.with("partition", request.partition).with("offset", before.unwrap_or_default())
    })?;
    Ok(framed(&TruncateReply { start_offset: start.0 }))
}

pub(crate) async fn info(call: &Call, inbound: &mut Inbound<Incoming>) -> Outcome {
    let request: InfoRequest = inbound.only().await?;
    let log = described(call, &request.log)?;
    let looks = call.service.looks.at(log.topic.id);
    Ok(looks.fresh(|| look(call, &log)).await.seen.clone())
}

/// A log that can be told of.
fn described(call: &Call, name: &str) -> Result<FoundLog, Status> {
    let log = call.log(name, Operation::Describe)?;
    let count = log.topic.partition_count();
    match count <= PARTITIONS_MAX {
        true => Ok(log),
        false => {
            let message =
                format!("the log has {count} partitions; {PARTITIONS_MAX} can be told of");
            Err(Status::new(Code::ResourceExhausted, "TOO_MANY_PARTITIONS", message))
        }
    }
}

pub(crate) async fn watch(
    call: Arc<Call>,
    mut inbound: Inbound<Incoming>,
    replies: mpsc::Sender<Reply>,
) -> Result<(), Status> {
    let request: WatchRequest = inbound.only().await?;
    let period = match request.interval_ms {
        0 => WATCH_INTERVAL,
        ms => Duration::from_millis(ms.into()).max(WATCH_INTERVAL_MIN),
    };
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The looks are kept between ticks: those that nobody has are forgotten.
    let (mut told, mut _kept) = (None, None);
    loop {
        ticks.tick().await;
        let permit = call.room(&replies).await?;
        let log = described(&call, &request.log)?;
        // One that was deleted and made again is another log.
        let looks = call.service.looks.at(log.topic.id);
        let now = looks.recent(period, || look(&call, &log)).await.seen.clone();
        _kept = Some(looks);
        if told.as_ref() != Some(&now) {
            permit.send(call.unread.reply(now.clone()));
            told = Some(now);
        }
    }
}

/// What there is to tell of a log now, as it is sent.
fn look(call: &Call, log: &FoundLog) -> impl Future<Output = Bytes> + Send + use<> {
    call.service.metrics.looks.inc();
    look_at(Arc::clone(call.node()), Arc::clone(&log.topic))
}

async fn look_at(node: Arc<Node>, topic: Arc<TopicImage>) -> Bytes {
    let numbers: Vec<PartitionId> = topic.numbered_partitions().map(|(id, _)| id).collect();
    let mut partitions = Vec::with_capacity(numbers.len());
    for numbers in numbers.chunks(ASKED_AT_ONCE) {
        let mut asked = tokio::task::JoinSet::new();
        for (index, number) in numbers.iter().enumerate() {
            let partition = Partition { topic: topic.id, number: *number };
            let node = Arc::clone(&node);
            asked.spawn(async move { (index, extent(&node, partition).await) });
        }
        let mut extents = vec![None; numbers.len()];
        while let Some(looked) = asked.join_next().await {
            if let Ok((index, extent)) = looked {
                extents[index] = extent.ok();
            }
        }
        for (number, extent) in numbers.iter().zip(extents) {
            partitions.push(told_of(&topic, *number, extent));
        }
    }
    let id = Bytes::copy_from_slice(&topic.id.0.0);
    framed(&InfoReply { log: topic.name.as_str().to_owned(), id, partitions })
}

/// Where a partition begins and ends.
///
/// # Errors
///
/// Its leader cannot be asked.
pub(crate) async fn extent(
    node: &Arc<Node>,
    partition: Partition,
) -> Result<(Offset, Offset), Failure> {
    let start = node.search_anywhere(partition, Search::Start).await?;
    let end = node.search_anywhere(partition, Search::End).await?;
    Ok((start, end.max(start)))
}

fn told_of(
    topic: &TopicImage,
    number: PartitionId,
    extent: Option<(Offset, Offset)>,
) -> PartitionInfo {
    let ids = |brokers: &[BrokerId]| brokers.iter().map(|it| it.0).collect();
    let image = topic.partition(number);
    PartitionInfo {
        partition: number.0.unsigned_abs(),
        leader: image.and_then(|image| image.leader).map(|leader| leader.0),
        replicas: image.map(|image| ids(&image.replicas)).unwrap_or_default(),
        in_sync: image.map(|image| ids(&image.isr)).unwrap_or_default(),
        start_offset: extent.map(|(start, _)| start.0),
        end_offset: extent.map(|(_, end)| end.0),
    }
}
