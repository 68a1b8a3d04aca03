//! The topics of a run.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use logway_client::{Client, MissingTopic, NewTopic, OffsetAt};
use logway_model::{PartitionId, TopicName, TopicPartition};
use logway_wire::messages::{FetchRequest, ProduceRequest};

use super::{Leaders, MadeTopics};
use crate::generator::{Acks, VERSION_MAX};
use crate::measure::Durability;
use crate::side::Side;

/// How many replicas must have a record before it is acknowledged to all, where there are several.
const IN_SYNC_MIN: i16 = 2;

/// How long followers may take to have what was acknowledged without them.
const REPLICATION_PATIENCE: Duration = Duration::from_secs(30);

/// How often the leaders are asked whether they have.
const REPLICATION_INTERVAL: Duration = Duration::from_millis(10);

/// Tells the topics of one process apart.
static TOPICS: AtomicU32 = AtomicU32::new(0);

/// What the names of all topics of this process begin with.
pub(crate) fn topic_prefix() -> String {
    format!("bench-{}-", std::process::id())
}

/// A topic that exists for one run.
#[derive(Debug)]
pub(crate) struct RunTopic {
    pub(crate) name: TopicName,
    pub(crate) leaders: Leaders,
    partitions: i32,
    client: Client,
    made: MadeTopics,
}

impl RunTopic {
    /// Creates it, with a replica of each partition on each node, and waits until all partitions have leaders.
    ///
    /// Both sides are told when to sync, so that neither is measured with defaults that promise
    /// less than the other's.
    pub(crate) async fn create(
        side: &Side,
        partitions: i32,
        durability: Durability,
    ) -> anyhow::Result<RunTopic> {
        RunTopic::create_with(side, partitions, durability, &[]).await
    }

    /// The same with settings besides those that say when to sync.
    pub(crate) async fn create_with(
        side: &Side,
        partitions: i32,
        durability: Durability,
        settings: &[(String, String)],
    ) -> anyhow::Result<RunTopic> {
        let client = &side.client;
        let number = TOPICS.fetch_add(1, Ordering::Relaxed);
        let name = TopicName::new(&format!("{}{number}", topic_prefix()))?;
        let flush_messages = match durability {
            Durability::Synced => 1,
            Durability::Unsynced => i64::MAX,
        };
        let mut configs = vec![
            ("flush.messages".to_owned(), flush_messages.to_string()),
            ("flush.ms".to_owned(), i64::MAX.to_string()),
        ];
        let replicas = side.nodes();
        if replicas > 1 {
            configs.push(("min.insync.replicas".to_owned(), IN_SYNC_MIN.to_string()));
        }
        configs.extend_from_slice(settings);
        let topic = NewTopic {
            name: name.clone(),
            partitions: Some(partitions),
            replication_factor: Some(i16::try_from(replicas)?),
            configs,
        };
        // Before it is asked for: the run may be called off at each await.
        side.made.add(&name);
        let outcomes = client.create_topics(std::slice::from_ref(&topic), false).await?;
        for (name, outcome) in outcomes {
            outcome.with_context(|| format!("topic '{name}'"))?;
        }
        client.await_topics(&BTreeSet::from([name.clone()]), MissingTopic::Await).await?;
        // A leader may not know yet that it is one; a question to each, repeated until it does,
        // finds that out.
        let partition = |number| TopicPartition::new(name.clone(), PartitionId(number));
        client.list_offsets(&(0..partitions).map(partition).collect(), OffsetAt::End).await?;
        let leaders = Leaders::of(&client.metadata(), &name, partitions)?;
        let (client, made) = (client.clone(), side.made.clone());
        Ok(RunTopic { name, leaders, partitions, client, made })
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

    /// Makes sure that the broker has the records that it was given with these acks, acknowledged or not.
    ///
    /// # Errors
    ///
    /// It has fewer, so that it has only seemed to be fast.
    pub(crate) async fn ensure_has(&self, records: u64, acks: Acks) -> anyhow::Result<()> {
        // A partition ends where all replicas in sync have come to; only acks all says that they have.
        let patience = if acks == Acks::All { Duration::ZERO } else { REPLICATION_PATIENCE };
        let began = Instant::now();
        loop {
            let has = self.end_offsets().await?;
            if has >= records {
                return Ok(());
            }
            ensure!(
                began.elapsed() < patience,
                "the broker has {has} of the {records} records that it took"
            );
            tokio::time::sleep(REPLICATION_INTERVAL).await;
        }
    }

    /// The sum over all partitions.
    async fn end_offsets(&self) -> anyhow::Result<u64> {
        let partition = |number| TopicPartition::new(self.name.clone(), PartitionId(number));
        let all = (0..self.partitions).map(partition).collect();
        let ends = self.client.list_offsets(&all, OffsetAt::End).await?;
        let ends = ends.values().filter_map(|listed| listed.offset);
        Ok(ends.map(|end| u64::try_from(end.0).unwrap_or(0)).sum())
    }

    /// Deletes it. That of a run that failed is deleted at the end of the session, if the broker is then still there.
    pub(crate) async fn delete(self) -> anyhow::Result<()> {
        let outcomes = self.client.delete_topics(std::slice::from_ref(&self.name)).await?;
        for (name, outcome) in outcomes {
            outcome.with_context(|| format!("the benchmark's topic '{name}' stays"))?;
        }
        self.made.forget(&self.name);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use logway_client::BrokerAddress;

    use super::*;
    use crate::bare_broker;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_broker_that_has_not_what_it_took_is_found_out() {
        let directory = tempfile::tempdir().expect("a directory");
        let listener = TcpListener::bind("127.0.0.1:0").expect("an address");
        let port = listener.local_addr().expect("it listens").port();
        let store = directory.path().join("store");
        // It gives nothing back, and says that all partitions are empty.
        std::thread::spawn(move || bare_broker::serve(listener, &store, |_| ()));
        let address = BrokerAddress::new("127.0.0.1", port);
        let side = Side::given("bare", address, None);
        let topic = RunTopic::create(&side, 3, Durability::Unsynced).await.expect("it creates");
        topic.ensure_has(0, Acks::All).await.expect("nothing is there");
        let error = topic.ensure_has(7, Acks::All).await.expect_err("it has none");
        assert!(error.to_string().contains("0 of the 7"), "{error}");
    }
}
