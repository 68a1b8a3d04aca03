//! Reads, and what is told of logs.

mod common;

use common::{Client, Door, Ended, append, text};
use logway_logservice::messages::log::read_request::From;
use logway_logservice::messages::log::{
    Append, Filter, Format, Header, HeaderCondition, InfoReply, InfoRequest, NewRecord, OpenAppend,
    ReadReply, ReadRequest, TruncateReply, TruncateRequest, ValueSchema, WatchRequest,
    header_condition, value_schema,
};
use logway_record::{Batches, DecodeLimit};

const SERVICE: &str = "/logway.log.v1.LogService";

/// A log of so many records, whose values are their offsets.
async fn filled(client: &mut Client, log: &str, count: u64) {
    let mut appending = client.open_append(OpenAppend::default()).await;
    appending.opened().await;
    for sequence in 1..=count {
        let offset = sequence - 1;
        let header =
            Header { name: "parity".to_owned(), value: Some(format!("{}", offset % 2).into()) };
        let record = NewRecord {
            key: Some(format!("key-{}", offset % 100).into()),
            value: Some(offset.to_string().into()),
            headers: vec![header],
            timestamp_ms: Some(1_700_000_000_000 + i64::try_from(offset).expect("is small")),
        };
        appending.append(Append { records: vec![record], ..append(log, sequence, &[]) });
    }
    appending.0.close();
    for _ in 0..count {
        appending.appended().await;
    }
}

fn of(log: &str) -> ReadRequest {
    ReadRequest { log: log.to_owned(), ..ReadRequest::default() }
}

async fn offsets(client: &mut Client, request: ReadRequest) -> Vec<i64> {
    let mut call = client.read(request).await;
    let (mut offsets, mut next) = (Vec::new(), 0);
    while let Some(reply) = call.next::<ReadReply>().await.expect("can be read") {
        assert!(reply.next_offset >= next, "it never goes back");
        next = reply.next_offset;
        offsets.extend(reply.records.iter().map(|record| record.offset));
        for record in reply.records {
            assert_eq!(text(record.value), record.offset.to_string());
        }
    }
    offsets
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_begins_and_ends_where_it_says() {
    let dir = tempfile::tempdir().expect("a directory");
    let door = Door::open(dir.path()).await;
    door.create("numbers", 1, &[]).await;
    let mut client = door.client().await;
    filled(&mut client, "numbers", 1_000).await;
    let base = ReadRequest { until_end: true, ..of("numbers") };
    let from = |from| ReadRequest { from: Some(from), ..base.clone() };
    for (request, range) in [
        (base.clone(), 0..1_000),
        (from(From::Offset(990)), 990..1_000),
        (from(From::TimeMs(1_700_000_000_995)), 995..1_000),
        (from(From::End(true)), 0..0),
        (ReadRequest { records_max: 7, ..from(From::Offset(3)) }, 3..10),
        (ReadRequest { until_offset: Some(5), ..base.clone() }, 0..5),
        (ReadRequest { bytes_max: 1, ..from(From::Offset(9)) }, 9..10),
    ] {
        assert_eq!(offsets(&mut client, request).await, range.collect::<Vec<_>>());
    }
    // Without a bound it waits for more.
    let mut call = client.read(from(From::End(true)).clone()).await;
    assert_eq!(call.next::<ReadReply>().await, Ok(None), "until the end of then");
    let mut call = client.read(ReadRequest { until_end: false, ..from(From::End(true)) }).await;
    let first = call.next::<ReadReply>().await.expect("goes on").expect("tells where it is");
    assert_eq!((first.records.len(), first.next_offset, first.end_offset), (0, 1_000, 1_000));
    let mut writer = door.client().await;
    let mut appending = writer.open_append(OpenAppend::default()).await;
    appending.opened().await;
    appending.append(append("numbers", 1, &["1000"]));
    appending.appended().await;
    let more = call.next::<ReadReply>().await.expect("goes on").expect("comes");
    assert_eq!((more.records.len(), more.next_offset), (1, 1_001));
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_come_as_the_log_has_them() {
    let dir = tempfile::tempdir().expect("a directory");
    let door = Door::open(dir.path()).await;
    door.create("packed", 1, &[("compression.type", "zstd")]).await;
    let mut client = door.client().await;
    filled(&mut client, "packed", 500).await;
    let request = ReadRequest {
        format: Format::Batches.into(),
        until_end: true,
        from: Some(From::Offset(100)),
        until_offset: Some(400),
        ..of("packed")
    };
    let mut call = client.read(request.clone()).await;
    let mut seen = Vec::new();
    while let Some(reply) = call.next::<ReadReply>().await.expect("can be read") {
        for batch in Batches::new(reply.batches) {
            let batch = batch.expect("is whole");
            assert!(batch.header().attributes.codec() != 0, "it is as it was");
            for record in batch.records(DecodeLimit::BATCH_MAX).expect("unpacks") {
                seen.push(record.expect("is one").offset.0);
            }
        }
    }
    let within: Vec<i64> = seen.iter().copied().filter(|it| (100..400).contains(it)).collect();
    assert_eq!(within, (100..400).collect::<Vec<_>>());
    // The same records, unpacked.
    let unpacked = ReadRequest { format: Format::Records.into(), ..request.clone() };
    assert_eq!(offsets(&mut client, unpacked).await, (100..400).collect::<Vec<_>>());
    let both = ReadRequest { records_max: 1, ..request };
    assert_eq!(client.read(both).await.ended().await.code, 3);
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_leaves_out_what_does_not_pass_and_tells_progress() {
    let dir = tempfile::tempdir().expect("a directory");
    let door = Door::open(dir.path()).await;
    door.create("numbers", 1, &[]).await;
    let mut client = door.client().await;
    filled(&mut client, "numbers", 1_000).await;
    let filtered = |filter| ReadRequest { filter: Some(filter), until_end: true, ..of("numbers") };
    let keys = Filter { keys: vec!["key-7".into()], ..Filter::default() };
    let expected: Vec<i64> = (0..1_000).filter(|offset| offset % 100 == 7).collect();
    assert_eq!(offsets(&mut client, filtered(keys.clone())).await, expected);
    let first = ReadRequest { records_max: 2, ..filtered(keys) };
    assert_eq!(offsets(&mut client, first).await, [7, 107]);
    let condition = HeaderCondition {
        name: "parity".to_owned(),
        value: Some(header_condition::Value::Equals("1".into())),
    };
    let odd = Filter {
        headers: vec![condition],
        time_from_ms: Some(1_700_000_000_990),
        ..Filter::default()
    };
    assert_eq!(offsets(&mut client, filtered(odd)).await, [991, 993, 995, 997, 999]);

    let expression = "value >= 995 && headers.parity == '1' || key == 'key-0' && offset > 800";
    let expressed = Filter { expression: expression.to_owned(), ..Filter::default() };
    assert_eq!(offsets(&mut client, filtered(expressed)).await, [900, 995, 997, 999]);
    let wrong = Filter { expression: "value ==".to_owned(), ..Filter::default() };
    assert_eq!(client.read(filtered(wrong)).await.ended().await.code, 3);

    let nothing = Filter { keys: vec!["none".into()], ..Filter::default() };
    let request = ReadRequest { until_end: false, progress_interval_ms: 100, ..filtered(nothing) };
    let mut call = client.read(request).await;
    let mut last = ReadReply::default();
    while last.next_offset < 1_000 {
        last = call.next().await.expect("goes on").expect("is told");
        assert!(last.records.is_empty());
    }
    // And again, while nothing happens.
    let again = call.next::<ReadReply>().await.expect("goes on").expect("is told");
    assert_eq!(again.next_offset, 1_000);
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_truncated_is_told_with_log_offset_and_remedy() {
    let dir = tempfile::tempdir().expect("a directory");
    let door = Door::open(dir.path()).await;
    door.create("numbers", 1, &[]).await;
    let mut client = door.client().await;
    filled(&mut client, "numbers", 100).await;
    let path = format!("{SERVICE}/Truncate");
    let request = TruncateRequest {
        log: "numbers".to_owned(),
        before_offset: Some(40),
        ..TruncateRequest::default()
    };
    let reply: Result<TruncateReply, _> = client.unary(&path, &request).await;
    assert_eq!(reply, Ok(TruncateReply { start_offset: 40 }));
    let beyond = TruncateRequest { before_offset: Some(101), ..request };
    let ended = client.unary::<TruncateReply>(&path, &beyond).await.expect_err("is beyond");
    assert_eq!(ended.code, 11);
    for (offset, reason) in [(39, "TRUNCATED"), (101, "BEYOND_END")] {
        let request = ReadRequest { from: Some(From::Offset(offset)), ..of("numbers") };
        let ended = client.read(request).await.ended().await;
        assert_eq!(ended.code, 11);
        for word in [reason, "numbers", &offset.to_string(), "remedy", "start", "40", "100"] {
            assert!(ended.details.contains(word), "{word} in {ended:?}");
        }
    }
    let all = ReadRequest { until_end: true, ..of("numbers") };
    assert_eq!(offsets(&mut client, all.clone()).await, (40..100).collect::<Vec<_>>());
    // The end is an end, and what is beyond it is not, also for who wants no more than there is.
    let at = |offset| ReadRequest { from: Some(From::Offset(offset)), ..all.clone() };
    assert_eq!(offsets(&mut client, at(100)).await, [0; 0]);
    let ended = client.read(at(101)).await.ended().await;
    assert!(ended.code == 11 && ended.details.contains("BEYOND_END"), "{ended:?}");

    let info = InfoRequest { log: "numbers".to_owned() };
    let info: InfoReply = client.unary(&format!("{SERVICE}/Info"), &info).await.expect("is told");
    let partition = &info.partitions[0];
    assert_eq!((partition.start_offset, partition.end_offset), (Some(40), Some(100)));
    assert_eq!(
        (partition.leader, &partition.in_sync[..]),
        (Some(partition.replicas[0]), &partition.replicas[..])
    );
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_watches_hears_of_changes() {
    let dir = tempfile::tempdir().expect("a directory");
    let door = Door::open(dir.path()).await;
    door.create("numbers", 2, &[]).await;
    let mut client = door.client().await;
    let mut watching = client.call(&format!("{SERVICE}/Watch")).await;
    watching.send(&WatchRequest { log: "numbers".to_owned(), interval_ms: 100 });
    let now: InfoReply = watching.next().await.expect("goes on").expect("at once");
    assert_eq!(now.partitions.len(), 2);
    let mut appending = client.open_append(OpenAppend::default()).await;
    appending.opened().await;
    appending.append(append("numbers", 1, &["x"]));
    appending.appended().await;
    let then: InfoReply = watching.next().await.expect("goes on").expect("of the append");
    assert_eq!(then.partitions[1].end_offset, Some(1));
    let nowhere = WatchRequest { log: "nowhere".to_owned(), interval_ms: 0 };
    let mut watching = client.call(&format!("{SERVICE}/Watch")).await;
    watching.send(&nowhere);
    assert_eq!(watching.ended().await.code, 5);
    door.close().await;
}

/// A log of these values.
async fn with_values(client: &mut Client, log: &str, values: &[&[u8]]) {
    let mut appending = client.open_append(OpenAppend::default()).await;
    appending.opened().await;
    let records = values
        .iter()
        .map(|value| NewRecord { value: Some(value.to_vec().into()), ..NewRecord::default() });
    appending.append(Append { records: records.collect(), ..append(log, 1, &[]) });
    appending.appended().await;
}

/// The values that a reader is sent, and how the stream ends.
async fn values(client: &mut Client, request: ReadRequest) -> (Vec<String>, Result<(), Ended>) {
    let mut call = client.read(request).await;
    let mut values = Vec::new();
    loop {
        match call.next::<ReadReply>().await {
            Ok(Some(reply)) => values.extend(reply.records.into_iter().map(|it| text(it.value))),
            Ok(None) => return (values, Ok(())),
            Err(ended) => return (values, Err(ended)),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_projection_sends_the_fields_that_are_named_and_stops_at_what_has_none() {
    let dir = tempfile::tempdir().expect("a directory");
    let door = Door::open(dir.path()).await;
    door.create("orders", 1, &[]).await;
    let mut client = door.client().await;
    let orders: &[&[u8]] = &[
        br#"{"id": 1, "user": {"name": "Ann", "age": 21}, "price": 1.10}"#,
        br#"{"id": 2, "price": 9}"#,
        b"no JSON",
        br#"{"id": 3, "user": {"name": "Bob"}}"#,
    ];
    with_values(&mut client, "orders", orders).await;
    let fields = vec!["user.name".to_owned(), "price".to_owned()];
    let all = ReadRequest { projection: fields, until_end: true, ..of("orders") };
    let (sent, ended) = values(&mut client, all.clone()).await;
    assert_eq!(sent, [r#"{"price":1.10,"user":{"name":"Ann"}}"#, r#"{"price":9}"#]);
    let ended = ended.expect_err("it is no JSON");
    assert_eq!(ended.code, 9);
    for word in ["NOT_PROJECTED", "orders", "offset", "remedy", "filter.expression"] {
        assert!(ended.details.contains(word), "{word} in {ended:?}");
    }
    assert!(ended.message.contains("record 2 cannot be projected"), "{ended:?}");

    // The remedies.
    let behind = ReadRequest { from: Some(From::Offset(3)), ..all.clone() };
    assert_eq!(values(&mut client, behind).await.0, [r#"{"user":{"name":"Bob"}}"#]);
    let filter = Filter { expression: "has(value.user)".to_owned(), ..Filter::default() };
    let filtered = ReadRequest { filter: Some(filter), ..all.clone() };
    let (sent, ended) = values(&mut client, filtered).await;
    assert_eq!(sent, [r#"{"price":1.10,"user":{"name":"Ann"}}"#, r#"{"user":{"name":"Bob"}}"#]);
    assert_eq!(ended, Ok(()));

    for (request, word) in [
        (
            ReadRequest { format: Format::Batches.into(), ..all.clone() },
            "no projection with BATCHES",
        ),
        (ReadRequest { projection: vec!["a b".to_owned()], ..all }, "projection 'a b', at byte"),
    ] {
        let ended = values(&mut client, request).await.1.expect_err("is wrong");
        assert!(ended.code == 3 && ended.message.contains(word), "{ended:?}");
        assert!(ended.details.contains("remedy"), "{ended:?}");
    }
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn values_are_read_by_the_schema_of_the_request() {
    const AVRO: &str = r#"{"type": "record", "name": "order", "fields": [
        {"name": "id", "type": "long"}, {"name": "kind", "type": ["null", "string"]}]}"#;
    let dir = tempfile::tempdir().expect("a directory");
    let door = Door::open(dir.path()).await;
    door.create("orders", 1, &[]).await;
    let mut client = door.client().await;
    // Behind the five bytes of a registry; the last one is cut off.
    let orders: &[&[u8]] =
        &[b"\0\0\0\0\x01\x02\x02\x06buy", b"\0\0\0\0\x01\x04\0", b"\0\0\0\0\x01\x06\x02\x08s"];
    with_values(&mut client, "orders", orders).await;
    let schema = |schema| {
        Some(ValueSchema { schema: Some(value_schema::Schema::Avro(schema)), skip_bytes: 5 })
    };
    let request = ReadRequest {
        projection: vec!["id".to_owned()],
        value_schema: schema(AVRO.to_owned()),
        until_end: true,
        ..of("orders")
    };
    let (sent, ended) = values(&mut client, request.clone()).await;
    assert_eq!(sent, [r#"{"id":1}"#, r#"{"id":2}"#]);
    assert!(ended.is_err_and(|ended| ended.details.contains("NOT_PROJECTED")));
    let filter = Filter { expression: "value.kind == null".to_owned(), ..Filter::default() };
    let filtered = ReadRequest { filter: Some(filter), ..request.clone() };
    assert_eq!(values(&mut client, filtered).await, (vec![r#"{"id":2}"#.to_owned()], Ok(())));
    let wrong = ReadRequest { value_schema: schema("{}".to_owned()), ..request };
    let ended = values(&mut client, wrong).await.1.expect_err("is no schema");
    assert_eq!(ended.code, 3);
    for word in ["INVALID_SCHEMA", "remedy", "written with"] {
        assert!(ended.details.contains(word), "{word} in {ended:?}");
    }
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_expression_has_no_result_for_is_counted_and_the_end_is_told() {
    let dir = tempfile::tempdir().expect("a directory");
    let door = Door::open(dir.path()).await;
    door.create("mixed", 1, &[]).await;
    let mut client = door.client().await;
    let mixed: &[&[u8]] =
        &[br#"{"a": 1}"#, br#"{"b": 2}"#, b"no JSON", br#"{"a": 9}"#, br#"{"a": "x"}"#, b"{}"];
    with_values(&mut client, "mixed", mixed).await;
    let filtered = |expression: &str| ReadRequest {
        filter: Some(Filter { expression: expression.to_owned(), ..Filter::default() }),
        until_end: true,
        ..of("mixed")
    };
    let told = async |client: &mut Client, request| {
        let mut call = client.read(request).await;
        let (mut unresolved, mut next, mut records) = (0, 0, 0);
        while let Some(reply) = call.next::<ReadReply>().await.expect("can be read") {
            unresolved += reply.unresolved_records;
            next = reply.next_offset;
            records += reply.records.len();
        }
        (records, unresolved, next)
    };
    assert_eq!(told(&mut client, filtered("value.a > 5")).await, (1, 4, 6));
    assert_eq!(told(&mut client, filtered("has(value.a)")).await, (3, 1, 6));
    assert_eq!(told(&mut client, filtered("value.nothing")).await, (0, 6, 6));
    assert_eq!(door.counted("logway_log_service_unresolved_records_total"), 11);
    for wrong in ["key", "offset < 'x'", r#"value.a == "\u12""#] {
        let ended = client.read(filtered(wrong)).await.ended().await;
        assert!(ended.code == 3 && ended.message.contains("filter.expression"), "{ended:?}");
    }
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_whose_filter_passes_nothing_hears_how_far_it_came() {
    let dir = tempfile::tempdir().expect("a directory");
    let door = Door::open(dir.path()).await;
    door.create("numbers", 1, &[]).await;
    let mut client = door.client().await;
    // More than a piece, so that the first progress is not the last.
    let value = "x".repeat(300_000);
    let values = vec![value.as_bytes(); 3];
    for _ in 0..3 {
        with_values(&mut client, "numbers", &values).await;
    }
    let nothing = Filter { keys: vec!["none".into()], ..Filter::default() };
    let request = ReadRequest { filter: Some(nothing), until_end: true, ..of("numbers") };
    let mut call = client.read(request).await;
    let mut next = 0;
    while let Some(reply) = call.next::<ReadReply>().await.expect("can be read") {
        next = reply.next_offset;
    }
    assert_eq!(next, 9);
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_that_no_enumeration_has_are_told() {
    let dir = tempfile::tempdir().expect("a directory");
    let door = Door::open(dir.path()).await;
    door.create("numbers", 1, &[]).await;
    let mut client = door.client().await;
    for (request, word) in [
        (ReadRequest { format: 99, ..of("numbers") }, "format has no value 99"),
        (ReadRequest { source: 99, ..of("numbers") }, "source has no value 99"),
    ] {
        let ended = client.read(request).await.ended().await;
        assert!(ended.code == 3 && ended.message == word, "{ended:?}");
    }
    door.close().await;
}
