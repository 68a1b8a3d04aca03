//! `logway topic alter`.

use clap::Args;
use logway_client::{ConfigChange, ConfigResource};
use logway_model::TopicName;
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::GlobalArgs;
use crate::cli::error::CliError;
use crate::cli::output::{self, Format};
use crate::cli::setting::{self, parse_assignment, warn_without_effect};

/// Change a topic's settings, or add partitions
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  logway topic alter events -c retention.ms=86400000 --delete-config flush.ms
  logway topic alter events -p 12")]
pub(in crate::cli) struct AlterArgs {
    /// Name of the topic
    name: TopicName,
    /// Setting to change; repeatable
    #[arg(short, long = "config", value_name = "KEY=VALUE", value_parser = parse_assignment)]
    configs: Vec<(String, String)>,
    /// Setting to take back to its default; repeatable
    #[arg(long = "delete-config", value_name = "KEY")]
    delete_configs: Vec<String>,
    /// Partitions that the topic is to have
    #[arg(short, long, value_parser = clap::value_parser!(i32).range(1..))]
    partitions: Option<i32>,
}

/// The topic, when all that was asked for is done.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Altered {
    #[schemars(with = "String")]
    topic: TopicName,
    /// Partitions that it has now; `null` if `-p` was not given
    partition_count: Option<i32>,
    /// `changed`, or `unchanged` if there was only to delete what is not set
    status: &'static str,
}

impl AlterArgs {
    /// The topic.
    pub(super) fn name(&self) -> &TopicName {
        &self.name
    }
}

pub(super) async fn run(args: AlterArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let configs = args.configs.clone();
    let set = configs.into_iter().map(|(name, value)| ConfigChange::Set { name, value });
    let delete = args.delete_configs.into_iter().map(|name| ConfigChange::Delete { name });
    let changes: Vec<ConfigChange> = set.chain(delete).collect();
    if changes.is_empty() && args.partitions.is_none() {
        let message = "nothing to change: use -c KEY=VALUE, --delete-config KEY or -p PARTITIONS";
        return Err(CliError::Usage(message.to_owned()));
    }
    let client = global.client()?;
    let mut is_changed = false;
    if !changes.is_empty() {
        let resource = ConfigResource::topic(&args.name);
        let deletions = setting::alter(&client, &resource, &changes, false).await?;
        is_changed = deletions.leave_any_of(&changes);
        let names = args.configs.iter().map(|(name, _)| name.as_str());
        warn_without_effect(&client, &resource, names).await;
    }
    if let Some(partitions) = args.partitions {
        client.create_partitions(&args.name, partitions).await?;
        eprintln!("topic '{}' has {partitions} partitions", args.name);
        is_changed = true;
    }
    if global.format == Format::Json {
        let (topic, partition_count) = (args.name, args.partitions);
        let status = if is_changed { "changed" } else { "unchanged" };
        output::print_json(&Altered { topic, partition_count, status })?;
    }
    Ok(())
}
