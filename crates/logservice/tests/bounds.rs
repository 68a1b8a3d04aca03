//! What clients may take of a node, and that others are served beside those who take more.

mod common;

use std::time::Duration;

use bytes::Bytes;
use common::{Call, Client, Door, append, record};
use logway_logservice::messages::health::{HealthCheckRequest, HealthCheckResponse};
use logway_logservice::messages::log::read_request::From;
use logway_logservice::messages::log::{
    Append, Filter, OpenAppend, ReadReply, ReadRequest, ValueSchema, value_schema,
};
use logway_logservice::messages::logspec;
use logway_model::TimestampMs;
use logway_record::{BatchBuilder, Compression};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// The least memory of requests that there may be. Replies have half of it.
const SMALL_MEMORY: &[(&str, &str)] = &[("queued.max.request.bytes", "1048576")];

/// More than half of what replies may hold then.
const LARGE_BYTES: usize = 400_000;

fn of(log: &str) -> ReadRequest {
    ReadRequest { log: log.to_owned(), ..ReadRequest::default() }
}

async fn watched_health(client: &mut Client) -> Call {
    let mut call = client.call("/grpc.health.v1.Health/Watch").await;
    call.send(&HealthCheckRequest::default());
    call.close();
    call
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_without_a_login_are_few_and_no_part_of_the_others() {
    const OF_HOST: usize = 64;
    let dir = tempfile::tempdir().expect("a directory");
    let door = Door::open(dir.path()).await;
    door.create("numbers", 1, &[]).await;
    let (mut client, mut other) = (door.client().await, door.client().await);
    let mut watching = Vec::new();
    for number in 0..OF_HOST {
        let of = if number % 2 == 0 { &mut client } else { &mut other };
        let mut call = watched_health(of).await;
        let now = call.next::<HealthCheckResponse>().await.expect("goes on");
        assert_eq!(now.map(|it| it.status), Some(1));
        watching.push(call);
    }
    for client in [&mut client, &mut other] {
        let ended = watched_health(client).await.ended().await;
        assert!(ended.code == 8 && ended.details.contains("TOO_MANY_STREAMS"), "{ended:?}");
    }
    // A check takes no place, and neither do other streams of the same connection.
    let check = HealthCheckRequest::default();
    let now: HealthCheckResponse =
        client.unary("/grpc.health.v1.Health/Check", &check).await.expect("is told");
    assert_eq!(now.status, 1);
    assert_eq!(client.values("numbers", 0).await, [""; 0]);
    // A place is free again when a stream has ended.
    drop(watching.pop());
    let begun = Instant::now();
    loop {
        let mut call = watched_health(&mut client).await;
        match call.next::<HealthCheckResponse>().await {
            Ok(_) => break,
            Err(ended) => assert!(begun.elapsed() < common::UNTIL_MAX, "{ended:?}"),
        }
        sleep(Duration::from_millis(10)).await;
    }
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_takes_nothing_of_its_last_reply_does_not_keep_others_from_memory() {
    let dir = tempfile::tempdir().expect("a directory");
    let door = Door::open_with(dir.path(), SMALL_MEMORY).await;
    let all = with_a_large_record(&door).await;
    let mut client = door.client().await;
    for (given_up, request) in [
        // One that has ended, and one that has nothing more to say for an hour.
        (1, all.clone()),
        (2, ReadRequest { progress_interval_ms: 3_600_000, ..of("large") }),
    ] {
        let mut slow = door.slow_client().await;
        let mut unread = slow.read(request).await;
        unread.begun().await;
        let reply: Option<ReadReply> =
            client.read(all.clone()).await.next().await.expect("has its turn");
        assert_eq!(reply.map(|reply| reply.records.len()), Some(1));
        assert_eq!(door.counted("logway_log_service_connections_given_up_total"), given_up);
    }
    door.close().await;
}

/// A reply of more than half of the memory, which few can have at a time.
async fn with_a_large_record(door: &Door) -> ReadRequest {
    with_a_record(door, LARGE_BYTES).await
}

async fn with_a_record(door: &Door, bytes: usize) -> ReadRequest {
    door.create("large", 1, &[]).await;
    let mut client = door.client().await;
    // Beside a stream that has appended nothing yet.
    let mut idle = client.open_append(OpenAppend::default()).await;
    idle.opened().await;
    let mut appending = client.open_append(OpenAppend::default()).await;
    appending.opened().await;
    let large = record("x".repeat(bytes));
    appending.append(Append { records: vec![large], ..append("large", 1, &[]) });
    appending.appended().await;
    ReadRequest { records_max: 1, ..of("large") }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_may_unpack_to_much_and_not_to_any_size() {
    let dir = tempfile::tempdir().expect("a directory");
    let door = Door::open_with(dir.path(), SMALL_MEMORY).await;
    for log in ["packed", "spec"] {
        door.create(log, 1, &[]).await;
        for records in [1, 5, 40, 70] {
            door.append_batch(log, packed(records)).await;
        }
    }
    let mut client = door.client().await;
    let mut reading = client.read(of("packed")).await;
    let mut next = 0;
    while next < 46 {
        let reply: ReadReply = reading.next().await.expect("is sent").expect("goes on");
        for record in reply.records {
            assert_eq!(record.offset, next);
            next += 1;
        }
    }
    let ended = reading.ended().await;
    assert!(ended.code == 9 && ended.details.contains("BATCH_TOO_LARGE"), "{ended:?}");
    assert!(ended.details.contains("115"), "it tells the offset: {ended:?}");

    let mut client = door.logspec_client().await;
    let mut reading = client.call("/logspec.Log/Read").await;
    reading.send(&logspec::ReadRequest { next_index: 1 });
    let mut entries = 0;
    while entries < 46 {
        let reply: logspec::ReadReply = reading.next().await.expect("is sent").expect("goes on");
        let Some(logspec::read_reply::Reply::Ok(ok)) = reply.reply else { panic!("entries") };
        entries += ok.entries.len();
    }
    let ended = reading.ended().await;
    assert!(ended.code == 9 && ended.details.contains("BATCH_TOO_LARGE"), "{ended:?}");
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_reads_large_batches_costs_others_a_turn() {
    const HOGS: usize = 60;
    /// A turn unpacks 40 MiB. All of them take minutes without turns.
    const WAIT_MAX: Duration = Duration::from_secs(20);
    let dir = tempfile::tempdir().expect("a directory");
    let door = Door::open(dir.path()).await;
    with_packed(&door, "packed", 40).await;
    with_packed(&door, "small", 1).await;
    let filtered = |filter| ReadRequest { filter: Some(filter), ..of("packed") };
    let nothing = filtered(Filter { keys: vec!["no such key".into()], ..Filter::default() });
    // A connection evaluates two at a time.
    let evaluated = filtered(Filter { expression: "offset >= 0".to_owned(), ..Filter::default() });
    let (mut hog, mut calls) = (door.client().await, Vec::new());
    for number in 0..HOGS {
        // Those who get something take none of it; the others come to the end of the batch and wait there.
        let requests = [of("packed"), nothing.clone(), evaluated.clone()];
        calls.push(hog.read(requests[number % 3].clone()).await);
    }
    let mut polite = door.client_from([127, 0, 0, 2]).await;
    for log in ["small", "packed"] {
        let begun = Instant::now();
        let reply: Option<ReadReply> = polite.read(of(log)).await.next().await.expect("goes on");
        assert!(reply.is_some_and(|reply| !reply.records.is_empty()));
        assert!(begun.elapsed() < WAIT_MAX, "{log}: {:?}", begun.elapsed());
    }
    door.close().await;
}

/// A batch that unpacks to so many records of a MiB.
fn packed(records: usize) -> Bytes {
    let mut batch = BatchBuilder::new(Compression::Zstd);
    for _ in 0..records {
        let value = vec![b'x'; (1 << 20) - 100];
        batch.append(TimestampMs(1), None, Some(&value), &[]).expect("fits");
    }
    batch.finish().expect("is one")
}

/// A log with such a batch.
async fn with_packed(door: &Door, log: &str, records: usize) {
    door.create(log, 1, &[]).await;
    door.append_batch(log, packed(records)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_of_a_connection_evaluate_the_same_large_batch() {
    const RECORDS: usize = 40;
    let dir = tempfile::tempdir().expect("a directory");
    let door = Door::open(dir.path()).await;
    with_packed(&door, "packed", RECORDS).await;
    let filter = Filter { expression: "offset >= 0".to_owned(), ..Filter::default() };
    let request = ReadRequest { filter: Some(filter), until_end: true, ..of("packed") };
    let mut client = door.client().await;
    let mut readers = JoinSet::new();
    for _ in 0..6 {
        let mut call = client.read(request.clone()).await;
        readers.spawn(async move {
            let mut records = 0;
            while let Some(reply) = call.next::<ReadReply>().await.expect("goes on") {
                records += reply.records.len();
            }
            records
        });
    }
    assert_eq!(readers.join_all().await, [RECORDS; 6]);
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn several_have_replies_larger_than_all_that_replies_may_hold() {
    const READERS: usize = 4;
    const READS: usize = 3;
    let dir = tempfile::tempdir().expect("a directory");
    let door = Door::open_with(dir.path(), SMALL_MEMORY).await;
    let request = with_a_record(&door, 700_000).await;
    let mut readers = JoinSet::new();
    for _ in 0..READERS {
        let (mut client, request) = (door.client().await, request.clone());
        readers.spawn(async move {
            for _ in 0..READS {
                let read: Option<ReadReply> =
                    client.read(request.clone()).await.next().await.expect("has its turn");
                assert_eq!(read.map(|reply| reply.records.len()), Some(1));
            }
        });
    }
    readers.join_all().await;
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_replies_of_one_client_do_not_keep_another_one_from_its_turn() {
    const HOGS: usize = 12;
    /// Two that take nothing have a second or two each, and the machine may be busy. All of them take two minutes without turns.
    const WAIT_MAX: Duration = Duration::from_secs(20);
    let dir = tempfile::tempdir().expect("a directory");
    let door = Door::open_with(dir.path(), SMALL_MEMORY).await;
    let request = with_a_large_record(&door).await;
    let (mut hogs, mut first) = (Vec::new(), door.slow_client().await);
    let mut untaken = first.read(request.clone()).await;
    untaken.begun().await;
    for _ in 1..HOGS {
        let mut client = door.slow_client().await;
        let call = client.read(request.clone()).await;
        hogs.push((client, call));
    }
    let given_up = || door.counted("logway_log_service_connections_given_up_total");
    let begun = Instant::now();
    // The reader asks a little later than they do. The one that has the memory is not open any more: its stream ends with its reply.
    while door.counted("logway_log_service_read_streams_open") + given_up() < HOGS as u64 - 1 {
        assert!(begun.elapsed() < common::UNTIL_MAX, "they read");
        sleep(Duration::from_millis(10)).await;
    }
    let mut polite = door.client_from([127, 0, 0, 2]).await;
    let (begun, given_up_before) = (Instant::now(), given_up());
    let reply: Option<ReadReply> = polite.read(request).await.next().await.expect("goes on");
    assert_eq!(reply.map(|reply| reply.records.len()), Some(1));
    assert!(begun.elapsed() < WAIT_MAX, "{:?}", begun.elapsed());
    let turns = given_up() - given_up_before;
    assert!(turns <= 3, "{turns} of them had their turn before");
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_takes_nothing_of_small_replies_is_given_up_while_memory_is_short() {
    const RECORDS: u64 = 40;
    let dir = tempfile::tempdir().expect("a directory");
    let door = Door::open_with(dir.path(), SMALL_MEMORY).await;
    door.create("small", 1, &[]).await;
    let mut client = door.client().await;
    let mut appending = client.open_append(OpenAppend::default()).await;
    appending.opened().await;
    for sequence in 1..=RECORDS {
        let value = "x".repeat(10_000);
        appending.append(append("small", sequence, &[&value]));
        appending.appended().await;
    }
    let replies = &door.node.memory.replies;
    let all = replies.take(replies.limit_bytes()).await;
    let waiting = tokio::spawn({
        let replies = replies.clone();
        async move { drop(replies.take(1).await) }
    });
    let (mut silent, mut slow) = (door.slow_client().await, door.slow_client().await);
    let mut untaken = silent.read(of("small")).await;
    untaken.begun().await;
    // One that takes what it gets has all of it, and waits for more.
    let mut taken = slow.read(of("small")).await;
    let mut count = 0;
    while count < RECORDS as usize {
        let reply: Option<ReadReply> = taken.next().await.expect("goes on");
        count += reply.expect("goes on").records.len();
    }
    let begun = Instant::now();
    while door.counted("logway_log_service_connections_given_up_total") == 0 {
        assert!(begun.elapsed() < common::UNTIL_MAX, "it is not given up");
        sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(client.values("small", 0).await.len(), count);
    appending.append(append("small", RECORDS + 1, &["y"]));
    appending.appended().await;
    // It may hear first how far it is.
    while count <= RECORDS as usize {
        let reply: Option<ReadReply> = taken.next().await.expect("goes on");
        count += reply.expect("goes on").records.len();
    }
    assert_eq!(door.counted("logway_log_service_connections_given_up_total"), 1);
    drop(all);
    waiting.await.expect("has its turn");
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_read_has_no_schema_read() {
    let dir = tempfile::tempdir().expect("a directory");
    let door = Door::open(dir.path()).await;
    let mut client = door.client().await;
    let schema = Some(value_schema::Schema::Avro("no schema".to_owned()));
    let request =
        ReadRequest { value_schema: Some(ValueSchema { schema, skip_bytes: 0 }), ..of("nowhere") };
    assert_eq!(client.read(request).await.ended().await.code, 5);
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_filters_take_memory_for_as_long_as_they_are_there() {
    let dir = tempfile::tempdir().expect("a directory");
    let door = Door::open_with(dir.path(), SMALL_MEMORY).await;
    door.create("numbers", 1, &[]).await;
    let (mut client, mut others) = (door.client().await, door.client().await);
    // An eighth of the memory is for filters: one of these has room, and two have not.
    let large = |client: &'static str| Filter {
        keys: vec!["x".repeat(80_000).into(), client.into()],
        ..Filter::default()
    };
    let filtered =
        |filter| ReadRequest { filter: Some(filter), from: Some(From::End(true)), ..of("numbers") };
    let mut first = client.read(filtered(large("first"))).await;
    let told: Result<Option<ReadReply>, _> = first.next().await;
    assert!(told.is_ok_and(|told| told.is_some()), "it tells where it is");
    let ended = others.read(filtered(large("second"))).await.ended().await;
    assert!(ended.code == 8 && ended.details.contains("TOO_MANY_FILTERS"), "{ended:?}");
    // Small ones need none of it.
    let small = Filter { expression: "value.a > 1".to_owned(), ..Filter::default() };
    let told: Result<Option<ReadReply>, _> = others.read(filtered(small)).await.next().await;
    assert!(told.is_ok_and(|told| told.is_some()));
    drop(first);
    let begun = Instant::now();
    while let Err(ended) = others.read(filtered(large("third"))).await.next::<ReadReply>().await {
        assert!(begun.elapsed() < common::UNTIL_MAX, "{ended:?}");
        sleep(Duration::from_millis(10)).await;
    }
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_that_go_give_back_the_memory_of_what_was_made_for_them() {
    const ROUNDS: usize = 30;
    let dir = tempfile::tempdir().expect("a directory");
    let door = Door::open(dir.path()).await;
    door.create("large", 1, &[]).await;
    let mut client = door.client().await;
    let mut appending = client.open_append(OpenAppend::default()).await;
    appending.opened().await;
    for sequence in 1..=6 {
        let large = record("x".repeat(LARGE_BYTES));
        appending.append(Append { records: vec![large], ..append("large", sequence, &[]) });
        appending.appended().await;
    }
    // While they go the next reply is being made, or is on its way to the connection.
    for _ in 0..ROUNDS {
        let mut call = client.read(of("large")).await;
        call.begun().await;
    }
    let begun = Instant::now();
    while door.node.memory.replies.used_bytes() > 0 {
        assert!(begun.elapsed() < common::UNTIL_MAX, "somebody keeps it");
        sleep(Duration::from_millis(10)).await;
    }
    door.close().await;
}
