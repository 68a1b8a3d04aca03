//! Topics that are made, enlarged and deleted.

use logway_model::{ErrorCode, Uuid};
use logway_wire::messages::create_partitions_request::CreatePartitionsTopic;
use logway_wire::messages::create_topics_request::CreatableTopic;
use logway_wire::messages::delete_topics_request::DeleteTopicState;
use logway_wire::messages::{
    CreatePartitionsRequest, CreatePartitionsResponse, CreateTopicsRequest, CreateTopicsResponse,
    DeleteTopicsRequest, DeleteTopicsResponse,
};

use super::TOPIC;
use super::common::probe::Probe;

const INVALID: ErrorCode = ErrorCode::InvalidRequest;

pub(crate) async fn refused(probe: &mut Probe, id: Uuid) {
    let new = |name: &'static str| CreatableTopic {
        name: name.into(),
        num_partitions: 1,
        replication_factor: 1,
        ..Default::default()
    };
    let create = |names: &'static [&'static str]| {
        move |_| CreateTopicsRequest {
            topics: names.iter().map(|name| new(name)).collect(),
            timeout_ms: 10_000,
            ..Default::default()
        }
    };
    let created = |_, response: CreateTopicsResponse| {
        response.topics.iter().map(|topic| topic.error_code).collect()
    };
    let asked = "Create Cluster, Create Topic(new), Create Topic(named)";
    probe.told(create(&["new", "named"]), created, TOPIC, asked).await;
    // What nobody may do is said first, as in Kafka.
    let asked = "Create Cluster, Create Topic(new)";
    probe.told(create(&["new", "new"]), created, INVALID, asked).await;

    let enlarge = |count| {
        move |_| {
            let topic = CreatePartitionsTopic {
                name: "named".into(),
                count: 2,
                assignments: None,
                ..Default::default()
            };
            CreatePartitionsRequest {
                topics: vec![topic; count],
                timeout_ms: 10_000,
                ..Default::default()
            }
        }
    };
    let enlarged = |_, response: CreatePartitionsResponse| {
        response.results.iter().map(|topic| topic.error_code).collect()
    };
    probe.told(enlarge(1), enlarged, TOPIC, "Alter Topic(named)").await;
    probe.told(enlarge(2), enlarged, INVALID, "Alter Topic(named)").await;

    let delete = |version| match version {
        6.. => DeleteTopicsRequest {
            topics: vec![by_name("named"), by_name("absent")],
            timeout_ms: 10_000,
            ..Default::default()
        },
        _ => DeleteTopicsRequest {
            topic_names: vec!["named".into(), "absent".into()],
            timeout_ms: 10_000,
            ..Default::default()
        },
    };
    let deleted = |_, response: DeleteTopicsResponse| {
        response.responses.iter().map(|topic| topic.error_code).collect()
    };
    let asked = "Delete Cluster, Describe Topic(named), Describe Topic(absent)";
    probe.told(delete, deleted, TOPIC, asked).await;

    let by_id = |_| DeleteTopicsRequest {
        topics: vec![DeleteTopicState { name: None, topic_id: id, ..Default::default() }],
        timeout_ms: 10_000,
        ..Default::default()
    };
    let hides_name = |_, response: DeleteTopicsResponse| {
        assert_eq!((&response.responses[0].name, response.responses[0].topic_id), (&None, id));
        vec![response.responses[0].error_code]
    };
    let asked = "Delete Cluster, Delete Topic(named), Describe Topic(named)";
    probe.told_from(6, by_id, hides_name, TOPIC, asked).await;
    let unknown = Uuid([7; 16]);
    let by_unknown_id = |_| DeleteTopicsRequest {
        topics: vec![DeleteTopicState { name: None, topic_id: unknown, ..Default::default() }],
        timeout_ms: 10_000,
        ..Default::default()
    };
    let code = ErrorCode::UnknownTopicId;
    probe.told_from(6, by_unknown_id, deleted, code, "Delete Cluster").await;
}

fn by_name(name: &'static str) -> DeleteTopicState {
    DeleteTopicState { name: Some(name.into()), ..Default::default() }
}
