//! `compression.type`, from a client's socket to the disk and back.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::*;
use logway_client::Connection;
use logway_model::{ErrorCode, Offset, ProducerEpoch, ProducerId, Sequence, TimestampMs};
use logway_record::{BatchBuilder, Batches, Compression};
use logway_wire::Records;
use logway_wire::messages::fetch_response::PartitionData;

const TYPES: [(&str, Compression); 5] = [
    ("uncompressed", Compression::None),
    ("gzip", Compression::Gzip),
    ("snappy", Compression::Snappy),
    ("lz4", Compression::Lz4),
    ("zstd", Compression::Zstd),
];

/// Between two looks. A task that yields alone would take a core from the compressors.
const PAUSE: Duration = Duration::from_millis(5);

/// The writer drops a batch a moment after it has told that the batch is written. Batches of a slow level that nobody
/// waits for any more are compressed all the same, so the bound is on the time in which nothing changes.
async fn all_memory_comes_back(broker: &TestBroker) {
    let mut kept = (broker.node().recompression_used_bytes(), Instant::now());
    while kept.0 > 0 {
        assert!(kept.1.elapsed() < UNTIL_MAX, "something keeps memory");
        tokio::time::sleep(PAUSE).await;
        let used = broker.node().recompression_used_bytes();
        if used != kept.0 {
            kept = (used, Instant::now());
        }
    }
}

/// Of a producer that is not idempotent.
const NO_SEQUENCE: i32 = -1;

fn packed(codec: Compression, value: &[u8], sequence: i32) -> bytes::Bytes {
    let producer = (ProducerId(7), ProducerEpoch(0), Sequence(sequence));
    let mut builder = BatchBuilder::new(codec);
    if sequence != NO_SEQUENCE {
        builder = builder.with_producer(producer.0, producer.1, producer.2);
    }
    builder.append(TimestampMs(now_ms()), Some(b"key"), Some(value), &[]).expect("fits");
    builder.finish().expect("has a record")
}

fn stored(data: &PartitionData) -> Vec<(Compression, Sequence, usize)> {
    let Some(Records::InMemory(bytes)) = data.records.clone() else { panic!("no records") };
    let batches = Batches::new(bytes).map(|batch| batch.expect("is whole"));
    let of = |batch: logway_record::Batch| {
        batch.verify_crc().expect("is intact");
        let header = batch.header();
        let codec = header.attributes.compression().expect("is known");
        (codec, header.base_sequence, batch.size_bytes())
    };
    batches.map(of).collect()
}

async fn refused(connection: &Connection, topic: &str, records: bytes::Bytes) -> (i16, String) {
    let answer = produce(connection, topic, 0, records).await;
    (answer.error_code, answer.error_message.unwrap_or_default().to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_of_other_codecs_are_stored_with_the_topics() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    for (name, target) in TYPES {
        create_topic_with(&connection, name, 1, &[("compression.type", name)]).await;
        for (sequence, source) in (0..).zip(Compression::ALL) {
            let answer = produce(&connection, name, 0, packed(source, b"value", sequence)).await;
            assert_eq!((answer.error_code, answer.base_offset), (0, i64::from(sequence)));
            // A retry is recognised by the sequence that the batch has kept.
            let again = produce(&connection, name, 0, packed(source, b"value", sequence)).await;
            assert_eq!((again.error_code, again.base_offset), (0, i64::from(sequence)));
        }
        let data = fetch(&connection, name, 0, 0).await;
        let found: Vec<_> = stored(&data).into_iter().map(|(codec, at, _)| (codec, at.0)).collect();
        assert_eq!(found, (0..5).map(|sequence| (target, sequence)).collect::<Vec<_>>());
        let expected: Vec<_> = (0..5).map(|at| (Offset(at), "value".to_owned())).collect();
        assert_eq!(values(&data), expected);
    }
    all_memory_comes_back(&broker).await;
    let metrics = broker.metrics();
    for (_, target) in TYPES {
        // Four of each, twice.
        let line = format!("logway_recompressed_batches_total{{codec=\"{target}\"}} 8\n");
        assert!(metrics.contains(&line), "{line}{metrics}");
        for way in ["in", "out"] {
            let name = format!("logway_recompressed_bytes_{way}_total{{codec=\"{target}\"}}");
            assert!(metrics.contains(&name), "{name}");
        }
    }
    broker.stop().await;
}

/// Small ones that stay as they are, between large ones that take time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_of_one_connection_keep_their_order() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    let settings = [("compression.type", "gzip"), ("compression.gzip.level", "9")];
    create_topic_with(&connection, "t", 1, &settings).await;
    let large = b"0123456789 ".repeat(60_000);
    let mut pending = Vec::new();
    for sequence in 0..60 {
        let records = match sequence % 3 {
            0 => packed(Compression::None, &large, sequence),
            1 => packed(Compression::Gzip, b"stays", sequence),
            _ => packed(Compression::None, b"small", sequence),
        };
        pending
            .push(connection.send(&produce_request("t", 0, records), 12).await.expect("is sent"));
    }
    for (expected, answer) in (0..).zip(pending) {
        let answer = answer.response().await.expect("is answered");
        let partition = &answer.responses[0].partition_responses[0];
        assert_eq!((partition.error_code, partition.base_offset), (0, expected));
    }
    let data = fetch(&connection, "t", 0, 0).await;
    let sequences: Vec<i32> = stored(&data).iter().map(|(_, sequence, _)| sequence.0).collect();
    assert_eq!(sequences, (0..60).collect::<Vec<_>>());
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn max_message_bytes_holds_for_what_comes_and_for_what_is_stored() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    let of_type = |name| [("max.message.bytes", "1000"), ("compression.type", name)];
    create_topic_with(&connection, "packed", 1, &of_type("gzip")).await;
    create_topic_with(&connection, "plain", 1, &of_type("uncompressed")).await;
    let value = [b'v'; 2_000];

    let large = MESSAGE_TOO_LARGE;
    let (code, message) =
        refused(&connection, "packed", packed(Compression::None, &value, 0)).await;
    assert_eq!(code, large, "{message}");
    let (code, message) = refused(&connection, "plain", packed(Compression::Gzip, &value, 0)).await;
    assert_eq!(code, large, "{message}");
    assert!(message.contains("compressed anew with none") && message.contains("1000"), "{message}");
    for (topic, codec) in [("packed", Compression::Zstd), ("plain", Compression::None)] {
        let answer = produce(&connection, topic, 0, packed(codec, &value[..700], 0)).await;
        assert_eq!(answer.error_code, 0, "{:?}", answer.error_message);
    }
    broker.stop().await;
}

const MESSAGE_TOO_LARGE: i16 = ErrorCode::MessageTooLarge as i16;

/// More is asked for than the budget has, by batches that each would take all of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_for_memory_gets_it_in_the_end() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker =
        TestBroker::start_with(dir.path(), &[("queued.max.request.bytes", "1048576")]).await;
    let first = broker.connect().await;
    let settings = [("compression.type", "zstd"), ("compression.zstd.level", "12")];
    create_topic_with(&first, "t", 8, &settings).await;
    let work = async {
        let connections = [broker.connect().await, broker.connect().await, first];
        for round in 0..5 {
            let mut pending = Vec::new();
            for connection in &connections {
                for partition in 0..8 {
                    let value = vec![b'v'; 10_000];
                    let mut builder = BatchBuilder::new(Compression::None);
                    builder.append(TimestampMs(round), None, Some(&value), &[]).expect("fits");
                    let records = builder.finish().expect("has a record");
                    let request = produce_request("t", partition, records);
                    pending.push(connection.send(&request, 12).await.expect("is sent"));
                }
            }
            for answer in pending {
                let answer = answer.response().await.expect("is answered");
                assert_eq!(answer.responses[0].partition_responses[0].error_code, 0);
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(120), work).await.expect("nobody waits for ever");
    all_memory_comes_back(&broker).await;
    broker.stop().await;
}

/// Two letters at random, of which a match finder looks at very many.
fn hard_to_compress(bytes: usize) -> Vec<u8> {
    let mut state = 88_172_645_463_325_252_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        b'a' + u8::try_from(state % 2).expect("is 0 or 1")
    };
    (0..bytes).map(|_| next()).collect()
}

/// Sends large batches one after the other, until nobody is interested any more. On a busy machine not even
/// the first may be answered in the time that a client waits. `done` counts those that are.
async fn send_large(connection: Connection, partition: i32, done: Arc<AtomicUsize>) {
    let value = hard_to_compress(600_000);
    loop {
        let records = packed(Compression::None, &value, NO_SEQUENCE);
        let pending = connection.send(&produce_request("slow", partition, records), 12).await;
        let Ok(pending) = pending else { return };
        if pending.response().await.is_ok() {
            done.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// At level 22 a batch of 600 KB takes a third of a second, and here, not optimised, a multiple of it. Eight
/// of them are always under way or waiting. How long the small ones take says nothing where the machine is busy, so
/// the large ones are counted meanwhile: each small one that waited for them would see one done at least.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_batches_do_not_wait_for_those_of_a_slow_level() {
    const SMALL: usize = 40;
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    let slowest = [("compression.type", "zstd"), ("compression.zstd.level", "22")];
    create_topic_with(&connection, "slow", 8, &slowest).await;
    create_topic_with(&connection, "gzip", 1, &[("compression.type", "gzip")]).await;
    create_topic_with(&connection, "zstd", 1, &[("compression.type", "zstd")]).await;
    let (mut large, done) = (Vec::new(), Arc::new(AtomicUsize::new(0)));
    for partition in 0..8 {
        let done = Arc::clone(&done);
        large.push(tokio::spawn(send_large(broker.connect().await, partition, done)));
    }
    let deadline = Instant::now() + UNTIL_MAX;
    while broker.node().recompression_used_bytes() == 0 {
        assert!(Instant::now() < deadline, "no large batch has come");
        tokio::time::sleep(PAUSE).await;
    }
    let done_before = done.load(Ordering::Relaxed);
    for _ in 0..SMALL / 2 {
        for topic in ["gzip", "zstd"] {
            let records = packed(Compression::None, &[b'v'; 1_000], NO_SEQUENCE);
            let answer = produce(&connection, topic, 0, records).await;
            assert_eq!(answer.error_code, 0, "{:?}", answer.error_message);
        }
    }
    let done = done.load(Ordering::Relaxed) - done_before;
    large.iter().for_each(|large| large.abort());
    assert!(done < SMALL, "{SMALL} small batches have waited for {done} large ones");
    all_memory_comes_back(&broker).await;
    broker.stop().await;
}
