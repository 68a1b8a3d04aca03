//! `logway cluster drain` and `logway cluster undrain`.

use std::time::Duration;

use clap::Args;
use logway_client::{Client, ConfigChange, ConfigKind, ConfigResource};
use logway_metadata::settings::broker::NODE_DUTY_SETTING;
use logway_model::BrokerId;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::state::{ClusterState, Partition, unknown_node};
use super::status::first_of;
use crate::cli::GlobalArgs;
use crate::cli::error::CliError;
use crate::cli::output::{self, Format, Table};

/// Others lead within this time, or somebody wants to know why they do not.
const WAIT_MAX: Duration = Duration::from_secs(10);

const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Have others lead all that a node leads, e.g. to do something to its machine
///
/// The node keeps its replicas and stays in sync. It leads again after 'logway cluster undrain', or after its next start. A
/// stop in good order hands over by itself, so nobody has to drain a node before it.
#[derive(Debug, Args)]
pub(in crate::cli) struct DrainArgs {
    /// Number of the node
    #[arg(value_name = "NODE", value_parser = clap::value_parser!(i32).range(0..))]
    node: i32,
}

/// Let a node lead again
///
/// It leads what it is the first replica of, at once where it is in sync.
#[derive(Debug, Args)]
pub(in crate::cli) struct UndrainArgs {
    /// Number of the node
    #[arg(value_name = "NODE", value_parser = clap::value_parser!(i32).range(0..))]
    node: i32,
}

/// A node that is to lead nothing, or to lead again.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Drained {
    node: i32,
    /// Whether it is to lead nothing
    drained: bool,
    /// Partitions that it leads: after a drain, those of which no other replica is in sync
    leads: Vec<Partition>,
}

pub(super) async fn drain(args: DrainArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let (client, node) = (global.client()?, BrokerId(args.node));
    known(&client, node).await?;
    set_duty(&client, node, Some("follow")).await?;
    let deadline = Instant::now() + WAIT_MAX;
    let mut leads = led_by(&client, node).await?;
    while !leads.is_empty() && Instant::now() < deadline {
        sleep(LOOK_INTERVAL).await;
        leads = led_by(&client, node).await?;
    }
    print(&Drained { node: args.node, drained: true, leads }, global)
}

pub(super) async fn undrain(args: UndrainArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let (client, node) = (global.client()?, BrokerId(args.node));
    let state = known(&client, node).await?;
    set_duty(&client, node, None).await?;
    let is_first = |replicas: &[BrokerId]| replicas.first() == Some(&node);
    let first = state.partitions().filter(|(_, known)| is_first(&known.replicas));
    client.elect_preferred_leaders(first.map(|(name, _)| name)).await?;
    let leads = led_by(&client, node).await?;
    print(&Drained { node: args.node, drained: false, leads }, global)
}

/// The duty of a node that is decommissioned.
pub(super) const LEAVE: &str = "leave";

/// Says what a node is there for; `None` is everything.
pub(super) async fn set_duty(
    client: &Client,
    node: BrokerId,
    duty: Option<&str>,
) -> Result<(), CliError> {
    let resource = ConfigResource { kind: ConfigKind::Broker, name: node.to_string() };
    let name = NODE_DUTY_SETTING.to_owned();
    let change = match duty {
        Some(duty) => ConfigChange::Set { name, value: duty.to_owned() },
        None => ConfigChange::Delete { name },
    };
    Ok(client.alter_configs(&resource, &[change], false).await?)
}

/// The cluster, if it has the node.
pub(super) async fn known(client: &Client, node: BrokerId) -> Result<ClusterState, CliError> {
    let state = ClusterState::of(client).await?;
    match state.broker(node) {
        Some(_) => Ok(state),
        None if state.only_votes(node) => {
            let only_votes = CliError::Input(format!(
                "node {node} only votes: it leads nothing and holds nothing"
            ));
            Err(only_votes.with_hint("'logway cluster remove' takes it out of the cluster"))
        }
        None => Err(unknown_node(node)),
    }
}

async fn led_by(client: &Client, node: BrokerId) -> Result<Vec<Partition>, CliError> {
    let state = ClusterState::of(client).await?;
    let led = state.partitions().filter(|(_, known)| known.leader == Some(node));
    Ok(led.map(|(name, _)| Partition::new(&name)).collect())
}

fn print(drained: &Drained, global: &GlobalArgs) -> Result<(), CliError> {
    match global.format {
        Format::Json => output::print_json(drained)?,
        Format::Text => output::print(&text(drained).render())?,
    }
    if drained.drained && !drained.leads.is_empty() {
        eprintln!("no other replica of these is in sync; others lead them as soon as one is");
    }
    Ok(())
}

fn text(drained: &Drained) -> Table {
    let mut table = Table::without_names();
    let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
    row("NODE", drained.node.to_string());
    row("DRAINED", output::yes_or_no(drained.drained));
    row("LEADS", first_of(&drained.leads));
    table
}
