//! `logway cluster`: the cluster as a whole.

mod health;
mod info;
mod remove;
mod safe_to_stop;
mod state;
mod status;
mod token;

use clap::Subcommand;

use super::GlobalArgs;
use super::error::CliError;
use super::shapes::Shape;

/// The commands.
#[derive(Debug, Subcommand)]
pub(super) enum ClusterCommand {
    Info(info::InfoArgs),
    Status(status::StatusArgs),
    Health(health::HealthArgs),
    /// Create, list and revoke join tokens, by which nodes are admitted to a secure cluster
    #[command(subcommand)]
    Token(token::TokenCommand),
    Remove(remove::RemoveArgs),
}

/// What the commands print as JSON.
pub(super) fn shapes() -> Vec<Shape> {
    vec![
        Shape::document::<info::Info>("cluster info"),
        Shape::document::<status::Status>("cluster status"),
        Shape::document::<health::Health>("cluster health"),
        Shape::document::<Vec<token::Row>>("cluster token list"),
        Shape::document::<token::Row>("cluster token create"),
        Shape::document::<token::Revoked>("cluster token revoke"),
        Shape::document::<remove::Removal>("cluster remove"),
    ]
}

/// Carries a command out.
pub(super) async fn run(command: ClusterCommand, global: &GlobalArgs) -> Result<(), CliError> {
    match command {
        ClusterCommand::Info(args) => info::run(args, global).await,
        ClusterCommand::Status(args) => status::run(args, global).await,
        ClusterCommand::Health(args) => health::run(args, global).await,
        ClusterCommand::Token(command) => token::run(command, global).await,
        ClusterCommand::Remove(args) => remove::run(args, global).await,
    }
}
