//! ACLs: made, shown and removed as by Kafka's tools, and in force at once.

use logway_client::{Connection, Security};
use logway_metadata::ConfigResource;
use logway_metadata::sasl::SaslMechanism;
use logway_model::{ErrorCode, TopicName};
use logway_wire::WireString;
use logway_wire::messages::create_acls_request::AclCreation;
use logway_wire::messages::create_topics_request::CreatableTopic;
use logway_wire::messages::delete_acls_request::DeleteAclsFilter;
use logway_wire::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use logway_wire::messages::metadata_request::MetadataRequestTopic;
use logway_wire::messages::{
    CreateAclsRequest, CreateTopicsRequest, DeleteAclsRequest, DescribeAclsRequest,
    DescribeAclsResponse, IncrementalAlterConfigsRequest, MetadataRequest,
};

use super::common::*;
use super::{PASSWORD, add_user, connect_to, password};

const ANY: i8 = 1;
const TOPIC: i8 = 2;
const CLUSTER: i8 = 4;
const LITERAL: i8 = 3;
const PREFIXED: i8 = 4;
const MATCH: i8 = 2;
const READ: i8 = 3;
const WRITE: i8 = 4;
const DENY: i8 = 2;
const ALLOW: i8 = 3;

async fn start(dir: &std::path::Path) -> (TestBroker, Connection, Connection) {
    let settings = [
        ("listeners", "SASL_PLAINTEXT://127.0.0.1:0"),
        ("sasl.enabled.mechanisms", "PLAIN"),
        ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
        ("super.users", "User:admin"),
    ];
    let broker = TestBroker::start_with(dir, &settings).await;
    for user in ["admin", "alice"] {
        add_user(&broker, user, PASSWORD).await;
    }
    let connect = async |user| {
        let password = Some(password(SaslMechanism::Plain, user, PASSWORD));
        connect_to(broker.address, Security { tls: None, password }).await.expect("is let in")
    };
    let (admin, alice) = (connect("admin").await, connect("alice").await);
    (broker, admin, alice)
}

fn allow(name: &'static str, pattern: i8, operation: i8, permission: i8) -> AclCreation {
    AclCreation {
        resource_type: TOPIC,
        resource_name: name.into(),
        resource_pattern_type: pattern,
        principal: "User:alice".into(),
        host: "*".into(),
        operation,
        permission_type: permission,
        ..Default::default()
    }
}

async fn create(connection: &Connection, creations: Vec<AclCreation>) -> Vec<i16> {
    let request = CreateAclsRequest { creations, ..Default::default() };
    let created = connection.call(&request).await.expect("is answered").results;
    created.iter().map(|result| result.error_code).collect()
}

async fn describe(
    connection: &Connection,
    name: Option<&'static str>,
    pattern: i8,
) -> DescribeAclsResponse {
    let request = DescribeAclsRequest {
        resource_type_filter: TOPIC,
        resource_name_filter: name.map(WireString::from_static),
        pattern_type_filter: pattern,
        principal_filter: None,
        host_filter: None,
        operation: ANY,
        permission_type: ANY,
        ..Default::default()
    };
    connection.call(&request).await.expect("is answered")
}

async fn delete(connection: &Connection, operation: i8) -> usize {
    let filter = DeleteAclsFilter {
        resource_type_filter: TOPIC,
        resource_name_filter: None,
        pattern_type_filter: ANY,
        principal_filter: None,
        host_filter: None,
        operation,
        permission_type: ANY,
        ..Default::default()
    };
    let request = DeleteAclsRequest { filters: vec![filter], ..Default::default() };
    let deleted = connection.call(&request).await.expect("is answered").filter_results;
    assert_eq!(deleted[0].error_code, 0);
    deleted[0].matching_acls.len()
}

async fn may_write(connection: &Connection, topic: &str) -> bool {
    let code = produce(connection, topic, 0, batch(&["a"])).await.error_code;
    assert!([0, ErrorCode::TopicAuthorizationFailed.code()].contains(&code), "{code}");
    code == 0
}

#[tokio::test(flavor = "multi_thread")]
async fn what_acls_say_is_in_force_when_it_is_answered() {
    let dir = tempfile::tempdir().expect("a directory");
    let (broker, admin, alice) = start(dir.path()).await;
    for topic in ["orders", "orders-old", "other"] {
        create_topic(&admin, topic, 1).await;
    }
    assert!(!may_write(&alice, "orders").await);
    assert_eq!(create(&admin, vec![allow("orders", LITERAL, WRITE, ALLOW)]).await, [0]);
    assert!(may_write(&alice, "orders").await && !may_write(&alice, "orders-old").await);
    assert_eq!(create(&admin, vec![allow("ord", PREFIXED, WRITE, ALLOW)]).await, [0]);
    assert!(may_write(&alice, "orders-old").await && !may_write(&alice, "other").await);
    assert_eq!(create(&admin, vec![allow("*", LITERAL, WRITE, DENY)]).await, [0]);
    assert!(!may_write(&alice, "orders").await);
    assert_eq!(delete(&admin, WRITE).await, 3);
    assert_eq!(delete(&admin, WRITE).await, 0);
    assert!(!may_write(&alice, "orders").await);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn topics_that_one_may_not_describe_are_not_shown() {
    let dir = tempfile::tempdir().expect("a directory");
    let (broker, admin, alice) = start(dir.path()).await;
    for topic in ["hidden", "shown"] {
        create_topic(&admin, topic, 1).await;
    }
    assert_eq!(create(&admin, vec![allow("shown", LITERAL, READ, ALLOW)]).await, [0]);
    let all = MetadataRequest { topics: None, ..Default::default() };
    let told = alice.call(&all).await.expect("is answered").topics;
    let names: Vec<_> = told.iter().filter_map(|topic| topic.name.as_deref()).collect();
    assert_eq!(names, ["shown"]);
    let ask =
        |name: &'static str| MetadataRequestTopic { name: Some(name.into()), ..Default::default() };
    let named = MetadataRequest {
        topics: Some(vec![ask("hidden"), ask("absent")]),
        include_topic_authorized_operations: true,
        ..Default::default()
    };
    let told = alice.call(&named).await.expect("is answered").topics;
    let refused = ErrorCode::TopicAuthorizationFailed.code();
    assert!(told.iter().all(|topic| topic.error_code == refused), "{told:?}");
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn acls_are_shown_by_filter_and_only_to_who_may_see_them() {
    let dir = tempfile::tempdir().expect("a directory");
    let (broker, admin, alice) = start(dir.path()).await;
    let acls = vec![
        allow("orders", LITERAL, READ, ALLOW),
        allow("orders", LITERAL, WRITE, ALLOW),
        allow("ord", PREFIXED, READ, DENY),
        allow("*", LITERAL, READ, ALLOW),
        allow("other", LITERAL, READ, ALLOW),
    ];
    assert_eq!(create(&admin, acls).await, [0; 5]);
    let names = |told: DescribeAclsResponse| {
        let resources = told.resources.into_iter();
        resources.map(|it| (it.resource_name.to_string(), it.acls.len())).collect::<Vec<_>>()
    };
    let pairs = |expected: &[(&str, usize)]| {
        expected.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect::<Vec<_>>()
    };
    let all = names(describe(&admin, None, ANY).await);
    assert_eq!(all, pairs(&[("*", 1), ("orders", 2), ("other", 1), ("ord", 1)]));
    let exact = names(describe(&admin, Some("orders"), LITERAL).await);
    assert_eq!(exact, pairs(&[("orders", 2)]));
    let about = names(describe(&admin, Some("orders"), MATCH).await);
    assert_eq!(about, pairs(&[("*", 1), ("orders", 2), ("ord", 1)]));

    let refused = ErrorCode::ClusterAuthorizationFailed.code();
    assert_eq!(describe(&alice, None, ANY).await.error_code, refused);
    assert_eq!(create(&alice, vec![allow("a", LITERAL, READ, ALLOW)]).await, [refused]);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn acls_that_make_no_sense_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let (broker, admin, _) = start(dir.path()).await;
    let good = || allow("orders", LITERAL, READ, ALLOW);
    let wrong = vec![
        AclCreation { resource_type: 0, ..good() },
        AclCreation { resource_type: ANY, ..good() },
        AclCreation { resource_pattern_type: MATCH, ..good() },
        AclCreation { operation: ANY, ..good() },
        AclCreation { permission_type: 7, ..good() },
        AclCreation { resource_name: "".into(), ..good() },
        AclCreation { principal: "alice".into(), ..good() },
        AclCreation { host: "".into(), ..good() },
        AclCreation { resource_type: CLUSTER, ..good() },
        AclCreation { operation: 9, ..good() },
    ];
    let codes = create(&admin, wrong).await;
    assert_eq!(codes, [ErrorCode::InvalidRequest.code(); 10]);
    assert_eq!(broker.node().image().acls().count(), 0);
    broker.stop().await;
}

/// What a request has twice is refused, and of two things that are judged together not one is done: nobody was asked for
/// either.
#[tokio::test(flavor = "multi_thread")]
async fn who_asks_twice_for_what_he_may_not_gets_neither() {
    let dir = tempfile::tempdir().expect("a directory");
    let (broker, admin, alice) = start(dir.path()).await;
    create_topic(&admin, "t", 1).await;
    let config = |config_operation| AlterableConfig {
        name: "retention.ms".into(),
        config_operation,
        value: Some("1".into()),
        ..Default::default()
    };
    for (resource_type, resource_name) in [(2, "t"), (4, "")] {
        // An operation that there is not, and one that there is.
        let resources = [9, 0].map(|operation| AlterConfigsResource {
            resource_type,
            resource_name: resource_name.into(),
            configs: vec![config(operation)],
            ..Default::default()
        });
        let request =
            IncrementalAlterConfigsRequest { resources: resources.to_vec(), ..Default::default() };
        let responses = alice.call(&request).await.expect("is answered").responses;
        assert_eq!(responses.len(), 2);
        for response in responses {
            assert_eq!(response.error_code, ErrorCode::InvalidRequest.code());
        }
    }
    let image = broker.node().image();
    let t = TopicName::new("t").expect("a legal name");
    let of_topic = image.overrides(&ConfigResource::Topic(t));
    assert!(of_topic.is_none_or(|overrides| !overrides.contains_key("retention.ms")));
    assert!(image.overrides(&ConfigResource::BrokerDefault).is_none_or(|it| it.is_empty()));

    let topic = CreatableTopic {
        name: "made".into(),
        num_partitions: 1,
        replication_factor: 1,
        ..Default::default()
    };
    let topics = vec![topic.clone(), topic];
    let request = CreateTopicsRequest { topics, timeout_ms: 10_000, ..Default::default() };
    alice.call(&request).await.expect("is answered");
    assert!(broker.node().image().topic("made").is_none());
    broker.stop().await;
}
