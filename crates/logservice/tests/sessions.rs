//! Sessions of appenders: whose they are, and that nobody's records are taken for another's.

mod common;

use bytes::Bytes;
use common::{Appending, Client, Door, Ended, append};
use logway_logservice::messages::log::append_reply::Reply as AppendReplyKind;
use logway_logservice::messages::log::{
    Append, AppendOpened, NewRecord, OpenAppend, ReadReply, ReadRequest, SessionPosition,
};
use logway_model::{ProducerEpoch, ProducerId, Sequence, TimestampMs};
use logway_record::{BatchBuilder, Compression};
use tempfile::TempDir;

const ABORTED: i32 = 10;
const FAILED_PRECONDITION: i32 = 9;
const INVALID_ARGUMENT: i32 = 3;

/// A node with the log `clicks`, which ends with its directory.
async fn with_clicks() -> (TempDir, Door) {
    let dir = tempfile::tempdir().expect("a directory");
    let door = Door::open(dir.path()).await;
    door.create("clicks", 1, &[]).await;
    (dir, door)
}

/// A new session that has appended one record.
async fn begun(client: &mut Client) -> (Appending, AppendOpened) {
    let (mut appending, opened) = open(client, OpenAppend::default()).await;
    appending.append(append("clicks", 1, &["a"]));
    appending.appended().await;
    (appending, opened)
}

async fn open(client: &mut Client, open: OpenAppend) -> (Appending, AppendOpened) {
    let mut appending = client.open_append(open).await;
    let opened = appending.opened().await;
    (appending, opened)
}

fn going_on(session: &Bytes, acknowledged: &[u64]) -> OpenAppend {
    let position = |records: &u64| SessionPosition {
        log: "clicks".to_owned(),
        partition: 0,
        records: *records,
    };
    let positions = acknowledged.iter().map(position).collect();
    OpenAppend { session: session.clone(), positions, ..OpenAppend::default() }
}

/// The producer id in a token.
fn id_of(token: &Bytes) -> i64 {
    i64::from_be_bytes(token[1..9].try_into().expect("8 bytes"))
}

async fn refused(client: &mut Client, session: Bytes) -> Ended {
    let open = OpenAppend { session, ..OpenAppend::default() };
    client.open_append(open).await.0.ended().await
}

/// Appends as a Kafka client does, which names its id itself.
async fn append_as_producer(door: &Door, id: i64, values: &[&str]) {
    let mut batch = BatchBuilder::new(Compression::None).with_producer(
        ProducerId(id),
        ProducerEpoch(0),
        Sequence(0),
    );
    for value in values {
        batch.append(TimestampMs(1), None, Some(value.as_bytes()), &[]).expect("fits");
    }
    door.append_batch("clicks", batch.finish().expect("is one")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_cannot_be_made_up() {
    let (_dir, door) = with_clicks().await;
    let mut client = door.client().await;
    let (appending, opened) = open(&mut client, OpenAppend::default()).await;
    let mut next = opened.session.to_vec();
    next[1..9].copy_from_slice(&(id_of(&opened.session) + 1).to_be_bytes());
    let mut fencing = opened.session.to_vec();
    fencing[9..11].copy_from_slice(&i16::MAX.to_be_bytes());
    let bare = [&id_of(&opened.session).to_be_bytes()[..], &[0, 0]].concat();
    for made_up in [next, fencing, bare, vec![0; 27], b"x".to_vec()] {
        let ended = refused(&mut client, made_up.into()).await;
        assert_eq!(ended.code, INVALID_ARGUMENT, "{ended:?}");
        assert!(ended.details.contains("INVALID_SESSION"), "{ended:?}");
        assert!(ended.details.contains("remedy"), "{ended:?}");
    }
    // The owner is not disturbed.
    let mut appending = appending;
    appending.append(append("clicks", 1, &["a"]));
    assert!(!appending.appended().await.is_duplicate);
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_outlives_the_node() {
    let (dir, door) = with_clicks().await;
    let mut client = door.client().await;
    let (mut appending, opened) = begun(&mut client).await;
    appending.append(append("clicks", 2, &["b"]));
    appending.appended().await;
    drop((appending, client));
    door.close().await;

    let door = Door::open(dir.path()).await;
    let mut client = door.client().await;
    let (mut appending, again) = open(&mut client, going_on(&opened.session, &[1])).await;
    assert_eq!(again.session, opened.session);
    assert_eq!(again.positions[0].records, 2);
    appending.append(append("clicks", 2, &["b"]));
    appending.append(append("clicks", 3, &["c"]));
    assert!(appending.appended().await.is_duplicate);
    assert!(!appending.appended().await.is_duplicate);
    assert_eq!(client.values("clicks", 0).await, ["a", "b", "c"]);
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_stream_of_the_session_wrote_is_not_acknowledged_to_this_one() {
    let (_dir, door) = with_clicks().await;
    for others in [&["x"][..], &["x", "y"]] {
        let mut client = door.client().await;
        let (mut first, opened) = begun(&mut client).await;
        let mut other_client = door.client().await;
        let (mut other, _) = open(&mut other_client, going_on(&opened.session, &[1])).await;
        other.append(append("clicks", 2, others));
        assert!(!other.appended().await.is_duplicate);
        // As many records, so that the log takes them for the same; or fewer.
        first.append(append("clicks", 2, &["b"]));
        let ended = first.0.ended().await;
        assert_eq!(ended.code, ABORTED, "{ended:?}");
        assert!(ended.details.contains("SESSION_ELSEWHERE"), "{ended:?}");
        assert!(ended.details.contains("clicks"), "{ended:?}");
        // The one that went on with the session last still has it.
        other.append(append("clicks", 3, &["z"]));
        assert!(!other.appended().await.is_duplicate);
    }
    assert_eq!(client_values(&door).await, ["a", "x", "z", "a", "x", "y", "z"]);
    door.close().await;
}

async fn client_values(door: &Door) -> Vec<String> {
    door.client().await.values("clicks", 0).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_session_takes_nobodys_records_for_its_own() {
    let (_dir, door) = with_clicks().await;
    let mut client = door.client().await;
    for planted in [&["x"][..], &["x", "y", "z"]] {
        let (mut appending, opened) = open(&mut client, OpenAppend::default()).await;
        append_as_producer(&door, id_of(&opened.session), planted).await;
        appending.append(append("clicks", 1, &["precious"]));
        let ended = appending.0.ended().await;
        assert_eq!(ended.code, ABORTED, "{ended:?}");
        assert!(ended.details.contains("SESSION_ELSEWHERE"), "{ended:?}");
    }
    assert_eq!(client_values(&door).await, ["x", "x", "y", "z"]);
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_comes_back_may_find_what_the_stream_before_appends_late() {
    let (_dir, door) = with_clicks().await;
    let mut client = door.client().await;
    let (mut earlier, opened) = begun(&mut client).await;
    let (mut later, again) = open(&mut client, going_on(&opened.session, &[1])).await;
    assert_eq!(again.positions[0].records, 1);
    // Its connection was broken, as the client sees it; the node has not noticed.
    earlier.append(append("clicks", 2, &["b"]));
    earlier.appended().await;
    for (sequence, value) in (2..).zip(["b", "c"]) {
        later.append(append("clicks", sequence, &[value]));
    }
    let found = later.appended().await;
    assert!(found.is_duplicate);
    assert_eq!(found.first_offset, 1);
    assert!(!later.appended().await.is_duplicate);
    assert_eq!(client_values(&door).await, ["a", "b", "c"]);
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_number_of_records_is_too_large_to_be_refused() {
    let (_dir, door) = with_clicks().await;
    let mut client = door.client().await;
    let (mut appending, opened) = begun(&mut client).await;
    appending.0.close();
    for records in [u64::MAX, 1 << 63] {
        let ended = client.open_append(going_on(&opened.session, &[records])).await.0.ended().await;
        assert_eq!(ended.code, INVALID_ARGUMENT, "{ended:?}");
        assert!(ended.details.contains("clicks"), "{ended:?}");
    }
    // A log could have so many, but this one has not.
    for records in [(1 << 63) - 1, (1 << 31) + 1] {
        let ended = client.open_append(going_on(&opened.session, &[records])).await.0.ended().await;
        assert_eq!(ended.code, FAILED_PRECONDITION, "{ended:?}");
        assert!(ended.details.contains("SESSION_FORGOTTEN"), "{ended:?}");
    }
    assert_eq!(client_values(&door).await, ["a"]);
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_append_of_too_many_records_fails_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let door = Door::open(dir.path()).await;
    door.create("clicks", 1, &[("max.message.bytes", "100000000")]).await;
    let mut client = door.client().await;
    let (mut appending, _) = open(&mut client, OpenAppend::default()).await;
    for (sequence, count) in (1..).zip([1, 100_001, 100_000, 1]) {
        let records = vec![NewRecord::default(); count];
        appending.append(Append { records, ..append("clicks", sequence, &[]) });
    }
    for sequence in 1..=4 {
        match appending.reply().await {
            AppendReplyKind::Appended(appended) => assert_eq!(appended.sequence, sequence),
            AppendReplyKind::Failed(failed) => {
                assert_eq!((failed.sequence, sequence), (2, 2));
                assert_eq!(failed.reason, "RECORD_TOO_LARGE");
                assert!(failed.message.contains("100001 records"), "{failed:?}");
            }
            AppendReplyKind::Opened(_) => panic!("it is opened once"),
        }
    }
    let request = ReadRequest { log: "clicks".to_owned(), until_end: true, ..Default::default() };
    let mut read = client.read(request).await;
    let mut count = 0;
    while let Some(reply) = read.next::<ReadReply>().await.expect("can be read") {
        count += reply.records.len();
    }
    assert_eq!(count, 100_002);
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_tell_their_details_whatever_a_log_is_called() {
    let dir = tempfile::tempdir().expect("a directory");
    let door = Door::open(dir.path()).await;
    let mut client = door.client().await;
    let (mut appending, _) = open(&mut client, OpenAppend::default()).await;
    appending.append(append(&"n".repeat(5_000), 1, &["a"]));
    let ended = appending.0.ended().await;
    assert_eq!(ended.code, 5, "{}", ended.message);
    assert!(ended.message.len() < 4_000 && ended.details.len() < 2_000);
    assert!(ended.details.contains("UNKNOWN_LOG") && ended.details.contains("remedy"));
    door.close().await;
}
