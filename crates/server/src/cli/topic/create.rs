//! `logway topic create`.

use std::collections::BTreeSet;

use clap::Args;
use logway_client::{Client, ClientError, ConfigResource, CreatedTopic, MissingTopic, NewTopic};
use logway_model::{ErrorCode, TopicName};
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::GlobalArgs;
use crate::cli::error::CliError;
use crate::cli::output::{self, Format, Table};
use crate::cli::setting::{parse_assignment, warn_without_effect};

/// Create topics
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  logway topic create events
  logway topic create orders payments -p 6 -r 3 -c retention.ms=604800000")]
pub(in crate::cli) struct CreateArgs {
    /// Names of the topics
    #[arg(required = true, value_name = "NAME")]
    names: Vec<TopicName>,
    /// Partitions of each topic [default: the broker's]
    #[arg(short, long, value_parser = clap::value_parser!(i32).range(1..))]
    partitions: Option<i32>,
    /// Replicas of each partition [default: the broker's]
    #[arg(short, long, value_parser = clap::value_parser!(i16).range(1..))]
    replicas: Option<i16>,
    /// Setting of the topics; repeatable
    #[arg(short, long = "config", value_name = "KEY=VALUE", value_parser = parse_assignment)]
    configs: Vec<(String, String)>,
    /// Be content with a topic that exists already
    #[arg(long)]
    if_not_exists: bool,
    /// Only say whether it could be done
    #[arg(long)]
    dry_run: bool,
}

const CREATED: &str = "created";

/// A topic that is there now, or could be. Those that could not be created are told of on stderr.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Row {
    #[schemars(with = "String")]
    topic: TopicName,
    /// `null` if it is not known
    id: Option<String>,
    /// `null` if it is not known
    partition_count: Option<i32>,
    /// Replicas of each partition; `null` if it is not known
    replica_count: Option<i16>,
    /// `created`, `exists` (with `--if-not-exists`) or `possible` (with `--dry-run`)
    status: &'static str,
}

pub(super) async fn run(args: CreateArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let client = global.client()?;
    let new_topics: Vec<NewTopic> = args.names.iter().map(|name| new_topic(name, &args)).collect();
    let mut rows = Vec::new();
    let mut errors = Vec::new();
    for (name, outcome) in client.create_topics(&new_topics, args.dry_run).await? {
        match outcome {
            Ok(created) => rows.push(created_row(name, &created, args.dry_run)),
            Err(error) if args.if_not_exists && exists(&error) => {
                let (id, partition_count, replica_count) = (None, None, None);
                let status = "exists";
                rows.push(Row { topic: name, id, partition_count, replica_count, status });
            }
            Err(error) => errors.push(error),
        }
    }
    if !args.dry_run {
        await_created(&client, &rows).await?;
        // All of them have got the same settings.
        if let Some(row) = rows.iter().find(|row| row.status == CREATED) {
            let names = args.configs.iter().map(|(name, _)| name.as_str());
            warn_without_effect(&client, &ConfigResource::topic(&row.topic), names).await;
        }
    }
    match global.format {
        Format::Json => output::print_json(&rows)?,
        Format::Text if rows.is_empty() => {}
        Format::Text => output::print(&table(&rows).render())?,
    }
    CliError::collect(errors)
}

fn new_topic(name: &TopicName, args: &CreateArgs) -> NewTopic {
    NewTopic {
        name: name.clone(),
        partitions: args.partitions,
        replication_factor: args.replicas,
        configs: args.configs.clone(),
    }
}

fn created_row(name: TopicName, created: &CreatedTopic, dry_run: bool) -> Row {
    Row {
        topic: name,
        id: (!created.id.0.is_zero()).then(|| created.id.to_string()),
        partition_count: created.partitions,
        replica_count: created.replication_factor,
        status: if dry_run { "possible" } else { CREATED },
    }
}

fn exists(error: &ClientError) -> bool {
    error.code() == Some(ErrorCode::TopicAlreadyExists)
}

/// A broker may answer before it can be asked about the topic: whatever command comes next should
/// find it.
async fn await_created(client: &Client, rows: &[Row]) -> Result<(), CliError> {
    let names: BTreeSet<TopicName> = rows.iter().map(|row| row.topic.clone()).collect();
    client.await_topics(&names, MissingTopic::Await).await?;
    Ok(())
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(&["NAME", "PARTITIONS", "REPLICAS", "STATUS"]);
    for row in rows {
        table.row([
            row.topic.to_string(),
            row.partition_count.map(|n| n.to_string()).unwrap_or_default(),
            row.replica_count.map(|n| n.to_string()).unwrap_or_default(),
            row.status.to_owned(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_shows_what_is_known() {
        let name = |name| TopicName::new(name).expect("a name");
        let row = |topic, partitions, status| Row {
            topic: name(topic),
            id: None,
            partition_count: partitions,
            replica_count: partitions.map(|_| 1),
            status,
        };
        let rows = [row("orders", Some(6), "created"), row("b", None, "exists")];
        let expected = "\
NAME    PARTITIONS  REPLICAS  STATUS
orders  6           1         created
b       -           -         exists
";
        assert_eq!(table(&rows).render(), expected);
    }
}
