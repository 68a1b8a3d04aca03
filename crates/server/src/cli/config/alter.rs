//! `logway config set` and `logway config delete`.

use clap::Args;
use logway_client::ConfigChange;
use schemars::JsonSchema;
use serde::Serialize;

use super::ResourceArgs;
use crate::cli::GlobalArgs;
use crate::cli::deletion::Deletions;
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
    /// `changed`, or `possible` with `--dry-run`; `unchanged` if all that was to be deleted is not set
    status: &'static str,
}

/// Whose settings were deleted, and which there was nothing to delete of.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Deleted {
    #[serde(flatten)]
    altered: Altered,
    /// Those that have their defaults
    not_set: Vec<String>,
    /// Those that do not exist, where the broker lists all that do
    unknown: Vec<String>,
}

pub(super) async fn set(args: SetArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let set = |(name, value)| ConfigChange::Set { name, value };
    let changes: Vec<ConfigChange> = args.settings.into_iter().map(set).collect();
    let (altered, _) = alter(args.resource, changes, args.dry_run, global).await?;
    match global.format {
        Format::Json => output::print_json(&altered),
        Format::Text => Ok(()),
    }
}

pub(super) async fn delete(args: DeleteArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let delete = |name| ConfigChange::Delete { name };
    let changes = args.settings.into_iter().map(delete).collect();
    let (altered, deletions) = alter(args.resource, changes, args.dry_run, global).await?;
    let Deletions { not_set, unknown } = deletions;
    match global.format {
        Format::Json => output::print_json(&Deleted { altered, not_set, unknown }),
        Format::Text => Ok(()),
    }
}

async fn alter(
    resource: ResourceArgs,
    changes: Vec<ConfigChange>,
    dry_run: bool,
    global: &GlobalArgs,
) -> Result<(Altered, Deletions), CliError> {
    let resource = resource.resource()?;
    let client = global.client()?;
    let deletions = setting::alter(&client, &resource, &changes, dry_run).await?;
    let status = match (dry_run, deletions.leave_any_of(&changes)) {
        (true, _) => {
            eprintln!("the settings of {resource} can be changed so; nothing was changed");
            "possible"
        }
        (false, false) => "unchanged",
        (false, true) => {
            let set = changes.iter().filter_map(|change| match change {
                ConfigChange::Set { name, .. }
                | ConfigChange::Append { name, .. }
                | ConfigChange::Subtract { name, .. } => Some(name.as_str()),
                ConfigChange::Delete { .. } => None,
            });
            warn_without_effect(&client, &resource, set).await;
            "changed"
        }
    };
    let (kind, name) = (resource.kind.name(), resource.name);
    Ok((Altered { kind, name, status }, deletions))
}
