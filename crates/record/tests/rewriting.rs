//! Batches of which some records are left, as compaction makes them.

use std::ops::ControlFlow;

use bytes::Bytes;
use logway_model::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, TimestampMs};
use logway_record::{
    Batch, BatchBuilder, BatchHeader, Compression, DecodeLimit, Header, Record, RecordError,
    RetainedRecords, Rewrite, TimestampType,
};
use proptest::prelude::*;

const BASE: Offset = Offset(1000);

/// A batch of records with these timestamps and sizes of values, every third a tombstone.
fn batch(codec: Compression, records: &[(i64, usize)]) -> Batch {
    let mut builder = BatchBuilder::new(codec).with_assignment(BASE, LeaderEpoch(7)).with_producer(
        ProducerId(5),
        ProducerEpoch(2),
        Sequence(40),
    );
    for (index, &(timestamp_ms, value_bytes)) in records.iter().enumerate() {
        let value = vec![b'v'; value_bytes];
        let value = (index % 3 != 2).then_some(&value[..]);
        // The same name twice, and one that is not UTF-8.
        let headers = [
            Header::new(&b"h"[..], Some(Bytes::from_static(b"1"))),
            Header::new(&b"h"[..], None),
            Header::new(&b"\xff"[..], Some(Bytes::from_static(b"2"))),
        ];
        let key = format!("key-{index}");
        builder
            .append(TimestampMs(timestamp_ms), Some(key.as_bytes()), value, &headers)
            .expect("the record fits");
    }
    Batch::parse(builder.finish().expect("the batch is encoded")).expect("the batch is good")
}

fn records(batch: &Batch) -> Vec<Record> {
    let records = batch.records(DecodeLimit::DEFAULT).expect("the records decompress");
    records.map(|record| record.expect("the record is good")).collect()
}

fn retain(
    batch: &Batch,
    delete_horizon: Option<TimestampMs>,
    is_kept: impl Fn(Offset) -> bool,
) -> Option<Batch> {
    let mut retained = RetainedRecords::default();
    let walked = batch.walk(DecodeLimit::DEFAULT, |record| {
        retained.push(is_kept(record.offset));
        ControlFlow::Continue(())
    });
    walked.expect("it is good");
    let rewrite = Rewrite { retained, delete_horizon };
    (rewrite.retained.retained() > 0).then(|| rewritten(batch, &rewrite).expect("it is good"))
}

fn rewritten(batch: &Batch, rewrite: &Rewrite) -> Result<Batch, RecordError> {
    let mut rewriting = batch.rewriting(rewrite, DecodeLimit::DEFAULT)?;
    let mut body = Vec::new();
    while let Some(piece) = rewriting.next_piece()? {
        body.extend(piece);
    }
    let header = rewriting.into_header();
    let rewritten = Batch::parse([&header.encode()[..], &body].concat().into())?;
    rewritten.verify_crc()?;
    Ok(rewritten)
}

proptest! {
    #[test]
    fn what_is_kept_is_as_it_was(
        codec in prop::sample::select(Compression::ALL.to_vec()),
        sizes in prop::collection::vec((1_000i64..2_000_000, 0usize..200), 1..30),
        kept in any::<u32>(),
        horizon in prop::option::of(0i64..4_000_000),
    ) {
        let original = batch(codec, &sizes);
        let is_kept = |offset: Offset| kept >> (offset - BASE) & 1 == 1;
        let expected: Vec<Record> =
            records(&original).into_iter().filter(|record| is_kept(record.offset)).collect();
        let retained = retain(&original, horizon.map(TimestampMs), is_kept);
        let Some(retained) = retained else {
            prop_assert!(expected.is_empty());
            return Ok(());
        };
        prop_assert_eq!(records(&retained), expected.clone());
        let (before, after) = (original.header(), retained.header());
        prop_assert_eq!(after.base_offset, before.base_offset);
        prop_assert_eq!(after.last_offset(), before.last_offset());
        prop_assert_eq!(after.base_sequence, before.base_sequence);
        prop_assert_eq!((after.producer_id, after.producer_epoch), (before.producer_id, before.producer_epoch));
        prop_assert_eq!(after.leader_epoch, before.leader_epoch);
        prop_assert_eq!(after.attributes.compression(), Ok(codec));
        prop_assert_eq!(after.delete_horizon(), horizon.map(TimestampMs));
        let largest = expected.iter().map(|record| record.timestamp).max();
        prop_assert_eq!(Some(after.max_timestamp), largest);
        // A second time, from a batch that has a horizon already.
        let again = retain(&retained, None, is_kept).expect("all are kept");
        prop_assert_eq!(records(&again), expected);
        prop_assert_eq!(again.header().delete_horizon(), horizon.map(TimestampMs));
    }

    #[test]
    fn damaged_records_are_errors(
        flipped in any::<prop::sample::Index>(),
        bit in 0u8..8,
        codec in prop::sample::select(Compression::ALL.to_vec()),
    ) {
        let original = batch(codec, &[(1_000, 10), (1_001, 20), (1_002, 0), (1_003, 5)]);
        let mut bytes = original.bytes().to_vec();
        let at = 61 + flipped.index(bytes.len() - 61);
        bytes[at] ^= 1 << bit;
        let Ok(damaged) = Batch::parse(bytes.into()) else { return Ok(()) };
        // Any outcome but a panic: a walk has refused most.
        let mut retained = RetainedRecords::default();
        (0..4).for_each(|index| retained.push(index != 1));
        let rewrite = Rewrite { retained, delete_horizon: None };
        let walked = damaged.walk(DecodeLimit::DEFAULT, |_| ControlFlow::Continue(()));
        if let Ok(rewritten) = rewritten(&damaged, &rewrite) && walked.is_ok() {
            let mut expected = records(&damaged);
            expected.remove(1);
            prop_assert_eq!(records(&rewritten), expected);
        }
    }
}

#[test]
fn log_append_time_stays_that_of_the_append() {
    let original = batch(Compression::None, &[(1_000, 10), (2_000, 10), (3_000, 10)]);
    let appended =
        logway_record::PatchedHeader::of(&original).with_log_append_time(TimestampMs(9_000));
    let mut bytes = original.bytes().to_vec();
    bytes[..61].copy_from_slice(&appended.header().encode());
    let original = Batch::parse(bytes.into()).expect("it is a batch");
    let retained =
        retain(&original, Some(TimestampMs(50_000)), |offset| offset == BASE).expect("one is kept");
    assert_eq!(retained.header().attributes.timestamp_type(), TimestampType::LogAppendTime);
    assert_eq!(records(&retained)[0].timestamp, TimestampMs(9_000));
    assert_eq!(retained.header().max_timestamp, TimestampMs(9_000));
}

#[test]
fn an_emptied_batch_keeps_its_place_and_its_producer() {
    let original = batch(Compression::Zstd, &[(1_000, 10), (2_000, 10)]);
    let with_horizon = retain(&original, Some(TimestampMs(7)), |_| true).expect("all are kept");
    for batch in [&original, &with_horizon] {
        let parsed = batch.emptied();
        parsed.verify_crc().expect("its CRC is right");
        let header = parsed.header();
        assert_eq!((header.base_offset, header.last_offset()), (BASE, BASE + 1));
        assert_eq!((header.producer_id, header.base_sequence), (ProducerId(5), Sequence(40)));
        assert_eq!((header.record_count, parsed.size_bytes()), (0, 61));
        assert_eq!(header.delete_horizon(), None);
        assert_eq!(header.max_timestamp, TimestampMs(2_000));
        assert_eq!(records(&parsed), []);
    }
}

/// Blocks that are linked to those before them pack what is repeated there; ours are not.
#[test]
fn what_packs_much_worse_than_before_is_refused() {
    use std::io::Write;

    use lz4_flex::frame::{BlockMode, FrameEncoder, FrameInfo};

    const VALUE_BYTES: usize = 35 << 20;
    let mut state = 1u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    })
    .take(60_000)
    .collect();
    let value: Vec<u8> = noise.iter().copied().cycle().take(VALUE_BYTES).collect();
    let mut builder = BatchBuilder::new(Compression::None).with_assignment(BASE, LeaderEpoch(7));
    for key in ["a", "b", "c"] {
        let value = if key == "a" { &b"1"[..] } else { &value };
        builder.append(TimestampMs(1), Some(key.as_bytes()), Some(value), &[]).expect("it fits");
    }
    let plain = Batch::parse(builder.finish().expect("it fits")).expect("it is good");
    let info = FrameInfo::new().block_mode(BlockMode::Linked);
    let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
    encoder.write_all(&plain.body()).expect("in memory");
    let body = encoder.finish().expect("in memory");
    assert!(body.len() < 2 << 20, "{} bytes", body.len());
    let attributes = plain.header().attributes.with_compression(Compression::Lz4);
    let length_bytes = (61 - 12 + body.len()) as i32;
    let header = BatchHeader { attributes, length_bytes, ..*plain.header() };
    let packed = Batch::parse([&header.encode()[..], &body].concat().into()).expect("it is one");

    let mut retained = RetainedRecords::default();
    [false, true, true].into_iter().for_each(|is_retained| retained.push(is_retained));
    let refused = rewritten(&packed, &Rewrite { retained, delete_horizon: None });
    let limit_bytes = 64 << 20;
    assert_eq!(refused, Err(RecordError::RewrittenTooLarge { base_offset: BASE, limit_bytes }));
    // Half of it fits.
    let one = retain(&packed, None, |offset| offset == BASE + 1).expect("one is kept");
    assert_eq!(records(&one)[0].value.as_deref(), Some(&value[..]));
}
