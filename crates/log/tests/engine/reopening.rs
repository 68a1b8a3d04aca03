//! Closing a directory in good order and opening it again.

use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;

use logway_log::fs::{Fs, OpenMode};
use logway_log::{LogConfig, LogDir, LogDirOptions, LogError};
use logway_model::{BrokerId, ClusterId, LeaderEpoch, Offset, TopicId, Uuid};

use crate::support::*;

#[test]
fn a_clean_start_scans_nothing_and_finds_everything() {
    let disk = TestDisk::new(1).with_config(small_segments());
    let dir = disk.open();
    let log = disk.log(&dir);
    for _ in 0..30 {
        append_records(&log, 2, 300);
    }
    let before = read_batches(&log, Offset(0));
    let (segments, size_bytes) = (log.segment_count(), log.size_bytes());
    let directory_id = dir.directory_id();
    dir.close().expect("it closes");

    let dir = disk.open();
    let report = dir.recovery_report();
    assert!(report.was_clean && report.findings.is_empty(), "{report:?}");
    assert_eq!((report.opened_logs, report.scanned_logs), (1, 0));
    assert_eq!(dir.directory_id(), directory_id);
    let log = dir.log(&partition(0)).expect("the log is there");
    assert_eq!(log.topic_id(), topic_id());
    assert_eq!(read_batches(&log, Offset(0)), before);
    assert_eq!((log.segment_count(), log.size_bytes()), (segments, size_bytes));
    assert_eq!((log.log_end_offset(), log.flushed_offset()), (Offset(60), Offset(60)));
    assert_eq!(log.latest_epoch(), EPOCH);
    assert_eq!(append_records(&log, 1, 10), Offset(60));
}

#[test]
fn a_clean_shutdown_survives_a_power_cut() {
    for seed in 0..20 {
        let disk = TestDisk::new(seed).with_config(small_segments());
        let dir = disk.open();
        let log = disk.log(&dir);
        for _ in 0..10 {
            append_records(&log, 2, 300);
        }
        let before = read_batches(&log, Offset(0));
        dir.close().expect("it closes");
        let disk = disk.crash();
        let dir = disk.open();
        assert!(dir.recovery_report().was_clean, "seed {seed}");
        let log = disk.log(&dir);
        assert_eq!(read_batches(&log, Offset(0)), before, "seed {seed}");
    }
}

#[test]
fn a_log_that_is_not_durable_is_flushed_by_a_close() {
    let disk = TestDisk::new(1).with_config(not_durable());
    let dir = disk.open();
    let log = disk.log(&dir);
    append_records(&log, 5, 10);
    dir.close().expect("it closes");
    let disk = disk.crash();
    let dir = disk.open();
    assert_eq!(disk.log(&dir).log_end_offset(), Offset(5));
}

#[test]
fn what_waits_when_the_directory_closes_is_answered() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    let appends: Vec<_> = (0..50).map(|_| log.append(append_of(batch(1, 10)))).collect();
    dir.close().expect("it closes");
    for (index, append) in (0..).zip(appends) {
        assert_eq!(append.wait().expect("it was before the close").base_offset, Offset(index));
    }
    let error = append(&log, batch(1, 10)).expect_err("the directory is closed");
    assert!(matches!(error, LogError::Closed { .. }), "{error}");
}

#[test]
fn a_directory_that_is_dropped_was_not_closed() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    append_records(&log, 5, 10);
    drop(dir);
    let error = append(&log, batch(1, 10)).expect_err("the writer has ended");
    assert!(matches!(error, LogError::Closed { .. }), "{error}");
    let dir = disk.open();
    let report = dir.recovery_report();
    assert!(!report.was_clean && report.findings.is_empty(), "{report:?}");
    assert_eq!(disk.log(&dir).log_end_offset(), Offset(5));
}

#[test]
fn the_second_to_open_a_directory_is_refused() {
    let disk = TestDisk::new(1);
    let _dir = disk.open();
    let error = disk.try_open().expect_err("it is in use");
    assert!(matches!(error, LogError::Locked { .. }), "{error}");
}

#[test]
fn the_directory_of_another_broker_is_refused() {
    let disk = TestDisk::new(1);
    drop(disk.open());
    let of_node = LogDirOptions { node_id: BrokerId(2), ..disk.options() };
    let of_cluster = LogDirOptions { cluster_id: ClusterId(Uuid([1; 16])), ..disk.options() };
    for options in [of_node, of_cluster] {
        let error = LogDir::open(options, disk.metrics.clone()).expect_err("it is another's");
        assert!(matches!(error, LogError::WrongOwner { found_node: BrokerId(1), .. }), "{error}");
    }
}

#[test]
fn a_partition_of_another_topic_id_is_not_taken_for_this_one() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    disk.log(&dir);
    let other = TopicId(Uuid([8; 16]));
    let error = dir
        .create_log(partition(0), other, Arc::new(disk.config.clone()))
        .expect_err("the topic is another");
    assert!(matches!(error, LogError::InconsistentTopicId { .. }), "{error}");
}

#[test]
fn the_files_are_kafkas() {
    let disk = TestDisk::new(1).with_config(small_segments());
    let dir = disk.open();
    let log = disk.log(&dir);
    for _ in 0..5 {
        append_records(&log, 4, 300);
    }
    dir.close().expect("it closes");
    let expected = [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "00000000000000000012.index",
        "00000000000000000012.log",
        "00000000000000000012.snapshot",
        "00000000000000000012.timeindex",
        "00000000000000000020.snapshot",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ];
    assert_eq!(names_in(&disk.fs, "/data/t-0"), expected);
    let expected = [
        ".kafka_cleanshutdown",
        ".lock",
        ".page-cache",
        ".reserve",
        "log-start-offset-checkpoint",
        "meta.properties",
        "recovery-point-offset-checkpoint",
        "segment-lists",
        "t-0",
    ];
    assert_eq!(names_in(&disk.fs, "/data"), expected);
}

#[test]
fn leader_epochs_survive_both_kinds_of_end() {
    for is_clean in [true, false] {
        let disk = TestDisk::new(1);
        let dir = disk.open();
        let log = disk.log(&dir);
        for epoch in 1..4 {
            let batches = vec![batch(2, 10)];
            let leader_epoch = LeaderEpoch(epoch);
            let append = logway_log::AppendBatches::new(batches, leader_epoch);
            log.append(append).wait().expect("the append succeeds");
        }
        if is_clean {
            dir.close().expect("it closes");
        } else {
            drop(dir);
        }
        let disk = disk.crash();
        let dir = disk.open();
        let log = disk.log(&dir);
        let end = log.end_offset_for_epoch(LeaderEpoch(2)).expect("the epoch is known");
        assert_eq!(end.end_offset, Offset(4));
        assert_eq!(log.latest_epoch(), LeaderEpoch(3));
    }
}

#[test]
fn missing_and_damaged_indexes_are_made_anew() {
    let disk = TestDisk::new(1).with_config(small_segments());
    let dir = disk.open();
    let log = disk.log(&dir);
    for _ in 0..30 {
        append_records(&log, 2, 300);
    }
    let before = read_batches(&log, Offset(0));
    dir.close().expect("it closes");
    let names = names_in(&disk.fs, "/data/t-0");
    let index = names.iter().find(|name| name.ends_with(".index")).expect("there is one");
    let path = Path::new("/data/t-0").join(index);
    disk.fs.remove_file(&path).expect("it is there");
    disk.fs.remove_file(&path.with_extension("timeindex")).expect("it is there");

    let dir = disk.open();
    let log = disk.log(&dir);
    assert_eq!(read_batches(&log, Offset(0)), before);
    assert!(disk.fs.exists(&path).expect("the disk works"));
    for offset in 0..60 {
        assert_eq!(read_records(&log, Offset(offset)).len() as i64, 60 - offset);
    }
}

#[test]
fn indexes_that_lie_cost_time_and_nothing_else() {
    let config = LogConfig { retention_ms: Some(1000), ..small_segments() };
    for seed in 0..30 {
        let disk = TestDisk::new(seed).with_config(config.clone());
        let dir = disk.open();
        let log = disk.log(&dir);
        for step in 0..30 {
            append(&log, batch_at(&[NOW_MS + step], 300)).expect("the disk works");
        }
        let before = read_batches(&log, Offset(0));
        dir.close().expect("it closes");
        let mut random = Random::new(seed);
        for entry in disk.fs.read_dir(Path::new("/data/t-0")).expect("the disk works") {
            let path = Path::new("/data/t-0").join(&entry.name);
            let is_index = path
                .extension()
                .is_some_and(|extension| extension == "index" || extension == "timeindex");
            if !is_index {
                continue;
            }
            let file = disk.fs.open(&path, OpenMode::ReadWrite).expect("it is there");
            let len_bytes = file.len().expect("the disk works");
            match random.below(3) {
                0 => file.set_len(len_bytes.saturating_sub(5)).expect("the disk works"),
                1 => file.set_len(0).expect("the disk works"),
                _ => {
                    let zeros = vec![0; len_bytes as usize];
                    file.write_all_at(&[IoSlice::new(&zeros)], 0).expect("the disk works");
                }
            }
        }

        let dir = disk.open();
        let log = disk.log(&dir);
        assert_eq!(read_batches(&log, Offset(0)), before, "seed {seed}");
        for offset in 0..30 {
            let found = log.read(everything_from(Offset(offset))).expect("it is in the log");
            assert_eq!(found.next_offset, Offset(30), "seed {seed}");
        }
        disk.clock.advance(5000);
        dir.enforce_retention().wait().expect("the writer lives");
        assert_eq!(log.log_start_offset(), Offset(30), "seed {seed}");
    }
}

#[test]
fn a_short_visit_leaves_the_indexes_as_they_are() {
    let config = LogConfig { index_interval_bytes: 256, ..LogConfig::default() };
    let disk = TestDisk::new(1).with_config(config);
    let dir = disk.open();
    let log = disk.log(&dir);
    for _ in 0..30 {
        append_records(&log, 1, 300);
    }
    dir.close().expect("it closes");
    let index_bytes = |disk: &TestDisk| file_len(disk, &segment_path(0).with_extension("index"));
    let before = index_bytes(&disk);
    assert!(before > 0);
    for _ in 0..3 {
        let dir = disk.open();
        append_records(&disk.log(&dir), 1, 10);
        dir.close().expect("it closes");
        assert!(index_bytes(&disk) >= before);
    }
}

#[test]
fn an_interrupted_creation_leaves_no_log() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    drop(dir);
    disk.fs.create_dir_all(Path::new("/data/t-5")).expect("the disk works");
    let dir = disk.open();
    assert!(dir.logs().is_empty());
    assert_eq!(disk.log_of(&dir, 5).log_end_offset(), Offset(0));
}

#[test]
fn a_partition_that_cannot_be_opened_does_not_keep_the_others_from_it() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    disk.log_of(&dir, 0);
    let log = disk.log_of(&dir, 1);
    append_records(&log, 3, 10);
    dir.close().expect("it closes");
    disk.fs.flip_bit(Path::new("/data/t-0/partition.metadata"), 0, 1).expect("the file is there");

    let dir = disk.open();
    let report = dir.recovery_report();
    assert_eq!(report.failed.len(), 1);
    assert_eq!(report.failed[0].0, partition(0));
    let error = dir
        .create_log(partition(0), topic_id(), Arc::new(disk.config.clone()))
        .expect_err("it is not opened");
    assert!(matches!(error, LogError::Malformed { .. }), "{error}");
    assert_eq!(append_records(&disk.log_of(&dir, 1), 1, 10), Offset(3));
    dir.delete_log(&partition(0)).expect("it can be deleted");
    assert_eq!(disk.log_of(&dir, 0).log_end_offset(), Offset(0));
}
