//! The topics of a run.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Context;
use logway_client::{Client, MissingTopic, NewTopic, OffsetAt};
use logway_model::{PartitionId, TopicName, TopicPartition};
use logway_wire::messages::{FetchRequest, ProduceRequest};

use crate::generator::VERSION_MAX;
use crate::measure::Durability;
use crate::side::Side;

/// Tells the topics of one process apart.
static TOPICS: AtomicU32 = AtomicU32::new(0);

/// A topic that exists for one run.
#[derive(Debug)]
pub(crate) struct RunTopic {
    pub(crate) name: TopicName,
    client: Client,
}

impl RunTopic {
    /// Creates it, and waits until all its partitions have leaders.
    ///
    /// Both sides are told when to sync, so that neither is measured with defaults that promise
    /// less than the other's.
    pub(crate) async fn create(
        client: &Client,
        partitions: i32,
        durability: Durability,
    ) -> anyhow::Result<RunTopic> {
        RunTopic::create_with(client, partitions, durability, &[]).await
    }

    /// The same with settings besides those that say when to sync.
    pub(crate) async fn create_with(
        client: &Client,
        partitions: i32,
        durability: Durability,
        settings: &[(String, String)],
    ) -> anyhow::Result<RunTopic> {
        let number = TOPICS.fetch_add(1, Ordering::Relaxed);
        let name = TopicName::new(&format!("bench-{}-{number}", std::process::id()))?;
        let flush_messages = match durability {
            Durability::Synced => 1,
            Durability::Unsynced => i64::MAX,
        };
        let mut configs = vec![
            ("flush.messages".to_owned(), flush_messages.to_string()),
            ("flush.ms".to_owned(), i64::MAX.to_string()),
        ];
        configs.extend_from_slice(settings);
        let topic = NewTopic {
            name: name.clone(),
            partitions: Some(partitions),
            replication_factor: Some(1),
            configs,
        };
        let outcomes = client.create_topics(std::slice::from_ref(&topic), false).await?;
        for (name, outcome) in outcomes {
            outcome.with_context(|| format!("topic '{name}'"))?;
        }
        client.await_topics(&BTreeSet::from([name.clone()]), MissingTopic::Await).await?;
        // A leader may not know yet that it is one; a question to each, repeated until it does,
        // finds that out.
        let partition = |number| TopicPartition::new(name.clone(), PartitionId(number));
        client.list_offsets(&(0..partitions).map(partition).collect(), OffsetAt::End).await?;
        Ok(RunTopic { name, client: client.clone() })
    }

    /// The newest version of Produce that both sides know and that names topics by name.
    pub(crate) async fn produce_version(&self) -> anyhow::Result<i16> {
        Ok(self.client.any().await?.version_for::<ProduceRequest>(VERSION_MAX)?)
    }

    /// The same of Fetch.
    pub(crate) async fn fetch_version(&self) -> anyhow::Result<i16> {
        Ok(self.client.any().await?.version_for::<FetchRequest>(VERSION_MAX)?)
    }

    /// The same topic of a broker that was started again.
    pub(crate) fn reopened(self, side: &Side) -> RunTopic {
        RunTopic { client: side.client.clone(), ..self }
    }

    /// Deletes it. A failed run leaves its topic behind.
    pub(crate) async fn delete(self) -> anyhow::Result<()> {
        let outcomes = self.client.delete_topics(std::slice::from_ref(&self.name)).await?;
        for (name, outcome) in outcomes {
            outcome.with_context(|| format!("the benchmark's topic '{name}' stays"))?;
        }
        Ok(())
    }
}
