//! Arbitrary records, and batches of them.

use bytes::Bytes;
use logway_model::{Offset, TimestampMs};
use logway_record::{Batch, BatchBuilder, Compression, Header, Record, RecordError};
use proptest::prelude::*;

/// A batch of `records`, whose offsets are relative to the batch's.
pub(crate) fn build(builder: BatchBuilder, records: &[Record]) -> Batch {
    let mut builder = builder;
    for record in records {
        let (key, value) = (record.key.as_deref(), record.value.as_deref());
        let delta = i32::try_from(record.offset.0).expect("tests use small offsets");
        builder
            .append_at(delta, record.timestamp, key, value, &record.headers)
            .expect("tests append what fits");
    }
    Batch::parse(builder.finish().expect("tests append a record"))
        .expect("a builder builds batches")
}

/// All records, or the first error.
pub(crate) fn decode(
    batch: &Batch,
    limit: logway_record::DecodeLimit,
) -> Result<Vec<Record>, RecordError> {
    batch.records(limit)?.collect()
}

pub(crate) fn any_codec() -> impl Strategy<Value = Compression> {
    proptest::sample::select(&Compression::ALL[..])
}

/// One to thirty records at offsets that rise, sometimes with gaps.
pub(crate) fn any_records() -> impl Strategy<Value = Vec<Record>> {
    let content = (any_timestamp(), any_part(), any_part(), any_headers(), 0..3i64);
    proptest::collection::vec(content, 1..30).prop_map(|contents| {
        let mut next_offset = 0;
        let mut records = Vec::new();
        for (timestamp, key, value, headers, gap) in contents {
            let offset = Offset(next_offset + gap);
            next_offset = offset.0 + 1;
            records.push(Record { offset, timestamp, key, value, headers });
        }
        records
    })
}

fn any_timestamp() -> impl Strategy<Value = TimestampMs> {
    prop_oneof![Just(-1), 0..i64::MAX, 1_700_000_000_000..1_700_000_100_000i64]
        .prop_map(TimestampMs)
}

/// None, bytes of no pattern, or a run that is longer than a block of any codec.
fn any_part() -> impl Strategy<Value = Option<Bytes>> {
    let noise = proptest::collection::vec(any::<u8>(), 0..200).prop_map(Bytes::from);
    let run = (any::<u8>(), 0..100_000usize).prop_map(|(byte, count)| vec![byte; count].into());
    prop_oneof![2 => Just(None), 8 => noise.prop_map(Some), 1 => run.prop_map(Some)]
}

/// Few names, so that they repeat.
fn any_headers() -> impl Strategy<Value = Vec<Header>> {
    let name = proptest::sample::select(&["", "a", "b", "\u{e9}\u{e8}"][..]);
    let header = (name, proptest::option::of("[a-z]{0,9}"))
        .prop_map(|(key, value)| Header::new(key, value.map(Bytes::from)));
    proptest::collection::vec(header, 0..6)
}
