//! Producing until so much is stored.

use std::time::Duration;

use super::topic::RunTopic;
use super::{Load, ProduceLoad, Run};
use crate::generator::Observed;
use crate::measure::Parameters;
use crate::side::Side;

/// Who has not stored it by then is measured with what it has: a terabyte at 12 MB a second.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// A closed loop that ends when a topic has a size, and not after a time: whether a broker gets
/// slower as what it stores no longer fits into memory. The topic is gone from the disk before the
/// next side begins.
///
/// It counts from the end of a short warm-up on, as a new partition is work, and what is stored until
/// then comes on top.
#[derive(Debug, Clone)]
pub(crate) struct GrowLoad {
    pub(crate) produce: ProduceLoad,
    /// Bytes of record batches.
    pub(crate) stored_bytes: u64,
}

impl Load for GrowLoad {
    fn parameters(&self) -> anyhow::Result<Parameters> {
        self.produce.parameters()
    }

    fn refusal(&self, side: &Side) -> Option<&'static str> {
        const NOT_OURS: &str = "was not started here, and nobody said that its disk may be filled";
        let refusal = side.peer.map(|_| super::NO_KAFKA);
        refusal.or_else(|| (!side.is_own()).then_some(NOT_OURS))
    }

    fn written_bytes_max(&self, _side: &Side, _run: &Run) -> anyhow::Result<u64> {
        // It is only for brokers that were started here.
        Ok(0)
    }

    async fn run(&self, side: &mut Side, run: &Run) -> anyhow::Result<Observed> {
        let ProduceLoad { partitions, durability, acks, .. } = self.produce;
        let topic = RunTopic::create(side, partitions, durability).await?;
        let version = topic.produce_version().await?;
        let to = (&topic.leaders, &topic.name, version);
        let lanes = self.produce.lanes(0, to, Some(self.stored_bytes))?;
        let run = run.of_new_topic(partitions, acks);
        let run = run.lasting(run.warm_up, PATIENCE);
        let observed = run.drive(side, None, |_| Ok(lanes)).await?;
        topic.ensure_has(observed.entrusted_records, acks).await?;
        let name = topic.name.clone();
        topic.delete().await?;
        side.await_removal(&name).await?;
        Ok(observed)
    }
}
