//! Appends that the network threads write themselves: to topics that need no sync.

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use common::disks::Disks;
use common::failing_disk::FailingDisk;
use common::*;
use logway_model::Offset;

const PATIENCE: Duration = Duration::from_secs(20);

const UNSYNCED: &[(&str, &str)] = &[("flush.messages", "9223372036854775807")];

/// Some connections send many requests at once: small ones and large ones, to topics that need a sync and to those that
/// need none, and others in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_of_many_connections_are_answered_in_their_order_and_all_there() {
    const CONNECTIONS: usize = 6;
    const REQUESTS: usize = 150;
    const TOPICS: [&str; 2] = ["unsynced", "synced"];
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let admin = broker.connect().await;
    create_topic_with(&admin, "unsynced", 2, UNSYNCED).await;
    create_topic(&admin, "synced", 2).await;

    let sender = |number: usize, connection: logway_client::Connection| async move {
        let mut pending = Vec::new();
        let mut sent = Vec::new();
        for index in 0..REQUESTS {
            let is_synced = index % 11 == 10;
            let is_large = index % 17 == 16;
            let partition = (index / 3 % 2) as i32;
            let filling = "x".repeat(if is_large { 100_000 } else { 100 });
            let value = format!("{number}/{index}/{filling}");
            let topic = TOPICS[usize::from(is_synced)];
            let request = produce_request(topic, partition, batch(&[&value]));
            pending.push(connection.send(&request, 12).await.expect("is sent"));
            if index % 50 == 20 {
                connection.call(&metadata_request()).await.expect("is answered");
            }
            sent.push((topic, partition, value));
        }
        let mut appended = Vec::new();
        for (answer, (topic, partition, value)) in pending.into_iter().zip(sent) {
            let answer = answer.response().await.expect("is answered");
            let answer = &answer.responses[0].partition_responses[0];
            assert_eq!(answer.error_code, 0, "{:?}", answer.error_message);
            appended.push((topic, partition, Offset(answer.base_offset), value));
        }
        appended
    };
    let mut senders = Vec::new();
    for number in 0..CONNECTIONS {
        senders.push(tokio::spawn(sender(number, broker.connect().await)));
    }
    let mut appended = BTreeSet::new();
    for sender in senders {
        let of_one = tokio::time::timeout(PATIENCE, sender).await.expect("in time");
        let of_one = of_one.expect("no panic");
        for (topic, partition) in TOPICS.into_iter().flat_map(|topic| [(topic, 0), (topic, 1)]) {
            let offsets = of_one.iter().filter(|(t, p, ..)| (*t, *p) == (topic, partition));
            assert!(offsets.map(|(_, _, offset, _)| offset).is_sorted(), "as they were sent");
        }
        appended.extend(of_one);
    }
    assert_eq!(appended.len(), CONNECTIONS * REQUESTS);

    let mut found = BTreeSet::new();
    for (topic, partition) in TOPICS.into_iter().flat_map(|topic| [(topic, 0), (topic, 1)]) {
        let mut next = 0;
        loop {
            let read = values(&fetch(&admin, topic, partition, next).await);
            let Some((last, _)) = read.last() else { break };
            next = last.0 + 1;
            found.extend(read.into_iter().map(|(offset, value)| (topic, partition, offset, value)));
        }
    }
    assert!(found == appended, "all is there once, where it was said to be");
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_disk_holds_one_up_others_are_served() {
    let disks = Disks::new();
    let disk = FailingDisk::new(&disks.a);
    let broker = disks.try_start(Arc::new(disk.clone())).await.expect("starts");
    let (sender, other) = (broker.connect().await, broker.connect().await);
    create_topic_with(&sender, "t", 2, UNSYNCED).await;
    for index in 0..20 {
        assert_eq!(produce(&sender, "t", index % 2, batch(&["before"])).await.error_code, 0);
    }
    disk.hold_writes_after("/a/t-", 0);
    let partition = i32::from(!disks.a.join("t-0").exists());
    let waiting =
        tokio::spawn(async move { produce(&sender, "t", partition, batch(&["held up"])).await });
    until(|| disk.holds()).await;
    for _ in 0..20 {
        let served = tokio::time::timeout(PATIENCE, other.call(&metadata_request())).await;
        served.expect("in time").expect("is answered");
    }
    assert!(!waiting.is_finished());
    disk.release();
    assert_eq!(waiting.await.expect("no panic").error_code, 0);
    broker.stop().await;
}
