//! A batch written out by hand, field by field, is what the codec reads and writes.

use bytes::Bytes;
use logway_model::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, TimestampMs};
use logway_record::{
    Attributes, BATCH_HEADER_BYTES, Batch, BatchBuilder, BatchHeader, Compression, DecodeLimit,
    Header, Record, RecordError,
};

#[rustfmt::skip]
const GOLDEN: [u8; 81] = [
    0, 0, 0, 0, 0, 0, 0, 0,                                 // base offset 0
    0, 0, 0, 69,                                            // length: 81 - 12
    0xff, 0xff, 0xff, 0xff,                                 // leader epoch -1
    2,                                                      // magic
    0x38, 0xac, 0xe6, 0x0d,                                 // CRC-32C of what follows
    0, 0,                                                   // attributes: none
    0, 0, 0, 1,                                             // last offset delta
    0x00, 0x00, 0x01, 0x8b, 0xcf, 0xe5, 0x68, 0x00,         // base timestamp 1700000000000
    0x00, 0x00, 0x01, 0x8b, 0xcf, 0xe5, 0x68, 0x40,         // max timestamp, 64 ms later
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,         // producer id -1
    0xff, 0xff,                                             // producer epoch -1
    0xff, 0xff, 0xff, 0xff,                                 // base sequence -1
    0, 0, 0, 2,                                             // record count

    22,                                                     // length 11, zigzag
    0,                                                      // attributes
    0,                                                      // timestamp delta 0
    0,                                                      // offset delta 0
    2, b'k',                                                // key
    2, b'v',                                                // value
    2,                                                      // one header
    2, b'h', 1,                                             // "h" without a value

    14,                                                     // length 7
    0,                                                      // attributes
    0x80, 0x01,                                             // timestamp delta 64
    2,                                                      // offset delta 1
    1,                                                      // no key
    0,                                                      // an empty value
    0,                                                      // no headers
];

const TIMESTAMP: TimestampMs = TimestampMs(1_700_000_000_000);

fn golden_header() -> BatchHeader {
    BatchHeader {
        base_offset: Offset(0),
        length_bytes: 69,
        leader_epoch: LeaderEpoch::NONE,
        crc: 0x38ac_e60d,
        attributes: Attributes(0),
        last_offset_delta: 1,
        base_timestamp: TIMESTAMP,
        max_timestamp: TimestampMs(TIMESTAMP.0 + 64),
        producer_id: ProducerId::NONE,
        producer_epoch: ProducerEpoch::NONE,
        base_sequence: Sequence::NONE,
        record_count: 2,
    }
}

fn golden_records() -> Vec<Record> {
    let first = Record {
        offset: Offset(0),
        timestamp: TIMESTAMP,
        key: Some("k".into()),
        value: Some("v".into()),
        headers: vec![Header::new("h", None)],
    };
    let second = Record {
        offset: Offset(1),
        timestamp: TimestampMs(TIMESTAMP.0 + 64),
        key: None,
        value: Some(Bytes::new()),
        headers: vec![],
    };
    vec![first, second]
}

#[test]
fn the_header_is_read_and_written() {
    assert_eq!(BatchHeader::parse(&GOLDEN), Ok(golden_header()));
    assert_eq!(BatchHeader::parse(&GOLDEN[..BATCH_HEADER_BYTES]), Ok(golden_header()));
    assert_eq!(golden_header().encode(), GOLDEN[..BATCH_HEADER_BYTES]);
    assert_eq!(golden_header().size_bytes(), GOLDEN.len());
    assert_eq!(golden_header().last_offset(), Offset(1));
    assert_eq!(golden_header().next_offset(), Offset(2));
}

#[test]
fn the_records_are_read() {
    let batch = Batch::parse(Bytes::from_static(&GOLDEN)).expect("is a batch");
    batch.verify_crc().expect("is intact");
    let records: Result<Vec<Record>, RecordError> =
        batch.records(DecodeLimit::DEFAULT).expect("is not compressed").collect();
    assert_eq!(records, Ok(golden_records()));
}

#[test]
fn the_batch_is_written() {
    let mut builder = BatchBuilder::new(Compression::None);
    for record in golden_records() {
        let (key, value) = (record.key.as_deref(), record.value.as_deref());
        builder.append(record.timestamp, key, value, &record.headers).expect("fits");
    }
    assert_eq!(builder.uncompressed_bytes(), GOLDEN.len());
    assert_eq!(builder.finish().expect("has records"), &GOLDEN[..]);
}

#[test]
fn uncompressed_records_are_not_copied() {
    let bytes = Bytes::from_static(&GOLDEN);
    let range = bytes.as_ptr_range();
    let batch = Batch::parse(bytes).expect("is a batch");
    let mut records = batch.records(DecodeLimit::new(0)).expect("is not compressed");
    let error = records.next().expect("is there").expect_err("its header takes memory");
    assert!(matches!(error, RecordError::MalformedRecord { index: 0, .. }), "{error}");

    let record = batch
        .records(DecodeLimit::DEFAULT)
        .expect("is not compressed")
        .next()
        .expect("is there")
        .expect("decodes");
    assert!(range.contains(&record.key.expect("has a key").as_ptr()));
}
