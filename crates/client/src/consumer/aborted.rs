//! Which batches of a response belong to transactions that were aborted.

use std::collections::{BTreeMap, HashSet};

use logway_model::{Offset, ProducerId};
use logway_record::{Batch, TransactionMarker, TransactionOutcome};
use logway_wire::messages::fetch_response::AbortedTransaction;

/// The base offsets of batches whose transactions were aborted. `transactions` are those that the broker tells of, each
/// with its first offset; one ends with its marker.
pub(super) fn aborted_batches(
    batches: &[Batch],
    transactions: &[AbortedTransaction],
) -> HashSet<Offset> {
    let mut aborted = HashSet::new();
    if transactions.is_empty() {
        return aborted;
    }
    let mut beginning: BTreeMap<i64, Vec<ProducerId>> = BTreeMap::new();
    for transaction in transactions {
        let producer = ProducerId(transaction.producer_id);
        beginning.entry(transaction.first_offset).or_default().push(producer);
    }
    let mut producers = HashSet::new();
    for batch in batches {
        let later = beginning.split_off(&(batch.last_offset().0 + 1));
        producers.extend(std::mem::replace(&mut beginning, later).into_values().flatten());
        let header = batch.header();
        if header.attributes.is_control() {
            if is_abort(batch) {
                producers.remove(&header.producer_id);
            }
        } else if header.attributes.is_transactional() && producers.contains(&header.producer_id) {
            aborted.insert(batch.base_offset());
        }
    }
    aborted
}

fn is_abort(batch: &Batch) -> bool {
    let marker = TransactionMarker::of(batch).ok().flatten();
    marker.is_some_and(|marker| marker.outcome == TransactionOutcome::Abort)
}

#[cfg(test)]
mod tests {
    use logway_model::{LeaderEpoch, ProducerEpoch, Sequence, TimestampMs};
    use logway_record::{Attributes, BatchBuilder, Compression};

    use super::*;

    fn records(offset: i64, producer: i64, is_transactional: bool) -> Batch {
        let mut builder = BatchBuilder::new(Compression::None)
            .with_assignment(Offset(offset), LeaderEpoch(0))
            .with_producer(ProducerId(producer), ProducerEpoch(0), Sequence(0))
            .with_attributes(Attributes::default().with_transactional(is_transactional));
        builder.append(TimestampMs(1), None, Some(b"v"), &[]).expect("a small record");
        Batch::parse(builder.finish().expect("a batch")).expect("our own")
    }

    fn marker(offset: i64, producer: i64, outcome: TransactionOutcome) -> Batch {
        let marker = TransactionMarker { outcome, coordinator_epoch: 0 };
        let batch = marker.batch(ProducerId(producer), ProducerEpoch(0), TimestampMs(1));
        let mut bytes = batch.bytes().to_vec();
        bytes[..8].copy_from_slice(&offset.to_be_bytes());
        Batch::parse(bytes.into()).expect("our own")
    }

    #[test]
    fn a_transaction_is_aborted_from_its_first_offset_to_its_marker() {
        let told = |producer_id, first_offset| AbortedTransaction {
            producer_id,
            first_offset,
            ..AbortedTransaction::default()
        };
        let batches = [
            records(0, 7, true),
            marker(1, 7, TransactionOutcome::Commit),
            records(2, 7, true),
            records(3, 8, true),
            records(4, 9, false),
            marker(5, 8, TransactionOutcome::Commit),
            records(6, 7, true),
            marker(7, 7, TransactionOutcome::Abort),
            records(8, 7, true),
        ];
        let aborted = |told: &[_]| {
            let mut offsets: Vec<i64> =
                aborted_batches(&batches, told).into_iter().map(|offset| offset.0).collect();
            offsets.sort_unstable();
            offsets
        };
        assert_eq!(aborted(&[told(7, 2)]), [2, 6]);
        // The order in which a broker tells of them says nothing.
        assert_eq!(aborted(&[told(7, 8), told(7, 2)]), [2, 6, 8]);
        assert_eq!(aborted(&[]), [0; 0]);
    }
}
