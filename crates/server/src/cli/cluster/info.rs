//! `logway cluster info`.

use clap::Args;
use logway_client::{
    Client, ClientError, ClusterDescription, DescribedBroker, QuorumDescription, QuorumReplica,
};
use logway_model::BrokerId;
use schemars::JsonSchema;
use serde::Serialize;

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
    /// The leader of the quorum; `null` if it is not known
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
    let client = global.client()?;
    let cluster = client.describe_cluster().await?;
    let quorum = quorum(&client).await?;
    let info = info(cluster, quorum);
    match global.format {
        Format::Json => output::print_json(&info),
        Format::Text => output::print(&text(&info)),
    }
}

/// What is known of the quorum, if the broker has one and tells.
pub(super) async fn quorum(client: &Client) -> Result<Option<QuorumDescription>, ClientError> {
    match client.describe_quorum().await {
        Ok(quorum) => Ok(Some(quorum)),
        Err(ClientError::Unsupported { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn info(cluster: ClusterDescription, quorum: Option<QuorumDescription>) -> Info {
    Info {
        cluster_id: cluster.id,
        // Brokers name any of themselves as the controller that clients may turn to (KIP-631): the
        // real one is the quorum's leader.
        controller: quorum.as_ref().and_then(|quorum| quorum.leader),
        brokers: cluster.brokers.into_iter().map(broker).collect(),
        quorum: quorum.map(describe_quorum),
    }
}

fn broker(broker: DescribedBroker) -> Broker {
    Broker {
        id: broker.id,
        host: broker.address.host,
        port: broker.address.port,
        rack: broker.rack,
        fenced: broker.is_fenced,
    }
}

fn describe_quorum(quorum: QuorumDescription) -> Quorum {
    let all = || quorum.voters.iter().chain(&quorum.observers);
    let leader = all().find(|replica| Some(replica.id) == quorum.leader);
    let leader_end = leader.and_then(|leader| leader.log_end);
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
        let state = if broker.fenced { "fenced" } else { "active" };
        table.row([
            broker.id.to_string(),
            broker.host.clone(),
            broker.port.to_string(),
            broker.rack.clone().unwrap_or_default(),
            state.to_owned(),
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
    use logway_client::BrokerAddress;
    use logway_model::{LeaderEpoch, Offset};

    use super::*;

    #[test]
    fn the_text_shows_brokers_and_how_far_the_quorum_is() {
        let broker = |id, is_fenced| DescribedBroker {
            id: BrokerId(id),
            address: BrokerAddress::new("b", 9092),
            rack: None,
            is_fenced,
        };
        let replica = |id, log_end| QuorumReplica {
            id: BrokerId(id),
            log_end: Some(Offset(log_end)),
            caught_up_at: None,
        };
        let cluster = ClusterDescription {
            id: "c".to_owned(),
            brokers: vec![broker(1, false), broker(2, true)],
        };
        let quorum = QuorumDescription {
            nodes: Vec::new(),
            leader: Some(BrokerId(1)),
            leader_epoch: LeaderEpoch(4),
            high_watermark: Offset(90),
            voters: vec![replica(1, 100), replica(2, 90)],
            observers: Vec::new(),
        };
        let expected = "\
CLUSTER          c
CONTROLLER       1
BROKERS          2
METADATA EPOCH   4
METADATA OFFSET  90

BROKER  HOST  PORT  RACK  STATE
1       b     9092  -     active
2       b     9092  -     fenced

METADATA NODE  ROLE    LOG END  LAG
1              leader  100      0
2              voter   90       10
";
        assert_eq!(text(&info(cluster, Some(quorum))), expected);
    }
}
