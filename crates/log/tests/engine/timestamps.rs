//! Offsets by timestamps, against a look at every record.

use logway_log::{Log, TimestampedOffset};
use logway_model::{Offset, TimestampMs};
use logway_record::{DecodeLimit, Record};

use crate::support::*;

fn found(record: &Record) -> TimestampedOffset {
    TimestampedOffset { timestamp: record.timestamp, offset: record.offset, leader_epoch: EPOCH }
}

/// Compares the answers for all interesting timestamps and bounds with a look at every record.
fn check_against_records(log: &Log, seed: u64) {
    let start = log.log_start_offset();
    let records = read_records(log, start);
    let end = log.log_end_offset();
    let timestamps: Vec<i64> = records.iter().map(|record| record.timestamp.0).collect();
    let bounds = [start, start + 1, Offset((start.0 + end.0) / 2), Offset(end.0 - 1), end];
    for bound in bounds {
        let visible = || records.iter().filter(|record| record.offset < bound);
        for target in timestamps.iter().flat_map(|&ts| [ts - 1, ts, ts + 1]).chain([0, i64::MAX]) {
            let expected = visible().find(|record| record.timestamp.0 >= target).map(found);
            let got = log
                .offset_for_timestamp(TimestampMs(target), bound, DecodeLimit::DEFAULT)
                .expect("the log is not damaged")
                .found;
            assert_eq!(got, expected, "seed {seed}, timestamp {target}, bound {bound}");
        }
        let largest = visible().map(|record| record.timestamp).max();
        let expected = visible().find(|record| Some(record.timestamp) == largest).map(found);
        let got = log
            .max_timestamp_offset(bound, DecodeLimit::DEFAULT)
            .expect("the log is not damaged")
            .found;
        assert_eq!(got, expected, "seed {seed}, largest before {bound}");
    }
}

#[test]
fn look_ups_agree_with_the_records() {
    for seed in 0..12 {
        let disk = TestDisk::new(seed).with_config(small_segments());
        let dir = disk.open();
        let log = disk.log(&dir);
        let mut random = Random::new(seed);
        for step in 0..40 {
            // Mostly rising, with steps back and repetitions.
            let records = 1 + random.below(4);
            let timestamps: Vec<i64> =
                (0..records).map(|_| NOW_MS + step * 10 + random.below(60) as i64 - 30).collect();
            append(&log, batch_at(&timestamps, random.below(500))).expect("the append succeeds");
        }
        check_against_records(&log, seed);
        let before = Offset(log.log_end_offset().0 / 3);
        log.delete_records_before(before).wait().expect("the offset is in the log");
        check_against_records(&log, seed);
        dir.close().expect("it closes");
        let dir = disk.open();
        check_against_records(&disk.log(&dir), seed);
    }
}

#[test]
fn all_records_of_a_log_append_time_batch_have_its_time() {
    let disk = TestDisk::new(1).with_config(log_append_time());
    let dir = disk.open();
    let log = disk.log(&dir);
    for _ in 0..5 {
        append_records(&log, 3, 10);
        disk.clock.advance(10);
    }
    check_against_records(&log, 0);
}

#[test]
fn an_empty_log_has_no_timestamps() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    let nothing = log.offset_for_timestamp(TimestampMs(0), Offset(i64::MAX), DecodeLimit::DEFAULT);
    assert_eq!(nothing.expect("the log is not damaged").found, None);
    let nothing = log.max_timestamp_offset(Offset(i64::MAX), DecodeLimit::DEFAULT);
    assert_eq!(nothing.expect("the log is not damaged").found, None);
}

#[test]
fn records_without_timestamps_are_not_found() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    append(&log, batch_at(&[-1, -1], 10)).expect("the append succeeds");
    let nothing = log.offset_for_timestamp(TimestampMs(0), Offset(i64::MAX), DecodeLimit::DEFAULT);
    assert_eq!(nothing.expect("the log is not damaged").found, None);
    let nothing = log.max_timestamp_offset(Offset(i64::MAX), DecodeLimit::DEFAULT);
    assert_eq!(nothing.expect("the log is not damaged").found, None);
}
