//! Clients that break the protocol, stall or lie: their connection may end, nobody else notices.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::failing_disk::FailingDisk;
use common::*;
use logway_wire::ApiKey;
use logway_wire::messages::CreateTopicsRequest;
use logway_wire::messages::create_topics_request::CreatableTopic;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(20);

/// A request frame with this header and body.
fn frame(api_key: i16, version: i16, body: &[u8]) -> Vec<u8> {
    let mut rest = Vec::new();
    rest.extend_from_slice(&api_key.to_be_bytes());
    rest.extend_from_slice(&version.to_be_bytes());
    rest.extend_from_slice(&7_i32.to_be_bytes());
    rest.extend_from_slice(&(-1_i16).to_be_bytes());
    rest.extend_from_slice(body);
    let length = i32::try_from(rest.len()).expect("small");
    [&length.to_be_bytes()[..], &rest].concat()
}

/// Sends bytes; what comes back until the broker closes.
async fn answer_until_close(broker: &TestBroker, bytes: &[u8]) -> Vec<u8> {
    let mut socket = TcpStream::connect(broker.address).await.expect("connects");
    socket.write_all(bytes).await.expect("is sent");
    let mut answer = Vec::new();
    // A reset instead of a close is as good an end.
    let _ = timeout(PATIENCE, socket.read_to_end(&mut answer)).await.expect("the broker closes");
    answer
}

#[tokio::test]
async fn what_is_no_request_closes_its_own_connection_only() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let polite = broker.connect().await;
    create_topic(&polite, "t", 1).await;
    let produce_key = ApiKey::Produce.id();
    let metadata_key = ApiKey::Metadata.id();
    let bad = [
        (-1_i32).to_be_bytes().to_vec(),
        i32::MAX.to_be_bytes().to_vec(),
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        frame(9_999, 0, b""),
        frame(ApiKey::JoinGroup.id(), 0, b""),
        frame(produce_key, 2, b""),
        frame(produce_key, 99, b""),
        frame(metadata_key, 1, b""),
        // An array of two billion topics, in a request of a few bytes.
        frame(metadata_key, 1, &i32::MAX.to_be_bytes()),
        frame(metadata_key, 1, &[0, 0, 0, 1, 0x7f, 0xff]),
        frame(metadata_key, -1, b""),
        vec![0, 0, 0, 1, 0],
        vec![0, 0, 0, 0],
    ];
    for bytes in bad {
        assert_eq!(answer_until_close(&broker, &bytes).await, b"", "{bytes:?}");
        let answer = produce(&polite, "t", 0, batch(&["still here"])).await;
        assert_eq!(answer.error_code, 0);
    }
    broker.stop().await;
}

#[tokio::test]
async fn an_api_versions_request_from_the_future_is_answered_in_the_oldest_form() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let mut socket = TcpStream::connect(broker.address).await.expect("connects");
    // Version 99 with the flexible header that such a version would have.
    let request = frame(ApiKey::ApiVersions.id(), 99, &[0, 1, 1, 0]);
    socket.write_all(&request).await.expect("is sent");
    let mut start = [0; 10];
    timeout(PATIENCE, socket.read_exact(&mut start)).await.expect("in time").expect("is answered");
    assert_eq!(start[4..8], 7_i32.to_be_bytes(), "the correlation id");
    assert_eq!(start[8..10], 35_i16.to_be_bytes(), "UNSUPPORTED_VERSION");
    broker.stop().await;
}

#[tokio::test]
async fn a_client_that_never_reads_delays_nobody() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let polite = broker.connect().await;
    create_topic(&polite, "t", 1).await;
    let large = "x".repeat(900_000);
    for _ in 0..8 {
        assert_eq!(produce(&polite, "t", 0, batch(&[&large])).await.error_code, 0);
    }
    let mut stuck = Vec::new();
    for _ in 0..20 {
        let mut raw = broker.connect_raw().await;
        let request = fetch_request("t", &[(0, 0)]);
        for id in 0..50 {
            let encoded = logway_wire::encode_request(id, None, 12, &request).expect("encodes");
            // The broker stops reading at some point; that is what it should do.
            let written = timeout(Duration::from_millis(200), async {
                raw.writer.write_frame(&encoded.bytes).await?;
                raw.writer.flush().await
            });
            if written.await.is_err() {
                break;
            }
        }
        stuck.push(raw);
    }
    for _ in 0..50 {
        let answer = timeout(PATIENCE, produce(&polite, "t", 0, batch(&["quick"]))).await;
        assert_eq!(answer.expect("in time").error_code, 0);
    }
    drop(stuck);
    broker.stop().await;
}

/// A connection that has asked for a topic to be made.
async fn asks_for_topic(broker: &TestBroker, name: &'static str) -> TcpStream {
    let topic = CreatableTopic {
        name: name.into(),
        num_partitions: 1,
        replication_factor: 1,
        ..Default::default()
    };
    let request =
        CreateTopicsRequest { topics: vec![topic], timeout_ms: 60_000, ..Default::default() };
    let request = logway_wire::encode_request(7, None, 4, &request).expect("encodes");
    let mut socket = TcpStream::connect(broker.address).await.expect("connects");
    socket.write_all(&request.bytes).await.expect("is sent");
    socket
}

#[tokio::test]
async fn who_has_gone_keeps_no_connection_and_who_has_only_sent_all_is_answered() {
    let dir = tempfile::tempdir().expect("a directory");
    let disk = FailingDisk::new(dir.path());
    let settings =
        [("log.dirs", dir.path().to_str().expect("is text")), ("listeners", "127.0.0.1:0")];
    let broker = TestBroker::try_start(Arc::new(disk.clone()), &settings).await.expect("starts");
    let are_open =
        |count: usize| broker.metrics().contains(&format!("\nlogway_connections_open {count}\n"));
    // Whoever asks for another topic waits for this one.
    disk.hold_writes_after("/first-", 0);
    let first = asks_for_topic(&broker, "first").await;
    until(|| disk.holds()).await;
    let mut half_closed = asks_for_topic(&broker, "second").await;
    half_closed.shutdown().await.expect("is closed");
    let mut leaving = vec![first];
    for _ in 0..50 {
        leaving.push(asks_for_topic(&broker, "third").await);
    }
    until(|| are_open(1 + leaving.len())).await;
    leaving.iter().for_each(|socket| socket.set_zero_linger().expect("can be reset"));
    drop(leaving);
    let leave = async {
        while !are_open(1) {
            tokio::task::yield_now().await;
        }
    };
    let have_left = timeout(PATIENCE, leave).await;
    // Before anything can end the test: the broker's thread would be waited for.
    disk.release();
    have_left.expect("in time");
    let mut answer = Vec::new();
    let end = timeout(PATIENCE, half_closed.read_to_end(&mut answer));
    end.await.expect("the broker closes").expect("it does so in good order");
    assert_eq!(answer[4..8], 7_i32.to_be_bytes(), "the correlation id");
    let polite = broker.connect().await;
    for topic in ["first", "second"] {
        assert_eq!(produce(&polite, topic, 0, batch(&["x"])).await.error_code, 0, "{topic}");
    }
    broker.stop().await;
}

#[tokio::test]
async fn what_clients_only_announce_delays_nobody() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let polite = broker.connect().await;
    create_topic(&polite, "t", 1).await;
    let mut start = (100_i32 << 20).to_be_bytes().to_vec();
    start.extend_from_slice(&ApiKey::Produce.id().to_be_bytes());
    let mut hogs = Vec::new();
    // A part of them stalls behind so many bytes that its memory is taken.
    for bytes in [20, 20, 20, 20, 1 << 20, 1 << 20, 1 << 20] {
        let mut hog = TcpStream::connect(broker.address).await.expect("connects");
        start.resize(bytes, 0);
        hog.write_all(&start).await.expect("is sent");
        hogs.push(hog);
    }
    until(|| broker.node().memory.requests.is_contended()).await;
    // Nobody who waits has been cut off yet: that takes a second.
    let in_between = timeout(Duration::from_millis(900), async {
        for records in [&["small"; 1], &[&"x".repeat(500_000)[..]; 1]] {
            assert_eq!(produce(&polite, "t", 0, batch(records)).await.error_code, 0);
        }
        broker.connect().await.call(&metadata_request()).await.expect("is answered");
    });
    in_between.await.expect("in time");
    drop(hogs);
    broker.stop().await;
}

#[tokio::test]
async fn connections_beyond_the_limit_are_closed_and_the_others_stay() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start_with(dir.path(), &[("max.connections", "2")]).await;
    let (first, second) = (broker.connect().await, broker.connect().await);
    assert_eq!(answer_until_close(&broker, b"").await, b"");
    first.call(&metadata_request()).await.expect("is answered");
    second.call(&metadata_request()).await.expect("is answered");
    drop(second);
    // The slot is free again as soon as the broker has seen the close.
    timeout(PATIENCE, async {
        loop {
            let options = logway_client::ConnectionOptions::default();
            let address = broker.broker_address();
            if logway_client::Connection::open(&address, &options).await.is_ok() {
                break;
            }
        }
    })
    .await
    .expect("in time");
    broker.stop().await;
}

/// As after a restart, when all clients come back. The broker, which shares this thread, accepts none
/// of them meanwhile.
#[tokio::test]
async fn hundreds_that_connect_at_once_wait_to_be_accepted() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let less_than_until_the_kernel_tries_again = Duration::from_millis(900);
    let connect = |number| {
        std::net::TcpStream::connect_timeout(
            &broker.address,
            less_than_until_the_kernel_tries_again,
        )
        .unwrap_or_else(|error| panic!("connection {number}: {error}"))
    };
    let waiting: Vec<_> = (0..400).map(connect).collect();
    broker.connect().await.call(&metadata_request()).await.expect("is answered");
    drop(waiting);
    broker.stop().await;
}

/// The least budget that a broker can be given, so that few bytes are much.
const SMALL_BUDGET: (&str, &str) = ("queued.max.request.bytes", "1048576");

/// A fetch that waits for records that never come, with many more partitions than it needs, so
/// that it holds much memory.
fn fetch_that_holds_memory(partitions: i32) -> logway_wire::messages::FetchRequest {
    let places: Vec<(i32, i64)> = (0..partitions).map(|partition| (partition, 0)).collect();
    let mut request = fetch_request("t", &places);
    request.max_wait_ms = i32::MAX;
    request
}

#[tokio::test]
async fn a_fetch_that_waits_gives_way_when_others_need_the_memory_it_holds() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start_with(dir.path(), &[SMALL_BUDGET]).await;
    let (hog, polite) = (broker.connect().await, broker.connect().await);
    create_topic(&polite, "t", 600).await;
    let holding = hog.send(&fetch_that_holds_memory(600), 12).await.expect("is sent");
    let large = batch(&[&"x".repeat(1_000_000)]);
    let answer = timeout(PATIENCE, produce(&polite, "t", 0, large)).await.expect("in time");
    assert_eq!(answer.error_code, 0);
    holding.response().await.expect("is answered early");
    broker.stop().await;
}

#[tokio::test]
async fn many_fetches_that_hold_little_each_give_way_too() {
    const HELD_BYTES: usize = 64 << 10;
    /// What requests of this size share: the rest is for larger ones.
    const HOGS: usize = (1 << 20) / HELD_BYTES - 2;
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start_with(dir.path(), &[SMALL_BUDGET]).await;
    let polite = broker.connect().await;
    create_topic(&polite, "t", 1).await;
    // Each is charged exactly as much: eight times what follows its length.
    let mut request = fetch_that_holds_memory(1);
    let encode = |request: &_| logway_wire::encode_request(1, None, 12, request).expect("encodes");
    let unpadded_bytes = encode(&request).bytes.len() - 4;
    // The length of the padding takes a byte more than that of no padding.
    request.rack_id = "x".repeat(HELD_BYTES / 8 - unpadded_bytes - 1).into();
    let encoded = encode(&request);
    assert_eq!((encoded.bytes.len() - 4) * 8, HELD_BYTES);
    let mut hogs = Vec::new();
    for _ in 0..HOGS {
        let mut hog = broker.connect_raw().await;
        hog.writer.write_frame(&encoded.bytes).await.expect("is sent");
        hog.writer.flush().await.expect("is sent");
        hogs.push(hog);
    }
    until(|| broker.node().memory.requests.used_bytes() == HOGS * HELD_BYTES).await;
    let answer = timeout(PATIENCE, produce(&polite, "t", 0, batch(&["x"]))).await.expect("in time");
    assert_eq!(answer.error_code, 0);
    drop(hogs);
    broker.stop().await;
}

#[tokio::test]
async fn waiting_fetches_end_with_their_connection_and_with_the_broker() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    create_topic(&connection, "t", 1).await;
    let mut gone = broker.connect_raw().await;
    let request = fetch_that_holds_memory(1);
    let encoded = logway_wire::encode_request(1, None, 12, &request).expect("encodes");
    gone.writer.write_frame(&encoded.bytes).await.expect("is sent");
    gone.writer.flush().await.expect("is sent");
    until(|| broker.node().memory.requests.used_bytes() > 0).await;
    drop(gone);
    until(|| broker.node().metrics.connections.open.get() == 1).await;

    let waiting = connection.send(&request, 12).await.expect("is sent");
    until(|| broker.node().memory.requests.used_bytes() > 0).await;
    timeout(Duration::from_secs(4), broker.stop()).await.expect("nobody keeps it from stopping");
    waiting.response().await.expect("is answered before the end");
}

#[tokio::test]
async fn a_large_reply_that_is_not_read_gives_way_too() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start_with(dir.path(), &[SMALL_BUDGET]).await;
    let polite = broker.connect().await;
    create_topic(&polite, "t", 3_000).await;
    let mut stuck = Vec::new();
    for _ in 0..4 {
        let mut raw = broker.connect_raw().await;
        for id in 0..40 {
            let request = metadata_request();
            let encoded = logway_wire::encode_request(id, None, 9, &request).expect("encodes");
            raw.writer.write_frame(&encoded.bytes).await.expect("is sent");
        }
        raw.writer.flush().await.expect("is sent");
        stuck.push(raw);
    }
    let large = "x".repeat(900_000);
    for _ in 0..3 {
        let answer = timeout(PATIENCE, produce(&polite, "t", 0, batch(&[&large]))).await;
        assert_eq!(answer.expect("in time").error_code, 0);
    }
    drop(stuck);
    broker.stop().await;
}
