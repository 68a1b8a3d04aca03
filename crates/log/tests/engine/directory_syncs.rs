//! Syncs of directories that fail: names that may never be on the disk.

use std::sync::Arc;

use logway_log::fs::Fs;
use logway_log::fs::sim::{Failure, Fault, SimOperation};
use logway_log::{Finding, Log, LogConfig, LogDir, LogError, NewLog};
use logway_model::Offset;

use crate::support::*;

/// A fault of the next sync of a log's directory.
fn directory_fails_once() -> Fault {
    Fault::new(SimOperation::SyncDir, Failure::Io).in_path("t-0").times(1)
}

/// A log of two segments; the sync of the second one's name has failed.
fn sealed_with_failed_sync(seed: u64) -> (TestDisk, LogDir, Arc<Log>) {
    // Not synced, so that the sealing is the first to sync the name of the second segment.
    let config = LogConfig { segment_bytes: 4096, ..not_durable() };
    let disk = TestDisk::new(seed).with_config(config);
    let dir = disk.open();
    let log = disk.log(&dir);
    disk.fs.inject(directory_fails_once());
    append_records(&log, 1, 3000);
    append_records(&log, 1, 3000);
    // The checkpoint comes after the sealing.
    log.delete_records_before(Offset(0)).wait().expect("the disk works again");
    (disk, dir, log)
}

#[test]
fn a_failed_sync_of_the_directory_in_a_sealing_poisons_the_log() {
    for seed in 0..20 {
        let (disk, _dir, log) = sealed_with_failed_sync(seed);
        let Err(error) = log.flush().wait() else {
            let disk = disk.crash();
            let end = disk.log(&disk.open()).log_end_offset();
            panic!("seed {seed}: what is said to be flushed ends at {end} after a power cut");
        };
        assert!(matches!(error, LogError::Poisoned { .. }), "seed {seed}: {error}");
    }
}

#[test]
fn a_failed_sync_of_the_directory_in_a_checkpoint_poisons_the_log() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let (log, other) = (disk.log_of(&dir, 0), disk.log_of(&dir, 1));
    append_records(&log, 1, 10);
    append_records(&other, 1, 10);
    disk.fs.inject(directory_fails_once());
    // For this log, the checkpoint does without the leader epochs and the recovery point.
    log.delete_records_before(Offset(1)).wait().expect("the log start can be written");
    let error = append(&log, batch(1, 10)).expect_err("names in the directory may be lost");
    assert!(matches!(error, LogError::Poisoned { .. }), "{error}");
    append_records(&other, 1, 10);
    let disk = disk.crash();
    drop((log, other, dir));
    let dir = disk.open();
    assert!(dir.recovery_report().findings.is_empty(), "{:?}", dir.recovery_report());
    let ends = [0, 1].map(|number| disk.log_of(&dir, number).log_end_offset());
    assert_eq!(ends, [Offset(1), Offset(2)]);
}

#[test]
fn a_log_whose_name_could_not_be_synced_is_made_anew() {
    // The sync of the log's own directory fails, or that of the one that it is in.
    for (seed, passes) in (0..20).flat_map(|seed| [(seed, 0), (seed, 1)]) {
        let disk = TestDisk::new(seed);
        let dir = disk.open();
        let fault = Fault::new(SimOperation::SyncDir, Failure::Io).in_path("/data");
        disk.fs.inject(fault.after(passes).times(1));
        let config = Arc::new(disk.config.clone());
        let new = NewLog { partition: partition(0), topic_id: topic_id(), config };
        let created = dir.create_logs(std::slice::from_ref(&new)).remove(0);
        created.expect_err("a directory could not be synced");
        let log = dir.try_again(&new).expect("the disk works again");
        append_records(&log, 1, 10);
        let disk = disk.crash();
        drop((log, dir));
        let dir = disk.open();
        let log = dir.log(&partition(0));
        let log = log.unwrap_or_else(|| panic!("seed {seed}: what was acknowledged is gone"));
        assert_eq!(log.log_end_offset(), Offset(1), "seed {seed}");
    }
}

/// A log whose second segment's name was lost by a failed sync, opened again without a power cut.
fn reopened_after_failed_sync(seed: u64) -> (TestDisk, LogDir) {
    let (disk, dir, log) = sealed_with_failed_sync(seed);
    log.flush().wait().expect_err("the log is poisoned");
    drop((log, dir));
    let dir = disk.open();
    (disk, dir)
}

#[test]
fn a_log_that_is_opened_after_a_failed_sync_of_its_directory_keeps_what_comes_then() {
    for seed in 0..20 {
        let (disk, dir) = reopened_after_failed_sync(seed);
        let log = disk.log(&dir);
        append_records(&log, 1, 10);
        assert_eq!(log.flush().wait().expect("is cured"), Offset(3), "seed {seed}");
        let disk = disk.crash();
        drop((log, dir));
        let dir = disk.open();
        assert!(dir.recovery_report().findings.is_empty(), "seed {seed}");
        assert_eq!(disk.log(&dir).log_end_offset(), Offset(3), "seed {seed}");
    }
}

/// The machine stops at each point of the start that makes the names again.
#[test]
fn a_crash_while_names_are_made_again_loses_none() {
    for seed in 0..3 {
        for crash_at in 1.. {
            let config = LogConfig { segment_bytes: 4096, ..not_durable() };
            let disk = TestDisk::new(seed).with_config(config);
            let dir = disk.open();
            let log = disk.log(&dir);
            append_records(&log, 1, 3000);
            log.flush().wait().expect("is on the disk");
            disk.fs.inject(directory_fails_once());
            append_records(&log, 1, 3000);
            log.delete_records_before(Offset(0)).wait().expect("the disk works again");
            log.flush().wait().expect_err("the log is poisoned");
            drop((log, dir));
            disk.fs.crash_at_change(crash_at);
            let opened = disk.try_open();
            let has_crashed = disk.fs.has_crashed();
            drop(opened);
            let disk = disk.crash();
            let dir = disk.open();
            let log = disk.log(&dir);
            assert!(log.log_end_offset() >= Offset(1), "seed {seed}, change {crash_at}");
            let found = &dir.recovery_report().findings;
            let is_lost = |finding: &Finding| {
                matches!(finding, Finding::Missing { .. } | Finding::Corruption { .. })
            };
            assert!(!found.iter().any(is_lost), "seed {seed}, change {crash_at}: {found:?}");
            if !has_crashed {
                break;
            }
        }
    }
}

/// The checkpoint's own names are made again with the next one; those of a log that is made
/// meanwhile are not.
#[test]
fn a_log_that_is_made_while_another_sync_of_its_parent_fails_is_made_anew() {
    for seed in 0..20 {
        let disk = TestDisk::new(seed);
        let dir = disk.open();
        let first = disk.log_of(&dir, 1);
        append_records(&first, 2, 10);
        // The names of the new log are made, and it waits for the sync of the first one's checkpoint.
        let new = NewLog {
            partition: partition(0),
            topic_id: topic_id(),
            config: Arc::new(disk.config.clone()),
        };
        disk.fs.hold_renames_in("log-start-offset-checkpoint");
        let moved = first.delete_records_before(Offset(1));
        disk.fs.wait_for_held_renames(1);
        let created = std::thread::scope(|scope| {
            let creating = scope.spawn(|| dir.create_logs(std::slice::from_ref(&new)).remove(0));
            until_written(&disk, "t-0/partition.metadata");
            disk.fs
                .inject(Fault::new(SimOperation::SyncDir, Failure::Io).in_path("/data").times(1));
            disk.fs.release_renames();
            creating.join().expect("no panic")
        });
        // It is the checkpoint's sync that fails, but for the one of the new log's own directory.
        let _ = moved.wait();
        let log = created.or_else(|_| dir.try_again(&new)).expect("the disk works again");
        append_records(&log, 1, 10);
        let disk = disk.crash();
        drop((first, log, dir));
        let dir = disk.open();
        let log = dir.log(&partition(0));
        let log = log.unwrap_or_else(|| panic!("seed {seed}: what was acknowledged is gone"));
        assert_eq!(log.log_end_offset(), Offset(1), "seed {seed}");
    }
}

fn until_written(disk: &TestDisk, path: &str) {
    let path = std::path::Path::new("/data").join(path);
    while !disk.fs.exists(&path).expect("can be looked for") {
        std::thread::yield_now();
    }
}

/// A sealing fails to sync the directory after the writer has made a name in it, and before the writer
/// syncs that name itself: its sync succeeds, as the kernel has told of the failure.
#[test]
fn a_name_is_not_durable_by_a_sync_behind_one_that_failed_on_another_thread() {
    for seed in 0..20 {
        let config = LogConfig { segment_bytes: 4096, ..LogConfig::default() };
        let disk = TestDisk::new(seed).with_config(config);
        let dir = disk.open();
        let log = disk.log(&dir);
        append_records(&log, 1, 3000);
        disk.fs.hold_renames_in("snapshot");
        append_records(&log, 1, 3000);
        disk.fs.wait_for_held_renames(1);

        let last = log.append(append_of(batch(1, 3000)));
        while !disk.fs.exists(&segment_path(2)).expect("the disk works") {
            std::thread::yield_now();
        }
        disk.fs.inject(directory_fails_once().on_thread("log-background"));
        disk.fs.release_renames();
        let answer = last.wait();
        let disk = disk.crash();
        drop((log, dir));
        let end = disk.log(&disk.open()).log_end_offset();
        let error = answer.err().unwrap_or_else(|| {
            panic!("seed {seed}: 3 records were acknowledged, the log ends at {end}")
        });
        assert!(matches!(error, LogError::Poisoned { .. }), "seed {seed}: {error}");
        assert!(end >= Offset(2), "seed {seed}");
    }
}

/// The process is killed at each change of the disk while it makes the log directory and a log in it; the
/// next one goes on with what it finds, and the power fails.
#[test]
fn what_a_killed_process_has_made_is_on_the_disk_when_the_next_one_uses_it() {
    for (seed, records) in (0..3).flat_map(|seed| [(seed, 0), (seed, 1)]) {
        for change in 1.. {
            let disk = TestDisk::new(seed * 1000 + change);
            disk.fs.crash_at_change(change);
            let config = Arc::new(disk.config.clone());
            let made = disk
                .try_open()
                .and_then(|dir| dir.create_log(partition(0), topic_id(), config).map(|_| dir));
            if made.is_ok() && !disk.fs.has_crashed() {
                break;
            }
            drop(made);
            let disk = disk.kill();
            let dir = disk.open();
            let log = disk.log(&dir);
            (0..records).for_each(|_| _ = append_records(&log, 1, 10));
            dir.enforce_retention().wait().expect("the disk works");
            let disk = disk.crash();
            drop((log, dir));
            let dir = disk.open();
            let report = dir.recovery_report();
            let is_sound = report.failed.is_empty() && report.findings.is_empty();
            assert!(is_sound, "seed {seed}, change {change}: {report:?}");
            let log = dir.log(&partition(0));
            let end = log.map_or(Offset(-1), |log| log.log_end_offset());
            assert_eq!(end, Offset(records), "seed {seed}, change {change}");
        }
    }
}
