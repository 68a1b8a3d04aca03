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

#[cfg(test)]
mod tests {
    use logway_model::LeaderEpoch;
    use logway_record::{Attributes, BatchBuilder, Compression};

    use super::*;

    /// A batch of two records, the second a second younger.
    fn batch(base_offset: i64, timestamp_ms: i64, attributes: Attributes) -> Bytes {
        let mut builder = BatchBuilder::new(Compression::None)
            .with_attributes(attributes)
            .with_assignment(Offset(base_offset), LeaderEpoch(0));
        for delta_ms in [0, 1000] {
            let timestamp = TimestampMs(timestamp_ms + delta_ms);
            builder.append(timestamp, None, Some(b"v"), &[]).expect("small");
        }
        builder.finish().expect("two records")
    }

    fn first(records: &Bytes, wanted: i64) -> Option<i64> {
        first_timestamp(records, Offset(wanted)).map(|timestamp| timestamp.0)
    }

    #[test]
    fn the_record_is_found_inside_of_its_batch() {
        let plain = Attributes::default();
        let both = [batch(10, 5000, plain), batch(12, 9000, plain)].concat().into();
        for (wanted, expected) in [(0, 5000), (10, 5000), (11, 6000), (12, 9000), (13, 10_000)] {
            assert_eq!(first(&both, wanted), Some(expected), "{wanted}");
        }
        assert_eq!(first(&both, 14), None);
    }

    #[test]
    fn a_batch_that_is_cut_off_is_as_old_as_its_first_record() {
        let whole = batch(10, 5000, Attributes::default());
        for cut in 0..whole.len() {
            let expected = (cut >= logway_record::BATCH_HEADER_BYTES).then_some(5000);
            assert_eq!(first(&whole.slice(..cut), 11), expected, "{cut} bytes");
        }
    }

    #[test]
    fn the_time_of_the_append_counts_where_the_topic_says_so() {
        let append_time = Attributes::default().with_timestamp_type(TimestampType::LogAppendTime);
        let whole = batch(10, 5000, append_time);
        let header = BatchHeader::parse(&whole).expect("a header");
        assert_eq!(first(&whole, 10), Some(header.max_timestamp.0));
        assert_eq!(first(&whole.slice(..whole.len() - 1), 10), Some(header.max_timestamp.0));
    }

    #[test]
    fn what_transactions_leave_behind_is_no_record() {
        let control = batch(10, 5000, Attributes::default().with_control(true));
        assert_eq!(first(&control, 10), None);
        let then_data = [control, batch(12, 9000, Attributes::default())].concat().into();
        assert_eq!(first(&then_data, 10), Some(9000));
    }

    #[test]
    fn records_without_a_time_have_none() {
        let timeless = batch(10, TimestampMs::NONE.0, Attributes::default());
        assert_eq!(first(&timeless, 10), None);
    }

    #[test]
    fn other_bytes_are_no_records() {
        assert_eq!(first(&Bytes::new(), 0), None);
        assert_eq!(first(&Bytes::from_static(&[0xff; 100]), 0), None);
    }
}
