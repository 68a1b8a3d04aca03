//! The table against a plain model, Kafka's rules one by one, and the snapshot's bytes.

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::path::Path;

use logway_model::{
    Offset, PartitionId, ProducerEpoch, ProducerId, Sequence, TimestampMs, TopicName,
    TopicPartition,
};
use logway_record::TransactionOutcome;
use proptest::collection::vec;
use proptest::prelude::*;

use super::{
    AppendOrigin, Marker, ProducerBatch, ProducerLimits, ProducerStateTable, SequenceCheck,
    snapshot,
};
use crate::fs::{Fs, OpenMode, SimFs, read_to_end};
use crate::{LogError, LogMetrics};

const NOW: TimestampMs = TimestampMs(1_700_000_000_000);

const FILE: &str = "/00000000000000002001.snapshot";

fn table(capacity: usize) -> ProducerStateTable {
    table_of(ProducerLimits::new(capacity, usize::MAX, LogMetrics::new()))
}

fn table_of(limits: ProducerLimits) -> ProducerStateTable {
    let topic = TopicName::new("orders").expect("is valid");
    ProducerStateTable::new(TopicPartition::new(topic, PartitionId(0)), limits)
}

fn batch(producer_id: i64, epoch: i16, base_sequence: i32, records: i32) -> ProducerBatch {
    ProducerBatch {
        producer_id: ProducerId(producer_id),
        epoch: ProducerEpoch(epoch),
        base_sequence: Sequence(base_sequence),
        offset_delta: records - 1,
        max_timestamp: TimestampMs(1_700_000_000_000),
        transactional: false,
    }
}

impl ProducerStateTable {
    fn check_of_client(&self, batch: &ProducerBatch) -> Result<SequenceCheck, LogError> {
        self.check(batch, AppendOrigin::Client, None)
    }
}

fn appended(table: &mut ProducerStateTable, batch: ProducerBatch, base_offset: i64) {
    assert_eq!(table.check_of_client(&batch).expect("is in order"), SequenceCheck::Append);
    let _ = table.update(&batch, Offset(base_offset), NOW);
}

/// The offsets that a duplicate is answered with.
fn duplicate_of(table: &ProducerStateTable, batch: &ProducerBatch) -> Option<(i64, i64)> {
    match table.check_of_client(batch).expect("is in order") {
        SequenceCheck::Append => None,
        SequenceCheck::Duplicate(known) => Some((known.base_offset().0, known.last_offset.0)),
    }
}

fn expected_sequence(table: &ProducerStateTable, batch: &ProducerBatch) -> i32 {
    match table.check_of_client(batch) {
        Err(LogError::OutOfOrderSequence { expected, got, .. }) => {
            assert_eq!(got, batch.base_sequence);
            expected.0
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn sequences_have_no_gaps() {
    let mut table = table(10);
    appended(&mut table, batch(7, 0, 0, 10), 100);
    appended(&mut table, batch(7, 0, 10, 5), 110);
    assert_eq!(expected_sequence(&table, &batch(7, 0, 16, 1)), 15);
    assert_eq!(expected_sequence(&table, &batch(7, 0, 14, 1)), 15);
    appended(&mut table, batch(8, 0, 0, 1), 115);
    appended(&mut table, batch(7, 0, 15, 1), 116);

    let error = table.check_of_client(&batch(7, 0, 17, 1)).expect_err("there is a gap");
    let expected = "orders-0: out of order sequence of producer 7: expected 16, got 17";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn one_of_the_last_five_batches_again_is_a_duplicate() {
    let mut table = table(10);
    for number in 0..6 {
        appended(&mut table, batch(7, 0, 10 * number, 10), 100 + 20 * i64::from(number));
    }
    assert_eq!(expected_sequence(&table, &batch(7, 0, 0, 10)), 60, "the sixth last is forgotten");
    for number in 1..6 {
        let base_offset = 100 + 20 * i64::from(number);
        let found = duplicate_of(&table, &batch(7, 0, 10 * number, 10));
        assert_eq!(found, Some((base_offset, base_offset + 9)));
    }
    assert_eq!(expected_sequence(&table, &batch(7, 0, 50, 9)), 60, "it is not the same batch");
}

#[test]
fn a_new_epoch_begins_with_zero_and_fences_the_old() {
    let mut table = table(10);
    appended(&mut table, batch(7, 3, 0, 10), 100);
    assert_eq!(expected_sequence(&table, &batch(7, 4, 10, 1)), 0);
    appended(&mut table, batch(7, 4, 0, 10), 110);
    assert_eq!(duplicate_of(&table, &batch(7, 4, 0, 10)), Some((110, 119)));
    match table.check_of_client(&batch(7, 3, 10, 1)) {
        Err(LogError::FencedProducerEpoch { current, got, .. }) => {
            assert_eq!((current, got), (ProducerEpoch(4), ProducerEpoch(3)));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_unknown_producer_may_begin_anywhere() {
    let mut table = table(10);
    appended(&mut table, batch(7, 5, 1234, 10), 0);
    assert_eq!(expected_sequence(&table, &batch(7, 5, 0, 10)), 1244);
}

#[test]
fn sequences_wrap_after_the_largest() {
    let mut table = table(10);
    appended(&mut table, batch(7, 0, i32::MAX - 2, 2), 0);
    let over_the_end = batch(7, 0, i32::MAX, 5);
    appended(&mut table, over_the_end, 2);
    assert_eq!(over_the_end.last_sequence(), Sequence(3));
    assert_eq!(duplicate_of(&table, &over_the_end), Some((2, 6)));
    appended(&mut table, batch(7, 0, 4, 1), 7);
}

#[test]
fn an_update_can_be_taken_back() {
    let mut table = table(10);
    appended(&mut table, batch(7, 0, 0, 1), 0);
    let state = |table: &ProducerStateTable| {
        table.iter().map(|(id, producer)| (id, *producer)).collect::<BTreeMap<_, _>>()
    };
    let before = state(&table);
    let undo = [
        table.update(&batch(7, 0, 1, 1), Offset(1), NOW),
        table.update(&batch(7, 1, 0, 1), Offset(2), NOW),
        table.update(&batch(8, 0, 0, 1), Offset(3), NOW),
    ];
    for previous in undo.into_iter().rev() {
        table.restore(previous);
    }
    assert_eq!(state(&table), before);
}

#[test]
fn idle_producers_expire_unless_a_transaction_is_open() {
    let mut table = table(10);
    let now = TimestampMs(1_700_000_001_000);
    let timed = |id, timestamp, transactional| ProducerBatch {
        max_timestamp: TimestampMs(timestamp),
        transactional,
        ..batch(id, 0, 0, 1)
    };
    appended(&mut table, timed(1, now.0 - 1000, false), 0);
    appended(&mut table, timed(2, now.0 - 999, false), 1);
    let _ = table.update(&timed(3, now.0 - 5000, true), Offset(2), NOW);
    appended(&mut table, timed(4, i64::MIN, false), 3);
    assert_eq!(table.expire(now, 1000), 2);
    assert!(table.get(ProducerId(1)).is_none() && table.get(ProducerId(4)).is_none());

    let start =
        |table: &ProducerStateTable| table.get(ProducerId(3)).expect("is known").transaction_start;
    assert_eq!(start(&table), Some(Offset(2)));
    let _ = table.update(
        &ProducerBatch { base_sequence: Sequence(1), ..timed(3, 0, true) },
        Offset(9),
        NOW,
    );
    assert_eq!(start(&table), Some(Offset(2)), "a transaction begins once");
    let _ = table.end_transaction(&Marker {
        producer_id: ProducerId(3),
        epoch: ProducerEpoch(0),
        outcome: TransactionOutcome::Commit,
        coordinator_epoch: 17,
        timestamp: now,
        offset: Offset(10),
    });
    assert_eq!(start(&table), None);
    assert_eq!(table.get(ProducerId(3)).expect("is known").coordinator_epoch, 17);
    assert_eq!(table.expire(TimestampMs(now.0 + 1000), 1000), 2);
    assert!(table.is_empty());
}

#[test]
fn a_full_table_forgets_those_that_have_not_written_for_the_longest() {
    let mut table = table(32);
    for id in 0..32 {
        appended(&mut table, batch(id, 0, 0, 1), id);
    }
    // The oldest has a transaction, the next writes again.
    let _ =
        table.update(&ProducerBatch { transactional: true, ..batch(0, 0, 1, 1) }, Offset(0), NOW);
    appended(&mut table, batch(1, 0, 1, 1), 100);
    appended(&mut table, batch(1000, 0, 77, 1), 101);
    let known: Vec<i64> = (0..32).filter(|&id| table.get(ProducerId(id)).is_some()).collect();
    let expected: Vec<i64> = (0..32).filter(|id| ![2, 3].contains(id)).collect();
    assert_eq!(known, expected, "a sixteenth goes at once");
    assert_eq!(table.len(), 31);

    for id in 2000..3000 {
        appended(&mut table, batch(id, 0, 0, 1), id);
        assert!(table.len() <= 32);
    }
    assert!(table.get(ProducerId(0)).is_some(), "an open transaction is kept");
}

#[test]
fn tables_share_a_bound() {
    let metrics = LogMetrics::new();
    let limits = ProducerLimits::new(1000, 160, metrics.clone());
    let (mut first, mut second) = (table_of(limits.clone()), table_of(limits.clone()));
    for id in 0..140 {
        appended(&mut first, batch(id, 0, 0, 1), id);
    }
    assert_eq!(limits.excess(), None);
    for id in 0..1000 {
        appended(&mut second, batch(id, 0, 0, 1), id);
        assert!(first.len() + second.len() <= 160);
    }
    assert_eq!(first.len(), 140, "who finds no room makes it for himself");
    assert_eq!(limits.excess(), Some(20));
    assert_eq!(metrics.evicted_producers.get(), 980);
    drop(first);
    assert_eq!(metrics.producers.get(), 20);
    for id in 2000..2130 {
        appended(&mut second, batch(id, 0, 0, 1), id);
    }
    assert_eq!(second.len(), 150);
}

#[test]
fn batches_without_a_sequence_do_not_disturb() {
    let mut table = table(10);
    let odd = [batch(7, 0, -1, 5), batch(7, -1, i32::MIN, 5), batch(7, 0, i32::MAX, i32::MIN + 1)];
    for odd in odd {
        let _ = table.check_of_client(&odd);
        let _ = table.update(&odd, Offset(i64::MAX), NOW);
        let _ = table.check_of_client(&odd);
        assert!(table.get(ProducerId(7)).expect("is known").next_sequence().0 >= 0);
    }
}

/// What a plain implementation remembers: for each producer all batches of its newest epoch.
#[derive(Default)]
struct Model {
    producers: BTreeMap<i64, (i16, Vec<(ProducerBatch, i64)>)>,
}

impl Model {
    fn check(&self, batch: &ProducerBatch) -> Result<Option<i64>, ()> {
        let Some((epoch, batches)) = self.producers.get(&batch.producer_id.0) else {
            return Ok(None);
        };
        if batch.epoch.0 < *epoch {
            return Err(());
        }
        if batch.epoch.0 > *epoch {
            return if batch.base_sequence.0 == 0 { Ok(None) } else { Err(()) };
        }
        let recent = &batches[batches.len().saturating_sub(5)..];
        let same = |known: &ProducerBatch| {
            known.base_sequence == batch.base_sequence && known.offset_delta == batch.offset_delta
        };
        if let Some((_, base_offset)) = recent.iter().find(|(known, _)| same(known)) {
            return Ok(Some(*base_offset));
        }
        let (last, _) = batches.last().expect("it has written");
        let next = (i64::from(last.base_sequence.0) + i64::from(last.offset_delta) + 1) % (1 << 31);
        if i64::from(batch.base_sequence.0) == next { Ok(None) } else { Err(()) }
    }

    fn update(&mut self, batch: ProducerBatch, base_offset: i64) {
        let (epoch, batches) = self.producers.entry(batch.producer_id.0).or_default();
        if *epoch != batch.epoch.0 {
            batches.clear();
        }
        *epoch = batch.epoch.0;
        batches.push((batch, base_offset));
    }
}

proptest! {
    /// The table decides as one would that remembers everything.
    #[test]
    fn the_table_decides_as_the_model_does(
        start in prop_oneof![Just(0), Just(i32::MAX - 3)],
        steps in vec((0..2i64, 0..3i16, 0..12i64, 1..4i32), 1..200),
    ) {
        let mut table = table(10);
        let mut model = Model::default();
        let mut offset = 0;
        for (id, epoch, ahead, records) in steps {
            // Around the sequences that are in use, so that all cases come up.
            let sequence = (i64::from(start) + ahead) % (1 << 31);
            let batch = batch(id, epoch, sequence as i32, records);
            let found = match table.check_of_client(&batch) {
                Ok(SequenceCheck::Append) => Ok(None),
                Ok(SequenceCheck::Duplicate(known)) => Ok(Some(known.base_offset().0)),
                Err(_) => Err(()),
            };
            prop_assert_eq!(found, model.check(&batch), "{:?}", batch);
            if found == Ok(None) {
                let _ = table.update(&batch, Offset(offset), NOW);
                model.update(batch, offset);
                offset += i64::from(records);
            }
        }
    }
}

/// Three producers, written by Apache Kafka 4.3.
const GOLDEN: &[u8] = b"\x00\x01\xaf\x2a\x56\xd0\x00\x00\x00\x03\
    \x00\x00\x00\x00\x00\x00\x00\x07\x00\x01\x00\x00\x00\x09\x00\x00\x00\x00\x00\x00\x03\xf1\
    \x00\x00\x00\x04\x00\x00\x01\x8b\xcf\xe5\x68\x7b\xff\xff\xff\xff\
    \xff\xff\xff\xff\xff\xff\xff\xff\
    \x00\x00\x00\x00\x00\x00\x12\x67\x00\x03\x7f\xff\xff\xff\x00\x00\x00\x00\x00\x00\x07\xd0\
    \x00\x00\x00\x00\x00\x00\x01\x8b\xcf\xe5\x69\xc8\x00\x00\x00\x02\
    \x00\x00\x00\x00\x00\x00\x03\xde\
    \x00\x00\x00\x00\x00\x00\x12\x68\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\
    \x00\x00\x00\x00\x00\x00\x01\x8b\xcf\xe5\x6b\x15\x00\x00\x00\x05\
    \xff\xff\xff\xff\xff\xff\xff\xff";

fn put(fs: &SimFs, content: &[u8]) {
    let file = fs.open(Path::new(FILE), OpenMode::CreateTruncate).expect("is created");
    file.write_all_at(&[IoSlice::new(content)], 0).expect("is written");
}

#[test]
fn a_snapshot_is_kafkas_byte_for_byte() {
    let fs = SimFs::new(0);
    put(&fs, GOLDEN);
    let mut table = table(10);
    table.load(snapshot::read(&fs, Path::new(FILE)).expect("is valid"));
    assert_eq!(table.len(), 3);
    assert_eq!(duplicate_of(&table, &batch(7, 1, 5, 5)), Some((1005, 1009)));
    let open = table.get(ProducerId(4711)).expect("is known");
    assert_eq!((open.transaction_start, open.coordinator_epoch), (Some(Offset(990)), 2));
    assert_eq!(open.next_sequence(), Sequence(0), "the last was the largest");
    let ended = table.get(ProducerId(4712)).expect("is known");
    assert_eq!((ended.last_batch(), ended.last_timestamp.0), (None, 1_700_000_000_789));

    snapshot::write(&fs, Path::new(FILE), &table).expect("is written");
    let fs = fs.crash();
    let file = fs.open(Path::new(FILE), OpenMode::Read).expect("exists");
    assert_eq!(read_to_end(&*file, 1 << 20).expect("is read"), GOLDEN);
}

#[test]
fn a_snapshot_that_is_cut_or_changed_is_corrupt() {
    let fs = SimFs::new(0);
    let corrupt = |content: &[u8]| {
        put(&fs, content);
        let error = snapshot::read(&fs, Path::new(FILE)).expect_err("is damaged");
        assert!(matches!(error, LogError::Corrupt { .. }), "{error}");
    };
    for len in 0..GOLDEN.len() {
        corrupt(&GOLDEN[..len]);
    }
    for position in 0..GOLDEN.len() {
        let mut changed = GOLDEN.to_vec();
        changed[position] ^= 0x10;
        corrupt(&changed);
    }
    corrupt(&[GOLDEN, &[0; 46]].concat());
    put(&fs, &[]);
    fs.remove_file(Path::new(FILE)).expect("is removed");
    let error = snapshot::read(&fs, Path::new(FILE)).expect_err("does not exist");
    assert!(error.is_not_found());
}

proptest! {
    /// Content with a right checksum is a list of producers or corrupt, and never a panic; what
    /// it gives can be used.
    #[test]
    fn no_content_is_too_strange_to_be_read(
        entries in vec(vec(any::<u8>(), 46), 0..5),
        more in prop_oneof![4 => Just(0), 1 => any::<i32>()],
    ) {
        let count = more.wrapping_add(entries.len() as i32);
        let mut checked = count.to_be_bytes().to_vec();
        checked.extend(entries.concat());
        let crc = crc_fast::crc32_iscsi(&checked).to_be_bytes();
        let fs = SimFs::new(0);
        put(&fs, &[&[0, 1], &crc[..], &checked].concat());
        if let Ok(producers) = snapshot::read(&fs, Path::new(FILE)) {
            let mut table = table(2);
            table.load(producers);
            let ids: Vec<ProducerId> = table.iter().map(|(id, _)| id).collect();
            for id in ids {
                let next = batch(id.0, i16::MAX, 0, 1);
                let _ = table.check_of_client(&next);
                let current = table.get(id).expect("is known").epoch;
                let _ = table.check_of_client(&ProducerBatch { epoch: current, ..next });
                let _ = table.update(&next, Offset(0), NOW);
            }
            table.expire(TimestampMs(0), 1);
            snapshot::write(&fs, Path::new(FILE), &table).expect("is written");
            snapshot::read(&fs, Path::new(FILE)).expect("is valid");
        }
    }

    /// A producer goes on where the snapshot left it.
    #[test]
    fn producers_come_back_from_a_snapshot(
        steps in vec((0..20i64, 0..3i16, 1..10i32, any::<bool>()), 0..100),
    ) {
        let mut table = table(100);
        let mut offset = 0;
        for (id, newer, records, transactional) in steps {
            let known = table.get(ProducerId(id)).map(|known| (known.epoch.0, known.next_sequence().0));
            let (epoch, sequence) = match known {
                Some((epoch, next)) if newer == 0 => (epoch, next),
                Some((epoch, _)) => (epoch + newer, 0),
                None => (newer, 0),
            };
            let batch = ProducerBatch { transactional, ..batch(id, epoch, sequence, records) };
            let _ = table.update(&batch, Offset(offset), NOW);
            offset += i64::from(records);
        }
        let fs = SimFs::new(0);
        snapshot::write(&fs, Path::new(FILE), &table).expect("is written");
        let producers = snapshot::read(&fs.crash(), Path::new(FILE)).expect("is valid");
        prop_assert_eq!(producers.len(), table.len());
        for (id, found) in producers {
            let known = table.get(id).expect("is known");
            prop_assert_eq!(found.last_batch(), known.last_batch());
            prop_assert_eq!(found.epoch, known.epoch);
            prop_assert_eq!(found.transaction_start, known.transaction_start);
            prop_assert_eq!(found.last_timestamp, known.last_timestamp);
        }
    }
}
