//! `logway cluster status`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clap::Args;
use logway_client::{BrokerAddress, Client};
use logway_model::{BrokerId, TopicName};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::time::sleep;

use super::safe_to_stop::{Obstacle, Stops};
use super::state::{ClusterState, NodeState, Partition, is_leaderless, is_under_replicated};
use crate::cli::GlobalArgs;
use crate::cli::ends::{Ends, Second};
use crate::cli::error::CliError;
use crate::cli::live::{self, Live};
use crate::cli::output::{self, Format, Table, yes_or_no};

/// So many partitions of a kind are named in the text.
const NAMED_MAX: usize = 3;

/// How many replicas must be in sync for `acks=all`.
const IN_SYNC_MIN: &str = "min.insync.replicas";

/// Show every node, what is wrong with partitions, and which nodes can be stopped
///
/// A node is safe to stop if every partition keeps a leader and takes records with acks=all, and the quorum keeps its
/// majority. Exits with 1 if the cluster is not healthy, as 'logway cluster health' does.
///
/// With --watch it looks again and again, until Ctrl-C: on a terminal in place, elsewhere one look follows the other. With
/// --format json each is a line. While the cluster cannot be asked, that is shown.
#[derive(Debug, Args)]
pub(in crate::cli) struct StatusArgs {
    /// Look again and again
    #[arg(short, long)]
    watch: bool,
    /// How often to look with --watch, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "2", requires = "watch",
        value_parser = live::parse_interval)]
    interval: Duration,
}

/// The cluster and its nodes; printed also when the exit code is 1 because it is not healthy.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Status {
    healthy: bool,
    cluster_id: String,
    /// Whether metadata can be changed; `null` from brokers that do not tell
    has_controller: Option<bool>,
    /// The leader of the quorum; `null` if it is not known, or hears no majority
    #[schemars(with = "Option<i32>")]
    controller: Option<BrokerId>,
    /// Of the quorum; `null` from brokers that do not tell
    leader_epoch: Option<i32>,
    nodes: Vec<Node>,
    partition_count: usize,
    leaderless_partitions: Vec<Partition>,
    /// With fewer replicas in sync than `min.insync.replicas`: they take no records with acks=all
    under_min_isr_partitions: Vec<Partition>,
    under_replicated_partitions: Vec<Partition>,
}

/// A broker, or a node of the quorum that is none.
#[derive(Debug, Serialize, JsonSchema)]
struct Node {
    #[schemars(with = "i32")]
    id: BrokerId,
    /// Where clients reach it, or, if it is no broker, other nodes
    host: Option<String>,
    port: Option<u16>,
    rack: Option<String>,
    /// Whether it can hold partitions; what is no broker only votes
    broker: bool,
    /// `fenced` if the controller keeps it from serving, `unreachable` if it does not answer from here
    state: NodeState,
    /// Whether it votes in the quorum; `null` if it has no copy of the metadata, or the broker does not tell
    voter: Option<bool>,
    /// Records of metadata that it has less than the leader
    lag: Option<i64>,
    /// How many of its replicas are not in sync: a node that is new or was replaced copies them
    out_of_sync: usize,
    safe_to_stop: bool,
    /// The worst that would follow from a stop; `null` if nothing would
    unsafe_because: Option<String>,
    /// The first partition that this is about, if it is about one
    unsafe_for: Option<Partition>,
}

pub(super) async fn run(args: StatusArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let client = global.client()?;
    if args.watch {
        return watch(&client, args.interval, global.format).await;
    }
    let status = look(&client).await?;
    match global.format {
        Format::Json => output::print_json(&status)?,
        Format::Text => output::print(&text(&status))?,
    }
    match status.healthy {
        true => Ok(()),
        false => Err(CliError::Unhealthy),
    }
}

async fn look(client: &Client) -> Result<Status, CliError> {
    let state = ClusterState::of(client).await?;
    Ok(status(&state, &in_sync_min(client, &state).await?))
}

/// Shows one look after another, until somebody has seen enough.
async fn watch(client: &Client, interval: Duration, format: Format) -> Result<(), CliError> {
    let mut ends = Ends::listen(Second::Exits)?;
    let mut live = Live::start()?;
    let showing = async {
        loop {
            match (look(client).await, format) {
                (Ok(status), Format::Text) => live.show(&text(&status))?,
                (Ok(status), Format::Json) => live.show(&output::json_line(&status)?)?,
                // Nodes come and go: it is asked again.
                (Err(error @ CliError::Client(_)), Format::Text) => {
                    live.show(&format!("the cluster cannot be asked now: {error}\n"))?;
                }
                (Err(error @ CliError::Client(_)), Format::Json) => eprintln!("error: {error}"),
                (Err(error), _) => return Err(error),
            }
            sleep(interval).await;
        }
    };
    let outcome: Result<(), CliError> = tokio::select! {
        outcome = showing => outcome,
        _ = ends.any() => Ok(()),
    };
    live.finish()?;
    outcome
}

/// How many replicas each topic wants in sync. One is enough where that is not shown.
pub(super) async fn in_sync_min(
    client: &Client,
    state: &ClusterState,
) -> Result<BTreeMap<TopicName, usize>, CliError> {
    let values = client.topic_setting(state.metadata.topics.keys(), IN_SYNC_MIN).await?;
    let number = |(topic, value): (TopicName, String)| Some((topic, value.parse().ok()?));
    Ok(values.into_iter().filter_map(number).collect())
}

fn status(state: &ClusterState, in_sync_min: &BTreeMap<TopicName, usize>) -> Status {
    let stops = Stops::of(state, in_sync_min);
    let quorum = state.quorum.as_ref();
    Status {
        healthy: state.is_healthy(),
        cluster_id: state.cluster.id.clone(),
        has_controller: state.has_controller(),
        controller: state.controller(),
        leader_epoch: quorum.map(|quorum| quorum.leader_epoch.0),
        nodes: nodes(state, &stops),
        partition_count: state.partitions().count(),
        leaderless_partitions: state.those(is_leaderless),
        under_min_isr_partitions: stops.under_min_in_sync(),
        under_replicated_partitions: state.those(is_under_replicated),
    }
}

/// The brokers, and the members of the quorum that are none.
fn nodes(state: &ClusterState, stops: &Stops) -> Vec<Node> {
    let brokers = state.cluster.brokers.iter().map(|broker| broker.id);
    let ids: BTreeSet<BrokerId> = brokers.chain(state.members().map(|it| it.id)).collect();
    ids.into_iter().map(|id| node(id, state, stops)).collect()
}

fn node(id: BrokerId, state: &ClusterState, stops: &Stops) -> Node {
    let broker = state.broker(id);
    let address = broker.map(|broker| &broker.address).or_else(|| state.node_address(id));
    let quorum = state.quorum.as_ref();
    let replica = state.member(id);
    let leader_end = quorum.and_then(|quorum| quorum.leader_log_end());
    let own_end = replica.and_then(|replica| replica.log_end);
    let obstacle = stops.obstacle(id);
    let out_of_sync = state
        .partitions()
        .filter(|(_, partition)| partition.replicas.contains(&id) && !partition.isr.contains(&id));
    Node {
        id,
        host: address.map(|address| address.host.clone()),
        port: address.map(|address| address.port),
        rack: broker.and_then(|broker| broker.rack.clone()),
        broker: broker.is_some(),
        state: state.node_state(id),
        voter: replica.and(state.votes(id)),
        lag: leader_end.zip(own_end).map(|(leader, own)| leader - own),
        out_of_sync: out_of_sync.count(),
        safe_to_stop: obstacle.is_none(),
        unsafe_for: obstacle.as_ref().and_then(Obstacle::partition).cloned(),
        unsafe_because: obstacle.map(|obstacle| obstacle.to_string()),
    }
}

fn text(status: &Status) -> String {
    format!("{}\n{}", summary(status).render(), node_table(status).render())
}

fn summary(status: &Status) -> Table {
    let mut table = Table::without_names();
    let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
    let number = |number: Option<i32>| number.map(|number| number.to_string()).unwrap_or_default();
    row("HEALTHY", yes_or_no(status.healthy));
    row("CLUSTER", status.cluster_id.clone());
    row("CONTROLLER", number(status.controller.map(|id| id.0)));
    row("METADATA EPOCH", number(status.leader_epoch));
    row("NODES", status.nodes.len().to_string());
    row("PARTITIONS", status.partition_count.to_string());
    row("LEADERLESS", first_of(&status.leaderless_partitions));
    row("UNDER MIN ISR", first_of(&status.under_min_isr_partitions));
    row("UNDER-REPLICATED", first_of(&status.under_replicated_partitions));
    table
}

/// How many, and the names of the first.
pub(super) fn first_of(partitions: &[Partition]) -> String {
    let count = partitions.len();
    let names: Vec<String> = partitions.iter().take(NAMED_MAX).map(ToString::to_string).collect();
    match names.len() {
        0 => count.to_string(),
        named if named < count => {
            format!("{count}: {} and {} more", names.join(" "), count - named)
        }
        _ => format!("{count}: {}", names.join(" ")),
    }
}

fn node_table(status: &Status) -> Table {
    let mut table = Table::new(&[
        "NODE",
        "STATE",
        "ROLE",
        "LAG",
        "OUT OF SYNC",
        "ADDRESS",
        "RACK",
        "SAFE TO STOP",
    ]);
    for node in &status.nodes {
        let address = node.host.clone().zip(node.port);
        let address = address.map(|(host, port)| BrokerAddress::new(host, port).to_string());
        table.row([
            node.id.to_string(),
            node.state.name().to_owned(),
            role(node, status),
            node.lag.map(|lag| lag.to_string()).unwrap_or_default(),
            node.out_of_sync.to_string(),
            address.unwrap_or_default(),
            node.rack.clone().unwrap_or_default(),
            match &node.unsafe_because {
                None => "yes".to_owned(),
                Some(reason) => format!("no, because {reason}"),
            },
        ]);
    }
    table
}

/// In the quorum.
fn role(node: &Node, status: &Status) -> String {
    let role = match node.voter {
        Some(true) if Some(node.id) == status.controller => "leader",
        Some(true) => "voter",
        Some(false) => "observer",
        None => "",
    };
    if node.broker { role.to_owned() } else { format!("{role}, no broker") }
}

#[cfg(test)]
mod tests {
    use logway_client::QuorumNode;

    use super::super::state::tests::state;
    use super::*;

    #[test]
    fn the_text_shows_nodes_and_says_what_a_stop_would_do() {
        let few: &[i32] = &[1, 3];
        let mut state = state(&[
            (&[1, 2, 3], few),
            (&[3, 1, 2], few),
            (few, &[]),
            (&[2, 1], few),
            (&[2, 1, 3], few),
        ]);
        state.silent.insert(BrokerId(2));
        let topic = TopicName::new("t").expect("a name");
        let expected = "\
HEALTHY           no
CLUSTER           c
CONTROLLER        1
METADATA EPOCH    4
NODES             3
PARTITIONS        5
LEADERLESS        1: t-2
UNDER MIN ISR     1: t-2
UNDER-REPLICATED  4: t-0 t-1 t-2 and 1 more

NODE  STATE        ROLE    LAG  OUT OF SYNC  ADDRESS  RACK  SAFE TO STOP
1     active       leader  0    1            b:9092   -     no, because the quorum would have 1 of the 2 voters that it needs
2     unreachable  voter   1    4            b:9092   -     yes
3     active       voter   2    1            b:9092   -     no, because the quorum would have 1 of the 2 voters that it needs
";
        assert_eq!(text(&status(&state, &BTreeMap::from([(topic, 2)]))), expected);
    }

    #[test]
    fn a_node_that_only_votes_is_shown_as_no_broker() {
        let mut state = state(&[(&[1, 2], &[1, 2])]);
        state.cluster.brokers.pop();
        let listeners = vec![("NODE".to_owned(), BrokerAddress::new("v", 9093))];
        let quorum = state.quorum.as_mut().expect("it has one");
        quorum.nodes.push(QuorumNode { id: BrokerId(3), listeners });
        let status = status(&state, &BTreeMap::new());
        let shown = node_table(&status).render();
        let line = shown.lines().last().expect("there are nodes");
        let expected = "3     active  voter, no broker  2    0            v:9093   -     yes";
        assert_eq!(line, expected);
        assert!(status.healthy);
    }
}
