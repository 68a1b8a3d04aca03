//! The records of [`TRANSACTIONS_TOPIC`].
//!
//! Kafka's own format, which `kafka-dump-log --transaction-log-decoder` prints:
//!
//! | part | bytes |
//! |---|---|
//! | key | the number 0 in two bytes, `TransactionLogKey` v0: the transactional id |
//! | value | the version in two bytes, `TransactionLogValue` v1 (v0 before Kafka 4) |
//!
//! A record without a value takes the id out of the log.

use std::sync::Arc;

use bytes::Bytes;
use logway_model::{
    PartitionId, ProducerEpoch, ProducerId, TimestampMs, TopicName, TopicPartition,
    TransactionVersion,
};
use logway_wire::messages::transaction_log_value::PartitionsSchema;
use logway_wire::messages::{TransactionLogKey, TransactionLogValue};
use logway_wire::{Decoder, Message, WireString};

use super::transaction::{Producer, Transaction, TransactionPartitions, TransactionState};
use crate::error::RecordError;
use crate::ids::TransactionalId;
use crate::record::encode;

/// The topic in which transactional ids are kept; the name is Kafka's.
pub const TRANSACTIONS_TOPIC: &str = "__transaction_state";

/// What one record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionRecord {
    /// The id that it is about.
    pub transactional_id: TransactionalId,
    /// What is so from now on; `None` for an id that is forgotten.
    pub transaction: Option<Arc<Transaction>>,
}

/// The version in which Kafka 4.3 writes values.
const VALUE_VERSION: i16 = 1;

/// What a record takes at most beside names: numbers and lengths.
const RECORD_BYTES_MAX: usize = 160;

/// What a topic takes at most beside its name, and a partition.
const TOPIC_BYTES_MAX: usize = 12;
const PARTITION_BYTES: usize = 4;

impl TransactionRecord {
    /// Reads a record's key and value; `None` if it is of a type that is not known.
    ///
    /// # Errors
    ///
    /// The bytes are not what their type says.
    pub fn decode(
        key: &Bytes,
        value: Option<&Bytes>,
    ) -> Result<Option<TransactionRecord>, RecordError> {
        let mut from = Decoder::new(key.clone());
        let record_type = from.i16("record type").map_err(|_| RecordError::NoKey)?;
        if record_type != TransactionLogKey::RECORD_TYPE {
            return Ok(None);
        }
        let key_error = |source| RecordError::Key { record_type, source };
        let key = TransactionLogKey::decode(&mut from, 0).map_err(key_error)?;
        let transactional_id = TransactionalId::from(&key.transactional_id);
        let transaction = value.map(|value| transaction(&transactional_id, value)).transpose()?;
        Ok(Some(TransactionRecord { transactional_id, transaction: transaction.map(Arc::new) }))
    }

    /// The record's key and value.
    pub fn encode(&self) -> (Bytes, Option<Bytes>) {
        let key = TransactionLogKey {
            transactional_id: self.transactional_id.to_wire(),
            ..TransactionLogKey::default()
        };
        let value = self.transaction.as_deref().map(encode_transaction);
        (encode(TransactionLogKey::RECORD_TYPE, &key, 0), value)
    }

    /// How many bytes the record takes in a log at most.
    pub fn bytes_max(&self) -> usize {
        let partitions = self.transaction.as_deref().map(|it| partitions_bytes(&it.partitions));
        RECORD_BYTES_MAX + self.transactional_id.as_str().len() + partitions.unwrap_or(0)
    }
}

/// What the partitions of a transaction take in a record at most.
pub(crate) fn partitions_bytes(partitions: &TransactionPartitions) -> usize {
    let topics = partitions.by_topic().count();
    topics * TOPIC_BYTES_MAX + partitions.names_bytes() + partitions.len() * PARTITION_BYTES
}

fn transaction(id: &TransactionalId, value: &Bytes) -> Result<Transaction, RecordError> {
    let error = |source| RecordError::TransactionValue { transactional_id: id.to_string(), source };
    let mut from = Decoder::new(value.clone());
    let version = from.i16("value version").map_err(error)?;
    let value = TransactionLogValue::decode(&mut from, version).map_err(error)?;
    let unknown = |what| RecordError::UnknownIn { transactional_id: id.to_string(), what };
    let status = value.transaction_status;
    let state =
        TransactionState::from_id(status).ok_or_else(|| unknown(format!("the state {status}")))?;
    let mut partitions = TransactionPartitions::default();
    for topic in value.transaction_partitions.iter().flatten() {
        let name =
            TopicName::new(&topic.topic).map_err(|error| unknown(format!("a topic: {error}")))?;
        for &number in &topic.partition_ids {
            partitions.insert(&TopicPartition::new(name.clone(), PartitionId(number)));
        }
    }
    Ok(Transaction {
        producer: Producer {
            id: ProducerId(value.producer_id),
            epoch: ProducerEpoch(value.producer_epoch),
        },
        previous_producer_id: ProducerId(value.previous_producer_id),
        next_producer_id: ProducerId(value.next_producer_id),
        last_epoch: ProducerEpoch::NONE,
        timeout_ms: value.transaction_timeout_ms,
        state,
        partitions,
        started: TimestampMs(value.transaction_start_timestamp_ms),
        updated: TimestampMs(value.transaction_last_update_timestamp_ms),
        version: TransactionVersion(value.client_transaction_version),
    })
}

fn encode_transaction(transaction: &Transaction) -> Bytes {
    let topics = transaction.partitions.by_topic().map(|(topic, partitions)| PartitionsSchema {
        topic: WireString::copy_of(topic.as_str()),
        partition_ids: partitions.iter().map(|number| number.0).collect(),
        ..PartitionsSchema::default()
    });
    // As Kafka says that there are none.
    let is_empty = transaction.state == TransactionState::Empty;
    let value = TransactionLogValue {
        producer_id: transaction.producer.id.0,
        producer_epoch: transaction.producer.epoch.0,
        previous_producer_id: transaction.previous_producer_id.0,
        next_producer_id: transaction.next_producer_id.0,
        transaction_timeout_ms: transaction.timeout_ms,
        transaction_status: transaction.state.id(),
        transaction_partitions: (!is_empty).then(|| topics.collect()),
        transaction_start_timestamp_ms: transaction.started.0,
        transaction_last_update_timestamp_ms: transaction.updated.0,
        client_transaction_version: transaction.version.0,
        ..TransactionLogValue::default()
    };
    encode(VALUE_VERSION, &value, VALUE_VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(topic: &str, number: i32) -> TopicPartition {
        TopicPartition::new(TopicName::new(topic).expect("a legal name"), PartitionId(number))
    }

    fn record() -> TransactionRecord {
        let first = Transaction::first(ProducerId(7), 60_000, TimestampMs(5));
        let partitions = [partition("a", 0), partition("a", 3), partition("bb", 1)];
        let transaction = Transaction {
            state: TransactionState::PrepareCommit,
            partitions: partitions.into_iter().collect(),
            next_producer_id: ProducerId(9),
            started: TimestampMs(4),
            version: TransactionVersion::EPOCH_BUMP,
            ..first
        };
        TransactionRecord { transactional_id: "t".into(), transaction: Some(transaction.into()) }
    }

    #[test]
    fn records_come_back_as_they_were_and_take_no_more_than_was_said() {
        let tombstone = TransactionRecord { transaction: None, ..record() };
        for record in [record(), tombstone] {
            let (key, value) = record.encode();
            let decoded = TransactionRecord::decode(&key, value.as_ref());
            assert_eq!(decoded, Ok(Some(record.clone())));
            let bytes = key.len() + value.map_or(0, |value| value.len());
            assert!(bytes <= record.bytes_max(), "{bytes} > {}", record.bytes_max());
        }
    }

    #[test]
    fn what_is_not_understood_is_said_with_its_id() {
        let (key, value) = record().encode();
        let mut value = value.expect("has a value").to_vec();
        value[16] = 99;
        let error = TransactionRecord::decode(&key, Some(&Bytes::from(value)));
        let error = error.expect_err("no state has the number 99").to_string();
        assert!(error.contains("'t'") && error.contains("99"), "{error}");
        let none = TransactionRecord::decode(&Bytes::from_static(&[0, 9]), None);
        assert_eq!(none, Ok(None), "a type of a later version");
    }
}
