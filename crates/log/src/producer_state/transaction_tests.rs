//! What the table says of transactions: Apache Kafka's rules one by one.

use logway_model::{
    Offset, PartitionId, ProducerEpoch, ProducerId, Sequence, TimestampMs, TopicName,
    TopicPartition, TransactionVersion,
};
use logway_record::TransactionOutcome::{self, Abort, Commit};

use super::{
    AbortedTransaction, AppendOrigin, EndedTransaction, Marker, ProducerBatch, ProducerLimits,
    ProducerStateTable, SequenceCheck, Verifications,
};
use crate::{LogError, LogMetrics};

const NOW: TimestampMs = TimestampMs(1_700_000_000_000);
const V0: TransactionVersion = TransactionVersion(0);
const V2: TransactionVersion = TransactionVersion(2);

fn table() -> ProducerStateTable {
    let topic = TopicName::new("orders").expect("is valid");
    let limits = ProducerLimits::new(10, usize::MAX, LogMetrics::new());
    ProducerStateTable::new(TopicPartition::new(topic, PartitionId(0)), limits)
}

fn batch(producer: i64, epoch: i16, sequence: i32, transactional: bool) -> ProducerBatch {
    ProducerBatch {
        producer_id: ProducerId(producer),
        epoch: ProducerEpoch(epoch),
        base_sequence: Sequence(sequence),
        offset_delta: 0,
        max_timestamp: NOW,
        transactional,
    }
}

/// One of a client that the coordinator vouches for; the place is the sequence.
fn verified(table: &mut ProducerStateTable, batch: ProducerBatch, at: i64) -> Result<(), LogError> {
    vouched(table, batch, at, 5)
}

/// The same, where the coordinator has that epoch.
fn vouched(
    table: &mut ProducerStateTable,
    batch: ProducerBatch,
    at: i64,
    coordinator_epoch: i32,
) -> Result<(), LogError> {
    let mut all = Verifications::default();
    let producer = (batch.producer_id, batch.epoch);
    let now = std::time::Instant::now();
    let guard = all.begin(producer, batch.base_sequence, false, now).expect("there is room");
    all.vouch(batch.producer_id, guard, coordinator_epoch);
    let verification = all.get(batch.producer_id, guard);
    let checked = table.check(&batch, AppendOrigin::Verified(guard), verification)?;
    assert_eq!(checked, SequenceCheck::Append);
    let _ = table.update(&batch, Offset(at), NOW);
    Ok(())
}

fn client(table: &ProducerStateTable, batch: ProducerBatch) -> Result<SequenceCheck, LogError> {
    table.check(&batch, AppendOrigin::Client, None)
}

fn marker(producer: i64, epoch: i16, outcome: TransactionOutcome, offset: i64) -> Marker {
    Marker {
        producer_id: ProducerId(producer),
        epoch: ProducerEpoch(epoch),
        outcome,
        coordinator_epoch: 5,
        timestamp: NOW,
        offset: Offset(offset),
    }
}

fn end(
    table: &mut ProducerStateTable,
    marker: Marker,
    version: TransactionVersion,
) -> Result<Option<EndedTransaction>, LogError> {
    table.check_marker(&marker, version)?;
    Ok(table.end_transaction(&marker).1)
}

#[test]
fn nobody_begins_a_transaction_that_the_coordinator_does_not_know() {
    let mut table = table();
    let first = batch(7, 0, 0, true);
    let error = client(&table, first).expect_err("nobody vouches for it");
    assert!(matches!(error, LogError::UnverifiedTransaction { .. }), "{error}");
    verified(&mut table, first, 10).expect("it is verified");
    let next = client(&table, batch(7, 0, 1, true)).expect("it goes on with what is open");
    assert_eq!(next, SequenceCheck::Append);
    assert!(matches!(client(&table, first), Ok(SequenceCheck::Duplicate(_))), "a retry");
    let error = client(&table, batch(7, 1, 0, true)).expect_err("its epoch has begun none");
    assert!(matches!(error, LogError::UnverifiedTransaction { .. }), "{error}");

    end(&mut table, marker(7, 0, Commit, 11), V0).expect("it is the first marker");
    let error = client(&table, batch(7, 0, 1, true)).expect_err("it has ended");
    assert!(matches!(error, LogError::UnverifiedTransaction { .. }), "{error}");
    assert!(matches!(client(&table, first), Ok(SequenceCheck::Duplicate(_))), "a late retry");
}

#[test]
fn what_is_part_of_no_transaction_is_refused_while_one_is_open() {
    let mut table = table();
    verified(&mut table, batch(7, 0, 0, true), 10).expect("it is verified");
    for late in [batch(7, 0, 1, false), batch(7, 1, 0, false)] {
        let error = client(&table, late).expect_err("one is open");
        assert!(matches!(error, LogError::TransactionOpen { .. }), "{error}");
    }
    end(&mut table, marker(7, 0, Commit, 11), V0).expect("it is the first marker");
    client(&table, batch(7, 0, 1, false)).expect("none is open");
}

#[test]
fn a_marker_of_version_2_raises_the_epoch_and_sequences_begin_anew() {
    let mut table = table();
    verified(&mut table, batch(7, 3, 0, true), 10).expect("it is verified");
    let error = end(&mut table, marker(7, 3, Commit, 11), V2).expect_err("it may be an older one");
    assert!(matches!(error, LogError::FencedProducerEpoch { .. }), "{error}");
    let ended = end(&mut table, marker(7, 4, Commit, 11), V2).expect("it is newer");
    assert_eq!(ended.map(|ended| ended.first), Some(Offset(10)));
    let again = end(&mut table, marker(7, 4, Commit, 12), V2).expect("it comes again");
    assert_eq!(again, None, "and ends nothing");
    let error = client(&table, batch(7, 3, 1, true)).expect_err("the epoch is over");
    assert!(matches!(error, LogError::FencedProducerEpoch { .. }), "{error}");
    let error = verified(&mut table, batch(7, 4, 1, true), 13).expect_err("it is new");
    assert!(matches!(error, LogError::OutOfOrderSequence { expected: Sequence(0), .. }), "{error}");
    verified(&mut table, batch(7, 4, 0, true), 13).expect("it begins anew");
}

#[test]
fn a_marker_before_version_2_may_have_the_epoch_of_the_records() {
    let mut table = table();
    verified(&mut table, batch(7, 3, 0, true), 10).expect("it is verified");
    let error = end(&mut table, marker(7, 2, Abort, 11), V0).expect_err("it is of an older epoch");
    assert!(matches!(error, LogError::FencedProducerEpoch { .. }), "{error}");
    assert!(end(&mut table, marker(7, 3, Abort, 11), V0).expect("it is good").is_some());
    verified(&mut table, batch(7, 3, 1, true), 12).expect("its sequences go on");
    assert!(end(&mut table, marker(7, 4, Abort, 13), V0).expect("it fences").is_some());
    let error = client(&table, batch(7, 3, 2, true)).expect_err("it is fenced");
    assert!(matches!(error, LogError::FencedProducerEpoch { .. }), "{error}");
}

#[test]
fn a_coordinator_that_was_replaced_ends_nothing() {
    let mut table = table();
    verified(&mut table, batch(7, 0, 0, true), 10).expect("it is verified");
    end(&mut table, marker(7, 0, Commit, 11), V0).expect("it is the first marker");
    verified(&mut table, batch(7, 0, 1, true), 12).expect("it is verified");
    let old = Marker { coordinator_epoch: 4, ..marker(7, 0, Abort, 13) };
    let error = end(&mut table, old, V0).expect_err("there is a newer coordinator");
    assert!(matches!(error, LogError::CoordinatorFenced { current: 5, got: 4, .. }), "{error}");
    assert_eq!(table.open_transactions().len(), 1);
    let newer = Marker { coordinator_epoch: 6, ..marker(7, 0, Abort, 13) };
    assert!(end(&mut table, newer, V0).expect("it is newer").is_some());
}

#[test]
fn a_coordinator_that_was_replaced_vouches_for_nothing() {
    let mut table = table();
    vouched(&mut table, batch(7, 0, 0, true), 10, 4).expect("nothing is known of coordinators");
    end(&mut table, marker(7, 0, Commit, 11), V0).expect("it is the first marker");
    let error = vouched(&mut table, batch(7, 0, 1, true), 12, 4).expect_err("there is a newer");
    assert!(matches!(error, LogError::StaleCoordinator { current: 5, got: 4, .. }), "{error}");
    assert_eq!(table.open_transactions().len(), 0);
    vouched(&mut table, batch(7, 0, 1, true), 12, 5).expect("it knows what has ended");
}

#[test]
fn an_aborted_transaction_is_noted_with_what_was_stable_then() {
    let mut table = table();
    verified(&mut table, batch(1, 0, 0, true), 10).expect("it is verified");
    verified(&mut table, batch(2, 0, 0, true), 11).expect("it is verified");
    let aborted = |ended: Option<EndedTransaction>| ended.expect("one was open").aborted;
    let ended = end(&mut table, marker(2, 0, Abort, 12), V0).expect("it is good");
    let expected = |id: i64, first: i64, last: i64, last_stable: i64| AbortedTransaction {
        producer_id: ProducerId(id),
        first: Offset(first),
        last: Offset(last),
        last_stable: Offset(last_stable),
    };
    assert_eq!(aborted(ended), Some(expected(2, 11, 12, 10)), "the other one is open");
    let ended = end(&mut table, marker(1, 0, Abort, 13), V0).expect("it is good");
    assert_eq!(aborted(ended), Some(expected(1, 10, 13, 14)));
    assert_eq!(end(&mut table, marker(1, 0, Abort, 14), V0).expect("it is good"), None);
}

#[test]
fn batches_of_the_group_coordinator_have_no_sequence_and_begin_transactions() {
    let mut table = table();
    let offsets = batch(7, 2, -1, true);
    for at in [10, 11] {
        let checked = table.check(&offsets, AppendOrigin::Coordinator, None).expect("is its own");
        assert_eq!(checked, SequenceCheck::Append, "none is a duplicate");
        let _ = table.update(&offsets, Offset(at), NOW);
    }
    assert_eq!(table.open_transactions().first(), Some(Offset(10)));
    let old = batch(7, 1, -1, true);
    let error = table.check(&old, AppendOrigin::Coordinator, None).expect_err("it is fenced");
    assert!(matches!(error, LogError::FencedProducerEpoch { .. }), "{error}");
}

#[test]
fn half_of_the_producers_may_have_a_transaction_open_and_none_of_those_is_forgotten() {
    let mut table = table();
    for id in 0..5 {
        verified(&mut table, batch(id, 0, 0, true), id).expect("there is room");
    }
    let error = verified(&mut table, batch(5, 0, 0, true), 5).expect_err("it is one too many");
    assert!(matches!(error, LogError::TooManyTransactions { max: 5, .. }), "{error}");
    for id in 100..200 {
        let _ = table.update(&batch(id, 0, 0, false), Offset(id), NOW);
        assert!(table.len() <= 10);
    }
    assert_eq!(table.open_transactions().len(), 5);
    verified(&mut table, batch(4, 0, 1, true), 300).expect("it goes on");
    end(&mut table, marker(0, 0, Commit, 301), V0).expect("it is good");
    verified(&mut table, batch(5, 0, 0, true), 302).expect("there is room again");
}

#[test]
fn what_an_update_did_to_a_transaction_is_taken_back_with_it() {
    let mut table = table();
    verified(&mut table, batch(7, 0, 0, true), 10).expect("it is verified");
    let undo = [
        table.update(&batch(8, 0, 0, true), Offset(11), NOW),
        table.end_transaction(&marker(7, 0, Abort, 12)).0,
        table.update(&batch(7, 0, 1, true), Offset(13), NOW),
    ];
    assert_eq!(table.open_transactions().first(), Some(Offset(11)));
    undo.into_iter().rev().for_each(|previous| table.restore(previous));
    assert_eq!((table.open_transactions().first(), table.len()), (Some(Offset(10)), 1));
}
