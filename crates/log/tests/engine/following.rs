//! Appends of a follower: at the offsets and in the epochs that its leader has given.

use std::sync::Arc;

use bytes::Bytes;
use logway_log::checkpoint::Divergence;
use logway_log::fs::sim::{Failure, Fault, SimOperation};
use logway_log::{FollowerAppend, FollowerBatches, Log, LogConfig, LogDir, LogError};
use logway_model::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, TimestampMs};
use logway_record::{Batch, BatchBuilder, Compression};

use crate::support::*;

/// The epoch that is followed unless another is named.
const FOLLOWED: LeaderEpoch = LeaderEpoch(7);

/// A batch of so many records, as a leader has it.
pub(crate) fn led(offset: i64, epoch: i32, records: usize) -> Batch {
    led_by(offset, epoch, records, None)
}

fn led_by(offset: i64, epoch: i32, records: usize, producer: Option<(i64, i16, i32)>) -> Batch {
    let mut builder =
        BatchBuilder::new(Compression::None).with_assignment(Offset(offset), LeaderEpoch(epoch));
    if let Some((id, epoch, sequence)) = producer {
        builder = builder.with_producer(ProducerId(id), ProducerEpoch(epoch), Sequence(sequence));
    }
    for record in 0..records {
        let value = format!("{epoch}-{}", offset + record as i64);
        builder.append(TimestampMs(NOW_MS), None, Some(value.as_bytes()), &[]).expect("fits");
    }
    Batch::parse(builder.finish().expect("fits")).expect("is whole")
}

/// The records of a Fetch answer.
pub(crate) fn answer(batches: &[Batch]) -> Bytes {
    batches.iter().map(|batch| &batch.bytes()[..]).collect::<Vec<_>>().concat().into()
}

pub(crate) fn parse(batches: &[Batch], followed: LeaderEpoch) -> FollowerBatches {
    parse_from(batches[0].base_offset(), batches, followed)
}

fn parse_from(from: Offset, batches: &[Batch], followed: LeaderEpoch) -> FollowerBatches {
    FollowerBatches::parse(&partition(0), followed, from, answer(batches)).expect("they are good")
}

pub(crate) fn follow(dir: &LogDir, log: &Arc<Log>, batches: &[Batch]) -> FollowerAppend {
    follow_from(dir, log, batches[0].base_offset().0, batches)
}

fn follow_from(dir: &LogDir, log: &Arc<Log>, from: i64, batches: &[Batch]) -> FollowerAppend {
    let appends = vec![(Arc::clone(log), parse_from(Offset(from), batches, FOLLOWED))];
    dir.append_followed(appends).pop().expect("there is an answer")
}

#[test]
fn batches_stay_as_the_leader_has_them() {
    let disk = TestDisk::new(1).with_config(log_append_time());
    let dir = disk.open();
    let log = disk.log(&dir);
    let batches = [led(0, 2, 3), led(3, 2, 1), led(4, 5, 2)];
    let end = follow(&dir, &log, &batches).wait().expect("is appended");
    assert_eq!((end.written, end.flushed), (Offset(6), Offset(6)));
    assert_eq!(read_batches(&log, Offset(0)), batches);
    assert_eq!(log.epoch_at(Offset(3)), LeaderEpoch(2));
    assert_eq!(log.latest_epoch(), LeaderEpoch(5));
    let end = follow(&dir, &log, &[led(6, 7, 1)]).wait().expect("is appended");
    assert_eq!(end.written, Offset(7));
}

/// Compaction has left a gap there. A start after a crash must not take it for the end.
#[test]
fn a_gap_is_filled_and_survives_a_crash() {
    let disk = TestDisk::new(1).with_config(small_segments());
    let dir = disk.open();
    let log = disk.log(&dir);
    // The second is handed over before the first is answered: the writer knows where the log ends.
    let first = follow(&dir, &log, &[led(0, 2, 1), led(10, 3, 1)]);
    let second = follow_from(&dir, &log, 11, &[led(1_000, 4, 2)]);
    first.wait().expect("is appended");
    assert_eq!(second.wait().expect("is appended").written, Offset(1_002));
    let offsets = |log: &Log| -> Vec<i64> {
        read_records(log, Offset(0)).iter().map(|record| record.offset.0).collect()
    };
    assert_eq!(offsets(&log), [0, 10, 1_000, 1_001]);
    drop(dir);
    let disk = disk.crash();
    let dir = disk.open();
    assert!(dir.recovery_report().findings.is_empty(), "{:?}", dir.recovery_report());
    let log = disk.log(&dir);
    assert_eq!(log.log_end_offset(), Offset(1_002));
    assert_eq!(offsets(&log), [0, 10, 1_000, 1_001]);
    assert_eq!(log.epoch_at(Offset(999)), LeaderEpoch(4));
}

#[test]
fn what_is_before_the_end_is_refused_and_leaves_no_trace() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    follow(&dir, &log, &[led(0, 2, 3)]).wait().expect("is appended");
    for batches in [vec![led(2, 2, 3)], vec![led(3, 2, 2), led(4, 2, 1)]] {
        let refused = follow_from(&dir, &log, 3, &batches).wait();
        assert!(matches!(refused, Err(LogError::OffsetNotNext { .. })), "{refused:?}");
    }
    assert_eq!(log.log_end_offset(), Offset(3));
    // Wider than any segment: no compaction leaves that.
    let refused = follow_from(&dir, &log, 3, &[led(1 << 33, 2, 1)]).wait();
    assert!(matches!(refused, Err(LogError::OffsetNotNext { .. })), "{refused:?}");
    follow(&dir, &log, &[led(3, 2, 1)]).wait().expect("the log is as it was");
}

/// The answers of two fetches are under way, and the first cannot be written: what the second brings is
/// not taken for what is behind a gap.
#[test]
fn what_was_fetched_behind_a_refused_answer_is_refused() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    follow(&dir, &log, &[led(0, 2, 3)]).wait().expect("is appended");
    disk.fs.inject(Fault::new(SimOperation::Write, Failure::NoSpace).in_path(".log").times(1));
    let first = follow(&dir, &log, &[led(3, 2, 3)]);
    first.wait().expect_err("there is no space");
    let second = follow(&dir, &log, &[led(6, 2, 3)]).wait();
    assert!(matches!(second, Err(LogError::OffsetNotNext { .. })), "{second:?}");
    let early = follow(&dir, &log, &[led(2, 2, 3)]).wait();
    assert!(matches!(early, Err(LogError::OffsetNotNext { .. })), "{early:?}");
    assert_eq!(log.log_end_offset(), Offset(3));
    follow(&dir, &log, &[led(3, 2, 3)]).wait().expect("there is space again");
}

#[test]
fn epochs_do_not_go_down_nor_past_the_one_that_is_followed() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    follow(&dir, &log, &[led(0, 4, 1)]).wait().expect("is appended");
    let cases = [
        vec![led(1, 3, 1)],
        vec![led(1, 6, 1), led(2, 5, 1)],
        vec![led(1, FOLLOWED.0 + 1, 1)],
        vec![led(1, LeaderEpoch::NONE.0, 1)],
    ];
    for batches in cases {
        let refused = follow(&dir, &log, &batches).wait();
        assert!(matches!(refused, Err(LogError::EpochOutOfOrder { .. })), "{refused:?}");
    }
    // Also where both are written at once, and where a gap is between them.
    let first = follow(&dir, &log, &[led(1, 6, 1)]);
    let second = follow_from(&dir, &log, 2, &[led(9, 5, 1)]);
    first.wait().expect("is appended");
    let refused = second.wait();
    assert!(matches!(refused, Err(LogError::EpochOutOfOrder { .. })), "{refused:?}");
    assert_eq!((log.log_end_offset(), log.latest_epoch()), (Offset(2), LeaderEpoch(6)));
}

#[test]
fn what_a_leader_sent_that_is_followed_no_more_is_refused() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    follow(&dir, &log, &[led(0, 4, 1)]).wait().expect("is appended");
    assert_eq!(log.begin_epoch(LeaderEpoch(8)).wait().expect("begins"), Offset(1));
    let refused = follow(&dir, &log, &[led(1, 4, 1)]).wait();
    assert!(matches!(refused, Err(LogError::EpochOver { .. })), "{refused:?}");
    assert_eq!(log.log_end_offset(), Offset(1));
}

#[test]
fn damage_is_found_before_anything_is_written() {
    let whole = answer(&[led(0, 2, 3), led(3, 2, 3)]);
    let parse = |bytes: Bytes| FollowerBatches::parse(&partition(0), FOLLOWED, Offset(0), bytes);
    for position in 0..whole.len() {
        let mut damaged = whole.to_vec();
        damaged[position] ^= 1;
        // Neither the offsets nor the epoch are under the CRC; the log looks at them.
        let within = position % (whole.len() / 2);
        match parse(damaged.into()) {
            Err(LogError::BadBatch { .. }) => {}
            Ok(batches) => {
                let is_cut = batches.next_offset() != Offset(6);
                assert!(within < 16 || is_cut, "byte {position} was changed, and nobody saw it");
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    // Cut off where a broker has cut the answer.
    let cut = parse(whole.slice(..whole.len() - 1)).expect("the first is whole");
    assert_eq!(cut.next_offset(), Offset(3));
    assert!(parse(whole.slice(..20)).expect("none is whole").is_empty());
}

/// The leader has judged the sequences, and may have forgotten producers that the follower knows.
#[test]
fn producers_follow_the_log_and_nobody_is_refused() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    let batches = [
        led_by(0, 2, 2, Some((9, 3, 40))),
        led_by(2, 2, 1, Some((9, 3, 77))),
        led_by(3, 2, 1, Some((9, 1, 0))),
    ];
    follow(&dir, &log, &batches).wait().expect("is appended");
    let known = |log: &Log| {
        let producers = log.producers().wait().expect("the writer answers");
        let (_, state) = producers.into_iter().next().expect("one is known");
        (state.epoch, state.last_batch().map(|batch| (batch.last_sequence, batch.last_offset)))
    };
    let expected = (ProducerEpoch(1), Some((Sequence(0), Offset(3))));
    assert_eq!(known(&log), expected);
    // What was taken back with an append that is refused is nobody's state.
    let refused = [led_by(4, 2, 1, Some((9, 1, 1))), led(3, 2, 1)];
    follow(&dir, &log, &refused).wait().expect_err("the second is before the end");
    assert_eq!(known(&log), expected);
    drop(dir);
    let disk = disk.kill();
    let dir = disk.open();
    assert_eq!(known(&disk.log(&dir)), expected);
}

/// The answers of one fetch, of many partitions, are one sync each way and one round.
#[test]
fn many_partitions_are_one_round() {
    const LOGS: i32 = 40;
    let mut disk = TestDisk::new(1);
    disk.journal_bytes = 1 << 20;
    let dir = disk.open();
    let logs: Vec<Arc<Log>> = (0..LOGS).map(|number| disk.log_of(&dir, number)).collect();
    let all = |offset| {
        logs.iter().map(move |log| (Arc::clone(log), parse(&[led(offset, 2, 1)], FOLLOWED)))
    };
    let append = |offset| {
        let answers = dir.append_followed(all(offset).collect());
        answers.into_iter().for_each(|answer| {
            let end = answer.wait().expect("is appended");
            assert_eq!((end.written, end.flushed), (Offset(offset + 1), Offset(offset + 1)));
        });
    };
    // The names of their files, and the journal, which is made in the background.
    let mut offset = 0;
    while disk.metrics.journal_rounds.get() == 0 {
        append(offset);
        offset += 1;
    }
    let counts = |disk: &TestDisk| (disk.metrics.journal_rounds.get(), disk.metrics.syncs.get());
    let (rounds, syncs) = counts(&disk);
    append(offset);
    assert_eq!(
        counts(&disk),
        (rounds + 1, syncs),
        "one sync of the journal, and none of {LOGS} files"
    );
    // Two answers that are handed over before either is written down.
    let first = dir.append_followed(all(offset + 1).collect());
    let second = dir.append_followed(all(offset + 2).collect());
    for answer in first.into_iter().chain(second) {
        answer.wait().expect("is appended");
    }
    drop(dir);
    let disk = disk.crash();
    let dir = disk.open();
    for number in 0..LOGS {
        let log = disk.log_of(&dir, number);
        assert_eq!(log.log_end_offset(), Offset(offset + 3), "log {number}");
    }
}

/// On a log without syncs, what is written and what is on the disk are told apart.
#[test]
fn what_is_written_and_what_is_flushed_are_told() {
    let disk = TestDisk::new(1).with_config(not_durable());
    let dir = disk.open();
    let log = disk.log(&dir);
    let end = follow(&dir, &log, &[led(0, 2, 3)]).wait().expect("is written");
    assert_eq!((end.written, end.flushed), (Offset(3), Offset(0)));
    log.flush().wait().expect("is flushed");
    let end = follow(&dir, &log, &[led(3, 2, 1)]).wait().expect("is written");
    assert_eq!((end.written, end.flushed), (Offset(4), Offset(3)));
}

#[test]
fn a_new_leader_knows_its_epoch_before_its_first_record() {
    let disk = TestDisk::new(1);
    let dir = disk.open();
    let log = disk.log(&dir);
    follow(&dir, &log, &[led(0, 4, 3)]).wait().expect("is appended");
    assert_eq!(log.end_offset_for_epoch(LeaderEpoch(8)), None);
    assert_eq!(log.begin_leading(LeaderEpoch(8)).wait().expect("begins"), Offset(3));
    let end = |log: &Log, epoch| {
        log.end_offset_for_epoch(LeaderEpoch(epoch)).map(|end| (end.epoch.0, end.end_offset.0))
    };
    assert_eq!(end(&log, 8), Some((8, 3)));
    assert_eq!(end(&log, 6), Some((4, 3)));
    append(&log, batch(1, 10)).expect_err("of an earlier epoch");
    // One that is over begins nowhere.
    log.begin_leading(LeaderEpoch(7)).wait().expect("is answered");
    assert_eq!(end(&log, 8), Some((8, 3)));
    let batches = logway_log::AppendBatches::new(vec![batch(2, 10)], LeaderEpoch(8));
    log.append(batches).wait().expect("is of the epoch");
    drop(dir);
    let disk = disk.crash();
    let dir = disk.open();
    let log = disk.log(&dir);
    assert_eq!((end(&log, 4), end(&log, 8)), (Some((4, 3)), Some((8, 5))));
}

/// Whatever pieces the leader's log comes in, and whenever the power goes: the follower's log is a
/// beginning of it, at least what was answered.
/// It led for a moment, and wrote nothing. Then another leads, which has one more record of the epoch before.
#[test]
fn an_epoch_without_records_does_not_come_back_with_a_later_start() {
    for is_killed in [false, true] {
        let mut disk = TestDisk::new(1);
        let dir = disk.open();
        let log = disk.log(&dir);
        follow(&dir, &log, &[led(0, 4, 1), led(1, 5, 2)]).wait().expect("follows");
        log.begin_leading(LeaderEpoch(8)).wait().expect("begins");
        drop(log);
        dir.close().expect("closes");

        let dir = disk.open();
        let log = disk.log(&dir);
        assert_eq!(log.latest_epoch(), LeaderEpoch(5));
        follow(&dir, &log, &[led(3, 5, 1)]).wait().expect("follows");
        drop(log);
        if is_killed {
            drop(dir);
            disk = disk.kill();
        } else {
            dir.close().expect("closes");
        }

        let dir = disk.open();
        let log = disk.log(&dir);
        assert_eq!((log.log_end_offset(), log.latest_epoch()), (Offset(4), LeaderEpoch(5)));
        log.begin_leading(LeaderEpoch(9)).wait().expect("begins");
        assert_eq!(log.divergence(LeaderEpoch(5), Offset(4)), Divergence::None);
        let earlier = log.end_offset_for_epoch(LeaderEpoch(4)).map(|end| end.end_offset);
        assert_eq!(earlier, Some(Offset(1)));
    }
}

#[test]
fn a_followers_log_is_a_beginning_of_the_leaders() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let mut leader = Vec::new();
        let (mut offset, mut epoch) = (0, 1);
        for _ in 0..60 {
            epoch += i32::from(random.below(10) == 0);
            offset += if random.below(8) == 0 { random.below(50) as i64 } else { 0 };
            let producer = (random.below(2) == 0).then(|| (random.below(3) as i64, 0, 5));
            let batch = led_by(offset, epoch, 1 + random.below(4), producer);
            offset = batch.header().next_offset().0;
            leader.push(batch);
        }
        let config = LogConfig { segment_bytes: 900, ..small_segments() };
        let mut disk = TestDisk::new(seed).with_config(config);
        disk.journal_bytes = [0, 64 << 10][random.below(2)];
        disk.fs.crash_at_change(20 + random.below(400) as u64);
        let mut answered = Offset(0);
        let followed = LeaderEpoch(epoch);
        if let Ok(dir) = disk.try_open()
            && let Ok(log) = dir.create_log(partition(0), topic_id(), Arc::new(disk.config.clone()))
        {
            let mut rest = &leader[..];
            let mut from = Offset(0);
            while !rest.is_empty() {
                let (piece, others) = rest.split_at(1 + random.below(rest.len().min(7)));
                rest = others;
                let parsed = parse_from(from, piece, followed);
                from = parsed.next_offset();
                let appends = vec![(Arc::clone(&log), parsed)];
                match dir.append_followed(appends).remove(0).wait() {
                    Ok(end) => answered = end.written,
                    Err(_) => break,
                }
            }
        }
        let disk = disk.crash();
        let dir = disk.open();
        let log = disk.log(&dir);
        assert!(log.log_end_offset() >= answered, "seed {seed}: {log:?}, {answered} was answered");
        let found: Vec<Batch> = read_batches(&log, Offset(0));
        let records = found.iter().filter(|batch| batch.header().record_count > 0);
        for (found, sent) in records.clone().zip(&leader) {
            assert_eq!(found, sent, "seed {seed}");
            assert_eq!(log.epoch_at(found.last_offset()), sent.header().leader_epoch);
        }
        let next = leader.get(records.count()).map(|next| next.base_offset());
        let is_next = next.is_none_or(|next| next >= log.log_end_offset());
        assert!(is_next, "seed {seed}: {log:?} lacks {next:?}");
    }
}
