use std::fs;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use logway_client::BrokerAddress;
use logway_model::TopicName;
use logway_record::{Batches, RecordError};
use logway_wire::messages::ProduceResponse;
use logway_wire::{ApiKey, Decoder, Message, decode_response_header};

use super::connection::Connection;
use super::serve;
use super::store::{HELD_BYTES_MAX, Store};
use crate::generator::{
    Acks, BatchShape, EncodedBatch, Framing, Intake, ProduceShape, VERSION_MAX, connect,
};
use crate::load::RunTopic;
use crate::measure::Durability;
use crate::null_broker::Replies;
use crate::side::Side;

const PATIENCE: Duration = Duration::from_secs(20);

/// Serves until the test's process ends.
fn start(directory: &Path) -> BrokerAddress {
    let listener = TcpListener::bind("127.0.0.1:0").expect("an address");
    let address = listener.local_addr().expect("it listens");
    let directory = directory.to_owned();
    std::thread::spawn(move || serve(listener, &directory, |_| ()));
    BrokerAddress::new("127.0.0.1", address.port())
}

async fn topic(address: &BrokerAddress, partitions: i32, durability: Durability) -> RunTopic {
    let side = Side::given("bare", address.clone(), None);
    RunTopic::create(&side, partitions, durability).await.expect("it creates")
}

/// Sends all requests at once; returns the offsets in the answers.
fn produce(address: &BrokerAddress, requests: &[Bytes], version: i16) -> Vec<i64> {
    let mut stream = connect(address).expect("it accepts");
    let all = requests.concat();
    let writer = stream.try_clone().expect("a socket");
    let writing = std::thread::spawn(move || {
        // In portions that no frame ends with.
        for portion in all.chunks(77_777) {
            (&writer).write_all(portion).expect("it takes");
        }
    });
    let mut intake = Intake::new(Framing::Kafka, 1 << 10);
    let mut offsets = Vec::new();
    while offsets.len() < requests.len() {
        let read = intake.read(&mut stream, |head, _| {
            let mut from = Decoder::new(Bytes::copy_from_slice(head));
            decode_response_header(&mut from, ApiKey::Produce, version)?;
            let response = ProduceResponse::decode(&mut from, version)?;
            offsets.push(response.responses[0].partition_responses[0].base_offset);
            Ok(())
        });
        read.expect("it answers");
    }
    writing.join().expect("all was sent");
    offsets
}

fn batch(shape: BatchShape) -> EncodedBatch {
    EncodedBatch::of_size(shape, 100).expect("a batch")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_acknowledged_is_in_the_file_at_its_offset() {
    let directory = tempfile::tempdir().expect("a directory");
    let address = start(directory.path());
    let topic = topic(&address, 2, Durability::Unsynced).await;
    let produced_bytes = produce_all_sizes(&address, &topic);
    for partition in 0..2 {
        let stored = stored(directory.path(), &topic, partition);
        assert_eq!((stored.len(), sound_bytes(stored)), (produced_bytes, produced_bytes));
    }
    let name = topic.name.clone();
    topic.delete().await.expect("it deletes");
    assert!(!directory.path().join(format!("{name}-0")).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_synced_moves_to_the_file_but_for_what_is_held() {
    let directory = tempfile::tempdir().expect("a directory");
    let address = start(directory.path());
    let topic = topic(&address, 2, Durability::Synced).await;
    // It is more than the journal takes.
    let produced_bytes = produce_all_sizes(&address, &topic);
    for partition in 0..2 {
        // It moves behind the answers.
        let begun = Instant::now();
        let stored = loop {
            let stored = stored(directory.path(), &topic, partition);
            if stored.len() + HELD_BYTES_MAX > produced_bytes {
                break stored;
            }
            assert!(begun.elapsed() < PATIENCE, "{} of {produced_bytes}", stored.len());
        };
        // What is held may be the end of a batch.
        assert!(sound_bytes(stored.clone()) + (1 << 20) > stored.len());
    }
}

/// Sends batches of many sizes over several connections to two partitions; returns the bytes for each.
fn produce_all_sizes(address: &BrokerAddress, topic: &RunTopic) -> usize {
    // Larger than what is read at once, and in between small ones.
    let (large, small) = (batch(BatchShape::Bytes(1 << 20)), batch(BatchShape::Records(3)));
    let in_turn = [&small, &small, &large, &small, &large, &large, &small];
    for version in [3, VERSION_MAX] {
        let shape = |partition| ProduceShape {
            topic: topic.name.clone(),
            partition,
            acks: Acks::All,
            version,
        };
        let clients: Vec<_> = (0..4)
            .map(|client| {
                let shape = shape(client % 2);
                let frame = |batch: &&EncodedBatch| shape.encode(batch).expect("a frame");
                let frames: Vec<Bytes> = in_turn.iter().map(frame).collect();
                let address = address.clone();
                std::thread::spawn(move || produce(&address, &frames, version))
            })
            .collect();
        for client in clients {
            let offsets = client.join().expect("it is answered");
            assert!(offsets.is_sorted(), "{offsets:?}");
        }
    }
    let bytes: usize = in_turn.iter().map(|batch| batch.bytes.len()).sum();
    2 * 2 * bytes
}

/// What is in the file of a partition.
fn stored(directory: &Path, topic: &RunTopic, partition: i32) -> Bytes {
    let name = format!("{}-{partition}/00000000000000000000.log", topic.name);
    Bytes::from(fs::read(directory.join(name)).expect("it is there"))
}

/// How many of the bytes are batches one behind the other; what follows may only be the beginning of one.
fn sound_bytes(stored: Bytes) -> usize {
    let (mut next_offset, mut bytes) = (0, 0);
    for batch in Batches::new(stored) {
        match batch {
            Ok(batch) => {
                assert_eq!(batch.base_offset().0, next_offset);
                next_offset = batch.header().next_offset().0;
                bytes += batch.size_bytes();
            }
            Err(RecordError::TruncatedHeader { .. } | RecordError::TruncatedBatch { .. }) => break,
            Err(error) => panic!("at {bytes}: {error}"),
        }
    }
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_synced_is_in_the_journal_with_its_partition() {
    let directory = tempfile::tempdir().expect("a directory");
    let address = start(directory.path());
    let topic = topic(&address, 3, Durability::Synced).await;
    let batch = batch(BatchShape::Records(10));
    for round in 0..2 {
        for partition in 0..3 {
            let name = topic.name.clone();
            let shape =
                ProduceShape { topic: name, partition, acks: Acks::All, version: VERSION_MAX };
            let frame = shape.encode(&batch).expect("a frame");
            assert_eq!(produce(&address, &[frame], VERSION_MAX), [10 * round]);
        }
    }
    let journal = fs::read(directory.path().join("journal")).expect("it is there");
    let bytes = batch.bytes.len();
    let mut at = 0;
    for (round, partition) in (0..2_u64).flat_map(|round| (0..3_u32).map(move |p| (round, p))) {
        let header = &journal[at..at + 16];
        assert_eq!(header[..4], partition.to_be_bytes());
        assert_eq!(header[4..8], (bytes as u32).to_be_bytes());
        assert_eq!(header[8..], (round * bytes as u64).to_be_bytes());
        assert_eq!(journal[at + 16 + 8..at + 16 + bytes], batch.bytes[8..]);
        assert_eq!(journal[at + 16 + bytes..at + 4096], vec![0; 4096 - 16 - bytes]);
        at += 4096;
    }
    assert_eq!(journal[at..at + 16], [0; 16]);
}

#[test]
fn a_large_request_may_be_cut_anywhere() {
    let directory = tempfile::tempdir().expect("a directory");
    let listener = TcpListener::bind("127.0.0.1:0").expect("an address");
    let address = listener.local_addr().expect("it listens");
    let shape = ProduceShape {
        topic: TopicName::new("t").expect("a name"),
        partition: 0,
        acks: Acks::All,
        version: VERSION_MAX,
    };
    let frame = shape.encode(&batch(BatchShape::Bytes(1 << 20))).expect("a frame");
    for cut in 0..=6 {
        let mut client = TcpStream::connect(address).expect("it accepts");
        let (stream, _) = listener.accept().expect("a client");
        let topics = Arc::default();
        let mut connection = Connection::new(stream, Replies::new(address, Arc::clone(&topics)));
        let mut store = Store::create(&directory.path().join("store")).expect("a store");
        client.write_all(&frame[..cut]).expect("it takes");
        // More of it is awaited, however little of it says what it is.
        if cut > 0 {
            connection.read(1, &mut store, &topics).expect("it waits for more");
        }
        connection.answer().expect("there is nothing to say");
    }
}
