//! Records of many sizes for a long time, each one verified.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use logway_client::{
    Consumer, ConsumerOptions, FetchEvent, NewRecord, Producer, ProducerOptions, StartAt,
};
use logway_model::{PartitionId, TimestampMs, TopicPartition};
use logway_record::Compression;
use tokio::task::JoinSet;

use super::topic::RunTopic;
use super::{Load, Run};
use crate::generator::{Observed, Payload, Timetable, Window};
use crate::measure::{Durability, Parameters, Snapshot, Usage};
use crate::side::Side;

/// The largest value; sizes are spread evenly below it.
const VALUE_BYTES_MAX: usize = 4096;

/// The number in front of each value.
const NUMBER_BYTES: usize = 8;

/// What a batch has around its records, and a record around its key and value, at most.
const BATCH_HEADER_BYTES: usize = 61;
const RECORD_HEADER_BYTES_MAX: usize = 40;

/// How long the last records may take to arrive.
const ARRIVAL_PATIENCE: Duration = Duration::from_secs(60);

/// What a topic may keep, so that hours fit on a disk.
const RETENTION: [(&str, u64); 2] = [("retention.bytes", 512 << 20), ("segment.bytes", 64 << 20)];

/// How the producers compress, and for how long each waits for more: one after the other has a partition.
const PRODUCERS: [(Compression, u64); 3] =
    [(Compression::None, 5), (Compression::Lz4, 0), (Compression::Zstd, 50)];

/// Numbered records of many sizes at a fixed rate through idempotent producers and a consumer, as programs use
/// them. Each record must arrive once, in the order of its partition and with its content.
#[derive(Debug, Clone)]
pub(crate) struct SoakLoad {
    pub(crate) partitions: i32,
    /// Records a second.
    pub(crate) rate: f64,
}

impl Load for SoakLoad {
    fn parameters(&self) -> anyhow::Result<Parameters> {
        Ok(Parameters {
            durability: Some(Durability::Synced),
            acks: Some("all"),
            record_bytes: (NUMBER_BYTES + VALUE_BYTES_MAX) as u64 / 2,
            keys: "the record's number",
            linger_ms: PRODUCERS.map(|(_, linger_ms)| linger_ms).into_iter().max().unwrap_or(0),
            partitions: self.partitions,
            producers: PRODUCERS.len(),
            consumers: 1,
            rate: Some(self.rate),
            ..Parameters::default()
        })
    }

    fn written_bytes_max(&self, _side: &Side, run: &Run) -> anyhow::Result<u64> {
        // Each record in a batch of its own.
        let record_bytes = BATCH_HEADER_BYTES + RECORD_HEADER_BYTES_MAX + NUMBER_BYTES;
        Ok(run.bytes_at(self.rate, (record_bytes + NUMBER_BYTES + VALUE_BYTES_MAX) as u64))
    }

    async fn run(&self, side: &mut Side, run: &Run) -> anyhow::Result<Observed> {
        let retention = RETENTION.map(|(name, value)| (name.to_owned(), value.to_string()));
        let topic =
            RunTopic::create_with(side, self.partitions, Durability::Synced, &retention).await?;
        let partition = |number| TopicPartition::new(topic.name.clone(), PartitionId(number));
        let assignment: BTreeMap<TopicPartition, StartAt> =
            (0..self.partitions).map(|number| (partition(number), StartAt::Start)).collect();
        let consumer =
            Consumer::open(&side.client, &assignment, ConsumerOptions::default()).await?;
        let mut producers = Vec::new();
        for (compression, linger_ms) in PRODUCERS {
            let linger = Duration::from_millis(linger_ms);
            let options = ProducerOptions { compression, linger, ..ProducerOptions::default() };
            producers.push(Producer::open(side.client.fork(), topic.name.clone(), options).await?);
        }

        let window = Window::starting_now(run.warm_up, run.measured);
        let start = window.from - run.warm_up;
        let timetable = Timetable::new(start, self.rate, run.warm_up + run.measured);
        let mut sending = JoinSet::new();
        for (place, producer) in producers.into_iter().enumerate() {
            sending.spawn(send(producer, place, timetable.clone(), self.partitions));
        }
        let sending = async {
            while let Some(sent) = sending.join_next().await {
                sent.context("a producer's task failed")??;
            }
            anyhow::Ok(())
        };
        let check = Check { timetable, partitions: self.partitions };
        let receiving = check.receive(consumer, window);
        // A record that is lost is told of now, and not when the hours are over.
        let ((), mut observed, usage) =
            tokio::try_join!(sending, receiving, used_within(window, &side.pids))?;
        observed.usage = usage;
        topic.delete().await?;
        Ok(observed)
    }
}

/// What is used of the machine while the window is open.
async fn used_within(window: Window, broker_pids: &[u32]) -> anyhow::Result<Usage> {
    tokio::time::sleep_until(window.from.into()).await;
    let opening = Snapshot::of_process(broker_pids);
    tokio::time::sleep_until(window.to.into()).await;
    Ok(opening.until_now())
}

/// Sends each record of the producer at that place when it is due.
async fn send(
    mut producer: Producer,
    place: usize,
    timetable: Timetable,
    partitions: i32,
) -> anyhow::Result<()> {
    let is_its = |number: &u64| (number % partitions as u64) as usize % PRODUCERS.len() == place;
    for number in (0..timetable.count()).filter(is_its) {
        let due = timetable.moment(number);
        // The clock of sleeps counts milliseconds: what is due within one goes at once.
        if due > Instant::now() + Duration::from_millis(1) {
            tokio::time::sleep_until(due.into()).await;
        }
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
        let record = NewRecord {
            partition: Some(PartitionId((number % partitions as u64) as i32)),
            timestamp: TimestampMs(i64::try_from(now_ms)?),
            key: Some(&number.to_be_bytes()),
            value: Some(&value(number)),
            headers: &[],
        };
        producer.send(record).await?;
    }
    producer.close().await?;
    Ok(())
}

/// The content of a record, which follows from its number.
fn value(number: u64) -> Vec<u8> {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let filler_bytes = (mixed >> 32) as usize % VALUE_BYTES_MAX;
    let mut value = number.to_be_bytes().to_vec();
    value.resize(NUMBER_BYTES + filler_bytes, mixed as u8);
    value
}

/// What must arrive.
struct Check {
    timetable: Timetable,
    partitions: i32,
}

impl Check {
    async fn receive(&self, mut consumer: Consumer, window: Window) -> anyhow::Result<Observed> {
        let mut observed = Observed::new(window);
        let mut next: Vec<u64> = (0..self.partitions as u64).collect();
        let (mut arrived, total) = (0, self.timetable.count());
        let deadline = self.timetable.moment(total) + ARRIVAL_PATIENCE;
        while arrived < total {
            let events = tokio::time::timeout_at(deadline.into(), consumer.next()).await;
            let events = events.with_context(|| {
                format!("{} of {total} records have not arrived", total - arrived)
            })??;
            for event in events.context("the consumer ended")? {
                let records = match event {
                    FetchEvent::Records(records) => records,
                    FetchEvent::Skipped { partition, from, to } => {
                        bail!("{partition} lost its records {from} to {to} before they were read")
                    }
                    FetchEvent::Recreated { partition, .. } => {
                        bail!("the topic of {partition} was deleted and made again")
                    }
                };
                let partition = records.partition().partition;
                let now = Instant::now();
                for record in records.records() {
                    let next = &mut next[partition.0 as usize];
                    let content = record?.value.unwrap_or_default();
                    verify(&content, *next).with_context(|| format!("in partition {partition}"))?;
                    let due = self.timetable.moment(*next);
                    observed.count(now, Payload { records: 1, value_bytes: content.len() as u64 });
                    if window.contains(due) {
                        observed.note_latency(now.saturating_duration_since(due));
                    }
                    *next += self.partitions as u64;
                    arrived += 1;
                }
            }
        }
        Ok(observed)
    }
}

fn verify(content: &Bytes, expected: u64) -> anyhow::Result<()> {
    let number = content.first_chunk().map(|&number| u64::from_be_bytes(number));
    ensure!(number == Some(expected), "record {number:?} instead of {expected}");
    ensure!(content[..] == value(expected)[..], "record {expected} has another content");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_or_changed_is_noticed() {
        let content = Bytes::from(value(17));
        assert!(verify(&content, 17).is_ok());
        assert!(verify(&content, 18).is_err());
        let mut changed = content.to_vec();
        *changed.last_mut().expect("it has a number") ^= 1;
        assert!(verify(&Bytes::from(changed), 17).is_err());
        assert!(verify(&content.slice(..content.len() - 1), 17).is_err());
        assert!(verify(&Bytes::new(), 17).is_err());
    }

    #[test]
    fn values_have_many_sizes() {
        let sizes: std::collections::BTreeSet<usize> =
            (0..1000).map(|number| value(number).len()).collect();
        assert!(sizes.len() > 500, "{}", sizes.len());
        assert!(sizes.iter().all(|&size| size < NUMBER_BYTES + VALUE_BYTES_MAX));
    }
}
