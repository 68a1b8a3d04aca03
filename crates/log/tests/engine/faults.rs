//! Disks that fail, fill up, or lie.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use logway_log::fs::Fs;
use logway_log::fs::sim::{Failure, Fault, SimOperation};
use logway_log::{
    AppendFuture, Finding, Log, LogConfig, LogDir, LogDirOptions, LogError, ReadRequest,
};
use logway_model::Offset;

use crate::support::*;

#[test]
fn a_failed_sync_poisons_the_log_until_it_is_opened_again() {
    for seed in 0..20 {
        let disk = TestDisk::new(seed);
        let dir = disk.open();
        let (log, other) = (disk.log_of(&dir, 0), disk.log_of(&dir, 1));
        append_records(&log, 3, 1000);
        disk.fs.inject(Fault::new(SimOperation::Sync, Failure::Io).in_path("t-0/").times(1));
        let error = append(&log, batch(2, 1000)).expect_err("the sync failed");
        assert!(matches!(error, LogError::Poisoned { .. }), "seed {seed}: {error}");
        // The disk would report success now, and the records would be lost all the same.
        let error = append(&log, batch(2, 1000)).expect_err("the log is poisoned");
        assert!(matches!(error, LogError::Poisoned { .. }), "seed {seed}: {error}");
        let error = log.flush().wait().expect_err("the log is poisoned");
        assert!(matches!(error, LogError::Poisoned { .. }), "seed {seed}: {error}");
        assert_eq!(log.flushed_offset(), Offset(3));
        let acknowledged = ReadRequest { upper_bound: Offset(3), ..everything_from(Offset(0)) };
        read_bytes(&log, acknowledged).expect("what was acknowledged can be read");
        append_records(&other, 1, 10);

        dir.close().expect_err("one log is poisoned");
        let disk = disk.crash();
        let dir = disk.open();
        assert!(!dir.recovery_report().was_clean);
        let log = disk.log(&dir);
        assert!(log.log_end_offset() >= Offset(3), "seed {seed}");
        let end = log.log_end_offset();
        assert_eq!(append_records(&log, 1, 10), end);
        assert_eq!(read_records(&log, Offset(0)).len() as i64, end.0 + 1, "seed {seed}");
    }
}

#[test]
fn what_a_failed_sync_left_in_the_page_cache_is_not_taken_for_durable() {
    for seed in 0..40 {
        let disk = TestDisk::new(seed);
        let dir = disk.open();
        let log = disk.log(&dir);
        append_records(&log, 3, 1000);
        disk.fs.inject(Fault::new(SimOperation::Sync, Failure::Io).in_path(".log").times(1));
        append(&log, batch(2, 1000)).expect_err("the sync failed");
        // The process ends and starts again; the machine and its page cache live on.
        drop(dir);
        let dir = disk.open();
        let log = disk.log(&dir);
        append_records(&log, 2, 1000);
        let expected = read_records(&log, Offset(0));
        let disk = disk.crash();
        drop(dir);
        let dir = disk.open();
        let report = dir.recovery_report();
        assert!(report.findings.is_empty(), "seed {seed}: {report:?}");
        let log = disk.log(&dir);
        assert_eq!(read_records(&log, Offset(0)), expected, "seed {seed}");
        assert!(!names_in(&disk.fs, "/data/t-0").iter().any(|name| name == "failed-sync"));
    }
}

#[test]
fn all_that_wait_for_a_failed_sync_are_told() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    append_records(&log, 1, 10);
    disk.fs.hold_syncs();
    let first = log.append(append_of(batch(1, 10)));
    disk.fs.wait_for_held_syncs(1);
    let group: Vec<_> = (0..10).map(|_| log.append(append_of(batch(1, 10)))).collect();
    disk.fs.inject(Fault::new(SimOperation::Sync, Failure::Io).in_path(".log"));
    disk.fs.release_syncs();
    let _ = first.wait();
    for append in group {
        let error = append.wait().expect_err("the sync failed");
        assert!(matches!(error, LogError::Poisoned { .. }), "{error}");
    }
}

#[test]
fn logs_that_are_synced_at_the_same_time_fail_alone() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let logs: Vec<_> = (0..6).map(|number| disk.log_of(&dir, number)).collect();
    append_records(&logs[0], 1, 10);
    // While the first sync is held, the appends to all logs become one group.
    disk.fs.hold_syncs();
    let first = logs[0].append(append_of(batch(1, 10)));
    disk.fs.wait_for_held_syncs(1);
    let group: Vec<_> = logs.iter().map(|log| log.append(append_of(batch(1, 10)))).collect();
    disk.fs.inject(Fault::new(SimOperation::Sync, Failure::Io).in_path("t-3/").times(1));
    disk.fs.release_syncs();
    first.wait().expect("the first sync is of another log");
    for (number, append) in group.into_iter().enumerate() {
        let result = append.wait();
        assert_eq!(result.is_err(), number == 3, "log {number}: {result:?}");
    }
    assert_eq!(append_records(&logs[5], 1, 10), Offset(1));
}

/// A log of ten records in small segments, on a disk with so much space left.
fn ten_records_and(free_bytes: u64) -> (TestDisk, LogDir, Arc<Log>) {
    let disk = TestDisk::new(1).with_config(small_segments());
    let dir = disk.open();
    let log = disk.log(&dir);
    for _ in 0..10 {
        append_records(&log, 1, 1000);
    }
    disk.leave_free(free_bytes);
    (disk, dir, log)
}

#[test]
fn a_full_disk_fails_appends_until_there_is_space() {
    let (disk, dir, log) = ten_records_and(100);
    for _ in 0..3 {
        let error = append(&log, batch(1, 1000)).expect_err("the disk is full");
        assert!(matches!(error, LogError::DiskFull { .. }), "{error}");
        assert!(error.to_string().contains("/data"), "{error}");
    }
    assert_eq!(log.log_end_offset(), Offset(10));
    assert_eq!(read_records(&log, Offset(0)).len(), 10, "reads go on");
    let start = log.delete_records_before(Offset(9)).wait().expect("there is a reserve");
    assert_eq!(start, Offset(9));

    disk.fs.set_capacity_bytes(1 << 30);
    assert_eq!(append_records(&log, 1, 1000), Offset(10));
    dir.close().expect("it closes");
    let dir = disk.open();
    assert!(dir.recovery_report().findings.is_empty());
    assert_eq!(read_records(&disk.log(&dir), Offset(9)).len(), 2);
}

#[test]
fn appends_leave_the_last_of_the_disk() {
    const LEFT_BYTES: u64 = 2 << 20;
    const OF_INDEXES_BYTES: u64 = 64 << 10;
    let disk = TestDisk::new(1);
    append_records(&disk.log(&disk.open()), 1, 1000);
    disk.leave_free(LEFT_BYTES + 1_000_000);
    // Nothing is known of the disk as it was.
    let dir = disk.open();
    let log = disk.log(&dir);
    let mut appended = 0;
    let error = loop {
        match append(&log, batch(1, 100_000)) {
            Ok(_) => appended += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, LogError::DiskFull { .. }), "{error}");
    assert!((1..10).contains(&appended), "{appended}");
    let free_bytes = disk.free_bytes();
    assert!(free_bytes > LEFT_BYTES - OF_INDEXES_BYTES, "{free_bytes}");
}

/// Who tries again and again would have the space that was given up for the first checkpoint.
#[test]
fn appends_on_a_full_disk_leave_the_space_for_checkpoints() {
    let (_disk, _dir, log) = ten_records_and(0);
    for before in 1..10 {
        for _ in 0..3 {
            let error = append(&log, batch(1, 500_000)).expect_err("the disk is full");
            assert!(error.is_disk_full(), "{error}");
        }
        let start = log.delete_records_before(Offset(before)).wait();
        assert_eq!(start.expect("there is space for that"), Offset(before));
    }
}

#[test]
fn a_failed_write_takes_everything_back() {
    for seed in 0..20 {
        let disk = TestDisk::new(seed);
        let dir = disk.open();
        let log = disk.log(&dir);
        append(&log, producer_batch(7, 0, 0, 2)).expect("it is the first");
        let fault = Fault::new(SimOperation::Write, Failure::NoSpace).in_path(".log").times(1);
        disk.fs.inject(fault);
        let error = append(&log, producer_batch(7, 0, 2, 2)).expect_err("the write failed");
        assert!(matches!(error, LogError::DiskFull { .. }), "seed {seed}: {error}");
        // The retry is no duplicate: the first time left nothing.
        let outcome = append(&log, producer_batch(7, 0, 2, 2)).expect("it is the next");
        assert!(!outcome.is_duplicate && outcome.base_offset == Offset(2), "seed {seed}");
        assert_eq!(read_records(&log, Offset(0)).len(), 4, "seed {seed}");
        assert_eq!(file_len(&disk, &segment_path(0)), log.size_bytes(), "seed {seed}");
    }
}

#[test]
fn a_duplicate_in_the_group_of_a_failed_write_fails_with_it() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    append(&log, producer_batch(7, 0, 0, 1)).expect("it is the first");
    disk.fs.hold_syncs();
    let blocker = log.append(append_of(batch(1, 10)));
    disk.fs.wait_for_held_syncs(1);
    let old = log.append(append_of(producer_batch(7, 0, 0, 1)));
    let new = log.append(append_of(producer_batch(7, 0, 1, 1)));
    let again = log.append(append_of(producer_batch(7, 0, 1, 1)));
    disk.fs.inject(Fault::new(SimOperation::Write, Failure::Io).in_path(".log").times(1));
    disk.fs.release_syncs();
    blocker.wait().expect("it was written before");
    assert!(old.wait().expect("the log had it before").is_duplicate);
    new.wait().expect_err("the write failed");
    again.wait().expect_err("what it repeats was not written");
}

#[test]
fn a_roll_that_fails_is_tried_again() {
    let disk = TestDisk::new(1).with_config(small_segments());
    let dir = disk.open();
    let log = disk.log(&dir);
    append_records(&log, 1, 3000);
    disk.fs.inject(Fault::new(SimOperation::Open, Failure::NoSpace).in_path(".log").times(1));
    let error = append(&log, batch(1, 3000)).expect_err("there is no room for a new segment");
    assert!(matches!(error, LogError::DiskFull { .. }), "{error}");
    assert_eq!(append_records(&log, 1, 3000), Offset(1));
    assert_eq!(log.segment_count(), 2);
}

#[test]
fn nothing_is_appended_behind_the_beginning_of_a_segment_whose_roll_failed() {
    for is_closed in [false, true] {
        let disk = TestDisk::new(1).with_config(small_segments());
        let dir = disk.open();
        let log = disk.log(&dir);
        append_records(&log, 1, 3000);
        // The segment's file is made, and then the roll fails.
        disk.fs.inject(Fault::new(SimOperation::Remove, Failure::Io).in_path("1.index").times(1));
        append(&log, batch(1, 3000)).expect_err("the roll failed");
        assert!(disk.fs.exists(&segment_path(1)).expect("the disk works"));
        // The old segment would have room for this one.
        append_records(&log, 1, 100);
        append_records(&log, 1, 3000);
        if is_closed {
            dir.close().expect("it closes");
        }
        drop(dir);
        let dir = disk.open();
        let report = dir.recovery_report();
        assert!(report.findings.is_empty(), "{report:?}");
        let offsets = read_records(&disk.log(&dir), Offset(0)).into_iter().map(|one| one.offset.0);
        assert_eq!(offsets.collect::<Vec<_>>(), [0, 1, 2]);
    }
}

#[test]
fn sealing_that_fails_is_no_harm() {
    let disk = TestDisk::new(1).with_config(small_segments());
    let dir = disk.open();
    let log = disk.log(&dir);
    disk.fs.inject(Fault::new(SimOperation::Write, Failure::NoSpace).in_path("snapshot"));
    for _ in 0..10 {
        append_records(&log, 1, 3000);
    }
    drop(dir);
    disk.fs.heal();
    let dir = disk.open();
    let report = dir.recovery_report();
    assert!(report.findings.is_empty(), "{report:?}");
    assert_eq!(read_records(&disk.log(&dir), Offset(0)).len(), 10);
}

#[test]
fn a_log_whose_leader_epochs_cannot_be_written_does_not_keep_others_from_their_checkpoints() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let (log, other) = (disk.log_of(&dir, 0), disk.log_of(&dir, 1));
    for log in [&log, &other] {
        append_records(log, 5, 10);
    }
    disk.fs.inject(Fault::new(SimOperation::Write, Failure::Io).in_path("t-0/leader-epoch"));
    let start = other.delete_records_before(Offset(2)).wait();
    assert_eq!(start.expect("it is not about this log"), Offset(2));
    dir.delete_log(&partition(1)).expect("it is not about this log");
    let log_again = disk.log_of(&dir, 1);
    assert_eq!(append_records(&log_again, 1, 10), Offset(0));
}

#[test]
fn damage_before_the_recovery_point_is_reported_and_left_alone() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    for _ in 0..10 {
        append_records(&log, 2, 1000);
    }
    dir.close().expect("it closes");
    // Opened and not closed: the next start scans, with the recovery point at the end.
    drop(disk.open());
    let path = segment_path(0);
    let batch_bytes = 20 * 1000 / 10;
    disk.fs.flip_bit(&path, 3 * batch_bytes + 500, 1).expect("it is there");
    let len_before = file_len(&disk, &segment_path(0));

    let dir = disk.open();
    let report = dir.recovery_report();
    let [Finding::Corruption { offset, position, resumed_position, .. }] = &report.findings[..]
    else {
        panic!("{report:?}")
    };
    assert!((Offset(4)..=Offset(6)).contains(offset), "{report:?}");
    assert!(position < resumed_position);
    let log = disk.log(&dir);
    assert_eq!(log.log_end_offset(), Offset(20), "nothing is truncated");
    assert_eq!(read_records(&log, *offset + 2).len() as i64, 18 - offset.0);
    let before = ReadRequest { upper_bound: *offset, ..everything_from(Offset(0)) };
    assert!(!read_bytes(&log, before).expect("it is good").is_empty());
    assert_eq!(append_records(&log, 1, 10), Offset(20));
    drop(dir);
    assert!(file_len(&disk, &segment_path(0)) > len_before);
}

#[test]
fn a_damaged_length_is_skipped_too() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    for _ in 0..10 {
        append_records(&log, 2, 1000);
    }
    let third =
        read_batches(&log, Offset(0))[..3].iter().map(|b| b.size_bytes() as u64).sum::<u64>();
    dir.close().expect("it closes");
    drop(disk.open());
    // The highest byte of the length: the batch claims to be longer than the file.
    disk.fs.flip_bit(&segment_path(0), third + 8, 6).expect("it is there");
    let dir = disk.open();
    let report = dir.recovery_report();
    assert!(
        matches!(report.findings[..], [Finding::Corruption { offset: Offset(6), .. }]),
        "{report:?}"
    );
    let log = disk.log(&dir);
    assert_eq!(read_records(&log, Offset(8)).len(), 12);
    assert_eq!(log.log_end_offset(), Offset(20));
}

#[test]
fn lost_data_before_the_recovery_point_is_reported_and_its_offsets_are_not_given_again() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    for _ in 0..10 {
        append_records(&log, 2, 1000);
    }
    dir.close().expect("it closes");
    drop(disk.open());
    use logway_log::fs::OpenMode;
    let file = disk.fs.open(&segment_path(0), OpenMode::ReadWrite).expect("it is there");
    file.set_len(5000).expect("the disk works");
    drop(file);

    let dir = disk.open();
    let report = dir.recovery_report();
    assert!(matches!(report.findings[..], [Finding::Corruption { .. }]), "{report:?}");
    let log = disk.log(&dir);
    assert_eq!(log.log_end_offset(), Offset(20));
    assert_eq!(append_records(&log, 1, 10), Offset(20));
    let good = ReadRequest { upper_bound: Offset(4), ..everything_from(Offset(0)) };
    assert!(!read_bytes(&log, good).expect("it is good").is_empty());
    dir.close().expect("it closes");
    let dir = disk.open();
    assert_eq!(disk.log(&dir).log_end_offset(), Offset(21));
}

#[test]
fn a_damaged_checkpoint_is_reported_and_costs_a_scan() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    append_records(&disk.log(&dir), 5, 10);
    dir.close().expect("it closes");
    let path = "/data/recovery-point-offset-checkpoint";
    disk.fs.flip_bit(path.as_ref(), 0, 1).expect("it is there");
    let dir = disk.open();
    let report = dir.recovery_report();
    assert!(!report.was_clean);
    assert!(matches!(report.findings[..], [Finding::Rebuilt { .. }]), "{report:?}");
    assert_eq!(disk.log(&dir).log_end_offset(), Offset(5));
}

#[test]
fn a_sync_that_fails_while_a_log_is_opened_is_remembered_by_the_next_start() {
    // What is large is synced while it is scanned.
    for (seed, value_bytes) in (0..40).zip([1000, 300_000].into_iter().cycle()) {
        let disk = TestDisk::new(seed).with_config(not_durable());
        let dir = disk.open();
        append_records(&disk.log(&dir), 5, value_bytes);
        // The process ends; the machine and its page cache live on.
        drop(dir);
        disk.fs.inject(Fault::new(SimOperation::Sync, Failure::Io).in_path(".log").times(1));
        let dir = disk.open();
        assert_eq!(dir.recovery_report().failed.len(), 1, "seed {seed}");
        drop(dir);
        let dir = disk.open();
        let log = disk.log(&dir);
        log.flush().wait().expect("the disk works again");
        let expected = read_records(&log, Offset(0));
        let disk = disk.crash();
        drop(dir);
        let dir = disk.open();
        assert_eq!(read_records(&disk.log(&dir), Offset(0)), expected, "seed {seed}");
    }
}

#[test]
fn a_log_that_cannot_be_synced_for_want_of_descriptors_goes_on_when_there_are_some() {
    let disk = TestDisk::new(1).with_config(small_segments());
    let dir = disk.open();
    let log = disk.log(&dir);
    append_records(&log, 1, 10);
    disk.fs.inject(Fault::new(SimOperation::Open, Failure::Io).in_path("t-0/").times(200));
    let mut refused = 0;
    for _ in 0..50 {
        refused += usize::from(append(&log, batch(1, 100)).is_err());
    }
    disk.fs.heal();
    let end = log.log_end_offset();
    assert_eq!(append_records(&log, 1, 10), end);
    let acknowledged = 1 + 50 - refused + 1;
    assert!(read_records(&log, Offset(0)).len() >= acknowledged, "{refused} were refused");
}

/// A fault that keeps a full segment's sync from being begun: the name of the next one is to be
/// synced, too, and the directory cannot be opened.
fn no_descriptors_for_the_directory() -> Fault {
    Fault::new(SimOperation::SyncDir, Failure::NoDescriptors).in_path("t-0")
}

/// Fills the first segment, and appends to the second while no descriptor is to be had.
fn append_without_descriptors(disk: &TestDisk, log: &Log) -> AppendFuture {
    append_records(log, 1, 3000);
    disk.fs.inject(no_descriptors_for_the_directory());
    let written = LogEndAt::listen(log, Offset(2));
    let waiting = log.append(append_of(batch(1, 3000)));
    written.wait();
    waiting
}

#[test]
fn appends_wait_for_a_sync_that_cannot_be_begun() {
    let disk = TestDisk::new(1).with_config(small_segments());
    let dir = disk.open();
    let log = disk.log(&dir);
    let mut waiting = append_without_descriptors(&disk, &log);
    // Refused, and not written: the client may send it again.
    for _ in 0..3 {
        let error = append(&log, batch(1, 100)).expect_err("a sync is delayed");
        assert!(matches!(error, LogError::SyncDelayed { .. }), "{error}");
    }
    let error = log.flush().wait().expect_err("a sync is delayed");
    assert!(matches!(error, LogError::SyncDelayed { .. }), "{error}");
    assert!(!is_answered(&mut waiting), "neither done nor failed");
    assert_eq!((log.flushed_offset(), log.log_end_offset()), (Offset(1), Offset(2)));
    assert!(disk.metrics.delayed_syncs.get() > 0);

    disk.fs.heal();
    assert_eq!(waiting.wait().expect("the sync is tried again").base_offset, Offset(1));
    assert_eq!(append_records(&log, 1, 100), Offset(2));
    let disk = disk.crash();
    drop(dir);
    assert_eq!(read_records(&disk.log(&disk.open()), Offset(0)).len(), 3);
}

#[test]
fn a_log_whose_sync_is_delayed_does_not_hold_up_another() {
    let disk = TestDisk::new(1).with_config(small_segments());
    let dir = disk.open();
    let (log, other) = (disk.log_of(&dir, 0), disk.log_of(&dir, 1));
    let mut waiting = append_without_descriptors(&disk, &log);
    for _ in 0..20 {
        append_records(&other, 1, 1000);
    }
    assert!(!is_answered(&mut waiting));
}

#[test]
fn a_directory_with_a_delayed_sync_is_not_closed_in_good_order() {
    let disk = TestDisk::new(1).with_config(small_segments());
    let dir = disk.open();
    let log = disk.log(&dir);
    let waiting = append_without_descriptors(&disk, &log);
    dir.close().expect_err("the log is not on stable storage");
    let error = waiting.wait().expect_err("nobody answers any more");
    assert!(matches!(error, LogError::Closed { .. }), "{error}");
    let disk = disk.crash();
    let dir = disk.open();
    assert!(!dir.recovery_report().was_clean);
    assert!(disk.log(&dir).log_end_offset() >= Offset(1));
}

#[test]
fn a_segment_that_cannot_be_opened_for_its_sync_is_no_failed_sync() {
    let disk = TestDisk::new(1).with_config(LogConfig { segment_bytes: 4096, ..not_durable() });
    // With each of its turns the writer has files closed that were not used since the last.
    let options = LogDirOptions { checkpoint_interval: Duration::ZERO, ..disk.options() };
    let dir = LogDir::open(options, disk.metrics.clone()).expect("the directory opens");
    let log = disk.log(&dir);
    let first = segment_path(0).display().to_string();
    disk.fs.inject(Fault::new(SimOperation::Open, Failure::NoDescriptors).in_path(&first));
    append_records(&log, 1, 3000);
    append_records(&log, 1, 3000);
    for _ in 0..3 {
        log.delete_records_before(Offset(0)).wait().expect("the disk works");
    }
    let error = log.flush().wait().expect_err("the full segment cannot be opened");
    assert!(matches!(error, LogError::SyncDelayed { .. }), "{error}");
    let error = append(&log, batch(1, 10)).expect_err("a sync is delayed");
    assert!(matches!(error, LogError::SyncDelayed { .. }), "{error}");

    let flushed = FlushedAt::listen(&log, Offset(2));
    disk.fs.heal();
    flushed.wait();
    append_records(&log, 1, 10);
}

#[test]
fn segments_that_fill_faster_than_they_are_sealed_hold_up_nobody() {
    const ROLLS: usize = 550;
    let config = LogConfig { segment_bytes: 200, index_interval_bytes: 100, ..not_durable() };
    let disk = TestDisk::new(1).with_config(config);
    let dir = disk.open();
    let (log, other) = (disk.log_of(&dir, 0), disk.log_of(&dir, 1));
    // These logs are not synced, so that the hold is on the sealing alone.
    disk.fs.hold_syncs();
    for sequence in 0..ROLLS as i32 {
        append(&log, producer_batch(7, 0, 2 * sequence, 2)).expect("the writer does not wait");
        append_records(&log, 1, 150);
    }
    append_records(&other, 1, 10);
    disk.fs.release_syncs();
    dir.close().expect("it closes");

    let names = names_in(&disk.fs, "/data/t-0");
    let with = |extension| names.iter().filter(|name| name.ends_with(extension)).count();
    assert!(with(".log") > ROLLS, "each append filled a segment");
    assert!(with(".snapshot") < 10, "{} snapshots were written", with(".snapshot"));
    assert_eq!(with(".log"), with(".timeindex"), "all segments are sealed");
    let disk = disk.crash();
    let dir = disk.open();
    assert!(dir.recovery_report().was_clean);
    let log = disk.log(&dir);
    assert_eq!(log.log_end_offset(), Offset(3 * ROLLS as i64));
    let again = append(&log, producer_batch(7, 0, 2 * ROLLS as i32 - 2, 2));
    assert!(again.expect("it is known").is_duplicate);
}

#[test]
fn checkpoints_that_are_asked_for_while_one_waits_are_one() {
    let config = LogConfig { segment_bytes: 200, ..not_durable() };
    let disk = TestDisk::new(1).with_config(config);
    let dir = disk.open();
    let log = disk.log(&dir);
    disk.fs.hold_syncs();
    for _ in 0..3 {
        append_records(&log, 1, 150);
    }
    // The background thread seals the first segment, for as long as the sync is held.
    disk.fs.wait_for_held_syncs(1);
    let checkpoints = Fault::new(SimOperation::Rename, Failure::Io).in_path("recovery-point");
    disk.fs.inject(checkpoints.after(10));
    let mut starts = Vec::new();
    for _ in 0..100 {
        // It needs no sync: that would be held, too.
        starts.push(log.delete_records_before(Offset(0)));
        // Each in a turn of the writer of its own.
        append_records(&log, 1, 10);
    }
    disk.fs.release_syncs();
    for start in starts {
        assert_eq!(start.wait().expect("few checkpoints are written"), Offset(0));
    }
}

#[test]
fn a_checkpoint_that_fails_says_that_the_disk_has_failed() {
    let disk = TestDisk::new(1);
    let (told, tellings) = channel();
    let told = Mutex::new(told);
    let listener = move |error: &LogError| {
        let told = told.lock().expect("nobody panics");
        // The test has ended.
        let _ = told.send(error.to_string());
    };
    let options = LogDirOptions { failure_listener: Some(Arc::new(listener)), ..disk.options() };
    let dir = LogDir::open(options, disk.metrics.clone()).expect("opens");
    disk.fs.inject(Fault::new(SimOperation::Write, Failure::Io).in_path("offset-checkpoint"));
    dir.enforce_retention().wait().expect_err("no checkpoint can be written");
    let error = tellings.recv_timeout(Duration::from_secs(20)).expect("is told");
    assert!(error.contains("offset-checkpoint"), "{error}");
}
