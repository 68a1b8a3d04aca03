//! Batches compressed anew, as a topic's `compression.type` has them.

mod common;
mod rules;

use std::fs;
use std::path::Path;

use bytes::Bytes;
use common::{any_codec, any_records, build, decode};
use logway_model::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, TimestampMs};
use logway_record::{
    AppendRules, Attributes, Batch, BatchBuilder, BatchHeader, Compression, DecodeLimit,
    InvalidBatch, Record, RecordError, RecordFault, RefusedRecord, TargetCompression,
    TimestampType, recompress_for_append, validate_for_append,
};
use proptest::prelude::*;
use rules::{NOW, RULES};

/// Every codec, at the ends of its levels and in between.
const TARGETS: [TargetCompression; 15] = [
    TargetCompression::None,
    TargetCompression::Gzip { level: -1 },
    TargetCompression::Gzip { level: 1 },
    TargetCompression::Gzip { level: 9 },
    TargetCompression::Snappy,
    TargetCompression::Lz4 { level: 1 },
    TargetCompression::Lz4 { level: 8 },
    TargetCompression::Lz4 { level: 9 },
    TargetCompression::Lz4 { level: 12 },
    TargetCompression::Lz4 { level: 17 },
    TargetCompression::Zstd { level: -131_072 },
    TargetCompression::Zstd { level: 1 },
    TargetCompression::Zstd { level: 3 },
    TargetCompression::Zstd { level: 10 },
    TargetCompression::Zstd { level: 22 },
];

/// Batches of any size and any time pass.
const ROOMY: AppendRules =
    AppendRules { max_batch_bytes: usize::MAX, timestamp_after_max_ms: i64::MAX, ..RULES };

fn recompressed(batch: &Batch, target: TargetCompression) -> Batch {
    let (new, summary) = recompress_for_append(batch, &ROOMY, target).expect("is good");
    new.verify_crc().expect("has the right CRC");
    assert_eq!(new.header().attributes.compression(), Ok(target.codec()));
    assert_eq!(summary.size_bytes, new.size_bytes());
    assert_eq!(summary.compression, target.codec());
    let judged = validate_for_append(&new, &ROOMY).expect("what comes out is good");
    assert_eq!(judged, summary);
    new
}

fn later(ms: i64) -> TimestampMs {
    TimestampMs(NOW.0 + ms)
}

fn producer_builder(codec: Compression) -> BatchBuilder {
    BatchBuilder::new(codec).with_producer(ProducerId(7), ProducerEpoch(3), Sequence(i32::MAX - 2))
}

fn dense(mut records: Vec<Record>) -> Vec<Record> {
    for (index, record) in (0..).zip(&mut records) {
        record.offset = Offset(index);
    }
    records
}

proptest! {
    #[test]
    fn every_record_is_as_it_was_and_the_bytes_are_those_of_a_new_batch(
        source in any_codec(),
        target in prop::sample::select(&TARGETS[..]),
        records in any_records(),
    ) {
        let records = dense(records);
        let batch = build(producer_builder(source), &records);
        let new = recompressed(&batch, target);
        prop_assert_eq!(decode(&new, DecodeLimit::DEFAULT).expect("decodes"), records.clone());
        // The builder's bytes are those of Apache Kafka's own, as `java_fixtures.rs` shows. Packers
        // may be fed in other pieces.
        if target == TargetCompression::None || target == TargetCompression::Snappy {
            let built = build(producer_builder(target.codec()), &records);
            prop_assert!(new.bytes() == built.bytes());
        }
        let (before, after) = (batch.header(), new.header());
        let as_before = BatchHeader {
            length_bytes: after.length_bytes,
            crc: after.crc,
            attributes: after.attributes,
            max_timestamp: after.max_timestamp,
            ..*before
        };
        prop_assert_eq!(*after, as_before);
    }

    /// The same bit of the records' bytes turned around, under a CRC that is right.
    #[test]
    fn the_verdict_is_that_without_compressing(
        source in any_codec(),
        target in prop::sample::select(&TARGETS[..]),
        records in any_records(),
        at in any::<prop::sample::Index>(),
        bit in 0u8..8,
        keys_required in any::<bool>(),
    ) {
        let batch = build(BatchBuilder::new(source), &dense(records));
        let mut bytes = batch.bytes().to_vec();
        let at = 61 + at.index(bytes.len() - 61);
        bytes[at] ^= 1 << bit;
        let damaged = with_crc(bytes);
        let rules = AppendRules { keys_required, ..ROOMY };
        let expected = validate_for_append(&damaged, &rules);
        match (expected, recompress_for_append(&damaged, &rules, target)) {
            (Ok(_), Ok((new, _))) => {
                let limit = DecodeLimit::DEFAULT;
                prop_assert_eq!(decode(&new, limit), decode(&damaged, limit));
            }
            (Err(expected), Err(refused)) => prop_assert_eq!(refused, expected),
            // A timestamp that no delta from that of the first record can say.
            (Ok(_), Err(InvalidBatch::Undecodable(RecordError::MalformedRecord { .. }))) => {}
            (expected, other) => prop_assert!(false, "{expected:?} became {other:?}"),
        }
    }
}

fn with_crc(mut bytes: Vec<u8>) -> Batch {
    let crc = Batch::parse(Bytes::copy_from_slice(&bytes)).expect("is a batch").compute_crc();
    bytes[17..21].copy_from_slice(&crc.to_be_bytes());
    Batch::parse(bytes.into()).expect("is a batch")
}

fn fixture(name: &str) -> Bytes {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).into()
}

/// `fixtures/README.md` says how Apache Kafka's `MemoryRecords` wrote the batches. They hold null and
/// empty keys and values, headers with one name twice, and a value that is longer than a block.
#[test]
fn from_and_to_every_codec_the_bytes_are_java_s() {
    for source in Compression::ALL {
        let batch = Batch::parse(fixture(&format!("{source}.bin"))).expect("is a batch");
        assert!(batch.header().attributes.is_transactional());
        let plain = recompressed(&batch, TargetCompression::None);
        assert!(plain.bytes() == &fixture("none.bin"), "{source}");
        for target in TARGETS {
            let there = recompressed(&batch, target);
            let back = recompressed(&there, TargetCompression::None);
            assert!(back.bytes() == &fixture("none.bin"), "{source} to {target:?} and back");
        }
    }
}

#[test]
fn what_means_nothing_is_written_as_kafka_writes_it() {
    let mut builder = producer_builder(Compression::None);
    let attributes = Attributes(builder.attributes().0 | 0x0780).with_transactional(true);
    builder = builder.with_attributes(attributes);
    for delta in [0, -20, 700] {
        builder.append(later(delta), Some(b"key"), None, &[]).expect("fits");
    }
    let mut bytes = builder.finish().expect("has records").to_vec();
    // The first record's attributes, its delta of -10 ms, and another base timestamp.
    bytes[62] = 0xff;
    bytes[63] = 19;
    bytes[27..35].copy_from_slice(&(NOW.0 + 10).to_be_bytes());
    let batch = with_crc(bytes);
    let records = decode(&batch, DecodeLimit::DEFAULT).expect("is good");
    assert_eq!(records[0].timestamp, NOW);

    let new = recompressed(&batch, TargetCompression::Snappy);
    assert_eq!(decode(&new, DecodeLimit::DEFAULT).expect("is good"), records);
    assert_eq!(new.header().base_timestamp, NOW);
    assert_eq!(new.header().max_timestamp, later(710));
    let plain = Attributes::default().with_compression(Compression::Snappy);
    assert_eq!(new.header().attributes, plain.with_transactional(true));
    let again = recompressed(&new, TargetCompression::None);
    assert_eq!(again.body()[1], 0, "attributes of a record");
}

#[test]
fn only_another_codec_is_a_reason_to_compress_anew() {
    for source in Compression::ALL {
        let batch = zeros(source, 10);
        for target in TARGETS {
            let rules = AppendRules { compression: Some(target), ..RULES };
            let expected = (source != target.codec()).then_some(target);
            assert_eq!(rules.recompression(batch.header()), expected);
        }
        assert_eq!(RULES.recompression(batch.header()), None);
    }
}

/// Zeros, packed by `codec`.
fn zeros(codec: Compression, bytes: usize) -> Batch {
    let mut builder = BatchBuilder::new(codec);
    builder.append(NOW, None, Some(&vec![0; bytes]), &[]).expect("fits");
    Batch::parse(builder.finish().expect("has a record")).expect("is a batch")
}

#[test]
fn what_unpacks_to_too_much_or_packs_to_too_much_is_refused_by_name() {
    for source in Compression::ALL {
        let batch = zeros(source, 4 << 20);
        let tight = AppendRules { decode_limit: DecodeLimit::new(4 << 20), ..ROOMY };
        for target in TARGETS {
            let refused = recompress_for_append(&batch, &tight, target).expect_err("is too much");
            let InvalidBatch::Undecodable(error) = &refused else { panic!("{refused:?}") };
            assert!(error.is_over_limit(), "{source}: {refused}");
            assert!(refused.to_string().contains("more than 4194304 bytes"), "{refused}");
        }
        if source == Compression::None {
            continue;
        }
        let rules = AppendRules { max_batch_bytes: 1 << 20, ..RULES };
        let refused = recompress_for_append(&batch, &rules, TargetCompression::None);
        let expected =
            InvalidBatch::RecompressedTooLarge { codec: Compression::None, max_bytes: 1 << 20 };
        assert_eq!(refused, Err(expected), "{source}");
    }
}

#[test]
fn the_limit_of_a_batch_holds_to_the_byte_before_and_after() {
    let noise: Vec<u8> =
        (0..40_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for target in TARGETS {
        let mut builder = BatchBuilder::new(Compression::Gzip);
        if target.codec() == Compression::Gzip {
            builder = BatchBuilder::new(Compression::None);
        }
        builder.append(NOW, None, Some(&noise), &[]).expect("fits");
        let batch = Batch::parse(builder.finish().expect("has a record")).expect("is a batch");
        let size = recompressed(&batch, target).size_bytes();
        let max_batch_bytes = size.max(batch.size_bytes());
        let rules = AppendRules { max_batch_bytes, ..RULES };
        assert!(recompress_for_append(&batch, &rules, target).is_ok());
        let rules = AppendRules { max_batch_bytes: max_batch_bytes - 1, ..RULES };
        let refused = recompress_for_append(&batch, &rules, target).expect_err("is one too many");
        let is_before = batch.size_bytes() >= size;
        match refused {
            InvalidBatch::TooLarge { .. } => assert!(is_before),
            InvalidBatch::RecompressedTooLarge { .. } => assert!(!is_before),
            other => panic!("{other}"),
        }
    }
}

#[test]
fn a_record_that_is_refused_is_told_of_before_a_batch_that_has_become_too_large() {
    let mut builder = BatchBuilder::new(Compression::Zstd);
    builder.append(NOW, Some(b"key"), Some(&vec![0; 2 << 20]), &[]).expect("fits");
    builder.append(NOW, None, None, &[]).expect("fits");
    let batch = Batch::parse(builder.finish().expect("has records")).expect("is a batch");
    let rules = AppendRules { keys_required: true, ..RULES };
    let refused = recompress_for_append(&batch, &rules, TargetCompression::None);
    let Err(InvalidBatch::Records(refused)) = refused else { panic!("{refused:?}") };
    let listed = [RefusedRecord { index: 1, fault: RecordFault::MissingKey }];
    assert_eq!(refused.listed(), listed);
}

#[test]
fn with_log_append_time_the_records_keep_theirs() {
    let rules = AppendRules { timestamp_type: TimestampType::LogAppendTime, ..RULES };
    let mut builder = BatchBuilder::new(Compression::None);
    builder.append(TimestampMs::NONE, None, None, &[]).expect("fits");
    builder.append(later(i64::from(i32::MAX) * 1_000), None, None, &[]).expect("fits");
    let batch = Batch::parse(builder.finish().expect("has records")).expect("is a batch");
    let (new, _) = recompress_for_append(&batch, &rules, TargetCompression::Snappy).expect("good");
    let limit = DecodeLimit::DEFAULT;
    assert_eq!(decode(&new, limit), decode(&batch, limit));
    assert_eq!(new.header().leader_epoch, LeaderEpoch::NONE);
    assert_eq!(new.header().attributes.timestamp_type(), TimestampType::CreateTime);
}
