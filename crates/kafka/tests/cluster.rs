//! Nodes that hold the same records.

mod common;

use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use common::cluster::{TestNode, three_nodes, until};
use common::held_calls::HeldCalls;
use common::{
    UNTIL_MAX, batch, create_replicated, create_topic, fetch, idempotent_batch, produce,
    produce_request, set_config, values,
};
use logway_client::Connection;
use logway_model::{BrokerId, ErrorCode, Offset, PartitionId, TopicName, TopicPartition};
use logway_peers::{PeerListener, TcpCarrier};
use logway_wire::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};
use logway_wire::messages::{
    AlterPartitionReassignmentsRequest, ListPartitionReassignmentsRequest,
};
use tokio::time::timeout;

const TWO_IN_SYNC: &[(&str, &str)] = &[("min.insync.replicas", "2")];

/// Three nodes, and a partition with a replica on each.
async fn three_with_topic(dir: &Path) -> (Vec<TestNode>, TopicPartition) {
    let nodes = three_nodes(dir).await;
    let connection = nodes[0].broker.connect().await;
    create_replicated(&connection, "t", 1, 3, TWO_IN_SYNC).await;
    let name = TopicName::new("t").expect("a legal name");
    (nodes, TopicPartition::new(name, PartitionId(0)))
}

/// Who leads a partition, as a node knows.
fn leader(node: &TestNode, of: &TopicPartition) -> Option<BrokerId> {
    node.broker.node().image().topic(of.topic.as_str())?.partition(of.partition)?.leader
}

/// Waits until somebody leads a partition and knows it.
async fn until_led(nodes: &[TestNode], of: &TopicPartition) -> BrokerId {
    let leads = |node: &TestNode| {
        let topics = node.broker.node().topics();
        topics.by_name(of.topic.as_str()).is_ok_and(|topic| topic.partition(of.partition).is_ok())
    };
    let is_led = || {
        nodes.iter().all(|node| leader(node, of).is_some())
            && nodes.iter().any(|node| leads(node) && leader(node, of) == Some(node.id()))
    };
    until("somebody leads", is_led).await;
    leader(&nodes[0], of).expect("somebody leads")
}

fn log_end(node: &TestNode, of: &TopicPartition) -> Option<Offset> {
    let topics = node.broker.node().topics();
    let replica = topics.by_name(of.topic.as_str()).ok()?.replica(of.partition)?;
    Some(replica.log().log_end_offset())
}

fn in_sync(node: &TestNode, of: &TopicPartition) -> usize {
    let image = node.broker.node().image();
    let partition = image.topic(of.topic.as_str()).and_then(|topic| topic.partition(of.partition));
    partition.map_or(0, |partition| partition.isr.len())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_are_on_three_nodes_and_survive_the_leader() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut nodes, of) = three_with_topic(dir.path()).await;
    let first = until_led(&nodes, &of).await;
    let at =
        |nodes: &[TestNode], id| nodes.iter().position(|node| node.id() == id).expect("is one");
    let leading = nodes[at(&nodes, first)].broker.connect().await;
    for number in 0..10 {
        let produced = produce(&leading, "t", 0, batch(&[&number.to_string()])).await;
        assert_eq!(produced.error_code, 0, "{number}");
    }
    let all_have =
        |nodes: &[TestNode]| nodes.iter().all(|node| log_end(node, &of) == Some(Offset(10)));
    assert!(all_have(&nodes), "what is acknowledged is on all that are in sync");

    let stopped = nodes.remove(at(&nodes, first));
    stopped.broker.stop().await;
    let has_moved = || nodes.iter().all(|node| leader(node, &of).is_some_and(|id| id != first));
    until("another leads", has_moved).await;
    let second = until_led(&nodes, &of).await;
    let leading = nodes[at(&nodes, second)].broker.connect().await;
    until("two are in sync", || in_sync(&nodes[0], &of) == 2).await;
    let produced = produce(&leading, "t", 0, batch(&["10"])).await;
    assert_eq!((produced.error_code, produced.base_offset), (0, 10));
    let expected = (0..=10).map(|number| (Offset(number), number.to_string()));
    assert_eq!(values(&fetch(&leading, "t", 0, 0).await), expected.collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_away_gets_what_it_missed() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut nodes, of) = three_with_topic(dir.path()).await;
    let first = until_led(&nodes, &of).await;
    let away = nodes.iter().position(|node| node.id() != first).expect("there are three");
    let id = nodes[away].id();
    let TestNode { broker, address } = nodes.remove(away);
    broker.stop().await;
    let at = nodes.iter().position(|node| node.id() == first).expect("is there");
    let leading = nodes[at].broker.connect().await;
    for number in 0..5 {
        assert_eq!(produce(&leading, "t", 0, batch(&[&number.to_string()])).await.error_code, 0);
    }
    let path = dir.path().join(id.to_string());
    let back = TestNode::try_start(&path, &address, &[&nodes[0].address], &[]).await;
    nodes.push(back.expect("is simply back"));
    assert_eq!(nodes[2].id(), id);
    until("all have all", || nodes.iter().all(|node| log_end(node, &of) == Some(Offset(5)))).await;
    until("all are in sync", || nodes.iter().all(|node| in_sync(node, &of) == 3)).await;
}

/// What a producer has under way when too few are in sync, and again are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_behind_a_batch_that_too_few_could_take_is_not_out_of_order() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut nodes, of) = three_with_topic(dir.path()).await;
    let first = until_led(&nodes, &of).await;
    let away = nodes.iter().position(|node| node.id() != first).expect("there are three");
    nodes.remove(away).broker.stop().await;
    let at = nodes.iter().position(|node| node.id() == first).expect("is there");
    let leading = nodes[at].broker.connect().await;
    let set_min = async |value| {
        const TOPIC: i8 = 2;
        let set = set_config(&leading, (TOPIC, "t"), "min.insync.replicas", Some(value)).await;
        assert_eq!(set, ErrorCode::None);
    };
    let send = async |sequence| {
        let produced = produce(&leading, "t", 0, idempotent_batch(7, sequence, 1)).await;
        ErrorCode::from_code(produced.error_code).expect("is known")
    };
    set_min("3").await;
    until("two are in sync", || in_sync(&nodes[at], &of) == 2).await;
    assert_eq!(send(0).await, ErrorCode::NotEnoughReplicas);
    set_min("2").await;
    assert_eq!(send(1).await, ErrorCode::NotEnoughReplicas, "not taken for the first of all");
    for sequence in [0, 1, 2] {
        assert_eq!(send(sequence).await, ErrorCode::None, "{sequence}");
    }
    assert_eq!(send(4).await, ErrorCode::OutOfOrderSequenceNumber);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_left_alone_refuses_what_needs_others_in_bounded_time() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut nodes, of) = three_with_topic(dir.path()).await;
    let first = until_led(&nodes, &of).await;
    let at = nodes.iter().position(|node| node.id() == first).expect("is there");
    let left = nodes.remove(at);
    let leading = left.broker.connect().await;
    assert_eq!(produce(&leading, "t", 0, batch(&["0"])).await.error_code, 0);
    for node in nodes {
        // Without a word to the others, or they would hand over.
        node.broker.end_at_once().await;
    }
    let mut request = produce_request("t", 0, batch(&["1"]));
    request.timeout_ms = 300;
    let pending = leading.send(&request, 12).await.expect("is sent");
    let mut response = pending.response().await.expect("is answered in time");
    let partition = response.responses.remove(0).partition_responses.remove(0);
    let refusals = [
        ErrorCode::RequestTimedOut.code(),
        ErrorCode::NotEnoughReplicas.code(),
        ErrorCode::NotEnoughReplicasAfterAppend.code(),
    ];
    assert!(refusals.contains(&partition.error_code), "{}", partition.error_code);
    let read = fetch(&leading, "t", 0, 0).await;
    assert_eq!(values(&read), [(Offset(0), "0".to_owned())], "it reads on, and shows no more");
}

/// Moves partition 0 of a topic to one node.
async fn move_to(connection: &Connection, topic: &'static str, id: BrokerId) {
    let replicas = Some(vec![id.0]);
    let partition = ReassignablePartition { partition_index: 0, replicas, ..Default::default() };
    let topic =
        ReassignableTopic { name: topic.into(), partitions: vec![partition], ..Default::default() };
    let request = AlterPartitionReassignmentsRequest { topics: vec![topic], ..Default::default() };
    let response = connection.call(&request).await.expect("is answered");
    assert_eq!((response.error_code, response.responses[0].partitions[0].error_code), (0, 0));
}

/// Who waits for a move may ask another node than the one that has begun it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_behind_lists_no_moves_before_it_has_caught_up() {
    let dir = tempfile::tempdir().expect("a directory");
    let first = TestNode::start(&dir.path().join("1"), &[]).await;
    let listener = PeerListener::bind("127.0.0.1:0").await.expect("a free port");
    let held = Arc::new(HeldCalls::new(TcpCarrier::new(listener, None)));
    let (second_dir, carrier) = (dir.path().join("2"), held.clone());
    let second = TestNode::try_start_with(&second_dir, carrier, &[&first.address], &[]).await;
    let second = second.expect("joins");
    let image = || first.broker.node().image();
    until("both are active", || (1..=2).all(|id| image().is_active(BrokerId(id)))).await;
    let connection = first.broker.connect().await;
    create_topic(&connection, "t", 1).await;
    move_to(&connection, "t", first.id()).await;
    let replicas = |node: &TestNode| {
        let image = node.broker.node().image();
        let partition = image.topic("t").and_then(|topic| topic.partition(PartitionId(0)));
        partition.map(|partition| partition.replicas.clone())
    };
    until("the second node knows", || replicas(&second) == Some(vec![first.id()])).await;

    held.hold();
    move_to(&connection, "t", second.id()).await;
    let asked = second.broker.connect().await;
    let request = ListPartitionReassignmentsRequest { topics: None, ..Default::default() };
    let (code, moved, known) = {
        let listing = async {
            let response = asked.call(&request).await.expect("is answered");
            (response.error_code, response.topics.len(), replicas(&second))
        };
        let mut listing = pin!(listing);
        // So much time a node has to answer too early.
        match timeout(Duration::from_millis(300), &mut listing).await {
            Ok(too_early) => too_early,
            Err(_elapsed) => {
                held.release();
                timeout(UNTIL_MAX, listing).await.expect("it catches up")
            }
        }
    };
    held.release();
    assert_eq!(code, 0);
    let is_done = known == Some(vec![second.id()]);
    assert!(moved == 1 || is_done, "nothing is on its way, and the replicas are {known:?}");
    for node in [second, first] {
        node.broker.stop().await;
    }
}
