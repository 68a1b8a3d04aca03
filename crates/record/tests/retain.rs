//! Batches of which some records are left, as compaction makes them.

use bytes::Bytes;
use logway_model::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, TimestampMs};
use logway_record::{
    Batch, BatchBuilder, Compression, DecodeLimit, Header, Record, RecordError, TimestampType,
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
    horizon: Option<TimestampMs>,
    is_kept: impl Fn(Offset) -> bool,
) -> Option<Batch> {
    let unpacked = batch.unpack(DecodeLimit::DEFAULT).expect("it decompresses");
    let retained = unpacked.retain(horizon, |record| is_kept(record.offset)).expect("it is good");
    retained.map(|retained| {
        let parsed = Batch::parse(retained.bytes).expect("it is a batch");
        assert_eq!(parsed.header(), &retained.header);
        parsed.verify_crc().expect("its CRC is right");
        parsed
    })
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
        // Any outcome but a panic; what the two readers make of it is the same.
        if let Ok(unpacked) = damaged.unpack(DecodeLimit::DEFAULT) {
            let views: Result<Vec<_>, RecordError> =
                unpacked.records().map(|record| record.map(|record| record.offset)).collect();
            let decoded: Result<Vec<_>, RecordError> = damaged
                .records(DecodeLimit::DEFAULT)
                .and_then(|records| records.map(|record| record.map(|record| record.offset)).collect());
            if let Ok(decoded) = decoded {
                prop_assert_eq!(views, Ok(decoded));
            }
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
        let emptied = batch.emptied();
        let parsed = Batch::parse(emptied.bytes).expect("it is a batch");
        parsed.verify_crc().expect("its CRC is right");
        let header = parsed.header();
        assert_eq!((header.base_offset, header.last_offset()), (BASE, BASE + 1));
        assert_eq!((header.producer_id, header.base_sequence), (ProducerId(5), Sequence(40)));
        assert_eq!((header.record_count, parsed.size_bytes()), (0, 61));
        assert_eq!(header.delete_horizon(), None);
        assert_eq!(header.max_timestamp, TimestampMs(2_000));
        assert_eq!(records(&parsed), []);
        let unpacked = parsed.unpack(DecodeLimit::DEFAULT).expect("there is nothing to unpack");
        assert_eq!(unpacked.records().count(), 0);
    }
}
