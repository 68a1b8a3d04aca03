//! Records and logs that go: retention, DeleteRecords, deleted topics.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use logway_log::fs::sim::{Failure, Fault, SimOperation};
use logway_log::fs::{Fs, OpenMode};
use logway_log::{CleanupPolicy, Log, LogConfig, LogDir, LogError, NewLog};
use logway_model::{Offset, TopicId, Uuid};

use crate::support::*;

/// Removes files at once, so that tests can see them go.
fn no_delay(config: LogConfig) -> LogConfig {
    LogConfig { file_delete_delay_ms: 0, ..config }
}

/// Lets the background thread of a directory do what it was told: what is sent before a
/// DeleteRecords is done before its answer.
fn settle(log: &logway_log::Log) {
    log.delete_records_before(log.log_start_offset()).wait().expect("the checkpoint is written");
}

#[test]
fn delete_records_moves_the_start_and_deletes_whole_segments() {
    let disk = TestDisk::new(1).with_config(small_segments());
    let dir = disk.open();
    let log = disk.log(&dir);
    for _ in 0..30 {
        append_records(&log, 2, 300);
    }
    let segments = log.segment_count();
    let start = log.delete_records_before(Offset(35)).wait().expect("the offset is in the log");
    assert_eq!((start, log.log_start_offset()), (Offset(35), Offset(35)));
    assert!(log.segment_count() < segments);
    assert_eq!(read_records(&log, Offset(35)).len(), 25);
    let error = log.read(everything_from(Offset(34))).expect_err("it is deleted");
    assert!(matches!(error, LogError::OffsetOutOfRange { start: Offset(35), .. }), "{error}");

    let start = log.delete_records_before(Offset(10)).wait().expect("it is deleted already");
    assert_eq!(start, Offset(35));
    let error = log.delete_records_before(Offset(61)).wait().expect_err("it is after the end");
    assert!(matches!(error, LogError::OffsetOutOfRange { end: Offset(60), .. }), "{error}");

    let start = log.delete_records_before(Offset(60)).wait().expect("the end is in the log");
    assert_eq!(start, Offset(60));
    assert!(log.read(everything_from(Offset(60))).expect("the end is in the log").is_empty());
    assert_eq!(append_records(&log, 1, 10), Offset(60));
}

#[test]
fn an_answered_delete_records_survives_a_power_cut() {
    for seed in 0..20 {
        let disk = TestDisk::new(seed).with_config(small_segments());
        let dir = disk.open();
        let log = disk.log(&dir);
        for _ in 0..20 {
            append_records(&log, 2, 300);
        }
        log.delete_records_before(Offset(21)).wait().expect("the offset is in the log");
        let disk = disk.crash();
        drop(dir);
        let dir = disk.open();
        let log = disk.log(&dir);
        assert_eq!(log.log_start_offset(), Offset(21), "seed {seed}");
        assert_eq!(read_records(&log, Offset(21)).len(), 19, "seed {seed}");
    }
}

#[test]
fn the_files_of_deleted_segments_go_after_a_while() {
    let disk = TestDisk::new(1).with_config(small_segments());
    let dir = disk.open();
    let log = disk.log(&dir);
    for _ in 0..30 {
        append_records(&log, 2, 300);
    }
    // A read that is under way when the segment goes.
    let slice = log.read(everything_from(Offset(0))).expect("the offset is in the log");
    log.delete_records_before(Offset(59)).wait().expect("the offset is in the log");
    settle(&log);
    let names = names_in(&disk.fs, "/data/t-0");
    assert!(names.iter().any(|name| name == "00000000000000000000.log.deleted"), "{names:?}");
    assert!(slice.read().is_ok());
    drop(dir);
    let dir = disk.open();
    let names = names_in(&disk.fs, "/data/t-0");
    assert!(!names.iter().any(|name| name.ends_with(".deleted")), "{names:?}");
    assert_eq!(read_records(&disk.log(&dir), Offset(59)).len(), 1);
}

#[test]
fn retention_by_time_deletes_what_is_older() {
    let config = LogConfig { retention_ms: Some(1000), ..no_delay(small_segments()) };
    let disk = TestDisk::new(1).with_config(config);
    let dir = disk.open();
    let log = disk.log(&dir);
    for index in 0..30 {
        append(&log, batch_at(&[NOW_MS + index * 100], 1000)).expect("the append succeeds");
    }
    dir.enforce_retention().wait().expect("the writer lives");
    assert_eq!(log.log_start_offset(), Offset(0), "nothing is older than a second");
    disk.clock.advance(2500);
    dir.enforce_retention().wait().expect("the writer lives");
    let start = log.log_start_offset();
    assert!((Offset(10)..=Offset(15)).contains(&start), "{start}");
    let oldest = read_records(&log, start);
    assert!(oldest.iter().any(|record| record.timestamp.0 >= NOW_MS + 1500));

    disk.clock.advance(100_000);
    dir.enforce_retention().wait().expect("the writer lives");
    assert_eq!((log.log_start_offset(), log.log_end_offset()), (Offset(30), Offset(30)));
    assert_eq!((log.segment_count(), log.size_bytes()), (1, 0));
    assert_eq!(append_records(&log, 1, 10), Offset(30));
}

#[test]
fn retention_by_size_keeps_at_least_the_limit() {
    let config = LogConfig { retention_bytes: Some(10_000), ..small_segments() };
    let disk = TestDisk::new(1).with_config(config);
    let dir = disk.open();
    let log = disk.log(&dir);
    for _ in 0..30 {
        append_records(&log, 1, 1000);
    }
    dir.enforce_retention().wait().expect("the writer lives");
    let size_bytes = log.size_bytes();
    assert!((10_000..10_000 + 4096).contains(&size_bytes), "{size_bytes}");
    assert_eq!(log.log_end_offset(), Offset(30));
}

#[test]
fn compaction_alone_and_no_limit_delete_nothing() {
    let compacted = LogConfig { cleanup: CleanupPolicy::Compact, ..small_segments() };
    let unlimited = LogConfig { retention_ms: None, ..small_segments() };
    for config in [compacted, unlimited] {
        let disk = TestDisk::new(1).with_config(config);
        let dir = disk.open();
        let log = disk.log(&dir);
        for _ in 0..10 {
            append_records(&log, 1, 1000);
        }
        disk.clock.advance(i64::MAX / 2);
        dir.enforce_retention().wait().expect("the writer lives");
        assert_eq!(log.log_start_offset(), Offset(0));
    }
}

#[test]
fn retention_does_not_touch_what_is_not_flushed() {
    let config = LogConfig { retention_ms: Some(1), segment_bytes: 2000, ..not_durable() };
    let disk = TestDisk::new(1).with_config(config);
    let dir = disk.open();
    let log = disk.log(&dir);
    disk.fs.hold_syncs();
    for _ in 0..5 {
        append_records(&log, 1, 1000);
    }
    disk.clock.advance(1000);
    let retention = dir.enforce_retention();
    // It is done when the second of two appends is: that one came in a later round.
    append_records(&log, 1, 1000);
    append_records(&log, 1, 1000);
    assert_eq!(log.log_start_offset(), Offset(0));
    disk.fs.release_syncs();
    retention.wait().expect("the writer lives");
    log.flush().wait().expect("the flush succeeds");
    dir.enforce_retention().wait().expect("the writer lives");
    assert_eq!(log.log_start_offset(), Offset(7));
}

#[test]
fn a_quiet_log_rolls_by_the_clock() {
    let config = LogConfig { segment_ms: 1000, ..LogConfig::default() };
    let disk = TestDisk::new(1).with_config(config);
    let dir = disk.open();
    let log = disk.log(&dir);
    append_records(&log, 1, 10);
    disk.clock.advance(1001);
    dir.enforce_retention().wait().expect("the writer lives");
    assert_eq!(log.segment_count(), 2);
    disk.clock.advance(1001);
    dir.enforce_retention().wait().expect("the writer lives");
    assert_eq!(log.segment_count(), 2, "an empty segment is not rolled");
}

#[test]
fn a_deleted_log_is_gone_and_can_be_made_again() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    append_records(&log, 5, 10);
    let slice = log.read(everything_from(Offset(0))).expect("the offset is in the log");
    dir.delete_log(&partition(0)).expect("it is deleted");
    assert!(dir.log(&partition(0)).is_none());
    assert!(slice.read().is_ok(), "what was found stays readable");
    let error = append(&log, batch(1, 10)).expect_err("the log is deleted");
    assert!(matches!(error, LogError::Closed { .. }), "{error}");
    dir.delete_log(&partition(0)).expect("there is none");

    let new_log = disk.log(&dir);
    assert_eq!(append_records(&new_log, 1, 10), Offset(0));
    let condemned = |disk: &TestDisk| {
        names_in(&disk.fs, "/data").iter().filter(|name| name.ends_with("-delete")).count()
    };
    assert_eq!(condemned(&disk), 1);
    dir.close().expect("it closes");
    let dir = disk.open();
    assert_eq!(disk.log(&dir).log_end_offset(), Offset(1));
    dir.close().expect("it closes");
    assert_eq!(condemned(&disk), 0, "the next start removes what was left");
}

#[test]
fn the_removal_of_old_segments_does_not_hit_a_log_made_again() {
    let disk = TestDisk::new(1).with_config(small_segments());
    let dir = disk.open();
    let [log, slow, other] = [0, 1, 2].map(|number| disk.log_of(&dir, number));
    for _ in 0..3 {
        append_records(&log, 1, 3000);
        append_records(&slow, 1, 3000);
    }
    // While one checkpoint is being written, old segments of two logs and the deletion of one of
    // them gather for the next.
    disk.fs.hold_syncs_in("log-start-offset");
    let checkpoint = other.delete_records_before(Offset(0));
    disk.fs.wait_for_held_syncs(1);
    let starts = [&slow, &log].map(|log| log.delete_records_before(Offset(3)));
    disk.fs.hold_renames_in("t-1/");
    thread::scope(|scope| {
        let made_again = scope.spawn(|| {
            dir.delete_log(&partition(0)).expect("it is deleted");
            append_records(&disk.log(&dir), 5, 10);
        });
        // Until the writer has let go of it.
        while append(&log, batch(1, 10)).is_ok() {}
        disk.fs.release_syncs();
        // The old segments of the one log are being renamed, those of the other come next.
        disk.fs.wait_for_held_renames(1);
        // If nobody waits for that, the new log is made long before this is done.
        for _ in 0..2000 {
            append_records(&other, 1, 10);
        }
        disk.fs.release_renames();
        made_again.join().expect("it is made again");
    });
    checkpoint.wait().expect("the disk works");
    for start in starts {
        assert_eq!(start.wait().expect("the disk works"), Offset(3));
    }
    settle(&other);
    let names = names_in(&disk.fs, "/data/t-0");
    assert!(names.iter().any(|name| name == "00000000000000000000.log"), "{names:?}");
    drop(dir);
    assert_eq!(read_records(&disk.log(&disk.open()), Offset(0)).len(), 5);
}

#[test]
fn a_log_made_again_does_not_inherit_checkpoints() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    append_records(&log, 50, 10);
    dir.close().expect("it closes");
    let dir = disk.open();
    let log = disk.log(&dir);
    log.delete_records_before(Offset(40)).wait().expect("the offset is in the log");
    dir.delete_log(&partition(0)).expect("it is deleted");
    let log = disk.log(&dir);
    append_records(&log, 3, 10);
    let disk = disk.crash();
    drop(dir);
    let dir = disk.open();
    let report = dir.recovery_report();
    assert!(report.findings.is_empty(), "{report:?}");
    let log = disk.log(&dir);
    assert_eq!((log.log_start_offset(), log.log_end_offset()), (Offset(0), Offset(3)));
}

#[test]
fn a_power_cut_within_a_deletion_is_not_taken_for_a_loss() {
    for change in 1.. {
        let disk = closed_log_of_60_records();
        let dir = disk.open();
        let log = disk.log(&dir);
        log.delete_records_before(Offset(31)).wait().expect("the offset is in the log");
        settle(&log);
        disk.fs.crash_at_change(change);
        let deleted = dir.delete_log(&partition(0));
        let disk = disk.crash();
        drop(dir);
        let dir = disk.open();
        let report = dir.recovery_report();
        assert!(report.findings.is_empty(), "change {change}: {report:?}");
        if deleted.is_ok() {
            return;
        }
    }
}

/// Of the files of a segment that was deleted, a crash has left an index.
#[test]
fn a_power_cut_within_a_deletion_does_not_miss_a_segment_that_was_half_deleted() {
    for change in 1.. {
        let disk = closed_log_of_60_records();
        let dir = disk.open();
        let log = disk.log(&dir);
        log.delete_records_before(Offset(31)).wait().expect("the offset is in the log");
        settle(&log);
        let disk = disk.kill();
        drop((log, dir));
        let index = segment_path(0).with_extension("timeindex");
        disk.fs.open(&index, OpenMode::CreateNew).expect("the disk works");
        let dir = disk.open();
        disk.fs.crash_at_change(change);
        let deleted = dir.delete_log(&partition(0));
        let disk = disk.crash();
        drop(dir);
        let dir = disk.open();
        let report = dir.recovery_report();
        assert!(report.findings.is_empty(), "change {change}: {report:?}");
        if deleted.is_ok() {
            return;
        }
    }
}

/// A start removes segments because of a log start that a killed process has written down.
#[test]
fn a_power_cut_in_the_start_after_a_kill_within_a_deletion_of_records_is_not_taken_for_a_loss() {
    for (change, cut) in (1..12).flat_map(|change| (1..25).map(move |cut| (change, cut))) {
        let disk = closed_log_on(TestDisk::new(100 * change + cut));
        let dir = disk.open();
        let log = disk.log(&dir);
        disk.fs.crash_at_change(change);
        let _ = log.delete_records_before(Offset(31)).wait();
        let disk = disk.kill();
        drop((log, dir));
        disk.fs.crash_at_change(cut);
        let _ = disk.try_open();
        let disk = disk.crash();
        let dir = disk.open();
        let report = dir.recovery_report();
        assert!(report.findings.is_empty(), "change {change}, cut {cut}: {report:?}");
    }
}

#[test]
fn the_files_of_a_deleted_log_are_removed_by_the_background_thread() {
    let disk = TestDisk::new(1).with_config(no_delay(LogConfig::default()));
    let dir = disk.open();
    let (doomed, other) = (disk.log_of(&dir, 0), disk.log_of(&dir, 1));
    append_records(&doomed, 5, 10);
    dir.delete_log(&partition(0)).expect("it is deleted");
    // Each answer comes after the jobs before it; a file that is due goes after the next job.
    settle(&other);
    settle(&other);
    let names = names_in(&disk.fs, "/data");
    assert!(!names.iter().any(|name| name.ends_with("-delete")), "{names:?}");
}

#[test]
fn the_files_of_deleted_records_stay_until_the_new_log_start_is_written_down() {
    for has_crashed in [false, true] {
        fail_to_write_down_a_log_start(has_crashed);
    }
}

fn fail_to_write_down_a_log_start(has_crashed: bool) {
    let disk = TestDisk::new(1).with_config(no_delay(small_segments()));
    let dir = disk.open();
    let log = disk.log(&dir);
    for _ in 0..30 {
        append_records(&log, 2, 300);
    }
    let names = names_in(&disk.fs, "/data/t-0");
    let no_checkpoint = Fault::new(SimOperation::Write, Failure::Io).in_path("log-start-offset");
    disk.fs.inject(no_checkpoint);
    log.delete_records_before(Offset(59)).wait().expect_err("it cannot be written down");
    // One that fails, too, so that what the first one left is done.
    log.delete_records_before(Offset(59)).wait().expect_err("it cannot be written down");
    let left = names_in(&disk.fs, "/data/t-0");
    let is_left = |name: &&String| name.ends_with(".log") && !left.contains(name);
    assert_eq!(names.iter().find(is_left), None, "{left:?}");

    if !has_crashed {
        disk.fs.heal();
        settle(&log);
        settle(&log);
        let left = names_in(&disk.fs, "/data/t-0");
        assert!(!left.iter().any(|name| name == "00000000000000000000.log"), "{left:?}");
        return;
    }
    let disk = disk.crash();
    drop(dir);
    let dir = disk.open();
    let report = dir.recovery_report();
    assert!(report.findings.is_empty(), "{report:?}");
    let log = disk.log(&dir);
    assert_eq!(log.log_start_offset(), Offset(0));
    assert_eq!(read_records(&log, Offset(0)).len(), 60);
}

#[test]
fn no_log_is_made_in_place_of_one_that_the_checkpoints_still_speak_of() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    append_records(&log, 50, 10);
    log.delete_records_before(Offset(40)).wait().expect("the offset is in the log");
    let no_checkpoint = Fault::new(SimOperation::Write, Failure::Io).in_path("log-start-offset");
    disk.fs.inject(no_checkpoint);
    dir.delete_log(&partition(0)).expect_err("it is still in the checkpoints");
    assert!(dir.log(&partition(0)).is_none());
    let config = Arc::new(disk.config.clone());
    let new = NewLog { partition: partition(0), topic_id: TopicId(Uuid([8; 16])), config };
    dir.try_again(&new).expect_err("it is still in the checkpoints");

    disk.fs.heal();
    dir.create_logs(std::slice::from_ref(&new))[0].as_ref().expect_err("nobody has tried again");
    let log = dir.try_again(&new).expect("the old one is gone");
    assert_eq!(append_records(&log, 3, 10), Offset(0));
    let disk = disk.crash();
    drop(dir);
    let dir = disk.open();
    let report = dir.recovery_report();
    assert!(report.findings.is_empty() && report.failed.is_empty(), "{report:?}");
    let log = dir.log(&partition(0)).expect("it is there");
    assert_eq!((log.log_start_offset(), log.log_end_offset()), (Offset(0), Offset(3)));
}

#[test]
fn leader_epochs_that_a_checkpoint_could_not_save_are_saved_by_the_close() {
    for round in 0..50 {
        let disk = TestDisk::new(round);
        let dir = disk.open();
        append_records(&disk.log(&dir), 5, 10);
        let fault = Fault::new(SimOperation::Write, Failure::Io).in_path("leader-epoch").times(1);
        disk.fs.inject(fault);
        // The checkpoint that comes of it fails while the directory closes, or just before.
        let retention = dir.enforce_retention();
        dir.close().expect("the disk works again");
        drop(retention);
        let dir = disk.open();
        assert!(dir.recovery_report().was_clean);
        assert_eq!(disk.log(&dir).latest_epoch(), EPOCH, "round {round}");
    }
}

/// Long enough for the background thread to look at the disk, and far less than `file.delete.delay.ms`.
const SOON: Duration = Duration::from_secs(10);

/// Appends again and again, as a producer does whose append is refused for want of space, until one
/// is taken.
fn append_until_taken(log: &Log) {
    let began = Instant::now();
    loop {
        match append(log, batch(1, 1000)) {
            Ok(_) => return,
            Err(error) => assert!(error.is_disk_full(), "{error}"),
        }
        assert!(began.elapsed() < SOON, "there is still no space");
        thread::sleep(Duration::from_millis(1));
    }
}

/// A full disk, with a log that takes most of it and one that somebody wants to append to. The delays
/// are the default ones.
fn full_disk_with_two_logs(config: LogConfig) -> (TestDisk, LogDir, Arc<Log>, Arc<Log>) {
    let disk = TestDisk::new(1).with_config(config);
    let dir = disk.open();
    let (large, other) = (disk.log_of(&dir, 0), disk.log_of(&dir, 1));
    for _ in 0..5 {
        append(&large, batch(1, 1 << 20)).expect("there is space");
    }
    append_records(&other, 1, 10);
    disk.leave_free(1 << 20);
    // What was free before is believed for a moment.
    let began = Instant::now();
    let error = loop {
        match append(&other, batch(1, 1000)) {
            Err(error) => break error,
            Ok(_) => assert!(began.elapsed() < SOON, "the disk is full"),
        }
    };
    assert!(error.is_disk_full(), "{error}");
    (disk, dir, large, other)
}

#[test]
fn a_log_that_is_deleted_on_a_full_disk_gives_its_space_back_at_once() {
    let (_disk, dir, large, other) = full_disk_with_two_logs(LogConfig::default());
    let partition = large.topic_partition().clone();
    drop(large);
    dir.delete_log(&partition).expect("there is space for that");
    append_until_taken(&other);
}

#[test]
fn deleted_records_give_their_space_back_at_once_also_if_they_are_all_in_the_last_segment() {
    let (_disk, _dir, large, other) = full_disk_with_two_logs(LogConfig::default());
    let end = large.log_end_offset();
    large.delete_records_before(end).wait().expect("there is space for that");
    assert_eq!((large.segment_count(), large.size_bytes()), (1, 0));
    append_until_taken(&other);
    assert_eq!(append_records(&large, 1, 10), end);
}

#[test]
fn retention_that_is_lowered_on_a_full_disk_makes_room_before_its_next_turn() {
    let forever = LogConfig { retention_ms: None, ..LogConfig::default() };
    let (disk, _dir, large, other) = full_disk_with_two_logs(forever);
    disk.clock.advance(60_000);
    large.set_config(Arc::new(LogConfig { retention_ms: Some(1000), ..LogConfig::default() }));
    append_until_taken(&other);
    assert_eq!(large.size_bytes(), 0);
}

#[test]
fn what_was_deleted_before_the_disk_was_full_goes_when_it_is() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let (large, other) = (disk.log_of(&dir, 0), disk.log_of(&dir, 1));
    // More than appends leave free on a disk.
    for _ in 0..5 {
        append(&large, batch(1, 1 << 20)).expect("there is space");
    }
    let partition = large.topic_partition().clone();
    drop(large);
    dir.delete_log(&partition).expect("the disk works");
    let is_kept = || names_in(&disk.fs, "/data").iter().any(|name| name.ends_with("-delete"));
    assert!(is_kept(), "there is space, so the files stay for a while");
    disk.leave_free(1 << 20);
    // Also if nobody appends here: others may need the space.
    let began = Instant::now();
    while is_kept() {
        assert!(began.elapsed() < SOON, "it is still there");
        thread::sleep(Duration::from_millis(1));
    }
    append_until_taken(&other);
}

/// A full disk keeps the lists of segments as they are. Then the checkpoints go on speaking of the log as well: a
/// start that finds a list and no log start would take deleted segments for lost ones.
#[test]
fn a_deletion_that_a_full_disk_stops_misses_nothing_after_a_power_cut() {
    for has_stopped in [false, true] {
        let disk = TestDisk::new(1).with_config(no_delay(small_segments()));
        let dir = disk.open();
        let log = disk.log(&dir);
        (0..20).for_each(|_| _ = append_records(&log, 2, 300));
        drop(log);
        dir.close().expect("it closes");
        // The list of this start has all segments.
        let dir = disk.open();
        let log = disk.log(&dir);
        log.delete_records_before(Offset(39)).wait().expect("the offset is in the log");
        settle(&log);
        let fault = Fault::new(SimOperation::Write, Failure::NoSpace).in_path("segment-lists");
        disk.fs.inject(fault.times(1));
        dir.delete_logs(&[partition(0)]).expect_err("its list stays");
        if has_stopped {
            dir.close().expect("it closes");
        }
        let disk = disk.crash();
        let dir = disk.open();
        let report = dir.recovery_report();
        assert!(report.failed.is_empty() && report.findings.is_empty(), "{report:?}");
        let log = disk.log(&dir);
        assert_eq!((log.log_start_offset(), log.log_end_offset()), (Offset(39), Offset(40)));
        dir.delete_logs(&[partition(0)]).expect("it is deleted");
    }
}
