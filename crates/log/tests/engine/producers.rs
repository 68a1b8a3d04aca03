//! Idempotent producers: sequences, duplicates, fencing, and what a restart remembers.

use std::io::IoSlice;
use std::path::{Path, PathBuf};

use logway_log::fs::sim::{Failure, Fault, SimOperation};
use logway_log::fs::{Fs, OpenMode, read_to_end};
use logway_log::{AppendBatches, AppendOutcome, Log, LogConfig, LogDir, LogDirOptions, LogError};
use logway_model::{LeaderEpoch, Offset, ProducerEpoch, Sequence};

use crate::support::*;

#[test]
fn a_batch_that_was_appended_before_is_answered_as_the_first_time() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    for sequence in [0, 2, 4] {
        append(&log, producer_batch(7, 0, sequence, 2)).expect("it is the next");
    }
    let outcome = append(&log, producer_batch(7, 0, 2, 2)).expect("it is a duplicate");
    assert!(outcome.is_duplicate);
    assert_eq!((outcome.base_offset, outcome.last_offset), (Offset(2), Offset(3)));
    assert_eq!(log.log_end_offset(), Offset(6));
    assert_eq!(disk.metrics.duplicate_batches.get(), 1);
}

#[test]
fn producers_are_described_after_the_appends_before() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    assert_eq!(log.producers().wait().expect("it is open"), []);
    let pending = log.append(append_of(producer_batch(7, 3, 0, 2)));
    let producers = log.producers().wait().expect("it is open");
    let [(id, state)] = &producers[..] else { panic!("one has written: {producers:?}") };
    assert_eq!((id.0, state.epoch), (7, ProducerEpoch(3)));
    assert_eq!(state.last_batch().map(|batch| batch.last_sequence), Some(Sequence(1)));
    pending.wait().expect("it is appended");
    dir.close().expect("it closes");
    assert!(matches!(log.producers().wait(), Err(LogError::Closed { .. })));
}

#[test]
fn gaps_and_old_epochs_are_refused() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    append(&log, producer_batch(7, 1, 0, 2)).expect("it is the first");
    let error = append(&log, producer_batch(7, 1, 3, 1)).expect_err("there is a gap");
    let expected = Sequence(2);
    assert!(
        matches!(error, LogError::OutOfOrderSequence { expected: e, .. } if e == expected),
        "{error}"
    );
    let error = append(&log, producer_batch(7, 0, 2, 1)).expect_err("the epoch is fenced");
    let current = ProducerEpoch(1);
    assert!(
        matches!(error, LogError::FencedProducerEpoch { current: c, .. } if c == current),
        "{error}"
    );
    append(&log, producer_batch(7, 1, 2, 1)).expect("it is the next");
    append(&log, producer_batch(7, 2, 0, 1)).expect("a new epoch begins with 0");
    assert_eq!(log.log_end_offset(), Offset(4));
}

fn assert_behind(result: Result<AppendOutcome, LogError>, refused: i32) {
    let error = result.expect_err("the one before it was refused");
    assert!(
        matches!(error, LogError::BehindRefused { refused: got, .. } if got == Sequence(refused)),
        "{error}"
    );
}

/// Writes some records, and a batch of the producer unless its first one is still to come.
fn write_before(log: &Log, first: i32) {
    append_records(log, 1, 10);
    if first > 0 {
        append(log, producer_batch(7, 0, 0, 1)).expect("it is the first");
    }
}

#[test]
fn what_was_sent_behind_a_batch_that_the_disk_had_no_room_for_is_taken_behind_it() {
    // Of one producer the log knows a batch, of the other none.
    for first in [0, 1] {
        let disk = TestDisk::new(1);
        let dir = disk.open();
        let log = disk.log(&dir);
        write_before(&log, first);
        disk.leave_free(0);
        let error = append(&log, producer_batch(7, 0, first, 1)).expect_err("the disk is full");
        assert!(error.is_disk_full(), "{error}");
        let end = log.log_end_offset();
        assert_behind(append(&log, producer_batch(7, 0, first + 1, 1)), first);
        disk.fs.set_capacity_bytes(1 << 30);
        for sequence in [first + 1, first + 2] {
            assert_behind(append(&log, producer_batch(7, 0, sequence, 1)), first);
        }
        assert_eq!(log.log_end_offset(), end);
        for (sequence, offset) in (first..first + 3).zip(end.0..) {
            let appended = append(&log, producer_batch(7, 0, sequence, 1));
            assert_eq!(appended.expect("it is the next").base_offset, Offset(offset));
        }
        let error = append(&log, producer_batch(7, 0, first + 4, 1)).expect_err("there is a gap");
        assert!(matches!(error, LogError::OutOfOrderSequence { .. }), "{error}");
    }
}

#[test]
fn what_was_sent_behind_a_batch_that_found_the_queue_full_is_taken_behind_it() {
    let disk = TestDisk::new(1);
    let mut options = disk.options();
    options.queue_bytes_max = 1000;
    let dir = LogDir::open(options, disk.metrics.clone()).expect("it opens");
    let log = disk.log(&dir);
    disk.fs.hold_syncs();
    let with_the_writer = log.append(append_of(batch(1, 10)));
    disk.fs.wait_for_held_syncs(1);
    let alone = log.append(append_of(batch(1, 2000)));
    let error = append(&log, producer_batch(7, 0, 0, 1)).expect_err("it does not fit");
    assert!(matches!(error, LogError::QueueFull { .. }), "{error}");
    disk.fs.release_syncs();
    for accepted in [with_the_writer, alone] {
        accepted.wait().expect("the disk works");
    }
    assert_behind(append(&log, producer_batch(7, 0, 1, 1)), 0);
    for sequence in [0, 1] {
        append(&log, producer_batch(7, 0, sequence, 1)).expect("it is the next");
    }
}

#[test]
fn what_is_written_together_with_a_batch_that_fails_is_taken_behind_it() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    append(&log, producer_batch(7, 0, 0, 1)).expect("it is the first");
    disk.fs.hold_syncs();
    let before = log.append(append_of(batch(1, 10)));
    disk.fs.wait_for_held_syncs(1);
    disk.fs.inject(Fault::new(SimOperation::Write, Failure::NoSpace).times(1));
    let together: Vec<_> =
        (1..4).map(|sequence| log.append(append_of(producer_batch(7, 0, sequence, 1)))).collect();
    disk.fs.release_syncs();
    before.wait().expect("the disk works");
    for failed in together {
        failed.wait().expect_err("the write fails");
    }
    assert_behind(append(&log, producer_batch(7, 0, 2, 1)), 1);
    for sequence in 1..4 {
        append(&log, producer_batch(7, 0, sequence, 1)).expect("it is the next");
    }
}

#[test]
fn what_was_sent_behind_a_batch_of_an_epoch_that_is_over_is_taken_behind_it() {
    // Of one producer the log knows a batch, of the other none.
    for first in [0, 1] {
        let disk = TestDisk::new(1);
        let dir = disk.open();
        let log = disk.log(&dir);
        write_before(&log, first);
        disk.fs.hold_syncs();
        let with_the_writer = log.append(append_of(batch(1, 10)));
        disk.fs.wait_for_held_syncs(1);
        let late = log.append(append_of(producer_batch(7, 0, first, 1)));
        let next = LeaderEpoch(EPOCH.0 + 1);
        let led = log.begin_leading(next);
        disk.fs.release_syncs();
        with_the_writer.wait().expect("the disk works");
        let error = late.wait().expect_err("another epoch has begun");
        assert!(matches!(error, LogError::EpochOver { .. }), "{error}");
        led.wait().expect("it leads on");
        let append_next = |sequence| {
            let batches = vec![producer_batch(7, 0, sequence, 1)];
            log.append(AppendBatches::new(batches, next)).wait()
        };
        assert_behind(append_next(first + 1), first);
        for sequence in [first, first + 1] {
            append_next(sequence).expect("it is the next");
        }
        let error = append_next(first + 3).expect_err("there is a gap");
        assert!(matches!(error, LogError::OutOfOrderSequence { .. }), "{error}");
    }
}

#[test]
fn a_duplicate_waits_for_the_sync_of_the_first() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    append_records(&log, 1, 10);
    disk.fs.hold_syncs();
    let first = log.append(append_of(producer_batch(7, 0, 0, 1)));
    let again = log.append(append_of(producer_batch(7, 0, 0, 1)));
    disk.fs.wait_for_held_syncs(1);
    assert_eq!(log.flushed_offset(), Offset(1));
    disk.fs.release_syncs();
    assert_eq!(first.wait().expect("it is appended").base_offset, Offset(1));
    let outcome = again.wait().expect("it is a duplicate");
    assert!(outcome.is_duplicate && outcome.base_offset == Offset(1));
    assert!(log.flushed_offset() >= Offset(2));
}

/// A new batch and a duplicate, in one append.
fn new_and_again() -> AppendBatches {
    let batches = vec![producer_batch(8, 0, 0, 1), producer_batch(7, 0, 0, 1)];
    AppendBatches::new(batches, EPOCH)
}

#[test]
fn an_append_that_ends_with_a_duplicate_waits_for_the_sync_of_the_rest() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    append(&log, producer_batch(7, 0, 0, 1)).expect("it is the first");
    disk.fs.hold_syncs();
    let written = LogEndAt::listen(&log, Offset(2));
    let mut mixed = log.append(new_and_again());
    written.wait();
    disk.fs.wait_for_held_syncs(1);
    let is_answered_early = is_answered(&mut mixed);
    disk.fs.release_syncs();
    assert!(!is_answered_early, "the new batch is not on stable storage");
    assert!(!mixed.wait().expect("it is appended").is_duplicate);
    assert_eq!(log.flushed_offset(), Offset(2));
}

#[test]
fn an_append_that_ends_with_a_duplicate_fails_with_the_write_of_the_rest() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    append(&log, producer_batch(7, 0, 0, 1)).expect("it is the first");
    disk.fs.inject(Fault::new(SimOperation::Write, Failure::Io).in_path(".log").times(1));
    log.append(new_and_again()).wait().expect_err("the new batch is not written");
    assert_eq!(log.log_end_offset(), Offset(1));
}

#[test]
fn producers_are_remembered_over_both_kinds_of_end() {
    for is_clean in [true, false] {
        let disk = TestDisk::new(1).with_config(small_segments());
        let dir = disk.open();
        let log = disk.log(&dir);
        for sequence in 0..10 {
            append(&log, producer_batch(7, 0, sequence, 1)).expect("it is the next");
            append_records(&log, 1, 1000);
        }
        assert!(log.segment_count() > 1);
        if is_clean {
            dir.close().expect("it closes");
        } else {
            drop(dir);
        }
        let disk = disk.crash();
        let dir = disk.open();
        let log = disk.log(&dir);
        let last = append(&log, producer_batch(7, 0, 9, 1)).expect("it is a duplicate");
        assert!(last.is_duplicate, "clean {is_clean}");
        assert_eq!(last.base_offset, Offset(18));
        append(&log, producer_batch(7, 0, 11, 1)).expect_err("there is a gap");
        append(&log, producer_batch(7, 0, 10, 1)).expect("it is the next");
    }
}

#[test]
fn a_damaged_snapshot_is_made_up_for_by_the_log() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    for sequence in 0..3 {
        append(&log, producer_batch(7, 0, sequence, 1)).expect("it is the next");
    }
    dir.close().expect("it closes");
    let path = segment_path(3).with_extension("snapshot");
    disk.fs.flip_bit(&path, 20, 1).expect("the snapshot is there");
    let dir = disk.open();
    assert_eq!(dir.recovery_report().findings.len(), 1);
    let log = disk.log(&dir);
    let again = append(&log, producer_batch(7, 0, 1, 1)).expect("it is a duplicate");
    assert!(again.is_duplicate);
}

#[test]
fn producers_do_not_care_whether_the_log_is_durable() {
    let config = LogConfig { flush_messages: 1000, ..LogConfig::default() };
    let disk = TestDisk::new(1).with_config(config);
    let dir = disk.open();
    let log = disk.log(&dir);
    append(&log, producer_batch(7, 0, 0, 1)).expect("it is the first");
    let outcome = append(&log, producer_batch(7, 0, 0, 1)).expect("it is a duplicate");
    assert!(outcome.is_duplicate);
}

#[test]
fn producer_ids_without_end_over_many_logs_are_forgotten_and_others_are_not() {
    const LOGS: i32 = 100;
    const PRODUCERS_MAX: usize = 800;
    let disk = TestDisk::new(1).with_config(not_durable());
    let options = LogDirOptions { producers_max: PRODUCERS_MAX, ..disk.options() };
    let dir = LogDir::open(options.clone(), disk.metrics.clone()).expect("the directory opens");
    let logs: Vec<_> = (0..LOGS).map(|number| disk.log_of(&dir, number)).collect();
    let known = || disk.metrics.producers.get() as usize;
    for flood in 0..50 {
        disk.clock.advance(10);
        append(&logs[0], producer_batch(7, 0, flood, 1)).expect("it is the next");
        for (log, id) in logs.iter().zip(0..) {
            let id = 1000 + i64::from(flood * LOGS) + id;
            append(log, producer_batch(id, 0, 0, 1)).expect("it is the first");
        }
        // A further turn of the writer: what the one before had to forget is forgotten.
        logs[0].flush().wait().expect("the disk works");
        assert!(known() <= PRODUCERS_MAX, "{} are known", known());
    }
    assert!(disk.metrics.evicted_producers.get() > 3000);
    let again = append(&logs[0], producer_batch(7, 0, 49, 1)).expect("it has written lately");
    assert!(again.is_duplicate);
    let forgotten = append(&logs[1], producer_batch(1001, 0, 0, 1)).expect("it may begin anew");
    assert!(!forgotten.is_duplicate);

    dir.close().expect("it closes");
    drop((dir, logs));
    assert_eq!(known(), 0);
    let fewer = LogDirOptions { producers_max: 200, ..options };
    let dir = LogDir::open(fewer, disk.metrics.clone()).expect("the directory opens");
    append_records(&disk.log(&dir), 1, 10);
    disk.log(&dir).flush().wait().expect("the disk works");
    assert!(known() <= 200, "{} are known", known());
}

#[test]
fn what_a_deletion_that_was_interrupted_leaves_does_not_take_a_producer_back() {
    let disk = TestDisk::new(1).with_config(LogConfig { segment_bytes: 200, ..small_segments() });
    let dir = disk.open();
    let log = disk.log(&dir);
    for sequence in 0..6 {
        append(&log, producer_batch(7, 0, sequence, 1)).expect("it is the next");
    }
    append_records(&log, 1, 150);
    // Each comes back when what was sealed before is: one sealing may be under way, and one may wait.
    for _ in 0..3 {
        dir.enforce_retention().wait().expect("the disk works");
    }
    let [.., first, last] = &snapshots(&disk)[..] else { panic!("there are several") };
    let old = content(&disk, first);
    // All that the producer has written goes, and with it the snapshots but for the last.
    log.delete_records_before(Offset(6)).wait().expect("the offset is in the log");
    drop(dir);
    // As when the power goes before that one is written and the removal of the others is durable.
    remove(&disk, &in_partition(last));
    let file = disk.fs.open(&in_partition(first), OpenMode::CreateNew).expect("the disk works");
    file.write_all_at(&[IoSlice::new(&old)], 0).expect("the disk works");

    let dir = disk.open();
    let log = disk.log(&dir);
    let placed = append(&log, producer_batch(7, 0, 6, 1)).expect("it goes on where it was");
    assert_eq!(placed.base_offset, Offset(7));
}

fn in_partition(name: &str) -> PathBuf {
    Path::new("/data/t-0").join(name)
}

fn snapshots(disk: &TestDisk) -> Vec<String> {
    let mut names = names_in(&disk.fs, "/data/t-0");
    names.retain(|name| name.ends_with(".snapshot"));
    names
}

fn content(disk: &TestDisk, name: &str) -> Vec<u8> {
    let file = disk.fs.open(&in_partition(name), OpenMode::Read).expect("it is there");
    read_to_end(&*file, 1 << 20).expect("the disk works")
}
