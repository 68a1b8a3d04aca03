//! Logs that cannot be opened: their directories are gone, or damaged.

use std::path::Path;
use std::sync::Arc;

use logway_log::checkpoint::offset_checkpoint;
use logway_log::fs::sim::{Failure, Fault, SimOperation};
use logway_log::fs::{Fs, OpenMode};
use logway_log::{Finding, Log, LogError, NewLog};
use logway_model::{Offset, TopicId, Uuid};

use crate::support::*;

/// The offsets that a consumer gets.
fn offsets_in(log: &Log) -> Vec<i64> {
    read_records(log, Offset(0)).into_iter().map(|record| record.offset.0).collect()
}

fn new_log(disk: &TestDisk) -> NewLog {
    let config = Arc::new(disk.config.clone());
    NewLog { partition: partition(0), topic_id: topic_id(), config }
}

/// A log of 60 records whose directory is removed; with a clean stop or without one, and with the
/// checkpoint of the recovery points or without it.
fn vanished_log(is_clean: bool, has_checkpoint: bool) -> TestDisk {
    let disk = closed_log_of_60_records();
    if !is_clean {
        drop(disk.open());
    }
    disk.fs.rename(Path::new("/data/t-0"), Path::new("/elsewhere")).expect("the disk works");
    if !has_checkpoint {
        remove(&disk, Path::new("/data/recovery-point-offset-checkpoint"));
    }
    disk
}

/// What keeps a log from being opened, and is put right later.
#[derive(Debug, Clone, Copy)]
enum Obstacle {
    Damage,
    Vanished,
}

impl Obstacle {
    const ALL: [Obstacle; 2] = [Obstacle::Damage, Obstacle::Vanished];

    fn put(self, disk: &TestDisk) {
        match self {
            Obstacle::Damage => self.flip(disk),
            Obstacle::Vanished => disk
                .fs
                .rename(Path::new("/data/t-0"), Path::new("/elsewhere"))
                .expect("the disk works"),
        }
    }

    fn take_away(self, disk: &TestDisk) {
        match self {
            Obstacle::Damage => self.flip(disk),
            Obstacle::Vanished => disk
                .fs
                .rename(Path::new("/elsewhere"), Path::new("/data/t-0"))
                .expect("the disk works"),
        }
    }

    fn flip(self, disk: &TestDisk) {
        let path = Path::new("/data/t-0/partition.metadata");
        disk.fs.flip_bit(path, 0, 1).expect("the file is there");
    }
}

#[test]
fn a_partition_whose_directory_has_vanished_stays_offline_until_it_is_back() {
    for (is_clean, has_checkpoint) in [(true, true), (false, true), (true, false)] {
        let disk = vanished_log(is_clean, has_checkpoint);
        // Not only the first start tells.
        for _ in 0..2 {
            let dir = disk.open();
            let report = dir.recovery_report();
            let [(_, LogError::Vanished { end: Offset(60), .. })] = report.failed[..] else {
                panic!("{report:?}")
            };
            for _ in 0..2 {
                let error = dir.try_again(&new_log(&disk)).expect_err("it is not there");
                assert!(matches!(error, LogError::Vanished { .. }), "{error}");
                assert!(error.to_string().contains("/data/t-0"), "{error}");
            }
            dir.create_logs(&[new_log(&disk)])[0].as_ref().expect_err("no other takes its place");
            assert!(!disk.fs.exists(Path::new("/data/t-0")).expect("the disk works"));
            dir.close().expect("it closes");
        }
        let dir = disk.open();
        disk.fs.rename(Path::new("/elsewhere"), Path::new("/data/t-0")).expect("the disk works");
        let log = dir.try_again(&new_log(&disk)).expect("it is back");
        assert_eq!(read_records(&log, Offset(0)).len(), 60);
        assert_eq!(append_records(&log, 1, 10), Offset(60));
        dir.close().expect("it closes");
        let dir = disk.open();
        assert!(dir.recovery_report().findings.is_empty(), "{:?}", dir.recovery_report());
        assert_eq!(disk.log(&dir).log_end_offset(), Offset(61));
    }
}

/// A log with records of which no checkpoint tells but that there is the log: a crash came before
/// the next one. Only the first checkpoint is waited for.
fn young_log() -> TestDisk {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    let path = Path::new("/data/recovery-point-offset-checkpoint");
    let is_known = || {
        let known = offset_checkpoint::read(&disk.fs, path).expect("the disk works");
        known.is_some_and(|known| known.contains_key(&partition(0)))
    };
    while !is_known() {
        std::thread::yield_now();
    }
    append_records(&log, 3, 10);
    drop(dir);
    disk
}

#[test]
fn a_young_log_that_vanishes_after_a_crash_is_not_begun_anew() {
    for is_emptied in [false, true] {
        let disk = young_log();
        disk.fs.rename(Path::new("/data/t-0"), Path::new("/elsewhere")).expect("the disk works");
        // Not only the first start tells, nor only one after a crash.
        for _ in 0..2 {
            if is_emptied {
                disk.fs.create_dir_all(Path::new("/data/t-0")).expect("the disk works");
            }
            let dir = disk.open();
            let report = dir.recovery_report();
            let [(_, LogError::Vanished { end: Offset(0), .. })] = report.failed[..] else {
                panic!("{report:?}")
            };
            let error = dir.try_again(&new_log(&disk)).expect_err("it is not there");
            assert!(matches!(error, LogError::Vanished { .. }), "{error}");
            dir.close().expect("it closes");
        }
        if is_emptied {
            disk.fs.remove_dir_all(Path::new("/data/t-0")).expect("the disk works");
        }
        disk.fs.rename(Path::new("/elsewhere"), Path::new("/data/t-0")).expect("the disk works");
        assert_eq!(offsets_in(&disk.log(&disk.open())), [0, 1, 2]);
    }
}

#[test]
fn a_directory_that_was_emptied_counts_as_vanished_until_the_loss_is_accepted() {
    let disk = vanished_log(true, true);
    disk.fs.create_dir_all(Path::new("/data/t-0")).expect("the disk works");
    let dir = disk.open();
    let error = dir.try_again(&new_log(&disk)).expect_err("nothing is in it");
    assert!(matches!(error, LogError::Vanished { .. }), "{error}");
    let word = Path::new("/data/t-0/accept-loss");
    disk.fs.open(word, OpenMode::CreateNew).expect("the disk works");
    let log = dir.try_again(&new_log(&disk)).expect("the loss is accepted");
    assert_eq!(log.topic_id(), topic_id());
    assert_eq!(append_records(&log, 1, 10), Offset(60), "no offset is given twice");
    assert_eq!(offsets_in(&log), [60]);
    let disk = disk.crash();
    drop(dir);
    let dir = disk.open();
    assert!(dir.recovery_report().failed.is_empty(), "{:?}", dir.recovery_report());
    assert_eq!(offsets_in(&disk.log(&dir)), [60]);
    assert!(!disk.fs.exists(word).expect("the disk works"));
}

#[test]
fn a_topic_whose_directory_has_vanished_can_be_deleted_and_made_again() {
    let disk = vanished_log(true, true);
    let dir = disk.open();
    dir.delete_log(&partition(0)).expect("there is nothing to do");
    let log = disk.log(&dir);
    assert_eq!(append_records(&log, 1, 10), Offset(0));
    let disk = disk.crash();
    drop(dir);
    let dir = disk.open();
    let report = dir.recovery_report();
    assert!(report.findings.is_empty() && report.failed.is_empty(), "{report:?}");
    assert_eq!(disk.log(&dir).log_end_offset(), Offset(1));
}

#[test]
fn another_topic_of_the_name_of_one_that_has_vanished_is_not_kept_from_it() {
    let disk = vanished_log(true, true);
    let dir = disk.open();
    let other = NewLog { topic_id: TopicId(Uuid([8; 16])), ..new_log(&disk) };
    let log = dir.try_again(&other).expect("it is another");
    assert_eq!(append_records(&log, 1, 10), Offset(0));
    let disk = disk.crash();
    drop(dir);
    let dir = disk.open();
    assert_eq!(dir.log(&partition(0)).expect("it is there").log_end_offset(), Offset(1));
}

#[test]
fn a_log_that_was_never_appended_to_is_made_again() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    disk.log(&dir);
    dir.close().expect("it closes");
    disk.fs.remove_dir_all(Path::new("/data/t-0")).expect("the disk works");
    let dir = disk.open();
    assert!(dir.recovery_report().failed.is_empty(), "{:?}", dir.recovery_report());
    assert_eq!(append_records(&disk.log(&dir), 1, 10), Offset(0));
}

#[test]
fn a_log_that_could_not_be_opened_is_opened_when_it_can_be() {
    let disk = closed_log_of_60_records();
    let path = Path::new("/data/t-0/partition.metadata");
    disk.fs.flip_bit(path, 0, 1).expect("the file is there");
    let dir = disk.open();
    let error = dir.try_again(&new_log(&disk)).expect_err("it is still damaged");
    assert!(matches!(error, LogError::Malformed { .. }), "{error}");
    disk.fs.flip_bit(path, 0, 1).expect("the file is there");
    let log = dir.try_again(&new_log(&disk)).expect("it is mended");
    assert_eq!(read_records(&log, Offset(0)).len(), 60);
    assert_eq!(append_records(&log, 1, 10), Offset(60));
    let again = dir.try_again(&new_log(&disk)).expect("it is open");
    assert!(Arc::ptr_eq(&log, &again));
    dir.close().expect("it closes");
    let dir = disk.open();
    assert!(dir.recovery_report().was_clean);
    assert_eq!(read_records(&disk.log(&dir), Offset(0)).len(), 61);
}

#[test]
fn a_stop_is_not_clean_while_a_log_has_yet_to_be_scanned_after_a_crash() {
    for obstacle in Obstacle::ALL {
        let disk = closed_log_of_60_records();
        drop(disk.open());
        // As after a crash; and the log cannot be opened this time.
        obstacle.put(&disk);
        let dir = disk.open();
        assert!(!dir.recovery_report().was_clean);
        assert_eq!(dir.recovery_report().failed.len(), 1);
        dir.close().expect("it closes");

        obstacle.take_away(&disk);
        let dir = disk.open();
        let was_clean = dir.recovery_report().was_clean;
        assert!(!was_clean, "{obstacle:?}: nobody has looked at the log since the crash");
        assert_eq!(read_records(&disk.log(&dir), Offset(0)).len(), 60);
        dir.close().expect("it closes");
        assert!(disk.open().recovery_report().was_clean);
    }
}

#[test]
fn a_log_of_a_former_topic_does_not_keep_its_name_from_another() {
    let disk = closed_log_of_60_records();
    let fault = Fault::new(SimOperation::ReadDir, Failure::NoDescriptors).in_path("t-0");
    disk.fs.inject(fault);
    let dir = disk.open();
    assert_eq!(dir.recovery_report().failed.len(), 1);
    disk.fs.heal();
    // The topic was deleted while the log could not be, and made again.
    let other = NewLog { topic_id: TopicId(Uuid([8; 16])), ..new_log(&disk) };
    let log = dir.try_again(&other).expect("the old log is out of the way");
    assert_eq!(log.topic_id(), other.topic_id);
    assert_eq!(append_records(&log, 1, 10), Offset(0));
    let names = names_in(&disk.fs, "/data");
    let stray = names.iter().find(|name| name.ends_with("-stray")).expect("it is kept");
    assert!(names_in(&disk.fs, &format!("/data/{stray}")).len() > 10, "with its segments");
    let disk = disk.crash();
    drop(dir);
    let dir = disk.open();
    let report = dir.recovery_report();
    assert!(report.findings.is_empty() && report.failed.is_empty(), "{report:?}");
    assert_eq!(dir.log(&partition(0)).expect("it is there").log_end_offset(), Offset(1));
}

#[test]
fn that_a_recovery_point_is_lost_is_remembered_while_the_log_cannot_be_opened() {
    for obstacle in Obstacle::ALL {
        let disk = TestDisk::new(1);
        let dir = disk.open();
        append_records(&disk.log(&dir), 5, 100);
        dir.close().expect("it closes");
        // What is acknowledged from here on, no list and no snapshot speaks of.
        let dir = disk.open();
        let log = disk.log(&dir);
        for _ in 0..10 {
            append_records(&log, 1, 100);
        }
        let batches = read_batches(&log, Offset(0));
        let damaged = batches[..5].iter().map(|batch| batch.size_bytes() as u64).sum::<u64>() + 80;
        drop((log, dir));
        disk.fs.flip_bit(&segment_path(0), damaged, 1).expect("the segment is there");
        remove(&disk, Path::new("/data/recovery-point-offset-checkpoint"));
        obstacle.put(&disk);
        for _ in 0..2 {
            let dir = disk.open();
            assert_eq!(dir.recovery_report().failed.len(), 1, "{obstacle:?}");
            dir.close().expect("it closes");
        }
        obstacle.take_away(&disk);
        let dir = disk.open();
        let report = dir.recovery_report();
        assert!(!report.was_clean, "{obstacle:?}");
        let [Finding::Corruption { offset: Offset(9), .. }] = report.findings[..] else {
            panic!("{obstacle:?}: {report:?}")
        };
        let log = disk.log(&dir);
        assert_eq!(log.log_end_offset(), Offset(15), "{obstacle:?}: nothing is cut off");
        assert_eq!(read_records(&log, Offset(10)).len(), 5, "{obstacle:?}");
        dir.close().expect("it closes");
        assert!(disk.open().recovery_report().was_clean, "{obstacle:?}");
    }
}
