//! How old records are when they reach a consumer that waits for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context;

use super::topic::RunTopic;
use super::{Load, NO_KAFKA, Run};
use crate::generator::{
    Acks, BatchShape, EncodedBatch, FetchShape, Lane, Observed, Pace, ProduceShape, ProduceTraffic,
    TAIL_BYTES_MAX, TailTraffic, Tape,
};
use crate::measure::{Durability, Parameters};
use crate::side::Side;

/// One producer sends single records by a timetable, one consumer waits for them.
#[derive(Debug, Clone)]
pub(crate) struct EndToEndLoad {
    pub(crate) record_bytes: usize,
    pub(crate) durability: Durability,
    /// Records a second.
    pub(crate) rate: f64,
}

/// The same at a rate of its own for each side.
#[derive(Debug, Clone)]
pub(crate) struct OwnRateLoad {
    /// By the name of the side.
    pub(crate) loads: BTreeMap<String, EndToEndLoad>,
    pub(crate) record_bytes: usize,
    pub(crate) durability: Durability,
}

impl Load for OwnRateLoad {
    fn parameters(&self) -> anyhow::Result<Parameters> {
        let any = EndToEndLoad {
            record_bytes: self.record_bytes,
            durability: self.durability,
            rate: 0.0,
        };
        // Each row says how many records it was.
        Ok(Parameters { rate: None, ..any.parameters()? })
    }

    fn refusal(&self, side: &Side) -> Option<&'static str> {
        match self.loads.get(&side.name) {
            Some(load) => load.refusal(side),
            None => Some(NO_KAFKA),
        }
    }

    fn is_warmed_up(&self) -> bool {
        true
    }

    fn written_bytes_max(&self, side: &Side, run: &Run) -> anyhow::Result<u64> {
        self.loads.get(&side.name).map_or(Ok(0), |load| load.written_bytes_max(side, run))
    }

    async fn run(&self, side: &mut Side, run: &Run) -> anyhow::Result<Observed> {
        let load = self.loads.get(&side.name).context("a side without a knee")?;
        load.run(side, run).await
    }
}

impl Load for EndToEndLoad {
    fn parameters(&self) -> anyhow::Result<Parameters> {
        let batch = EncodedBatch::of_size(BatchShape::Records(1), self.record_bytes)?;
        Ok(Parameters {
            durability: Some(self.durability),
            acks: Some(Acks::All.name()),
            partitions: 1,
            producers: 1,
            consumers: 1,
            rate: Some(self.rate),
            fetch_bytes: TAIL_BYTES_MAX as u64,
            ..Parameters::of_batch(batch.size(), self.record_bytes)
        })
    }

    fn is_warmed_up(&self) -> bool {
        true
    }

    fn written_bytes_max(&self, _side: &Side, run: &Run) -> anyhow::Result<u64> {
        let batch = EncodedBatch::of_size(BatchShape::Records(1), self.record_bytes)?;
        Ok(run.bytes_at(self.rate, batch.bytes.len() as u64))
    }

    async fn run(&self, side: &mut Side, run: &Run) -> anyhow::Result<Observed> {
        let topic = RunTopic::create(side, 1, self.durability).await?;
        let (produced, fetched) = (topic.produce_version().await?, topic.fetch_version().await?);
        let batch = EncodedBatch::of_size(BatchShape::Records(1), self.record_bytes)?;
        let (topic_name, partition) = (topic.name.clone(), 0);
        let produce = ProduceShape {
            topic: topic_name.clone(),
            partition,
            acks: Acks::All,
            version: produced,
        };
        let fetch = FetchShape {
            topic: topic_name,
            partition,
            bytes_max: TAIL_BYTES_MAX,
            version: fetched,
        };
        let produce_tape = Tape::repeating(&produce.encode(&batch)?, usize::MAX);
        let (fetch_frame, offset_at) = fetch.encode()?;
        let (producer, consumer) =
            (topic.leaders.connect(partition)?, topic.leaders.connect(partition)?);
        let traffic = ProduceTraffic::new(batch.payload(), Acks::All, produced, Pace::Open);
        let traffic = Box::new(traffic.uncounted());
        let value_bytes = self.record_bytes as u64;
        let lanes = |timetable: Option<&Arc<_>>| {
            let timetable = Arc::clone(timetable.expect("an open loop has a timetable"));
            let tail = Box::new(TailTraffic::new(offset_at, fetched, value_bytes, timetable));
            let fetch_tape = Tape::repeating(&fetch_frame, 1);
            Ok(vec![
                Lane::new(producer, Pace::Open, produce_tape, traffic),
                Lane::new(consumer, Pace::Closed(1), fetch_tape, tail),
            ])
        };
        let observed = run.drive(side, Some(self.rate), lanes).await?;
        topic.delete().await?;
        Ok(observed)
    }
}
