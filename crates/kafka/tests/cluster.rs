//! Nodes that hold the same records.

mod common;

use common::cluster::{TestNode, three_nodes, until};
use common::{batch, create_replicated, fetch, produce, values};
use logway_model::{BrokerId, Offset, PartitionId, TopicName, TopicPartition};

const TWO_IN_SYNC: &[(&str, &str)] = &[("min.insync.replicas", "2")];

fn partition(name: &str, number: i32) -> TopicPartition {
    TopicPartition::new(TopicName::new(name).expect("a legal name"), PartitionId(number))
}

/// Who leads a partition, as a node knows.
fn leader(node: &TestNode, of: &TopicPartition) -> Option<BrokerId> {
    node.broker.node().image().topic(of.topic.as_str())?.partition(of.partition)?.leader
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
    let mut nodes = three_nodes(dir.path()).await;
    let of = partition("t", 0);
    let connection = nodes[0].broker.connect().await;
    create_replicated(&connection, "t", 1, 3, TWO_IN_SYNC).await;
    until("somebody leads", || nodes.iter().all(|node| leader(node, &of).is_some())).await;
    let first = leader(&nodes[0], &of).expect("somebody leads");
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
    let second = leader(&nodes[0], &of).expect("somebody leads");
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
    let mut nodes = three_nodes(dir.path()).await;
    let of = partition("t", 0);
    let connection = nodes[0].broker.connect().await;
    create_replicated(&connection, "t", 1, 3, TWO_IN_SYNC).await;
    until("somebody leads", || nodes.iter().all(|node| leader(node, &of).is_some())).await;
    let first = leader(&nodes[0], &of).expect("somebody leads");
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
