//! Somebody who may do nothing: each API refuses with Kafka's code, tells no name that was not asked for, changes
//! nothing, and has asked for the permission that Kafka demands, in Kafka's order. And somebody who may do a part.

#[path = "../common/mod.rs"]
mod common;

mod about_groups;
mod about_records;
mod about_settings;
mod about_the_cluster;
mod about_topics;
mod about_transactions;
mod in_part;
mod what_there_is;

use std::collections::BTreeSet;
use std::sync::Arc;

use common::probe::Probe;
use common::*;
use logway_client::Connection;
use logway_metadata::MetadataImage;
use logway_model::{ErrorCode, Offset, Uuid};
use logway_wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use logway_wire::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use logway_wire::messages::{
    ApiVersionsRequest, FindCoordinatorRequest, OffsetCommitRequest, OffsetFetchRequest,
};

const CLUSTER: ErrorCode = ErrorCode::ClusterAuthorizationFailed;
const GROUP: ErrorCode = ErrorCode::GroupAuthorizationFailed;
const TOPIC: ErrorCode = ErrorCode::TopicAuthorizationFailed;
const TRANSACTIONAL_ID: ErrorCode = ErrorCode::TransactionalIdAuthorizationFailed;

/// Where a version has topics by id.
fn by_id(version: i16, first: i16, id: Uuid) -> Uuid {
    if version >= first { id } else { Uuid::ZERO }
}

/// A broker with topics and groups `named` and `hidden`, and a requester who may do nothing.
async fn refused_requester(broker: &TestBroker) -> (Probe, Uuid) {
    let connection = broker.connect().await;
    for topic in ["named", "hidden"] {
        create_topic(&connection, topic, 1).await;
        assert_eq!(produce(&connection, topic, 0, batch(&["a"])).await.error_code, 0);
        have_committed(&connection, &format!("{topic}-group"), topic).await;
    }
    let id = broker.node().image().topic("named").expect("is there").id.0;
    let mut probe = Probe::start(broker, |_, _| false).await;
    probe.secrets = vec!["hidden"];
    (probe, id)
}

/// Has a group that has read the first record of a topic. Its coordinator is found, and has loaded.
async fn have_committed(connection: &Connection, group: &str, topic: &str) {
    let coordinator_keys = vec![group.to_owned().into()];
    let find = FindCoordinatorRequest { coordinator_keys, ..Default::default() };
    let found = connection.call(&find).await.expect("is answered");
    assert_eq!(found.coordinators[0].error_code, 0);
    let attempt = async || {
        let pending = connection.send(&commit(group, topic), 9).await.expect("is sent");
        pending.response().await.expect("is answered").topics[0].partitions[0].error_code
    };
    let mut code = attempt().await;
    while code == ErrorCode::CoordinatorLoadInProgress.code() {
        code = attempt().await;
    }
    assert_eq!(code, 0);
}

fn commit(group: &str, topic: &str) -> OffsetCommitRequest {
    let partition = OffsetCommitRequestPartition { committed_offset: 1, ..Default::default() };
    OffsetCommitRequest {
        group_id: group.to_owned().into(),
        topics: vec![OffsetCommitRequestTopic {
            name: topic.to_owned().into(),
            partitions: vec![partition],
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// The committed offset of a group, asked by one who may.
async fn committed(broker: &TestBroker, group: &str, topic: &str) -> i64 {
    let topics = OffsetFetchRequestTopics {
        name: topic.to_owned().into(),
        partition_indexes: vec![0],
        ..Default::default()
    };
    let group = OffsetFetchRequestGroup {
        group_id: group.to_owned().into(),
        topics: Some(vec![topics]),
        ..Default::default()
    };
    let request = OffsetFetchRequest { groups: vec![group], ..Default::default() };
    let connection = broker.connect().await;
    let response = connection.send(&request, 9).await.expect("is sent").response().await;
    response.expect("is answered").groups[0].topics[0].partitions[0].committed_offset
}

/// The metadata, and where the log of `named` begins and ends.
fn state(broker: &TestBroker) -> (Arc<MetadataImage>, Offset, Offset) {
    let node = broker.node();
    let topic = Arc::clone(node.topics().by_name("named").expect("is there"));
    let log = Arc::clone(topic.partitions[0].as_ref().expect("is open")).log();
    (node.image(), log.log_start_offset(), log.log_end_offset())
}

#[tokio::test]
async fn who_may_do_nothing_is_refused_everywhere_and_changes_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let (mut probe, id) = refused_requester(&broker).await;
    let before = state(&broker);

    about_records::refused(&mut probe, id).await;
    what_there_is::refused(&mut probe, id).await;
    about_groups::refused(&mut probe, id).await;
    about_transactions::refused(&mut probe).await;
    about_topics::refused(&mut probe, id).await;
    about_settings::refused(&mut probe).await;
    about_the_cluster::refused(&mut probe).await;
    about_the_cluster::open_to_all(&mut probe).await;

    let after = state(&broker);
    assert!(Arc::ptr_eq(&before.0, &after.0), "the metadata was changed");
    assert_eq!((before.1, before.2), (after.1, after.2));
    // Every API that is announced has been asked.
    let versions = ApiVersionsRequest {
        client_software_name: "test".into(),
        client_software_version: "1".into(),
        ..Default::default()
    };
    let announced = probe.connection.call(&versions).await.expect("is answered").api_keys;
    let announced: BTreeSet<i16> = announced.iter().map(|api| api.api_key).collect();
    assert_eq!(announced, probe.used);
    broker.node().access.restrict(|_, _, _| true);
    assert_eq!(committed(&broker, "named-group", "named").await, 1);
    assert_eq!(committed(&broker, "hidden-group", "hidden").await, 1);
    broker.stop().await;
}
