//! `logway txn`: transactions, as their coordinators know them, and as the logs of partitions do.

mod abort;
mod describe;
mod find_hanging;
mod list;
mod open_row;

use clap::Subcommand;

use super::GlobalArgs;
use super::error::CliError;
use super::shapes::Shape;

/// The commands.
#[derive(Debug, Subcommand)]
pub(super) enum TxnCommand {
    List(list::ListArgs),
    Describe(describe::DescribeArgs),
    FindHanging(find_hanging::FindHangingArgs),
    Abort(abort::AbortArgs),
}

/// What the commands print as JSON.
pub(super) fn shapes() -> Vec<Shape> {
    vec![
        Shape::document::<Vec<list::Row>>("txn list"),
        Shape::document::<Vec<describe::Described>>("txn describe"),
        Shape::document::<Vec<open_row::OpenRow>>("txn find-hanging"),
        Shape::document::<abort::Aborted>("txn abort"),
    ]
}

/// Carries a command out.
pub(super) async fn run(command: TxnCommand, global: &GlobalArgs) -> Result<(), CliError> {
    match command {
        TxnCommand::List(args) => list::run(args, global).await,
        TxnCommand::Describe(args) => describe::run(args, global).await,
        TxnCommand::FindHanging(args) => find_hanging::run(args, global).await,
        TxnCommand::Abort(args) => abort::run(args, global).await,
    }
}
