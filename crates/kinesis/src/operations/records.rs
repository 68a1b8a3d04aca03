//! From batches to records as clients see them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use logway_metadata::record::Shard;
use logway_model::{Offset, PartitionId, TimestampMs};
use logway_record::{Batches, DecodeLimit, Record, RecordError};

use crate::call::Call;
use crate::error::ApiError;
use crate::sequence::SequenceNumber;
use crate::value::{Structure, Value};

/// A compressed batch of a Kafka client may unpack to so much, and no more is held for one reader.
const UNPACKED_MAX: DecodeLimit = DecodeLimit::new(64 << 20);

/// Partition keys have so many characters at most.
const KEY_CHARS_MAX: usize = 256;

/// Stands for the key of a record that a Kafka client has sent without one.
const NO_KEY: &str = "-";

/// Begins a partition key that is not the record's key but its bytes in base64.
const BASE64_KEY: &str = "base64:";

/// Records of a shard, one after the other.
pub(super) struct ShardRecords {
    /// As responses have them.
    pub(super) records: Vec<Value>,
    /// Data and keys together.
    pub(super) size_bytes: usize,
    /// The offset to go on from.
    pub(super) next: Offset,
    /// The time of the last record.
    pub(super) last_time: Option<TimestampMs>,
}

impl ShardRecords {
    /// None yet, from an offset on.
    pub(super) fn from(next: Offset) -> ShardRecords {
        ShardRecords { records: Vec::new(), size_bytes: 0, next, last_time: None }
    }

    /// Adds what there is in batches, until there are so many records or bytes. Says whether there is room left.
    pub(super) async fn add(
        &mut self,
        call: &Call,
        (number, shard): (PartitionId, &Shard),
        batches: Bytes,
        (records_max, bytes_max): (usize, usize),
    ) -> Result<bool, ApiError> {
        for batch in Batches::with_partial_tail(batches) {
            let batch = batch.map_err(|error| unreadable(&error))?;
            if batch.last_offset() < self.next {
                continue;
            }
            if !batch.header().attributes.is_control() {
                let records = call.service.node.records_of(&batch, UNPACKED_MAX).await?;
                let records = records.map_err(|error| unreadable(&error))?;
                let has_room = self.add_records((number, shard), records, (records_max, bytes_max));
                if !has_room.map_err(|error| unreadable(&error))? {
                    return Ok(false);
                }
            }
            self.next = self.next.max(batch.last_offset().next());
        }
        Ok(self.records.len() < records_max && self.size_bytes < bytes_max)
    }

    /// Adds those of a batch, one by one: a batch may have far more than there is room for. Says whether there was room for
    /// all.
    fn add_records(
        &mut self,
        (number, shard): (PartitionId, &Shard),
        records: impl Iterator<Item = Result<Record, RecordError>>,
        (records_max, bytes_max): (usize, usize),
    ) -> Result<bool, RecordError> {
        for record in records {
            let record = record?;
            if record.offset < self.next {
                continue;
            }
            let size_bytes = size_of(&record);
            let is_full = self.records.len() >= records_max
                || !self.records.is_empty() && self.size_bytes + size_bytes > bytes_max;
            if is_full {
                return Ok(false);
            }
            self.next = record.offset.next();
            self.last_time = Some(record.timestamp);
            self.size_bytes += size_bytes;
            self.records.push(seen(number, shard, record).into());
        }
        Ok(true)
    }
}

fn size_of(record: &Record) -> usize {
    record.value.as_ref().map_or(0, Bytes::len) + record.key.as_ref().map_or(0, Bytes::len)
}

fn unreadable(error: &RecordError) -> ApiError {
    ApiError::internal(format!("records cannot be read: {error}"))
}

/// A record as responses have it. Tombstones have no data; headers are not seen.
fn seen(number: PartitionId, shard: &Shard, record: Record) -> Structure {
    let sequence = SequenceNumber::of_record(number, shard, record.offset, record.timestamp);
    Structure::new()
        .with("SequenceNumber", sequence.to_string())
        .with("ApproximateArrivalTimestamp", Value::Timestamp(record.timestamp.0))
        // Of its own: the batch is as large as all of its records.
        .with("Data", Value::Blob(record.value.unwrap_or_default()))
        .with("PartitionKey", partition_key(record.key.as_deref()))
}

/// A Kafka client's key need not be one of Kinesis.
fn partition_key(key: Option<&[u8]>) -> String {
    let key = key.filter(|key| !key.is_empty());
    let Some(key) = key else { return NO_KEY.to_owned() };
    match std::str::from_utf8(key) {
        Ok(text) if text.encode_utf16().count() <= KEY_CHARS_MAX => text.to_owned(),
        _ => {
            let room_bytes = (KEY_CHARS_MAX - BASE64_KEY.len()) / 4 * 3;
            format!("{BASE64_KEY}{}", STANDARD.encode(&key[..key.len().min(room_bytes)]))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use logway_metadata::record::HashRange;

    use super::*;

    #[test]
    fn of_a_batch_no_more_is_decoded_than_is_wanted() {
        let shard =
            Shard { range: HashRange::ALL, parents: Vec::new(), created_s: 0, closed: None };
        let decoded = Cell::new(0);
        let all = (0..).map(|offset| {
            decoded.set(decoded.get() + 1);
            let value = Some(Bytes::from_static(b"value"));
            let (offset, timestamp) = (Offset(offset), TimestampMs(1));
            Ok(Record { offset, timestamp, key: None, value, headers: Vec::new() })
        });
        let mut records = ShardRecords::from(Offset(10));
        let has_room = records.add_records((PartitionId(0), &shard), all, (5, 1_000));
        assert_eq!(has_room, Ok(false));
        assert_eq!((records.records.len(), records.next), (5, Offset(15)));
        assert_eq!(
            decoded.get(),
            16,
            "the ten before, five, and the one for which there is no room"
        );
    }

    #[test]
    fn keys_of_kafka_clients_become_partition_keys() {
        assert_eq!(partition_key(None), "-");
        assert_eq!(partition_key(Some(b"")), "-");
        assert_eq!(partition_key(Some(b"user-7")), "user-7");
        assert_eq!(partition_key(Some(&[0xff, 0])), "base64:/wA=");
        assert_eq!(partition_key(Some("x".repeat(256).as_bytes())).len(), 256);
        let long = partition_key(Some(&[b'x'; 10_000]));
        assert!(long.starts_with(BASE64_KEY) && long.len() <= KEY_CHARS_MAX);
    }
}
