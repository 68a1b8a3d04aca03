//! When the first of some records were made, at the price of a look at each partition.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use logway_model::{BrokerId, ErrorCode, Offset, TimestampMs, TopicPartition};
use logway_record::{BatchHeader, Batches, DecodeLimit, TimestampType};
use tokio::task::JoinSet;

use super::ConsumerOptions;
use super::request::{Fetch, partitions};
use crate::error::error_code;
use crate::{Client, ClientError};

/// Enough for a batch's header and often the whole batch.
const PARTITION_BYTES_MAX: u32 = 4 << 10;

/// How many partitions one request asks about, so that their shares fit into a response even
/// beside a first batch that is larger than its share.
const PARTITIONS_PER_FETCH: usize = 256;

/// See [`PARTITIONS_PER_FETCH`].
const FETCH_BYTES_MAX: u32 = 4 << 20;

/// How often to ask for partitions that found no room in a response.
const ROUNDS: usize = 4;

impl Client {
    /// The timestamp of the first record at or after an offset, for each of some partitions.
    ///
    /// It reads a few KiB of each. Where a batch is larger and could not be read as a whole, the
    /// batch's own first timestamp stands for the record's. Partitions that have no such record,
    /// or could not be read, are left out: the answer is for people to look at.
    pub async fn first_timestamps(
        &self,
        offsets: &BTreeMap<TopicPartition, Offset>,
    ) -> BTreeMap<TopicPartition, TimestampMs> {
        let mut found = BTreeMap::new();
        let mut missing = offsets.clone();
        for _ in 0..ROUNDS {
            let fetched = self.fetch_firsts(&missing).await;
            let had = missing.len();
            for (partition, records) in fetched {
                let Some(offset) = missing.remove(&partition) else { continue };
                let timestamp = first_timestamp(&records, offset);
                found.extend(timestamp.map(|timestamp| (partition, timestamp)));
            }
            if missing.is_empty() || missing.len() == had {
                break;
            }
        }
        found
    }

    /// Fetches the beginnings, all brokers at once; what brought nothing is left out.
    async fn fetch_firsts(
        &self,
        offsets: &BTreeMap<TopicPartition, Offset>,
    ) -> Vec<(TopicPartition, Bytes)> {
        let metadata = self.metadata();
        let mut by_leader: BTreeMap<BrokerId, Vec<(TopicPartition, Offset)>> = BTreeMap::new();
        for (partition, &offset) in offsets {
            if let Some(leader) = metadata.leader(partition) {
                by_leader.entry(leader).or_default().push((partition.clone(), offset));
            }
        }
        let mut requests = JoinSet::new();
        for (leader, wanted) in by_leader {
            for chunk in wanted.chunks(PARTITIONS_PER_FETCH) {
                let fetch = Fetch::new(chunk, &metadata, &options());
                requests.spawn(fetch_from(self.clone(), leader, fetch));
            }
        }
        let fetched = requests.join_all().await;
        fetched.into_iter().flat_map(Result::unwrap_or_default).collect()
    }
}

fn options() -> ConsumerOptions {
    ConsumerOptions {
        fetch_bytes_max: FETCH_BYTES_MAX,
        partition_bytes_max: PARTITION_BYTES_MAX,
        wait_max: Duration::ZERO,
        ..ConsumerOptions::default()
    }
}

async fn fetch_from(
    client: Client,
    leader: BrokerId,
    fetch: Fetch,
) -> Result<Vec<(TopicPartition, Bytes)>, ClientError> {
    let connection = client.broker(leader).await?;
    let response = fetch.run(&connection, &options()).await?;
    let is_good = |code| error_code(code) == ErrorCode::None;
    let good = partitions(response).filter(|fetched| is_good(fetched.error_code));
    let some = good.filter(|fetched| !fetched.records.is_empty());
    Ok(some.map(|fetched| (fetched.partition, fetched.records)).collect())
}

/// The timestamp of the first record at or after `wanted`, in bytes that begin with the batch that
/// holds it and may end anywhere.
fn first_timestamp(records: &Bytes, wanted: Offset) -> Option<TimestampMs> {
    let mut batches = Batches::with_partial_tail(records.clone());
    for batch in batches.by_ref() {
        let batch = batch.ok()?;
        if batch.last_offset() < wanted || batch.header().attributes.is_control() {
            continue;
        }
        let records = batch.records(DecodeLimit::DEFAULT).ok()?;
        // Compaction may have left nothing at the end of the batch.
        if let Some(first) = records.flatten().find(|record| record.offset >= wanted) {
            return known(first.timestamp);
        }
    }
    let cut_off = BatchHeader::parse(records.get(batches.position_bytes()..)?).ok()?;
    known(match cut_off.attributes.timestamp_type() {
        TimestampType::CreateTime => cut_off.base_timestamp,
        TimestampType::LogAppendTime => cut_off.max_timestamp,
    })
}

fn known(timestamp: TimestampMs) -> Option<TimestampMs> {
    (timestamp != TimestampMs::NONE).then_some(timestamp)
}
