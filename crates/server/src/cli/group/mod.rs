//! `logway group`: consumer groups and how far they are.

mod delete;
mod describe;
mod list;
mod seek;

use clap::Subcommand;

use super::GlobalArgs;
use super::error::CliError;

/// The commands.
#[derive(Debug, Subcommand)]
pub(super) enum GroupCommand {
    List(list::ListArgs),
    Describe(describe::DescribeArgs),
    Seek(seek::SeekArgs),
    Delete(delete::DeleteArgs),
}

/// Carries a command out.
pub(super) async fn run(command: GroupCommand, global: &GlobalArgs) -> Result<(), CliError> {
    match command {
        GroupCommand::List(args) => list::run(args, global).await,
        GroupCommand::Describe(args) => describe::run(args, global).await,
        GroupCommand::Seek(args) => seek::run(args, global).await,
        GroupCommand::Delete(args) => delete::run(args, global).await,
    }
}
