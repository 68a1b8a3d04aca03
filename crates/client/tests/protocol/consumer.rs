//! A consumer whose broker sends partial batches, damaged ones, and none.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use bytes::Bytes;
use logway_client::{ClientError, Consumer, ConsumerOptions, FetchEvent, StartAt};
use logway_model::{
    ErrorCode, LeaderEpoch, Offset, PartitionId, TimestampMs, TopicPartition, Uuid,
};
use logway_record::{BatchBuilder, Compression};
use logway_wire::ApiKey;
use logway_wire::messages::fetch_response::{FetchableTopicResponse, PartitionData};
use logway_wire::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use logway_wire::messages::metadata_response::MetadataResponseTopic;
use logway_wire::messages::{FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse};

use crate::fake_broker::{Action, Asked, FakeBroker, TOPIC_ID, metadata, topic, topic_metadata};

/// What the partition holds: offsets 10 to 19, two to a batch.
const START: i64 = 10;
const END: i64 = 20;

fn batch(base_offset: i64) -> Bytes {
    let mut builder =
        BatchBuilder::new(Compression::Gzip).with_assignment(Offset(base_offset), LeaderEpoch(0));
    for offset in base_offset..base_offset + 2 {
        let value = offset.to_string();
        builder.append(TimestampMs(1), None, Some(value.as_bytes()), &[]).expect("small");
    }
    builder.finish().expect("two records")
}

/// The offset that a Fetch asks for.
fn fetch_offset(asked: &Asked) -> i64 {
    asked.request::<FetchRequest>().topics[0].partitions[0].fetch_offset
}

/// Whole batches from the one that holds `offset`, cut off after `bytes_max`.
fn records_from(offset: i64, bytes_max: usize) -> Bytes {
    let batches: Vec<u8> = (offset / 2 * 2..END).step_by(2).flat_map(batch).collect();
    Bytes::from(batches).slice_to(bytes_max)
}

trait SliceTo {
    fn slice_to(self, bytes_max: usize) -> Self;
}

impl SliceTo for Bytes {
    fn slice_to(mut self, bytes_max: usize) -> Bytes {
        self.truncate(bytes_max);
        self
    }
}

fn fetched(asked: &Asked, error: ErrorCode, records: Bytes) -> Action {
    fetched_of(asked, error, records, TOPIC_ID)
}

fn fetched_of(asked: &Asked, error: ErrorCode, records: Bytes, topic_id: Uuid) -> Action {
    let partition = PartitionData {
        partition_index: asked.request::<FetchRequest>().topics[0].partitions[0].partition,
        error_code: error.code(),
        high_watermark: END,
        records: Some(records.into()),
        ..PartitionData::default()
    };
    asked.answer(&FetchResponse {
        responses: vec![FetchableTopicResponse {
            topic_id,
            partitions: vec![partition],
            ..FetchableTopicResponse::default()
        }],
        ..FetchResponse::default()
    })
}

fn listed(asked: &Asked, start: i64) -> Action {
    listed_or_refused(asked, start, ErrorCode::None)
}

fn listed_or_refused(asked: &Asked, start: i64, error: ErrorCode) -> Action {
    let request: ListOffsetsRequest = asked.request();
    let is_start = request.topics[0].partitions[0].timestamp == -2;
    let partition = ListOffsetsPartitionResponse {
        partition_index: request.topics[0].partitions[0].partition_index,
        error_code: error.code(),
        offset: if is_start { start } else { END },
        ..ListOffsetsPartitionResponse::default()
    };
    asked.answer(&ListOffsetsResponse {
        topics: vec![ListOffsetsTopicResponse {
            name: request.topics[0].name.clone(),
            partitions: vec![partition],
            ..ListOffsetsTopicResponse::default()
        }],
        ..ListOffsetsResponse::default()
    })
}

/// A broker that answers each Fetch as the script says, which gets the number of the Fetch.
async fn broker(mut fetch: impl FnMut(&Asked, usize) -> Action + Send + 'static) -> FakeBroker {
    let mut fetches = 0;
    FakeBroker::start(move |asked| match asked.api_key {
        ApiKey::ListOffsets => listed(asked, START),
        ApiKey::Fetch => {
            fetches += 1;
            fetch(asked, fetches - 1)
        }
        _ => Action::Usual,
    })
    .await
}

/// Reads to the end and returns the records' values, or `skipped FROM-TO`.
async fn read(broker: &FakeBroker, start_at: StartAt) -> Result<Vec<String>, ClientError> {
    let mut seen = Vec::new();
    read_partitions(broker, &[0], start_at, &mut seen).await.map(|()| seen)
}

/// The same for several partitions, whose records may come in any order; what came before an error
/// counts.
async fn read_partitions(
    broker: &FakeBroker,
    ids: &[i32],
    start_at: StartAt,
    seen: &mut Vec<String>,
) -> Result<(), ClientError> {
    let partition = |&id| (TopicPartition::new(topic(), PartitionId(id)), start_at);
    let assignment: BTreeMap<_, _> = ids.iter().map(partition).collect();
    let options = ConsumerOptions {
        stops_at_end: true,
        patience: Duration::from_millis(500),
        ..ConsumerOptions::default()
    };
    let mut consumer = Consumer::open(&broker.client(), &assignment, options).await?;
    while let Some(events) = consumer.next().await? {
        for event in events {
            match event {
                FetchEvent::Skipped { from, to, .. } => seen.push(format!("skipped {from}-{to}")),
                FetchEvent::Recreated { from, to, .. } => {
                    seen.push(format!("recreated {from}-{to}"));
                }
                FetchEvent::Records(records) => {
                    for record in records.records() {
                        let record = record?;
                        let value = record.value.expect("a value");
                        assert_eq!(value, record.offset.to_string());
                        seen.push(String::from_utf8_lossy(&value).into_owned());
                    }
                }
            }
        }
    }
    Ok(())
}

/// A broker that leads partition 0, and partition 1 from a number of looks at the metadata on.
async fn broker_that_leads_both_after(looks_min: usize) -> FakeBroker {
    broker_of_both(looks_min, |asked| match asked.api_key {
        ApiKey::ListOffsets => listed(asked, START),
        ApiKey::Fetch => {
            let records = records_from(fetch_offset(asked), usize::MAX);
            fetched(asked, ErrorCode::None, records)
        }
        _ => Action::Usual,
    })
    .await
}

/// The same with a script for everything but metadata.
async fn broker_of_both(
    looks_min: usize,
    mut script: impl FnMut(&Asked) -> Action + Send + 'static,
) -> FakeBroker {
    let port = Arc::new(AtomicU16::new(0));
    let own_port = Arc::clone(&port);
    let mut looks = 0;
    let broker = FakeBroker::start(move |asked| match asked.api_key {
        ApiKey::Metadata => {
            let mut topic = topic_metadata();
            let mut second = topic.partitions[0].clone();
            second.partition_index = 1;
            looks += 1;
            second.leader_id = if looks >= looks_min { 1 } else { -1 };
            topic.partitions.push(second);
            asked.answer(&metadata(own_port.load(Ordering::Relaxed), topic))
        }
        _ => script(asked),
    })
    .await;
    port.store(broker.address.port, Ordering::Relaxed);
    broker
}

#[tokio::test]
async fn a_partition_without_a_leader_keeps_nobody_from_reading_the_others() {
    let mut seen = Vec::new();
    let broker = broker_that_leads_both_after(usize::MAX).await;
    let outcome = read_partitions(&broker, &[0, 1], StartAt::Start, &mut seen).await;
    assert_eq!(seen, offsets(START));
    let second = TopicPartition::new(topic(), PartitionId(1));
    assert!(
        matches!(&outcome, Err(ClientError::NoLeader { partition }) if *partition == second),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn a_partition_is_read_as_soon_as_it_has_a_leader() {
    let mut seen = Vec::new();
    let broker = broker_that_leads_both_after(3).await;
    let outcome = read_partitions(&broker, &[0, 1], StartAt::Offset(Offset(3)), &mut seen).await;
    outcome.expect("both in the end");
    seen.sort();
    let mut expected = [offsets(START), offsets(START)].concat();
    expected.extend(["skipped 3-10", "skipped 3-10"].map(str::to_owned));
    expected.sort();
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn a_leader_that_does_not_lead_yet_keeps_nobody_from_reading_the_others() {
    // Partition 0 is read to its end while the leader of partition 1 says that it is none.
    let (mut is_refused, mut is_first_read) = (false, false);
    let broker = broker_of_both(2, move |asked| match asked.api_key {
        ApiKey::ListOffsets => {
            let request: ListOffsetsRequest = asked.request();
            let is_second = request.topics[0].partitions[0].partition_index == 1;
            is_refused |= is_second;
            let error = match is_second && !is_first_read {
                true => ErrorCode::NotLeaderOrFollower,
                false => ErrorCode::None,
            };
            listed_or_refused(asked, START, error)
        }
        ApiKey::Fetch => {
            let offset = fetch_offset(asked);
            is_first_read |= offset == END - 2;
            let bytes_max = if is_refused { batch(START).len() } else { 0 };
            fetched(asked, ErrorCode::None, records_from(offset, bytes_max))
        }
        _ => Action::Usual,
    })
    .await;
    let mut seen = Vec::new();
    let outcome = read_partitions(&broker, &[0, 1], StartAt::Start, &mut seen).await;
    outcome.expect("both in the end");
    assert_eq!(seen, [offsets(START), offsets(START)].concat());
}

#[tokio::test]
async fn a_topic_that_was_deleted_is_told_from_one_without_a_leader() {
    let port = Arc::new(AtomicU16::new(0));
    let own_port = Arc::clone(&port);
    let mut is_read = false;
    let broker = FakeBroker::start(move |asked| match asked.api_key {
        ApiKey::Metadata => {
            let mut topic = topic_metadata();
            if is_read {
                topic.error_code = ErrorCode::UnknownTopicOrPartition.code();
                topic.partitions.clear();
            }
            asked.answer(&metadata(own_port.load(Ordering::Relaxed), topic))
        }
        ApiKey::ListOffsets => listed(asked, START),
        ApiKey::Fetch => {
            is_read = true;
            fetched(asked, ErrorCode::UnknownTopicId, Bytes::new())
        }
        _ => Action::Usual,
    })
    .await;
    port.store(broker.address.port, Ordering::Relaxed);
    let error = read(&broker, StartAt::Start).await.expect_err("it is gone");
    assert_eq!(error.code(), Some(ErrorCode::UnknownTopicOrPartition), "{error}");
    assert!(error.to_string().contains("topic 't'"), "{error}");
}

fn offsets(from: i64) -> Vec<String> {
    (from..END).map(|offset| offset.to_string()).collect()
}

#[tokio::test]
async fn batches_are_cut_to_what_is_wanted() {
    let broker = broker(|asked, _| {
        let records = records_from(fetch_offset(asked), usize::MAX);
        fetched(asked, ErrorCode::None, records)
    })
    .await;
    // Offset 13 lies inside a batch, which comes whole.
    for (start_at, from) in [
        (StartAt::Start, START),
        (StartAt::Offset(Offset(13)), 13),
        (StartAt::BeforeEnd(3), 17),
        (StartAt::End, END),
    ] {
        let seen = read(&broker, start_at).await.expect("a healthy broker");
        assert_eq!(seen, offsets(from), "{start_at:?}");
    }
    let beyond = read(&broker, StartAt::Offset(Offset(END + 1))).await;
    assert!(matches!(beyond, Err(ClientError::OffsetOutOfRange { .. })), "{beyond:?}");
}

#[tokio::test]
async fn a_batch_cut_off_at_the_end_is_asked_for_again() {
    let broker = broker(|asked, _| {
        let bytes_max = batch(START).len() * 5 / 2;
        let records = records_from(fetch_offset(asked), bytes_max);
        fetched(asked, ErrorCode::None, records)
    })
    .await;
    assert_eq!(read(&broker, StartAt::Start).await.expect("in pieces"), offsets(START));
}

#[tokio::test]
async fn passing_errors_and_broken_connections_are_overcome() {
    let broker = broker(|asked, number| match number {
        0 => fetched(asked, ErrorCode::NotLeaderOrFollower, Bytes::new()),
        1 => Action::Close,
        2 => fetched(asked, ErrorCode::None, Bytes::new()),
        3 => fetched(asked, ErrorCode::UnknownTopicId, Bytes::new()),
        _ => {
            let records = records_from(fetch_offset(asked), batch(START).len());
            fetched(asked, ErrorCode::None, records)
        }
    })
    .await;
    assert_eq!(read(&broker, StartAt::Start).await.expect("in the end"), offsets(START));
}

#[tokio::test]
async fn records_that_are_gone_are_reported() {
    let broker = broker(|asked, _| {
        let records = records_from(fetch_offset(asked), usize::MAX);
        fetched(asked, ErrorCode::None, records)
    })
    .await;
    let seen = read(&broker, StartAt::Offset(Offset(3))).await.expect("what is left");
    assert_eq!(seen[0], "skipped 3-10");
    assert_eq!(seen[1..], offsets(START));
}

#[tokio::test]
async fn records_that_vanish_while_reading_are_reported() {
    // The partition begins at 10 when the consumer starts, and at 14 soon after.
    let mut start = START;
    let broker = FakeBroker::start(move |asked| match asked.api_key {
        ApiKey::ListOffsets => listed(asked, start),
        ApiKey::Fetch if fetch_offset(asked) < 14 => {
            start = 14;
            fetched(asked, ErrorCode::OffsetOutOfRange, Bytes::new())
        }
        ApiKey::Fetch => {
            let records = records_from(fetch_offset(asked), usize::MAX);
            fetched(asked, ErrorCode::None, records)
        }
        _ => Action::Usual,
    })
    .await;
    let seen = read(&broker, StartAt::Start).await.expect("what is left");
    assert_eq!(seen[0], "skipped 10-14");
    assert_eq!(seen[1..], offsets(14));
}

/// A broker whose topic is another one, which begins at 10, as soon as the first was read up to 14; a request about
/// the former one is refused.
async fn broker_of_another_topic_after_14() -> FakeBroker {
    let port = Arc::new(AtomicU16::new(0));
    let own_port = Arc::clone(&port);
    let mut topic_id = TOPIC_ID;
    let broker = FakeBroker::start(move |asked| match asked.api_key {
        ApiKey::Metadata => {
            let topic = MetadataResponseTopic { topic_id, ..topic_metadata() };
            asked.answer(&metadata(own_port.load(Ordering::Relaxed), topic))
        }
        ApiKey::ListOffsets => listed(asked, START),
        ApiKey::Fetch => {
            let (asked_id, from) =
                (asked.request::<FetchRequest>().topics[0].topic_id, fetch_offset(asked));
            if asked_id == TOPIC_ID && from >= 14 {
                topic_id = Uuid([8; 16]);
                return fetched_of(asked, ErrorCode::UnknownTopicId, Bytes::new(), asked_id);
            }
            let bytes_max = if asked_id == TOPIC_ID { batch(START).len() } else { usize::MAX };
            fetched_of(asked, ErrorCode::None, records_from(from, bytes_max), asked_id)
        }
        _ => Action::Usual,
    })
    .await;
    port.store(broker.address.port, Ordering::Relaxed);
    broker
}

#[tokio::test]
async fn a_topic_that_was_deleted_and_made_again_is_read_from_its_start() {
    let broker = broker_of_another_topic_after_14().await;
    let seen = read(&broker, StartAt::Start).await.expect("both of them");
    let first = ["10", "11", "12", "13", "recreated 14-10"].map(str::to_owned);
    assert_eq!(seen, [first.to_vec(), offsets(START)].concat());
}

#[tokio::test]
async fn damaged_records_are_an_error_and_not_a_loop() {
    let whole = batch(START);
    let mut flipped = whole.to_vec();
    flipped[70] ^= 1;
    let mut other_magic = whole.to_vec();
    other_magic[16] = 1;
    let old = batch(START - 2);
    for (name, records) in [
        ("a flipped bit", flipped.into()),
        ("a format that is not supported", Bytes::from(other_magic)),
        ("less than a batch", whole.slice(..40)),
        ("only what was not asked for", old),
    ] {
        let broker = broker(move |asked, _| fetched(asked, ErrorCode::None, records.clone())).await;
        let outcome = read(&broker, StartAt::Start).await;
        assert!(
            matches!(outcome, Err(ClientError::UnreadableRecords { .. })),
            "{name}: {outcome:?}"
        );
    }
}

#[tokio::test]
async fn what_is_whole_before_what_is_not_is_read() {
    // As of a segment with something behind its last batch: the next segment is good.
    let broker = broker(|asked, _| {
        let from = fetch_offset(asked);
        let mut records = records_from(from, usize::MAX).to_vec();
        if from < 14 {
            records.truncate(
                records_from(from, usize::MAX).len() - records_from(14, usize::MAX).len(),
            );
            records.extend([0xfe; 200]);
        }
        fetched(asked, ErrorCode::None, records.into())
    })
    .await;
    assert_eq!(read(&broker, StartAt::Start).await.expect("all"), offsets(START));
}

#[tokio::test]
async fn an_error_that_stays_ends_the_consumer() {
    let broker =
        broker(|asked, _| fetched(asked, ErrorCode::TopicAuthorizationFailed, Bytes::new())).await;
    let error = read(&broker, StartAt::Start).await.expect_err("no rights");
    assert_eq!(error.code(), Some(ErrorCode::TopicAuthorizationFailed));
    assert!(error.to_string().contains("t-0"), "{error}");
}
