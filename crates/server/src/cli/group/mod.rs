//! `logway group`: consumer groups and how far they are.

mod delete;
mod describe;
mod list;
mod seek;

use clap::Subcommand;

use super::GlobalArgs;
use super::error::CliError;
use super::hint::Subject;
use super::shapes::Shape;

/// The commands.
#[derive(Debug, Subcommand)]
pub(super) enum GroupCommand {
    List(list::ListArgs),
    Describe(describe::DescribeArgs),
    Seek(seek::SeekArgs),
    Delete(delete::DeleteArgs),
}

impl GroupCommand {
    /// What a failure would be about.
    pub(super) fn subject(&self) -> Subject {
        let group = match self {
            GroupCommand::Seek(args) => Some(args.group()),
            GroupCommand::Delete(args) => args.only_group(),
            GroupCommand::List(_) | GroupCommand::Describe(_) => None,
        };
        Subject { group: group.map(str::to_owned), ..Subject::default() }
    }
}

/// What the commands print as JSON.
pub(super) fn shapes() -> Vec<Shape> {
    vec![
        Shape::document::<Vec<list::Row>>("group list"),
        Shape::document::<Vec<describe::GroupLag>>("group describe"),
        Shape::lines::<Vec<describe::GroupLag>>("group describe --watch"),
        Shape::document::<Vec<seek::Row>>("group seek"),
        Shape::document::<Vec<delete::Row>>("group delete"),
    ]
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
