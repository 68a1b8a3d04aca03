//! What it takes to rewrite a batch, whatever it, and one record of it, unpacks to.
//!
//! Alone in its process: the peak is the process's.

use std::fs;
use std::ops::ControlFlow;

use logway_model::TimestampMs;
use logway_record::{Batch, BatchBuilder, Compression, DecodeLimit, RetainedRecords, Rewrite};

/// The codec's window, its tables, a packed piece.
const TAKEN_BYTES_MAX: usize = 12 << 20;

#[test]
fn a_batch_is_never_unpacked_as_a_whole() {
    for codec in Compression::ALL.into_iter().skip(1) {
        let batch = large_batch(codec);
        let mut retained = RetainedRecords::default();
        forget_peak();
        let before = peak_bytes();
        let walked = batch.walk(DecodeLimit::BATCH_MAX, |record| {
            retained.push(record.offset.0 > 0);
            ControlFlow::Continue(())
        });
        walked.expect("it is good");
        let rewrite = Rewrite { retained, delete_horizon: None };
        let mut rewriting = batch.rewriting(&rewrite, DecodeLimit::BATCH_MAX).expect("it begins");
        let mut packed_bytes = 0;
        while let Some(piece) = rewriting.next_piece().expect("it is good") {
            packed_bytes += piece.len();
        }
        assert_eq!(rewriting.into_header().record_count, 2, "{codec}");
        let taken = peak_bytes().saturating_sub(before);
        assert!(taken < TAKEN_BYTES_MAX, "{codec}: {taken} bytes for {packed_bytes} packed ones");
    }
}

/// Three records of 16 MiB.
fn large_batch(codec: Compression) -> Batch {
    let mut builder = BatchBuilder::new(codec);
    let value = vec![0; 16 << 20];
    for key in ["a", "b", "c"] {
        builder.append(TimestampMs(1), Some(key.as_bytes()), Some(&value), &[]).expect("it fits");
    }
    Batch::parse(builder.finish().expect("it fits")).expect("it is good")
}

/// The most memory that the process has had since it was last forgotten.
fn peak_bytes() -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("Linux tells");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("is there");
    let kib: usize = peak.trim().trim_end_matches(" kB").parse().expect("a number");
    kib << 10
}

fn forget_peak() {
    fs::write("/proc/self/clear_refs", "5").expect("Linux forgets");
}
