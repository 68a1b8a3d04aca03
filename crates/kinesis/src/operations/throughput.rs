//! What a shard may do in a second, and what clients are told who want more.

use std::collections::BTreeMap;
use std::time::Duration;

use logway_model::{ErrorCode, PartitionId};
use logway_node::Failure;
use logway_node::streams::Demand;
use logway_node::tasks::join_all;
use tokio::time::{Instant, sleep_until};

use crate::call::{Call, FoundStream};
use crate::error::ApiError;
use crate::names::shard_id;
use crate::stream_metrics::{Counted, CountedOfShard};

/// What is said of a shard that has done what it may.
pub(super) fn exceeded(call: &Call, found: &FoundStream, number: PartitionId) -> Failure {
    let message = format!(
        "Rate exceeded for shard {} in stream {} under account {}.",
        shard_id(number),
        found.name(),
        call.account().id
    );
    Failure::new(ErrorCode::ThrottlingQuotaExceeded, message)
}

/// Which records are let into their shards: those of whose sizes it is said, in order, that there is room. A shard whose leader does
/// not answer is left out: nothing is known of its records.
pub(super) async fn admit(
    call: &Call,
    found: &FoundStream,
    sizes: BTreeMap<PartitionId, Vec<u32>>,
) -> BTreeMap<PartitionId, Vec<bool>> {
    let node = &call.service.node;
    let asking = sizes.into_iter().map(|(number, sizes)| async move {
        let count = sizes.len();
        let met = node.meter_anywhere(found.partition(number), Demand::Write(sizes)).await;
        let met = met.ok().map(|met| met.0).filter(|met| met.len() == count)?;
        Some((number, met))
    });
    join_all(asking.collect()).await.into_iter().flatten().collect()
}

/// Refuses a read beyond what a shard may do.
pub(super) async fn check_read(
    call: &Call,
    found: &FoundStream,
    number: PartitionId,
) -> Result<(), ApiError> {
    let node = &call.service.node;
    if !node.settings.kinesis.shard_rates.limit_reads() {
        return Ok(());
    }
    let met = node.meter_anywhere(found.partition(number), Demand::Read).await?;
    if met.0 == [true] {
        return Ok(());
    }
    let metrics = &call.service.stream_metrics;
    metrics.count(found.id(), &[(Counted::ReadExceeded, 1)]);
    metrics.count_shard((found.id(), number), &[(CountedOfShard::ReadExceeded, 1)]);
    Err(exceeded(call, found, number).into())
}

/// Counts what was read of a shard. Where its leader cannot be told, the next one begins anew.
pub(super) async fn note_read(call: &Call, found: &FoundStream, number: PartitionId, bytes: usize) {
    let node = &call.service.node;
    if node.settings.kinesis.shard_rates.read_bytes.is_some() {
        let was_read = Demand::WasRead(u64::try_from(bytes).unwrap_or(u64::MAX));
        _ = node.meter_anywhere(found.partition(number), was_read).await;
    }
}

/// Sends a subscriber no more than a shard has for it.
pub(super) struct Pace {
    bytes_per_second: Option<u64>,
    /// When what was sent is over.
    next: Instant,
}

impl Pace {
    pub(super) fn of(bytes_per_second: Option<u64>) -> Pace {
        Pace { bytes_per_second, next: Instant::now() }
    }

    /// Counts what is sent now.
    pub(super) fn note(&mut self, bytes: usize) {
        let Some(rate) = self.bytes_per_second else { return };
        let ms = u128::try_from(bytes).unwrap_or(u128::MAX).saturating_mul(1_000);
        let ms = u64::try_from(ms / u128::from(rate.max(1))).unwrap_or(u64::MAX);
        let begin = self.next.max(Instant::now());
        // Who has to wait for longer than a subscription lives is not sent anything more.
        self.next = begin + Duration::from_millis(ms).min(Duration::from_secs(3_600));
    }

    /// Waits until more may be sent, or until then.
    pub(super) async fn wait(&self, until: Instant) {
        sleep_until(self.next.min(until)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_subscriber_is_sent_what_there_is_in_a_second() {
        let start = Instant::now();
        let until = start + Duration::from_secs(300);
        let mut pace = Pace::of(Some(2 << 20));
        for _ in 0..10 {
            pace.wait(until).await;
            pace.note(1 << 20);
        }
        pace.wait(until).await;
        assert_eq!(start.elapsed().as_secs(), 5);
        pace.note(usize::MAX);
        pace.wait(until).await;
        assert_eq!(start.elapsed().as_secs(), 300);
        let mut free = Pace::of(None);
        free.note(usize::MAX);
        free.wait(until + Duration::from_secs(300)).await;
        assert_eq!(start.elapsed().as_secs(), 300);
    }
}
