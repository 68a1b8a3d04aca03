//! Appends, as clients see them.

mod common;

use bytes::Bytes;
use common::{Door, append, record};
use logway_logservice::messages::log::append_reply::Reply as AppendReplyKind;
use logway_logservice::messages::log::{
    Acknowledgement, Append, NewRecord, OpenAppend, SessionPosition, append as append_fields,
};

#[tokio::test(flavor = "multi_thread")]
async fn what_is_acknowledged_is_read_in_its_order() {
    let dir = tempfile::tempdir().expect("a directory");
    let door = Door::open(dir.path()).await;
    door.create("clicks", 1, &[]).await;
    let mut client = door.client().await;
    let mut appending = client.open_append(OpenAppend::default()).await;
    let opened = appending.opened().await;
    assert!(!opened.session.is_empty() && opened.credit_bytes > 0);
    for sequence in 1..=100 {
        let (one, two) = (format!("{sequence}a"), format!("{sequence}b"));
        appending.append(append("clicks", sequence, &[&one, &two]));
    }
    appending.0.close();
    for sequence in 1..=100 {
        let appended = appending.appended().await;
        assert_eq!(appended.sequence, sequence);
        assert_eq!(appended.first_offset, (sequence as i64 - 1) * 2);
        assert_eq!(appended.session_records, sequence * 2);
        assert_eq!(appended.acknowledgement(), Acknowledgement::Committed);
        assert!(!appended.is_duplicate);
    }
    assert_eq!(appending.0.ended().await.code, 0);
    let values = client.values("clicks", 0).await;
    let expected: Vec<String> =
        (1..=100).flat_map(|it| [format!("{it}a"), format!("{it}b")]).collect();
    assert_eq!(values, expected);
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_comes_back_sends_again_what_was_not_acknowledged_and_it_is_there_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let door = Door::open(dir.path()).await;
    door.create("clicks", 2, &[]).await;
    let mut client = door.client().await;
    let mut appending = client.open_append(OpenAppend::default()).await;
    let session = appending.opened().await.session;
    let to = |sequence, partition, value: &str| Append {
        to: Some(append_fields::To::Partition(partition)),
        ..append("clicks", sequence, &[value])
    };
    appending.append(to(1, 0, "a"));
    let first = appending.appended().await;
    // Its acknowledgements are not heard.
    appending.append(to(2, 0, "b"));
    appending.append(to(3, 1, "c"));
    appending.appended().await;
    appending.appended().await;
    drop((appending, client));

    let mut client = door.client().await;
    let position =
        SessionPosition { log: "clicks".to_owned(), partition: 0, records: first.session_records };
    let open = OpenAppend { session, positions: vec![position], ..OpenAppend::default() };
    let mut appending = client.open_append(open).await;
    let told = appending.opened().await.positions;
    assert_eq!((told.len(), told[0].partition, told[0].records), (1, 0, 2));
    for append in [to(2, 0, "b"), to(3, 1, "c"), to(4, 0, "d"), to(5, 1, "e")] {
        appending.append(append);
    }
    let mut replies = Vec::new();
    for _ in 0..4 {
        let appended = appending.appended().await;
        replies.push((appended.sequence, appended.is_duplicate, appended.session_records));
    }
    replies.sort_unstable();
    assert_eq!(replies, [(2, true, 2), (3, true, 1), (4, false, 3), (5, false, 2)]);
    assert_eq!(client.values("clicks", 0).await, ["a", "b", "d"]);
    assert_eq!(client.values("clicks", 1).await, ["c", "e"]);

    // A position that the log never had.
    let position = SessionPosition { log: "clicks".to_owned(), partition: 0, records: 5 };
    let other = client.open_append(OpenAppend::default()).await.opened().await.session;
    let open = OpenAppend { session: other, positions: vec![position], ..OpenAppend::default() };
    let ended = client.open_append(open).await.0.ended().await;
    assert_eq!(ended.code, 9);
    assert!(ended.details.contains("SESSION_FORGOTTEN"), "{ended:?}");
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_are_chosen_as_kafka_does() {
    let dir = tempfile::tempdir().expect("a directory");
    let door = Door::open(dir.path()).await;
    door.create("clicks", 7, &[]).await;
    let mut client = door.client().await;
    let mut appending = client
        .open_append(OpenAppend {
            acknowledgement: Acknowledgement::Flushed.into(),
            ..OpenAppend::default()
        })
        .await;
    appending.opened().await;
    // As kafka-clients 4.3.0 has it: murmur2("user-7") without its sign, modulo the number of partitions.
    let partition = (logway_client::murmur2(b"user-7") & 0x7fff_ffff) % 7;
    let keyed = NewRecord { key: Some(Bytes::from_static(b"user-7")), ..record("x") };
    appending.append(Append { records: vec![keyed], ..append("clicks", 1, &[]) });
    let appended = appending.appended().await;
    assert_eq!(appended.partition, partition);
    assert_eq!(appended.acknowledgement(), Acknowledgement::Flushed);
    let to = Some(append_fields::To::ByKey(Bytes::from_static(b"user-7")));
    appending.append(Append { to, ..append("clicks", 2, &["y"]) });
    assert_eq!(appending.appended().await.partition, partition);
    appending.append(append("clicks", 3, &["z"]));
    assert_eq!(appending.appended().await.partition, 3, "by the sequence");
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acknowledgement_that_there_is_not_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let door = Door::open(dir.path()).await;
    let mut client = door.client().await;
    for acknowledgement in [3, 99, -1] {
        let open = OpenAppend { acknowledgement, ..OpenAppend::default() };
        let ended = client.open_append(open).await.0.ended().await;
        let expected = format!("open.acknowledgement has no value {acknowledgement}");
        assert_eq!((ended.code, ended.message), (3, expected));
    }
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_log_does_not_take_fails_alone_and_the_stream_goes_on() {
    let dir = tempfile::tempdir().expect("a directory");
    let door = Door::open(dir.path()).await;
    door.create("small", 1, &[("max.message.bytes", "1000")]).await;
    let mut client = door.client().await;
    let mut appending = client.open_append(OpenAppend::default()).await;
    appending.opened().await;
    let large = "x".repeat(2_000);
    for (sequence, value) in (1..).zip(["a", "b", &large, "c"]) {
        appending.append(append("small", sequence, &[value]));
    }
    for sequence in 1..=4 {
        match appending.reply().await {
            AppendReplyKind::Appended(appended) => assert_eq!(appended.sequence, sequence),
            AppendReplyKind::Failed(failed) => {
                assert_eq!((failed.sequence, sequence), (3, 3));
                assert_eq!(failed.reason, "RECORD_TOO_LARGE");
                assert!(failed.message.contains("1000"), "{failed:?}");
            }
            AppendReplyKind::Opened(_) => panic!("it is opened once"),
        }
    }
    assert_eq!(client.values("small", 0).await, ["a", "b", "c"]);
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_ends_the_stream_with_its_name() {
    let dir = tempfile::tempdir().expect("a directory");
    let door = Door::open(dir.path()).await;
    door.create("clicks", 1, &[]).await;
    let mut client = door.client().await;
    for (append, code, word) in [
        (append("nowhere", 1, &["a"]), 5, "UNKNOWN_LOG"),
        (append("__consumer_offsets", 1, &["a"]), 3, "INTERNAL_LOG"),
        (append("clicks", 0, &["a"]), 3, "sequence 0"),
        (append("clicks", 1, &[]), 3, "needs a record"),
        (
            Append { to: Some(append_fields::To::Partition(1)), ..append("clicks", 1, &["a"]) },
            5,
            "there is no partition 1",
        ),
    ] {
        let mut appending = client.open_append(OpenAppend::default()).await;
        appending.opened().await;
        appending.append(append);
        let ended = appending.0.ended().await;
        assert_eq!(ended.code, code, "{ended:?}");
        assert!(format!("{ended:?}").contains(word), "{ended:?}");
    }
    let open = OpenAppend { session: Bytes::from_static(b"x"), ..OpenAppend::default() };
    assert_eq!(client.open_append(open).await.0.ended().await.code, 3);
    door.close().await;
}
