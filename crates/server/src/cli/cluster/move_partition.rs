//! `logway cluster move`.

use std::time::Duration;

use clap::Args;
use logway_client::Client;
use logway_metadata::balance::{Placed, Step};
use logway_model::{BrokerId, PartitionId, TopicName, TopicPartition};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::survey::{self, Move, Survey, numbers};
use crate::cli::GlobalArgs;
use crate::cli::error::CliError;
use crate::cli::output::{self, Format};

/// A broker shows what has arrived within this time.
const SETTLES_MAX: Duration = Duration::from_secs(10);

const LOOK_INTERVAL: Duration = Duration::from_millis(100);

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
        check_arrived(&step, &settled(&client, &step).await?)?;
    }
    let begun = Move::of(&step);
    match global.format {
        Format::Json => output::print_json(&Begun(begun)),
        Format::Text => output::print(&survey::text(&[begun])),
    }
}

/// The partitions, once the one that was moved is not on both its old and its new nodes any more: a broker may know that nothing is on its way,
/// and still be about to show it.
async fn settled(client: &Client, step: &Step) -> Result<Vec<Placed>, CliError> {
    let deadline = Instant::now() + SETTLES_MAX;
    loop {
        let placed = Survey::of_ongoing(client).await?.placed();
        let known = placed.iter().find(|it| it.partition == step.partition);
        let is_between = known.is_some_and(|known| is_between(step, &known.replicas));
        if !is_between || Instant::now() >= deadline {
            return Ok(placed);
        }
        sleep(LOOK_INTERVAL).await;
    }
}

/// Whether a partition has all replicas that it is to have, and some that it had.
fn is_between(step: &Step, now: &[BrokerId]) -> bool {
    let is_known = |id: &BrokerId| step.to.contains(id) || step.from.contains(id);
    now.len() > step.to.len()
        && now != step.from
        && now.iter().all(is_known)
        && step.to.iter().all(|id| now.contains(id))
}

/// Fails if the partition is not where it was to go: somebody may have cancelled the move, or begun another one.
fn check_arrived(step: &Step, placed: &[Placed]) -> Result<(), CliError> {
    let name = &step.partition;
    let Some(now) = placed.iter().find(|it| it.partition == *name) else {
        return Err(CliError::Input(format!("{name} is gone: somebody has deleted the topic")));
    };
    if now.replicas == step.to {
        return Ok(());
    }
    let is_back = now.replicas == step.from;
    let (now, to) = (numbers(&now.replicas), numbers(&step.to));
    let (now, to) = (output::list(&now), output::list(&to));
    Err(CliError::Input(match is_back {
        true => format!("the move of {name} was cancelled by somebody else: it stays on {now}"),
        false => {
            format!("{name} is on {now} and not on {to}: somebody else has moved it meanwhile")
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_on_old_and_new_nodes_is_not_settled() {
        let ids = |ids: &[i32]| ids.iter().copied().map(BrokerId).collect::<Vec<_>>();
        let partition = TopicPartition::new(TopicName::new("t").expect("a name"), PartitionId(0));
        let step = Step { partition, from: ids(&[1, 2]), to: ids(&[3, 2]), bytes: 0 };
        assert!(is_between(&step, &ids(&[3, 2, 1])));
        for settled in [&[3, 2][..], &[1, 2], &[3, 2, 4], &[3, 1]] {
            assert!(!is_between(&step, &ids(settled)), "{settled:?}");
        }
    }

    #[test]
    fn a_move_that_somebody_else_has_ended_is_told() {
        let ids = |ids: &[i32]| ids.iter().copied().map(BrokerId).collect::<Vec<_>>();
        let partition = TopicPartition::new(TopicName::new("t").expect("a name"), PartitionId(0));
        let (from, to) = (ids(&[1, 2]), ids(&[2, 3]));
        let step = Step { partition: partition.clone(), from, to, bytes: 0 };
        let end = |at: &[i32]| {
            let (partition, replicas) = (partition.clone(), ids(at));
            let placed = [Placed { partition, replicas, bytes: 0 }];
            check_arrived(&step, &placed).err().map(|error| error.to_string())
        };
        assert_eq!(end(&[2, 3]), None);
        let cancelled = "the move of t-0 was cancelled by somebody else: it stays on 1,2";
        assert_eq!(end(&[1, 2]).as_deref(), Some(cancelled));
        let moved = "t-0 is on 4 and not on 2,3: somebody else has moved it meanwhile";
        assert_eq!(end(&[4]).as_deref(), Some(moved));
        let gone = check_arrived(&step, &[]).expect_err("is gone").to_string();
        assert_eq!(gone, "t-0 is gone: somebody has deleted the topic");
    }
}
