//! When clients see what is being made.

mod common;

use common::*;
use logway_client::Connection;
use logway_model::ErrorCode;
use logway_wire::messages::CreateTopicsRequest;
use logway_wire::messages::create_topics_request::CreatableTopic;
use tokio::task::JoinHandle;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_is_shown_when_it_can_be_written_to() {
    const TOPICS: usize = 8;
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let (maker, watcher) = (broker.connect().await, broker.connect().await);
    let making = tokio::spawn(async move {
        for number in 0..TOPICS {
            create_topic(&maker, &format!("topic-{number}"), 20).await;
        }
    });
    loop {
        let is_made = making.is_finished();
        let metadata = watcher.call(&metadata_request()).await.expect("is answered");
        for topic in &metadata.topics {
            let leaderless = topic.partitions.iter().filter(|partition| partition.leader_id < 0);
            assert_eq!(leaderless.count(), 0, "{:?}", topic.name);
        }
        if is_made {
            assert_eq!(metadata.topics.len(), TOPICS);
            break;
        }
    }
    making.await.expect("all are made");
    broker.stop().await;
}

const LARGE: &str = "large";

/// Begins to make a topic of very many partitions; returns when that is committed and under way.
async fn begin_large(broker: &TestBroker) -> (JoinHandle<i16>, Connection) {
    let (maker, other) = (broker.connect().await, broker.connect().await);
    let making = tokio::spawn(async move {
        let topic = CreatableTopic {
            name: LARGE.into(),
            num_partitions: 5_000,
            replication_factor: 1,
            ..Default::default()
        };
        let topics = vec![topic];
        let request = CreateTopicsRequest { topics, timeout_ms: 120_000, ..Default::default() };
        maker.call(&request).await.expect("is answered").topics[0].error_code
    });
    until(|| broker.node().image().topic(LARGE).is_some()).await;
    (making, other)
}

fn is_served(broker: &TestBroker, topic: &str) -> bool {
    broker.node().topics().by_name(topic).is_ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_of_many_partitions_holds_up_no_small_one() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let (making, other) = begin_large(&broker).await;
    create_topic(&other, "small", 1).await;
    assert!(!is_served(&broker, LARGE), "the small one has waited for the large one");
    assert_eq!(making.await.expect("did not panic"), 0);
    for partition in [0, 4_999] {
        assert_eq!(produce(&other, LARGE, partition, batch(&["x"])).await.error_code, 0);
    }
    broker.stop().await;
}

/// Another broker may know of a topic before this one serves it, and send clients here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_that_is_being_made_is_not_unknown() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let (making, other) = begin_large(&broker).await;
    let mut told = Vec::new();
    while !is_served(&broker, LARGE) {
        told.push(produce(&other, LARGE, 4_999, batch(&["x"])).await.error_code);
    }
    // The last one may have come just in time.
    told.pop();
    let not_leader = ErrorCode::NotLeaderOrFollower.code();
    assert!(!told.is_empty() && told.iter().all(|code| *code == not_leader), "{told:?}");
    let unknown = produce(&other, LARGE, 5_000, batch(&["x"])).await;
    assert_eq!(unknown.error_code, ErrorCode::UnknownTopicOrPartition.code());
    assert_eq!(making.await.expect("did not panic"), 0);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_that_is_deleted_while_it_is_made_leaves_no_logs() {
    let dir = tempfile::tempdir().expect("a directory");
    let settings = [("log.segment.delete.delay.ms", "0")];
    let broker = TestBroker::start_with(dir.path(), &settings).await;
    let (making, other) = begin_large(&broker).await;
    // So that some of its logs are there.
    create_topic(&other, "small", 1).await;
    delete_topic(&other, LARGE).await;
    assert_eq!(making.await.expect("did not panic"), 0);
    // Of another id.
    create_topic(&other, LARGE, 2).await;
    assert_eq!(produce(&other, LARGE, 1, batch(&["x"])).await.error_code, 0);
    let names = || {
        let entries = std::fs::read_dir(dir.path()).expect("can be read");
        let names = entries.map(|entry| entry.expect("is there").file_name());
        let names = names.map(|name| name.to_string_lossy().into_owned());
        names.filter(|name| name.starts_with(LARGE)).collect::<Vec<_>>()
    };
    until(|| names().len() == 2).await;
    broker.stop().await;
}
