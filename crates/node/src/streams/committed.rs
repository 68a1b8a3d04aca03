//! Records for readers who know nothing of transactions.

use std::collections::HashMap;

use bytes::{Bytes, BytesMut};
use logway_log::AbortedTransaction;
use logway_model::{Offset, ProducerId};
use logway_record::{BatchHeader, Batches, RecordError};

/// The batches of a committed read, those of aborted transactions without their records. Each batch keeps its place, so that
/// a reader gets on. Markers stay: nobody takes a control batch for data.
///
/// # Errors
///
/// What is wrong with a batch.
pub(super) fn without_aborted(
    batches: Bytes,
    aborted: &[AbortedTransaction],
) -> Result<Bytes, RecordError> {
    if aborted.is_empty() {
        return Ok(batches);
    }
    let mut of_producer: HashMap<ProducerId, Vec<(Offset, Offset)>> = HashMap::new();
    for transaction in aborted {
        // In the order of their markers, and those of one producer do not overlap.
        let known = of_producer.entry(transaction.producer_id).or_default();
        known.push((transaction.first, transaction.last));
    }
    let is_aborted = |header: &BatchHeader| {
        let attributes = header.attributes;
        let is_data = attributes.is_transactional() && !attributes.is_control();
        let known = of_producer.get(&header.producer_id).filter(|_| is_data);
        known.is_some_and(|known| {
            let index = known.partition_point(|(_, last)| *last < header.base_offset);
            known.get(index).is_some_and(|(first, _)| *first <= header.base_offset)
        })
    };
    let mut kept = BytesMut::with_capacity(batches.len());
    for batch in Batches::with_partial_tail(batches) {
        let batch = batch?;
        match is_aborted(batch.header()) {
            true => kept.extend_from_slice(batch.emptied().bytes()),
            false => kept.extend_from_slice(batch.bytes()),
        }
    }
    Ok(kept.freeze())
}

#[cfg(test)]
mod tests {
    use logway_model::{LeaderEpoch, ProducerEpoch, Sequence, TimestampMs};
    use logway_record::{Batch, BatchBuilder, Compression, TransactionMarker, TransactionOutcome};

    use super::*;

    fn batch(offset: i64, producer: i64, is_transactional: bool) -> Bytes {
        let builder = BatchBuilder::new(Compression::None);
        let attributes = builder.attributes().with_transactional(is_transactional);
        let mut builder = builder
            .with_attributes(attributes)
            .with_assignment(Offset(offset), LeaderEpoch(0))
            .with_producer(ProducerId(producer), ProducerEpoch(0), Sequence(0));
        builder.append(TimestampMs(1), None, Some(b"value"), &[]).expect("it fits");
        builder.finish().expect("it has a record")
    }

    fn aborted(producer: i64, first: i64, last: i64) -> AbortedTransaction {
        AbortedTransaction {
            producer_id: ProducerId(producer),
            first: Offset(first),
            last: Offset(last),
            last_stable: Offset(last + 1),
        }
    }

    #[test]
    fn what_was_aborted_keeps_its_place_and_loses_its_records() {
        let outcome = TransactionOutcome::Abort;
        let marker = TransactionMarker { outcome, coordinator_epoch: 0 };
        let marker = marker.batch(ProducerId(1), ProducerEpoch(0), TimestampMs(1));
        let all = [
            batch(0, 1, true),
            batch(1, 2, true),
            batch(2, 1, false),
            batch(3, 1, true),
            batch(5, 1, true),
            batch(6, 2, true),
        ]
        .concat();
        let all = Bytes::from([&all[..], marker.bytes()].concat());
        // Two transactions of producer 1, before and behind one that was committed.
        let transactions = [aborted(1, 3, 4), aborted(2, 6, 8), aborted(1, 9, 10)];
        let kept = without_aborted(all.clone(), &transactions).expect("they are good");
        let seen = |bytes: Bytes| -> Vec<(i64, i32)> {
            let batches = Batches::with_partial_tail(bytes);
            let batches = batches.map(|batch: Result<Batch, _>| batch.expect("it is whole"));
            batches.map(|batch| (batch.base_offset().0, batch.header().record_count)).collect()
        };
        assert_eq!(seen(kept), [(0, 1), (1, 1), (2, 1), (3, 0), (5, 1), (6, 0), (0, 1)]);
        assert_eq!(without_aborted(all.clone(), &[]), Ok(all), "as mostly");
    }
}
