//! `logway cluster remove`.

use clap::Args;
use logway_model::BrokerId;
use schemars::JsonSchema;
use serde::Serialize;

use super::safe_to_stop::{LeftBehind, Stops};
use super::state::{ClusterState, NodeState, Partition, unknown_node};
use super::status::{first_of, in_sync_min};
use crate::cli::GlobalArgs;
use crate::cli::error::CliError;
use crate::cli::output::{self, Format, Table, yes_or_no};

/// Take a node out of the cluster for good, or show what that would do
///
/// The node may be dead or alive. It leaves the quorum, where another one votes in its place, and what it leads others
/// lead. It stays among the replicas of its partitions, which go on with a replica less. Its data directory is not admitted
/// again: a node that still runs, or is started again, ends with a message that says so.
///
/// A partition of which no other replica has all records would be offline. So nothing is done then without --force.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  logway cluster remove 3           show what it would do
  logway cluster remove 3 --yes     do it")]
pub(in crate::cli) struct RemoveArgs {
    /// Number of the node
    #[arg(value_name = "NODE", value_parser = clap::value_parser!(i32).range(0..))]
    node: i32,
    /// Do it, instead of showing what it would do
    #[arg(short, long)]
    yes: bool,
    /// Also if partitions go offline: what only this node has of them is given up
    #[arg(long)]
    force: bool,
}

/// What the removal of a node does, or would do.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Removal {
    #[schemars(with = "i32")]
    node: BrokerId,
    /// Whether it was done
    removed: bool,
    /// What the node did before
    state: NodeState,
    /// Whether it voted in the quorum before; `null` from brokers that do not tell
    voter: Option<bool>,
    /// No other replica has all their records
    offline_partitions: Vec<Partition>,
    /// With fewer replicas in sync than `min.insync.replicas`: they take no records with acks=all
    under_min_isr_partitions: Vec<Partition>,
    /// The others that have a replica on the node
    under_replicated_partitions: Vec<Partition>,
    /// Why it is not done; `null` if it can be, or was done all the same
    refused_because: Option<String>,
}

pub(super) async fn run(args: RemoveArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let client = global.client()?;
    let state = ClusterState::of(&client).await?;
    let stops = Stops::of(&state, &in_sync_min(&client, &state).await?);
    let mut removal = Removal::plan(BrokerId(args.node), &state, &stops, args.force)?;
    if args.yes && removal.refused_because.is_none() {
        client.unregister_broker(removal.node).await?;
        removal.removed = true;
    }
    match global.format {
        Format::Json => output::print_json(&removal)?,
        Format::Text => output::print(&text(&removal).render())?,
    }
    match (&removal.refused_because, removal.removed) {
        (Some(reason), _) => {
            let refused = CliError::Input(format!("node {} is not removed: {reason}", args.node));
            Err(match stops.without_quorum(removal.node) {
                Some(_) => refused,
                None => refused.with_hint(
                    "if the node can be started, delete or copy those topics first; to lose what it alone has, say --force",
                ),
            })
        }
        (None, true) => {
            eprintln!("removed node {}", args.node);
            Ok(())
        }
        (None, false) => {
            eprintln!("nothing was done: to do it, say --yes");
            Ok(())
        }
    }
}

impl Removal {
    fn plan(
        node: BrokerId,
        state: &ClusterState,
        stops: &Stops,
        is_forced: bool,
    ) -> Result<Removal, CliError> {
        let is_member = state.member(node).is_some();
        if state.broker(node).is_none() && !is_member {
            return Err(unknown_node(node));
        }
        let LeftBehind { offline, under_min_isr, under_replicated } = stops.left_behind(node);
        let would_be_offline = || {
            let first = offline.first().filter(|_| !is_forced)?;
            Some(format!("{first} would be offline, because no other replica has all its records"))
        };
        let refused_because = stops.without_quorum(node).or_else(would_be_offline);
        Ok(Removal {
            node,
            removed: false,
            state: state.node_state(node),
            voter: state.votes(node),
            offline_partitions: offline,
            under_min_isr_partitions: under_min_isr,
            under_replicated_partitions: under_replicated,
            refused_because,
        })
    }
}

fn text(removal: &Removal) -> Table {
    let mut table = Table::without_names();
    let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
    row("NODE", removal.node.to_string());
    row("STATE", removal.state.name().to_owned());
    row("VOTER", removal.voter.map(yes_or_no).unwrap_or_default());
    row("OFFLINE", first_of(&removal.offline_partitions));
    row("UNDER MIN ISR", first_of(&removal.under_min_isr_partitions));
    row("UNDER-REPLICATED", first_of(&removal.under_replicated_partitions));
    row("REMOVED", yes_or_no(removal.removed));
    table
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::state::tests::state;
    use super::*;

    fn plan(state: &ClusterState, node: i32, is_forced: bool) -> Result<Removal, CliError> {
        Removal::plan(BrokerId(node), state, &Stops::of(state, &BTreeMap::new()), is_forced)
    }

    #[test]
    fn the_text_shows_what_becomes_of_partitions() {
        let removal = plan(&state(&[(&[1, 2], &[1, 2]), (&[2, 3], &[3, 2])]), 2, false);
        let removal = removal.expect("is a node");
        assert_eq!(removal.refused_because, None);
        let expected = "\
NODE              2
STATE             active
VOTER             yes
OFFLINE           0
UNDER MIN ISR     0
UNDER-REPLICATED  2: t-0 t-1
REMOVED           no
";
        assert_eq!(text(&removal).render(), expected);
    }

    #[test]
    fn what_only_this_node_has_is_given_up_by_force_alone() {
        let state = state(&[(&[1], &[1]), (&[2], &[2])]);
        let refused = plan(&state, 2, false).expect("is a node").refused_because;
        let expected = "t-1 would be offline, because no other replica has all its records";
        assert_eq!(refused.as_deref(), Some(expected));
        assert_eq!(plan(&state, 2, true).expect("is a node").refused_because, None);
        assert_eq!(plan(&state, 3, false).expect("is a node").refused_because, None);
    }

    #[test]
    fn the_quorum_keeps_a_majority_whatever_is_forced() {
        let mut state = state(&[]);
        state.silent.insert(BrokerId(3));
        let refused = plan(&state, 2, true).expect("is a node").refused_because;
        let expected =
            "of the 2 voters that would be left, the quorum needs 2 alive and would have 1";
        assert_eq!(refused.as_deref(), Some(expected));
        assert_eq!(plan(&state, 3, false).expect("is a node").refused_because, None);
        plan(&state, 4, false).expect_err("is no node");
        state.quorum.as_mut().expect("it has one").voters.truncate(1);
        let refused = plan(&state, 1, true).expect("is a node").refused_because;
        assert_eq!(refused.as_deref(), Some("it is the only voter"));
    }
}
