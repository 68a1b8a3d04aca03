//! `logway cluster`: the cluster as a whole.

mod health;
mod info;

use clap::Subcommand;

use super::GlobalArgs;
use super::error::CliError;

/// The commands.
#[derive(Debug, Subcommand)]
pub(super) enum ClusterCommand {
    Info(info::InfoArgs),
    Health(health::HealthArgs),
}

/// Carries a command out.
pub(super) async fn run(command: ClusterCommand, global: &GlobalArgs) -> Result<(), CliError> {
    match command {
        ClusterCommand::Info(args) => info::run(args, global).await,
        ClusterCommand::Health(args) => health::run(args, global).await,
    }
}
