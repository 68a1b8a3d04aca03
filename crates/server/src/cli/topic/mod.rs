//! `logway topic`: what there is to do with topics.

mod alter;
mod create;
mod delete;
mod describe;
mod list;
mod trim;

use std::collections::BTreeSet;

use clap::Subcommand;
use logway_model::{TopicName, TopicPartition};

use super::GlobalArgs;
use super::error::CliError;
use super::hint::Subject;
use super::shapes::Shape;

/// The commands.
#[derive(Debug, Subcommand)]
pub(super) enum TopicCommand {
    Create(create::CreateArgs),
    List(list::ListArgs),
    Describe(describe::DescribeArgs),
    Alter(alter::AlterArgs),
    Delete(delete::DeleteArgs),
    Trim(trim::TrimArgs),
}

impl TopicCommand {
    /// What a failure would be about.
    pub(super) fn subject(&self) -> Subject {
        let topic = match self {
            TopicCommand::Alter(args) => Some(args.name()),
            TopicCommand::Trim(args) => Some(args.name()),
            _ => None,
        };
        Subject { topic: topic.map(ToString::to_string), ..Subject::default() }
    }
}

/// Carries a command out.
pub(super) async fn run(command: TopicCommand, global: &GlobalArgs) -> Result<(), CliError> {
    match command {
        TopicCommand::Create(args) => create::run(args, global).await,
        TopicCommand::List(args) => list::run(args, global).await,
        TopicCommand::Describe(args) => describe::run(args, global).await,
        TopicCommand::Alter(args) => alter::run(args, global).await,
        TopicCommand::Delete(args) => delete::run(args, global).await,
        TopicCommand::Trim(args) => trim::run(args, global).await,
    }
}

/// What the commands print as JSON.
pub(super) fn shapes() -> Vec<Shape> {
    vec![
        Shape::document::<Vec<create::Row>>("topic create"),
        Shape::document::<Vec<list::Row>>("topic list"),
        Shape::document::<Vec<describe::Description>>("topic describe"),
        Shape::document::<alter::Altered>("topic alter"),
        Shape::document::<Vec<delete::Row>>("topic delete"),
        Shape::document::<Vec<trim::Row>>("topic trim"),
    ]
}

/// Names the partitions of one topic.
fn partitions_of(
    topic: &TopicName,
    ids: impl IntoIterator<Item = logway_model::PartitionId>,
) -> BTreeSet<TopicPartition> {
    ids.into_iter().map(|id| TopicPartition::new(topic.clone(), id)).collect()
}
