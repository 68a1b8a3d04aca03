//! What Apache Kafka's own client library writes is read, for every codec, and what it does to a
//! batch in an append is what we do. `fixtures/README.md` says how the files were made.

use std::fs;
use std::path::Path;

use bytes::Bytes;
use logway_model::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, TimestampMs};
use logway_record::{
    Batch, BatchBuilder, Compression, DecodeLimit, Header, PatchedHeader, Record, TimestampType,
    TransactionMarker, TransactionOutcome, validate_records_deep,
};

const BASE_TIMESTAMP_MS: i64 = 1_700_000_000_000;

fn fixture(name: &str) -> Bytes {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).into()
}

fn fixture_batch(name: &str) -> Batch {
    let batch = Batch::parse(fixture(name)).expect("a fixture is one batch");
    batch.verify_crc().expect("a fixture is intact");
    batch
}

fn decoded(batch: &Batch) -> Vec<Record> {
    let records = batch.records(DecodeLimit::DEFAULT).expect("a fixture decompresses");
    records.collect::<Result<_, _>>().expect("the records of a fixture decode")
}

/// `Fixtures.lines`.
fn lines(size_bytes: usize) -> Vec<u8> {
    (0..)
        .flat_map(|line| format!("line {line} of a long value\n").into_bytes())
        .take(size_bytes)
        .collect()
}

/// `Fixtures.noise`.
fn noise(size_bytes: usize) -> Vec<u8> {
    let step = |state: &u32| Some(state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
    std::iter::successors(step(&1), step)
        .map(|state| (state >> 24) as u8)
        .take(size_bytes)
        .collect()
}

/// `Fixtures.allKindsOfRecords`.
fn all_kinds_of_records() -> Vec<Record> {
    let headers = vec![
        Header::new("twice", Some("1".into())),
        Header::new("other", None),
        Header::new("twice", Some("2".into())),
        Header::new("", Some(Bytes::new())),
    ];
    let record = |offset, delta_ms, key: Option<&'static str>, value: Option<Bytes>| Record {
        offset: Offset(offset),
        timestamp: TimestampMs(BASE_TIMESTAMP_MS + delta_ms),
        key: key.map(Bytes::from),
        value,
        headers: vec![],
    };
    vec![
        Record { headers, ..record(0, 0, Some("key"), Some("value".into())) },
        record(1, 1_000_000, None, Some("no key".into())),
        record(2, -5, Some("no value"), None),
        record(3, 0, None, None),
        record(4, 0, Some(""), Some(Bytes::new())),
        record(5, 0, Some("large"), Some(lines(70_000).into())),
    ]
}

fn producer_builder(compression: Compression) -> BatchBuilder {
    let builder = BatchBuilder::new(compression).with_producer(
        ProducerId(4001),
        ProducerEpoch(5),
        Sequence(17),
    );
    let attributes = builder.attributes().with_transactional(true);
    builder.with_attributes(attributes)
}

#[test]
fn java_batches_of_every_codec_are_read() {
    for codec in Compression::ALL {
        let batch = fixture_batch(&format!("{codec}.bin"));
        let header = batch.header();
        assert_eq!(header.attributes.compression(), Ok(codec));
        assert!(header.attributes.is_transactional());
        assert_eq!(header.producer_id, ProducerId(4001));
        assert_eq!(header.producer_epoch, ProducerEpoch(5));
        assert_eq!(header.base_sequence, Sequence(17));
        assert_eq!(header.max_timestamp, TimestampMs(BASE_TIMESTAMP_MS + 1_000_000));
        assert_eq!(decoded(&batch), all_kinds_of_records(), "{codec}");
        assert_eq!(validate_records_deep(&batch, DecodeLimit::DEFAULT), Ok(()), "{codec}");
    }
}

#[test]
fn without_compression_our_bytes_are_java_s() {
    let mut builder = producer_builder(Compression::None);
    for record in all_kinds_of_records() {
        let (key, value) = (record.key.as_deref(), record.value.as_deref());
        builder.append(record.timestamp, key, value, &record.headers).expect("fits");
    }
    assert!(builder.finish().expect("has records") == fixture("none.bin"));
}

#[test]
fn an_append_changes_the_header_as_in_java() {
    for codec in Compression::ALL {
        let patched = PatchedHeader::of(&fixture_batch(&format!("{codec}.bin")))
            .assign(Offset(1000), LeaderEpoch(42))
            .with_log_append_time(TimestampMs(BASE_TIMESTAMP_MS + 2_000_000));
        let expected = fixture(&format!("{codec}-appended-header.bin"));
        assert_eq!(&patched.bytes()[..], &expected[..], "{codec}");
    }
}

#[test]
fn log_append_time_overrides_the_records_timestamps() {
    let batch = fixture_batch("gzip.bin");
    let append_time = TimestampMs(BASE_TIMESTAMP_MS + 2_000_000);
    let patched = PatchedHeader::of(&batch)
        .assign(Offset(1000), LeaderEpoch(42))
        .with_log_append_time(append_time);
    let appended = Batch::parse([&patched.bytes()[..], &batch.body()].concat().into())
        .expect("is a batch still");
    appended.verify_crc().expect("has the right CRC");
    assert_eq!(appended.header().attributes.timestamp_type(), TimestampType::LogAppendTime);
    for (index, record) in (0..).zip(decoded(&appended)) {
        assert_eq!(record.timestamp, append_time);
        assert_eq!(record.offset, Offset(1000 + index));
    }
}

#[test]
fn lz4_blocks_that_do_not_shrink_are_read() {
    let records = decoded(&fixture_batch("lz4-incompressible.bin"));
    assert_eq!(records.len(), 1);
    assert!(records[0].value.as_deref() == Some(&noise(66_000)));
}

#[test]
fn lz4_frames_that_java_does_not_write_are_read() {
    let plain = Compression::Lz4
        .decompress(fixture("lz4-linked.frame"), DecodeLimit::DEFAULT)
        .expect("decompresses");
    assert!(plain == lines(70_000));
}

#[test]
fn transaction_markers_are_read() {
    let batch = fixture_batch("control.bin");
    let header = batch.header();
    assert!(header.attributes.is_control() && header.attributes.is_transactional());
    assert_eq!(header.base_offset, Offset(70));
    assert_eq!(header.leader_epoch, LeaderEpoch(3));
    let records = decoded(&batch);
    // Version 0 of the marker and 1 for a commit; then version 0 and the coordinator's epoch.
    assert_eq!(records[0].key.as_deref(), Some(&[0, 0, 0, 1][..]));
    assert_eq!(records[0].value.as_deref(), Some(&[0, 0, 0, 0, 0, 9][..]));
    let marker = TransactionMarker::of(&batch).expect("it is well formed").expect("it is a marker");
    let expected = TransactionMarker { outcome: TransactionOutcome::Commit, coordinator_epoch: 9 };
    assert_eq!(marker, expected);
}

#[test]
fn transaction_markers_are_written_byte_for_byte() {
    let batch = fixture_batch("control.bin");
    let header = *batch.header();
    let marker = TransactionMarker::of(&batch).expect("it is well formed").expect("it is a marker");
    let made = marker.batch(header.producer_id, header.producer_epoch, header.max_timestamp);
    let made = PatchedHeader::of(&made).assign(header.base_offset, header.leader_epoch);
    assert_eq!(*made.header(), header);
    assert_eq!(
        marker.batch(header.producer_id, header.producer_epoch, header.max_timestamp).body(),
        batch.body()
    );
}
