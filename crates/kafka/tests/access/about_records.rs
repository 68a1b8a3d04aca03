//! Records: what producers, consumers and followers are told.

use logway_model::Uuid;
use logway_wire::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use logway_wire::messages::describe_producers_request::TopicRequest;
use logway_wire::messages::fetch_response::PartitionData;
use logway_wire::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use logway_wire::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use logway_wire::messages::{
    DeleteRecordsRequest, DeleteRecordsResponse, DescribeProducersRequest,
    DescribeProducersResponse, FetchResponse, InitProducerIdRequest, InitProducerIdResponse,
    ListOffsetsRequest, ListOffsetsResponse, OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse, ProduceRequest, ProduceResponse,
};

use super::common::probe::Probe;
use super::common::*;
use super::{CLUSTER, TOPIC, TRANSACTIONAL_ID, by_id};

pub(crate) async fn refused(probe: &mut Probe, id: Uuid) {
    let produced = |_, response: ProduceResponse| {
        let partitions = response.responses.iter().flat_map(|topic| &topic.partition_responses);
        partitions.map(|partition| partition.error_code).collect()
    };
    let produce = |version| {
        let mut request = produce_request("named", 0, batch(&["b"]));
        request.topic_data[0].topic_id = by_id(version, 13, id);
        request
    };
    probe.told(produce, produced, TOPIC, "Write Topic(named)").await;
    let transactional =
        |version| ProduceRequest { transactional_id: Some("tx".into()), ..produce(version) };
    probe.told(transactional, produced, TRANSACTIONAL_ID, "Write TransactionalId(tx)").await;

    let fetched = |_, response: FetchResponse| {
        let partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
        assert!(partitions.clone().all(records_are_empty));
        partitions.map(|partition| partition.error_code).collect()
    };
    let fetch = |version| {
        let mut request = fetch_request("named", &[(0, 0)]);
        request.topics[0].topic_id = by_id(version, 13, id);
        request
    };
    probe.told(fetch, fetched, TOPIC, "Read Topic(named)").await;
    let follow = |version| {
        let mut request = fetch(version);
        match version {
            15.. => request.replica_state.replica_id = 2,
            _ => request.replica_id = 2,
        }
        request
    };
    probe.told(follow, fetched, TOPIC, "ClusterAction Cluster").await;

    let list = |_| ListOffsetsRequest {
        replica_id: -1,
        topics: vec![ListOffsetsTopic {
            name: "named".into(),
            partitions: vec![ListOffsetsPartition { timestamp: -1, ..Default::default() }],
            ..Default::default()
        }],
        ..Default::default()
    };
    let listed = |_, response: ListOffsetsResponse| {
        assert_eq!(response.topics[0].partitions[0].offset, -1);
        vec![response.topics[0].partitions[0].error_code]
    };
    probe.told(list, listed, TOPIC, "Describe Topic(named)").await;

    let end = |_| OffsetForLeaderEpochRequest {
        topics: vec![OffsetForLeaderTopic {
            topic: "named".into(),
            partitions: vec![OffsetForLeaderPartition::default()],
            ..Default::default()
        }],
        ..Default::default()
    };
    let ended = |_, response: OffsetForLeaderEpochResponse| {
        vec![response.topics[0].partitions[0].error_code]
    };
    probe.told(end, ended, TOPIC, "ClusterAction Cluster, Describe Topic(named)").await;

    let partition = DeleteRecordsPartition { offset: -1, ..Default::default() };
    let delete = |_| DeleteRecordsRequest {
        topics: vec![DeleteRecordsTopic {
            name: "named".into(),
            partitions: vec![partition.clone()],
            ..Default::default()
        }],
        ..Default::default()
    };
    let deleted =
        |_, response: DeleteRecordsResponse| vec![response.topics[0].partitions[0].error_code];
    probe.told(delete, deleted, TOPIC, "Delete Topic(named)").await;

    let describe = |_| DescribeProducersRequest {
        topics: vec![TopicRequest {
            name: "named".into(),
            partition_indexes: vec![0],
            ..Default::default()
        }],
        ..Default::default()
    };
    let described =
        |_, response: DescribeProducersResponse| vec![response.topics[0].partitions[0].error_code];
    probe.told(describe, described, TOPIC, "Read Topic(named)").await;

    let identified = |_, response: InitProducerIdResponse| {
        assert_eq!(response.producer_id, -1);
        vec![response.error_code]
    };
    let identify = |id: Option<&'static str>| {
        move |_| InitProducerIdRequest {
            transactional_id: id.map(Into::into),
            ..Default::default()
        }
    };
    let asked = "Write SomeTopic, IdempotentWrite Cluster";
    probe.told(identify(None), identified, CLUSTER, asked).await;
    let asked = "Write TransactionalId(tx)";
    probe.told(identify(Some("tx")), identified, TRANSACTIONAL_ID, asked).await;
}

fn records_are_empty(data: &PartitionData) -> bool {
    data.records.as_ref().and_then(|records| records.bytes()).is_none_or(|bytes| bytes.is_empty())
}
