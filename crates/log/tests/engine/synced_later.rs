//! Starts after a crash that leave the sync of a log's end to others.

use std::sync::Arc;

use logway_log::fs::sim::{Failure, Fault, SimOperation};
use logway_log::{Finding, Log, LogConfig, LogDir};
use logway_model::{LeaderEpoch, Offset};

use crate::support::*;

/// A log to which so much was appended without a sync before its process was killed, and which is open again.
fn reopened(seed: u64, config: LogConfig) -> (TestDisk, LogDir, Arc<Log>) {
    let disk = TestDisk { sync_later_bytes: 1, ..TestDisk::new(seed).with_config(not_durable()) };
    let dir = disk.open();
    let log = disk.log(&dir);
    append_records(&log, 5, 100);
    log.flush().wait().expect("the disk works");
    append_records(&log, 20, 100);
    let disk = disk.kill().with_config(config);
    drop((log, dir));
    let dir = disk.open();
    let log = disk.log(&dir);
    (disk, dir, log)
}

/// What a power cut took is cut off, and nothing counts as damage.
fn check_findings(dir: &LogDir) {
    let is_cut = |finding: &Finding| {
        matches!(finding, Finding::TailTruncated { .. } | Finding::SegmentRemoved { .. })
    };
    let report = dir.recovery_report();
    assert!(report.failed.is_empty() && report.findings.iter().all(is_cut), "{report:?}");
}

#[test]
fn a_log_without_syncs_is_open_before_all_of_it_is_on_the_disk() {
    let mut was_lost = false;
    for seed in 0..20 {
        let (disk, dir, log) = reopened(seed, not_durable());
        let (start, end) = (log.flushed_offset(), log.log_end_offset());
        assert!(start < end, "nobody has asked for a sync");
        assert_eq!(read_records(&log, Offset(0)).len(), 25);
        append_records(&log, 1, 100);
        let disk = disk.crash();
        drop((log, dir));
        let dir = disk.open();
        check_findings(&dir);
        let log = disk.log(&dir);
        assert!(log.log_end_offset() >= start);
        read_records(&log, Offset(0));
        was_lost |= log.log_end_offset() < end;
    }
    assert!(was_lost, "a power cut takes what is not synced, now and then");
}

#[test]
fn a_log_with_syncs_is_shown_when_all_of_it_is_on_the_disk() {
    for seed in 0..20 {
        let (disk, dir, log) = reopened(seed, LogConfig::default());
        let end = log.log_end_offset();
        assert_eq!(log.flushed_offset(), end);
        let disk = disk.crash();
        drop((log, dir));
        let dir = disk.open();
        check_findings(&dir);
        assert_eq!(disk.log(&dir).log_end_offset(), end, "seed {seed}");
    }
}

/// A log that starts anew at another offset has nothing but the name of its empty segment to say so, and
/// the process is killed before the name is on the disk. A start that goes by it makes that sure.
#[test]
fn where_a_log_starts_anew_is_on_the_disk_before_a_start_goes_by_it() {
    for change in 1.. {
        let disk = TestDisk { sync_later_bytes: 0, ..TestDisk::new(change) };
        let dir = disk.open();
        let log = disk.log(&dir);
        // From here on a checkpoint knows the log.
        dir.enforce_retention().wait().expect("a checkpoint is written");
        disk.fs.crash_at_change(change);
        let is_done = dir.truncate_fully_and_start_at(&log, Offset(100), LeaderEpoch(7)).is_ok();
        drop((log, dir));
        let disk = disk.kill();
        let dir = disk.open();
        check_findings(&dir);
        let end = disk.log(&dir).log_end_offset();
        drop(dir);
        let disk = disk.crash();
        let dir = disk.open();
        check_findings(&dir);
        let log = disk.log(&dir);
        assert_eq!((log.log_start_offset(), log.log_end_offset()), (end, end), "{change}");
        if is_done {
            return;
        }
    }
}

#[test]
fn a_log_that_cannot_be_synced_is_not_shown() {
    let (disk, dir, log) = reopened(1, not_durable());
    let disk = disk.kill().with_config(LogConfig::default());
    drop((log, dir));
    let dir = disk.open();
    disk.fs.inject(Fault::new(SimOperation::Sync, Failure::Io).in_path("/t-0/"));
    let config = Arc::new(disk.config.clone());
    dir.create_log(partition(0), topic_id(), config).expect_err("it is not on the disk");
}

#[test]
fn full_segments_that_a_start_has_not_synced_are_sealed_behind_it() {
    let config = LogConfig { segment_bytes: 1000, ..not_durable() };
    let disk = TestDisk { sync_later_bytes: 1, ..TestDisk::new(1).with_config(config) };
    let dir = disk.open();
    let log = disk.log(&dir);
    disk.fs.hold_syncs();
    for sequence in 0..20 {
        append(&log, producer_batch(7, 0, sequence, 1)).expect("the disk works");
        append_records(&log, 1, 100);
    }
    disk.fs.wait_for_held_syncs(1);
    let fs = disk.fs.clone();
    let disk = disk.kill();
    fs.release_syncs();
    drop((log, dir));

    let dir = disk.open();
    let log = disk.log(&dir);
    let names = names_in(&disk.fs, "/data/t-0");
    let active = names.iter().rfind(|name| name.ends_with(".log")).expect("there are several");
    let begins = Offset(active.trim_end_matches(".log").parse().expect("a base offset"));
    assert!(begins > Offset(10));
    FlushedAt::listen(&log, begins).wait();
    log.delete_records_before(Offset(0)).wait().expect("and a checkpoint is written");

    let disk = disk.crash();
    drop((log, dir));
    let snapshot = active.replace(".log", ".snapshot");
    assert!(names_in(&disk.fs, "/data/t-0").contains(&snapshot), "it was sealed");
    let dir = disk.open();
    check_findings(&dir);
    let scanned_bytes = dir.recovery_report().scanned_bytes;
    assert!(scanned_bytes <= 1000, "{scanned_bytes} were scanned, and one segment may be");
    let log = disk.log(&dir);
    assert!(log.log_end_offset() >= begins);
    // The snapshot says what the producer had sent until then: every other record.
    let last_before = i32::try_from((begins.0 - 1) / 2).expect("a few");
    let again = append(&log, producer_batch(7, 0, last_before, 1)).expect("it is not news");
    assert!(again.is_duplicate);
}
