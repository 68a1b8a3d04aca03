//! Transaction markers: the control batches that end a transaction (KIP-98).
//!
//! A marker is a batch with the attributes *transactional* and *control*, the producer's id and epoch, no sequence,
//! and one record:
//!
//! | bytes of the key | type | field |
//! |---|---|---|
//! | 0–1 | i16 | version, 0 |
//! | 2–3 | i16 | 0 for an abort, 1 for a commit; other numbers are control records of other kinds |
//!
//! | bytes of the value | type | field |
//! |---|---|---|
//! | 0–1 | i16 | version, 0 |
//! | 2–5 | i32 | epoch of the transaction coordinator that wrote it |
//!
//! All numbers are big-endian. Later versions only add fields, so what follows is passed over, as Apache Kafka does.

use std::fmt;

use logway_model::{ProducerEpoch, ProducerId, Sequence, TimestampMs};

use crate::{Batch, BatchBuilder, Compression, DecodeLimit, Record, RecordError};

const ABORT: i16 = 0;
const COMMIT: i16 = 1;

/// A marker has a record of some twenty bytes. What claims to be one and unpacks to more is none.
const MARKER_MAX: DecodeLimit = DecodeLimit::new(64 << 10);

/// How a transaction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TransactionOutcome {
    /// Its records count.
    Commit,
    /// Its records were taken back.
    Abort,
}

impl fmt::Display for TransactionOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TransactionOutcome::Commit => "COMMIT",
            TransactionOutcome::Abort => "ABORT",
        })
    }
}

/// What a marker says beside whose transaction it ends, which its batch's header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransactionMarker {
    /// How the transaction ended.
    pub outcome: TransactionOutcome,
    /// The epoch of the coordinator that decided so. A later coordinator has a larger one.
    pub coordinator_epoch: i32,
}

impl TransactionMarker {
    /// The control batch that ends the transaction of a producer.
    pub fn batch(
        self,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        timestamp: TimestampMs,
    ) -> Batch {
        let kind = match self.outcome {
            TransactionOutcome::Commit => COMMIT,
            TransactionOutcome::Abort => ABORT,
        };
        let [version, kind] = [0i16, kind].map(i16::to_be_bytes);
        let key = [version, kind].concat();
        let value = [&version[..], &self.coordinator_epoch.to_be_bytes()].concat();
        let builder = BatchBuilder::new(Compression::None);
        let attributes = builder.attributes().with_transactional(true).with_control(true);
        let mut builder = builder.with_attributes(attributes).with_producer(
            producer_id,
            producer_epoch,
            Sequence::NONE,
        );
        let bytes = builder
            .append(timestamp, Some(&key), Some(&value), &[])
            .and_then(|()| builder.finish());
        let bytes = bytes.expect("a record of ten bytes fits into a batch");
        Batch::parse(bytes).expect("what was encoded is a batch")
    }

    /// The marker in a batch; `None` if the batch is none: it has records of clients, a control record of another kind,
    /// or compaction has emptied it.
    ///
    /// # Errors
    ///
    /// Those of [`Batch::records`] and its iterator. A key or value that is too short for a marker is `None`: whatever
    /// it is, it ends no transaction.
    pub fn of(batch: &Batch) -> Result<Option<TransactionMarker>, RecordError> {
        let attributes = batch.header().attributes;
        if !attributes.is_control() || !attributes.is_transactional() {
            return Ok(None);
        }
        let record = batch.records(MARKER_MAX)?.next().transpose()?;
        Ok(record.as_ref().and_then(TransactionMarker::of_record))
    }

    fn of_record(record: &Record) -> Option<TransactionMarker> {
        let outcome = match record.key.as_deref()? {
            [_, _, high, low, ..] => match i16::from_be_bytes([*high, *low]) {
                ABORT => TransactionOutcome::Abort,
                COMMIT => TransactionOutcome::Commit,
                _ => return None,
            },
            _ => return None,
        };
        let epoch = record.value.as_deref()?.get(2..6)?;
        let coordinator_epoch = i32::from_be_bytes(epoch.try_into().ok()?);
        Some(TransactionMarker { outcome, coordinator_epoch })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARKER: TransactionMarker =
        TransactionMarker { outcome: TransactionOutcome::Abort, coordinator_epoch: 0x0102_0304 };

    fn control(key: &[u8], value: &[u8]) -> Option<TransactionMarker> {
        let builder = BatchBuilder::new(Compression::None);
        let attributes = builder.attributes().with_transactional(true).with_control(true);
        let mut builder = builder.with_attributes(attributes);
        builder.append(TimestampMs(7), Some(key), Some(value), &[]).expect("is small");
        let batch = Batch::parse(builder.finish().expect("has a record")).expect("is a batch");
        TransactionMarker::of(&batch).expect("it is well formed")
    }

    #[test]
    fn what_is_written_is_read() {
        for outcome in [TransactionOutcome::Commit, TransactionOutcome::Abort] {
            let marker = TransactionMarker { outcome, ..MARKER };
            let batch = marker.batch(ProducerId(7), ProducerEpoch(3), TimestampMs(11));
            let header = batch.header();
            batch.verify_crc().expect("it is whole");
            assert!(header.attributes.is_control() && header.attributes.is_transactional());
            let producer = (header.producer_id, header.producer_epoch, header.base_sequence);
            assert_eq!(producer, (ProducerId(7), ProducerEpoch(3), Sequence::NONE));
            assert_eq!((header.record_count, header.max_timestamp), (1, TimestampMs(11)));
            assert_eq!(TransactionMarker::of(&batch), Ok(Some(marker)));
            assert_eq!(TransactionMarker::of(&batch.emptied()), Ok(None), "compaction");
        }
    }

    #[test]
    fn later_versions_are_read_and_other_control_records_are_no_markers() {
        let value = [0, 0, 1, 2, 3, 4];
        assert_eq!(control(&[0, 0, 0, 0], &value), Some(MARKER));
        assert_eq!(
            control(&[0, 9, 0, 0, 1], &[0, 9, 1, 2, 3, 4, 5]),
            Some(MARKER),
            "later versions"
        );
        assert_eq!(control(&[0, 0, 0, 2], &value), None, "a change of a Raft leader");
        assert_eq!(control(&[0, 0, 0], &value), None);
        assert_eq!(control(&[0, 0, 0, 0], &value[..5]), None);
    }
}
