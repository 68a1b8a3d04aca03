//! The level of the metadata, by Kafka's protocol: it rises when each node knows the new one.

mod common;

use std::path::Path;

use common::cluster::{TestNode, until};
use logway_client::Connection;
use logway_metadata::controller::{
    ConfigOperation, IncrementalAlterConfigs, OperationKind, ResourceOperations,
};
use logway_metadata::record::ConfigResource;
use logway_metadata::settings::broker::AUTO_FINALIZE_SETTING;
use logway_metadata::{METADATA_FEATURE, MetadataLevel};
use logway_model::ErrorCode;
use logway_wire::messages::update_features_request::FeatureUpdateKey;
use logway_wire::messages::{
    ApiVersionsRequest, ApiVersionsResponse, UpdateFeaturesRequest, UpdateFeaturesResponse,
};

const OLDER: MetadataLevel = MetadataLevel::CLUSTER;
const NEWEST: MetadataLevel = MetadataLevel::NEWEST;

fn to(level: MetadataLevel) -> UpdateFeaturesRequest {
    let update = FeatureUpdateKey {
        feature: METADATA_FEATURE.into(),
        max_version_level: level.0,
        ..Default::default()
    };
    UpdateFeaturesRequest { feature_updates: vec![update], ..Default::default() }
}

async fn update(connection: &Connection, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse {
    connection.call(&request).await.expect("is answered")
}

async fn refused(connection: &Connection, request: UpdateFeaturesRequest) -> String {
    let response = update(connection, request).await;
    assert_eq!(response.error_code, ErrorCode::InvalidUpdateVersion.code());
    response.error_message.expect("says why").to_string()
}

/// The level that a broker tells of, and the epoch of that.
async fn finalized(connection: &Connection) -> (Option<i16>, i64) {
    let request = ApiVersionsRequest {
        client_software_name: "test".into(),
        client_software_version: "1".into(),
        ..Default::default()
    };
    let response: ApiVersionsResponse = connection.call(&request).await.expect("is answered");
    let known = response.supported_features.iter().find(|it| it.name.as_str() == METADATA_FEATURE);
    assert_eq!(known.map(|it| it.max_version), Some(NEWEST.0));
    let mut finalized = response.finalized_features.iter();
    let level = finalized.find(|it| it.name.as_str() == METADATA_FEATURE);
    (level.map(|it| it.max_version_level), response.finalized_features_epoch)
}

/// Three nodes, which all vote, of a cluster that is at the older level.
async fn older(dir: &Path) -> Vec<TestNode> {
    let first = TestNode::start(&dir.join("1"), &[]).await;
    let connection = first.broker.connect().await;
    assert_eq!(finalized(&connection).await.0, None);
    assert_eq!(update(&connection, to(OLDER)).await.error_code, 0);
    let second = TestNode::start(&dir.join("2"), &[&first.address]).await;
    let third = TestNode::start(&dir.join("3"), &[&first.address]).await;
    let nodes = vec![first, second, third];
    for node in &nodes {
        let node = node.broker.node();
        until("all three vote", || node.quorum.status().voters.len() == 3).await;
        assert_eq!(node.image().metadata_level(), OLDER, "a join raises no level that is chosen");
    }
    nodes
}

/// Waits until each node has the newest level.
async fn until_newest(nodes: &[TestNode]) {
    let knows = |node: &TestNode| node.broker.node().image().metadata_level() == NEWEST;
    until("the newest level is finalised", || nodes.iter().all(knows)).await;
}

async fn stop(nodes: Vec<TestNode>) {
    for node in nodes {
        node.broker.stop().await;
    }
}

#[tokio::test]
async fn a_level_rises_when_each_node_knows_it_and_never_falls() {
    let dir = tempfile::tempdir().expect("a directory");
    let nodes = older(dir.path()).await;
    let connection = nodes[1].broker.connect().await;
    let (level, before) = finalized(&connection).await;
    assert_eq!(level, Some(OLDER.0));

    let unknown = refused(&connection, to(MetadataLevel(NEWEST.0 + 1))).await;
    assert!(unknown.ends_with("this node knows the levels 0 to 2"), "{unknown}");
    let dry = UpdateFeaturesRequest { validate_only: true, ..to(NEWEST) };
    assert_eq!(update(&connection, dry).await.error_code, 0);
    assert_eq!(finalized(&connection).await.0, Some(OLDER.0), "it was only asked");

    assert_eq!(update(&connection, to(NEWEST)).await.error_code, 0);
    let (level, after) = finalized(&connection).await;
    assert_eq!(level, Some(NEWEST.0));
    assert!(after > before, "clients take the newer one: {before}, {after}");
    until_newest(&nodes).await;

    assert_eq!(update(&connection, to(NEWEST)).await.error_code, 0, "it is so");
    let mut back = to(OLDER);
    assert!(refused(&connection, back.clone()).await.contains("Can't downgrade"));
    for downgrade in [2, 3] {
        back.feature_updates[0].upgrade_type = downgrade;
        let said = refused(&connection, back.clone()).await;
        assert!(said.ends_with("level 2 is finalised, and there is no way back from it"), "{said}");
    }
    stop(nodes).await;
}

#[tokio::test]
async fn a_node_that_does_not_answer_keeps_the_level() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut nodes = older(dir.path()).await;
    // One that does not lead the quorum, so that its end costs no election.
    let leader = nodes[0].broker.node().quorum.status().leader;
    let away = nodes.iter().position(|node| Some(node.id()) != leader).expect("there are three");
    let away = nodes.remove(away);
    let id = away.id();
    away.broker.stop().await;
    let connection = nodes[0].broker.connect().await;
    let said = refused(&connection, to(NEWEST)).await;
    let expected = format!(
        "node {id} does not tell which levels it knows; it is away, or of an older version"
    );
    assert!(said.ends_with(&expected), "{said}");
    assert_eq!(nodes[0].broker.node().image().metadata_level(), OLDER);
    stop(nodes).await;
}

#[tokio::test]
async fn a_level_rises_by_itself_where_a_setting_says_so() {
    let dir = tempfile::tempdir().expect("a directory");
    let nodes = older(dir.path()).await;
    let value = Some("1".to_owned());
    let name = AUTO_FINALIZE_SETTING.to_owned();
    let operations = vec![ConfigOperation { name, kind: OperationKind::Set, value }];
    let resource = ConfigResource::BrokerDefault;
    let resources = vec![ResourceOperations { resource, operations }];
    let set = IncrementalAlterConfigs { resources, validate_only: false };
    let outcomes = nodes[0].broker.node().submit(set, None, None).await.expect("is committed");
    assert_eq!(outcomes, [Ok(())]);
    until_newest(&nodes).await;
    stop(nodes).await;
}
