//! High watermarks: what a log directory remembers of them, and what they keep others from.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use logway_log::checkpoint::offset_checkpoint::{self, HIGH_WATERMARK_FILE};
use logway_log::fs::Fs;
use logway_log::fs::sim::{Failure, Fault, SimOperation};
use logway_log::{
    CleanerMetrics, CleanerOptions, CleanupPolicy, Log, LogCleaner, LogConfig, LogDir, NewLog,
};
use logway_model::{LeaderEpoch, Offset};

use crate::compaction::wait_sealed;
use crate::following::{follow, led};
use crate::support::*;

/// A disk on which they are written down all the time.
fn often(seed: u64) -> TestDisk {
    TestDisk { high_watermark_interval: Duration::from_millis(1), ..TestDisk::new(seed) }
}

fn written(disk: &TestDisk) -> Vec<(String, i64)> {
    let path = Path::new("/data").join(HIGH_WATERMARK_FILE);
    let offsets = offset_checkpoint::read(&disk.fs, &path).expect("is read").unwrap_or_default();
    offsets.into_iter().map(|(partition, offset)| (partition.to_string(), offset.0)).collect()
}

fn wait_until_written(disk: &TestDisk, expected: &[(&str, i64)]) {
    let is_it = || {
        written(disk).iter().map(|(name, offset)| (&name[..], *offset)).eq(expected.iter().copied())
    };
    let began = Instant::now();
    while !is_it() {
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}, not {expected:?}", written(disk));
        thread::yield_now();
    }
}

fn span(log: &Log) -> (i64, i64, i64) {
    (log.log_start_offset().0, log.high_watermark().0, log.log_end_offset().0)
}

#[test]
fn they_are_written_when_they_have_changed_and_not_otherwise() {
    let disk = often(1);
    let dir = disk.open();
    let (log, other) = (disk.log(&dir), disk.log_of(&dir, 1));
    append_records(&log, 10, 10);
    append_records(&other, 10, 10);
    log.set_high_watermark(Offset(4));
    wait_until_written(&disk, &[("t-0", 4)]);

    let fault = Fault::new(SimOperation::Write, Failure::Io).in_path(HIGH_WATERMARK_FILE);
    disk.fs.inject(fault.times(3));
    log.set_high_watermark(Offset(7));
    other.set_high_watermark(Offset(2));
    // What could not be written is tried again.
    wait_until_written(&disk, &[("t-0", 7), ("t-1", 2)]);
    dir.enforce_retention().wait().expect("the checkpoint is written");

    let changes = disk.fs.changes();
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(50) {
        log.set_high_watermark(Offset(7));
        drop(log.producers().wait());
    }
    assert_eq!(disk.fs.changes(), changes, "nothing has changed");
}

#[test]
fn a_start_goes_on_with_them_within_what_there_is() {
    let disk = often(1);
    let dir = disk.open();
    let logs: Vec<Arc<Log>> = (0..4).map(|number| disk.log_of(&dir, number)).collect();
    for log in &logs {
        append_records(log, 10, 10);
    }
    logs[0].set_high_watermark(Offset(6));
    // Behind the end, as the file of a log says whose end is lost; and before the start.
    logs[1].set_high_watermark(Offset(90));
    logs[2].set_high_watermark(Offset(3));
    assert_eq!(span(&logs[1]), (0, 10, 10));
    wait_until_written(&disk, &[("t-0", 6), ("t-1", 10), ("t-2", 3)]);
    disk.fs.hold_renames_in(HIGH_WATERMARK_FILE);
    logs[2].delete_records_before(Offset(5)).wait().expect("they go");
    logs[0].set_high_watermark(Offset(8));
    disk.fs.wait_for_held_renames(1);
    let crashed = disk.fs.crash();
    disk.fs.release_renames();
    drop((logs, dir));
    let disk = TestDisk { fs: crashed, ..disk };
    let dir = disk.open();
    let spans = |dir: &LogDir| [0, 1, 2, 3].map(|number| span(&disk.log_of(dir, number)));
    // The last one came after they were written, and nobody has said any of the fourth.
    assert_eq!(spans(&dir), [(0, 6, 10), (0, 10, 10), (5, 5, 10), (0, 0, 10)]);
    disk.log(&dir).set_high_watermark(Offset(9));
    dir.close().expect("it closes");
    let dir = disk.open();
    assert_eq!(spans(&dir)[0], (0, 9, 10), "a stop in good order writes them");
}

/// In the format of Apache Kafka, whose own file it may be.
#[test]
fn the_file_is_kafkas() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    append_records(&log, 10, 10);
    log.set_high_watermark(Offset(4));
    dir.close().expect("it closes");
    let path = Path::new("/data").join(HIGH_WATERMARK_FILE);
    let file = disk.fs.open(&path, logway_log::fs::OpenMode::ReadWrite).expect("it is there");
    let content = logway_log::fs::read_to_end(&*file, 100).expect("is read");
    assert_eq!(String::from_utf8(content).expect("is text"), "0\n1\nt 0 4\n");
    // Damaged, it is as good as none.
    file.set_len(5).expect("is cut");
    let dir = disk.open();
    assert_eq!(span(&disk.log(&dir)), (0, 0, 10));
    assert!(dir.recovery_report().was_clean);
}

#[test]
fn a_log_has_nothing_of_an_earlier_one_of_its_name() {
    for is_crash in [false, true] {
        let disk = often(1);
        let dir = disk.open();
        let log = disk.log(&dir);
        append_records(&log, 10, 10);
        log.set_high_watermark(Offset(9));
        wait_until_written(&disk, &[("t-0", 9)]);
        dir.delete_log(&partition(0)).expect("it goes");
        assert_eq!(written(&disk), []);
        // What holds the old log has no say any more.
        log.set_high_watermark(Offset(8));
        let new = disk.log(&dir);
        append_records(&new, 10, 10);
        assert_eq!(span(&new), (0, 0, 10));
        let other = disk.log_of(&dir, 1);
        append_records(&other, 10, 10);
        other.set_high_watermark(Offset(1));
        wait_until_written(&disk, &[("t-1", 1)]);
        let disk = match is_crash {
            true => {
                drop((log, new, other, dir));
                disk.crash()
            }
            false => {
                dir.close().expect("it closes");
                disk
            }
        };
        let dir = disk.open();
        assert_eq!(span(&disk.log(&dir)), (0, 0, 10));
    }
}

/// It is lowered on the disk before anything is cut off: what comes there instead is not committed.
#[test]
fn a_truncation_lowers_it_first() {
    let followed = LeaderEpoch(7);
    let mut change = 1;
    let mut was_cut_off = true;
    while was_cut_off {
        let disk = often(change);
        let dir = disk.open();
        let log = disk.log(&dir);
        let batches: Vec<_> = (0..10).map(|offset| led(offset, 2, 1)).collect();
        follow(&dir, &log, &batches).wait().expect("is appended");
        log.set_high_watermark(Offset(8));
        wait_until_written(&disk, &[("t-0", 8)]);
        disk.fs.crash_at_change(change);
        let cut = dir.truncate_to(&log, Offset(5), followed);
        if cut.is_ok() {
            assert_eq!(span(&log), (0, 5, 5));
            let others: Vec<_> = (5..12).map(|offset| led(offset, 3, 1)).collect();
            drop(follow(&dir, &log, &others).wait());
        }
        was_cut_off = disk.fs.has_crashed();
        drop((log, dir));
        let disk = disk.crash();
        let dir = disk.open();
        let log = disk.log(&dir);
        let high_watermark = log.high_watermark();
        let is_old = log.epoch_at(Offset(5)) == LeaderEpoch(2);
        assert!(high_watermark <= Offset(5) || is_old, "change {change}: {:?}", span(&log));
        change += 1;
    }
    assert!(change > 10, "there were changes to be cut off at");
}

/// Others have the file written at any time: it may not get back what a truncation has lowered.
#[test]
fn what_a_truncation_lowers_is_not_written_again() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    let batches: Vec<_> = (0..10).map(|offset| led(offset, 2, 1)).collect();
    follow(&dir, &log, &batches).wait().expect("is appended");
    log.set_high_watermark(Offset(8));
    dir.close().expect("it closes");
    let dir = disk.open();
    let log = disk.log(&dir);
    disk.fs.hold_renames_in(HIGH_WATERMARK_FILE);
    thread::scope(|scope| {
        let cut = scope.spawn(|| dir.truncate_to(&log, Offset(5), LeaderEpoch(7)));
        disk.fs.wait_for_held_renames(1);
        assert_eq!(span(&log), (0, 5, 10));
        disk.fs.release_renames();
        cut.join().expect("it ends").expect("is cut off");
    });
    assert_eq!(written(&disk), [("t-0".to_owned(), 5)]);
}

#[test]
fn a_log_that_starts_anew_has_it_there() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    follow(&dir, &log, &[led(0, 2, 9)]).wait().expect("is appended");
    log.set_high_watermark(Offset(8));
    for start in [100, 3] {
        dir.truncate_fully_and_start_at(&log, Offset(start), LeaderEpoch(7)).expect("starts");
        assert_eq!(span(&log), (start, start, start));
    }
}

#[test]
fn retention_leaves_what_is_behind_it() {
    let config = LogConfig { retention_bytes: Some(1), ..small_segments() };
    for high_watermark in [None, Some(0), Some(17), Some(40)] {
        let disk = TestDisk::new(1).with_config(config.clone());
        let dir = disk.open();
        let log = disk.log(&dir);
        for _ in 0..20 {
            append_records(&log, 2, 300);
        }
        if let Some(offset) = high_watermark {
            log.set_high_watermark(Offset(offset));
        }
        dir.enforce_retention().wait().expect("what may go goes");
        let start = log.log_start_offset().0;
        match high_watermark {
            Some(offset @ 0..40) => assert!(start <= offset, "{start}, and {offset} is committed"),
            _ => assert!(start >= 30, "it is as if there were no other replicas: {start}"),
        }
        assert!(high_watermark != Some(17) || start > 5, "what is before it goes: {start}");
    }
}

#[test]
fn compaction_leaves_what_is_behind_it() {
    let config = LogConfig {
        cleanup: CleanupPolicy::Compact,
        min_cleanable_dirty_ratio: 0.0,
        ..small_segments()
    };
    let records_left = |high_watermark: Option<i64>| {
        let disk = TestDisk::new(1).with_config(config.clone());
        let dir = Arc::new(disk.open());
        let new = NewLog {
            partition: partition(0),
            topic_id: topic_id(),
            config: Arc::new(config.clone()),
        };
        let log = dir.create_logs(&[new]).remove(0).expect("is made");
        for _ in 0..60 {
            append_records(&log, 2, 300);
        }
        if let Some(offset) = high_watermark {
            log.set_high_watermark(Offset(offset));
        }
        wait_sealed(&dir);
        let cleaner = LogCleaner::new(CleanerOptions::default(), CleanerMetrics::new());
        cleaner.watch(&dir);
        cleaner.clean_due();
        read_records(&log, Offset(0)).iter().map(|record| record.offset.0).collect::<Vec<i64>>()
    };
    let all = records_left(Some(0));
    assert_eq!(all.len(), 120);
    let some = records_left(Some(61));
    assert!((62..120).all(|offset| some.contains(&offset)), "{some:?}");
    assert!(some.len() < 100, "{some:?}");
    assert!(records_left(None).len() < some.len());
}
