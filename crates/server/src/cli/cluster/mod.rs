//! `logway cluster`: the cluster as a whole.

mod decommission;
mod drain;
mod events;
mod finalize;
mod health;
mod info;
mod move_partition;
mod moves;
mod rebalance;
mod remove;
mod safe_to_stop;
mod state;
mod status;
mod survey;
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
    Events(events::EventsArgs),
    /// Create, list and revoke join tokens, by which nodes are admitted to a secure cluster
    #[command(subcommand)]
    Token(token::TokenCommand),
    Rebalance(rebalance::RebalanceArgs),
    Move(move_partition::MoveArgs),
    Moves(moves::MovesArgs),
    Drain(drain::DrainArgs),
    Undrain(drain::UndrainArgs),
    Decommission(decommission::DecommissionArgs),
    Remove(remove::RemoveArgs),
    Finalize(finalize::FinalizeArgs),
}

/// What the commands print as JSON.
pub(super) fn shapes() -> Vec<Shape> {
    vec![
        Shape::document::<info::Info>("cluster info"),
        Shape::document::<status::Status>("cluster status"),
        Shape::document::<health::Health>("cluster health"),
        Shape::document::<Vec<events::Row>>("cluster events"),
        Shape::document::<Vec<token::Row>>("cluster token list"),
        Shape::document::<token::Row>("cluster token create"),
        Shape::document::<token::Revoked>("cluster token revoke"),
        Shape::document::<rebalance::Rebalance>("cluster rebalance"),
        Shape::document::<move_partition::Begun>("cluster move"),
        Shape::document::<Vec<moves::Row>>("cluster moves"),
        Shape::document::<drain::Drained>("cluster drain"),
        Shape::document::<drain::Drained>("cluster undrain"),
        Shape::document::<decommission::Decommission>("cluster decommission"),
        Shape::document::<remove::Removal>("cluster remove"),
        Shape::document::<finalize::Finalization>("cluster finalize"),
    ]
}

/// Carries a command out.
pub(super) async fn run(command: ClusterCommand, global: &GlobalArgs) -> Result<(), CliError> {
    match command {
        ClusterCommand::Info(args) => info::run(args, global).await,
        ClusterCommand::Status(args) => status::run(args, global).await,
        ClusterCommand::Health(args) => health::run(args, global).await,
        ClusterCommand::Events(args) => events::run(args, global).await,
        ClusterCommand::Token(command) => token::run(command, global).await,
        ClusterCommand::Rebalance(args) => rebalance::run(args, global).await,
        ClusterCommand::Move(args) => move_partition::run(args, global).await,
        ClusterCommand::Moves(args) => moves::run(args, global).await,
        ClusterCommand::Drain(args) => drain::drain(args, global).await,
        ClusterCommand::Undrain(args) => drain::undrain(args, global).await,
        ClusterCommand::Decommission(args) => decommission::run(args, global).await,
        ClusterCommand::Remove(args) => remove::run(args, global).await,
        ClusterCommand::Finalize(args) => finalize::run(args, global).await,
    }
}
