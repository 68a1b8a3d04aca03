//! A start on a disk that is full.

use std::path::Path;

use logway_log::LogConfig;
use logway_log::fs::sim::{Failure, Fault, SimOperation};
use logway_log::inspect::verify;
use logway_model::Offset;

use crate::support::*;

/// A log of 60 records in several segments, none of which a checkpoint or a snapshot knows, after a
/// crash that left no index.
fn unsealed_log_of_60_records() -> TestDisk {
    let disk = TestDisk::new(1).with_config(small_segments());
    let dir = disk.open();
    let log = disk.log(&dir);
    for _ in 0..30 {
        append_records(&log, 2, 300);
    }
    drop(dir);
    for name in names_in(&disk.fs, "/data/t-0") {
        if [".index", ".timeindex", ".snapshot"].iter().any(|kind| name.ends_with(kind)) {
            remove(&disk, &Path::new("/data/t-0").join(name));
        }
    }
    disk
}

#[test]
fn a_full_disk_does_not_keep_a_log_from_being_recovered_and_read() {
    for is_closed in [false, true] {
        let disk = unsealed_log_of_60_records();
        disk.fs.inject(Fault::new(SimOperation::Write, Failure::NoSpace));
        disk.fs.inject(Fault::new(SimOperation::Open, Failure::NoSpace).in_path("index"));
        let dir = disk.open();
        assert!(dir.recovery_report().failed.is_empty(), "{:?}", dir.recovery_report());
        let log = disk.log(&dir);
        assert_eq!(read_records(&log, Offset(0)).len(), 60);
        for from in 0..60 {
            assert_eq!(read_records(&log, Offset(from))[0].offset, Offset(from));
        }
        let error = append(&log, batch(1, 10)).expect_err("there is no space");
        assert!(error.is_disk_full(), "{error}");
        if is_closed {
            dir.close().expect_err("there is no space for the indexes");
        }
        drop(dir);
        // A start knows that the segments are not sealed.
        let dir = disk.open();
        assert_eq!(disk.log(&dir).log_end_offset(), Offset(60));
        disk.fs.heal();
        let log = disk.log(&dir);
        assert_eq!(append_records(&log, 1, 10), Offset(60), "it heals by itself");
        dir.close().expect("it closes");
        let mut problems = Vec::new();
        verify(&disk.fs, Path::new("/data/t-0"), |problem| problems.push(problem))
            .expect("the disk works");
        assert_eq!(problems, []);
        let dir = disk.open();
        let report = dir.recovery_report();
        assert!(report.was_clean && report.scanned_logs == 0, "{report:?}");
    }
}

/// More entries than the index of a segment keeps in memory at once.
#[test]
fn indexes_that_fill_pages_on_a_full_disk_are_whole_once_there_is_space() {
    let config = LogConfig { index_interval_bytes: 1, ..LogConfig::default() };
    let disk = TestDisk::new(1).with_config(config);
    let dir = disk.open();
    let log = disk.log(&dir);
    for _ in 0..1500 {
        append_records(&log, 1, 1);
    }
    drop(dir);
    disk.fs.inject(Fault::new(SimOperation::Write, Failure::NoSpace));
    let dir = disk.open();
    assert!(dir.recovery_report().failed.is_empty(), "{:?}", dir.recovery_report());
    let log = disk.log(&dir);
    for from in (0..1500).step_by(97) {
        assert_eq!(read_records(&log, Offset(from))[0].offset, Offset(from));
    }
    disk.fs.heal();
    assert_eq!(append_records(&log, 1, 10), Offset(1500));
    dir.close().expect("it closes");
    let mut problems = Vec::new();
    verify(&disk.fs, Path::new("/data/t-0"), |problem| problems.push(problem))
        .expect("the disk works");
    assert_eq!(problems, []);
}
