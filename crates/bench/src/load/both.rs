//! Producing and consuming at once.

use super::topic::RunTopic;
use super::{Load, Run};
use crate::generator::{
    Acks, BatchShape, EncodedBatch, FetchShape, FetchTraffic, Lane, Observed, Pace, ProduceShape,
    ProduceTraffic, Span, Tape,
};
use crate::measure::{Durability, Parameters};
use crate::side::Side;

/// One connection that writes to all partitions in turn, or one to each leader, and one for each partition that reads
/// what comes. Only what is read is counted: it has been through the broker twice.
#[derive(Debug, Clone)]
pub(crate) struct BothLoad {
    pub(crate) batch: BatchShape,
    pub(crate) record_bytes: usize,
    pub(crate) partitions: i32,
    pub(crate) in_flight: usize,
    pub(crate) fetch_bytes: i32,
}

impl Load for BothLoad {
    fn parameters(&self) -> anyhow::Result<Parameters> {
        let batch = EncodedBatch::of_size(self.batch, self.record_bytes)?;
        Ok(Parameters {
            durability: Some(Durability::Unsynced),
            acks: Some(Acks::All.name()),
            partitions: self.partitions,
            producers: 1,
            consumers: self.partitions as usize,
            in_flight: self.in_flight,
            fetch_bytes: self.fetch_bytes as u64,
            ..Parameters::of_batch(batch.size(), self.record_bytes)
        })
    }

    fn written_bytes_max(&self, _side: &Side, run: &Run) -> anyhow::Result<u64> {
        Ok(run.sent_bytes_max.unwrap_or(u64::MAX))
    }

    async fn run(&self, side: &mut Side, run: &Run) -> anyhow::Result<Observed> {
        let topic = RunTopic::create(side, self.partitions, Durability::Unsynced).await?;
        let (produced, fetched) = (topic.produce_version().await?, topic.fetch_version().await?);
        let batch = EncodedBatch::of_size(self.batch, self.record_bytes)?;
        let pace = Pace::Closed(self.in_flight);
        let requests_max = run.requests_max(batch.bytes.len() as u64, 1);
        let mut lanes = Vec::new();
        for partition in 0..self.partitions {
            let fetch = FetchShape {
                topic: topic.name.clone(),
                partition,
                bytes_max: self.fetch_bytes,
                version: fetched,
            };
            let (frame, offset_at) = fetch.encode()?;
            let traffic = Box::new(FetchTraffic::new(offset_at, fetched, &batch, Span::Follow));
            let tape = Tape::repeating(&frame, 1);
            let stream = topic.leaders.connect(partition)?;
            lanes.push(Lane::new(stream, Pace::Closed(1), tape, traffic));
        }
        for partitions in topic.leaders.groups(0..self.partitions) {
            let frame = |&partition: &i32| {
                let (topic, acks) = (topic.name.clone(), Acks::All);
                ProduceShape { topic, partition, acks, version: produced }.encode(&batch)
            };
            let frames: Vec<_> = partitions.iter().map(frame).collect::<anyhow::Result<_>>()?;
            let traffic = ProduceTraffic::new(batch.payload(), Acks::All, produced, pace);
            let traffic = Box::new(traffic.uncounted());
            let stream = topic.leaders.connect(partitions[0])?;
            let producer = Lane::new(stream, pace, Tape::of(&frames), traffic);
            lanes.push(producer.with_requests_max(requests_max));
        }
        let observed = run.drive(side, None, |_| Ok(lanes)).await?;
        topic.delete().await?;
        Ok(observed)
    }
}
