//! Records come back from a batch as they went in.

mod common;

use common::{any_codec, any_records, build, decode};
use logway_model::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, TimestampMs};
use logway_record::{
    BATCH_HEADER_BYTES, BatchBuilder, Batches, Compression, DecodeLimit, PatchedHeader, Record,
    RecordError, RecordProblem, validate_records_deep,
};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 100,
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn records_come_back(codec in any_codec(), records in any_records(), base in 0..i64::MAX / 2) {
        let builder = BatchBuilder::new(codec)
            .with_assignment(Offset(base), LeaderEpoch(7))
            .with_producer(ProducerId(1), ProducerEpoch(2), Sequence(3));
        let batch = build(builder, &records);

        prop_assert_eq!(batch.verify_crc(), Ok(()));
        prop_assert_eq!(validate_records_deep(&batch, DecodeLimit::DEFAULT), Ok(()));
        let header = batch.header();
        prop_assert_eq!(header.base_offset, Offset(base));
        prop_assert_eq!(header.leader_epoch, LeaderEpoch(7));
        prop_assert_eq!(header.producer_id, ProducerId(1));
        prop_assert_eq!(header.producer_epoch, ProducerEpoch(2));
        prop_assert_eq!(header.base_sequence, Sequence(3));
        let max_timestamp = records.iter().map(|record| record.timestamp).max();
        prop_assert_eq!(Some(header.max_timestamp), max_timestamp);
        let expected: Vec<Record> = records
            .into_iter()
            .map(|record| Record { offset: record.offset + base, ..record })
            .collect();
        prop_assert_eq!(decode(&batch, DecodeLimit::DEFAULT), Ok(expected));
    }

    #[test]
    fn a_patched_batch_is_intact(
        codec in any_codec(),
        records in any_records(),
        base in 0..i64::MAX / 2,
        now in 0..i64::MAX,
    ) {
        let batch = build(BatchBuilder::new(codec), &records);
        let assigned = PatchedHeader::of(&batch).assign(Offset(base), LeaderEpoch(9));
        for patched in [assigned, assigned.with_log_append_time(TimestampMs(now))] {
            let bytes = [&patched.bytes()[..], &batch.bytes()[BATCH_HEADER_BYTES..]].concat();
            let mut batches = Batches::new(bytes.into());
            let appended = batches.next().expect("has one batch").expect("which is sound");
            prop_assert_eq!(appended.verify_crc(), Ok(()));
            prop_assert_eq!(appended.header(), patched.header());
            prop_assert_eq!(appended.base_offset(), Offset(base));
            prop_assert!(batches.next().is_none());
        }
    }
}

#[test]
fn a_run_of_batches_is_cut_where_it_was_joined() {
    let batches: Vec<_> = Compression::ALL
        .into_iter()
        .map(|codec| {
            let mut builder = BatchBuilder::new(codec);
            builder.append(TimestampMs(1), None, Some(b"value"), &[]).expect("fits");
            builder.finish().expect("has a record")
        })
        .collect();
    let joined = bytes::Bytes::from(batches.concat());

    let mut cut = Batches::new(joined.clone());
    for batch in &batches {
        assert_eq!(cut.next().expect("is there").expect("is sound").bytes(), batch);
    }
    assert!(cut.next().is_none());
    assert_eq!(cut.position_bytes(), joined.len());

    let cut_off = joined.slice(..joined.len() - 1);
    let mut strict = Batches::new(cut_off.clone());
    assert_eq!(strict.by_ref().filter(Result::is_ok).count(), 4);
    assert_eq!(strict.position_bytes(), joined.len() - batches[4].len());
    assert!(matches!(
        Batches::new(cut_off.clone()).last(),
        Some(Err(RecordError::TruncatedBatch { .. }))
    ));
    assert_eq!(Batches::with_partial_tail(cut_off).map(Result::unwrap).count(), 4);
}

#[test]
fn a_builder_refuses_what_cannot_be_read_back() {
    let mut builder = BatchBuilder::new(Compression::None);
    assert_eq!(builder.clone().finish(), Err(RecordError::EmptyBatch));

    builder.append_at(5, TimestampMs(i64::MAX), None, None, &[]).expect("fits");
    let before = builder.clone().finish();
    let too_early = builder.append_at(5, TimestampMs(0), None, None, &[]);
    assert_eq!(
        too_early,
        Err(RecordError::MalformedRecord {
            base_offset: Offset(0),
            index: 1,
            problem: RecordProblem::UnexpectedOffsetDelta { found: 5, expected: 6 },
        })
    );
    assert!(builder.append(TimestampMs(i64::MIN), None, None, &[]).is_err());
    assert_eq!(builder.finish(), before);
}
