//! Power cuts at every point of a fixed piece of work.

use std::sync::Arc;

use logway_log::fs::sim::Rng;
use logway_log::{Finding, Log, LogConfig, LogDir, LogError};
use logway_model::{Offset, TimestampMs};
use logway_record::DecodeLimit;

use crate::support::*;

/// How many batches the work appends.
const BATCHES: i32 = 12;

/// Two batches fill a segment, so that the work rolls many times.
fn config() -> LogConfig {
    LogConfig { segment_bytes: 200, index_interval_bytes: 1, ..LogConfig::default() }
}

/// Appends the batches of an idempotent producer from `first` on, and deletes the oldest records
/// half-way; returns the sequence of the first that failed.
fn work(disk: &TestDisk, first: i32) -> Result<(), i32> {
    let Ok(dir) = disk.try_open() else { return Err(first) };
    let config = std::sync::Arc::new(disk.config.clone());
    let Ok(log) = dir.create_log(partition(0), topic_id(), config) else { return Err(first) };
    for sequence in first..BATCHES {
        append(&log, producer_batch(7, 0, sequence, 1)).map_err(|_| sequence)?;
        if sequence == BATCHES / 2 {
            // An answer is not owed.
            let _ = log.delete_records_before(Offset(2)).wait();
        }
    }
    dir.close().map_err(|_| BATCHES)
}

/// The sequences of the records in the log, each at its own offset.
fn sequences(disk: &TestDisk) -> (i64, Vec<i32>) {
    let dir = disk.open();
    let damage = |finding: &&Finding| {
        !matches!(finding, Finding::TailTruncated { .. } | Finding::SegmentRemoved { .. })
    };
    let report = dir.recovery_report();
    assert!(report.findings.iter().find(damage).is_none(), "{report:?}");
    let log = disk.log(&dir);
    let start = log.log_start_offset();
    let batches = read_batches(&log, start);
    (start.0, batches.iter().map(|batch| batch.header().base_sequence.0).collect())
}

#[test]
fn a_producer_that_retries_over_a_power_cut_leaves_each_record_once() {
    for seed in 0..3 {
        let whole = TestDisk::new(seed).with_config(config());
        work(&whole, 0).expect("the disk works");
        // The threads take turns as they like, so that the number differs from run to run.
        for change in 1..whole.fs.changes() + 10 {
            let disk = TestDisk::new(seed * 1000 + change).with_config(config());
            disk.fs.crash_at_change(change);
            let reached = work(&disk, 0).err().unwrap_or(BATCHES);
            let disk = disk.crash();
            let (start, found) = sequences(&disk);
            let expected: Vec<i32> = (start as i32..start as i32 + found.len() as i32).collect();
            assert_eq!(found, expected, "seed {seed}, change {change}");
            let end = start as i32 + found.len() as i32;
            assert!(end >= reached, "seed {seed}, change {change}: {reached} were acknowledged");

            // The producer goes on with the batch that it got no answer for.
            let left = work(&disk, reached).err();
            assert_eq!(left, None, "seed {seed}, change {change}");
            let (start, found) = sequences(&disk);
            let expected: Vec<i32> = (start as i32..BATCHES).collect();
            assert_eq!(found, expected, "seed {seed}, change {change}");
        }
    }
}

/// Its last sync of a directory says that all is well.
#[test]
fn a_file_system_that_stops_takes_nothing_back_that_was_acknowledged() {
    for seed in 0..3 {
        let whole = TestDisk::new(seed).with_config(config());
        work(&whole, 0).expect("the disk works");
        for change in 1..whole.fs.changes() + 10 {
            let disk = TestDisk::new(seed * 1000 + change).with_config(config());
            disk.fs.stop_at_change(change);
            let reached = work(&disk, 0).err().unwrap_or(BATCHES);
            let (start, found) = sequences(&disk.crash());
            let end = start as i32 + found.len() as i32;
            assert_eq!(
                found,
                (start as i32..end).collect::<Vec<_>>(),
                "seed {seed}, change {change}"
            );
            assert!(
                end >= reached,
                "seed {seed}, change {change}: {reached} were acknowledged, {end} are there"
            );
        }
    }
}

#[test]
fn a_process_that_is_killed_loses_nothing_that_was_written() {
    let config = LogConfig { flush_messages: u64::MAX, ..config() };
    let disk = TestDisk::new(1).with_config(config);
    let dir = disk.open();
    let log = disk.log(&dir);
    for sequence in 0..BATCHES {
        append(&log, producer_batch(7, 0, sequence, 1)).expect("the disk works");
    }
    drop(dir);
    let (start, found) = sequences(&disk);
    assert_eq!((start, found.len()), (0, BATCHES as usize));
    // Opening has put it on stable storage.
    let (_, found) = sequences(&disk.crash());
    assert_eq!(found.len(), BATCHES as usize);
}

#[test]
fn a_power_cut_in_the_start_after_a_kill_loses_nothing() {
    for seed in 0..400 {
        let mut random = Rng::new(seed);
        let disk = TestDisk::new(seed).with_config(config());
        disk.fs.crash_at_change(1 + random.below(200) as u64);
        let reached = work(&disk, 0).err().unwrap_or(BATCHES);
        let disk = disk.kill();
        disk.fs.crash_at_change(1 + random.below(40) as u64);
        let _ = disk.try_open();
        let (start, found) = sequences(&disk.crash());
        let end = start as i32 + found.len() as i32;
        assert_eq!(found, (start as i32..end).collect::<Vec<_>>(), "seed {seed}");
        assert!(end >= reached, "seed {seed}: {reached} were acknowledged, {end} are there");
    }
}

/// A log of some megabytes that no sync has reached, whose process was killed.
fn large_log_in_the_page_cache(seed: u64) -> (TestDisk, LogDir, Arc<Log>) {
    let config = LogConfig { flush_messages: u64::MAX, ..LogConfig::default() };
    let disk = TestDisk::new(seed).with_config(config);
    let dir = disk.open();
    let log = disk.log(&dir);
    for _ in 0..LARGE_BATCHES {
        append_records(&log, 1, LARGE_BATCH_BYTES);
    }
    (disk, dir, log)
}

const LARGE_BATCHES: usize = 5;
const LARGE_BATCH_BYTES: usize = 300_000;

#[test]
fn a_large_segment_is_on_the_disk_when_a_start_after_a_kill_is_over() {
    let (disk, dir, log) = large_log_in_the_page_cache(1);
    drop((log, dir));
    drop(disk.open());
    let after = disk.crash();
    let found = read_batches(&after.log(&after.open()), Offset(0));
    assert_eq!(found.len(), LARGE_BATCHES);
}

#[test]
fn a_large_segment_that_is_cut_off_is_on_the_disk_as_it_was_cut() {
    for seed in 0..4 {
        let (disk, dir, log) = large_log_in_the_page_cache(seed);
        drop((log, dir));
        let last = (LARGE_BATCHES as u64 - 1) * LARGE_BATCH_BYTES as u64 + 50_000;
        disk.fs.flip_bit(&segment_path(0), last, 1).expect("it is there");
        drop(disk.open());
        let after = disk.crash();
        let dir = after.open();
        let report = dir.recovery_report();
        assert!(report.findings.is_empty(), "seed {seed}: {report:?}");
        assert_eq!(
            read_batches(&after.log(&dir), Offset(0)).len(),
            LARGE_BATCHES - 1,
            "seed {seed}"
        );
    }
}

#[test]
fn a_sync_beside_the_scan_that_fails_is_not_hidden_from_what_vouches_for_the_segment() {
    use logway_log::fs::sim::{Failure, Fault, SimOperation};
    let config = LogConfig {
        segment_bytes: (LARGE_BATCHES * LARGE_BATCH_BYTES) as _,
        flush_messages: u64::MAX,
        ..LogConfig::default()
    };
    let disk = TestDisk::new(1).with_config(config);
    let dir = disk.open();
    let log = disk.log(&dir);
    // The process ends while a full segment is about to be sealed.
    disk.fs.hold_syncs();
    for _ in 0..=LARGE_BATCHES {
        append_records(&log, 1, LARGE_BATCH_BYTES);
    }
    disk.fs.wait_for_held_syncs(1);
    let fs = disk.fs.clone();
    let after = disk.kill();
    fs.release_syncs();
    drop((log, dir));

    let first = segment_path(0);
    after.fs.inject(Fault::new(SimOperation::Sync, Failure::Io).at_path(&first).times(1));
    assert_eq!(after.open().recovery_report().failed.len(), 1);
    let names = names_in(&after.fs, "/data/t-0");
    assert!(names.iter().any(|name| name == "failed-sync"), "{names:?}");
    assert!(!names.iter().any(|name| name.ends_with(".snapshot")), "{names:?}");
}

/// A log of two records before the recovery point, and four behind it of which the first is damaged, as
/// the next start finds it.
fn log_to_be_cut(seed: u64) -> TestDisk {
    let disk = TestDisk::new(seed).with_config(not_durable());
    let dir = disk.open();
    let log = disk.log(&dir);
    append_records(&log, 1, 900);
    append_records(&log, 1, 900);
    log.flush().wait().expect("the disk works");
    // Writes a checkpoint.
    log.delete_records_before(Offset(1)).wait().expect("the offset is in the log");
    let recovery_point_bytes = log.size_bytes();
    for _ in 0..4 {
        append_records(&log, 1, 900);
    }
    log.flush().wait().expect("the disk works");
    drop((log, dir));
    let disk = disk.kill();
    disk.fs.flip_bit(&segment_path(0), recovery_point_bytes + 500, 1).expect("it is there");
    disk
}

/// The process has cut the log, and is killed before the disk knows.
fn log_that_is_cut_in_the_page_cache(seed: u64) -> TestDisk {
    for change in 1.. {
        let disk = log_to_be_cut(seed);
        let size_bytes = file_len(&disk, &segment_path(0));
        disk.fs.crash_at_change(change);
        let _ = disk.try_open();
        let disk = disk.kill();
        if file_len(&disk, &segment_path(0)) < size_bytes {
            return disk;
        }
    }
    unreachable!("a start cuts the log")
}

#[test]
fn what_a_start_has_cut_off_does_not_come_back_if_it_is_killed_meanwhile() {
    for seed in 0..60 {
        let disk = log_that_is_cut_in_the_page_cache(seed);
        let dir = disk.open();
        let log = disk.log(&dir);
        assert_eq!(append_records(&log, 1, 900), Offset(2), "seed {seed}");
        drop((log, dir));
        let disk = disk.crash();
        let dir = disk.open();
        let end = disk.log(&dir).log_end_offset();
        assert!(end <= Offset(3), "seed {seed}: nothing was appended behind 3, but {end} is next");
    }
}

#[test]
fn a_restart_scans_only_from_the_last_full_segment_on() {
    let disk = TestDisk::new(1).with_config(small_segments());
    let dir = disk.open();
    let log = disk.log(&dir);
    for _ in 0..100 {
        append_records(&log, 1, 1000);
    }
    // Each writes a checkpoint, behind the sealing that is under way. One sealing may be, and one
    // more may wait for it: the third knows of both.
    for offset in 1..=3 {
        log.delete_records_before(Offset(offset)).wait().expect("the offset is in the log");
    }
    let size_bytes = log.size_bytes();
    drop(dir);
    let dir = disk.open();
    let report = dir.recovery_report();
    assert!(report.scanned_bytes < size_bytes / 4, "{} of {size_bytes}", report.scanned_bytes);
}

#[test]
fn a_restart_syncs_nothing_that_was_on_the_disk_at_the_last_checkpoint() {
    use logway_log::fs::sim::{Failure, Fault, SimOperation};
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    append_records(&log, 5, 1000);
    // Writes a checkpoint.
    log.delete_records_before(Offset(1)).wait().expect("the offset is in the log");
    drop(dir);
    for operation in [SimOperation::Sync, SimOperation::SyncDir] {
        disk.fs.inject(Fault::new(operation, Failure::Io).in_path("/t-0"));
    }
    let dir = disk.open();
    let report = dir.recovery_report();
    assert!(report.scanned_logs == 1 && report.failed.is_empty(), "{report:?}");
    drop(dir);

    disk.fs.heal();
    let dir = disk.open();
    append_records(&disk.log(&dir), 1, 1000);
    drop(dir);
    disk.fs.inject(Fault::new(SimOperation::Sync, Failure::Io).in_path("/t-0"));
    let dir = disk.open();
    assert_eq!(dir.recovery_report().failed.len(), 1, "what came since is synced");
}

#[test]
fn a_torn_tail_is_truncated_and_reported() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    append_records(&log, 3, 100);
    let whole_bytes = log.size_bytes();
    drop(dir);
    use logway_log::fs::{Fs, OpenMode};
    let file = disk.fs.open(&segment_path(0), OpenMode::ReadWrite).expect("it is there");
    let torn = batch(2, 100).bytes().slice(..150);
    file.write_all_at(&[std::io::IoSlice::new(&torn)], whole_bytes).expect("the disk works");

    let dir = disk.open();
    let report = dir.recovery_report();
    let [Finding::TailTruncated { kept_bytes, removed_bytes, .. }] = report.findings[..] else {
        panic!("{report:?}")
    };
    assert_eq!((kept_bytes, removed_bytes), (whole_bytes, 150));
    let log = disk.log(&dir);
    assert_eq!((log.log_end_offset(), log.size_bytes()), (Offset(3), whole_bytes));
    assert_eq!(append_records(&log, 1, 10), Offset(3));
}

#[test]
fn a_segment_that_a_start_removes_does_not_come_back() {
    use logway_log::fs::{Fs, OpenMode};
    for seed in 0..20 {
        let config = LogConfig { segment_bytes: 200, ..not_durable() };
        let disk = TestDisk::new(seed).with_config(config);
        let dir = disk.open();
        let log = disk.log(&dir);
        append_records(&log, 1, 150);
        append_records(&log, 1, 150);
        drop(dir);
        // As when the power goes before anything is synced but the second segment.
        disk.fs.remove_file(&segment_path(1).with_extension("snapshot")).expect("it was sealed");
        let first = disk.fs.open(&segment_path(0), OpenMode::ReadWrite).expect("it is there");
        first.set_len(0).expect("the disk works");
        first.sync_data().expect("the disk works");
        disk.fs.sync_dir(std::path::Path::new("/data/t-0")).expect("the disk works");

        let dir = disk.open();
        assert_eq!(disk.log(&dir).log_end_offset(), Offset(0));
        drop(dir);
        let names = names_in(&disk.crash().fs, "/data/t-0");
        let second = segment_path(1);
        let second = second.file_name().and_then(|name| name.to_str()).expect("our names are text");
        assert!(!names.iter().any(|name| name == second), "seed {seed}: {names:?}");
    }
}

#[test]
fn an_index_of_a_segment_that_a_crash_took_back_is_no_sign_of_a_loss() {
    let disk = TestDisk::new(1).with_config(small_segments());
    let dir = disk.open();
    append_records(&disk.log(&dir), 1, 3000);
    drop(dir);
    // As when the name of the index survived, and that of the segment did not.
    use logway_log::fs::{Fs, OpenMode};
    let stray = segment_path(1).with_extension("timeindex");
    disk.fs.open(&stray, OpenMode::CreateNew).expect("the disk works");

    let dir = disk.open();
    let log = disk.log(&dir);
    append_records(&log, 1, 100);
    append_records(&log, 1, 3000);
    assert_eq!(log.segment_count(), 2, "the second begins behind the stray index");
    dir.close().expect("it closes");
    let dir = disk.open();
    let report = dir.recovery_report();
    assert!(report.findings.is_empty(), "{report:?}");
}

#[test]
fn batches_of_an_earlier_life_behind_the_end_are_not_taken_for_its_own() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    append_records(&log, 3, 100);
    let whole_bytes = log.size_bytes();
    append_records(&log, 3, 100);
    append_records(&log, 3, 100);
    let all = read_batches(&log, Offset(0));
    drop(dir);
    // The second batch is gone, and the third is where it was.
    use logway_log::fs::{Fs, OpenMode};
    let file = disk.fs.open(&segment_path(0), OpenMode::ReadWrite).expect("it is there");
    file.set_len(whole_bytes).expect("the disk works");
    let third = std::io::IoSlice::new(all[2].bytes());
    file.write_all_at(&[third], whole_bytes).expect("the disk works");

    let dir = disk.open();
    let report = dir.recovery_report();
    assert!(matches!(report.findings[..], [Finding::TailTruncated { .. }]), "{report:?}");
    assert_eq!(disk.log(&dir).log_end_offset(), Offset(3));
}

#[test]
fn a_writer_that_panics_leaves_nobody_waiting() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    log.set_tail_listener(Arc::new(Panics));
    for _ in 0..2 {
        let error = append(&log, batch(1, 10)).expect_err("the writer is dead");
        assert!(matches!(error, LogError::Closed { .. }), "{error}");
    }
    dir.close().expect_err("the writer is dead");
    let dir = disk.open();
    assert!(!dir.recovery_report().was_clean);
    assert_eq!(disk.log(&dir).log_end_offset(), Offset(1));
    let nothing =
        disk.log(&dir).offset_for_timestamp(TimestampMs(i64::MAX), Offset(1), DecodeLimit::DEFAULT);
    assert_eq!(nothing.expect("the log is whole").found, None);
}

#[test]
fn a_batch_of_megabytes_survives_a_power_cut_that_tears_the_one_behind_it() {
    for seed in 0..20 {
        let disk = TestDisk::new(seed);
        let dir = disk.open();
        let log = disk.log(&dir);
        append_records(&log, 1, 1_500_000);
        disk.fs.hold_syncs();
        let torn = log.append(append_of(batch(1, 100_000)));
        disk.fs.wait_for_held_syncs(1);
        let fs = disk.fs.clone();
        let after = disk.crash();
        fs.release_syncs();
        drop((torn, log, dir));
        let log = after.log(&after.open());
        let found = read_batches(&log, Offset(0));
        assert!(!found.is_empty(), "seed {seed}: the acknowledged batch is gone");
        assert_eq!(found[0].header().record_count, 1, "seed {seed}");
    }
}
