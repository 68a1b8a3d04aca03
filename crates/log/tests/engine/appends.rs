//! Appends and reads.

use std::sync::{Arc, Mutex};

use logway_log::fs::SimFs;
use logway_log::{LogConfig, LogError, ReadRequest, TailListener};
use logway_model::{LeaderEpoch, Offset, TimestampMs};
use logway_record::{Batches, TimestampType};

use crate::support::*;

#[test]
fn offsets_are_given_without_gaps_and_read_back() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    assert_eq!(append_records(&log, 3, 10), Offset(0));
    assert_eq!(append_records(&log, 1, 9000), Offset(3));
    assert_eq!(append_records(&log, 2, 10), Offset(4));

    assert_eq!(log.log_end_offset(), Offset(6));
    assert_eq!(log.flushed_offset(), Offset(6));
    let batches = read_batches(&log, Offset(0));
    let bases: Vec<i64> = batches.iter().map(|batch| batch.base_offset().0).collect();
    assert_eq!(bases, [0, 3, 4]);
    assert!(batches.iter().all(|batch| batch.header().leader_epoch == EPOCH));
    let size_bytes: usize = batches.iter().map(|batch| batch.size_bytes()).sum();
    assert_eq!(log.size_bytes(), size_bytes as u64);
}

#[test]
fn an_append_of_several_batches_is_one() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    let batches = vec![batch(2, 5), batch(3, 5000), batch(1, 5)];
    let outcome = log
        .append(logway_log::AppendBatches::new(batches, EPOCH))
        .wait()
        .expect("the append succeeds");
    assert_eq!((outcome.base_offset, outcome.last_offset), (Offset(0), Offset(5)));
    assert_eq!(read_batches(&log, Offset(0)).len(), 3);
}

#[test]
fn a_read_in_the_middle_of_a_batch_returns_the_whole_batch() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    append_records(&log, 5, 10);
    append_records(&log, 5, 10);
    let batches = read_batches(&log, Offset(7));
    assert_eq!(batches.len(), 1);
    assert_eq!(batches[0].base_offset(), Offset(5));
}

#[test]
fn reads_outside_of_the_log_are_refused_and_at_its_end_empty() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    append_records(&log, 5, 10);
    assert!(log.read(everything_from(Offset(5))).expect("the end is in the log").is_empty());
    for offset in [-1, 6] {
        let error = log.read(everything_from(Offset(offset))).expect_err("it is outside");
        assert!(matches!(error, LogError::OffsetOutOfRange { end: Offset(5), .. }), "{error}");
    }
}

#[test]
fn a_bound_hides_the_batch_that_it_cuts() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    for _ in 0..4 {
        append_records(&log, 5, 10);
    }
    for (bound, visible) in [(0, 0), (4, 0), (5, 1), (9, 1), (10, 2), (19, 3), (20, 4), (99, 4)] {
        let request = ReadRequest { upper_bound: Offset(bound), ..everything_from(Offset(0)) };
        let bytes = read_bytes(&log, request).expect("the offset is in the log");
        assert_eq!(Batches::new(bytes).count(), visible, "bound {bound}");
    }
    let beyond = ReadRequest { upper_bound: Offset(5), ..everything_from(Offset(10)) };
    assert!(log.read(beyond).expect("the offset is in the log").is_empty());
}

#[test]
fn max_bytes_cuts_at_a_batch_but_lets_the_first_one_through() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    for _ in 0..10 {
        append_records(&log, 1, 100);
    }
    let one = read_batches(&log, Offset(9))[0].size_bytes() as u64;
    let batches_for = |max_bytes, at_least_one_batch| {
        let request = ReadRequest { max_bytes, at_least_one_batch, ..everything_from(Offset(2)) };
        let bytes = read_bytes(&log, request).expect("the offset is in the log");
        Batches::new(bytes).inspect(|batch| assert!(batch.is_ok(), "{batch:?}")).count()
    };
    assert_eq!(batches_for(one - 1, false), 0);
    assert_eq!(batches_for(one - 1, true), 1);
    assert_eq!(batches_for(one, false), 1);
    assert_eq!(batches_for(one * 3 + 1, false), 3);
    assert_eq!(batches_for(one * 100, false), 8);
}

#[test]
fn a_read_goes_on_over_segments() {
    let disk = TestDisk::new(1).with_config(small_segments());
    let dir = disk.open();
    let log = disk.log(&dir);
    for _ in 0..40 {
        append_records(&log, 2, 300);
    }
    assert!(log.segment_count() > 3);
    assert_eq!(read_records(&log, Offset(0)).len(), 80);
    assert_eq!(read_records(&log, Offset(33)).len(), 47);
}

#[test]
fn segments_roll_by_size_and_by_time() {
    let config = LogConfig { segment_ms: 1000, ..small_segments() };
    let disk = TestDisk::new(1).with_config(config);
    let dir = disk.open();
    let log = disk.log(&dir);
    append(&log, batch_at(&[NOW_MS], 10)).expect("the append succeeds");
    append(&log, batch_at(&[NOW_MS + 1000], 10)).expect("the append succeeds");
    assert_eq!(log.segment_count(), 1);
    append(&log, batch_at(&[NOW_MS + 1001], 10)).expect("the append succeeds");
    assert_eq!(log.segment_count(), 2, "a record segment.ms younger begins a segment");
    append(&log, batch_at(&[NOW_MS + 1001], 3900)).expect("the append succeeds");
    append(&log, batch_at(&[NOW_MS + 1001], 100)).expect("the append succeeds");
    assert_eq!(log.segment_count(), 3, "a segment does not pass its size");
}

#[test]
fn a_full_index_rolls_the_segment() {
    let config =
        LogConfig { segment_index_bytes: 120, index_interval_bytes: 1, ..LogConfig::default() };
    let disk = TestDisk::new(1).with_config(config);
    let dir = disk.open();
    let log = disk.log(&dir);
    for index in 0..40 {
        append(&log, batch_at(&[NOW_MS + index], 10)).expect("the append succeeds");
    }
    assert!(log.segment_count() > 3, "{}", log.segment_count());
    assert_eq!(read_records(&log, Offset(0)).len(), 40);
}

#[test]
fn log_append_time_replaces_the_timestamps() {
    let disk = TestDisk::new(1).with_config(log_append_time());
    let dir = disk.open();
    let log = disk.log(&dir);
    disk.clock.advance(5);
    let outcome = append(&log, batch_at(&[1, 2, 3], 10)).expect("the append succeeds");
    assert_eq!(outcome.log_append_time, TimestampMs(NOW_MS + 5));
    let batch = &read_batches(&log, Offset(0))[0];
    assert_eq!(batch.header().attributes.timestamp_type(), TimestampType::LogAppendTime);
    let records = read_records(&log, Offset(0));
    assert!(records.iter().all(|record| record.timestamp == TimestampMs(NOW_MS + 5)));
}

#[test]
fn create_time_is_left_alone() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    let outcome = append(&log, batch_at(&[5, 7], 10)).expect("the append succeeds");
    assert_eq!(outcome.log_append_time, TimestampMs::NONE);
    let records = read_records(&log, Offset(0));
    assert_eq!(records[1].timestamp, TimestampMs(7));
}

#[test]
fn leader_epochs_are_known_by_their_ends() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    assert_eq!(log.latest_epoch(), LeaderEpoch::NONE);
    for (epoch, records) in [(1, 3), (1, 2), (4, 5)] {
        let append = logway_log::AppendBatches::new(vec![batch(records, 10)], LeaderEpoch(epoch));
        log.append(append).wait().expect("the append succeeds");
    }
    assert_eq!(log.latest_epoch(), LeaderEpoch(4));
    let end_of = |epoch| log.end_offset_for_epoch(LeaderEpoch(epoch)).map(|end| end.end_offset);
    assert_eq!(end_of(1), Some(Offset(5)));
    assert_eq!(end_of(3), Some(Offset(5)));
    assert_eq!(end_of(4), Some(Offset(10)));
    assert_eq!(end_of(5), None);
    assert_eq!(log.epoch_at(Offset(4)), LeaderEpoch(1));
}

/// Remembers the tails it was told.
#[derive(Default)]
struct Tails(Mutex<Vec<(Offset, Offset)>>);

impl TailListener for Tails {
    fn on_tail(&self, log_end: Offset, flushed: Offset) {
        self.0.lock().expect("nobody panicked").push((log_end, flushed));
    }

    fn stable_offset(&self) -> Offset {
        Offset::ZERO
    }
}

#[test]
fn the_listener_hears_of_the_write_and_of_the_sync_before_the_append_is_answered() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    let tails = Arc::new(Tails::default());
    log.set_tail_listener(Arc::clone(&tails) as Arc<dyn TailListener>);
    append_records(&log, 4, 10);
    let heard = tails.0.lock().expect("nobody panicked").clone();
    assert_eq!(heard, [(Offset(4), Offset(0)), (Offset(4), Offset(4))]);
}

#[test]
fn while_the_disk_syncs_the_next_appends_become_one_group() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    append_records(&log, 1, 10);
    let syncs_before = disk.metrics.syncs.get();

    disk.fs.hold_syncs();
    let first = log.append(append_of(batch(1, 10)));
    disk.fs.wait_for_held_syncs(1);
    let group: Vec<_> = (0..100).map(|_| log.append(append_of(batch(1, 10)))).collect();
    disk.fs.release_syncs();
    assert_eq!(first.wait().expect("the append succeeds").base_offset, Offset(1));
    for (index, append) in (2..).zip(group) {
        assert_eq!(append.wait().expect("the append succeeds").base_offset, Offset(index));
    }
    assert_eq!(disk.metrics.syncs.get() - syncs_before, 2);
    assert_eq!(disk.metrics.writes.get(), 3);
}

/// Holds the syncs again when the first record of a log is flushed.
struct HoldsAgain(SimFs);

impl TailListener for HoldsAgain {
    fn on_tail(&self, log_end: Offset, flushed: Offset) {
        if (log_end, flushed) == (Offset(1), Offset(1)) {
            self.0.hold_syncs();
        }
    }

    fn stable_offset(&self) -> Offset {
        Offset::ZERO
    }
}

#[test]
fn several_logs_are_synced_at_the_same_time() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let logs: Vec<_> = (0..6).map(|number| disk.log_of(&dir, number)).collect();
    logs[0].set_tail_listener(Arc::new(HoldsAgain(disk.fs.clone())));
    disk.fs.hold_syncs();
    let first = logs[0].append(append_of(batch(1, 10)));
    disk.fs.wait_for_held_syncs(1);
    let group: Vec<_> = logs.iter().map(|log| log.append(append_of(batch(1, 10)))).collect();
    disk.fs.release_syncs();
    first.wait().expect("the disk works");
    disk.fs.wait_for_held_syncs(logs.len());
    disk.fs.release_syncs();
    for append in group {
        append.wait().expect("the disk works");
    }
}

#[test]
fn an_append_that_is_not_durable_does_not_wait_for_the_disk() {
    let disk = TestDisk::new(1).with_config(not_durable());
    let dir = disk.open();
    let log = disk.log(&dir);
    disk.fs.hold_syncs();
    append_records(&log, 1, 10);
    assert_eq!((log.log_end_offset(), log.flushed_offset()), (Offset(1), Offset(0)));
    disk.fs.release_syncs();
    assert_eq!(log.flush().wait().expect("the flush succeeds"), Offset(1));
    assert_eq!(log.flushed_offset(), Offset(1));
}

#[test]
fn flush_messages_and_flush_ms_sync_after_the_answer() {
    let config = LogConfig { flush_messages: 10, ..LogConfig::default() };
    let disk = TestDisk::new(1).with_config(config);
    let dir = disk.open();
    let log = disk.log(&dir);
    append_records(&log, 9, 10);
    assert_eq!(log.flushed_offset(), Offset(0));
    let tails = FlushedAt::listen(&log, Offset(10));
    append_records(&log, 1, 10);
    tails.wait();

    let flush_ms = LogConfig { flush_messages: u64::MAX, flush_ms: 1, ..LogConfig::default() };
    log.set_config(Arc::new(flush_ms));
    let tails = FlushedAt::listen(&log, Offset(11));
    append_records(&log, 1, 10);
    tails.wait();
}

#[test]
fn a_log_that_becomes_durable_is_flushed() {
    let disk = TestDisk::new(1).with_config(not_durable());
    let dir = disk.open();
    let log = disk.log(&dir);
    append_records(&log, 5, 10);
    let tails = FlushedAt::listen(&log, Offset(5));
    log.set_config(Arc::new(LogConfig::default()));
    tails.wait();
}

#[test]
fn new_flush_settings_hold_for_what_is_not_flushed_yet() {
    let not_durable = not_durable();
    let by_time = LogConfig { flush_ms: 1, ..not_durable.clone() };
    let by_count = LogConfig { flush_messages: 3, ..not_durable.clone() };
    let count_reached = LogConfig { flush_messages: 5, ..not_durable.clone() };
    for config in [by_time, by_count, count_reached] {
        let disk = TestDisk::new(1).with_config(not_durable.clone());
        let dir = disk.open();
        let log = disk.log(&dir);
        append_records(&log, 5, 10);
        assert_eq!(log.flushed_offset(), Offset(0));
        let tails = FlushedAt::listen(&log, Offset(5));
        log.set_config(Arc::new(config));
        tails.wait();
    }
}

#[test]
fn a_queue_that_is_full_says_so() {
    let disk = TestDisk::new(1);
    let mut options = disk.options();
    options.queue_bytes_max = 1000;
    let dir = logway_log::LogDir::open(options, disk.metrics.clone()).expect("it opens");
    let log = disk.log(&dir);
    disk.fs.hold_syncs();
    let with_the_writer = log.append(append_of(batch(1, 2000)));
    disk.fs.wait_for_held_syncs(1);
    let alone = log.append(append_of(batch(1, 2000)));
    let error = append(&log, batch(1, 100)).expect_err("it does not fit");
    assert!(matches!(error, LogError::QueueFull { limit_bytes: 1000, .. }), "{error}");
    disk.fs.release_syncs();
    for accepted in [with_the_writer, alone] {
        accepted.wait().expect("the disk works");
    }
    append_records(&log, 1, 100);
}

#[test]
fn an_append_that_waits_for_the_disk_is_answered_though_its_log_becomes_less_durable() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    for _ in 0..200 {
        let waiting = log.append(append_of(batch(1, 10)));
        log.set_config(Arc::new(not_durable()));
        waiting.wait().expect("the disk works");
        log.set_config(Arc::new(LogConfig::default()));
    }
}
