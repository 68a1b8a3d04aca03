//! What a producer is told of batches that are refused, which versions may send what, and what a client is told that
//! fetches as a replica.

mod common;

use common::*;
use logway_client::Connection;
use logway_model::{ErrorCode, TimestampMs};
use logway_record::{BatchBuilder, Compression};
use logway_wire::WireString;
use logway_wire::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use logway_wire::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use logway_wire::messages::fetch_request::{FetchPartition, FetchTopic};
use logway_wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use logway_wire::messages::produce_response::PartitionProduceResponse;
use logway_wire::messages::{
    AddPartitionsToTxnRequest, DeleteRecordsRequest, FetchRequest, ListOffsetsRequest,
};

const HOUR_MS: i64 = 3_600_000;

async fn produce_at(
    connection: &Connection,
    version: i16,
    topic: &str,
    records: bytes::Bytes,
) -> PartitionProduceResponse {
    let request = produce_request(topic, 0, records);
    let pending = connection.send(&request, version).await.expect("is sent");
    let mut response = pending.response().await.expect("is answered");
    response.responses.remove(0).partition_responses.remove(0)
}

/// A batch of records with these keys, at so many hours from now.
fn keyed(compression: Compression, records: &[(Option<&str>, i64)]) -> bytes::Bytes {
    let mut builder = BatchBuilder::new(compression);
    for (key, hours) in records {
        let timestamp = TimestampMs(now_ms() + hours * HOUR_MS);
        builder.append(timestamp, key.map(str::as_bytes), Some(b"v"), &[]).expect("fits");
    }
    builder.finish().expect("fits")
}

#[tokio::test]
async fn more_replicas_than_there_are_need_not_be_in_sync() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start_with(dir.path(), &[("min.insync.replicas", "2")]).await;
    let connection = broker.connect().await;
    create_topic(&connection, "of-the-broker", 1).await;
    create_topic_with(&connection, "own", 1, &[("min.insync.replicas", "3")]).await;
    for topic in ["of-the-broker", "own"] {
        let answer = produce(&connection, topic, 0, batch(&["a"])).await;
        assert_eq!(answer.error_code, 0, "{:?}", answer.error_message);
    }
    broker.stop().await;
}

#[tokio::test]
async fn zstandard_needs_a_version_that_knows_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    create_topic(&connection, "t", 1).await;
    for version in 3..=12 {
        let zstd = keyed(Compression::Zstd, &[(None, 0)]);
        let answer = produce_at(&connection, version, "t", zstd).await;
        let code = match version < 7 {
            true => ErrorCode::UnsupportedCompressionType,
            false => ErrorCode::None,
        };
        assert_eq!(answer.error_code, code.code(), "version {version}");
        let gzip = keyed(Compression::Gzip, &[(None, 0)]);
        let answer = produce_at(&connection, version, "t", gzip).await;
        assert_eq!(answer.error_code, 0, "version {version}");
    }
    broker.stop().await;
}

#[tokio::test]
async fn each_record_that_is_refused_is_named_with_its_fault() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    create_topic_with(&connection, "t", 1, &[("cleanup.policy", "compact,delete")]).await;
    for offset in 0..3 {
        let answer =
            produce(&connection, "t", 0, keyed(Compression::None, &[(Some("k"), 0)])).await;
        assert_eq!(answer.base_offset, offset);
    }
    let partition = DeleteRecordsPartition { partition_index: 0, offset: 2, ..Default::default() };
    let topic =
        DeleteRecordsTopic { name: "t".into(), partitions: vec![partition], ..Default::default() };
    let request =
        DeleteRecordsRequest { topics: vec![topic], timeout_ms: 10_000, ..Default::default() };
    let deleted = connection.call(&request).await.expect("is answered");
    assert_eq!(deleted.topics[0].partitions[0].low_watermark, 2);

    let refused = |answer: &PartitionProduceResponse| {
        let named = answer.record_errors.iter().map(|error| error.batch_index);
        let code = ErrorCode::from_code(answer.error_code).expect("is known");
        (code, answer.log_start_offset, named.collect::<Vec<_>>())
    };
    for codec in [Compression::None, Compression::Lz4] {
        let keyless = keyed(codec, &[(None, 0), (Some("k"), 0), (None, 0)]);
        let answer = produce(&connection, "t", 0, keyless).await;
        assert_eq!(refused(&answer), (ErrorCode::InvalidRecord, 2, vec![0, 2]));
        let message = answer.record_errors[1].batch_index_error_message.as_deref();
        assert!(message.is_some_and(|message| message.contains("no key")), "{message:?}");
        let message = answer.error_message.expect("says why");
        assert!(message.starts_with("2 records of the batch"), "{message}");

        let both = keyed(codec, &[(None, 0), (Some("k"), 0), (Some("k"), 10)]);
        let answer = produce(&connection, "t", 0, both).await;
        assert_eq!(refused(&answer), (ErrorCode::InvalidTimestamp, 2, vec![0, 2]));
        let message = answer.record_errors[1].batch_index_error_message.as_deref();
        assert!(message.is_some_and(|message| message.contains("timestamp")), "{message:?}");
    }

    // What says nothing of the log says nothing of where it begins.
    let mut damaged = keyed(Compression::None, &[(Some("k"), 0)]).to_vec();
    *damaged.last_mut().expect("is not empty") ^= 1;
    let answer = produce(&connection, "t", 0, damaged.into()).await;
    assert_eq!(refused(&answer), (ErrorCode::CorruptMessage, -1, vec![]));
    // Before version 8 there is no place for single records.
    let keyless = keyed(Compression::None, &[(None, 0)]);
    let answer = produce_at(&connection, 7, "t", keyless).await;
    assert_eq!(refused(&answer), (ErrorCode::InvalidRecord, 2, vec![]));
    broker.stop().await;
}

#[tokio::test]
async fn an_answer_names_no_more_records_than_its_memory_allows() {
    const PARTITIONS: i32 = 20;
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    create_topic_with(&connection, "t", PARTITIONS, &[("cleanup.policy", "compact")]).await;
    let keyless = keyed(Compression::None, &[(None, 0); 300]);
    let mut request = produce_request("t", 0, keyless.clone());
    for partition in 1..PARTITIONS {
        let mut other = produce_request("t", partition, keyless.clone());
        let data = other.topic_data.remove(0).partition_data;
        request.topic_data[0].partition_data.extend(data);
    }
    let pending = connection.send(&request, 12).await.expect("is sent");
    let response = pending.response().await.expect("is answered");
    let answers = &response.responses[0].partition_responses;
    let named: Vec<usize> = answers.iter().map(|answer| answer.record_errors.len()).collect();
    assert_eq!(named[..3], [300, 100, 0]);
    assert_eq!(named.iter().sum::<usize>(), 400);
    assert!(answers.iter().all(|answer| answer.error_code == ErrorCode::InvalidRecord.code()));
    broker.stop().await;
}

#[tokio::test]
async fn who_is_no_replica_is_told_so_by_epoch() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    create_topic(&connection, "t", 1).await;
    for (current_leader_epoch, code) in [
        (-1, ErrorCode::NotLeaderOrFollower),
        (0, ErrorCode::UnknownLeaderEpoch),
        (1, ErrorCode::UnknownLeaderEpoch),
    ] {
        let partition = FetchPartition { current_leader_epoch, ..Default::default() };
        let partitions = vec![partition];
        let topic = FetchTopic { topic: "t".into(), partitions, ..Default::default() };
        let request = FetchRequest { replica_id: 7, topics: vec![topic], ..Default::default() };
        let pending = connection.send(&request, 12).await.expect("is sent");
        let answer = pending.response().await.expect("is answered");
        let told = answer.responses[0].partitions[0].error_code;
        assert_eq!(told, code.code(), "of epoch {current_leader_epoch}");
    }
    broker.stop().await;
}

#[tokio::test]
async fn who_asks_for_no_isolation_that_there_is_gets_no_records_and_no_offsets() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    create_topic(&connection, "t", 1).await;
    produce(&connection, "t", 0, batch(&["a"])).await;
    for isolation_level in [-1, 2, i8::MAX] {
        let request = FetchRequest { isolation_level, ..fetch_request("t", &[(0, 0)]) };
        let mut response = fetch_with(&connection, &request).await;
        let answer = response.responses.remove(0).partitions.remove(0);
        let records = answer.records.as_ref().and_then(|records| records.bytes());
        let told = (answer.error_code, records.map_or(0, |records| records.len()));
        assert_eq!(told, (ErrorCode::InvalidRequest.code(), 0), "level {isolation_level}");

        let partition = ListOffsetsPartition { timestamp: -1, ..Default::default() };
        let topic = ListOffsetsTopic {
            name: "t".into(),
            partitions: vec![partition],
            ..Default::default()
        };
        let topics = vec![topic];
        let request =
            ListOffsetsRequest { replica_id: -1, isolation_level, topics, ..Default::default() };
        let response = connection.call(&request).await.expect("is answered");
        let told = response.topics[0].partitions[0].error_code;
        assert_eq!(told, ErrorCode::InvalidRequest.code(), "level {isolation_level}");
    }
    broker.stop().await;
}

#[tokio::test]
async fn the_coordinators_own_topics_are_no_part_of_a_clients_transaction() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    create_topic(&connection, "t", 1).await;
    let topic = |name: &str| AddPartitionsToTxnTopic {
        name: WireString::copy_of(name),
        partitions: vec![0],
        ..Default::default()
    };
    let names = ["t", "__transaction_state", "__consumer_offsets"];
    let request = AddPartitionsToTxnRequest {
        v3_and_below_transactional_id: "tx".into(),
        v3_and_below_topics: names.map(topic).to_vec(),
        ..Default::default()
    };
    let pending = connection.send(&request, 3).await.expect("is sent");
    let answer = pending.response().await.expect("is answered");
    let codes: Vec<i16> = answer
        .results_by_topic_v3_and_below
        .iter()
        .map(|topic| topic.results_by_partition[0].partition_error_code)
        .collect();
    let refused = ErrorCode::TopicAuthorizationFailed.code();
    assert_eq!(codes, [ErrorCode::OperationNotAttempted.code(), refused, refused]);
    broker.stop().await;
}
