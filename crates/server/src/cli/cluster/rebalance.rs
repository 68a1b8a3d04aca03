//! `logway cluster rebalance`.

use std::collections::BTreeMap;

use clap::Args;
use logway_metadata::balance::{Goal, Placed, Step, plan};
use logway_model::{BrokerId, TopicName};
use schemars::JsonSchema;
use serde::Serialize;

use super::survey::{self, Move, Survey};
use crate::cli::GlobalArgs;
use crate::cli::error::CliError;
use crate::cli::output::{self, Format, Table};
use crate::cli::quantity;

/// Even out replicas, bytes and leaders over nodes and racks, or show what that would move
///
/// Nodes get as many replicas as others, about as many bytes, and are the preferred leader of as many partitions. Replicas
/// of a partition are on as many racks as there are. As little as possible is copied. With --replication-factor topics
/// also get more replicas, or fewer.
///
/// The cluster does it by itself, under the bound of 'logway.replica.catch.up.max.bytes.per.second'. This command may end
/// meanwhile; 'logway cluster moves' shows what is on its way, and cancels it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  logway cluster rebalance                    show what it would move, and how long that takes
  logway cluster rebalance --yes --wait      do it, and wait until it is done
  logway cluster rebalance --topic orders --replication-factor 3 --yes")]
pub(in crate::cli) struct RebalanceArgs {
    /// Do it, instead of showing what it would do
    #[arg(short, long)]
    yes: bool,
    /// Wait until everything is moved
    #[arg(long, requires = "yes")]
    wait: bool,
    /// Only this topic; repeatable
    #[arg(short, long = "topic", value_name = "TOPIC")]
    topics: Vec<TopicName>,
    /// Replicas that each partition of these topics is to have
    #[arg(long, value_name = "COUNT", requires = "topics",
        value_parser = clap::value_parser!(u16).range(1..))]
    replication_factor: Option<u16>,
}

/// What is moved, or would be.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Rebalance {
    /// Whether it was begun
    begun: bool,
    /// To be copied, at the present sizes
    bytes: u64,
    /// How long that takes at the bound in force
    seconds: u64,
    moves: Vec<Move>,
    /// What nodes have, and are going to have
    nodes: Vec<NodeLoad>,
}

/// What a node has now and afterwards, of the topics that this is about.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, JsonSchema)]
struct NodeLoad {
    node: i32,
    replicas: usize,
    replicas_after: usize,
    /// Partitions whose preferred leader it is
    leads: usize,
    leads_after: usize,
    bytes: u64,
    bytes_after: u64,
}

pub(super) async fn run(args: RebalanceArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let client = global.client()?;
    let survey = Survey::of(&client).await?;
    let mut placed = survey.placed();
    for topic in &args.topics {
        if !placed.iter().any(|it| it.partition.topic == *topic) {
            return Err(CliError::Input(format!("there is no topic '{topic}'")));
        }
    }
    placed.retain(|it| args.topics.is_empty() || args.topics.contains(&it.partition.topic));
    let factor = args.replication_factor.map(usize::from);
    let factors = args.topics.iter().filter_map(|topic| Some((topic.clone(), factor?)));
    let goal = Goal { balances: true, factors: factors.collect(), ..Goal::default() };
    let steps = plan(&survey.holders(), &placed, &goal).map_err(survey::too_few_nodes)?;
    let rate = survey::catch_up_rate(&client, &survey).await;
    let mut rebalance = Rebalance {
        begun: false,
        bytes: steps.iter().map(|step| step.bytes).sum(),
        seconds: survey.seconds(&steps, rate),
        moves: steps.iter().map(Move::of).collect(),
        nodes: loads(&placed, &steps),
    };
    if args.yes && !steps.is_empty() {
        survey::begin(&client, &steps).await?;
        rebalance.begun = true;
        if args.wait {
            let is_meant = |name: &_| steps.iter().any(|step| step.partition == *name);
            survey::wait(&client, |it| is_meant(&it.partition)).await?;
            client.elect_preferred_leaders(steps.iter().map(|it| it.partition.clone())).await?;
        }
    }
    match global.format {
        Format::Json => output::print_json(&rebalance)?,
        Format::Text => output::print(&text(&rebalance))?,
    }
    match (rebalance.moves.is_empty(), args.yes, args.wait) {
        (true, ..) => eprintln!("nothing is to be moved"),
        (false, false, _) => eprintln!("nothing was done: to do it, say --yes"),
        (false, true, false) => eprintln!("see 'logway cluster moves --wait'"),
        (false, true, true) => {}
    }
    Ok(())
}

fn loads(placed: &[Placed], steps: &[Step]) -> Vec<NodeLoad> {
    let mut loads: BTreeMap<BrokerId, NodeLoad> = BTreeMap::new();
    let after: BTreeMap<_, _> = steps.iter().map(|step| (&step.partition, &step.to)).collect();
    for it in placed {
        for (place, id) in it.replicas.iter().enumerate() {
            let load = loads.entry(*id).or_default();
            load.replicas += 1;
            load.leads += usize::from(place == 0);
            load.bytes += it.bytes;
        }
        let replicas = after.get(&it.partition).map_or(&it.replicas, |to| *to);
        for (place, id) in replicas.iter().enumerate() {
            let load = loads.entry(*id).or_default();
            load.replicas_after += 1;
            load.leads_after += usize::from(place == 0);
            load.bytes_after += it.bytes;
        }
    }
    loads.into_iter().map(|(id, load)| NodeLoad { node: id.0, ..load }).collect()
}

fn text(rebalance: &Rebalance) -> String {
    let mut nodes = Table::new(&["NODE", "REPLICAS", "LEADS", "BYTES"]);
    for load in &rebalance.nodes {
        let numbers = |now: usize, then: usize| format!("{now} -> {then}");
        let (now, then) = (quantity::bytes(load.bytes), quantity::bytes(load.bytes_after));
        nodes.row([
            load.node.to_string(),
            numbers(load.replicas, load.replicas_after),
            numbers(load.leads, load.leads_after),
            format!("{now} -> {then}"),
        ]);
    }
    let (bytes, seconds) = (quantity::bytes(rebalance.bytes), rebalance.seconds);
    let summary = format!("to copy {bytes}, in about {seconds} s");
    match rebalance.moves.is_empty() {
        true => nodes.render(),
        false => format!("{}\n{}\n{summary}\n", nodes.render(), survey::text(&rebalance.moves)),
    }
}

#[cfg(test)]
mod tests {
    use logway_model::{PartitionId, TopicPartition};

    use super::*;

    #[test]
    fn the_text_shows_what_nodes_get_and_what_it_takes() {
        let topic = TopicName::new("t").expect("a name");
        let partition = TopicPartition::new(topic, PartitionId(0));
        let from = vec![BrokerId(1)];
        let placed =
            [Placed { partition: partition.clone(), replicas: from.clone(), bytes: 2_048 }];
        let steps = [Step { partition, from, to: vec![BrokerId(2)], bytes: 2_048 }];
        let rebalance = Rebalance {
            begun: false,
            bytes: 2_048,
            seconds: 1,
            moves: steps.iter().map(Move::of).collect(),
            nodes: loads(&placed, &steps),
        };
        let expected = "\
NODE  REPLICAS  LEADS   BYTES
1     1 -> 0    1 -> 0  2.0 KiB -> 0 B
2     0 -> 1    0 -> 1  0 B -> 2.0 KiB

PARTITION  FROM  TO  BYTES
t-0        1     2   2.0 KiB

to copy 2.0 KiB, in about 1 s
";
        assert_eq!(text(&rebalance), expected);
    }
}
