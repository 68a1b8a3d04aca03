//! `logway cluster move`.

use clap::Args;
use logway_model::{BrokerId, PartitionId, TopicName, TopicPartition};
use schemars::JsonSchema;
use serde::Serialize;

use super::survey::{self, Move, Survey};
use crate::cli::GlobalArgs;
use crate::cli::error::CliError;
use crate::cli::output::{self, Format};

/// Move one partition to other nodes
///
/// The nodes that are named get it, the preferred leader first, and others lose it once these are in sync. Another move of
/// the same partition takes the place of the first. As many nodes as there are names have a replica then.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  logway cluster move orders 0 --to 4,2,3
  logway cluster move orders 0 --to 4,2,3 --wait     and wait until it is done")]
pub(in crate::cli) struct MoveArgs {
    /// Name of the topic
    topic: TopicName,
    /// Number of the partition
    #[arg(value_parser = clap::value_parser!(i32).range(0..))]
    partition: i32,
    /// Numbers of the nodes that are to have it, the preferred leader first
    #[arg(long, value_name = "NODES", value_delimiter = ',', required = true,
        value_parser = clap::value_parser!(i32).range(0..))]
    to: Vec<i32>,
    /// Wait until it is moved
    #[arg(long)]
    wait: bool,
}

/// What is moved.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
pub(super) struct Begun(Move);

pub(super) async fn run(args: MoveArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let client = global.client()?;
    let survey = Survey::of(&client).await?;
    let partition = TopicPartition::new(args.topic, PartitionId(args.partition));
    let placed = survey.placed().into_iter().find(|it| it.partition == partition);
    let placed = placed.ok_or_else(|| CliError::Input(format!("there is no {partition}")))?;
    let step = placed.step_to(args.to.iter().copied().map(BrokerId).collect());
    survey::begin(&client, std::slice::from_ref(&step)).await?;
    if args.wait {
        survey::wait(&client, |it| it.partition == step.partition).await?;
    }
    let begun = Move::of(&step);
    match global.format {
        Format::Json => output::print_json(&Begun(begun)),
        Format::Text => output::print(&survey::text(&[begun])),
    }
}
