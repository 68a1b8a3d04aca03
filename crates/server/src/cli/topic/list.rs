//! `logway topic list`.

use clap::Args;
use logway_client::{ClusterMetadata, MissingTopic, TopicMetadata, TopicSelection};
use logway_model::TopicName;
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::GlobalArgs;
use crate::cli::error::CliError;
use crate::cli::output::{self, Format, Table};

/// List the topics
#[derive(Debug, Args)]
pub(in crate::cli) struct ListArgs {
    /// Also list topics that the cluster keeps for itself
    #[arg(long)]
    internal: bool,
}

/// A topic.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Row {
    #[schemars(with = "String")]
    topic: TopicName,
    partition_count: usize,
    /// Replicas of each partition
    replica_count: usize,
    /// Whether the cluster keeps it for itself
    internal: bool,
}

pub(super) async fn run(args: ListArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let client = global.client()?;
    let metadata = client.refresh_metadata(TopicSelection::All, MissingTopic::Refuse).await?;
    let rows = rows(&metadata, args.internal);
    match global.format {
        Format::Json => output::print_json(&rows),
        Format::Text => output::print(&table(&rows).render()),
    }
}

fn rows(metadata: &ClusterMetadata, with_internal: bool) -> Vec<Row> {
    let shown = metadata.topics.iter().filter(|(_, topic)| with_internal || !topic.is_internal);
    shown.map(|(name, topic)| row(name, topic)).collect()
}

fn row(name: &TopicName, topic: &TopicMetadata) -> Row {
    Row {
        topic: name.clone(),
        partition_count: topic.partitions.len(),
        replica_count: topic.partitions.first().map_or(0, |partition| partition.replicas.len()),
        internal: topic.is_internal,
    }
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(&["NAME", "PARTITIONS", "REPLICAS"]);
    for row in rows {
        let (partitions, replicas) =
            (row.partition_count.to_string(), row.replica_count.to_string());
        table.row([row.topic.to_string(), partitions, replicas]);
    }
    table
}
