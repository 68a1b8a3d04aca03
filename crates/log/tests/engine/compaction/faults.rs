//! Compaction of damaged logs, on disks that fail or fill, and with power cuts between its steps.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use logway_log::fs::sim::{Failure, Fault, SimOperation};
use logway_log::fs::{Fs, OpenMode, read_to_end};
use logway_log::{CleanerOptions, LogConfig, LogDir, LogDirOptions, LogError, NewLog};
use logway_model::Offset;
use logway_record::{BatchBuilder, Compression};

use super::{Bench, bench_with_old_values, compacted, contents, keyed, shown, wait_sealed};
use crate::support::*;

#[test]
fn a_damaged_batch_stops_the_compaction_of_its_partition_only() {
    let bench = Bench::new(compacted());
    let other = bench.disk.log_of(&bench.dir, 1);
    for log in [&bench.log, &other] {
        for value in ["1", "2"] {
            let batch = keyed(BatchBuilder::new(Compression::None), &[("a", Some(value))]);
            append(log, batch).expect("the disk works");
        }
        let filler = "x".repeat(2000);
        for _ in 0..2 {
            let batch = keyed(BatchBuilder::new(Compression::None), &[("filler", Some(&filler))]);
            append(log, batch).expect("the disk works");
        }
    }
    // The first byte of the second batch: its offset, which the CRC does not cover.
    bench.disk.fs.flip_bit(&segment_path(0), 70, 3).expect("it is there");
    wait_sealed(&bench.dir);
    let files = names_in(&bench.disk.fs, "/data/t-0");
    bench.clean();
    bench.clean();
    assert_eq!(contents(&other), shown(&[(1, "a", Some("2"))]));
    assert_eq!(bench.metrics.uncleanable_partitions(), 1);
    assert_eq!(bench.metrics.failed_rounds.get(), 1, "it is not tried again and again");
    assert_eq!(names_in(&bench.disk.fs, "/data/t-0"), files);
    // When what is damaged is gone, there is nothing in the way any more.
    bench.log.delete_records_before(Offset(3)).wait().expect("it is in the log");
    bench.put("b", Some("1"));
    bench.put("b", Some("2"));
    bench.roll();
    bench.clean();
    bench.clean();
    assert_eq!(bench.metrics.uncleanable_partitions(), 0);
    assert_eq!(bench.contents(), shown(&[(5, "b", Some("2"))]));
}

#[test]
fn the_damaged_end_of_a_segment_stays_where_it_is() {
    let bench = Bench::new(compacted());
    for value in ["1", "2"] {
        bench.put("a", Some(value));
    }
    bench.roll();
    bench.dir.close().expect("it closes");
    // In the second batch, behind which nothing good comes.
    bench.disk.fs.flip_bit(&segment_path(0), 100, 3).expect("it is there");
    remove(&bench.disk, Path::new("/data/recovery-point-offset-checkpoint"));
    let bytes_of = |disk: &TestDisk| {
        let file = disk.fs.open(&segment_path(0), OpenMode::Read).expect("it is there");
        read_to_end(&*file, 1 << 20).expect("it can be read")
    };
    let before = bytes_of(&bench.disk);
    let bench = Bench::on(bench.disk, CleanerOptions::default());
    assert!(!bench.dir.recovery_report().findings.is_empty());
    for value in ["3", "4"] {
        bench.put("a", Some(value));
        bench.roll();
    }
    bench.clean();
    assert_eq!(bytes_of(&bench.disk), before);
    assert_eq!(bench.metrics.uncleanable_partitions(), 1);
}

#[test]
fn a_disk_that_fills_leaves_the_log_as_it_was() {
    let bench = Bench::new(compacted());
    for value in ["1", "2", "3"] {
        bench.put("a", Some(value));
        bench.roll();
    }
    let before = bench.contents();
    let files = names_in(&bench.disk.fs, "/data/t-0");
    for operation in [SimOperation::Write, SimOperation::Open, SimOperation::Rename] {
        let full = Fault::new(operation, Failure::NoSpace).in_path(".cleaned");
        let full = if operation == SimOperation::Rename { full.in_path(".swap") } else { full };
        bench.disk.fs.inject(full);
        bench.clean();
        assert_eq!(bench.contents(), before);
        assert_eq!(names_in(&bench.disk.fs, "/data/t-0"), files, "{operation:?}");
        bench.disk.fs.heal();
        bench.disk.clock.advance(300_000);
    }
    assert!(bench.metrics.failed_rounds.get() > 0);
    // Little space left is for appends.
    bench.disk.fs.set_capacity_bytes(10 << 20);
    bench.clean();
    assert_eq!(bench.contents(), before);
    bench.put("b", Some("1"));
    let failed = bench.metrics.failed_rounds.get();
    bench.disk.fs.set_capacity_bytes(11 << 20);
    bench.clean();
    assert_eq!(bench.metrics.failed_rounds.get(), failed, "it is not tried again and again");
    bench.disk.clock.advance(300_000);
    bench.clean();
    assert_eq!(bench.metrics.failed_rounds.get(), failed + 1, "but now and then");
    assert_eq!(bench.contents().len(), 4);
    // When there is space again nobody waits for five minutes.
    bench.disk.fs.set_capacity_bytes(1 << 30);
    bench.clean();
    assert_eq!(bench.contents().len(), 2);
    bench.check_files();
}

#[test]
fn a_log_whose_beginning_cannot_be_read_counts_among_those_that_cannot_be_compacted() {
    let bench = bench_with_old_values().reopen();
    let fault = Fault::new(SimOperation::Read, Failure::Io).in_path("00000000000000000000.log");
    bench.disk.fs.inject(fault);
    bench.clean();
    assert_eq!(bench.metrics.uncleanable_partitions(), 1);
}

#[test]
fn a_device_that_takes_no_changes_of_the_cleaner_has_failed() {
    let is_told = |operation: SimOperation, part: &str| {
        let disk = bench_with_old_values().disk;
        let told = Arc::new(AtomicBool::new(false));
        let listener = {
            let told = Arc::clone(&told);
            move |_: &LogError| told.store(true, Ordering::SeqCst)
        };
        let options =
            LogDirOptions { failure_listener: Some(Arc::new(listener)), ..disk.options() };
        let dir = LogDir::open(options, disk.metrics.clone()).expect("it opens");
        let bench = Bench::of(disk, dir, CleanerOptions::default());
        bench.disk.fs.inject(Fault::new(operation, Failure::Io).in_path(part));
        bench.clean();
        assert_eq!(bench.metrics.uncleanable_partitions(), 1, "{operation:?} of {part}");
        told.load(Ordering::SeqCst)
    };
    assert!(is_told(SimOperation::Open, ".log.cleaned"));
    assert!(is_told(SimOperation::Write, ".log.cleaned"));
    assert!(is_told(SimOperation::Sync, ".log.cleaned"));
    assert!(is_told(SimOperation::Rename, ".log.swap"));
    assert!(!is_told(SimOperation::Read, "00000000000000000000.log"), "a place may be bad");
}

#[test]
fn who_aborts_a_directory_does_not_have_its_writer_wait_for_the_cleaner() {
    let bench = bench_with_old_values();
    bench.disk.fs.hold_syncs_in(".log.cleaned");
    let has_ended = std::thread::scope(|scope| {
        scope.spawn(|| bench.cleaner.clean_due());
        bench.disk.fs.wait_for_held_syncs(1);
        scope.spawn(|| bench.dir.abort());
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut has_ended = false;
        while !has_ended && Instant::now() < deadline {
            has_ended = bench.log.producers().wait().is_err();
        }
        bench.disk.fs.release_syncs();
        has_ended
    });
    assert!(has_ended);
    assert_eq!(bench.metrics.failed_rounds.get(), 0, "it was told to leave");
}

#[test]
fn a_swap_that_cannot_be_finished_is_finished_later() {
    let bench = Bench::new(LogConfig { segment_bytes: 2500, ..compacted() });
    for value in ["1", "2", "3"] {
        bench.put("a", Some(value));
        bench.roll();
    }
    let before = bench.contents();
    // The last step: the cleaned segment gets its name.
    let fault = Fault::new(SimOperation::Rename, Failure::Io).in_path("00000000000000000000.log");
    bench.disk.fs.inject(fault.after(1));
    bench.clean();
    assert_eq!(bench.contents(), before, "readers have what they had");
    // What lies before the log start goes only when the replacement is done.
    bench.log.delete_records_before(Offset(1)).wait().expect("it is in the log");
    bench.disk.fs.heal();
    wait_sealed(&bench.dir);
    wait_sealed(&bench.dir);
    assert!(bench.contents().len() < before.len());
    bench.clean();
    assert_eq!(bench.contents().len(), 1);
    bench.check_files();
    let bench = bench.reopen();
    assert_eq!(bench.contents().len(), 1);
}

#[test]
fn a_log_whose_files_cannot_be_opened_for_want_of_descriptors_is_cleaned_later() {
    let bench = bench_with_old_values().reopen();
    let fault = Fault::new(SimOperation::Open, Failure::NoDescriptors).in_path("t-0");
    bench.disk.fs.inject(fault);
    bench.clean();
    bench.disk.fs.heal();
    bench.clean();
    assert_eq!(bench.metrics.uncleanable_partitions(), 0);
    assert_eq!(bench.contents(), shown(&[(6, "a", Some("3"))]));
}

/// Its name is there, and a start would finish it: it must not be left behind by a log that becomes
/// another.
#[test]
fn a_swap_that_has_its_name_is_finished_although_descriptors_ran_out() {
    let bench = bench_with_old_values();
    bench.log.set_config(Arc::new(LogConfig { segment_bytes: 1 << 20, ..compacted() }));
    // The first sync is for the names of the cleaned files, the second for the one that counts.
    let fault = Fault::new(SimOperation::SyncDir, Failure::NoDescriptors).in_path("t-0");
    bench.disk.fs.inject(fault.after(1).times(1));
    bench.clean();
    assert!(bench.metrics.failed_rounds.get() > 0, "the fault was met");
    bench.log.set_config(Arc::new(compacted()));
    for value in ["4", "5"] {
        bench.put("a", Some(value));
        bench.roll();
    }
    bench.clean();
    let newest = shown(&[(12, "a", Some("5"))]);
    assert_eq!(bench.contents(), newest);
    bench.check_files();
    let bench = bench.reopen();
    assert_eq!(bench.contents(), newest);
}

#[test]
fn a_deletion_that_could_not_write_down_what_is_clean_does_so_when_it_is_tried_again() {
    let bench = bench_with_old_values();
    bench.clean();
    let fault = Fault::new(SimOperation::Write, Failure::Io).in_path("cleaner-offset");
    bench.disk.fs.inject(fault.times(1));
    bench.dir.delete_log(&partition(0)).expect_err("it cannot be written");
    let config = Arc::new(compacted());
    let new = NewLog { partition: partition(0), topic_id: topic_id(), config };
    let log = bench.dir.try_again(&new).expect("the old one is gone");
    let bench = Bench { log, ..bench };
    bench.put_old_values();
    let bench = bench.reopen();
    bench.clean();
    assert_eq!(bench.contents(), shown(&[(6, "a", Some("3"))]));
}

#[test]
fn a_failed_sync_of_the_directory_while_a_log_is_cleaned_poisons_it() {
    // The first sync is for the names of the cleaned files, the second for what counts then.
    for passes in 0..2 {
        let bench = bench_with_old_values();
        let fault = Fault::new(SimOperation::SyncDir, Failure::Io).in_path("t-0");
        bench.disk.fs.inject(fault.after(passes).times(1));
        bench.clean();
        let batch = keyed(BatchBuilder::new(Compression::None), &[("b", Some("1"))]);
        let error = append(&bench.log, batch).expect_err("names in the directory may be lost");
        assert!(matches!(error, LogError::Poisoned { .. }), "after {passes}: {error}");
    }
}

/// A start takes a gap behind what it knows to have been on stable storage for the place where a crash
/// has cut the log off. Snapshots say that, too, while they are there.
#[test]
fn nothing_is_cleaned_behind_the_recovery_point_that_is_written_down() {
    let bench = Bench::new(compacted());
    bench.put("b", Some("1"));
    bench.clean();
    let full = Fault::new(SimOperation::Write, Failure::NoSpace).in_path("recovery-point");
    bench.disk.fs.inject(full);
    let filler = "x".repeat(2000);
    for value in ["1", "2", "3"] {
        for key in ["a", "a", value] {
            bench.put(key, Some(value));
        }
        bench.put("filler", Some(&filler));
    }
    let last = bench.put("c", Some("1"));
    for _ in 0..3 {
        bench.dir.enforce_retention().wait().expect_err("the checkpoint cannot be written");
    }
    bench.cleaner.clean_due();
    let Bench { disk, dir, log, cleaner, .. } = bench;
    let disk = disk.crash();
    drop((dir, log, cleaner));
    for name in names_in(&disk.fs, "/data/t-0") {
        if name.ends_with(".snapshot") {
            remove(&disk, &Path::new("/data/t-0").join(name));
        }
    }
    let bench = Bench::on(disk, CleanerOptions::default());
    let newest = (last.0, "c".to_owned(), Some("1".to_owned()));
    assert_eq!(bench.contents().last(), Some(&newest), "{:?}", bench.dir.recovery_report());
}

/// A log has its recovery point within the segment that grows, and before that one from when it is full
/// until it is sealed. A checkpoint of then may be written late.
#[test]
fn a_recovery_point_that_goes_back_keeps_a_cleaned_segment_from_its_place() {
    let bench = Bench::new(compacted());
    // The next checkpoint, which is due in a second, would have it go on again.
    bench.disk.clock.stop_timers();
    let other = bench.disk.log_of(&bench.dir, 1);
    bench.put("a", Some("1"));
    bench.put("a", Some("2"));
    wait_sealed(&bench.dir);
    // While the writer is busy, a record comes that finds no room in the segment, and a checkpoint is
    // wanted.
    bench.disk.fs.hold_syncs_in("t-1/");
    let busy = other.append(append_of(keyed(BatchBuilder::new(Compression::None), &[("b", None)])));
    bench.disk.fs.wait_for_held_syncs(1);
    bench.disk.fs.hold_renames_in("recovery-point-offset-checkpoint");
    let filler =
        keyed(BatchBuilder::new(Compression::None), &[("filler", Some(&"x".repeat(2000)))]);
    let filler = bench.log.append(append_of(filler));
    let checkpoint = bench.dir.enforce_retention();
    bench.disk.fs.release_syncs();
    bench.disk.fs.wait_for_held_renames(1);
    // The writer knows by now that the segment is sealed.
    bench.log.producers().wait().expect("the writer lives");
    bench.disk.fs.hold_syncs_in(".log.cleaned");
    std::thread::scope(|scope| {
        scope.spawn(|| bench.cleaner.clean_due());
        bench.disk.fs.wait_for_held_syncs(1);
        bench.disk.fs.release_renames();
        checkpoint.wait().expect("the disk works");
        bench.disk.fs.release_syncs();
    });
    assert_eq!(bench.contents().len(), 2, "the next start scans the segment");
    for append in [busy, filler] {
        append.wait().expect("the disk works");
    }
    bench.clean();
    assert_eq!(bench.contents(), shown(&[(1, "a", Some("2"))]));
    assert_eq!(bench.metrics.failed_rounds.get(), 0);
    bench.check_files();
}

/// A disk on which a cleaned segment is to take the place of several, but the name that says so may
/// be in the page cache alone: the process has ended, the machine has not.
fn disk_with_unsynced_swap(seed: u64) -> TestDisk {
    let disk = TestDisk::new(seed).with_config(compacted());
    let bench = Bench::on(disk, CleanerOptions::default());
    bench.put_old_values();
    bench.log.set_config(Arc::new(LogConfig { segment_bytes: 1 << 20, ..compacted() }));
    let fault = Fault::new(SimOperation::SyncDir, Failure::Io).in_path("t-0");
    bench.disk.fs.inject(fault.after(1).times(1));
    bench.clean();
    bench.disk
}

/// As [`disk_with_unsynced_swap`], because the process was killed right before the sync.
fn disk_of_killed_swap(seed: u64) -> TestDisk {
    for change in 1.. {
        let disk = TestDisk::new(seed).with_config(compacted());
        let bench = Bench::on(disk, CleanerOptions::default());
        bench.put_old_values();
        bench.log.set_config(Arc::new(LogConfig { segment_bytes: 1 << 20, ..compacted() }));
        wait_sealed(&bench.dir);
        bench.disk.fs.crash_at_change(change);
        bench.cleaner.clean_due();
        let disk = bench.disk.kill();
        if names_in(&disk.fs, "/data/t-0").iter().any(|name| name.ends_with(".swap")) {
            return disk;
        }
    }
    unreachable!("compaction ends with a swap")
}

#[test]
fn a_swap_whose_name_is_not_on_the_disk_is_finished_so_that_it_is() {
    for disk_with_swap in [disk_with_unsynced_swap, disk_of_killed_swap] {
        check_finished(disk_with_swap);
    }
}

fn check_finished(disk_with_unsynced_swap: fn(u64) -> TestDisk) {
    let disk = disk_with_unsynced_swap(0);
    let before = disk.fs.changes();
    drop(disk.open());
    let changes = disk.fs.changes() - before;
    assert!(!names_in(&disk.fs, "/data/t-0").iter().any(|name| name.ends_with(".swap")));
    for crash_at in 1..=changes {
        let disk = disk_with_unsynced_swap(crash_at);
        disk.fs.crash_at_change(crash_at);
        let _ = disk.try_open();
        let disk = disk.crash();
        let dir = disk.open();
        let report = dir.recovery_report();
        let is_whole = report.findings.is_empty() && report.failed.is_empty();
        assert!(is_whole, "power cut at change {crash_at}: {report:?}");
        let found = contents(&disk.log(&dir));
        let newest = found.last().map(|(offset, ..)| *offset);
        assert_eq!(newest, Some(6), "power cut at change {crash_at}: {found:?}");
    }
}

#[test]
fn a_disk_too_full_to_say_what_is_clean_costs_work_and_nothing_else() {
    let bench = bench_with_old_values();
    let full = Fault::new(SimOperation::Write, Failure::NoSpace).in_path("cleaner-offset");
    bench.disk.fs.inject(full);
    bench.clean();
    assert_eq!(bench.contents(), shown(&[(6, "a", Some("3"))]));
    // What is clean is known all the same, until the next start.
    let cleaned_bytes = bench.metrics.cleaned_bytes.get();
    bench.clean();
    assert_eq!(bench.metrics.cleaned_bytes.get(), cleaned_bytes);
    bench.disk.fs.heal();
    let bench = bench.reopen();
    bench.put("a", Some("4"));
    bench.roll();
    bench.clean();
    assert_eq!(bench.contents(), shown(&[(9, "a", Some("4"))]));
    bench.check_files();
}

#[test]
fn a_compacted_log_is_deleted_on_a_full_disk() {
    let bench = bench_with_old_values();
    bench.clean();
    let full = Fault::new(SimOperation::Write, Failure::NoSpace).in_path("cleaner-offset");
    bench.disk.fs.inject(full);
    bench.dir.delete_log(&partition(0)).expect("that takes no space");
    bench.disk.fs.heal();
    // The next of its name is not taken for clean.
    let log = bench.disk.log(&bench.dir);
    let bench = Bench { log, ..bench };
    bench.put_old_values();
    bench.clean();
    assert_eq!(bench.contents(), shown(&[(6, "a", Some("3"))]));
}

/// What lies before a log start that no checkpoint has yet is back after a power cut: a tombstone behind
/// it must not be gone.
#[test]
fn compaction_waits_until_the_log_start_that_it_builds_upon_is_on_the_disk() {
    let bench = Bench::new(compacted());
    bench.put("a", Some("1"));
    bench.roll();
    let tombstone = bench.put("a", None);
    bench.roll();
    bench.roll();
    wait_sealed(&bench.dir);
    let before = bench.contents();
    let full = Fault::new(SimOperation::Rename, Failure::NoSpace);
    bench.disk.fs.inject(full.in_path("log-start-offset-checkpoint"));
    bench.log.delete_records_before(tombstone).wait().expect_err("it cannot be written down");
    assert_eq!(bench.log.log_start_offset(), tombstone);
    for _ in 0..3 {
        bench.cleaner.clean_due();
        bench.disk.clock.advance(5_000);
    }
    let Bench { disk, dir, log, cleaner, .. } = bench;
    let disk = disk.crash();
    drop((cleaner, log, dir));
    let bench = Bench::on(disk, CleanerOptions::default());
    assert_eq!(bench.contents(), before);
    // Nothing is in the way any more.
    for _ in 0..3 {
        bench.clean();
        bench.disk.clock.advance(5_000);
    }
    assert_eq!(bench.contents(), []);
    bench.check_files();
}

/// A crash while an index was made anew leaves a part of it.
#[test]
fn a_segment_whose_index_is_torn_is_compacted() {
    let bench = bench_with_old_values();
    let Bench { disk, dir, log, cleaner, .. } = bench;
    dir.close().expect("it closes");
    drop((cleaner, log, dir));
    for extension in ["index", "timeindex"] {
        let path = segment_path(0).with_extension(extension);
        let file = disk.fs.open(&path, OpenMode::CreateOrOpen).expect("the disk works");
        file.set_len(5).expect("the disk works");
    }
    let bench = Bench::on(disk, CleanerOptions::default());
    bench.clean();
    assert_eq!(bench.metrics.failed_rounds.get(), 0);
    assert_eq!(bench.contents().len(), 1);
    bench.check_files();
}
