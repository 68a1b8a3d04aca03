//! `logway cluster decommission`.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::Args;
use logway_client::Client;
use logway_metadata::balance::{Goal, Step, plan};
use logway_model::BrokerId;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::time::sleep;

use super::drain::{LEAVE, known, set_duty};
use super::survey::{self, Move, Survey};
use crate::cli::GlobalArgs;
use crate::cli::error::CliError;
use crate::cli::output::{self, Format};
use crate::cli::quantity;

/// After a while without the cluster it is asked again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Move everything away from a node and take it out of the cluster, or show what that would do
///
/// The node gets no new replicas, and others lead what it leads. Each partition keeps its number of replicas: other nodes
/// get those of this one, and only when they are in sync it loses its own. When it has none, it leaves the cluster as by
/// 'logway cluster remove'.
///
/// It can be interrupted at any time: the cluster goes on with what was begun, and the same command goes on with the rest.
/// --cancel puts everything back that is not done yet.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  logway cluster decommission 3             show what it would move, and how long that takes
  logway cluster decommission 3 --yes       do it, and wait until the node has left
  logway cluster decommission 3 --cancel    the node stays")]
pub(in crate::cli) struct DecommissionArgs {
    /// Number of the node
    #[arg(value_name = "NODE", value_parser = clap::value_parser!(i32).range(0..))]
    node: i32,
    /// Do it, instead of showing what it would do
    #[arg(short, long)]
    yes: bool,
    /// Let the node stay, and put back what is on its way
    #[arg(long, conflicts_with = "yes")]
    cancel: bool,
}

/// What becomes of a node.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Decommission {
    node: i32,
    /// Whether it has left the cluster
    removed: bool,
    /// Whether it was let stay
    cancelled: bool,
    /// To be copied, at the present sizes
    bytes: u64,
    /// How long that takes at the bound in force
    seconds: u64,
    /// Moves that were not begun before
    moves: Vec<Move>,
}

pub(super) async fn run(args: DecommissionArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let (client, node) = (global.client()?, BrokerId(args.node));
    known(&client, node).await?;
    let done = match args.cancel {
        true => cancel(&client, node).await?,
        false => decommission(&client, node, args.yes).await?,
    };
    match global.format {
        Format::Json => output::print_json(&done)?,
        Format::Text => output::print(&text(&done))?,
    }
    if !args.yes && !args.cancel {
        eprintln!("nothing was done: to do it, say --yes");
    }
    Ok(())
}

async fn decommission(
    client: &Client,
    node: BrokerId,
    is_done: bool,
) -> Result<Decommission, CliError> {
    let survey = Survey::of(client).await?;
    let steps = steps_away_from(node, &survey)?;
    let rate = survey::catch_up_rate(client, &survey).await;
    let mut done = Decommission {
        node: node.0,
        removed: false,
        cancelled: false,
        bytes: steps.iter().map(|step| step.bytes).sum(),
        seconds: survey.seconds(&steps, rate),
        moves: steps.iter().map(Move::of).collect(),
    };
    if is_done {
        set_duty(client, node, Some(LEAVE)).await?;
        empty(client, node).await?;
        client.unregister_broker(node).await?;
        done.removed = true;
    }
    Ok(done)
}

/// Moves everything away, until the node has nothing. What goes wrong meanwhile is told and tried again: nodes may come and
/// go.
async fn empty(client: &Client, node: BrokerId) -> Result<(), CliError> {
    let mut told = String::new();
    loop {
        let failure = match move_away(client, node).await {
            Ok(true) => return Ok(()),
            Ok(false) => continue,
            Err(error) => error,
        };
        survey::tell(&mut told, format!("it is tried again: {failure}"));
        sleep(RETRY_AFTER).await;
    }
}

/// Begins what was not begun yet, and waits for it. Says whether the node has nothing any more.
async fn move_away(client: &Client, node: BrokerId) -> Result<bool, CliError> {
    let survey = Survey::of(client).await?;
    let holds = |replicas: &[BrokerId]| replicas.contains(&node);
    if !survey.state.partitions().any(|(_, known)| holds(&known.replicas)) {
        return Ok(true);
    }
    survey::begin(client, &steps_away_from(node, &survey)?).await?;
    survey::wait(client, |it| holds(&it.replicas)).await?;
    Ok(false)
}

/// The moves that are to be begun: what is on its way already is where it is going to be.
fn steps_away_from(node: BrokerId, survey: &Survey) -> Result<Vec<Step>, CliError> {
    let goal = Goal { leaving: BTreeSet::from([node]), ..Goal::default() };
    let steps = plan(&survey.holders(), &survey.placed(), &goal).map_err(survey::too_few_nodes)?;
    Ok(steps.into_iter().filter(|step| step.from.contains(&node)).collect())
}

async fn cancel(client: &Client, node: BrokerId) -> Result<Decommission, CliError> {
    set_duty(client, node, None).await?;
    let away =
        client.placement().await?.ongoing.into_iter().filter(|it| it.removing.contains(&node));
    let away: Vec<_> = away.map(|it| (it.partition, None)).collect();
    let count = away.len();
    survey::reassign(client, away).await?;
    eprintln!("node {node} stays; {count} moves are cancelled");
    let (node, removed, cancelled) = (node.0, false, true);
    Ok(Decommission { node, removed, cancelled, bytes: 0, seconds: 0, moves: Vec::new() })
}

fn text(done: &Decommission) -> String {
    let Decommission { node, bytes, seconds, .. } = done;
    match (done.removed, done.cancelled) {
        (true, _) => format!("node {node} has left the cluster\n"),
        (_, true) => format!("node {node} stays\n"),
        (false, false) if done.moves.is_empty() => format!("node {node} has nothing to move\n"),
        (false, false) => {
            let bytes = quantity::bytes(*bytes);
            format!("{}\nto copy {bytes}, in about {seconds} s\n", survey::text(&done.moves))
        }
    }
}
