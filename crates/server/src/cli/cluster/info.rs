//! `logway cluster info`.

use clap::Args;
use logway_client::{DescribedBroker, QuorumDescription, QuorumReplica};
use logway_model::BrokerId;
use schemars::JsonSchema;
use serde::Serialize;

use super::state::{ClusterState, NodeState};
use crate::cli::GlobalArgs;
use crate::cli::error::CliError;
use crate::cli::output::{self, Format, Table};

/// Show the cluster's brokers, and the quorum that commits its metadata
#[derive(Debug, Args)]
pub(in crate::cli) struct InfoArgs {}

/// The cluster.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Info {
    cluster_id: String,
    /// The leader of the quorum; `null` if it is not known, or hears no majority
    #[schemars(with = "Option<i32>")]
    controller: Option<BrokerId>,
    brokers: Vec<Broker>,
    /// What commits metadata; `null` from brokers that do not tell
    quorum: Option<Quorum>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Broker {
    #[schemars(with = "i32")]
    id: BrokerId,
    host: String,
    port: u16,
    rack: Option<String>,
    /// Whether the controller keeps it from serving
    fenced: bool,
    /// Whether it answers at its address from here
    reachable: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Quorum {
    #[schemars(with = "Option<i32>")]
    leader: Option<BrokerId>,
    leader_epoch: i32,
    high_watermark: i64,
    replicas: Vec<Replica>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Replica {
    #[schemars(with = "i32")]
    id: BrokerId,
    voter: bool,
    /// Of its log of metadata
    end_offset: Option<i64>,
    /// Records that it has less than the leader
    lag: Option<i64>,
}

pub(super) async fn run(_args: InfoArgs, global: &GlobalArgs) -> Result<(), CliError> {
    let info = info(ClusterState::without_topics(&global.client()?).await?);
    match global.format {
        Format::Json => output::print_json(&info),
        Format::Text => output::print(&text(&info)),
    }
}

fn info(state: ClusterState) -> Info {
    let controller = state.controller();
    let brokers = state.cluster.brokers.iter().map(|broker| self::broker(broker, &state)).collect();
    Info {
        cluster_id: state.cluster.id,
        // Brokers name any of themselves as the controller that clients may turn to (KIP-631): the
        // real one is the quorum's leader.
        controller,
        brokers,
        quorum: state.quorum.map(describe_quorum),
    }
}

fn broker(broker: &DescribedBroker, state: &ClusterState) -> Broker {
    Broker {
        id: broker.id,
        host: broker.address.host.clone(),
        port: broker.address.port,
        rack: broker.rack.clone(),
        fenced: broker.is_fenced,
        reachable: !state.silent.contains(&broker.id),
    }
}

fn describe_quorum(quorum: QuorumDescription) -> Quorum {
    let leader_end = quorum.leader_log_end();
    let replica = |voter| {
        move |replica: &QuorumReplica| Replica {
            id: replica.id,
            voter,
            end_offset: replica.log_end.map(|end| end.0),
            lag: leader_end.zip(replica.log_end).map(|(leader, own)| leader - own),
        }
    };
    let voters = quorum.voters.iter().map(replica(true));
    Quorum {
        leader: quorum.leader,
        leader_epoch: quorum.leader_epoch.0,
        high_watermark: quorum.high_watermark.0,
        replicas: voters.chain(quorum.observers.iter().map(replica(false))).collect(),
    }
}

fn text(info: &Info) -> String {
    let mut sections = vec![summary(info).render(), brokers(&info.brokers).render()];
    sections.extend(info.quorum.as_ref().map(|quorum| replicas(quorum).render()));
    sections.join("\n")
}

fn summary(info: &Info) -> Table {
    let mut table = Table::without_names();
    let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
    row("CLUSTER", info.cluster_id.clone());
    row("CONTROLLER", info.controller.map(|id| id.to_string()).unwrap_or_default());
    row("BROKERS", info.brokers.len().to_string());
    if let Some(quorum) = &info.quorum {
        row("METADATA EPOCH", quorum.leader_epoch.to_string());
        row("METADATA OFFSET", quorum.high_watermark.to_string());
    }
    table
}

fn brokers(brokers: &[Broker]) -> Table {
    let mut table = Table::new(&["BROKER", "HOST", "PORT", "RACK", "STATE"]);
    for broker in brokers {
        let state = match (broker.reachable, broker.fenced) {
            (false, _) => NodeState::Unreachable,
            (true, true) => NodeState::Fenced,
            (true, false) => NodeState::Active,
        };
        table.row([
            broker.id.to_string(),
            broker.host.clone(),
            broker.port.to_string(),
            broker.rack.clone().unwrap_or_default(),
            state.name().to_owned(),
        ]);
    }
    table
}

fn replicas(quorum: &Quorum) -> Table {
    let mut table = Table::new(&["METADATA NODE", "ROLE", "LOG END", "LAG"]);
    let number = |number: Option<i64>| number.map(|number| number.to_string()).unwrap_or_default();
    for replica in &quorum.replicas {
        let role = match replica.voter {
            true if Some(replica.id) == quorum.leader => "leader",
            true => "voter",
            false => "observer",
        };
        table.row([
            replica.id.to_string(),
            role.to_owned(),
            number(replica.end_offset),
            number(replica.lag),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::state::tests::state;
    use super::*;

    #[test]
    fn the_text_shows_brokers_and_how_far_the_quorum_is() {
        let mut state = state(&[]);
        state.cluster.brokers[1].is_fenced = true;
        state.silent.insert(BrokerId(3));
        let expected = "\
CLUSTER          c
CONTROLLER       1
BROKERS          3
METADATA EPOCH   4
METADATA OFFSET  90

BROKER  HOST  PORT  RACK  STATE
1       b     9092  -     active
2       b     9092  -     fenced
3       b     9092  -     unreachable

METADATA NODE  ROLE    LOG END  LAG
1              leader  99       0
2              voter   98       1
3              voter   97       2
";
        assert_eq!(text(&info(state)), expected);
    }
}
