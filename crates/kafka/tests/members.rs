//! Nodes that leave a cluster, and who votes in it, by Kafka's protocol.

mod common;

use std::path::Path;

use common::cluster::{TestNode, three_nodes, until};
use common::{batch, create_replicated, produce};
use logway_client::Connection;
use logway_model::{BrokerId, ErrorCode, PartitionId, Uuid};
use logway_node::NodeError;
use logway_quorum::{MemberStatus, QuorumError};
use logway_wire::WireString;
use logway_wire::messages::add_raft_voter_request::Listener;
use logway_wire::messages::describe_quorum_request::{PartitionData, TopicData};
use logway_wire::messages::{
    AddRaftVoterRequest, DescribeQuorumRequest, DescribeQuorumResponse, RemoveRaftVoterRequest,
    UnregisterBrokerRequest,
};

/// An outcome: the code and what is said beside it.
type Told = (ErrorCode, String);

fn told(code: i16, message: Option<impl ToString>) -> Told {
    let message = message.map(|message| message.to_string()).unwrap_or_default();
    (ErrorCode::from_code(code).expect("is known"), message)
}

async fn unregister(connection: &Connection, id: i32) -> Told {
    let request = UnregisterBrokerRequest { broker_id: id, ..Default::default() };
    let response = connection.call(&request).await.expect("is answered");
    told(response.error_code, response.error_message)
}

async fn remove_voter(connection: &Connection, request: RemoveRaftVoterRequest) -> Told {
    let response = connection.call(&request).await.expect("is answered");
    told(response.error_code, response.error_message)
}

async fn add_voter(connection: &Connection, request: AddRaftVoterRequest) -> Told {
    let response = connection.call(&request).await.expect("is answered");
    told(response.error_code, response.error_message)
}

async fn described(connection: &Connection) -> DescribeQuorumResponse {
    let topic = TopicData {
        topic_name: "__cluster_metadata".into(),
        partitions: vec![PartitionData::default()],
        ..Default::default()
    };
    let request = DescribeQuorumRequest { topics: vec![topic], ..Default::default() };
    connection.call(&request).await.expect("is answered")
}

fn leader(nodes: &[TestNode]) -> Option<BrokerId> {
    nodes[0].broker.node().quorum.status().leader
}

fn voters(node: &TestNode) -> Vec<i32> {
    node.broker.node().quorum.status().voters.iter().map(|voter| voter.id.0).collect()
}

/// The place of a node that does not lead the quorum, so that its end costs no election.
fn follower(nodes: &[TestNode]) -> usize {
    let leader = leader(nodes);
    nodes.iter().position(|node| Some(node.id()) != leader).expect("there are several")
}

fn member(nodes: &[TestNode], id: BrokerId) -> MemberStatus {
    let members = nodes[0].broker.node().quorum.members();
    members.into_iter().find(|member| member.id == id).expect("is a member")
}

async fn fourth(dir: &Path, nodes: &[TestNode]) -> TestNode {
    TestNode::start(&dir.join("4"), &[&nodes[0].address]).await
}

fn is_removed(error: &NodeError, id: BrokerId) -> bool {
    matches!(error, NodeError::Quorum(QuorumError::Removed { id: told }) if *told == id)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_node_is_removed_and_does_not_come_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut nodes = three_nodes(dir.path()).await;
    let connection = nodes[0].broker.connect().await;
    create_replicated(&connection, "t", 1, 3, &[("min.insync.replicas", "2")]).await;
    drop(connection);
    let dead = nodes.remove(follower(&nodes));
    let id = dead.id();
    dead.broker.end_at_once().await;
    let is_fenced = || nodes.iter().all(|node| !node.broker.node().image().is_active(id));
    until("it is fenced", is_fenced).await;
    // Any node will do.
    let asked = follower(&nodes);
    let connection = nodes[asked].broker.connect().await;
    assert_eq!(unregister(&connection, id.0).await, (ErrorCode::None, String::new()));
    let node = nodes[asked].broker.node();
    assert_eq!(node.image().broker(id), None);
    assert!(node.quorum.members().iter().all(|member| member.id != id));
    let image = node.image();
    let partition = image.topic("t").and_then(|topic| topic.partition(PartitionId(0)));
    let partition = partition.expect("exists");
    assert!(partition.replicas.contains(&id), "as in Kafka");
    assert_eq!((partition.isr.len(), partition.isr.contains(&id)), (2, false));
    let (code, message) = unregister(&connection, id.0).await;
    assert_eq!(code, ErrorCode::BrokerIdNotRegistered, "{message}");

    // Its old command line, and its old data.
    let path = dir.path().join(id.to_string());
    for join in [&[][..], &[&*nodes[0].address]] {
        let back = TestNode::try_start(&path, "127.0.0.1:0", join, &[]).await;
        let error = back.err().expect("was removed");
        assert!(is_removed(&error, id), "{error}");
    }
    // What others keep on disk of it outlives them.
    for node in &nodes {
        node.broker.node().quorum.snapshot().await.expect("is written");
    }
    let back = TestNode::try_start(&path, "127.0.0.1:0", &[], &[]).await;
    assert!(is_removed(&back.err().expect("was removed"), id));

    // A new disk under the old number is a new node.
    let empty = dir.path().join("empty");
    let number = id.to_string();
    let settings = [("node.id", &*number)];
    let new = TestNode::try_start(&empty, "127.0.0.1:0", &[&nodes[0].address], &settings).await;
    let new = new.expect("its number is free");
    assert_eq!(new.id(), id);
    until("three vote again", || voters(&new).len() == 3).await;
    let in_sync = || {
        let image = new.broker.node().image();
        let partition = image.topic("t").and_then(|topic| topic.partition(PartitionId(0)));
        partition.is_some_and(|partition| partition.isr.len() == 3)
    };
    until("it has taken the place of the old one", in_sync).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_lives_is_removed_and_ends_and_another_votes_in_its_place() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut nodes = three_nodes(dir.path()).await;
    nodes.push(fourth(dir.path(), &nodes).await);
    // The leader of the quorum itself, asked for by itself.
    let leading = leader(&nodes).expect("leads");
    let at = nodes.iter().position(|node| node.id() == leading).expect("is one");
    let removed = nodes.remove(at);
    let connection = removed.broker.connect().await;
    assert_eq!(unregister(&connection, leading.0).await, (ErrorCode::None, String::new()));
    let error = removed.broker.failed().await;
    assert!(is_removed(&error, leading), "{error}");
    removed.broker.stop().await;
    let has_three = || {
        nodes.iter().all(|node| {
            let voters = voters(node);
            voters.len() == 3 && !voters.contains(&leading.0)
        })
    };
    until("the fourth votes in its place", has_three).await;
    let connection = nodes[0].broker.connect().await;
    create_replicated(&connection, "t", 1, 3, &[]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_only_node_cannot_be_removed() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = TestNode::start(&dir.path().join("1"), &[]).await;
    let connection = node.broker.connect().await;
    let (code, message) = unregister(&connection, 1).await;
    assert_eq!((code, &*message), (ErrorCode::InvalidRequest, "node 1 is the only voter"));
    for unknown in [2, -1, i32::MAX, i32::MIN] {
        assert_eq!(unregister(&connection, unknown).await.0, ErrorCode::BrokerIdNotRegistered);
    }
    create_replicated(&connection, "t", 1, 1, &[]).await;
    assert_eq!(produce(&connection, "t", 0, batch(&["0"])).await.error_code, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn votes_are_taken_and_given() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut nodes = three_nodes(dir.path()).await;
    nodes.push(fourth(dir.path(), &nodes).await);
    let connection = nodes[0].broker.connect().await;
    let cluster_id = nodes[0].broker.node().cluster_id.to_string();
    let demoted = nodes[follower(&nodes)].id();
    let directory = member(&nodes, demoted).directory.0;
    let remove = RemoveRaftVoterRequest {
        cluster_id: Some(WireString::copy_of(&cluster_id)),
        voter_id: demoted.0,
        voter_directory_id: directory,
        ..Default::default()
    };
    let code = async |request| remove_voter(&connection, request).await.0;
    let other = RemoveRaftVoterRequest { cluster_id: Some("other".into()), ..remove.clone() };
    assert_eq!(code(other).await, ErrorCode::InconsistentClusterId);
    let nobody = RemoveRaftVoterRequest { voter_directory_id: Uuid::default(), ..remove.clone() };
    assert_eq!(code(nobody).await, ErrorCode::InvalidRequest);
    let another = RemoveRaftVoterRequest { voter_directory_id: Uuid([9; 16]), ..remove.clone() };
    assert_eq!(code(another).await, ErrorCode::VoterNotFound);
    let learner = nodes[3].id();
    let of_learner = RemoveRaftVoterRequest {
        voter_id: learner.0,
        voter_directory_id: member(&nodes, learner).directory.0,
        ..remove.clone()
    };
    assert_eq!(code(of_learner).await, ErrorCode::VoterNotFound);
    assert_eq!(voters(&nodes[0]).len(), 3, "what is refused changes nothing");

    let any_cluster = RemoveRaftVoterRequest { cluster_id: None, ..remove };
    assert_eq!(remove_voter(&connection, any_cluster).await, (ErrorCode::None, String::new()));
    let has_replacement = || {
        let voters = voters(&nodes[0]);
        voters.len() == 3 && voters.contains(&learner.0) && !voters.contains(&demoted.0)
    };
    until("the fourth votes in its place", has_replacement).await;

    let endpoint =
        Listener { name: "NODE".into(), host: "any".into(), port: 1, ..Default::default() };
    let add = AddRaftVoterRequest {
        cluster_id: Some(WireString::copy_of(&cluster_id)),
        timeout_ms: 10_000,
        voter_id: demoted.0,
        voter_directory_id: directory,
        listeners: vec![endpoint],
        ack_when_committed: true,
        ..Default::default()
    };
    let code = async |request| add_voter(&connection, request).await.0;
    let other = AddRaftVoterRequest { cluster_id: Some("other".into()), ..add.clone() };
    assert_eq!(code(other).await, ErrorCode::InconsistentClusterId);
    let nowhere = AddRaftVoterRequest { listeners: Vec::new(), ..add.clone() };
    assert_eq!(code(nowhere).await, ErrorCode::InvalidRequest);
    let another = AddRaftVoterRequest { voter_directory_id: Uuid([9; 16]), ..add.clone() };
    assert_eq!(code(another).await, ErrorCode::InvalidRequest);
    let unknown = AddRaftVoterRequest { voter_id: 9, ..add.clone() };
    assert_eq!(code(unknown).await, ErrorCode::BrokerIdNotRegistered);
    assert_eq!(add_voter(&connection, add.clone()).await, (ErrorCode::None, String::new()));
    assert_eq!(voters(&nodes[0]).len(), 4);
    assert_eq!(code(add).await, ErrorCode::DuplicateVoter);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_node_says_how_the_quorum_is_and_says_so_when_nobody_leads() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut nodes = three_nodes(dir.path()).await;
    for node in &nodes {
        let response = described(&node.broker.connect().await).await;
        let partition = &response.topics[0].partitions[0];
        assert_eq!((partition.error_code, partition.current_voters.len()), (0, 3));
        assert!(partition.current_voters.iter().all(|voter| voter.log_end_offset > 0));
        assert!(partition.current_voters.iter().all(|voter| voter.last_fetch_timestamp > 0));
        assert_eq!(response.nodes.len(), 3);
    }
    // Whoever is left when the leader has just died tells of the next one.
    let first = leader(&nodes).expect("leads");
    let at = nodes.iter().position(|node| node.id() == first).expect("is one");
    let asked = (at + 1) % nodes.len();
    let connection = nodes[asked].broker.connect().await;
    let asked = nodes[asked].id();
    nodes.remove(at).broker.end_at_once().await;
    let partition = described(&connection).await.topics[0].partitions[0].clone();
    assert_eq!(partition.error_code, 0, "{partition:?}");
    assert_ne!(partition.leader_id, first.0);
    // Without a majority there is none.
    let at = nodes.iter().position(|node| node.id() != asked).expect("there are two");
    nodes.remove(at).broker.end_at_once().await;
    let mut response = described(&connection).await;
    // A leader goes on for an election timeout without hearing the others.
    while response.topics[0].partitions[0].error_code == 0 {
        response = described(&connection).await;
    }
    let partition = &response.topics[0].partitions[0];
    let code = ErrorCode::NotLeaderOrFollower.code();
    assert_eq!((partition.error_code, partition.leader_id), (code, -1));
    assert_eq!((partition.current_voters.len(), response.nodes.len()), (3, 3));
}
