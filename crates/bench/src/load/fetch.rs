//! Consuming what is there already.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;

use super::peer;
use super::preload::append;
use super::topic::RunTopic;
use super::{Load, Run};
use crate::generator::{
    Acks, BatchShape, EncodedBatch, FetchShape, FetchTraffic, Lane, Observed, Pace, ProduceShape,
    Span, Tape,
};
use crate::measure::{Durability, Parameters};
use crate::side::{BARE, Side, drop_from_memory};

/// How what is stored is read from start to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// What is in memory still, again and again until the time is over.
    Repeated,
    /// What is in memory still, once.
    Cached,
    /// From the disk, once.
    Uncached,
}

/// Partitions of uniform batches, each read by one connection.
#[derive(Debug, Clone)]
pub(crate) struct FetchLoad {
    pub(crate) batch: BatchShape,
    pub(crate) record_bytes: usize,
    /// The most that one answer brings.
    pub(crate) fetch_bytes: i32,
    /// As many connections as partitions.
    pub(crate) partitions: i32,
    pub(crate) reading: Reading,
    /// The most batches to write first: small ones take their time.
    pub(crate) batches_max: u64,
}

impl Default for FetchLoad {
    fn default() -> FetchLoad {
        FetchLoad {
            batch: BatchShape::Bytes(16 << 10),
            record_bytes: 100,
            fetch_bytes: 1 << 20,
            partitions: 1,
            reading: Reading::Repeated,
            batches_max: u64::MAX,
        }
    }
}

impl FetchLoad {
    fn batch(&self) -> anyhow::Result<EncodedBatch> {
        EncodedBatch::of_size(self.batch, self.record_bytes)
    }

    /// Writes what will be read.
    pub(super) async fn store(&self, side: &Side, run: &Run) -> anyhow::Result<Stored> {
        let topic = RunTopic::create(side, self.partitions, Durability::Unsynced).await?;
        let version = topic.produce_version().await?;
        let batch = self.batch()?;
        let batches = self.batches_in_partition(&batch, run);
        for partition in 0..self.partitions {
            let (mut stream, batch) = (topic.leaders.connect(partition)?, batch.clone());
            let topic = topic.name.clone();
            let shape = ProduceShape { topic, partition, acks: Acks::All, version };
            let stop = Arc::clone(&run.stop);
            let write = move || append(&mut stream, &shape, &batch, batches, &stop);
            tokio::task::spawn_blocking(write).await.context("the writer failed")??;
        }
        Ok(Stored { topic, batch, batches })
    }

    fn batches_in_partition(&self, batch: &EncodedBatch, run: &Run) -> u64 {
        let per_partition = run.preloaded_bytes / self.partitions as u64;
        (per_partition / batch.bytes.len() as u64).clamp(1, self.batches_max)
    }
}

impl Load for FetchLoad {
    fn parameters(&self) -> anyhow::Result<Parameters> {
        let batch = self.batch()?;
        Ok(Parameters {
            partitions: self.partitions,
            consumers: self.partitions as usize,
            in_flight: 1,
            fetch_bytes: self.fetch_bytes as u64,
            ..Parameters::of_batch(batch.size(), self.record_bytes)
        })
    }

    fn refusal(&self, side: &Side) -> Option<&'static str> {
        match side.peer {
            Some(_) => peer::consume_refusal(self),
            None => (side.name == BARE).then_some("stores records and gives none back"),
        }
    }

    fn is_warmed_up(&self) -> bool {
        self.reading != Reading::Uncached
    }

    fn writes(&self) -> bool {
        false
    }

    fn written_bytes_max(&self, _side: &Side, run: &Run) -> anyhow::Result<u64> {
        let batch = self.batch()?;
        let batches = self.batches_in_partition(&batch, run) * self.partitions as u64;
        Ok(batches * batch.bytes.len() as u64)
    }

    async fn run(&self, side: &mut Side, run: &Run) -> anyhow::Result<Observed> {
        if let Some(peer) = side.peer {
            return peer::consume(self, peer, side, run).await;
        }
        let stored = self.store(side, run).await?;
        if self.reading == Reading::Uncached {
            drop_from_memory(&side.segments(&stored.topic)?)?;
        }
        let run = match self.reading {
            Reading::Repeated => run.clone(),
            // Nothing of it may go by before it is counted.
            Reading::Cached | Reading::Uncached => run.lasting(Duration::ZERO, run.measured),
        };
        let version = stored.topic.fetch_version().await?;
        let mut lanes = Vec::new();
        for partition in 0..self.partitions {
            let shape = FetchShape {
                topic: stored.topic.name.clone(),
                partition,
                bytes_max: self.fetch_bytes,
                version,
            };
            let (frame, offset_at) = shape.encode()?;
            let end_offset = stored.batches * stored.batch.records;
            let span = match self.reading {
                Reading::Repeated => Span::Repeat(end_offset),
                Reading::Cached | Reading::Uncached => Span::Once(end_offset),
            };
            let traffic = Box::new(FetchTraffic::new(offset_at, version, &stored.batch, span));
            let tape = Tape::repeating(&frame, 1);
            let stream = stored.topic.leaders.connect(partition)?;
            lanes.push(Lane::new(stream, Pace::Closed(1), tape, traffic));
        }
        let observed = run.drive(side, None, |_| Ok(lanes)).await?;
        stored.topic.delete().await?;
        Ok(observed)
    }
}

/// What is there to be read.
pub(super) struct Stored {
    pub(super) topic: RunTopic,
    pub(super) batch: EncodedBatch,
    /// In each partition.
    pub(super) batches: u64,
}
