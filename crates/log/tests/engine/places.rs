//! Disks that are unmounted, and logs that somebody put where they are.

use std::path::Path;
use std::sync::Arc;

use logway_log::fs::Fs;
use logway_log::{Finding, LogDir, LogDirOptions, LogError, NewLog};
use logway_model::Offset;

use crate::support::*;

#[test]
fn no_log_is_made_on_the_disk_below_one_that_was_unmounted() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    append_records(&disk.log(&dir), 1, 10);
    disk.fs.rename(Path::new("/data"), Path::new("/unmounted")).expect("is there");
    for is_there in [false, true] {
        if is_there {
            disk.fs.create_dir_all(Path::new("/data")).expect("is made");
        }
        let config = Arc::new(disk.config.clone());
        let error = dir.create_log(partition(1), topic_id(), Arc::clone(&config));
        let error = error.expect_err("it would be on another disk");
        assert!(matches!(error, LogError::DirectoryEmptied { .. }), "{error}");
        assert!(error.is_device_failure());
        let new = NewLog { partition: partition(2), topic_id: topic_id(), config };
        let copy = dir.create_copy(&new, Offset(0), dir.directory_id());
        assert!(matches!(copy, Err(LogError::DirectoryEmptied { .. })));
        assert_eq!(disk.fs.exists(Path::new("/data")).expect("can be looked for"), is_there);
    }
    assert_eq!(disk.fs.read_dir(Path::new("/data")).expect("is there"), []);
}

/// A log directory with a log of three batches, the second of which has worn since.
fn worn_log(disk: &TestDisk, path: &str) {
    let options = LogDirOptions { path: path.into(), ..disk.options() };
    let dir = LogDir::open(options, disk.metrics.clone()).expect("opens");
    let log = disk.log(&dir);
    for _ in 0..3 {
        append_records(&log, 1, 1000);
    }
    let middle = log.size_bytes() / 2;
    dir.close().expect("closes");
    let segment = Path::new(path).join("t-0/00000000000000000000.log");
    disk.fs.flip_bit(&segment, middle, 3).expect("is there");
}

#[test]
fn a_clean_stop_does_not_vouch_for_a_log_that_somebody_put_there() {
    for records_before in [None, Some(0), Some(1)] {
        let disk = TestDisk::new(1);
        let dir = disk.open();
        append_records(&disk.log_of(&dir, 1), 1, 10);
        if let Some(records) = records_before {
            let log = disk.log(&dir);
            (0..records).for_each(|_| _ = append_records(&log, 1, 1000));
        }
        dir.close().expect("closes");
        worn_log(&disk, "/other");
        let place = Path::new("/data/t-0");
        if records_before.is_some() {
            disk.fs.remove_dir_all(place).expect("is there");
        }
        disk.fs.rename(Path::new("/other/t-0"), place).expect("is there");

        let dir = disk.open();
        let report = dir.recovery_report();
        assert_eq!((report.was_clean, report.scanned_logs), (true, 1));
        // What follows is good, so that it is damage and no end that a crash has cut off.
        let is_damage = |finding: &Finding| matches!(finding, Finding::Corruption { .. });
        assert!(report.findings.iter().all(is_damage), "{:?}", report.findings);
        assert_eq!(report.findings.len(), 1, "{records_before:?}");
        assert_eq!(disk.log(&dir).log_end_offset(), Offset(3));
    }
}
