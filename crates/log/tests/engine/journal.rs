//! Rounds that are put on stable storage by the journal.

use std::path::Path;
use std::sync::Arc;

use logway_log::checkpoint::clean_shutdown;
use logway_log::fs::Fs;
use logway_log::fs::sim::{Failure, Fault, Rng, SimOperation};
use logway_log::inspect::{Access, DataDir, Problem};
use logway_log::{
    AppendFuture, CleanerMetrics, CleanerOptions, CleanupPolicy, Finding, Log, LogCleaner,
    LogConfig, LogDir, LogError, NewLog,
};
use logway_model::{Offset, TimestampMs};
use logway_record::{Batch, BatchBuilder, Compression};

use crate::support::*;

const LOGS: i32 = 3;

fn disk_with_journal(seed: u64, journal_bytes: u64) -> TestDisk {
    TestDisk { journal_bytes, ..TestDisk::new(seed) }
}

fn logs_of(disk: &TestDisk, dir: &LogDir) -> Vec<Arc<Log>> {
    (0..LOGS).map(|number| disk.log_of(dir, number)).collect()
}

/// Appends to a log until a round of it was journalled.
fn append_until_journalled(disk: &TestDisk, log: &Log) {
    let before = disk.metrics.journal_rounds.get();
    for _ in 0..10_000 {
        append_records(log, 1, 50);
        if disk.metrics.journal_rounds.get() > before {
            return;
        }
    }
    panic!("no round is journalled");
}

/// A directory whose logs all have records that only the journal vouches for.
fn journalled(seed: u64, journal_bytes: u64) -> (TestDisk, LogDir, Vec<Arc<Log>>) {
    let disk = disk_with_journal(seed, journal_bytes);
    let dir = disk.open();
    let logs = logs_of(&disk, &dir);
    for log in &logs {
        append_until_journalled(&disk, log);
    }
    (disk, dir, logs)
}

fn ends_of(logs: &[Arc<Log>]) -> Vec<Offset> {
    logs.iter().map(|log| log.log_end_offset()).collect()
}

fn has_file(disk: &TestDisk, name: &str) -> bool {
    disk.fs.exists(&Path::new("/data").join(name)).expect("the disk works")
}

/// What a crash leaves is what was acknowledged and whole.
fn check_logs(disk: &TestDisk, ends: &[Offset], what: &str) {
    let dir = disk.open();
    let report = dir.recovery_report();
    let damage = |finding: &&Finding| {
        !matches!(finding, Finding::TailTruncated { .. } | Finding::SegmentRemoved { .. })
    };
    assert!(report.failed.is_empty(), "{what}: {report:?}");
    assert!(report.findings.iter().find(damage).is_none(), "{what}: {report:?}");
    for (log, &end) in logs_of(disk, &dir).iter().zip(ends) {
        let name = log.topic_partition();
        assert!(log.log_end_offset() >= end, "{what}: {name} ends at {}", log.log_end_offset());
        read_batches(log, log.log_start_offset());
    }
    assert!(!has_file(disk, "journal"), "{what}: all of it is redone");
}

fn large_batch() -> Batch {
    batch(1, 100_000)
}

#[test]
fn a_power_cut_loses_nothing_that_only_the_journal_vouches_for() {
    for seed in 0..40 {
        let (disk, dir, logs) = journalled(seed, 256 << 10);
        for (number, log) in logs.iter().cycle().take(20).enumerate() {
            append_records(log, 1 + number % 3, 20 + 100 * (number % 5));
        }
        let (ends, disk) = (ends_of(&logs), disk.crash());
        drop((logs, dir));
        check_logs(&disk, &ends, &format!("seed {seed}"));
        // The start has put it where it belongs.
        check_logs(&disk.crash(), &ends, &format!("seed {seed}, again"));
    }
}

/// A directory whose journal cannot be opened for writes past the page cache, or not be written so.
fn not_direct(fault: Fault) -> (TestDisk, LogDir, Vec<Arc<Log>>) {
    let disk = disk_with_journal(1, 256 << 10);
    let dir = disk.open();
    let logs = logs_of(&disk, &dir);
    // It is opened to be filled, with one write.
    disk.fs.inject(fault.in_path("/data/journal").after(1));
    (disk, dir, logs)
}

#[test]
fn a_file_system_that_writes_through_the_page_cache_only_has_a_journal_all_the_same() {
    let faults = [
        Fault::new(SimOperation::Open, Failure::Invalid),
        Fault::new(SimOperation::Write, Failure::Invalid).times(1),
    ];
    for fault in faults {
        let what = format!("{fault:?}");
        let (disk, dir, logs) = not_direct(fault);
        append_until_journalled(&disk, &logs[0]);
        // Any address in memory will do.
        for log in logs.iter().cycle().take(20) {
            append_records(log, 3, 77);
        }
        assert_eq!(disk.metrics.journal_failures.get(), 0);
        let (ends, disk) = (ends_of(&logs), disk.crash());
        drop((logs, dir));
        check_logs(&disk, &ends, &what);
    }
}

#[test]
fn a_journal_that_cannot_be_written_is_not_used_and_made_again() {
    for operation in [SimOperation::Open, SimOperation::Write] {
        let (disk, dir, logs) = not_direct(Fault::new(operation, Failure::Io).times(1));
        for log in &logs {
            append_until_journalled(&disk, log);
        }
        let (ends, disk) = (ends_of(&logs), disk.crash());
        drop((logs, dir));
        check_logs(&disk, &ends, &format!("{operation:?}"));
    }
}

#[test]
fn one_sync_serves_all_logs_of_a_round() {
    let (disk, dir, logs) = journalled(1, 1 << 20);
    disk.fs.hold_syncs_in("/data/journal");
    let first = logs[0].append(append_of(batch(1, 10)));
    disk.fs.wait_for_held_syncs(1);
    let (syncs, rounds) = (disk.metrics.syncs.get(), disk.metrics.journal_rounds.get());
    let waiting: Vec<AppendFuture> =
        logs.iter().map(|log| log.append(append_of(batch(1, 10)))).collect();
    disk.fs.release_syncs();
    first.wait().expect("the disk works");
    for append in waiting {
        append.wait().expect("the disk works");
    }
    assert_eq!(disk.metrics.syncs.get(), syncs, "no segment was synced");
    assert_eq!(disk.metrics.journal_rounds.get(), rounds + 2);
    let flushed: Vec<Offset> = logs.iter().map(|log| log.flushed_offset()).collect();
    assert_eq!(flushed, ends_of(&logs));
    let disk = disk.crash();
    drop((logs, dir));
    check_logs(&disk, &flushed, "after the round");
}

#[test]
fn the_space_of_the_journal_is_used_again_and_again() {
    for seed in 0..20 {
        let (disk, dir, logs) = journalled(seed, 16 << 10);
        let mut random = Rng::new(seed);
        for _ in 0..200 {
            let log = &logs[random.below(logs.len())];
            append_records(log, 1, random.below(300));
        }
        let written = disk.metrics.journal_bytes.get();
        assert!(written > 4 * (16 << 10), "{written} bytes are several times its size");
        let (ends, disk) = (ends_of(&logs), disk.crash());
        drop((logs, dir));
        check_logs(&disk, &ends, &format!("seed {seed}"));
    }
}

/// Whether a power cut costs records of logs whose journal was filled several times.
fn loses_records(seed: u64, left_out: Option<Fault>) -> bool {
    let (disk, dir, logs) = journalled(seed, 16 << 10);
    left_out.into_iter().for_each(|fault| disk.fs.inject(fault));
    for log in logs.iter().cycle().take(100) {
        append_records(log, 1, 150);
    }
    let (ends, disk) = (ends_of(&logs), disk.crash());
    drop((logs, dir));
    let dir = disk.open();
    let missing = |finding: &Finding| matches!(finding, Finding::Missing { .. });
    dir.recovery_report().findings.iter().any(missing) || ends_of(&logs_of(&disk, &dir)) != ends
}

#[test]
fn the_files_are_synced_before_the_space_of_their_entries_is_used_again() {
    let is_ignored = || Some(Fault::new(SimOperation::Sync, Failure::Ignored).in_path(".log"));
    assert!(!(0..20).any(|seed| loses_records(seed, None)));
    // Whoever leaves it out loses records, which is what this test is for.
    assert!((0..20).any(|seed| loses_records(seed, is_ignored())));
}

fn keyed_batch(key: &str) -> Batch {
    let mut builder = BatchBuilder::new(Compression::None);
    let value = [b'v'; 200];
    builder
        .append(TimestampMs(NOW_MS), Some(key.as_bytes()), Some(&value), &[])
        .expect("the record fits");
    Batch::parse(builder.finish().expect("it is encoded")).expect("it is good")
}

#[test]
fn a_segment_that_was_compacted_is_not_redone() {
    let config = LogConfig {
        segment_bytes: 2000,
        cleanup: CleanupPolicy::Compact,
        min_cleanable_dirty_ratio: 0.0,
        ..LogConfig::default()
    };
    for seed in 0..20 {
        let disk = disk_with_journal(seed, 1 << 20).with_config(config.clone());
        let dir = Arc::new(disk.open());
        let log = disk.log(&dir);
        append_until_journalled(&disk, &log);
        // Every other one has the same key, so that compaction moves what is behind it.
        for number in 0..40 {
            let key = if number % 2 == 0 { format!("key-{number}") } else { "key".to_owned() };
            append(&log, keyed_batch(&key)).expect("the disk works");
        }
        // Each writes a checkpoint behind the sealing that is under way.
        for _ in 0..3 {
            log.delete_records_before(Offset(0)).wait().expect("the disk works");
        }
        let cleaner = LogCleaner::new(CleanerOptions::default(), CleanerMetrics::new());
        cleaner.watch(&dir);
        cleaner.clean_due();
        let (end, count) = (log.log_end_offset(), read_records(&log, Offset(0)).len());
        assert!(count < 30, "{count} records are left");
        // Nobody knows any more what is on stable storage where it belongs.
        remove(&disk, Path::new("/data/recovery-point-offset-checkpoint"));
        disk.fs.sync_dir(Path::new("/data")).expect("the disk works");
        let disk = disk.crash();
        drop((log, dir));
        let log = disk.log(&disk.open());
        assert_eq!(log.log_end_offset(), end, "seed {seed}");
        assert_eq!(read_records(&log, Offset(0)).len(), count, "seed {seed}");
    }
}

#[test]
fn verify_knows_what_only_the_journal_has() {
    let mut was_missing = false;
    for seed in 0..20 {
        let (disk, dir, logs) = journalled(seed, 256 << 10);
        let disk = disk.crash();
        drop((logs, dir));
        let problems = problems_of(&disk);
        let serious: Vec<_> = problems.iter().filter(|found| !found.may_be_unfinished).collect();
        assert!(serious.is_empty(), "seed {seed}: {serious:?}");
        was_missing |= problems.iter().any(|found| found.reason.contains("in the journal"));
        drop(disk.open());
        let problems = problems_of(&disk);
        assert!(!problems.iter().any(|found| found.reason.contains("in the journal")));
    }
    assert!(was_missing, "a power cut takes what is not synced, now and then");
}

fn problems_of(disk: &TestDisk) -> Vec<Problem> {
    let fs: Arc<dyn Fs> = Arc::new(disk.fs.clone());
    let mut data = DataDir::open(fs, Path::new("/data"), Access::Read).expect("nobody has it");
    let mut problems = Vec::new();
    for dir in data.partition_dirs().expect("it can be listed") {
        data.check_partition(&dir, |problem| problems.push(problem)).expect("it can be listed");
    }
    data.check_files(|problem| problems.push(problem));
    problems
}

/// Appends to three logs in turns; returns how far they were acknowledged when the disk stopped.
fn work(disk: &TestDisk) -> Vec<Offset> {
    work_of(disk, |step| 40 + 30 * (step % 4))
}

/// The same with values of those sizes.
fn work_of(disk: &TestDisk, value_bytes: impl Fn(usize) -> usize) -> Vec<Offset> {
    let mut ends = vec![Offset(0); LOGS as usize];
    let Ok(dir) = disk.try_open() else { return ends };
    let config = Arc::new(disk.config.clone());
    let mut logs = Vec::new();
    for number in 0..LOGS {
        match dir.create_log(partition(number), topic_id(), Arc::clone(&config)) {
            Ok(log) => logs.push(log),
            Err(_) => return ends,
        }
    }
    for step in 0..36 {
        let number = step % logs.len();
        match append(&logs[number], batch(1, value_bytes(step))) {
            Ok(outcome) => ends[number] = outcome.last_offset.next(),
            Err(_) => return ends,
        }
        if step == 20 {
            // An answer is not owed.
            let _ = logs[0].delete_records_before(Offset(2)).wait();
        }
    }
    let _ = dir.close();
    ends
}

#[test]
fn a_power_cut_at_any_change_loses_nothing_acknowledged() {
    let config = LogConfig { segment_bytes: 700, ..LogConfig::default() };
    let new_disk = |seed| disk_with_journal(seed, 16 << 10).with_config(config.clone());
    let whole = new_disk(1);
    work(&whole);
    assert!(whole.metrics.journal_rounds.get() > 5, "{}", whole.metrics.journal_rounds.get());
    // The threads take turns as they like, so that the number differs from run to run.
    for change in 1..whole.fs.changes() + 10 {
        for is_kill in [false, true] {
            let disk = new_disk(change);
            disk.fs.crash_at_change(change);
            let ends = work(&disk);
            let disk = if is_kill { disk.kill() } else { disk.crash() };
            // Also when the next start is cut off.
            disk.fs.crash_at_change(1 + change % 40);
            let _ = disk.try_open();
            let disk = disk.crash();
            check_logs(&disk, &ends, &format!("change {change}, kill: {is_kill}"));
        }
    }
}

#[test]
fn a_file_system_that_stops_at_any_change_loses_nothing_acknowledged() {
    let config = LogConfig { segment_bytes: 700, ..LogConfig::default() };
    let new_disk = |seed| disk_with_journal(seed, 16 << 10).with_config(config.clone());
    let whole = new_disk(1);
    work(&whole);
    for change in 1..whole.fs.changes() + 10 {
        let disk = new_disk(change);
        disk.fs.stop_at_change(change);
        let ends = work(&disk);
        check_logs(&disk.crash(), &ends, &format!("change {change}"));
    }
}

/// The first entry of a half takes the place of several of two generations before. If a power cut tears it, none of
/// those may pass for what counts, or for damage.
#[test]
fn a_torn_entry_at_the_beginning_of_a_half_leaves_none_of_those_that_were_there() {
    // Of one block and of three, which is what a half has room for.
    let value_bytes = |step| if matches!(step % 8, 3 | 4) { 9000 } else { 50 };
    let mut is_used_again = false;
    for seed in 1..=8 {
        let new_disk = || disk_with_journal(seed, 32 << 10);
        let whole = new_disk();
        work_of(&whole, value_bytes);
        // How often depends on how soon the background thread has synced the files.
        is_used_again |= whole.metrics.journal_bytes.get() > 48 << 10;
        for change in 1..whole.fs.changes() + 10 {
            let disk = new_disk();
            disk.fs.crash_at_change(change);
            let ends = work_of(&disk, value_bytes);
            check_logs(&disk.crash(), &ends, &format!("seed {seed}, change {change}"));
        }
    }
    assert!(is_used_again, "the journal was never filled");
}

#[test]
fn a_stop_in_good_order_leaves_no_journal() {
    let (disk, dir, logs) = journalled(1, 256 << 10);
    assert!(has_file(&disk, "journal"));
    let ends = ends_of(&logs);
    dir.close().expect("it closes");
    assert!(!has_file(&disk, "journal"));
    let disk = disk.crash();
    let dir = disk.open();
    assert!(dir.recovery_report().was_clean);
    assert_eq!(ends_of(&logs_of(&disk, &dir)), ends);
}

#[test]
fn an_idle_directory_has_no_journal() {
    let disk = disk_with_journal(1, 256 << 10).with_config(not_durable());
    let dir = disk.open();
    for log in logs_of(&disk, &dir) {
        append_records(&log, 10, 10);
    }
    assert!(!has_file(&disk, "journal"));
}

#[test]
fn large_appends_are_synced_in_their_own_files() {
    let (disk, _dir, logs) = journalled(1, 1 << 20);
    let (rounds, syncs) = (disk.metrics.journal_rounds.get(), disk.metrics.syncs.get());
    append(&logs[0], large_batch()).expect("the disk works");
    assert_eq!(disk.metrics.journal_rounds.get(), rounds);
    assert_eq!(disk.metrics.syncs.get(), syncs + 1);
    append_records(&logs[0], 1, 10);
    assert_eq!(disk.metrics.journal_rounds.get(), rounds + 1);
}

/// Appends more to the first log than may be in the journal alone for long; the syncs of its file are held.
fn grow_fast(seed: u64) -> (TestDisk, LogDir, Vec<Arc<Log>>) {
    let (disk, dir, logs) = journalled(seed, 16 << 20);
    logs[0].flush().wait().expect("the disk works");
    disk.fs.hold_syncs_in("/t-0/");
    for _ in 0..20 {
        append(&logs[0], batch(1, 60_000)).expect("nobody waits for the log's own file");
    }
    disk.fs.wait_for_held_syncs(1);
    (disk, dir, logs)
}

#[test]
fn a_log_that_grows_fast_is_synced_behind_the_journal() {
    let (disk, dir, logs) = grow_fast(1);
    append(&logs[0], batch(1, 60_000)).expect("nobody waits for the log's own file");
    disk.fs.release_syncs();
    let (ends, disk) = (ends_of(&logs), disk.crash());
    drop((logs, dir));
    check_logs(&disk, &ends, "after the power cut");
}

#[test]
fn a_failed_sync_behind_the_journal_poisons_its_log() {
    let (disk, dir, logs) = journalled(1, 16 << 20);
    let ends = ends_of(&logs);
    // The leader epochs beside it may still be on their way, and a failure there is no failure of the records.
    let records = format!("/t-0/{:020}.log", 0);
    disk.fs.inject(Fault::new(SimOperation::Sync, Failure::Io).in_path(&records).times(1));
    let error = (0..10_000).find_map(|_| append(&logs[0], batch(1, 60_000)).err());
    let error = error.expect("a later sync would say nothing about these bytes");
    assert!(matches!(error, LogError::Poisoned { .. }), "{error}");
    append_records(&logs[1], 1, 10);
    let disk = disk.crash();
    drop((logs, dir));
    check_logs(&disk, &ends, "after the power cut");
}

#[test]
fn a_journal_that_cannot_be_synced_is_given_up_and_nothing_else() {
    for seed in 0..20 {
        let (disk, dir, logs) = journalled(seed, 256 << 10);
        let fault = Fault::new(SimOperation::Sync, Failure::Io).in_path("/journal").times(1);
        disk.fs.inject(fault);
        for log in &logs {
            append_records(log, 1, 100);
        }
        assert_eq!(disk.metrics.journal_failures.get(), 1);
        assert!(!has_file(&disk, "journal"));
        let (ends, disk) = (ends_of(&logs), disk.crash());
        drop((logs, dir));
        check_logs(&disk, &ends, &format!("seed {seed}"));
    }
}

#[test]
fn a_journal_whose_removal_was_not_synced_may_come_back_and_no_log_goes() {
    let (disk, dir, logs) = journalled(1, 256 << 10);
    disk.fs.inject(Fault::new(SimOperation::Sync, Failure::Io).in_path("/journal").times(1));
    disk.fs.inject(Fault::new(SimOperation::SyncDir, Failure::Io).in_path("/data").times(1));
    append_records(&logs[1], 1, 100);
    append_records(&logs[2], 1, 100);
    assert_eq!(disk.metrics.journal_failures.get(), 1);
    // The second try finds no file, which says nothing of what a power cut brings back.
    let error = dir.delete_log(&partition(0)).expect_err("what the journal has of it is not void");
    assert!(error.to_string().contains("/data"), "{error}");
}

/// An entry whose sync failed may count after a crash: what it is about cannot go before the journal.
#[test]
fn a_failed_entry_goes_before_the_logs_that_it_is_about() {
    let disk = disk_with_journal(1, 256 << 10);
    let dir = disk.open();
    let logs = logs_of(&disk, &dir);
    append_until_journalled(&disk, &logs[1]);
    disk.fs.inject(Fault::new(SimOperation::Sync, Failure::Io).in_path("/journal").times(1));
    disk.fs.inject(Fault::new(SimOperation::Remove, Failure::Io).in_path("/journal").times(1));
    while disk.metrics.journal_failures.get() == 0 {
        append_records(&logs[0], 1, 50);
    }
    assert!(has_file(&disk, "journal"), "it could not be removed");
    dir.delete_log(&partition(0)).expect("the disk works again");
    assert!(!has_file(&disk, "journal"), "its last entry is about the log");
}

#[test]
fn a_log_whose_file_cannot_be_synced_has_what_the_journal_vouches_for_at_the_next_start() {
    for seed in 0..20 {
        let (disk, dir, logs) = journalled(seed, 256 << 10);
        let ends = ends_of(&logs);
        disk.fs.inject(Fault::new(SimOperation::Sync, Failure::Io).in_path("/t-0/"));
        let error = logs[0].flush().wait().expect_err("it cannot be synced");
        assert!(matches!(error, LogError::Poisoned { .. }), "{error}");
        // Another log of the directory cannot go: the journal, which the first needs, cannot be void.
        dir.delete_log(&partition(1)).expect_err("the journal must stay");
        let disk = disk.crash();
        drop((logs, dir));
        check_logs(&disk, &ends[..1], &format!("seed {seed}"));
    }
}

#[test]
fn a_log_that_was_deleted_leaves_nothing_to_the_next_of_its_name() {
    for seed in 0..20 {
        let (disk, dir, logs) = journalled(seed, 256 << 10);
        let ends = ends_of(&logs);
        dir.delete_log(&partition(0)).expect("the disk works");
        let log = disk.log_of(&dir, 0);
        assert_eq!(log.log_end_offset(), Offset(0));
        drop(log);
        let disk = disk.crash();
        drop((logs, dir));
        let dir = disk.open();
        let found = ends_of(&logs_of(&disk, &dir));
        assert_eq!((found[0], &found[1..]), (Offset(0), &ends[1..]), "seed {seed}");
    }
}

#[test]
fn records_that_were_deleted_stay_so() {
    for seed in 0..20 {
        let (disk, dir, logs) = journalled(seed, 256 << 10);
        let ends = ends_of(&logs);
        logs[0].delete_records_before(ends[0]).wait().expect("the disk works");
        append_records(&logs[0], 1, 10);
        let disk = disk.crash();
        drop((logs, dir));
        let dir = disk.open();
        assert!(dir.recovery_report().findings.is_empty(), "{:?}", dir.recovery_report());
        let log = disk.log(&dir);
        assert_eq!((log.log_start_offset(), log.log_end_offset()), (ends[0], ends[0].next()));
    }
}

#[test]
fn what_belongs_to_a_log_that_cannot_be_opened_is_kept_for_it() {
    let metadata = Path::new("/data/t-0/partition.metadata");
    for seed in 0..20 {
        let (disk, dir, logs) = journalled(seed, 256 << 10);
        let (ends, mut disk) = (ends_of(&logs), disk.crash());
        drop((logs, dir));
        disk.fs.flip_bit(metadata, 0, 1).expect("it is there");
        for _ in 0..2 {
            let dir = disk.open();
            assert_eq!(dir.recovery_report().failed.len(), 1, "{:?}", dir.recovery_report());
            assert!(has_file(&disk, "journal-unopened") && !has_file(&disk, "journal"));
            // The others go on, and have a journal again.
            append_until_journalled(&disk, &disk.log_of(&dir, 1));
            disk = disk.crash();
        }
        let dir = disk.open();
        disk.fs.flip_bit(metadata, 0, 1).expect("it is there");
        if seed % 2 == 0 {
            let config = Arc::new(disk.config.clone());
            let wanted = NewLog { partition: partition(0), topic_id: topic_id(), config };
            let log = dir.try_again(&wanted).expect("nothing is wrong any more");
            assert_eq!(log.log_end_offset(), ends[0], "seed {seed}");
            assert!(!has_file(&disk, "journal-unopened"));
        }
        drop(dir);
        let disk = disk.crash();
        let dir = disk.open();
        assert_eq!(disk.log(&dir).log_end_offset(), ends[0], "seed {seed}");
        assert!(!has_file(&disk, "journal-unopened"));
    }
}

/// No checkpoint speaks of the logs yet: the journal alone tells that they had records.
#[test]
fn a_log_that_the_journal_knows_and_nobody_finds_is_missed() {
    let (log_dir, metadata) = (Path::new("/data/t-0"), Path::new("/data/t-0/partition.metadata"));
    for (seed, taken) in (0..20).zip([log_dir, metadata].into_iter().cycle()) {
        let (disk, dir, logs) = journalled(seed, 256 << 10);
        let (ends, mut disk) = (ends_of(&logs), disk.crash());
        drop((logs, dir));
        let elsewhere = Path::new("/elsewhere");
        disk.fs.rename(taken, elsewhere).expect("it is there");
        if taken == metadata {
            // A creation that was interrupted leaves no more than that.
            for name in disk.fs.read_dir(log_dir).expect("it is there") {
                disk.fs.remove_file(&log_dir.join(name.name)).expect("it is there");
            }
        }
        disk.fs.sync_dir(taken.parent().expect("it has one")).expect("the disk works");
        for _ in 0..2 {
            let dir = disk.open();
            let [(_, LogError::Vanished { dir: missed, end })] = &*dir.recovery_report().failed
            else {
                panic!("seed {seed}: {:?}", dir.recovery_report());
            };
            assert_eq!((&**missed, *end), (log_dir, ends[0]), "seed {seed}");
            assert!(has_file(&disk, "journal-unopened") && !has_file(&disk, "journal"));
            disk = disk.crash();
        }
        if taken == log_dir {
            disk.fs.rename(elsewhere, taken).expect("it is there");
            check_logs(&disk, &ends, &format!("seed {seed}"));
        }
    }
}

/// Else the next start would believe the journal, and write what it has over what another program has written since.
#[test]
fn a_journal_that_another_program_has_made_old_goes_before_its_mark() {
    let mark = Path::new("/data/.kafka_cleanshutdown");
    let mut with_journal = 0;
    for change in 1..60 {
        let (disk, dir, logs) = journalled(change, 256 << 10);
        let disk = disk.crash();
        drop((logs, dir));
        clean_shutdown::mark(&disk.fs, mark, 1).expect("the disk works");
        disk.fs.crash_at_change(change);
        let _ = disk.try_open();
        let disk = disk.crash();
        let is_marked = clean_shutdown::is_marked(&disk.fs, mark).expect("the disk works");
        let has_journal = has_file(&disk, "journal");
        assert!(is_marked || !has_journal, "change {change}");
        with_journal += usize::from(has_journal);
    }
    assert!((1..59).contains(&with_journal), "{with_journal}");
}

#[test]
fn a_damaged_entry_is_told_from_one_that_a_crash_has_torn() {
    let (disk, dir, logs) = journalled(1, 256 << 10);
    for _ in 0..5 {
        append_records(&logs[0], 1, 400);
    }
    let ends = ends_of(&logs);
    // As it was on the disk.
    let disk = disk.kill();
    drop((logs, dir));
    // Of the second entry.
    disk.fs.flip_bit(Path::new("/data/journal"), 4096 + 100, 3).expect("it is there");
    let dir = disk.open();
    let damage = |finding: &Finding| matches!(finding, Finding::Rebuilt { .. });
    assert!(dir.recovery_report().findings.iter().any(damage), "{:?}", dir.recovery_report());
    assert_eq!(ends_of(&logs_of(&disk, &dir)), ends, "the files are whole all the same");
}

#[test]
fn records_that_find_no_space_when_they_are_redone_are_not_lost() {
    for seed in 0..20 {
        let (disk, dir, logs) = journalled(seed, 256 << 10);
        for _ in 0..20 {
            append_records(&logs[0], 1, 1000);
        }
        let (ends, disk) = (ends_of(&logs), disk.crash());
        drop((logs, dir));
        disk.leave_free(0);
        drop(disk.try_open());
        disk.fs.set_capacity_bytes(1 << 30);
        let disk = disk.crash();
        check_logs(&disk, &ends, &format!("seed {seed}"));
    }
}
