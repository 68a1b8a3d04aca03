//! Each invariant fails where it must.

use std::collections::BTreeSet;

use logway_coordinator::transactions::Producer;
use logway_model::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, TimestampMs};
use logway_node::read::Isolation;
use logway_record::{Compression, TransactionMarker, TransactionOutcome};

use super::{atomicity, fencing, isolation, offsets, stability};
use crate::batch::{BatchPlan, led, transactional_batch};
use crate::cluster::oracle::Place;
use crate::cluster::transactions::ledger::{CommittedRead, Fate, Ledger};
use crate::cluster::transactions::topics::TOPIC;
use crate::cluster::transactions::view::EndedLog;

const PLACE: Place = Place { topic: TOPIC, partition: 0 };
const ID: ProducerId = ProducerId(7);
const OWNER: usize = 0;

/// A log that is written by hand, with what is known of it.
struct Draft {
    ledger: Ledger,
    log: EndedLog,
}

impl Draft {
    fn new() -> Draft {
        let (batches, committed) = Default::default();
        Draft { ledger: Ledger::default(), log: EndedLog { place: PLACE, batches, committed } }
    }

    fn end(&self) -> Offset {
        self.log.batches.last().map_or(Offset::ZERO, |batch| batch.last_offset().next())
    }

    /// Writes a batch of two records.
    fn write(&mut self, number: u64, epoch: i16, is_fenced: bool) -> Offset {
        let plan = BatchPlan {
            number: self.end().0 as u64,
            records: vec![(0, Some(1)), (0, Some(1))],
            timestamp: TimestampMs(1),
            producer: Some((ID, Sequence(0))),
            compression: Compression::None,
        };
        let batch = transactional_batch(&plan, ProducerEpoch(epoch));
        self.ledger.sends(number, PLACE, &batch, is_fenced);
        let end = self.end();
        self.log.batches.push(led(&batch, end, LeaderEpoch(0)));
        end
    }

    fn mark(&mut self, epoch: i16, outcome: TransactionOutcome) {
        let marker = TransactionMarker { outcome, coordinator_epoch: 0 };
        let marker = marker.batch(ID, ProducerEpoch(epoch), TimestampMs(1));
        let end = self.end();
        self.log.batches.push(led(&marker, end, LeaderEpoch(0)));
    }

    /// Two transactions, of two batches each: the first is committed, the second is aborted.
    fn of_two() -> Draft {
        let mut draft = Draft::new();
        for (number, epoch, outcome) in
            [(1, 0, TransactionOutcome::Commit), (2, 1, TransactionOutcome::Abort)]
        {
            draft.ledger.begin(number, OWNER);
            for _ in 0..2 {
                let base = draft.write(number, epoch, false);
                if outcome == TransactionOutcome::Commit {
                    draft.log.committed.insert(base);
                }
            }
            draft.mark(epoch + 1, outcome);
        }
        draft.ledger.settle(1, Fate::Committed);
        draft
    }

    fn atomic(&self) -> bool {
        atomicity::check(&self.ledger, std::slice::from_ref(&self.log)).is_ok()
    }

    fn stable(&self, read: CommittedRead) -> bool {
        stability::check(&[read], &self.log).is_ok()
    }
}

fn offsets_of<const N: usize>(offsets: [i64; N]) -> Vec<Offset> {
    offsets.map(Offset).to_vec()
}

fn read<const N: usize>(
    from: i64,
    next: i64,
    high_watermark: i64,
    returned: [i64; N],
) -> CommittedRead {
    CommittedRead {
        place: PLACE,
        from: Offset(from),
        next: Offset(next),
        high_watermark: Offset(high_watermark),
        returned: offsets_of(returned),
    }
}

#[test]
fn a_transaction_is_seen_as_a_whole_or_not_at_all() {
    let mut draft = Draft::of_two();
    let present = atomicity::check(&draft.ledger, std::slice::from_ref(&draft.log));
    assert_eq!(present, Ok(BTreeSet::from([1])));
    draft.log.committed.remove(&Offset(2));
    assert!(!draft.atomic(), "a part is missing");
    draft.ledger.settle(1, Fate::Asked);
    assert!(!draft.atomic());
    draft.log.committed.clear();
    assert!(draft.atomic(), "nobody knows whether it was committed");
    draft.ledger.settle(1, Fate::Committed);
    assert!(!draft.atomic(), "its producer knows");
    let mut draft = Draft::of_two();
    draft.log.committed.extend([Offset(5), Offset(7)]);
    assert!(!draft.atomic(), "the other one was aborted");
}

#[test]
fn a_fenced_producer_writes_nothing() {
    let producer = Producer { id: ID, epoch: ProducerEpoch(1) };
    assert!(fencing::check(producer, false, "written").is_ok());
    assert!(fencing::check(producer, true, "written").is_err());
    let is_well = |draft: &Draft| fencing::check_log(&draft.ledger, &draft.log).is_ok();
    let mut draft = Draft::of_two();
    assert!(is_well(&draft));
    draft.ledger.begin(3, OWNER);
    draft.write(3, 1, false);
    assert!(!is_well(&draft), "the marker before it has a later epoch");
    let mut draft = Draft::of_two();
    draft.ledger.begin(3, OWNER);
    draft.write(3, 2, true);
    assert!(!is_well(&draft), "its successor had begun");
}

#[test]
fn what_is_not_committed_is_given_to_nobody_who_minds() {
    let (committed, uncommitted) = (Isolation::Committed, Isolation::Uncommitted);
    assert!(isolation::check(Some((1, Fate::Committed)), committed).is_ok());
    assert!(isolation::check(Some((1, Fate::Asked)), committed).is_ok());
    assert!(isolation::check(Some((1, Fate::NotAsked)), committed).is_err());
    assert!(isolation::check(Some((1, Fate::NotAsked)), uncommitted).is_ok());
    assert!(isolation::check(None, uncommitted).is_err(), "nobody has sent it");
}

#[test]
fn what_was_read_stays_and_was_stable() {
    let draft = Draft::of_two();
    assert!(draft.stable(read(0, 10, 10, [0, 2])));
    assert!(draft.stable(read(3, 4, 5, [2])), "it begins within a batch");
    assert!(!draft.stable(read(0, 2, 4, [0])), "the marker at 4 was not committed");
    assert!(!draft.stable(read(5, 7, 9, [])), "nor was the one at 9");
    assert!(!draft.stable(read(0, 10, 10, [0])), "it has passed over something");
    assert!(!draft.stable(read(0, 10, 10, [0, 2, 5])), "it was given what was aborted");
    let mut draft = Draft::of_two();
    draft.ledger.begin(3, OWNER);
    draft.write(3, 2, false);
    assert!(!draft.stable(read(10, 12, 12, [])), "no marker ends it");
}

#[test]
fn offsets_are_those_of_committed_transactions() {
    assert_eq!(offsets::check_whole(&[Some(1), Some(1)]), Ok(Some(1)));
    assert!(offsets::check_whole(&[Some(1), None]).is_err());
    assert!(offsets::check_order(Some(2), Some(2)).is_ok());
    assert!(offsets::check_order(Some(2), Some(1)).is_err());
    assert!(offsets::check_order(Some(2), None).is_err(), "it is forgotten");
    let ledger = Draft::of_two().ledger;
    let is_right = |owner, offset| {
        let transaction = ledger.transaction(offset);
        offsets::check_told(transaction.as_ref(), owner, offset).is_ok()
    };
    assert!(!is_right(OWNER, 1), "it commits no offset");
    ledger.commits_offset(1);
    ledger.commits_offset(2);
    assert!(is_right(OWNER, 1));
    assert!(!is_right(OWNER, 2), "it was aborted");
    assert!(!is_right(OWNER + 1, 1), "it is another group's");
    assert!(!is_right(OWNER, 3), "there is none");
    let present = BTreeSet::from([1]);
    let is_right = |committed| offsets::check_end(&ledger, OWNER, &present, committed).is_ok();
    assert!(is_right(Some(1)));
    assert!(!is_right(None));
    assert!(!is_right(Some(2)));
    ledger.tell_offset(OWNER, 2);
    assert!(!is_right(Some(1)), "more was told before");
}
