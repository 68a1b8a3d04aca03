//! How many events wait in a topic: what its group has not committed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use logway_client::{ClientError, OffsetAt};
use logway_model::{PartitionId, TopicPartition};

use super::ground::Ground;

/// How often to look.
const INTERVAL: Duration = Duration::from_secs(2);

/// Keeps a number up to date until it is dropped. As long as the cluster cannot be asked, it stays as it was.
pub(super) async fn watch(ground: Arc<Ground>, lag: Arc<AtomicU64>) {
    loop {
        match measure(&ground).await {
            Ok(events) => lag.store(events, Ordering::Relaxed),
            Err(error) => {
                tracing::debug!(topic = %ground.topic, %error, "the size of a channel is not known");
            }
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

async fn measure(ground: &Ground) -> Result<u64, ClientError> {
    ground.prepare().await?;
    let metadata = ground.client.metadata();
    let count = metadata.topics.get(&ground.topic).map_or(0, |topic| topic.partitions.len());
    let all = (0..count).filter_map(|index| i32::try_from(index).ok());
    let all = all.map(|index| TopicPartition::new(ground.topic.clone(), PartitionId(index)));
    let all: BTreeSet<TopicPartition> = all.collect();
    let ends = ground.client.list_offsets(&all, OffsetAt::End).await?;
    let starts = ground.client.list_offsets(&all, OffsetAt::Start).await?;
    let committed = ground.client.committed_offsets(&ground.group).await?;
    let of = |partition: &TopicPartition| {
        let end = ends.get(partition)?.offset?;
        let start = starts.get(partition)?.offset?;
        let next = committed.get(partition).map_or(start, |committed| committed.offset.max(start));
        u64::try_from(end.0 - next.0).ok()
    };
    Ok(all.iter().filter_map(of).sum())
}
