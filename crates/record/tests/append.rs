//! The rules by which a leader takes a producer's batch or refuses it.

mod rules;

use std::io::Write;

use bytes::Bytes;
use logway_model::{Offset, ProducerEpoch, ProducerId, Sequence, TimestampMs};
use logway_record::{
    AppendRules, Attributes, Batch, BatchBuilder, BatchHeader, BatchSummary, Compression,
    DecodeLimit, InvalidBatch, PatchedHeader, ProducerStamp, RecordError, RecordFault,
    RecordProblem, RefusedRecord, RefusedRecords, TimestampType, validate_for_append,
    validate_records_deep,
};
use rules::{NOW, RULES};

fn three_records(compression: Compression) -> Batch {
    let mut builder = BatchBuilder::new(compression);
    for delta_ms in [0, 20, 10] {
        let timestamp = TimestampMs(NOW.0 + delta_ms);
        builder.append(timestamp, Some(b"key"), Some(b"value"), &[]).expect("fits");
    }
    Batch::parse(builder.finish().expect("has records")).expect("is a batch")
}

/// The batch with a changed header, and the CRC to go with it.
fn with_header(batch: &Batch, change: impl FnOnce(&mut BatchHeader)) -> Batch {
    let mut header = *batch.header();
    change(&mut header);
    let join = |header: BatchHeader| {
        let bytes = [&header.encode()[..], &batch.body()].concat();
        Batch::parse(bytes.into()).expect("changes keep it a batch")
    };
    header.crc = join(header).compute_crc();
    join(header)
}

/// The batch with other records.
fn with_body(batch: &Batch, codec: Compression, body: &[u8]) -> Batch {
    let mut header = *batch.header();
    header.attributes = header.attributes.with_compression(codec);
    header.length_bytes = i32::try_from(61 - 12 + body.len()).expect("is small");
    let bytes = [&header.encode()[..], body].concat();
    with_header(&Batch::parse(bytes.into()).expect("is a batch"), |_| {})
}

fn refusal(change: impl FnOnce(&mut BatchHeader)) -> Option<InvalidBatch> {
    let batch = with_header(&three_records(Compression::None), change);
    validate_for_append(&batch, &RULES).err()
}

#[test]
fn a_sound_batch_is_summed_up() {
    for codec in Compression::ALL {
        let batch = three_records(codec);
        let summary = BatchSummary {
            size_bytes: batch.size_bytes(),
            record_count: 3,
            max_timestamp: TimestampMs(NOW.0 + 20),
            compression: codec,
            is_transactional: false,
            producer: None,
        };
        assert_eq!(validate_for_append(&batch, &RULES), Ok(summary));
        let compacted = AppendRules { keys_required: true, ..RULES };
        assert_eq!(validate_for_append(&batch, &compacted), Ok(summary));
    }
}

#[test]
fn an_idempotent_producer_is_summed_up() {
    let batch = with_header(&three_records(Compression::None), |header| {
        header.attributes = header.attributes.with_transactional(true);
        header.producer_id = ProducerId(7);
        header.producer_epoch = ProducerEpoch(0);
        header.base_sequence = Sequence(i32::MAX);
    });
    let summary = validate_for_append(&batch, &RULES).expect("is sound");
    assert!(summary.is_transactional);
    let stamp = ProducerStamp {
        id: ProducerId(7),
        epoch: ProducerEpoch(0),
        base_sequence: Sequence(i32::MAX),
        last_sequence: Sequence(1),
    };
    assert_eq!(summary.producer, Some(stamp));
}

#[test]
fn size_and_crc_are_checked() {
    let batch = three_records(Compression::None);
    let size_bytes = batch.size_bytes();
    let exact = AppendRules { max_batch_bytes: size_bytes, ..RULES };
    assert!(validate_for_append(&batch, &exact).is_ok());
    let max_bytes = size_bytes - 1;
    let tight = AppendRules { max_batch_bytes: max_bytes, ..RULES };
    let refused = validate_for_append(&batch, &tight);
    assert_eq!(refused, Err(InvalidBatch::TooLarge { size_bytes, max_bytes }));

    let mut bytes = batch.bytes().to_vec();
    *bytes.last_mut().expect("is not empty") ^= 1;
    let corrupt = Batch::parse(bytes.into()).expect("is a batch");
    let (stored, computed) = (batch.header().crc, corrupt.compute_crc());
    let refused = validate_for_append(&corrupt, &RULES);
    assert_eq!(refused, Err(InvalidBatch::BadCrc { stored, computed }));
}

#[test]
fn offsets_and_counts_must_agree() {
    let base_offset = Offset(1);
    assert_eq!(
        refusal(|header| header.base_offset = base_offset),
        Some(InvalidBatch::NonZeroBaseOffset { base_offset })
    );
    for record_count in [0, -1, i32::MIN] {
        assert_eq!(
            refusal(|header| header.record_count = record_count),
            Some(InvalidBatch::NoRecords { record_count })
        );
    }
    for record_count in [2, 4, i32::MAX] {
        assert_eq!(
            refusal(|header| header.record_count = record_count),
            Some(InvalidBatch::RecordCountMismatch { record_count, last_offset_delta: 2 })
        );
    }
}

#[test]
fn what_is_not_a_producers_to_say_is_refused() {
    let refused = |attributes| refusal(|header| header.attributes = attributes);
    let plain = Attributes::default();
    assert_eq!(refused(plain.with_control(true)), Some(InvalidBatch::ControlBatch));
    assert_eq!(refused(Attributes(1 << 6)), Some(InvalidBatch::DeleteHorizon));
    let log_append_time = plain.with_timestamp_type(TimestampType::LogAppendTime);
    assert_eq!(refused(log_append_time), Some(InvalidBatch::LogAppendTimeFromProducer));
    assert_eq!(refused(Attributes(5)), Some(InvalidBatch::UnknownCompression { codec: 5 }));
}

#[test]
fn a_producer_id_needs_an_epoch_and_a_sequence() {
    let stamp = |id: i64, epoch: i16, sequence: i32, is_transactional: bool| {
        refusal(|header| {
            header.attributes = header.attributes.with_transactional(is_transactional);
            header.producer_id = ProducerId(id);
            header.producer_epoch = ProducerEpoch(epoch);
            header.base_sequence = Sequence(sequence);
        })
    };
    assert_eq!(stamp(-1, -1, -1, false), None);
    assert_eq!(stamp(-1, -1, -1, true), Some(InvalidBatch::TransactionWithoutProducer));
    assert_eq!(stamp(0, 0, 0, true), None);
    let producer_id = ProducerId(0);
    let producer_epoch = ProducerEpoch(-1);
    assert_eq!(
        stamp(0, -1, 0, false),
        Some(InvalidBatch::InvalidProducerEpoch { producer_id, producer_epoch })
    );
    let base_sequence = Sequence(-1);
    assert_eq!(
        stamp(0, 0, -1, false),
        Some(InvalidBatch::InvalidSequence { producer_id, base_sequence })
    );
}

#[test]
fn timestamps_are_held_against_the_clock() {
    let rules = AppendRules { timestamp_before_max_ms: 1_000, ..RULES };
    let judge = |first_ms: i64, second_ms: i64| {
        let mut builder = BatchBuilder::new(Compression::None);
        for timestamp_ms in [first_ms, second_ms] {
            builder.append(TimestampMs(timestamp_ms), None, None, &[]).expect("fits");
        }
        let batch = Batch::parse(builder.finish().expect("has records")).expect("is a batch");
        let appended_at = AppendRules { timestamp_type: TimestampType::LogAppendTime, ..rules };
        assert!(validate_for_append(&batch, &appended_at).is_ok(), "they are to be overwritten");
        validate_for_append(&batch, &rules).err()
    };
    let (earliest, latest) = (TimestampMs(NOW.0 - 1_000), TimestampMs(NOW.0 + 3_600_000));
    let judge = |first_ms, second_ms| {
        let refused = judge(first_ms, second_ms)?;
        let InvalidBatch::Records(records) = refused else { panic!("{refused:?}") };
        assert!(records.is_timestamp_wrong());
        Some(records.listed().to_vec())
    };
    let at = |index, timestamp_ms| {
        let timestamp = TimestampMs(timestamp_ms);
        let fault = RecordFault::TimestampOutOfRange { timestamp, earliest, latest };
        RefusedRecord { index, fault }
    };
    assert_eq!(judge(earliest.0, latest.0), None);
    assert_eq!(judge(latest.0, earliest.0), None);
    assert_eq!(judge(NOW.0, latest.0 + 1), Some(vec![at(1, latest.0 + 1)]));
    assert_eq!(judge(NOW.0, earliest.0 - 1), Some(vec![at(1, earliest.0 - 1)]));
    assert_eq!(judge(0, i64::MAX), Some(vec![at(0, 0), at(1, i64::MAX)]));
    // Records without a timestamp are not late.
    assert_eq!(judge(-1, -1), None);
    assert_eq!(judge(-1, NOW.0), None);
}

#[test]
fn the_max_timestamp_is_that_of_the_records_whatever_the_header_says() {
    for codec in Compression::ALL {
        for lie in [i64::MIN, -1, NOW.0, NOW.0 + 1_000_000_000, i64::MAX] {
            let batch = with_header(&three_records(codec), |header| {
                header.max_timestamp = TimestampMs(lie);
            });
            let summary = validate_for_append(&batch, &RULES).expect("is sound");
            assert_eq!(summary.max_timestamp, TimestampMs(NOW.0 + 20), "{codec}: {lie}");
            let corrected = batch.with_max_timestamp(summary.max_timestamp);
            let patched = PatchedHeader::of(&corrected);
            let written = [&patched.bytes()[..], &corrected.body()].concat();
            assert_eq!(&Bytes::from(written), three_records(codec).bytes(), "with the CRC, too");
        }
    }
}

#[test]
fn records_that_nobody_could_read_are_refused() {
    let sound = three_records(Compression::None);
    let body_of = |codec: Compression, plain: &[u8]| codec.compress(Bytes::copy_from_slice(plain));
    let record_bytes = sound.body().len() / 3;
    let plain = sound.body();
    let mut wrong_delta = plain.to_vec();
    wrong_delta[record_bytes + 3] = 4;
    let with_junk = [&plain[..], b"junk"].concat();
    let undecodable: [&[u8]; 5] =
        [b"garbage", b"", &plain[..2 * record_bytes], &with_junk, &wrong_delta];
    for codec in Compression::ALL {
        assert!(
            validate_for_append(&with_body(&sound, codec, &body_of(codec, &plain)), &RULES).is_ok()
        );
        for (index, plain) in undecodable.into_iter().enumerate() {
            let batch = with_body(&sound, codec, &body_of(codec, plain));
            let refused = validate_for_append(&batch, &RULES);
            assert!(
                matches!(refused, Err(InvalidBatch::Undecodable(_))),
                "{codec} {index}: {refused:?}"
            );
        }
        let raw = with_body(&sound, codec, b"garbage that was never compressed");
        let refused = validate_for_append(&raw, &RULES);
        assert!(matches!(refused, Err(InvalidBatch::Undecodable(_))), "{codec}: {refused:?}");
    }
}

/// Kafka's producer sends zeros like this: what it takes to unpack them is time, and not memory.
#[test]
fn a_gigabyte_of_zeros_passes() {
    let mut body = Vec::new();
    let value_bytes = 64 << 20;
    let mut encoder = zstd::stream::Encoder::new(&mut body, 1).expect("in memory");
    let zeros = vec![0; value_bytes];
    for delta in 0..16u8 {
        // Length, attributes, timestamp delta, offset delta, no key, value, no headers; zigzag.
        let varint = |number: usize| -> Vec<u8> {
            let mut raw = 2 * number as u64;
            std::iter::from_fn(move || {
                (raw != u64::MAX).then(|| {
                    let low = (raw & 0x7f) as u8;
                    raw = if raw < 0x80 { u64::MAX } else { raw >> 7 };
                    if raw == u64::MAX { low } else { low | 0x80 }
                })
            })
            .collect::<Vec<u8>>()
        };
        let front = [&[0, 0, 2 * delta, 1][..], &varint(value_bytes)].concat();
        let length = varint(front.len() + value_bytes + 1);
        for part in [&length, &front, &zeros, &vec![0u8]] {
            encoder.write_all(part).expect("in memory");
        }
    }
    encoder.finish().expect("in memory");
    assert!(body.len() < 200_000);
    let batch = with_header(
        &with_body(&three_records(Compression::None), Compression::Zstd, &body),
        |header| {
            header.record_count = 16;
            header.last_offset_delta = 15;
        },
    );
    let roomy = AppendRules { decode_limit: DecodeLimit::new((1 << 30) + 1_000), ..RULES };
    assert_eq!(validate_for_append(&batch, &roomy).map(|summary| summary.record_count), Ok(16));
    let tight = AppendRules { decode_limit: DecodeLimit::new(1 << 30), ..RULES };
    let refused = validate_for_append(&batch, &tight).expect_err("is too much");
    assert!(refused.to_string().contains("1073741824 bytes"), "{refused}");
}

#[test]
fn a_compacted_topic_wants_keys() {
    let compacted = AppendRules { keys_required: true, ..RULES };
    for codec in Compression::ALL {
        let mut builder = BatchBuilder::new(codec);
        builder.append(NOW, Some(b""), None, &[]).expect("fits");
        builder.append(NOW, None, Some(b"value"), &[]).expect("fits");
        let batch = Batch::parse(builder.finish().expect("has records")).expect("is a batch");
        assert!(validate_for_append(&batch, &RULES).is_ok());
        let refused = validate_for_append(&batch, &compacted);
        let Err(InvalidBatch::Records(records)) = refused else { panic!("{codec}: {refused:?}") };
        let missing = RefusedRecord { index: 1, fault: RecordFault::MissingKey };
        assert_eq!((records.listed(), records.is_timestamp_wrong()), (&[missing][..], false));
    }

    let bomb_limit = AppendRules { decode_limit: DecodeLimit::new(10), ..compacted };
    let refused = validate_for_append(&three_records(Compression::Gzip), &bomb_limit);
    assert!(
        matches!(refused, Err(InvalidBatch::Undecodable(RecordError::DecompressedTooLarge { .. }))),
        "{refused:?}"
    );
}

#[test]
fn all_records_that_break_a_rule_are_counted_and_the_first_ones_listed() {
    const MANY: usize = 2 * RefusedRecords::LISTED_MAX;
    let compacted = AppendRules { keys_required: true, ..RULES };
    let late = TimestampMs(NOW.0 + 10 * 3_600_000);
    let mut builder = BatchBuilder::new(Compression::Zstd);
    builder.append(NOW, Some(b"key"), None, &[]).expect("fits");
    for _ in 1..MANY {
        builder.append(NOW, None, None, &[]).expect("fits");
    }
    builder.append(late, Some(b"key"), None, &[]).expect("fits");
    let batch = Batch::parse(builder.finish().expect("has records")).expect("is a batch");
    let refused = validate_for_append(&batch, &compacted).expect_err("is refused");
    assert!(refused.to_string().starts_with("800 records"), "{refused}");
    let InvalidBatch::Records(records) = refused else { panic!("{refused:?}") };
    assert_eq!(records.count(), MANY);
    assert!(records.is_timestamp_wrong(), "the last one, which is not listed");
    let indexes: Vec<usize> = records.listed().iter().map(|record| record.index).collect();
    assert!(indexes.into_iter().eq(1..=RefusedRecords::LISTED_MAX));
}

#[test]
fn a_deep_look_finds_records_out_of_place() {
    let problem = |batch: &Batch| match validate_records_deep(batch, DecodeLimit::DEFAULT) {
        Err(RecordError::MalformedRecord { index, problem, .. }) => Some((index, problem)),
        other => {
            assert_eq!(other, Ok(()));
            None
        }
    };
    let dense = three_records(Compression::None);
    assert_eq!(problem(&dense), None);

    // The offset delta of the second record, from 1 to 2.
    let record_bytes = dense.body().len() / 3;
    let mut bytes = dense.bytes().to_vec();
    bytes[61 + record_bytes + 3] = 4;
    let repeated = Batch::parse(Bytes::from(bytes)).expect("is a batch");
    let gap = RecordProblem::UnexpectedOffsetDelta { found: 2, expected: 1 };
    assert_eq!(problem(&repeated), Some((1, gap)));
    // With an offset to spare there may be gaps, but no repetition.
    let sparse = with_header(&repeated, |header| header.last_offset_delta = 3);
    let repetition = RecordProblem::UnexpectedOffsetDelta { found: 2, expected: 3 };
    assert_eq!(problem(&sparse), Some((2, repetition)));

    let early_max = with_header(&dense, |header| header.max_timestamp = TimestampMs(NOW.0 + 19));
    assert_eq!(problem(&early_max), Some((1, RecordProblem::AfterMaxTimestamp)));
}
