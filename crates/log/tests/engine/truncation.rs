//! The end of a follower's log that is cut off.

use std::path::Path;
use std::sync::Arc;

use logway_log::inspect::verify;
use logway_log::{FileRange, Log, LogConfig, LogDir, LogError, Truncation};
use logway_model::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, TimestampMs};
use logway_record::{Batch, BatchBuilder, Compression, DecodeLimit};

use crate::following::{follow, led, parse};
use crate::support::*;

/// The epoch that is followed, as in [`follow`].
const FOLLOWED: LeaderEpoch = LeaderEpoch(7);

fn truncate(dir: &LogDir, log: &Arc<Log>, end: i64) -> Result<Offset, LogError> {
    dir.truncate_to(log, Offset(end), FOLLOWED)
}

fn restart(dir: &LogDir, log: &Arc<Log>, start: i64) -> Result<Offset, LogError> {
    dir.truncate_fully_and_start_at(log, Offset(start), FOLLOWED)
}

/// Batches of two records from `from` to `to`, in one epoch.
fn twos(from: i64, to: i64, epoch: i32) -> Vec<Batch> {
    (from..to).step_by(2).map(|offset| led(offset, epoch, 2)).collect()
}

/// Batches by one producer, of one record each, with the time that comes with the offset.
fn by_producer(from: i64, to: i64) -> Vec<Batch> {
    let one = |offset: i64| {
        let mut builder = BatchBuilder::new(Compression::None)
            .with_assignment(Offset(offset), LeaderEpoch(1))
            .with_producer(ProducerId(5), ProducerEpoch(0), Sequence(offset as i32));
        let value = vec![b'v'; 100];
        let time = TimestampMs(NOW_MS + offset);
        builder.append(time, Some(b"key"), Some(&value), &[]).expect("fits");
        Batch::parse(builder.finish().expect("fits")).expect("is whole")
    };
    (from..to).map(one).collect()
}

fn append_one_by_one(dir: &LogDir, log: &Arc<Log>, batches: &[Batch]) {
    for batch in batches {
        follow(dir, log, std::slice::from_ref(batch)).wait().expect("is appended");
    }
}

fn last_sequence(log: &Log) -> Option<Sequence> {
    let producers = log.producers().wait().expect("the writer answers");
    producers.first().and_then(|(_, state)| state.last_batch()).map(|batch| batch.last_sequence)
}

/// `logway log verify` finds nothing wrong.
fn assert_sound(dir: LogDir, disk: &TestDisk) {
    dir.close().expect("it closes");
    let mut problems = Vec::new();
    let path = Path::new("/data/t-0");
    verify(&disk.fs, path, |problem| problems.push(problem)).expect("it is read");
    assert_eq!(problems, []);
}

#[test]
fn a_log_ends_with_the_last_whole_batch_before_the_offset() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    let batches = [led(0, 2, 3), led(3, 2, 3), led(6, 4, 3), led(9, 6, 3)];
    follow(&dir, &log, &batches).wait().expect("is appended");
    assert_eq!(truncate(&dir, &log, 12).expect("nothing is to be done"), Offset(12));
    assert_eq!(truncate(&dir, &log, 11).expect("is cut"), Offset(9), "the batch goes as a whole");
    assert_eq!((log.log_end_offset(), log.flushed_offset()), (Offset(9), Offset(9)));
    assert_eq!(log.latest_epoch(), LeaderEpoch(4));
    assert_eq!(truncate(&dir, &log, 6).expect("is cut"), Offset(6));
    assert_eq!(read_batches(&log, Offset(0)), batches[..2]);
    assert_eq!(log.latest_epoch(), LeaderEpoch(2));
    let other = [led(6, 5, 1), led(7, 5, 4)];
    follow(&dir, &log, &other).wait().expect("is appended");
    let expected = [&batches[..2], &other].concat();
    assert_eq!(read_batches(&log, Offset(0)), expected);
    assert_eq!(log.epoch_at(Offset(6)), LeaderEpoch(5));
    drop(dir);
    let disk = disk.crash();
    let dir = disk.open();
    let log = disk.log(&dir);
    assert_eq!(read_batches(&log, Offset(0)), expected);
    assert_eq!(log.epoch_at(Offset(6)), LeaderEpoch(5));
    dir.close().expect("it closes");
    let dir = disk.open();
    assert!(dir.recovery_report().was_clean && dir.recovery_report().findings.is_empty());
    assert_eq!(read_batches(&disk.log(&dir), Offset(0)), expected);
}

/// Everything that is made from batches is as if the log had never had more.
#[test]
fn producers_times_and_indexes_are_those_of_what_is_left() {
    for cut in [0, 1, 7, 20, 33, 59] {
        for reopen in [false, true] {
            let disk = TestDisk::new(1).with_config(small_segments());
            let dir = disk.open();
            let log = disk.log(&dir);
            append_one_by_one(&dir, &log, &by_producer(0, 60));
            let (dir, log) = match reopen {
                true => {
                    dir.close().expect("it closes");
                    let dir = disk.open();
                    let log = disk.log(&dir);
                    (dir, log)
                }
                false => (dir, log),
            };
            assert_eq!(truncate(&dir, &log, cut).expect("is cut"), Offset(cut));
            let last = (cut > 0).then_some(Sequence(cut as i32 - 1));
            assert_eq!(last_sequence(&log), last, "cut at {cut}");
            let end = Offset(i64::MAX);
            let latest = log.max_timestamp_offset(end, DecodeLimit::DEFAULT).expect("is found");
            let latest = latest.found.map(|found| found.offset.0);
            assert_eq!(latest, (cut > 0).then_some(cut - 1), "cut at {cut}");
            for offset in 0..60 {
                let time = TimestampMs(NOW_MS + offset);
                let found = log.offset_for_timestamp(time, end, DecodeLimit::DEFAULT);
                let found = found.expect("is looked for").found.map(|found| found.offset.0);
                assert_eq!(found, (offset < cut).then_some(offset), "cut at {cut}");
            }
            append_one_by_one(&dir, &log, &by_producer(cut, 60));
            let records = read_records(&log, Offset(0));
            assert!((0..60).eq(records.iter().map(|record| record.offset.0)), "cut at {cut}");
            assert_eq!(last_sequence(&log), Some(Sequence(59)));
            assert_sound(dir, &disk);
        }
    }
}

#[test]
fn what_would_come_too_late_is_refused() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    follow(&dir, &log, &twos(0, 6, 2)).wait().expect("is appended");
    log.begin_leading(LeaderEpoch(8)).wait().expect("begins");
    for refused in [truncate(&dir, &log, 2), restart(&dir, &log, 0), truncate(&dir, &log, 6)] {
        assert!(matches!(refused, Err(LogError::EpochOver { .. })), "{refused:?}");
    }
    assert_eq!(log.log_end_offset(), Offset(6));
    assert_eq!(log.latest_epoch(), LeaderEpoch(8));
}

/// One that was elected, and has appended nothing before another was.
#[test]
fn the_epoch_of_a_leader_without_records_is_forgotten() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    follow(&dir, &log, &twos(0, 6, 2)).wait().expect("is appended");
    log.begin_leading(FOLLOWED).wait().expect("begins");
    assert_eq!(log.latest_epoch(), FOLLOWED);
    let followed = LeaderEpoch(FOLLOWED.0 + 1);
    assert_eq!(dir.truncate_to(&log, Offset(6), followed).expect("is done"), Offset(6));
    assert_eq!(log.latest_epoch(), LeaderEpoch(2));
}

#[test]
fn a_log_starts_anew_where_its_leader_begins() {
    for start in [100, 0, 3, 40] {
        let disk = TestDisk::new(1).with_config(small_segments());
        let dir = disk.open();
        let log = disk.log(&dir);
        follow(&dir, &log, &by_producer(0, 60)).wait().expect("is appended");
        log.delete_records_before(Offset(31)).wait().expect("they go");
        assert_eq!(restart(&dir, &log, start).expect("starts"), Offset(start));
        let span = |log: &Log| (log.log_start_offset().0, log.log_end_offset().0);
        assert_eq!(span(&log), (start, start));
        assert_eq!((log.latest_epoch(), last_sequence(&log)), (LeaderEpoch::NONE, None));
        let batches = twos(start, start + 6, 4);
        follow(&dir, &log, &batches).wait().expect("is appended");
        drop(dir);
        let disk = disk.crash();
        let dir = disk.open();
        let report = dir.recovery_report();
        assert!(report.findings.is_empty(), "{report:?}");
        let log = disk.log(&dir);
        assert_eq!(span(&log), (start, start + 6));
        assert_eq!(read_batches(&log, Offset(start)), batches);
        assert_sound(dir, &disk);
    }
}

#[test]
fn an_end_before_the_log_start_is_another_start() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    follow(&dir, &log, &twos(0, 20, 2)).wait().expect("is appended");
    log.delete_records_before(Offset(11)).wait().expect("they go");
    // In the middle of the batch that the log starts in.
    assert_eq!(truncate(&dir, &log, 11).expect("is cut"), Offset(10));
    assert_eq!((log.log_start_offset(), log.log_end_offset()), (Offset(10), Offset(10)));
    follow(&dir, &log, &twos(10, 20, 3)).wait().expect("is appended");
    assert_eq!(truncate(&dir, &log, 4).expect("is cut"), Offset(4));
    assert_eq!((log.log_start_offset(), log.log_end_offset()), (Offset(4), Offset(4)));
}

/// A leader that begins in the middle of a batch: the follower takes the batch, as Kafka's does.
#[test]
fn an_empty_log_takes_a_batch_that_begins_earlier() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    restart(&dir, &log, 12).expect("starts");
    let refused = follow(&dir, &log, &[led(10, 2, 5)]).wait();
    let Err(LogError::OffsetNotNext { got, .. }) = refused else { panic!("{refused:?}") };
    restart(&dir, &log, got.0).expect("starts");
    follow(&dir, &log, &[led(10, 2, 5)]).wait().expect("is appended");
    log.delete_records_before(Offset(12)).wait().expect("they go");
    assert_eq!((log.log_start_offset(), log.log_end_offset()), (Offset(12), Offset(15)));
}

fn bytes_of(ranges: &[FileRange]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for range in ranges {
        let mut part = vec![0; range.len_bytes as usize];
        let read = logway_log::fs::read_full_at(&*range.file, &mut part, range.position);
        part.truncate(read.expect("the disk works"));
        bytes.extend(part);
    }
    bytes
}

/// Who has a range of the old end reads it, or comes to the end of the file: never other records.
#[test]
fn a_range_that_was_read_before_never_has_new_records() {
    for cut in [0, 2, 20, 58] {
        let disk = TestDisk::new(1).with_config(small_segments());
        let dir = disk.open();
        let log = disk.log(&dir);
        let old = by_producer(0, 60);
        append_one_by_one(&dir, &log, &old);
        let read = |from| log.read(everything_from(Offset(from))).expect("is there");
        let slices: Vec<_> = (0..60).map(|from| (from, read(from))).collect();
        truncate(&dir, &log, cut).expect("is cut");
        append_one_by_one(&dir, &log, &twos(cut, 80, 4));
        for (from, slice) in slices {
            let was: Vec<u8> =
                old[from as usize..].iter().flat_map(|batch| batch.bytes().to_vec()).collect();
            for (index, range) in slice.ranges.iter().enumerate() {
                let before: u64 = slice.ranges[..index].iter().map(|range| range.len_bytes).sum();
                let found = bytes_of(std::slice::from_ref(range));
                let wanted = &was[before as usize..][..found.len()];
                assert_eq!(found, wanted, "cut at {cut}, read from {from} on");
            }
            // It is no damage either.
            let checked = slice.checked().expect("a cut is not taken for damage");
            assert_eq!(bytes_of(&checked.ranges).len() as u64, checked.size_bytes());
        }
    }
}

/// While it is cut off the log takes nothing, and what is asked of it waits.
#[test]
fn nothing_is_appended_meanwhile() {
    let disk = TestDisk::new(1);
    let dir = Arc::new(disk.open());
    let log = disk.log(&dir);
    follow(&dir, &log, &twos(0, 20, 2)).wait().expect("is appended");
    disk.fs.hold_renames_in("recovery-point");
    let cutting = std::thread::spawn({
        let (dir, log) = (Arc::clone(&dir), Arc::clone(&log));
        move || truncate(&dir, &log, 10)
    });
    disk.fs.wait_for_held_renames(1);
    let refused = follow(&dir, &log, &twos(20, 22, 2)).wait();
    assert!(matches!(refused, Err(LogError::Busy { .. })), "{refused:?}");
    let mut begun = log.begin_leading(LeaderEpoch(9));
    assert!(is_pending(&mut begun), "it is told of the end when that is known");
    disk.fs.release_renames();
    assert_eq!(cutting.join().expect("does not panic").expect("is cut"), Offset(10));
    assert_eq!(begun.wait().expect("begins"), Offset(10));
    assert_eq!(log.end_offset_for_epoch(LeaderEpoch(9)).expect("is known").end_offset, Offset(10));
}

fn is_pending<T>(completion: &mut logway_log::Completion<T>) -> bool {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    std::future::Future::poll(std::pin::Pin::new(completion), &mut context).is_pending()
}

/// What a crash may leave of 40 records in batches of two, cut to `end`.
#[derive(Debug, Clone, Copy)]
struct Case {
    start: i64,
    to: To,
    journal_bytes: u64,
    is_durable: bool,
}

#[derive(Debug, Clone, Copy)]
enum To {
    End(i64),
    Start(i64),
}

/// Has rounds of two other logs until there is a journal.
fn make_journal(disk: &TestDisk, dir: &LogDir) {
    let logs = [disk.log_of(dir, 2), disk.log_of(dir, 3)];
    let mut offset = 0;
    while disk.metrics.journal_rounds.get() == 0 {
        let batches = [led(offset, 1, 1)];
        let appends = logs.iter().map(|log| (Arc::clone(log), parse(&batches, FOLLOWED)));
        dir.append_followed(appends.collect()).into_iter().for_each(|append| {
            append.wait().expect("is appended");
        });
        offset += 1;
    }
}

impl Case {
    /// Where the log starts and ends when it is done.
    fn done(self) -> (i64, i64) {
        match self.to {
            To::Start(start) => (start, start),
            To::End(end) if end < self.start => (end, end),
            To::End(end) => (self.start, end),
        }
    }

    fn to_is_between_segments(self) -> bool {
        matches!(self.to, To::End(8))
    }

    fn run(self, change: u64, is_kill: bool) -> bool {
        let config = LogConfig { segment_bytes: 500, ..small_segments() };
        let flush_messages = if self.is_durable { 1 } else { u64::MAX };
        let mut disk = TestDisk::new(change).with_config(LogConfig {
            flush_messages,
            file_delete_delay_ms: 0,
            ..config
        });
        disk.journal_bytes = self.journal_bytes;
        let dir = disk.open();
        // A second log, so that there are rounds of several.
        let (log, other) = (disk.log(&dir), disk.log_of(&dir, 1));
        if self.journal_bytes > 0 && self.is_durable {
            make_journal(&disk, &dir);
        }
        for batches in twos(0, 40, 2).chunks(4) {
            let both = [&log, &other].map(|log| (Arc::clone(log), parse(batches, FOLLOWED)));
            let appends = both.to_vec();
            dir.append_followed(appends).into_iter().for_each(|append| {
                append.wait().expect("is appended");
            });
        }
        if self.start > 0 {
            log.delete_records_before(Offset(self.start)).wait().expect("they go");
        }
        let (wanted_start, wanted_end) = self.done();
        let changes = disk.fs.changes();
        disk.fs.crash_at_change(change);
        let truncation = match self.to {
            To::End(end) => Truncation::to_end_at(&log, Offset(end), FOLLOWED),
            To::Start(start) => Truncation::restart_at(&log, Offset(start), FOLLOWED),
        };
        let result = dir.truncate(&[truncation]).remove(0);
        // What comes then, in another epoch, is there or not.
        let new = twos(wanted_end, wanted_end + 4, 5);
        let appended = result.is_ok() && follow(&dir, &log, &new).wait().is_ok();
        let was_cut_off = disk.fs.has_crashed();
        drop(dir);
        let disk = if is_kill { disk.kill() } else { disk.crash() };
        let seen = self.check(&disk, result.is_ok(), appended, &format!("{self:?}, {change}"));
        // And again, whatever the start has done.
        let disk = disk.crash();
        let again =
            self.check(&disk, result.is_ok(), appended, &format!("{self:?}, {change} again"));
        assert_eq!(seen, again, "{self:?}, {change}: a start changes nothing that was seen");
        assert!(disk.fs.changes() < changes + 10_000);
        let _ = wanted_start;
        was_cut_off
    }

    /// The log is as it was, or cut off; returns where it starts and ends.
    fn check(self, disk: &TestDisk, is_done: bool, is_appended: bool, what: &str) -> (i64, i64) {
        let dir = disk.open();
        let report = dir.recovery_report();
        let is_fine = |finding: &logway_log::Finding| {
            use logway_log::Finding::{SegmentRemoved, TailTruncated};
            matches!(finding, SegmentRemoved { .. } | TailTruncated { .. })
        };
        let is_sound = report.failed.is_empty() && report.findings.iter().all(is_fine);
        assert!(is_sound, "{what}: {report:?}");
        let log = disk.log(&dir);
        let (start, end) = (log.log_start_offset().0, log.log_end_offset().0);
        let done = self.done();
        let cut = [(done.0, done.1), (done.0, done.1 + 2), (done.0, done.1 + 4)];
        // Of a log all of which goes, a crash may leave a beginning.
        let goes_as_a_whole = done.0 == done.1;
        let old_ends = if self.is_durable && !goes_as_a_whole { 40..=40 } else { 0..=40 };
        let is_old = start == self.start && old_ends.contains(&end) && !is_done;
        let is_empty = (start, end) == (self.start, self.start) && done.0 == done.1 && !is_done;
        let is_cut = match is_appended && self.is_durable {
            true => cut[2] == (start, end),
            false => cut.contains(&(start, end)),
        };
        assert!(is_old || is_cut || is_empty, "{what}: {start} to {end}, done {is_done}");
        let mut expected = start;
        for batch in read_batches(&log, Offset(start)) {
            let offset = batch.base_offset().0;
            assert!(offset <= expected, "{what}: {batch:?} at {expected}");
            expected = batch.header().next_offset().0;
            let epoch = batch.header().leader_epoch.0;
            let is_new = is_cut && !is_old && offset >= done.1;
            assert_eq!(epoch, if is_new { 5 } else { 2 }, "{what}: {batch:?}");
            assert_eq!(batch, led(offset, epoch, 2), "{what}");
            assert_eq!(log.epoch_at(Offset(offset.max(start))).0, epoch, "{what}");
        }
        assert_eq!(expected, end.max(start), "{what}");
        let other = disk.log_of(&dir, 1);
        let other_end = other.log_end_offset().0;
        assert!(other_end == 40 || !self.is_durable, "{what}: the other log ends at {other_end}");
        (start, end)
    }
}

/// The power goes at each change of the disk; at every third, or all, the process is killed, too.
#[test]
fn a_crash_leaves_the_log_as_it_was_or_cut_off() {
    let case = |start, to, journal_bytes, is_durable| Case { start, to, journal_bytes, is_durable };
    let cases = [
        case(0, To::End(0), 64 << 10, true),
        case(0, To::End(8), 64 << 10, true),
        case(0, To::End(22), 0, true),
        case(21, To::End(38), 64 << 10, false),
        case(21, To::End(24), 64 << 10, true),
        case(21, To::End(10), 0, true),
        case(0, To::Start(100), 64 << 10, true),
        case(21, To::Start(26), 0, false),
        case(21, To::Start(0), 64 << 10, true),
    ];
    for case in cases {
        let mut change = 1;
        while case.run(change, false) {
            // What a start syncs of a cut between two segments is seen by kills alone.
            if change % 3 == 0 || case.to_is_between_segments() {
                case.run(change, true);
            }
            change += 1;
        }
    }
}
