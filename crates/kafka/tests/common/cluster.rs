//! Several nodes within the test.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use logway_log::fs::RealFs;
use logway_model::BrokerId;
use logway_node::NodeError;
use logway_node::cluster::ClusterOptions;
use logway_peers::{Carrier, PeerListener, TcpCarrier};
use tokio::time::{sleep, timeout};

use super::{TestBroker, UNTIL_MAX};

/// A node of a cluster, and where other nodes reach it.
pub struct TestNode {
    pub broker: TestBroker,
    pub address: String,
}

impl TestNode {
    /// Starts a node on a directory, to found a cluster or to join one at other nodes' addresses. `address` is where
    /// nodes reach it, with port 0 for a new one.
    pub async fn try_start(
        dir: &Path,
        address: &str,
        join: &[&str],
        settings: &[(&str, &str)],
    ) -> Result<TestNode, NodeError> {
        let listener = PeerListener::bind(address).await.expect("it is free");
        let carrier = Arc::new(TcpCarrier::new(listener, None));
        TestNode::try_start_with(dir, carrier, join, settings).await
    }

    /// As [`TestNode::try_start`], with another way to the other nodes.
    pub async fn try_start_with(
        dir: &Path,
        carrier: Arc<dyn Carrier>,
        join: &[&str],
        settings: &[(&str, &str)],
    ) -> Result<TestNode, NodeError> {
        let dir = dir.to_str().expect("a temporary directory's name is text");
        let fixed = [("log.dirs", dir), ("listeners", "127.0.0.1:0")];
        let settings: Vec<_> = fixed.iter().chain(settings).copied().collect();
        let address = carrier.address().to_string();
        let join = join.iter().map(|address| (*address).to_owned()).collect();
        let options = |clients| {
            Some(ClusterOptions {
                carrier,
                host: None,
                clients,
                join,
                replaces: false,
                find_nodes: Arc::new(|_| Box::pin(async { None })),
                secure: None,
                mutation: None,
            })
        };
        let broker = TestBroker::try_start_with(Arc::new(RealFs), &settings, options).await?;
        Ok(TestNode { broker, address })
    }

    pub async fn start(dir: &Path, join: &[&str]) -> TestNode {
        TestNode::try_start(dir, "127.0.0.1:0", join, &[]).await.expect("starts")
    }

    pub fn id(&self) -> BrokerId {
        self.broker.node().settings.node_id
    }
}

/// Three nodes, each in a directory of its own below `dir`, which all vote.
pub async fn three_nodes(dir: &Path) -> Vec<TestNode> {
    let first = TestNode::start(&dir.join("1"), &[]).await;
    let second = TestNode::start(&dir.join("2"), &[&first.address]).await;
    let third = TestNode::start(&dir.join("3"), &[&second.address]).await;
    let nodes = vec![first, second, third];
    let all_vote = || nodes.iter().all(|node| node.broker.node().quorum.status().voters.len() == 3);
    until("three nodes vote", all_vote).await;
    let all_active = || {
        nodes.iter().all(|node| {
            let image = node.broker.node().image();
            (1..=3).all(|id| image.is_active(BrokerId(id)))
        })
    };
    until("three brokers are active", all_active).await;
    nodes
}

/// Waits for a state, as long as a busy machine may take.
pub async fn until(what: &str, is_reached: impl Fn() -> bool) {
    let waiting = async {
        while !is_reached() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(UNTIL_MAX, waiting).await.unwrap_or_else(|_| panic!("not in time: {what}"));
}
