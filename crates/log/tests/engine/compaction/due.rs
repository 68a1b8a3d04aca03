//! Which part of a log is compacted, and when.

use std::sync::Arc;

use logway_log::fs::sim::{Failure, Fault, SimOperation};
use logway_log::{CleanupPolicy, LogConfig, TimestampType};
use logway_model::{Offset, TimestampMs};
use logway_record::{Batch, BatchBuilder, Compression};

use super::{Bench, bench_with_old_values, compacted, contents, keyed, shown};
use crate::support::*;

#[test]
fn the_segment_that_grows_is_left_alone() {
    let bench = Bench::new(compacted());
    bench.put("a", Some("1"));
    bench.put("a", Some("2"));
    bench.clean();
    assert_eq!(bench.contents().len(), 2);
}

#[test]
fn records_younger_than_the_minimum_lag_stay() {
    let config = LogConfig { min_compaction_lag_ms: 500, ..compacted() };
    let bench = Bench::new(config);
    bench.put("a", Some("1"));
    bench.put("a", Some("2"));
    bench.roll();
    bench.clean();
    assert_eq!(bench.contents().len(), 2);
    bench.disk.clock.advance(600);
    bench.clean();
    assert_eq!(bench.contents(), shown(&[(1, "a", Some("2"))]));
}

#[test]
fn a_log_is_cleaned_when_it_is_dirty_enough_or_its_records_wait_too_long() {
    let lag_ms = 60_000;
    let config = LogConfig {
        min_cleanable_dirty_ratio: 0.9,
        max_compaction_lag_ms: lag_ms,
        segment_bytes: 4000,
        ..compacted()
    };
    let bench = Bench::new(config);
    for number in 0..50 {
        bench.put(&format!("key-{number}"), Some("1"));
    }
    bench.roll();
    bench.clean();
    let cleaned = bench.metrics.cleaned_bytes.get();
    assert!(cleaned > 0, "all of it is dirty");
    bench.put("key-1", Some("2"));
    bench.roll();
    bench.clean();
    assert_eq!(bench.metrics.cleaned_bytes.get(), cleaned, "a fraction is dirty");
    // Nobody appends any more: the segment that grew is ended by the clock.
    bench.put("key-2", Some("2"));
    bench.disk.clock.advance(lag_ms as i64 + 10);
    bench.clean();
    bench.clean();
    let values: Vec<_> = bench.contents();
    for key in ["key-1", "key-2"] {
        let of_key: Vec<_> = values.iter().filter(|(_, found, _)| found == key).collect();
        assert_eq!(of_key.len(), 1, "{of_key:?}");
        assert_eq!(of_key[0].2.as_deref(), Some("2"));
    }
}

#[test]
fn nothing_from_the_stable_offset_on_is_touched() {
    struct Stable(Offset);
    impl logway_log::TailListener for Stable {
        fn on_tail(&self, _: Offset, _: Offset) {}
        fn stable_offset(&self) -> Offset {
            self.0
        }
    }
    let bench = Bench::new(compacted());
    bench.put("a", Some("1"));
    bench.put("a", Some("2"));
    bench.roll();
    bench.log.set_tail_listener(Arc::new(Stable(Offset(1))));
    bench.clean();
    assert_eq!(bench.contents().len(), 2);
    bench.log.set_tail_listener(Arc::new(Stable(Offset(4))));
    bench.clean();
    assert_eq!(bench.contents().len(), 1);
}

#[test]
fn what_was_full_before_a_start_is_compacted_right_after_it() {
    let bench = bench_with_old_values().reopen();
    // The start itself writes no checkpoint.
    bench.cleaner.clean_due();
    assert_eq!(bench.contents(), shown(&[(6, "a", Some("3"))]));
}

#[test]
fn the_policy_can_change_at_any_time() {
    let bench = Bench::new(LogConfig { cleanup: CleanupPolicy::Delete, ..compacted() });
    bench.put("a", Some("1"));
    bench.put("a", Some("2"));
    bench.roll();
    bench.clean();
    assert_eq!(bench.contents().len(), 2);
    bench.log.set_config(Arc::new(compacted()));
    bench.clean();
    assert_eq!(bench.contents().len(), 1);
    let both = LogConfig {
        cleanup: CleanupPolicy::CompactAndDelete,
        retention_ms: Some(1000),
        ..compacted()
    };
    bench.log.set_config(Arc::new(both));
    bench.disk.clock.advance(5000);
    bench.dir.enforce_retention().wait().expect("the writer lives");
    assert_eq!(bench.contents(), []);
    assert_eq!(bench.log.log_start_offset(), bench.log.log_end_offset());
}

#[test]
fn a_log_that_is_compacted_no_more_stays_as_it_is() {
    let bench = bench_with_old_values();
    let before = bench.contents();
    bench.disk.fs.hold_syncs_in("00000000000000000000.log.cleaned");
    std::thread::scope(|scope| {
        scope.spawn(|| bench.cleaner.clean_due());
        bench.disk.fs.wait_for_held_syncs(1);
        let delete = LogConfig { cleanup: CleanupPolicy::Delete, ..compacted() };
        bench.log.set_config(Arc::new(delete));
        bench.disk.fs.release_syncs();
    });
    assert_eq!(bench.contents(), before);
    bench.check_files();
}

/// What the log start passes while segments are written anew is no reason to leave the others.
#[test]
fn a_deletion_of_records_does_not_end_the_compaction_of_the_others() {
    for (segment_bytes, start) in [(1000, 2), (5000, 2), (5000, 5)] {
        let bench = bench_with_old_values();
        bench.log.set_config(Arc::new(LogConfig { segment_bytes, ..compacted() }));
        bench.disk.fs.hold_syncs_in("00000000000000000000.log.cleaned");
        std::thread::scope(|scope| {
            scope.spawn(|| bench.cleaner.clean_due());
            bench.disk.fs.wait_for_held_syncs(1);
            let deleted = bench.log.delete_records_before(Offset(start)).wait();
            bench.disk.fs.release_syncs();
            deleted.expect("it is in the log");
        });
        let context = format!("segments of {segment_bytes} bytes, records deleted before {start}");
        assert_eq!(bench.contents(), shown(&[(6, "a", Some("3"))]), "{context}");
        assert_eq!(bench.metrics.failed_rounds.get(), 0, "{context}");
        bench.check_files();
    }
}

#[test]
fn retention_goes_by_the_records_that_are_left() {
    let both = LogConfig {
        cleanup: CleanupPolicy::CompactAndDelete,
        retention_bytes: Some(1),
        ..compacted()
    };
    let bench = Bench::new(LogConfig { retention_bytes: None, ..both.clone() });
    for value in ["1", "2", "3"] {
        bench.put("a", Some(value));
        bench.roll();
    }
    bench.clean();
    assert_eq!(bench.contents(), shown(&[(6, "a", Some("3"))]));
    bench.log.set_config(Arc::new(both));
    bench.dir.enforce_retention().wait().expect("the writer lives");
    assert_eq!(bench.log.segment_count(), 1);
    assert_eq!(bench.log.log_start_offset(), Offset(8), "the segment that grows is kept");
}

#[test]
fn lags_count_from_the_append_where_the_broker_sets_the_time() {
    let day_ms = 24 * 60 * 60 * 1000;
    let old = |key: &str, value: &str| {
        let mut builder = BatchBuilder::new(Compression::None);
        let timestamp = TimestampMs(NOW_MS - day_ms);
        builder
            .append(timestamp, Some(key.as_bytes()), Some(value.as_bytes()), &[])
            .expect("it fits");
        Batch::parse(builder.finish().expect("it is encoded")).expect("it is good")
    };
    for timestamp_type in [TimestampType::CreateTime, TimestampType::LogAppendTime] {
        let config = LogConfig { min_compaction_lag_ms: 500, timestamp_type, ..compacted() };
        let bench = Bench::new(config);
        let is_appended = timestamp_type == TimestampType::LogAppendTime;
        for value in ["1", "2"] {
            append(&bench.log, old("a", value)).expect("the disk works");
        }
        let filler = old("filler", &"x".repeat(2000));
        for _ in 0..2 {
            append(&bench.log, filler.clone()).expect("the disk works");
        }
        bench.clean();
        assert_eq!(bench.contents().len(), if is_appended { 2 } else { 1 });
        bench.disk.clock.advance(600);
        bench.clean();
        assert_eq!(bench.contents(), shown(&[(1, "a", Some("2"))]));
        let left = &read_batches(&bench.log, Offset(1))[0];
        assert_eq!(left.header().attributes.timestamp_type(), timestamp_type);
        let expected = if is_appended { NOW_MS } else { NOW_MS - day_ms };
        assert_eq!(left.header().max_timestamp, TimestampMs(expected));
    }
}

#[test]
fn tombstones_of_a_log_that_stamps_its_records_wait_for_their_horizon() {
    let config = LogConfig { timestamp_type: TimestampType::LogAppendTime, ..compacted() };
    let bench = Bench::new(config);
    bench.put_all(&[("a", None), ("b", Some("1"))]);
    bench.roll();
    bench.clean();
    let record = &read_records(&bench.log, Offset(0))[0];
    assert_eq!((record.offset, record.timestamp), (Offset(0), TimestampMs(NOW_MS)));
    bench.disk.clock.advance(1000);
    bench.clean();
    assert_eq!(bench.contents(), shown(&[(1, "b", Some("1"))]));
}

#[test]
fn nothing_is_compacted_while_somebody_copies_the_log() {
    let bench = bench_with_old_values();
    let before = bench.contents();
    // Two may: one that is taken back, and the next.
    for pause in [(); 2].map(|()| bench.dir.pause_compaction(&partition(0))) {
        pause.wait();
        bench.clean();
        assert_eq!(bench.contents(), before);
    }
    bench.clean();
    assert_eq!(bench.contents(), shown(&[(6, "a", Some("3"))]));
}

#[test]
fn what_does_not_change_is_not_written() {
    let bench = Bench::new(compacted());
    for number in 0..40 {
        bench.put(&format!("key-{number}"), Some("1"));
    }
    let before = bench.contents();
    assert!(bench.log.segment_count() > 2);
    let fault = Fault::new(SimOperation::Open, Failure::Io).in_path(".cleaned");
    bench.disk.fs.inject(fault);
    bench.clean();
    assert_eq!(bench.metrics.failed_rounds.get(), 0);
    assert_eq!(bench.metrics.uncleanable_partitions(), 0);
    bench.disk.fs.heal();
    // What comes before a change is copied.
    bench.put("key-5", Some("2"));
    bench.roll();
    bench.clean();
    let mut after: Vec<_> = before.into_iter().filter(|(_, key, _)| key != "key-5").collect();
    after.push((40, "key-5".to_owned(), Some("2".to_owned())));
    assert_eq!(bench.contents(), after);
    bench.check_files();
}

#[test]
fn the_lists_of_segments_are_written_once_for_all_that_are_compacted() {
    let bench = bench_with_old_values();
    let other = Bench { log: bench.disk.log_of(&bench.dir, 1), ..bench };
    other.put_old_values();
    let bench = other.reopen();
    let fault = Fault::new(SimOperation::Rename, Failure::Io).in_path("segment-lists");
    bench.disk.fs.inject(fault.after(1));
    bench.clean();
    assert_eq!(bench.metrics.failed_rounds.get(), 0);
    for number in 0..2 {
        let log = bench.disk.log_of(&bench.dir, number);
        assert_eq!(contents(&log), shown(&[(6, "a", Some("3"))]));
    }
}

#[test]
fn what_fills_a_gap_does_not_keep_what_is_behind_it_from_retention() {
    let config = LogConfig {
        cleanup: CleanupPolicy::CompactAndDelete,
        retention_ms: Some(1000),
        ..compacted()
    };
    let bench = Bench::new(config);
    // Further from the beginning than a segment reaches.
    let start = Offset(i64::from(i32::MAX));
    let builder = BatchBuilder::new(Compression::None).with_assignment(start, EPOCH);
    let copied = keyed(builder, &[("a", Some("1")), ("b", Some("1"))]);
    while bench.log.log_end_offset() <= start {
        bench.log.append_copied(vec![copied.clone()]).wait().expect("the disk works");
    }
    assert_eq!(bench.log.segment_count(), 2);
    bench.dir.enforce_retention().wait().expect("the writer lives");
    assert_eq!(bench.log.log_start_offset(), Offset(0), "there is time");
    bench.disk.clock.advance(5000);
    bench.dir.enforce_retention().wait().expect("the writer lives");
    assert_eq!(bench.log.log_start_offset(), bench.log.log_end_offset());
}
