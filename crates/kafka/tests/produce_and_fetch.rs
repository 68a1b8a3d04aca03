//! The data path of a broker, from a client's socket to the disk and back.

mod common;

use std::time::{Duration, Instant};

use common::*;
use crc_fast::{CrcAlgorithm, checksum};
use logway_model::{ErrorCode, Offset, ProducerEpoch, ProducerId, Sequence, TimestampMs};
use logway_record::{
    BATCH_HEADER_BYTES, BatchBuilder, BatchHeader, Batches, CRC_COVERS_FROM, Compression,
};
use logway_wire::messages::ListOffsetsRequest;
use logway_wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};

fn numbered(range: std::ops::Range<i64>) -> Vec<(Offset, String)> {
    range.map(|number| (Offset(number), format!("value {number}"))).collect()
}

fn numbered_batch(range: std::ops::Range<i64>) -> bytes::Bytes {
    let values: Vec<String> = range.map(|number| format!("value {number}")).collect();
    batch(&values.iter().map(String::as_str).collect::<Vec<_>>())
}

#[tokio::test]
async fn what_is_acknowledged_is_read_back_in_order_also_after_a_restart() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    create_topic(&connection, "t", 2).await;
    for start in [0, 3, 6] {
        let answer = produce(&connection, "t", 1, numbered_batch(start..start + 3)).await;
        assert_eq!((answer.error_code, answer.base_offset), (0, start));
    }
    let data = fetch(&connection, "t", 1, 0).await;
    assert_eq!(data.high_watermark, 9);
    assert_eq!(values(&data), numbered(0..9));
    drop(connection);
    broker.stop().await;

    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    assert_eq!(values(&fetch(&connection, "t", 1, 0).await), numbered(0..9));
    let answer = produce(&connection, "t", 1, numbered_batch(9..10)).await;
    assert_eq!((answer.error_code, answer.base_offset), (0, 9));
    broker.stop().await;
}

#[tokio::test]
async fn a_fetch_from_within_a_batch_returns_the_whole_batch() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    create_topic(&connection, "t", 1).await;
    produce(&connection, "t", 0, numbered_batch(0..2)).await;
    produce(&connection, "t", 0, numbered_batch(2..5)).await;
    assert_eq!(values(&fetch(&connection, "t", 0, 3).await), numbered(2..5));
    broker.stop().await;
}

#[tokio::test]
async fn requests_of_one_connection_are_answered_in_their_order() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    create_topic(&connection, "t", 1).await;
    let mut pending = Vec::new();
    for number in 0..200 {
        let request = produce_request("t", 0, numbered_batch(number..number + 1));
        pending.push(connection.send(&request, 12).await.expect("is sent"));
    }
    for (expected, answer) in (0..).zip(pending) {
        let answer = answer.response().await.expect("is answered");
        let partition = &answer.responses[0].partition_responses[0];
        assert_eq!((partition.error_code, partition.base_offset), (0, expected));
    }
    assert_eq!(values(&fetch(&connection, "t", 0, 0).await), numbered(0..200));
    broker.stop().await;
}

#[tokio::test]
async fn a_fetch_waits_for_records_and_not_longer() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let (consumer, producer) = (broker.connect().await, broker.connect().await);
    create_topic(&producer, "t", 2).await;

    let mut request = fetch_request("t", &[(0, 0), (1, 0)]);
    request.max_wait_ms = 25_000;
    let started = Instant::now();
    let waiting = consumer.send(&request, 12).await.expect("is sent");
    produce(&producer, "t", 1, numbered_batch(0..1)).await;
    let response = waiting.response().await.expect("is answered");
    assert_eq!(values(&response.responses[0].partitions[1]), numbered(0..1));
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());

    request.max_wait_ms = 50;
    request.topics[0].partitions[1].fetch_offset = 1;
    let response = fetch_with(&consumer, &request).await;
    assert!(response.responses[0].partitions.iter().all(|data| values(data).is_empty()));
    broker.stop().await;
}

#[tokio::test]
async fn a_fetch_is_bounded_but_always_gets_one_batch() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    create_topic(&connection, "t", 1).await;
    for start in 0..10 {
        produce(&connection, "t", 0, numbered_batch(start..start + 1)).await;
    }
    let mut request = fetch_request("t", &[(0, 0)]);
    request.topics[0].partitions[0].partition_max_bytes = 1;
    let response = fetch_with(&connection, &request).await;
    assert_eq!(values(&response.responses[0].partitions[0]), numbered(0..1));
    request.topics[0].partitions[0].partition_max_bytes = 1 << 20;
    request.max_bytes = 200;
    let response = fetch_with(&connection, &request).await;
    let got = values(&response.responses[0].partitions[0]);
    assert!((1..10).contains(&got.len()), "{}", got.len());
    broker.stop().await;
}

#[tokio::test]
async fn offsets_out_of_range_and_unknown_places_have_kafkas_codes() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    create_topic(&connection, "t", 1).await;
    produce(&connection, "t", 0, numbered_batch(0..3)).await;
    let code = async |topic, partition, offset| {
        let data = fetch(&connection, topic, partition, offset).await;
        ErrorCode::from_code(data.error_code).expect("is a code")
    };
    assert_eq!(code("t", 0, 3).await, ErrorCode::None);
    assert_eq!(code("t", 0, 4).await, ErrorCode::OffsetOutOfRange);
    assert_eq!(code("t", 0, -1).await, ErrorCode::OffsetOutOfRange);
    assert_eq!(code("t", 1, 0).await, ErrorCode::UnknownTopicOrPartition);
    assert_eq!(code("u", 0, 0).await, ErrorCode::UnknownTopicOrPartition);
    let answer = produce(&connection, "t", 7, numbered_batch(0..1)).await;
    assert_eq!(answer.error_code, ErrorCode::UnknownTopicOrPartition.code());
    let message = answer.error_message.expect("says why");
    assert!(message.contains("'t'") && message.contains('7'), "{message}");
    broker.stop().await;
}

#[tokio::test]
async fn bad_batches_are_refused_and_the_connection_lives_on() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    create_topic_with(&connection, "t", 1, &[("max.message.bytes", "200")]).await;
    let code = async |records: bytes::Bytes| {
        let answer = produce(&connection, "t", 0, records).await;
        ErrorCode::from_code(answer.error_code).expect("is a code")
    };
    let good = numbered_batch(0..1);
    let mut flipped = good.to_vec();
    *flipped.last_mut().expect("is not empty") ^= 1;
    assert_eq!(code(flipped.into()).await, ErrorCode::CorruptMessage);
    // A producer that sent it again would send it like that again.
    assert_eq!(code(good.slice(..good.len() - 1)).await, ErrorCode::InvalidRecord);
    assert_eq!(code(bytes::Bytes::new()).await, ErrorCode::InvalidRecord);
    assert_eq!(code([good.clone(), good.clone()].concat().into()).await, ErrorCode::InvalidRecord);
    assert_eq!(code(batch(&[&"x".repeat(300)])).await, ErrorCode::MessageTooLarge);
    assert_eq!(code(good).await, ErrorCode::None);
    broker.stop().await;
}

#[tokio::test]
async fn a_retry_of_an_idempotent_producer_is_recognised_also_after_a_restart() {
    let dir = tempfile::tempdir().expect("a directory");
    let idempotent = |sequence: i32| {
        let mut builder = BatchBuilder::new(Compression::Lz4).with_producer(
            ProducerId(77),
            ProducerEpoch(0),
            Sequence(sequence),
        );
        for number in 0..2 {
            let value = format!("value {}", sequence + number);
            let timestamp = TimestampMs(now_ms());
            builder.append(timestamp, None, Some(value.as_bytes()), &[]).expect("fits");
        }
        builder.finish().expect("fits")
    };
    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    create_topic(&connection, "t", 1).await;
    for sequence in [0, 2, 0, 2] {
        let answer = produce(&connection, "t", 0, idempotent(sequence)).await;
        assert_eq!((answer.error_code, answer.base_offset), (0, i64::from(sequence)));
    }
    let gap = produce(&connection, "t", 0, idempotent(8)).await;
    assert_eq!(gap.error_code, ErrorCode::OutOfOrderSequenceNumber.code());
    broker.stop().await;

    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    let again = produce(&connection, "t", 0, idempotent(2)).await;
    assert_eq!((again.error_code, again.base_offset), (0, 2));
    let next = produce(&connection, "t", 0, idempotent(4)).await;
    assert_eq!((next.error_code, next.base_offset), (0, 4));
    assert_eq!(values(&fetch(&connection, "t", 0, 0).await), numbered(0..6));
    broker.stop().await;
}

#[tokio::test]
async fn a_topic_that_is_deleted_and_made_again_is_empty() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    for _ in 0..3 {
        create_topic(&connection, "t", 1).await;
        let answer = produce(&connection, "t", 0, numbered_batch(0..3)).await;
        assert_eq!((answer.error_code, answer.base_offset), (0, 0));
        delete_topic(&connection, "t").await;
        let gone = produce(&connection, "t", 0, numbered_batch(0..3)).await;
        assert_eq!(gone.error_code, ErrorCode::UnknownTopicOrPartition.code());
    }
    broker.stop().await;
}

#[tokio::test]
async fn offsets_are_found_by_time() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    create_topic(&connection, "t", 1).await;
    let first_ms = now_ms() - 10_000;
    for number in 0..5 {
        let mut builder = BatchBuilder::new(Compression::Zstd);
        for half in [0, 500] {
            let timestamp = TimestampMs(first_ms + number * 1_000 + half);
            builder.append(timestamp, None, Some(b"x"), &[]).expect("fits");
        }
        produce(&connection, "t", 0, builder.finish().expect("fits")).await;
    }
    let offset = async |timestamp| {
        let partition = ListOffsetsPartition { timestamp, ..Default::default() };
        let topic = ListOffsetsTopic {
            name: "t".into(),
            partitions: vec![partition],
            ..Default::default()
        };
        let request =
            ListOffsetsRequest { replica_id: -1, topics: vec![topic], ..Default::default() };
        let response = connection.call(&request).await.expect("is answered");
        let partition = &response.topics[0].partitions[0];
        assert_eq!(partition.error_code, 0);
        partition.offset
    };
    assert_eq!(offset(-2).await, 0);
    assert_eq!(offset(-1).await, 10);
    assert_eq!(offset(-3).await, 9);
    assert_eq!(offset(first_ms).await, 0);
    assert_eq!(offset(first_ms + 1).await, 1);
    assert_eq!(offset(first_ms + 2_400).await, 5);
    assert_eq!(offset(first_ms + 60_000).await, -1);
    broker.stop().await;
}

#[tokio::test]
async fn a_partition_that_a_fetch_has_twice_is_answered_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    create_topic(&connection, "t", 2).await;
    for start in [0, 3] {
        produce(&connection, "t", 0, numbered_batch(start..start + 3)).await;
    }
    let mut request = fetch_request("t", &[(0, 0), (1, 0), (0, 0), (0, 3)]);
    request.topics.push(request.topics[0].clone());
    let response = fetch_with(&connection, &request).await;
    let partitions: Vec<i32> = response
        .responses
        .iter()
        .flat_map(|topic| topic.partitions.iter().map(|data| data.partition_index))
        .collect();
    assert_eq!(partitions, [0, 1]);
    assert_eq!(values(&response.responses[0].partitions[0]), numbered(3..6), "the last counts");
    broker.stop().await;
}

#[tokio::test]
async fn a_batch_that_claims_more_records_than_fit_into_it_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    create_topic(&connection, "t", 1).await;
    let good = Batches::new(numbered_batch(0..1)).next().expect("there is one").expect("is whole");
    let claims = |record_count: i32| {
        let header =
            BatchHeader { record_count, last_offset_delta: record_count - 1, ..*good.header() };
        let body = &good.bytes()[BATCH_HEADER_BYTES..];
        let mut bytes = [&header.encode()[..], body].concat();
        let crc = checksum(CrcAlgorithm::Crc32Iscsi, &bytes[CRC_COVERS_FROM..]) as u32;
        bytes[CRC_COVERS_FROM - 4..CRC_COVERS_FROM].copy_from_slice(&crc.to_be_bytes());
        bytes::Bytes::from(bytes)
    };
    let answer = produce(&connection, "t", 0, claims(1)).await;
    assert_eq!((answer.error_code, answer.base_offset), (0, 0));
    for too_many in [1_000, i32::MAX] {
        let answer = produce(&connection, "t", 0, claims(too_many)).await;
        assert_eq!(answer.error_code, ErrorCode::InvalidRecord.code(), "{too_many}");
    }
    // None of them has used up an offset.
    let answer = produce(&connection, "t", 0, numbered_batch(1..2)).await;
    assert_eq!((answer.error_code, answer.base_offset), (0, 1));
    broker.stop().await;
}
