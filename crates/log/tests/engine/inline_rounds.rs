//! Rounds of the writer on the thread that appends.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use logway_log::fs::sim::{Failure, Fault, SimOperation};
use logway_log::{AppendFuture, InlineRound, Log, LogConfig, LogDir, LogError, TailListener};
use logway_model::{Offset, TimestampMs};
use logway_record::DecodeLimit;

use crate::support::*;

fn log_without_syncs() -> (TestDisk, LogDir, Arc<Log>) {
    let disk = TestDisk::new(1).with_config(not_durable());
    let dir = disk.open();
    let log = disk.log(&dir);
    (disk, dir, log)
}

/// Appends until the writer has nothing else to do, so that the last append is left to the caller.
fn begin(log: &Log) -> (AppendFuture, InlineRound) {
    loop {
        let mut held = None;
        let answer = log.append_inline(append_of(batch(1, 10)), &mut held);
        match held {
            Some(round) => return (answer, round),
            None => drop(answer.wait().expect("the append succeeds")),
        }
    }
}

#[test]
fn it_is_written_and_answered_when_the_caller_has_run_it() {
    let (_disk, _dir, log) = log_without_syncs();
    for _ in 0..10 {
        let (answer, round) = begin(&log);
        let end = log.log_end_offset();
        round.run();
        assert_eq!(log.log_end_offset(), end.next());
        let outcome = answer.wait().expect("the append succeeds");
        assert_eq!((outcome.base_offset, outcome.last_offset), (end, end));
    }
    let records = read_records(&log, Offset(0)).len();
    assert_eq!(i64::try_from(records).expect("few"), log.log_end_offset().0);
}

#[test]
fn what_comes_meanwhile_is_done_behind_it() {
    let (disk, dir, log) = log_without_syncs();
    let other = disk.log_of(&dir, 1);
    let (first, round) = begin(&log);
    let second = log.append(append_of(batch(1, 10)));
    let mut another = None;
    let third = log.append_inline(append_of(batch(1, 10)), &mut another);
    assert!(another.is_none(), "the writer is lent");
    let elsewhere = other.append(append_of(batch(1, 10)));
    let flushed = log.flush();
    round.run();
    let offsets = [first, second, third].map(|answer| answer.wait().expect("a good append"));
    let [first, second, third] = offsets.map(|outcome| outcome.base_offset);
    assert_eq!((second, third), (first.next(), second.next()));
    elsewhere.wait().expect("a good append");
    assert_eq!(flushed.wait().expect("the disk works"), third.next());
}

#[test]
fn what_comes_meanwhile_and_is_no_append_is_no_reason_to_leave_appends_to_the_writers_thread() {
    let (disk, _dir, log) = log_without_syncs();
    // A pause would never end.
    disk.clock.stop_timers();
    let (_, round) = begin(&log);
    let flushed = log.flush();
    round.run();
    flushed.wait().expect("the disk works");
    let is_lent = (0..10_000).any(|_| {
        let mut held = None;
        let answer = log.append_inline(append_of(batch(1, 10)), &mut held);
        let is_lent = held.is_some();
        held.into_iter().for_each(InlineRound::run);
        answer.wait().expect("a good append");
        is_lent
    });
    assert!(is_lent);
}

#[test]
fn appends_that_join_it_are_one_write_in_their_order() {
    let (disk, dir, log) = log_without_syncs();
    let other = disk.log_of(&dir, 1);
    let (first, round) = begin(&log);
    let writes_before = disk.metrics.writes.get();
    let mut held = Some(round);
    let sizes = [10, 20, 30_000, 100_000, 40];
    let answers = sizes.map(|bytes| log.append_inline(append_of(batch(1, bytes)), &mut held));
    let elsewhere = other.append_inline(append_of(batch(1, 10)), &mut held);
    let round = held.expect("it is still held");
    // The large one, and what comes behind it, are left to the thread.
    assert!((30_000..100_000).contains(&round.size_bytes()));
    round.run();
    let mut last = first.wait().expect("a good append").base_offset;
    for answer in answers {
        let offset = answer.wait().expect("a good append").base_offset;
        assert_eq!(offset, last.next());
        last = offset;
    }
    elsewhere.wait().expect("a good append");
    assert_eq!(disk.metrics.writes.get() - writes_before, 3);
}

#[test]
fn one_that_is_dropped_is_left_to_the_writers_thread() {
    let (_disk, _dir, log) = log_without_syncs();
    let (first, round) = begin(&log);
    let second = log.append(append_of(batch(1, 10)));
    drop(round);
    let first = first.wait().expect("a good append").base_offset;
    assert_eq!(second.wait().expect("a good append").base_offset, first.next());
}

/// A log whose appends wait for syncs, of which there were some.
fn log_with_syncs() -> (TestDisk, LogDir, Arc<Log>) {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    append(&log, batch(1, 10)).expect("a good append");
    (disk, dir, log)
}

#[test]
fn what_is_synced_in_it_is_answered_behind_the_sync() {
    let (disk, dir, log) = log_with_syncs();
    let syncs_before = disk.metrics.syncs.get();
    let (first, round) = begin(&log);
    assert!(round.has_sync());
    let mut held = Some(round);
    let second = log.append_inline(append_of(batch(1, 10)), &mut held);
    held.expect("it is still held").run();
    let first = first.wait().expect("a good append").base_offset;
    assert_eq!(second.wait().expect("a good append").base_offset, first.next());
    assert!(disk.metrics.syncs.get() > syncs_before);
    let end = log.log_end_offset();
    drop(dir);
    let disk = disk.crash();
    let dir = disk.open();
    assert_eq!(disk.log(&dir).log_end_offset(), end);
}

#[test]
fn a_sync_that_fails_in_it_poisons_the_log() {
    let (disk, _dir, log) = log_with_syncs();
    let (answer, round) = begin(&log);
    disk.fs.inject(Fault::new(SimOperation::Sync, Failure::Io).in_path(".log").times(1));
    round.run();
    answer.wait().expect_err("the sync has failed");
    let after = log.append(append_of(batch(1, 10)));
    after.wait().expect_err("nobody knows what is on the disk");
}

/// However much such a log has that is not synced, nobody waits for it.
#[test]
fn a_sync_that_no_append_waits_for_is_left_to_the_writers_thread() {
    let (disk, dir, log) = log_with_syncs();
    let other = disk.log_of(&dir, 1);
    other.set_config(Arc::new(LogConfig { flush_messages: 2, ..not_durable() }));
    append(&other, batch(1, 10)).expect("a good append");
    let mut held = Some(begin(&log).1);
    let answer = other.append_inline(append_of(batch(1, 10)), &mut held);
    disk.fs.hold_syncs_in("t-1/");
    held.expect("it is still held").run();
    answer.wait().expect("a good append");
    let flushed = FlushedAt::listen(&other, other.log_end_offset());
    disk.fs.release_syncs();
    flushed.wait();
}

#[test]
fn while_syncs_are_slow_the_writers_thread_does_them() {
    let (disk, _dir, log) = log_with_syncs();
    begin(&log).1.run();
    disk.fs.hold_syncs();
    let slow = log.append(append_of(batch(1, 10)));
    disk.fs.wait_for_held_syncs(1);
    thread::sleep(Duration::from_millis(20));
    disk.fs.release_syncs();
    slow.wait().expect("a good append");
    let mut held = None;
    let answer = log.append_inline(append_of(batch(1, 10)), &mut held);
    assert!(held.is_none(), "it would hold up its caller");
    answer.wait().expect("a good append");
}

#[test]
fn what_is_large_or_waits_for_a_first_sync_is_left_to_the_writers_thread() {
    let (disk, _dir, log) = log_without_syncs();
    // The writer has nothing to do afterwards.
    begin(&log).1.run();
    let mut held = None;
    let answer = log.append_inline(append_of(batch(1, 100_000)), &mut held);
    assert!(held.is_none());
    answer.wait().expect("a good append");
    disk.fs.hold_syncs();
    log.set_config(Arc::new(LogConfig::default()));
    let answer = log.append_inline(append_of(batch(1, 10)), &mut held);
    assert!(held.is_none());
    disk.fs.release_syncs();
    answer.wait().expect("a good append");
}

#[test]
fn a_sync_that_becomes_due_is_made_by_the_writers_thread() {
    let by_time = LogConfig { flush_ms: 1, ..not_durable() };
    let by_count = LogConfig { flush_messages: 2, ..not_durable() };
    for config in [by_time, by_count] {
        let (_disk, _dir, log) = log_without_syncs();
        log.set_config(Arc::new(config));
        for _ in 0..4 {
            let (answer, round) = begin(&log);
            let flushed = FlushedAt::listen(&log, log.log_end_offset().next());
            round.run();
            answer.wait().expect("a good append");
            // By count, every other time.
            if log.config().flush_ms == 1 || log.log_end_offset().0 % 2 == 0 {
                flushed.wait();
            }
        }
    }
}

#[test]
fn a_sync_that_was_due_at_some_time_and_is_due_now_is_made_now() {
    let (disk, dir, log) = log_without_syncs();
    let other = disk.log_of(&dir, 1);
    let by_either = LogConfig { flush_messages: 2, flush_ms: 3_600_000, ..not_durable() };
    log.set_config(Arc::new(by_either));
    for _ in 0..4 {
        for is_second in [false, true] {
            let mut held = Some(begin(&other).1);
            let answer = log.append_inline(append_of(batch(1, 10)), &mut held);
            let flushed = FlushedAt::listen(&log, log.log_end_offset().next());
            held.into_iter().for_each(InlineRound::run);
            answer.wait().expect("a good append");
            if is_second {
                flushed.wait();
            }
        }
    }
}

#[test]
fn segments_that_it_fills_are_put_on_stable_storage() {
    let (disk, dir, log) = log_without_syncs();
    log.set_config(Arc::new(LogConfig { segment_bytes: 1000, ..not_durable() }));
    while log.segment_count() < 5 {
        begin(&log).1.run();
    }
    // All but the last segment.
    let full = Offset(log.log_end_offset().0 / 5);
    FlushedAt::listen(&log, full).wait();
    drop(dir);
    let disk = disk.crash();
    let dir = disk.open();
    assert!(disk.log(&dir).log_end_offset() >= full);
}

#[test]
fn a_close_waits_for_it_and_what_is_appended_is_there() {
    let (disk, dir, log) = log_without_syncs();
    let (answer, round) = begin(&log);
    let end = log.log_end_offset().next();
    thread::scope(|scope| {
        let closed = scope.spawn(|| dir.close());
        round.run();
        closed.join().expect("it does not panic").expect("it closes");
    });
    answer.wait().expect("a good append");
    let disk = disk.crash();
    let dir = disk.open();
    assert!(dir.recovery_report().was_clean);
    assert_eq!(disk.log(&dir).log_end_offset(), end);
}

#[test]
fn after_one_that_was_held_up_the_writers_thread_does_all() {
    struct HoldsUp;
    impl TailListener for HoldsUp {
        fn on_tail(&self, _log_end: Offset, _flushed: Offset) {
            thread::sleep(Duration::from_millis(11));
        }

        fn stable_offset(&self) -> Offset {
            Offset::ZERO
        }
    }
    let (_disk, _dir, log) = log_without_syncs();
    log.set_tail_listener(Arc::new(HoldsUp));
    begin(&log).1.run();
    drop(log.take_tail_listener());
    for _ in 0..100 {
        let mut held = None;
        let answer = log.append_inline(append_of(batch(1, 10)), &mut held);
        assert!(held.is_none(), "it would hold up its caller");
        answer.wait().expect("a good append");
    }
}

#[test]
fn one_that_panics_leaves_nobody_waiting() {
    let (disk, dir, log) = log_without_syncs();
    let (answer, round) = begin(&log);
    let behind = log.append(append_of(batch(1, 10)));
    log.set_tail_listener(Arc::new(Panics));
    thread::spawn(|| round.run()).join().expect_err("it panics");
    for answer in [answer, behind, log.append(append_of(batch(1, 10)))] {
        let error = answer.wait().expect_err("the writer is lost");
        assert!(matches!(error, LogError::Closed { .. }), "{error}");
    }
    dir.close().expect_err("the writer is lost");
    let dir = disk.open();
    let log = disk.log(&dir);
    let end = log.log_end_offset();
    let nothing = log.offset_for_timestamp(TimestampMs(i64::MAX), end, DecodeLimit::DEFAULT);
    assert_eq!(nothing.expect("the log is whole").found, None);
}
