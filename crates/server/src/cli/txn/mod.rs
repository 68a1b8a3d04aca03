//! `logway txn`: transactions, as their coordinators know them.

mod describe;
mod list;

use clap::Subcommand;

use super::GlobalArgs;
use super::error::CliError;
use super::shapes::Shape;

/// The commands.
#[derive(Debug, Subcommand)]
pub(super) enum TxnCommand {
    List(list::ListArgs),
    Describe(describe::DescribeArgs),
}

/// What the commands print as JSON.
pub(super) fn shapes() -> Vec<Shape> {
    vec![
        Shape::document::<Vec<list::Row>>("txn list"),
        Shape::document::<Vec<describe::Described>>("txn describe"),
    ]
}

/// Carries a command out.
pub(super) async fn run(command: TxnCommand, global: &GlobalArgs) -> Result<(), CliError> {
    match command {
        TxnCommand::List(args) => list::run(args, global).await,
        TxnCommand::Describe(args) => describe::run(args, global).await,
    }
}
