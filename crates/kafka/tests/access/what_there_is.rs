//! What there is: metadata, in which what may not be described is left out.

use logway_model::Uuid;
use logway_wire::Request;
use logway_wire::messages::describe_topic_partitions_request::TopicRequest;
use logway_wire::messages::metadata_request::MetadataRequestTopic;
use logway_wire::messages::{
    DescribeClusterRequest, DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse,
    MetadataRequest, MetadataResponse,
};

use super::TOPIC;
use super::common::probe::Probe;

pub(crate) async fn refused(probe: &mut Probe, id: Uuid) {
    let topic = |name: Option<&'static str>, topic_id| MetadataRequestTopic {
        name: name.map(Into::into),
        topic_id,
        ..Default::default()
    };
    let told = |_, response: MetadataResponse| {
        assert!(response.topics.iter().all(|topic| topic.partitions.is_empty()));
        // It knows the code, and nothing more.
        let no_operations = |bits: i32| bits == i32::MIN || bits == 0;
        assert!(no_operations(response.cluster_authorized_operations));
        assert!(response.topics.iter().all(|t| t.topic_authorized_operations == i32::MIN));
        response.topics.iter().map(|topic| topic.error_code).collect()
    };
    let named = |version| MetadataRequest {
        topics: Some(vec![topic(Some("named"), Uuid::ZERO), topic(Some("absent"), Uuid::ZERO)]),
        include_topic_authorized_operations: version >= 8,
        ..Default::default()
    };
    probe.told(named, told, TOPIC, "Describe Topic(named), Describe Topic(absent)").await;
    let by_id = |_| MetadataRequest { topics: Some(vec![topic(None, id)]), ..Default::default() };
    let hides_name = |_, response: MetadataResponse| {
        assert_eq!((response.topics[0].name.as_ref(), response.topics[0].topic_id), (None, id));
        vec![response.topics[0].error_code]
    };
    probe.told_from(12, by_id, hides_name, TOPIC, "Describe Topic(named)").await;
    let all = |version| MetadataRequest {
        topics: if version == 0 { Some(Vec::new()) } else { None },
        include_cluster_authorized_operations: (8..=10).contains(&version),
        ..Default::default()
    };
    let tells_brokers = |version, response: MetadataResponse| {
        assert_eq!((response.topics.len(), response.brokers.len()), (0, 1));
        let operations = if (8..=10).contains(&version) { 0 } else { i32::MIN };
        vec![i16::from(response.cluster_authorized_operations != operations)]
    };
    for version in 0..=13 {
        let (response, asked) = probe.ask(&all(version), version).await;
        assert_eq!(tells_brokers(version, response), [0]);
        assert!(asked.starts_with("Describe Topic(__consumer_offsets), Describe Topic(hidden)"));
    }

    let described = |_, response: DescribeTopicPartitionsResponse| {
        assert!(response.topics.iter().all(|topic| topic.partitions.is_empty()));
        response.topics.iter().map(|topic| topic.error_code).collect()
    };
    let request = |name: &'static str| TopicRequest { name: name.into(), ..Default::default() };
    let describe = |_| DescribeTopicPartitionsRequest {
        topics: vec![request("named"), request("absent")],
        response_partition_limit: 1,
        ..Default::default()
    };
    probe.told(describe, described, TOPIC, "Describe Topic(absent), Describe Topic(named)").await;
    let all = DescribeTopicPartitionsRequest { response_partition_limit: 9, ..Default::default() };
    let (response, _) = probe.ask(&all, 0).await;
    assert_eq!((response.topics.len(), response.next_cursor), (0, None));

    for version in 0..=DescribeClusterRequest::API_KEY.latest_stable() {
        let request = DescribeClusterRequest {
            include_cluster_authorized_operations: true,
            endpoint_type: 1,
            ..Default::default()
        };
        let (response, asked) = probe.ask(&request, version).await;
        assert_eq!((response.error_code, response.brokers.len()), (0, 1));
        assert_eq!((response.cluster_authorized_operations, &*asked), (0, "Describe Cluster"));
    }
}
