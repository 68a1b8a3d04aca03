//! Closing a directory while others use it, and with a disk that fails.

use std::path::Path;
use std::sync::Arc;
use std::thread;

use logway_log::checkpoint::offset_checkpoint::{self, RECOVERY_POINT_FILE};
use logway_log::fs::sim::{Failure, Fault, SimOperation};
use logway_log::{AppendBatches, Log, LogConfig, LogDir, LogError, NewLog};
use logway_model::{LeaderEpoch, Offset};

use crate::support::*;

fn new_log(disk: &TestDisk, number: i32) -> NewLog {
    let config = Arc::new(disk.config.clone());
    NewLog { partition: partition(number), topic_id: topic_id(), config }
}

/// The recovery point of partition 0, as the checkpoint has it.
fn recovery_point(disk: &TestDisk) -> Option<Offset> {
    let path = Path::new("/data").join(RECOVERY_POINT_FILE);
    let points = offset_checkpoint::read(&disk.fs, &path).expect("the checkpoint is whole");
    points.expect("there is one").get(&partition(0)).copied()
}

/// A log in a directory that was not closed, which cannot be opened at first; and another.
fn log_to_try_again() -> (TestDisk, LogDir) {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    append_records(&disk.log(&dir), 5, 100);
    disk.log_of(&dir, 1);
    drop(dir);
    disk.fs.inject(Fault::new(SimOperation::ReadDir, Failure::NoDescriptors).in_path("t-0"));
    let dir = disk.open();
    disk.fs.heal();
    assert_eq!(dir.recovery_report().failed.len(), 1);
    (disk, dir)
}

#[test]
fn a_close_waits_for_a_log_that_is_being_opened() {
    let (disk, dir) = log_to_try_again();
    let other = dir.log(&partition(1)).expect("it could be opened");
    disk.fs.hold_syncs_in("t-0/");
    thread::scope(|scope| {
        let opened = scope.spawn(|| dir.try_again(&new_log(&disk, 0)));
        // Its end is being put on stable storage.
        disk.fs.wait_for_held_syncs(1);
        let closed = scope.spawn(|| dir.close());
        // The writer goes on as long as the directory is not closed; if it closes too early, it
        // does so long before it has done all this.
        let went_on = (0..2000).all(|_| append(&other, batch(1, 10)).is_ok());
        disk.fs.release_syncs();
        let log = opened.join().expect("it does not panic").expect("it is opened");
        assert!(went_on, "the directory was closed although a log of it was being opened");
        closed.join().expect("it does not panic").expect("it closes");
        let error = append(&log, batch(1, 10)).expect_err("the directory is closed");
        assert!(matches!(error, LogError::Closed { .. }), "{error}");
    });
    let disk = disk.crash();
    let dir = disk.open();
    assert!(dir.recovery_report().was_clean, "the log was closed with the others");
    assert_eq!(read_records(&disk.log(&dir), Offset(0)).len(), 5);
}

#[test]
fn nothing_is_changed_in_a_directory_that_is_closed() {
    let (disk, dir) = log_to_try_again();
    dir.close().expect("it closes");
    // As the next one to open it finds it.
    let changes = disk.fs.changes();
    let closed = |error: LogError| assert!(matches!(error, LogError::Closed { .. }), "{error}");
    for new in [0, 1, 2].map(|number| new_log(&disk, number)) {
        closed(dir.create_logs(std::slice::from_ref(&new))[0].clone().expect_err("it is closed"));
        closed(dir.try_again(&new).expect_err("it is closed"));
        closed(dir.delete_log(&new.partition).expect_err("it is closed"));
        closed(dir.set_aside(&new.partition).expect_err("it is closed"));
    }
    closed(dir.close().expect_err("it is closed already"));
    assert_eq!(disk.fs.changes(), changes, "files were changed after the close");
    let next = disk.open();
    assert!(dir.log(&partition(1)).is_some(), "what was open can be read");
    assert_eq!(disk.log(&next).log_end_offset(), Offset(5));
}

#[test]
fn who_waits_behind_a_checkpoint_is_answered_by_the_close() {
    let disk = TestDisk::new(1).with_config(not_durable());
    let dir = disk.open();
    let log = disk.log(&dir);
    append_records(&log, 5, 10);
    log.flush().wait().expect("the disk works");
    append_records(&log, 1, 10);
    disk.fs.hold_syncs();
    let first = log.delete_records_before(Offset(1));
    // The checkpoint for it is being written, and the second one has to wait.
    disk.fs.wait_for_held_syncs(1);
    let second = log.delete_records_before(Offset(2));
    let retention = dir.enforce_retention();
    thread::scope(|scope| {
        let closed = scope.spawn(|| dir.close());
        // The close puts the records on stable storage.
        disk.fs.wait_for_held_syncs(2);
        disk.fs.release_syncs();
        closed.join().expect("it does not panic").expect("it closes");
    });
    assert_eq!(first.wait().expect("it was under way"), Offset(1));
    assert_eq!(second.wait().expect("the close writes it down"), Offset(2));
    retention.wait().expect("the close writes it down");
    let disk = disk.crash();
    assert_eq!(disk.log(&disk.open()).log_start_offset(), Offset(2));
}

#[test]
fn who_waits_behind_a_checkpoint_is_told_when_the_close_cannot_write_it() {
    let disk = TestDisk::new(1).with_config(not_durable());
    let dir = disk.open();
    let log = disk.log(&dir);
    append_records(&log, 5, 10);
    log.flush().wait().expect("the disk works");
    append_records(&log, 1, 10);
    disk.fs.hold_syncs();
    let first = log.delete_records_before(Offset(1));
    disk.fs.wait_for_held_syncs(1);
    let second = log.delete_records_before(Offset(2));
    thread::scope(|scope| {
        let closed = scope.spawn(|| dir.close());
        disk.fs.wait_for_held_syncs(2);
        let no_more = Fault::new(SimOperation::Rename, Failure::Io).in_path("log-start-offset");
        disk.fs.inject(no_more.after(1));
        disk.fs.release_syncs();
        closed.join().expect("it does not panic").expect_err("it cannot be written down");
    });
    first.wait().expect("it was under way");
    let error = second.wait().expect_err("it cannot be written down");
    assert!(matches!(error, LogError::Io { .. }), "{error}");
}

fn append_in_epoch(log: &Log, epoch: i32, value_bytes: usize) -> Result<(), LogError> {
    let leader_epoch = LeaderEpoch(epoch);
    let batches = vec![batch(1, value_bytes)];
    log.append(AppendBatches::new(batches, leader_epoch)).wait().map(drop)
}

/// A log whose first segment is of epoch 3 and whose second is of epoch 4.
fn log_of_two_epochs(disk: &TestDisk, dir: &LogDir) -> Arc<Log> {
    let log = disk.log(dir);
    for epoch in [3, 4] {
        append_in_epoch(&log, epoch, 3000).expect("the disk works");
    }
    assert_eq!(log.segment_count(), 2);
    log
}

#[test]
fn the_leader_epochs_of_a_log_that_cannot_be_sealed_are_written_before_its_recovery_point() {
    let disk = TestDisk::new(1).with_config(small_segments());
    let dir = disk.open();
    let log = log_of_two_epochs(&disk, &dir);
    // A checkpoint that fails leaves the leader epochs to the next one. It comes after the sealing
    // of the first segment, so that the recovery point can move.
    disk.fs.inject(Fault::new(SimOperation::Write, Failure::Io).in_path("leader-epoch").times(1));
    log.delete_records_before(Offset(0)).wait().expect("the offsets can be written");
    assert_eq!(recovery_point(&disk), None, "it waits for the leader epochs");
    // In a turn of the writer after the one in which it learns of the sealing.
    log.flush().wait().expect("the disk works");
    let active = segment_path(1).display().to_string();
    disk.fs.inject(Fault::new(SimOperation::Sync, Failure::Io).in_path(&active).times(1));
    append_in_epoch(&log, 4, 10).expect_err("the sync failed");
    dir.close().expect_err("the log is poisoned");
    assert_eq!(recovery_point(&disk), Some(Offset(2)), "what was acknowledged is before it");
    let dir = disk.open();
    assert_eq!(disk.log(&dir).epoch_at(Offset(0)), LeaderEpoch(3));
}

#[test]
fn a_recovery_point_stays_where_it_is_if_the_leader_epochs_cannot_be_written() {
    let disk = TestDisk::new(1).with_config(small_segments());
    let dir = disk.open();
    log_of_two_epochs(&disk, &dir);
    append_records(&disk.log_of(&dir, 1), 5, 10);
    disk.fs.inject(Fault::new(SimOperation::Write, Failure::Io).in_path("t-0/leader-epoch"));
    dir.close().expect_err("the leader epochs cannot be written");
    disk.fs.heal();
    assert_eq!(recovery_point(&disk), None, "none was ever written");
    let dir = disk.open();
    let log = disk.log(&dir);
    assert_eq!((log.epoch_at(Offset(0)), log.log_end_offset()), (LeaderEpoch(3), Offset(2)));
    let report = dir.recovery_report();
    assert_eq!(report.scanned_logs, 2, "{report:?}");

    dir.close().expect("it closes");
    assert_eq!(recovery_point(&disk), Some(Offset(2)));
    let dir = disk.open();
    append_in_epoch(&disk.log(&dir), 5, 3000).expect("the disk works");
    disk.fs.inject(Fault::new(SimOperation::Write, Failure::Io).in_path("t-0/leader-epoch"));
    dir.close().expect_err("the leader epochs cannot be written");
    assert_eq!(recovery_point(&disk), Some(Offset(2)), "the one before");
}

#[test]
fn what_is_sealed_after_the_log_was_poisoned_does_not_move_its_recovery_point() {
    let config = LogConfig { segment_bytes: 4096, ..not_durable() };
    let disk = TestDisk::new(1).with_config(config);
    let dir = disk.open();
    let log = disk.log(&dir);
    // While a checkpoint is being written, the first segment waits to be sealed and the second
    // waits behind it.
    disk.fs.hold_syncs_in("log-start-offset");
    let checkpoint = log.delete_records_before(Offset(0));
    disk.fs.wait_for_held_syncs(1);
    for _ in 0..3 {
        append_records(&log, 1, 3000);
    }
    let first = segment_path(0).display().to_string();
    disk.fs.inject(Fault::new(SimOperation::Sync, Failure::Io).in_path(&first).times(1));
    let error = log.flush().wait().expect_err("the sync failed");
    assert!(matches!(error, LogError::Poisoned { .. }), "{error}");
    disk.fs.release_syncs();
    checkpoint.wait().expect("the disk works again");
    // The sync of the sealing succeeds, although the records may not be on the disk.
    dir.close().expect_err("the log is poisoned");
    assert_eq!(recovery_point(&disk), Some(Offset(0)));
    let names = names_in(&disk.fs, "/data/t-0");
    let sealed = |name: &String| name == "00000000000000000002.snapshot";
    assert!(!names.iter().any(sealed), "a log that is poisoned is not sealed: {names:?}");
}
