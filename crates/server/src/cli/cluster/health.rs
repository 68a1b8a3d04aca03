//! `logway cluster health`.

use std::fmt;

use clap::Args;
use logway_client::{
    ClusterDescription, ClusterMetadata, MissingTopic, PartitionMetadata, QuorumDescription,
    TopicSelection,
};
use logway_model::{BrokerId, TopicPartition};
use schemars::JsonSchema;
use serde::Serialize;

use super::info::quorum;
use crate::cli::GlobalArgs;
use crate::cli::error::CliError;
use crate::cli::output::{self, Format, Table};

/// Say whether every partition can be read and written, and every broker serves
///
/// Exits with 1 if something is wrong.
#[derive(Debug, Args)]
pub(in crate::cli) struct HealthArgs {}

/// The state of the cluster; printed also when the exit code is 1 because it is not healthy.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Health {
    healthy: bool,
    broker_count: usize,
    #[schemars(with = "Vec<i32>")]
    fenced_brokers: Vec<BrokerId>,
    /// Whether metadata can be changed; `null` from brokers that do not tell
    has_controller: Option<bool>,
    partition_count: usize,
    leaderless_partitions: Vec<Partition>,
    under_replicated_partitions: Vec<Partition>,
}

#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
struct Partition {
    topic: String,
    partition: i32,
}

impl Partition {
    fn new(partition: &TopicPartition) -> Partition {
        Partition { topic: partition.topic.to_string(), partition: partition.partition.0 }
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

pub(super) async fn run(_args: HealthArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let client = global.client()?;
    let cluster = client.describe_cluster().await?;
    let quorum = quorum(&client).await?;
    let metadata = client.refresh_metadata(TopicSelection::All, MissingTopic::Refuse).await?;
    let health = health(&cluster, quorum.as_ref(), &metadata);
    match global.format {
        Format::Json => output::print_json(&health)?,
        Format::Text => output::print(&table(&health).render())?,
    }
    match health.healthy {
        true => Ok(()),
        false => Err(CliError::Unhealthy),
    }
}

fn health(
    cluster: &ClusterDescription,
    quorum: Option<&QuorumDescription>,
    metadata: &ClusterMetadata,
) -> Health {
    let partitions: Vec<(TopicPartition, &PartitionMetadata)> = metadata
        .topics
        .iter()
        .flat_map(|(name, topic)| topic.partitions.iter().map(move |p| (name, p)))
        .map(|(name, partition)| (TopicPartition::new(name.clone(), partition.id), partition))
        .collect();
    let those = |is_wrong: fn(&PartitionMetadata) -> bool| -> Vec<Partition> {
        let wrong = partitions.iter().filter(|(_, partition)| is_wrong(partition));
        wrong.map(|(name, _)| Partition::new(name)).collect()
    };
    let fenced = cluster.brokers.iter().filter(|broker| broker.is_fenced);
    let fenced_brokers: Vec<BrokerId> = fenced.map(|broker| broker.id).collect();
    let has_controller = quorum.map(|quorum| quorum.leader.is_some());
    let leaderless_partitions = those(|partition| partition.leader.is_none());
    let under_replicated_partitions =
        those(|partition| partition.isr.len() < partition.replicas.len());
    Health {
        healthy: fenced_brokers.is_empty()
            && has_controller != Some(false)
            && leaderless_partitions.is_empty()
            && under_replicated_partitions.is_empty(),
        broker_count: cluster.brokers.len(),
        fenced_brokers,
        has_controller,
        partition_count: partitions.len(),
        leaderless_partitions,
        under_replicated_partitions,
    }
}

fn table(health: &Health) -> Table {
    let mut table = Table::without_names();
    let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
    let yes_or_no = |is_so| if is_so { "yes" } else { "no" }.to_owned();
    let partitions = |partitions: &[Partition]| {
        partitions.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    let brokers: Vec<String> = health.fenced_brokers.iter().map(ToString::to_string).collect();
    row("HEALTHY", yes_or_no(health.healthy));
    row("CONTROLLER", health.has_controller.map(yes_or_no).unwrap_or_default());
    row("BROKERS", health.broker_count.to_string());
    row("FENCED", brokers.join(" "));
    row("PARTITIONS", health.partition_count.to_string());
    row("LEADERLESS", partitions(&health.leaderless_partitions));
    row("UNDER-REPLICATED", partitions(&health.under_replicated_partitions));
    table
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use logway_client::TopicMetadata;
    use logway_model::{ErrorCode, LeaderEpoch, PartitionId, TopicId, TopicName};

    use super::*;

    fn metadata(leader: Option<i32>, isr: &[i32]) -> ClusterMetadata {
        let partition = PartitionMetadata {
            id: PartitionId(0),
            leader: leader.map(BrokerId),
            leader_epoch: LeaderEpoch(0),
            replicas: vec![BrokerId(1), BrokerId(2)],
            isr: isr.iter().copied().map(BrokerId).collect(),
            offline: Vec::new(),
        };
        let topic = TopicMetadata {
            id: TopicId::default(),
            is_internal: false,
            error: ErrorCode::None,
            partitions: vec![partition],
        };
        let name = TopicName::new("t").expect("a name");
        ClusterMetadata { topics: BTreeMap::from([(name, topic)]), ..ClusterMetadata::default() }
    }

    #[test]
    fn a_partition_without_a_leader_or_a_replica_is_named() {
        let cluster = ClusterDescription { id: "c".to_owned(), brokers: Vec::new() };
        let of = |leader, isr: &[i32]| health(&cluster, None, &metadata(leader, isr));
        assert!(of(Some(1), &[1, 2]).healthy);
        let lacking = of(Some(1), &[1]);
        assert!(!lacking.healthy && lacking.leaderless_partitions.is_empty());
        let first = || Partition { topic: "t".to_owned(), partition: 0 };
        assert_eq!(lacking.under_replicated_partitions, [first()]);
        assert_eq!(of(None, &[]).leaderless_partitions, [first()]);
        assert!(table(&lacking).render().contains("UNDER-REPLICATED  t-0\n"));
    }
}
