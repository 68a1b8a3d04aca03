//! Partitions that other brokers lead: what a client is told that asks here.
//!
//! The cluster is in the metadata alone: of its three brokers one is real. Broker 2 serves, as far as the controller
//! knows, and broker 3 is fenced.

mod about_groups;
mod about_records;
mod about_the_cluster;
#[path = "../common/mod.rs"]
mod common;

use common::*;
use logway_client::Connection;
use logway_metadata::MetadataLevel;
use logway_metadata::controller::{
    Command, CreateTopics, FinalizeMetadataLevel, NewTopic, SetBrokerState, StartBroker,
};
use logway_metadata::record::{BrokerState, Endpoint};
use logway_model::{BrokerId, DirectoryId, TopicId, Uuid};
use logway_wire::Request;
use tempfile::TempDir;

const OWN: BrokerId = BrokerId(1);
const OTHER: BrokerId = BrokerId(2);
const FENCED: BrokerId = BrokerId(3);

/// A topic of partitions on one broker each.
const SINGLE: &str = "single";
const SINGLE_ID: TopicId = TopicId(Uuid([7; 16]));
const HERE: i32 = 0;
const ELSEWHERE: i32 = 1;
const LEADERLESS: i32 = 2;

/// A topic of partitions on two brokers each.
const PAIR: &str = "pair";
const PAIR_ID: TopicId = TopicId(Uuid([8; 16]));
/// This broker follows the other one.
const FOLLOWED: i32 = 0;
/// The other one follows this broker.
const LED: i32 = 1;

/// The brokers and the topics.
struct Cluster {
    broker: TestBroker,
    dir: TempDir,
}

impl Cluster {
    async fn start() -> (Cluster, Connection) {
        let dir = tempfile::tempdir().expect("a directory");
        let settings = [("group.initial.rebalance.delay.ms", "0")];
        let broker = TestBroker::start_with(dir.path(), &settings).await;
        let connection = broker.connect().await;
        let cluster = Cluster { broker, dir };
        cluster.submit(FinalizeMetadataLevel { level: MetadataLevel::CLUSTER }).await;
        for id in [OWN, OTHER, FENCED] {
            cluster.start_broker(id).await;
            cluster.set_state(id, BrokerState::Active).await;
        }
        cluster.create(SINGLE, SINGLE_ID, &[&[OWN], &[OTHER], &[FENCED]]).await;
        cluster.create(PAIR, PAIR_ID, &[&[OTHER, OWN], &[OWN, OTHER]]).await;
        (cluster, connection)
    }

    async fn stop(self) {
        self.broker.stop().await;
    }

    /// Returns when the change is in force at the broker.
    async fn submit<C: Command>(&self, command: C) -> C::Reply {
        self.broker.node().submit(command, None, None).await.expect("is committed")
    }

    async fn start_broker(&self, id: BrokerId) {
        let own = self.broker.node().image().broker(OWN).expect("is registered").clone();
        let (endpoint, log_dirs) = match id == OWN {
            true => (own.endpoint, own.log_dirs),
            false => {
                let endpoint = Endpoint { host: host_of(id), port: 9_092 };
                (Some(endpoint), vec![DirectoryId(Uuid([id.0 as u8; 16]))])
            }
        };
        self.submit(StartBroker {
            id,
            incarnation: Uuid([id.0 as u8; 16]),
            endpoint,
            listeners: Vec::new(),
            rack: Some(format!("rack-{id}")),
            log_dirs,
            serves_already: false,
            was_clean: true,
        })
        .await;
    }

    async fn set_state(&self, id: BrokerId, state: BrokerState) {
        let image = self.broker.node().image();
        let epoch = image.broker_session(id).expect("has started").epoch;
        self.submit(SetBrokerState { id, epoch, state }).await;
    }

    /// Creates a topic. The broker that is fenced serves meanwhile: no topic is made on it else.
    async fn create(&self, name: &str, id: TopicId, replicas: &[&[BrokerId]]) {
        self.set_state(FENCED, BrokerState::Active).await;
        let assignments = replicas.iter().map(|replicas| replicas.to_vec());
        let topic = NewTopic {
            name: name.to_owned(),
            id,
            num_partitions: -1,
            replication_factor: -1,
            assignments: (0..).zip(assignments).collect(),
            configs: Vec::new(),
        };
        let created = self.submit(CreateTopics { topics: vec![topic], validate_only: false }).await;
        assert!(created.iter().all(Result::is_ok), "{created:?}");
        self.set_state(FENCED, BrokerState::Fenced).await;
    }
}

fn host_of(id: BrokerId) -> String {
    format!("host-{id}")
}

async fn call<R: Request>(connection: &Connection, request: &R, version: i16) -> R::Response {
    let pending = connection.send(request, version).await.expect("is sent");
    pending.response().await.expect("is answered")
}
