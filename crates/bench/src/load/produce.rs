//! Producing: in a closed loop, or at a fixed rate.

use std::sync::Arc;

use super::peer;
use super::preload::append;
use super::run::connect;
use super::topic::RunTopic;
use super::{Load, Run};
use crate::generator::{
    Acks, BatchShape, EncodedBatch, Lane, Observed, Pace, ProduceShape, ProduceTraffic, Tape,
};
use crate::measure::{Durability, Parameters};
use crate::side::Side;

/// How much of the tape one lane has, for values that are not all the same.
const DIFFERENT_BATCHES: usize = 64;

/// Batches of one size over some connections, each with a partition.
#[derive(Debug, Clone)]
pub(crate) struct ProduceLoad {
    pub(crate) batch: BatchShape,
    /// Bytes of each value, where `values` has none.
    pub(crate) record_bytes: usize,
    /// Values to take in turn.
    pub(crate) values: Option<Arc<Vec<Vec<u8>>>>,
    pub(crate) acks: Acks,
    pub(crate) durability: Durability,
    pub(crate) partitions: i32,
    /// Whether each connection writes to all partitions in turn, instead of to one of them.
    pub(crate) spreads: bool,
    pub(crate) connections: usize,
    pub(crate) in_flight: usize,
    /// Requests a second over all connections, for an open loop.
    pub(crate) rate: Option<f64>,
}

impl Default for ProduceLoad {
    fn default() -> ProduceLoad {
        ProduceLoad {
            batch: BatchShape::Bytes(16 << 10),
            record_bytes: 100,
            values: None,
            acks: Acks::All,
            durability: Durability::Unsynced,
            partitions: 1,
            spreads: false,
            connections: 1,
            in_flight: 5,
            rate: None,
        }
    }
}

impl ProduceLoad {
    /// The batches that a lane sends in turn.
    fn batches(&self) -> anyhow::Result<Vec<EncodedBatch>> {
        let Some(values) = &self.values else {
            return Ok(vec![EncodedBatch::of_size(self.batch, self.record_bytes)?]);
        };
        let mut batches: Vec<EncodedBatch> = Vec::new();
        let mut at = 0;
        for _ in 0..DIFFERENT_BATCHES {
            let batch = EncodedBatch::of(self.batch, &values[at..])?;
            at = (at + batch.records as usize) % values.len();
            batches.push(batch);
        }
        Ok(batches)
    }

    pub(super) fn pace(&self) -> Pace {
        if self.rate.is_some() { Pace::Open } else { Pace::Closed(self.in_flight) }
    }

    /// What the connection with that number sends.
    fn tape(
        &self,
        batches: &[EncodedBatch],
        number: usize,
        shape: impl Fn(i32) -> ProduceShape,
    ) -> anyhow::Result<Tape> {
        let partitions = match self.spreads {
            true => 0..self.partitions,
            false => {
                let partition = number as i32 % self.partitions;
                partition..partition + 1
            }
        };
        let mut frames = Vec::new();
        for batch in batches {
            for partition in partitions.clone() {
                frames.push(shape(partition).encode(batch)?);
            }
        }
        Ok(match frames.as_slice() {
            [only] => Tape::repeating(only, self.in_flight),
            several => Tape::of(several),
        })
    }
}

impl Load for ProduceLoad {
    fn parameters(&self) -> anyhow::Result<Parameters> {
        let batches = self.batches()?;
        Ok(Parameters {
            durability: Some(self.durability),
            acks: Some(self.acks.name()),
            batch_records: batches[0].records,
            batch_bytes: batches[0].bytes.len() as u64,
            record_bytes: match &self.values {
                Some(values) => {
                    let total: usize = values.iter().map(Vec::len).sum();
                    (total / values.len()) as u64
                }
                None => self.record_bytes as u64,
            },
            partitions: self.partitions,
            producers: self.connections,
            in_flight: if self.rate.is_some() { 0 } else { self.in_flight },
            rate: self.rate,
            ..Parameters::default()
        })
    }

    fn refusal(&self, side: &Side) -> Option<&'static str> {
        side.peer.and_then(|peer| peer::produce_refusal(self, peer))
    }

    async fn run(&self, side: &mut Side, run: &Run) -> anyhow::Result<Observed> {
        if let Some(peer) = side.peer {
            return peer::produce(self, peer, side, run).await;
        }
        let topic = RunTopic::create(&side.client, self.partitions, self.durability).await?;
        let version = topic.produce_version().await?;
        let batches = self.batches()?;
        // Where batches differ, they do so by a few bytes: each counts as the average.
        let average = EncodedBatch::average(&batches);
        let shape = |partition| ProduceShape {
            topic: topic.name.clone(),
            partition,
            acks: self.acks,
            version,
        };
        let mut lanes = Vec::with_capacity(self.connections);
        for number in 0..self.connections {
            let traffic = ProduceTraffic::new(average, self.acks, version, self.pace());
            let tape = self.tape(&batches, number, shape)?;
            let stream = connect(&side.address)?;
            lanes.push(Lane::new(stream, self.pace(), tape, Box::new(traffic)));
        }
        let acknowledged = ProduceShape { acks: Acks::All, ..shape(0) };
        let is_unanswered = self.acks == Acks::None;
        let batch = batches[0].clone();
        let pid = side.pid;
        let drain = move |lanes: Vec<Lane>, observed: &mut Observed| {
            if !is_unanswered {
                return Ok(());
            }
            // What was sent counts once the broker has it: it takes requests in their order, so
            // an acknowledgement on the same connection says so.
            for mut lane in lanes {
                append(&mut lane.stream, &acknowledged, &batch, 1, None)?;
            }
            observed.arrived(pid);
            Ok(())
        };
        let run = run.of_acks(self.acks);
        let observed = run.drive(side, self.rate, |_| Ok(lanes), drain).await?;
        topic.delete().await?;
        Ok(observed)
    }
}
