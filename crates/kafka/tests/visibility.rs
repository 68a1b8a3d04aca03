//! When clients see what is being made.

mod common;

use common::*;

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
