//! Starting again after a crash.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use logway_client::{MissingTopic, OffsetAt};
use logway_model::{Offset, PartitionId, TopicPartition};

use super::preload::append;
use super::start::{NOT_KILLED, started};
use super::topic::RunTopic;
use super::{Load, NO_KAFKA, Run};
use crate::generator::{Acks, BatchShape, EncodedBatch, Observed, ProduceShape};
use crate::measure::{Durability, Parameters};
use crate::side::Side;

/// Writes data to one partition and creates many empty ones, then `kill -9`. The latency is the
/// time from the new process until the partition's end can be asked for.
#[derive(Debug, Clone)]
pub(crate) struct RestartLoad {
    /// Whether a broker that would wait for its own session is told not to.
    pub(crate) is_at_once: bool,
    pub(crate) batch: BatchShape,
    pub(crate) record_bytes: usize,
}

impl Load for RestartLoad {
    fn parameters(&self) -> anyhow::Result<Parameters> {
        let batch = EncodedBatch::of_size(self.batch, self.record_bytes)?;
        Ok(Parameters {
            durability: Some(Durability::Unsynced),
            partitions: 1,
            ..Parameters::of_batch(batch.size(), self.record_bytes)
        })
    }

    fn refusal(&self, side: &Side) -> Option<&'static str> {
        match side.peer {
            Some(_) => Some(NO_KAFKA),
            None => (!side.is_own()).then_some(NOT_KILLED),
        }
    }

    fn written_bytes_max(&self, _side: &Side, _run: &Run) -> anyhow::Result<u64> {
        // It is only for brokers that were started here.
        Ok(0)
    }

    async fn run(&self, side: &mut Side, run: &Run) -> anyhow::Result<Observed> {
        let topic = RunTopic::create(side, 1, Durability::Unsynced).await?;
        let empty = RunTopic::create(side, run.empty_partitions, Durability::Unsynced).await?;
        let batch = EncodedBatch::of_size(self.batch, self.record_bytes)?;
        let count = (run.preloaded_bytes / batch.bytes.len() as u64).max(1);
        let shape = ProduceShape {
            topic: topic.name.clone(),
            partition: 0,
            acks: Acks::All,
            version: topic.produce_version().await?,
        };
        let (mut stream, written) = (topic.leaders.connect(0)?, batch.clone());
        let stop = Arc::clone(&run.stop);
        let write = move || append(&mut stream, &shape, &written, count, &stop);
        tokio::task::spawn_blocking(write).await.context("the writer failed")??;

        side.kill()?;
        let began = Instant::now();
        match self.is_at_once {
            true => side.start_at_once().await?,
            false => side.start_again().await?,
        };
        // Metadata may be there before the partition has a leader.
        let names = BTreeSet::from([topic.name.clone()]);
        side.client.await_topics(&names, MissingTopic::Await).await?;
        let partition = TopicPartition::new(topic.name.clone(), PartitionId(0));
        let asked = BTreeSet::from([partition.clone()]);
        let found = side.client.list_offsets(&asked, OffsetAt::End).await?;
        let took = began.elapsed();
        let end = found.get(&partition).and_then(|listed| listed.offset);
        let expected = Offset(i64::try_from(count * batch.records)?);
        anyhow::ensure!(end == Some(expected), "{end:?} instead of {expected} after the restart");

        let observed = started(side, took);
        topic.reopened(side).delete().await?;
        empty.reopened(side).delete().await?;
        if self.is_at_once {
            // What comes next is measured with its defaults.
            side.stop().await?;
            side.start_again().await?;
        }
        Ok(observed)
    }
}
