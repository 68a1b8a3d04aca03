//! `logway config set` and `logway config delete`.

use clap::Args;
use logway_client::{Client, ConfigChange, ConfigKind, ConfigResource, ConfigSource};
use schemars::JsonSchema;
use serde::Serialize;

use super::ResourceArgs;
use crate::cli::GlobalArgs;
use crate::cli::error::CliError;
use crate::cli::output::{self, Format};
use crate::cli::setting::{self, parse_assignment, warn_without_effect};

/// Change settings, and leave the others as they are
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  logway config set topic events retention.ms=86400000 segment.bytes=67108864
  logway config set broker default log.retention.ms=86400000
  logway config set group billing consumer.session.timeout.ms=60000
  logway config set client-metrics slow interval.ms=5000 metrics=org.apache.kafka.producer.")]
pub(in crate::cli) struct SetArgs {
    #[command(flatten)]
    resource: ResourceArgs,
    /// New values
    #[arg(required = true, value_name = "KEY=VALUE", value_parser = parse_assignment)]
    settings: Vec<(String, String)>,
    /// Only say whether it could be done
    #[arg(long)]
    dry_run: bool,
}

/// Take settings back to their defaults
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  logway config delete topic events retention.ms")]
pub(in crate::cli) struct DeleteArgs {
    #[command(flatten)]
    resource: ResourceArgs,
    /// Settings
    #[arg(required = true, value_name = "KEY")]
    settings: Vec<String>,
    /// Only say whether it could be done
    #[arg(long)]
    dry_run: bool,
}

/// Whose settings were changed.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Altered {
    /// `topic`, `broker`, `group` or `client-metrics`
    kind: &'static str,
    /// Empty for what all brokers share
    name: String,
    /// `changed`, `unchanged` if nothing of what was to be deleted was set, or `possible` with `--dry-run`
    status: &'static str,
}

pub(super) async fn set(args: SetArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let set = |(name, value)| ConfigChange::Set { name, value };
    let changes: Vec<ConfigChange> = args.settings.into_iter().map(set).collect();
    alter(args.resource, changes, args.dry_run, global).await
}

pub(super) async fn delete(args: DeleteArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let delete = |name| ConfigChange::Delete { name };
    let changes = args.settings.into_iter().map(delete).collect();
    alter(args.resource, changes, args.dry_run, global).await
}

async fn alter(
    resource: ResourceArgs,
    changes: Vec<ConfigChange>,
    dry_run: bool,
    global: &GlobalArgs,
) -> Result<(), CliError> {
    let resource = resource.resource()?;
    let client = global.brokers.client()?;
    let unset = unset(&client, &resource, &changes).await;
    setting::alter(&client, &resource, &changes, dry_run).await?;
    for name in &unset {
        eprintln!("{name} was not set for {resource}");
    }
    let status = match dry_run {
        _ if unset.len() == changes.len() => {
            eprintln!("nothing was changed in the settings of {resource}");
            "unchanged"
        }
        true => {
            eprintln!("the settings of {resource} can be changed so; nothing was changed");
            "possible"
        }
        false => {
            eprintln!("changed the settings of {resource}");
            let set = changes.iter().filter_map(|change| match change {
                ConfigChange::Set { name, .. } => Some(name.as_str()),
                ConfigChange::Delete { .. } => None,
            });
            warn_without_effect(&client, &resource, set).await;
            "changed"
        }
    };
    match global.format {
        Format::Json => {
            let (kind, name) = (resource.kind.name(), resource.name);
            output::print_json(&Altered { kind, name, status })
        }
        Format::Text => Ok(()),
    }
}

/// What is to be deleted and is not there: brokers take that in silence, whatever the name.
async fn unset<'a>(
    client: &Client,
    resource: &ConfigResource,
    changes: &'a [ConfigChange],
) -> Vec<&'a str> {
    let deleted = changes.iter().filter_map(|change| match change {
        ConfigChange::Delete { name } => Some(name.as_str()),
        ConfigChange::Set { .. } => None,
    });
    let deleted: Vec<&str> = deleted.collect();
    if deleted.is_empty() {
        return deleted;
    }
    // Who may not look at the settings may be allowed to change them.
    let Ok(present) = client.explain_configs(resource, &deleted).await else { return Vec::new() };
    let own = match resource.kind {
        ConfigKind::Topic => ConfigSource::Topic,
        ConfigKind::Broker if resource.name.is_empty() => ConfigSource::AllBrokers,
        ConfigKind::Broker => ConfigSource::Broker,
        ConfigKind::Group => ConfigSource::Group,
        ConfigKind::ClientMetrics => ConfigSource::ClientMetrics,
    };
    let is_set = |name: &str| present.iter().any(|entry| entry.name == name && entry.source == own);
    deleted.into_iter().filter(|name| !is_set(name)).collect()
}
