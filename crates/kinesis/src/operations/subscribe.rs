//! SubscribeToShard: records as they come, for five minutes.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use logway_metadata::record::Shard;
use logway_model::{Offset, PartitionId, TimestampMs, TopicId};
use logway_node::access::Operation as Permission;
use logway_node::memory::BudgetShare;
use logway_node::streams::anywhere::PartitionWish;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout_at};

use super::consumers::consumer_of_arn;
use super::get::{child_shards, ends_before, millis_behind, read_from};
use super::iterators::{Position, begin};
use super::records::ShardRecords;
use super::throughput::Pace;
use crate::body::charged;
use crate::call::{Call, FoundStream, Reply};
use crate::error::ApiError;
use crate::event_stream::{FrameKind, frame};
use crate::json;
use crate::names::shard_id;
use crate::sequence::SequenceNumber;
use crate::service::{SUBSCRIPTIONS_MAX, Subscription, Unsubscribed};
use crate::shapes::SUBSCRIBE_TO_SHARD_EVENT;
use crate::stream_metrics::Counted;
use crate::validate::conforms;
use crate::value::Structure;

/// How long a subscription lives.
const LIFE: Duration = Duration::from_secs(300);

/// A second subscription within this time is refused.
const YOUNG: Duration = Duration::from_secs(5);

/// A subscriber hears something at least so often.
const QUIET_MAX: Duration = Duration::from_secs(4);

/// How long a subscriber may take to read an event.
const SEND_MAX: Duration = Duration::from_secs(30);

/// How much is read at a time. The first batch may be larger.
const READ_BYTES: u32 = 1 << 20;

/// A read holds its batches, the records in them, and the event.
const HELD_BYTES: usize = 3 * READ_BYTES as usize;

/// The most records of an event.
const RECORDS_MAX: usize = 10_000;

pub(super) async fn subscribe_to_shard(call: &Call) -> Result<Reply, ApiError> {
    let arn = call.input.text("ConsumerARN").unwrap_or_default();
    let (found, consumer) = consumer_of_arn(call, arn, Permission::Read)?;
    let id = call.input.text("ShardId").unwrap_or_default();
    let (number, shard) = call.shard(&found, id)?;
    let none = Structure::new();
    let position = call.input.structure("StartingPosition").unwrap_or(&none);
    let position = Position {
        kind: position.text("Type").unwrap_or_default(),
        sequence_number: position.text("SequenceNumber"),
        time_ms: position.timestamp("Timestamp"),
    };
    let offset = begin(call, &found, (number, shard), position).await?;
    let subscriber = (found.id(), consumer.clone(), number);
    let subscribed = call.service.subscriptions.subscribe(subscriber, YOUNG);
    let counted = match &subscribed {
        Ok(_) => Some(Counted::SubscribeSuccess),
        Err(Unsubscribed::AtOdds) => Some(Counted::SubscribeRateExceeded),
        Err(Unsubscribed::TooMany) => None,
    };
    let metrics = &call.service.stream_metrics;
    counted.into_iter().for_each(|counted| metrics.count(found.id(), &[(counted, 1)]));
    let subscription = subscribed.map_err(|reason| match reason {
        Unsubscribed::AtOdds => ApiError::in_use(format!(
            "Another active subscription exists for this consumer: {}:{}:{}:{consumer}",
            call.account().id,
            found.name(),
            shard_id(number)
        )),
        Unsubscribed::TooMany => ApiError::limit(format!(
            "{SUBSCRIPTIONS_MAX} subscriptions are open at the node that was asked. Ask another one."
        )),
    })?;
    let (events, receiver) = mpsc::channel(1);
    let follower = Follower {
        call: Call {
            service: Arc::clone(&call.service),
            operation: call.operation,
            input: Structure::new(),
            caller: call.caller.clone(),
            give_up: Arc::clone(&call.give_up),
        },
        stream: found.id(),
        number,
        next: offset,
        pace: Pace::of(call.service.node.settings.kinesis.shard_rates.read_bytes),
        events,
    };
    tokio::spawn(follower.run(subscription));
    Ok(Reply::Events(receiver))
}

/// Reads a shard for a subscriber.
struct Follower {
    call: Call,
    stream: TopicId,
    number: PartitionId,
    next: Offset,
    pace: Pace,
    events: mpsc::Sender<Bytes>,
}

/// Why a subscription is over.
enum Over {
    /// As it should be.
    Done,
    /// The subscriber is told this.
    Failed(ApiError),
}

impl Follower {
    async fn run(mut self, mut subscription: Subscription) {
        let mut stopping = self.call.service.stopping.clone();
        let events = self.events.clone();
        let over = tokio::select! {
            over = self.follow() => over,
            () = subscription.displaced() => {
                let message = "Another subscription of the consumer has taken its place.";
                Over::Failed(ApiError::in_use(message))
            }
            _ = stopping.wait_for(|&stop| stop) => Over::Done,
            () = events.closed() => return,
        };
        if let Over::Failed(error) = over {
            let payload = json::encode(&Structure::new().with_some("message", error.message));
            let last = frame(FrameKind::Exception(exception_type(error.name)), &payload);
            _ = tokio::time::timeout(SEND_MAX, events.send(last)).await;
        }
    }

    async fn follow(&mut self) -> Over {
        let until = Instant::now() + LIFE;
        if !self.send(frame(FrameKind::Event("initial-response"), b"{}")).await {
            return Over::Done;
        }
        let mut heard_at = Instant::now();
        // A new subscriber learns at once where it is.
        let mut is_first = true;
        while Instant::now() < until {
            match self.step(until, heard_at, is_first).await {
                Ok(Some(Event { payload, is_last, held, told })) => {
                    let event = frame(FrameKind::Event("SubscribeToShardEvent"), &payload);
                    drop(payload);
                    // What was taken to read goes back when the event itself is charged, which waits for the subscriber.
                    let memory = &self.call.service.node.memory;
                    let event = charged(event, memory, &self.call.give_up).await;
                    drop(held);
                    if !self.send(event).await {
                        return Over::Done;
                    }
                    self.count(told);
                    if is_last {
                        return Over::Done;
                    }
                    self.pace.wait(until).await;
                    (heard_at, is_first) = (Instant::now(), false);
                }
                Ok(None) => {}
                Err(error) => return Over::Failed(error),
            }
        }
        Over::Done
    }

    /// Counts an event that the subscriber has taken.
    fn count(&mut self, told: Told) {
        self.pace.note(told.bytes);
        let metrics = &self.call.service.stream_metrics;
        let counts = [
            (Counted::SubscribeEvents, 1),
            (Counted::SubscribeBytes, told.bytes as u64),
            (Counted::SubscribeRecords, told.records as u64),
        ];
        metrics.count(self.stream, &counts);
        metrics.note_behind((self.stream, self.number), told.behind_ms);
    }

    /// Whether the subscriber took it in time.
    async fn send(&self, frame: Bytes) -> bool {
        let sent = timeout_at(Instant::now() + SEND_MAX, self.events.send(frame)).await;
        matches!(sent, Ok(Ok(())))
    }

    /// The next event; none where there is nothing to say yet.
    async fn step(
        &mut self,
        until: Instant,
        heard_at: Instant,
        is_first: bool,
    ) -> Result<Option<Event>, ApiError> {
        let call = &self.call;
        let mut images = call.service.node.quorum.watch();
        images.mark_unchanged();
        let found = call.stream_of_id(self.stream, Permission::Read)?;
        let found = found.ok_or_else(|| ApiError::not_found("The stream was deleted."))?;
        let Some(shard) = found.stream().shard(self.number).cloned() else {
            return Err(ApiError::not_found("The shard does not exist."));
        };
        let due = (heard_at + QUIET_MAX).min(until);
        let wait = match is_first || ends_before(&shard, self.next) {
            true => Duration::ZERO,
            false => due.saturating_duration_since(Instant::now()),
        };
        if !wait.is_zero() && !self.wait_for_more(&found, wait, images).await? {
            return Ok(None);
        }
        let held = call.service.node.memory.building.take(HELD_BYTES).await;
        let wish = PartitionWish {
            offset: self.next,
            max_bytes: READ_BYTES,
            first_max_bytes: u32::MAX,
            wait: Duration::ZERO,
        };
        let read = read_from(call, &found, self.number, wish).await?;
        let mut records = ShardRecords::from(self.next.max(read.start));
        let limits = (RECORDS_MAX, 2 * READ_BYTES as usize);
        records.add(call, (self.number, &shard), read.batches, limits).await?;
        self.next = records.next;
        let is_last = ends_before(&shard, self.next);
        let is_due = is_first || is_last || Instant::now() >= due;
        if records.records.is_empty() && !is_due {
            return Ok(None);
        }
        let behind_ms = millis_behind(&shard, &records, read.end, call.now_ms());
        let told = Told { records: records.records.len(), bytes: records.size_bytes, behind_ms };
        let payload = self.payload(&found, &shard, records, behind_ms, is_last);
        Ok(Some(Event { payload, is_last, held, told }))
    }

    /// Waits for records, without reading any, or until something is to be said. It is no use to go on where the stream has
    /// changed: the shard may have ended. Other changes of the metadata do not disturb the wait, which another node may have
    /// begun.
    async fn wait_for_more(
        &self,
        found: &FoundStream,
        wait: Duration,
        mut images: watch::Receiver<impl Send + Sync>,
    ) -> Result<bool, ApiError> {
        let wish =
            PartitionWish { offset: self.next, max_bytes: 0, first_max_bytes: u32::MAX, wait };
        let mut waiting = pin!(read_from(&self.call, found, self.number, wish));
        loop {
            tokio::select! {
                read = &mut waiting => return read.map(|_| true),
                changed = images.changed() => {
                    let now = self.call.stream_of_id(self.stream, Permission::Read)?;
                    let is_same = now.is_some_and(|now| now.is_as_before(found));
                    if changed.is_err() || !is_same {
                        return Ok(false);
                    }
                }
            }
        }
    }

    fn payload(
        &self,
        found: &FoundStream,
        shard: &Shard,
        records: ShardRecords,
        behind_ms: i64,
        is_last: bool,
    ) -> Vec<u8> {
        let event =
            Structure::new().with("Records", records.records).with("MillisBehindLatest", behind_ms);
        let event = match is_last {
            true => event.with("ChildShards", child_shards(found, self.number)),
            // Behind it nothing was seen yet: a subscriber that comes back says AFTER_SEQUENCE_NUMBER or AT.
            false => event
                .with("ContinuationSequenceNumber", self.continuation(shard, records.last_time)),
        };
        debug_assert!(conforms(&SUBSCRIBE_TO_SHARD_EVENT, &event.clone().into()), "{event:?}");
        json::encode(&event)
    }

    /// The number of the last record that was seen or passed over; before the first one, the start of the shard.
    fn continuation(&self, shard: &Shard, time: Option<TimestampMs>) -> String {
        match self.next.0.checked_sub(1).filter(|last| *last >= 0) {
            Some(last) => {
                let time = time.unwrap_or(TimestampMs(self.call.now_ms()));
                SequenceNumber::of_record(self.number, shard, Offset(last), time).to_string()
            }
            None => SequenceNumber::start_of(self.number, shard).to_string(),
        }
    }
}

/// What an error is called in an event stream: the model has these there, and some of KMS. SDKs take other names for a broken
/// stream. The message says what it was.
fn exception_type(name: &str) -> &'static str {
    match name {
        "ResourceNotFoundException" => "ResourceNotFoundException",
        "ResourceInUseException" => "ResourceInUseException",
        _ => "InternalFailureException",
    }
}

struct Event {
    payload: Vec<u8>,
    /// Nothing comes behind it.
    is_last: bool,
    /// The memory that was taken to make it.
    held: BudgetShare,
    told: Told,
}

/// What is counted of an event.
#[derive(Debug, Clone, Copy)]
struct Told {
    records: usize,
    bytes: usize,
    behind_ms: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_streams_have_only_errors_of_the_model() {
        for (name, told) in [
            ("InternalFailure", "InternalFailureException"),
            ("ServiceUnavailable", "InternalFailureException"),
            ("ResourceInUseException", "ResourceInUseException"),
            ("ResourceNotFoundException", "ResourceNotFoundException"),
        ] {
            assert_eq!(exception_type(name), told);
        }
    }
}
