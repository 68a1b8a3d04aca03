//! What happens to the bytes of a batch between the socket and the log.

#[path = "../../crates/record/tests/rules/mod.rs"]
mod rules;

use std::hint::black_box;
use std::ops::ControlFlow;

use bytes::Bytes;
use logway_model::{LeaderEpoch, Offset, TimestampMs};
use logway_record::{
    Batch, BatchBuilder, Compression, DecodeLimit, PatchedHeader, validate_for_append,
};

use crate::{Leaf, Work};
use rules::{NOW, RULES};

/// A batch of Kafka's default `batch.size`, 16 KiB, full of records of 100 bytes.
const RECORDS: usize = 148;
const VALUE_BYTES: usize = 100;

pub(crate) const LEAVES: &[Leaf] = &[
    Leaf::new("batch/parse", parse),
    Leaf::new("batch/crc", crc),
    Leaf::new("batch/validate", || validate(RECORDS, VALUE_BYTES)),
    Leaf::new("batch/validate-one-of-2-KiB", || validate(1, 2048)),
    Leaf::new("batch/assign-offset", assign),
    Leaf::new("batch/log-append-time", log_append_time),
    Leaf::new("batch/walk-lz4", || walk(Compression::Lz4)),
    Leaf::new("batch/iterate", iterate),
    Leaf::new("batch/build", build),
];

/// A batch as a producer sends it.
pub(crate) fn encoded(records: usize, value_bytes: usize, compression: Compression) -> Bytes {
    let value: Vec<u8> = (0..value_bytes).map(|at| (at * 31 % 251) as u8).collect();
    let mut batch = BatchBuilder::new(compression);
    for index in 0..records {
        let timestamp = TimestampMs(NOW.0 + index as i64);
        batch.append(timestamp, None, Some(&value), &[]).expect("it is far from 2 GiB");
    }
    batch.finish().expect("it is far from 2 GiB")
}

fn batch(compression: Compression) -> Batch {
    Batch::parse(encoded(RECORDS, VALUE_BYTES, compression)).expect("it was just encoded")
}

fn parse() -> Work {
    let bytes = encoded(RECORDS, VALUE_BYTES, Compression::None);
    Box::new(move || {
        black_box(Batch::parse(black_box(bytes.clone())).expect("it was just encoded"));
    })
}

fn crc() -> Work {
    let batch = batch(Compression::None);
    Box::new(move || {
        black_box(&batch).verify_crc().expect("it was just encoded");
    })
}

fn validate(records: usize, value_bytes: usize) -> Work {
    let bytes = encoded(records, value_bytes, Compression::None);
    let batch = Batch::parse(bytes).expect("it was just encoded");
    Box::new(move || {
        black_box(validate_for_append(&batch, black_box(&RULES)).expect("it is valid"));
    })
}

fn assign() -> Work {
    let batch = batch(Compression::None);
    Box::new(move || {
        let patched = PatchedHeader::of(black_box(&batch));
        black_box(patched.assign(Offset(1_000_000), LeaderEpoch(3)).bytes());
    })
}

fn log_append_time() -> Work {
    let batch = batch(Compression::None);
    Box::new(move || {
        let patched = PatchedHeader::of(black_box(&batch));
        black_box(patched.with_log_append_time(NOW).bytes());
    })
}

fn walk(compression: Compression) -> Work {
    let batch = batch(compression);
    Box::new(move || {
        let walked = batch.walk(DecodeLimit::DEFAULT, |record| {
            black_box(record);
            ControlFlow::Continue(())
        });
        walked.expect("it was just encoded");
    })
}

fn iterate() -> Work {
    let batch = batch(Compression::None);
    Box::new(move || {
        let records = batch.records(DecodeLimit::DEFAULT).expect("it was just encoded");
        for record in records {
            black_box(record.expect("it was just encoded"));
        }
    })
}

fn build() -> Work {
    Box::new(|| {
        black_box(encoded(RECORDS, VALUE_BYTES, Compression::None));
    })
}
