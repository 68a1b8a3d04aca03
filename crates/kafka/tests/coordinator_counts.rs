//! What coordinators look after, among the metrics.

mod common;

use std::time::Duration;

use common::*;
use logway_client::Connection;
use logway_wire::WireString;
use logway_wire::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use logway_wire::messages::consumer_group_heartbeat_request::ConsumerGroupHeartbeatRequest;
use logway_wire::messages::{
    AddPartitionsToTxnRequest, EndTxnRequest, FindCoordinatorRequest, InitProducerIdRequest,
};

const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;

/// Has the topic of a coordinator be made.
async fn find_coordinator(connection: &Connection, key: &str, key_type: i8) {
    let find = FindCoordinatorRequest {
        key_type,
        coordinator_keys: vec![WireString::copy_of(key)],
        ..Default::default()
    };
    connection.call(&find).await.expect("is answered");
}

/// Asks until there is no error: a shard may have to be loaded.
async fn until_well<T, F: Future<Output = (i16, T)>>(ask: impl Fn() -> F) -> T {
    let asking = async {
        loop {
            let (code, answer) = ask().await;
            if code == 0 {
                return answer;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), asking).await.expect("in time")
}

async fn join(connection: &Connection, group: &str) {
    find_coordinator(connection, group, GROUP).await;
    let heartbeat = ConsumerGroupHeartbeatRequest {
        group_id: WireString::copy_of(group),
        member_id: WireString::copy_of("m"),
        member_epoch: 0,
        rebalance_timeout_ms: 60_000,
        subscribed_topic_names: Some(vec![WireString::copy_of("t")]),
        topic_partitions: Some(Vec::new()),
        ..Default::default()
    };
    until_well(async || {
        let response = connection.call(&heartbeat).await.expect("is answered");
        (response.error_code, ())
    })
    .await;
}

/// Opens a transaction. Gives the producer's id and epoch.
async fn open_transaction(connection: &Connection, id: &str) -> (i64, i16) {
    find_coordinator(connection, id, TRANSACTION).await;
    let init = InitProducerIdRequest {
        transactional_id: Some(WireString::copy_of(id)),
        transaction_timeout_ms: 60_000,
        ..Default::default()
    };
    let (producer_id, producer_epoch) = until_well(async || {
        let response = connection.call(&init).await.expect("is answered");
        (response.error_code, (response.producer_id, response.producer_epoch))
    })
    .await;
    let topic = AddPartitionsToTxnTopic {
        name: WireString::copy_of("t"),
        partitions: vec![0],
        ..Default::default()
    };
    let add = AddPartitionsToTxnRequest {
        v3_and_below_transactional_id: WireString::copy_of(id),
        v3_and_below_producer_id: producer_id,
        v3_and_below_producer_epoch: producer_epoch,
        v3_and_below_topics: vec![topic],
        ..Default::default()
    };
    until_well(async || {
        let pending = connection.send(&add, 3).await.expect("is sent");
        let response = pending.response().await.expect("is answered");
        let results = &response.results_by_topic_v3_and_below[0].results_by_partition;
        (results[0].partition_error_code, ())
    })
    .await;
    (producer_id, producer_epoch)
}

async fn end_transaction(connection: &Connection, id: &str, commits: bool) {
    let (producer_id, producer_epoch) = open_transaction(connection, id).await;
    let end = EndTxnRequest {
        transactional_id: WireString::copy_of(id),
        producer_id,
        producer_epoch,
        committed: commits,
        ..Default::default()
    };
    until_well(async || {
        let response = connection.call(&end).await.expect("is answered");
        (response.error_code, ())
    })
    .await;
}

#[tokio::test]
async fn groups_members_rebalances_and_transactions_are_counted() {
    let dir = tempfile::tempdir().expect("a directory");
    let settings =
        [("offsets.topic.num.partitions", "3"), ("transaction.state.log.num.partitions", "3")];
    let broker = TestBroker::start_with(dir.path(), &settings).await;
    let connection = broker.connect().await;
    create_topic(&connection, "t", 1).await;
    for group in ["a", "b"] {
        join(&connection, group).await;
    }
    end_transaction(&connection, "done", true).await;
    end_transaction(&connection, "given-up", false).await;
    open_transaction(&connection, "open").await;
    broker.refresh_metrics().await;
    let metrics = broker.metrics();
    for line in [
        r#"logway_group_members{type="consumer"} 2"#,
        r#"logway_group_members{type="classic"} 0"#,
        r#"logway_group_rebalances_total{type="consumer"} 2"#,
        r#"logway_group_rebalances_total{type="streams"} 0"#,
        r#"logway_transactional_ids{state="Ongoing"} 1"#,
        r#"logway_log_open_transactions 0"#,
    ] {
        assert!(metrics.lines().any(|it| it == line), "{line} of {metrics}");
    }
    let of_groups = metrics.lines().filter(|it| it.starts_with("logway_groups{"));
    let groups: u32 = of_groups
        .map(|line| line.rsplit_once(' ').expect("has a value").1.parse::<u32>().expect("a number"))
        .sum();
    assert_eq!(groups, 2, "{metrics}");
    // The markers come after the answer.
    let ended = async {
        for line in [
            r#"logway_transactions_ended_total{outcome="commit"} 1"#,
            r#"logway_transactions_ended_total{outcome="abort"} 1"#,
        ] {
            while !broker.metrics().lines().any(|it| it == line) {
                tokio::task::yield_now().await;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), ended).await.expect("in time");
    broker.stop().await;
}
