//! A producer whose broker refuses, forgets to answer, and breaks connections.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use logway_client::{
    Acks, ClientError, NewRecord, ProduceSummary, Producer, ProducerOptions, Unacknowledged,
};
use logway_model::{ErrorCode, Offset, TimestampMs};
use logway_record::{Batch, DecodeLimit};
use logway_wire::ApiKey;
use logway_wire::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use logway_wire::messages::{InitProducerIdResponse, ProduceRequest, ProduceResponse};

use crate::fake_broker::{Action, Asked, FakeBroker, TOPIC_ID, topic};

/// What the broker does with a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Store,
    /// Stores it, but the answer never comes.
    StoreAndClose,
    Refuse(ErrorCode),
    Close,
}

/// A partition as Kafka keeps it for one producer: it stores a batch whose sequence comes next,
/// knows repetitions, and refuses gaps.
#[derive(Debug, Default)]
struct Partition {
    values: Vec<String>,
    /// The fates of the next batches; all others are stored.
    fates: VecDeque<Fate>,
}

impl Partition {
    fn handle(&mut self, asked: &Asked) -> Action {
        let batch = batch(asked);
        let fate = self.fates.pop_front().unwrap_or(Fate::Store);
        let mut answer = PartitionProduceResponse::default();
        match fate {
            Fate::Close => return Action::Close,
            Fate::Refuse(error) => answer.error_code = error.code(),
            Fate::Store | Fate::StoreAndClose => self.store(&batch, &mut answer),
        }
        if fate == Fate::StoreAndClose {
            return Action::Close;
        }
        asked.answer(&ProduceResponse {
            responses: vec![TopicProduceResponse {
                topic_id: TOPIC_ID,
                partition_responses: vec![answer],
                ..TopicProduceResponse::default()
            }],
            ..ProduceResponse::default()
        })
    }

    fn store(&mut self, batch: &Batch, answer: &mut PartitionProduceResponse) {
        let next = i32::try_from(self.values.len()).expect("few records");
        let sequence = batch.header().base_sequence.0;
        let is_idempotent = batch.header().producer_id.is_some();
        if is_idempotent && sequence > next {
            answer.error_code = ErrorCode::OutOfOrderSequenceNumber.code();
            return;
        }
        let is_repeated = is_idempotent && sequence < next;
        answer.base_offset = i64::from(if is_repeated { sequence } else { next });
        if !is_repeated {
            self.values.extend(values(batch));
        }
    }
}

fn batch(asked: &Asked) -> Batch {
    let request: ProduceRequest = asked.request();
    let partition = &request.topic_data[0].partition_data[0];
    let records = partition.records.clone().and_then(|records| records.into_bytes());
    let batch = Batch::parse(records.expect("records")).expect("one batch");
    batch.verify_crc().expect("a good batch");
    batch
}

fn values(batch: &Batch) -> Vec<String> {
    let records = batch.records(DecodeLimit::DEFAULT).expect("a known codec");
    let text = |value: Option<bytes::Bytes>| {
        String::from_utf8_lossy(&value.unwrap_or_default()).into_owned()
    };
    records.map(|record| text(record.expect("a record").value)).collect()
}

/// Writes the numbers to `count`, and returns what the producer says and what the broker has.
async fn produce(
    count: usize,
    fates: &[Fate],
    options: ProducerOptions,
) -> (Result<ProduceSummary, ClientError>, Vec<String>) {
    let (broker, partition) = broker_with(fates).await;
    let outcome = send_numbers(&broker, count, options).await;
    let values = partition.lock().expect("no panic").values.clone();
    (outcome, values)
}

/// A broker with these fates for the next batches.
async fn broker_with(fates: &[Fate]) -> (FakeBroker, Arc<Mutex<Partition>>) {
    let fates = fates.iter().copied().collect();
    let partition = Arc::new(Mutex::new(Partition { values: Vec::new(), fates }));
    let script = Arc::clone(&partition);
    let broker = FakeBroker::start(move |asked| match asked.api_key {
        ApiKey::Produce => script.lock().expect("no panic").handle(asked),
        ApiKey::InitProducerId => asked.answer(&InitProducerIdResponse {
            producer_id: 5,
            ..InitProducerIdResponse::default()
        }),
        _ => Action::Usual,
    })
    .await;
    (broker, partition)
}

async fn send_numbers(
    broker: &FakeBroker,
    count: usize,
    options: ProducerOptions,
) -> Result<ProduceSummary, ClientError> {
    let mut producer = Producer::open(broker.client(), topic(), options).await?;
    append_numbers(&mut producer, count).await?;
    producer.close().await
}

async fn append_numbers(producer: &mut Producer, count: usize) -> Result<(), ClientError> {
    for number in 0..count {
        let value = number.to_string();
        let record = NewRecord {
            partition: None,
            timestamp: TimestampMs(1),
            key: None,
            value: Some(value.as_bytes()),
            headers: &[],
        };
        producer.send(record).await?;
    }
    Ok(())
}

fn numbers(count: usize) -> Vec<String> {
    (0..count).map(|number| number.to_string()).collect()
}

/// Two or three records to a batch.
fn options() -> ProducerOptions {
    ProducerOptions { batch_bytes: 140, ..ProducerOptions::default() }
}

#[tokio::test]
async fn records_arrive_once_and_in_order_whatever_goes_wrong() {
    let refuse = Fate::Refuse;
    let scripts: [&[Fate]; 6] = [
        &[],
        &[refuse(ErrorCode::NotLeaderOrFollower), refuse(ErrorCode::NotLeaderOrFollower)],
        &[Fate::StoreAndClose, Fate::Close, Fate::StoreAndClose],
        &[Fate::Store, refuse(ErrorCode::NotEnoughReplicas)],
        &[Fate::Store, Fate::Store, refuse(ErrorCode::RequestTimedOut), Fate::StoreAndClose],
        &[
            Fate::Store,
            Fate::StoreAndClose,
            Fate::Store,
            refuse(ErrorCode::NotLeaderOrFollower),
            Fate::Close,
        ],
    ];
    for fates in scripts {
        let (outcome, values) = produce(40, fates, options()).await;
        let summary = outcome.unwrap_or_else(|error| panic!("{fates:?}: {error}"));
        assert_eq!(values, numbers(40), "{fates:?}");
        assert_eq!(summary.records, 40, "{fates:?}");
        let partition = summary.partitions.values().next().expect("one partition");
        assert_eq!(partition.first_offset, Some(Offset(0)), "{fates:?}");
        assert_eq!(partition.last_offset, Some(Offset(39)), "{fates:?}");
    }
}

#[tokio::test]
async fn a_batch_that_is_too_large_is_sent_in_halves() {
    let too_large = Fate::Refuse(ErrorCode::MessageTooLarge);
    let options = ProducerOptions { linger: Duration::from_secs(60), ..Default::default() };
    let (outcome, values) = produce(40, &[too_large, too_large], options).await;
    // The whole, its first half, and then the two quarters and the other half.
    assert_eq!(outcome.expect("it fits in the end").batches, 3);
    assert_eq!(values, numbers(40));
}

#[tokio::test]
async fn a_final_refusal_ends_the_producer() {
    let fates = [Fate::Store, Fate::Refuse(ErrorCode::InvalidRecord)];
    let (outcome, values) = produce(40, &fates, options()).await;
    let error = outcome.expect_err("a record was refused");
    assert_eq!(error.code(), Some(ErrorCode::InvalidRecord));
    assert!(error.to_string().contains("t-0"), "{error}");
    assert_eq!(values, numbers(40)[..values.len()]);
}

#[tokio::test]
async fn without_idempotence_nothing_is_sent_twice() {
    let options = || ProducerOptions { acks: Acks::Leader, ..options() };
    let (outcome, values) = produce(4, &[Fate::StoreAndClose], options()).await;
    assert!(matches!(outcome, Err(ClientError::Connection { .. })), "{outcome:?}");
    assert_eq!(values, numbers(4)[..values.len()]);

    let refused = [Fate::Refuse(ErrorCode::NotLeaderOrFollower)];
    let (outcome, values) = produce(40, &refused, options()).await;
    assert_eq!(outcome.expect("it was surely not stored").records, 40);
    assert_eq!(values, numbers(40));
}

#[tokio::test]
async fn the_producer_gives_up_in_time() {
    let refuse = Fate::Refuse(ErrorCode::NotEnoughReplicas);
    let options = ProducerOptions { delivery_timeout: Duration::from_millis(300), ..options() };
    let (outcome, values) = produce(4, &[refuse; 1000], options).await;
    assert_eq!(outcome.expect_err("in vain").code(), Some(ErrorCode::NotEnoughReplicas));
    assert!(values.is_empty());
}

#[tokio::test]
async fn a_full_buffer_makes_the_producer_wait_and_not_fail() {
    let options = ProducerOptions {
        buffer_bytes: 200,
        linger: Duration::from_secs(60),
        ..ProducerOptions::default()
    };
    let (outcome, values) = produce(200, &[], options).await;
    assert_eq!(outcome.expect("all are stored").records, 200);
    assert_eq!(values, numbers(200));
}

/// What is known of the records that are not stored when a batch of the fourth record on, each in a
/// batch of its own, meets its fate.
async fn unacknowledged(fates: &[Fate], acks: Acks) -> (Unacknowledged, ClientError) {
    let options = ProducerOptions {
        acks,
        batch_bytes: 1,
        delivery_timeout: Duration::from_millis(500),
        ..ProducerOptions::default()
    };
    let (broker, partition) = broker_with(&[]).await;
    let mut producer = Producer::open(broker.client(), topic(), options).await.expect("open");
    append_numbers(&mut producer, 3).await.expect("room");
    producer.flush().await.expect("they are stored");
    partition.lock().expect("no panic").fates.extend(fates);
    append_numbers(&mut producer, 3).await.expect("room");
    let error = producer.flush().await.expect_err("one of them is not stored");
    producer.settle().await;
    let (unacknowledged, stored) = (producer.unacknowledged(), producer.summary().records);
    assert_eq!(unacknowledged.records() + stored, 6, "{unacknowledged:?}");
    (unacknowledged, error)
}

#[tokio::test]
async fn what_is_known_of_records_that_are_not_stored_is_told_apart() {
    let refuse = Fate::Refuse;
    let not_leader = refuse(ErrorCode::NotLeaderOrFollower);
    for (fates, acks, expected) in [
        // The others were sent behind it, and are refused as out of order.
        (&[refuse(ErrorCode::InvalidRecord)][..], Acks::All, [3, 0, 0]),
        // One in between: the first is stored.
        (&[Fate::Store, refuse(ErrorCode::InvalidRecord)], Acks::All, [2, 0, 0]),
        (&[refuse(ErrorCode::NotEnoughReplicasAfterAppend)], Acks::Leader, [0, 0, 1]),
        (&[Fate::Close], Acks::Leader, [0, 0, 3]),
        (&[not_leader; 1000], Acks::All, [3, 0, 0]),
        // What became of the first attempt is not known because the second was refused.
        (
            &[&[Fate::StoreAndClose][..], &[refuse(ErrorCode::NotEnoughReplicas); 1000]].concat(),
            Acks::All,
            [0, 0, 3],
        ),
    ] {
        let (known, error) = unacknowledged(fates, acks).await;
        let known = [known.refused_records, known.unsent_records, known.unanswered_records];
        assert_eq!(known, expected, "{:?}: {error}", &fates[..fates.len().min(2)]);
    }
}

#[tokio::test]
async fn what_never_left_is_told_apart() {
    // The first batch of a producer travels alone.
    let options = ProducerOptions {
        batch_bytes: 1,
        delivery_timeout: Duration::from_millis(300),
        ..ProducerOptions::default()
    };
    for (fate, expected) in
        [(Fate::Refuse(ErrorCode::NotEnoughReplicas), [1, 3, 0]), (Fate::Close, [0, 3, 1])]
    {
        let (broker, _) = broker_with(&[fate; 1000]).await;
        let opened = Producer::open(broker.client(), topic(), options.clone()).await;
        let mut producer = opened.expect("open");
        append_numbers(&mut producer, 4).await.expect("room");
        producer.flush().await.expect_err("in vain");
        producer.settle().await;
        let known = producer.unacknowledged();
        let known = [known.refused_records, known.unsent_records, known.unanswered_records];
        assert_eq!(known, expected, "{fate:?}");
    }
}
