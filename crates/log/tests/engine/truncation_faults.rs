//! What else is under way, or fails, while the end of a log is cut off.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use logway_log::fs::sim::{Failure, Fault, SimOperation};
use logway_log::inspect::verify;
use logway_log::{
    AppendBatches, CleanerMetrics, CleanerOptions, CleanupPolicy, Finding, Log, LogCleaner,
    LogConfig, LogDir, LogError,
};
use logway_model::{LeaderEpoch, Offset, TimestampMs};
use logway_record::{Batch, BatchBuilder, Batches, Compression, DecodeLimit};

use crate::compaction::{keyed, wait_sealed};
use crate::following::{follow, led, parse};
use crate::support::*;

const FOLLOWED: LeaderEpoch = LeaderEpoch(7);

fn twos(from: i64, to: i64, epoch: i32) -> Vec<Batch> {
    (from..to).step_by(2).map(|offset| led(offset, epoch, 2)).collect()
}

/// A log of 40 records in small segments.
fn log_of_40(disk: &TestDisk) -> (LogDir, Arc<Log>) {
    let dir = disk.open();
    let log = disk.log(&dir);
    for batches in twos(0, 40, 2).chunks(4) {
        follow(&dir, &log, batches).wait().expect("is appended");
    }
    (dir, log)
}

fn small() -> LogConfig {
    LogConfig { segment_bytes: 500, ..small_segments() }
}

fn offsets(log: &Log) -> (i64, i64) {
    (log.log_start_offset().0, log.log_end_offset().0)
}

/// Tries until nothing is under way any more.
fn until_done(mut truncate: impl FnMut() -> Result<Offset, LogError>) -> Offset {
    let began = Instant::now();
    loop {
        match truncate() {
            Ok(end) => return end,
            Err(LogError::Busy { .. }) => {
                assert!(began.elapsed() < Duration::from_secs(30), "it is tried again by itself");
                thread::yield_now();
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn of_an_error_before_anything_is_cut_off_the_log_is_as_it_was() {
    let faults = [
        Fault::new(SimOperation::Write, Failure::Io).in_path("recovery-point-offset-checkpoint"),
        Fault::new(SimOperation::ReadDir, Failure::Io).in_path("/t-0"),
        Fault::new(SimOperation::Write, Failure::Io).in_path("segment-lists"),
    ];
    for fault in faults {
        let disk = TestDisk::new(1).with_config(small());
        let (dir, log) = log_of_40(&disk);
        dir.close().expect("it closes");
        let dir = disk.open();
        let log = {
            drop(log);
            disk.log(&dir)
        };
        disk.fs.inject(fault.times(1));
        let failed = dir.truncate_to(&log, Offset(14), FOLLOWED);
        assert!(matches!(failed, Err(LogError::Io { .. })), "{failed:?}");
        assert_eq!(offsets(&log), (0, 40));
        assert_eq!(read_batches(&log, Offset(0)), twos(0, 40, 2));
        follow(&dir, &log, &twos(40, 44, 2)).wait().expect("it takes appends");
        assert_eq!(dir.truncate_to(&log, Offset(14), FOLLOWED).expect("is cut"), Offset(14));
        follow(&dir, &log, &twos(14, 20, 3)).wait().expect("it takes appends");
        drop((log, dir));
        let disk = disk.crash();
        let dir = disk.open();
        assert_eq!(offsets(&disk.log(&dir)), (0, 20));
    }
}

/// The recovery point of a log whose leader epochs cannot be written does not move, but down.
#[test]
fn leader_epochs_that_cannot_be_written_do_not_keep_the_recovery_point_up() {
    for seed in 0..10 {
        let disk = TestDisk::new(seed).with_config(small());
        let (dir, log) = log_of_40(&disk);
        dir.close().expect("it closes");
        drop(log);
        let dir = disk.open();
        let log = disk.log(&dir);
        follow(&dir, &log, &twos(40, 44, 3)).wait().expect("is appended");
        let name = "leader-epoch-checkpoint";
        disk.fs.inject(Fault::new(SimOperation::Write, Failure::Io).in_path(name));
        assert_eq!(dir.truncate_to(&log, Offset(14), FOLLOWED).expect("is cut"), Offset(14));
        drop((log, dir));
        let disk = disk.crash();
        let dir = disk.open();
        assert!(dir.recovery_report().findings.is_empty(), "{:?}", dir.recovery_report());
        assert_eq!(offsets(&disk.log(&dir)), (0, 14));
    }
}

#[test]
fn what_finds_no_space_or_descriptor_is_tried_again() {
    for failure in [Failure::NoSpace, Failure::NoDescriptors] {
        // The new segment, where it is made first and where last.
        for (end, name) in [(14, "00000000000000000014.log"), (16, "00000000000000000016.log")] {
            let disk = TestDisk::new(1).with_config(small());
            let (dir, log) = log_of_40(&disk);
            // Nobody else opens it any more.
            wait_sealed(&dir);
            let fault = Fault::new(SimOperation::Open, failure).in_path(name);
            disk.fs.inject(fault.times(1));
            let failed = dir.truncate_to(&log, Offset(end), FOLLOWED);
            assert!(matches!(failed, Err(LogError::Io { .. })), "{failed:?}");
            assert_eq!(until_done(|| dir.truncate_to(&log, Offset(end), FOLLOWED)), Offset(end));
            follow(&dir, &log, &twos(end, end + 4, 3)).wait().expect("it takes appends");
            drop((log, dir));
            let disk = disk.crash();
            let dir = disk.open();
            assert_eq!(offsets(&disk.log(&dir)), (0, end + 4));
        }
    }
}

/// The log is where it is to be, but the disk does not know yet where it starts.
#[test]
fn a_log_that_starts_anew_takes_nothing_before_that_is_written_down() {
    let disk = TestDisk::new(1).with_config(small());
    let (dir, log) = log_of_40(&disk);
    log.delete_records_before(Offset(21)).wait().expect("they go");
    let name = "log-start-offset-checkpoint";
    disk.fs.inject(Fault::new(SimOperation::Write, Failure::Io).in_path(name).after(1).times(1));
    let failed = dir.truncate_fully_and_start_at(&log, Offset(7), FOLLOWED);
    assert!(matches!(failed, Err(LogError::Io { .. })), "{failed:?}");
    let refused = follow(&dir, &log, &twos(7, 9, 3)).wait();
    assert!(matches!(refused, Err(LogError::Busy { .. })), "{refused:?}");
    let end = until_done(|| dir.truncate_fully_and_start_at(&log, Offset(7), FOLLOWED));
    assert_eq!(end, Offset(7));
    follow(&dir, &log, &twos(7, 11, 3)).wait().expect("it takes appends");
    drop((log, dir));
    let disk = disk.crash();
    let dir = disk.open();
    assert_eq!(offsets(&disk.log(&dir)), (7, 11));
}

#[test]
fn of_a_sync_that_fails_nobody_knows_what_it_has_left() {
    for (operation, part) in
        [(SimOperation::Sync, "/t-0/00000000000000000008.log"), (SimOperation::SyncDir, "/t-0")]
    {
        for seed in 0..10 {
            let disk = TestDisk::new(seed).with_config(small());
            let (dir, log) = log_of_40(&disk);
            disk.fs.inject(Fault::new(operation, Failure::Io).in_path(part).times(1));
            let failed = dir.truncate_to(&log, Offset(14), FOLLOWED);
            assert!(matches!(failed, Err(LogError::Poisoned { .. })), "{failed:?}");
            let refused = follow(&dir, &log, &twos(14, 16, 3)).wait();
            assert!(matches!(refused, Err(LogError::Poisoned { .. })), "{refused:?}");
            log.flush().wait().expect_err("it is poisoned");
            // What is before the cut is read, and the checkpoint says no more than that.
            let visible = log.log_end_offset().0;
            assert!(visible == 14 || visible == 40, "seed {seed}: it ends at {visible}");
            assert!(read_batches(&log, Offset(0)) == twos(0, visible, 2), "seed {seed}");
            dir.enforce_retention().wait().expect("a checkpoint is written");
            drop((log, dir));
            let disk = if seed % 2 == 0 { disk.crash() } else { disk.kill() };
            let dir = disk.open();
            let log = disk.log(&dir);
            let end = log.log_end_offset().0;
            assert!(end == 14 || end == 40, "seed {seed}: it ends at {end}");
            assert_eq!(read_batches(&log, Offset(0)), twos(0, end, 2));
        }
    }
}

/// The space of the journal is used again, also if it had records of what is cut off.
#[test]
fn the_journal_goes_on() {
    const JOURNAL_BYTES: u64 = 64 << 10;
    let mut disk = TestDisk::new(1);
    disk.journal_bytes = JOURNAL_BYTES;
    let dir = disk.open();
    let logs: Vec<Arc<Log>> = (0..3).map(|number| disk.log_of(&dir, number)).collect();
    let append = |which: &[usize], offset: i64| {
        let batches = twos(offset, offset + 2, 2);
        let appends = which.iter().map(|&it| (Arc::clone(&logs[it]), parse(&batches, FOLLOWED)));
        for answer in dir.append_followed(appends.collect()) {
            answer.wait().expect("is appended");
        }
    };
    let mut offset = 0;
    while disk.metrics.journal_rounds.get() == 0 {
        append(&[0, 1, 2], offset);
        offset += 2;
    }
    dir.truncate_to(&logs[0], Offset(0), FOLLOWED).expect("is cut");
    // The first log gets nothing more. An entry is a block at least.
    let (rounds, entries) = (disk.metrics.journal_rounds.get(), JOURNAL_BYTES / 4096);
    let began = Instant::now();
    while disk.metrics.journal_rounds.get() < rounds + 4 * entries {
        append(&[1, 2], offset);
        offset += 2;
        assert!(began.elapsed() < Duration::from_secs(60), "a half is never used again");
    }
}

/// What comes in the place of what was compacted has not been compacted.
#[test]
fn what_comes_behind_a_cut_is_compacted_anew() {
    let config = LogConfig {
        cleanup: CleanupPolicy::Compact,
        min_cleanable_dirty_ratio: 0.0,
        segment_bytes: 2000,
        ..small_segments()
    };
    let disk = TestDisk::new(1).with_config(config);
    let dir = Arc::new(disk.open());
    let log = disk.log(&dir);
    let cleaner = LogCleaner::new(CleanerOptions::default(), CleanerMetrics::new());
    cleaner.watch(&dir);
    let clean = || {
        wait_sealed(&dir);
        cleaner.clean_due();
    };
    let value = "v".repeat(300);
    let put = |key: &str| {
        let batch = keyed(BatchBuilder::new(Compression::None), &[(key, Some(&value))]);
        let batches = AppendBatches::new(vec![batch], FOLLOWED);
        log.append(batches).wait().expect("is appended")
    };
    (0..60).for_each(|_| _ = put("old"));
    clean();
    let cut = dir.truncate_to(&log, Offset(6), FOLLOWED).expect("is cut").0;
    // One key up to where the log was compacted, and others behind it.
    (cut..50).for_each(|_| _ = put("new"));
    (0..40).for_each(|number| _ = put(&format!("other-{number}")));
    clean();
    let records = read_records(&log, log.log_start_offset());
    let left = records.iter().filter(|record| record.key.as_deref() == Some(&b"new"[..])).count();
    assert_eq!(left, 1, "of one key the newest record stays");
}

/// A stop in good order leaves a snapshot of the producers as of the end of the log. It says that all
/// before is sealed, which is no longer so of a segment that has grown since and was cut off there.
#[test]
fn a_snapshot_as_of_the_cut_does_not_vouch_for_the_segment() {
    for seed in 0..40 {
        let config = LogConfig { index_interval_bytes: 1, ..small_segments() };
        let disk = TestDisk::new(seed).with_config(config);
        let dir = disk.open();
        let log = disk.log(&dir);
        let at = |offset: i64| led_at(offset, NOW_MS + offset);
        let append = |dir: &LogDir, log: &Arc<Log>, from: i64, to: i64| {
            let batches: Vec<Batch> = (from..to).map(at).collect();
            for batches in batches.chunks(10) {
                follow(dir, log, batches).wait().expect("is appended");
            }
        };
        append(&dir, &log, 0, 14);
        dir.close().expect("it closes");
        let dir = disk.open();
        let log = disk.log(&dir);
        append(&dir, &log, 14, 200);
        wait_sealed(&dir);
        assert!(log.segment_count() > 2);
        disk.fs.hold_syncs_in("index");
        dir.truncate_to(&log, Offset(14), FOLLOWED).expect("is cut");
        let crashed = disk.fs.crash();
        disk.fs.release_syncs();
        drop((log, dir));
        let disk = TestDisk { fs: crashed, ..disk };
        let dir = disk.open();
        let log = disk.log(&dir);
        assert_eq!(offsets(&log), (0, 14));
        let end = Offset(i64::MAX);
        let latest = log.max_timestamp_offset(end, DecodeLimit::DEFAULT).expect("is found");
        assert_eq!(latest.found.map(|found| found.offset), Some(Offset(13)), "seed {seed}");
        dir.close().expect("it closes");
        let mut problems = Vec::new();
        verify(&disk.fs, Path::new("/data/t-0"), |problem| problems.push(problem))
            .expect("is read");
        assert_eq!(problems, [], "seed {seed}");
    }
}

fn led_at(offset: i64, time_ms: i64) -> Batch {
    let mut builder =
        BatchBuilder::new(Compression::None).with_assignment(Offset(offset), LeaderEpoch(2));
    builder.append(TimestampMs(time_ms), None, Some(b"v"), &[]).expect("fits");
    Batch::parse(builder.finish().expect("fits")).expect("is whole")
}

/// The process ends while the end of a log has yet to be cut off.
#[test]
fn a_stop_does_not_vouch_for_a_log_that_is_half_cut_off() {
    let disk = TestDisk::new(1).with_config(small());
    let (dir, log) = log_of_40(&disk);
    let new = "00000000000000000016.log";
    disk.fs.inject(Fault::new(SimOperation::Open, Failure::NoSpace).in_path(new));
    let failed = dir.truncate_to(&log, Offset(16), FOLLOWED);
    assert!(matches!(failed, Err(LogError::Io { .. })), "{failed:?}");
    dir.close().expect_err("nobody knows what the disk has");
    disk.fs.heal();
    drop(log);
    let dir = disk.open();
    assert!(!dir.recovery_report().was_clean);
    let is_cut = |finding: &Finding| matches!(finding, Finding::SegmentRemoved { .. });
    assert!(dir.recovery_report().findings.iter().all(is_cut), "{:?}", dir.recovery_report());
    let log = disk.log(&dir);
    assert_eq!(offsets(&log), (0, 16));
    assert!(read_batches(&log, Offset(0)) == twos(0, 16, 2));
}

/// Whoever reads while ends are cut off reads one log or the other, and no damage.
#[test]
fn who_reads_meanwhile_reads_no_mixture() {
    let disk = TestDisk::new(1).with_config(LogConfig { flush_messages: u64::MAX, ..small() });
    let (dir, log) = log_of_40(&disk);
    let is_over = AtomicBool::new(false);
    let read = |seed| {
        let mut random = Random::new(seed);
        let mut batches_read = 0;
        while !is_over.load(Ordering::Relaxed) {
            let from = Offset(random.below(40) as i64);
            let slice = match log.read(everything_from(from)) {
                Ok(slice) => slice,
                Err(LogError::OffsetOutOfRange { .. }) => continue,
                Err(error) => panic!("{error}"),
            };
            let next_offset = slice.next_offset;
            // The end of a file that was cut off.
            let Ok(bytes) = slice.read() else { continue };
            let (mut next, mut epoch) = (None, 0);
            for batch in Batches::new(bytes) {
                let batch = batch.expect("is whole");
                let header = batch.header();
                assert!(next.is_none_or(|next| next == header.base_offset), "{batch:?}");
                assert!(header.leader_epoch.0 >= epoch, "{batch:?} is behind epoch {epoch}");
                (next, epoch) = (Some(header.next_offset()), header.leader_epoch.0);
                assert_eq!(batch, led(header.base_offset.0, epoch, 2));
                batches_read += 1;
            }
            assert!(next.is_none_or(|next| next == next_offset), "{next:?} and {next_offset}");
        }
        batches_read
    };
    thread::scope(|scope| {
        let readers: Vec<_> = (0..2).map(|seed| scope.spawn(move || read(seed))).collect();
        let mut random = Random::new(9);
        for round in 0..150 {
            let epoch = LeaderEpoch(10 + round);
            let end = log.log_end_offset().0;
            let to = Offset(random.below(end as usize + 1) as i64);
            let end = dir.truncate_to(&log, to, epoch).expect("is cut");
            let batches = twos(end.0, 40, epoch.0);
            if !batches.is_empty() {
                let appends = vec![(Arc::clone(&log), parse(&batches, epoch))];
                dir.append_followed(appends).remove(0).wait().expect("is appended");
            }
        }
        is_over.store(true, Ordering::Relaxed);
        for reader in readers {
            assert!(reader.join().expect("does not panic") > 0);
        }
    });
}
