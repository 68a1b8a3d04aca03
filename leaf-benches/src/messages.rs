//! Requests read and responses written, at the newest versions.

use std::hint::black_box;

use bytes::Bytes;
use logway_model::Uuid;
use logway_record::Compression;
use logway_wire::messages::fetch_request::{FetchPartition, FetchTopic};
use logway_wire::messages::fetch_response::{FetchableTopicResponse, PartitionData};
use logway_wire::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use logway_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use logway_wire::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use logway_wire::messages::{
    FetchRequest, FetchResponse, MetadataResponse, ProduceRequest, ProduceResponse,
};
use logway_wire::{
    Decoder, Records, Request, Response, WireString, decode_request_header, encode_request,
    encode_response,
};

use crate::{Leaf, Work, batches};

const CLIENT_ID: WireString = WireString::from_static("leaf-benches");
const TOPIC_ID: Uuid = Uuid(*b"Logway benchmark");

pub(crate) const LEAVES: &[Leaf] = &[
    Leaf::new("request/produce-1-partition", || decode(produce_request(1))),
    Leaf::new("request/produce-100-partitions", || decode(produce_request(100))),
    Leaf::new("request/fetch-1-partition", || decode(fetch_request(1))),
    Leaf::new("request/fetch-100-partitions", || decode(fetch_request(100))),
    Leaf::new("response/produce-1-partition", || encode(produce_response(1))),
    Leaf::new("response/produce-100-partitions", || encode(produce_response(100))),
    Leaf::new("response/fetch-1-partition", || encode(fetch_response(1))),
    Leaf::new("response/fetch-100-partitions", || encode(fetch_response(100))),
    Leaf::new("response/metadata-1000-partitions", || encode(metadata_response(1000))),
];

fn decode<R: Request + 'static>(request: R) -> Work {
    let version = R::VALID_VERSIONS.max;
    let frame = encode_request(7, Some(&CLIENT_ID), version, &request).expect("it can be said");
    // Without the size in front, as a connection hands it on.
    let frame = frame.bytes.slice(4..);
    Box::new(move || {
        let mut decoder = Decoder::new(black_box(frame.clone()));
        decode_request_header(&mut decoder).expect("it was just encoded");
        black_box(R::decode(&mut decoder, version).expect("it was just encoded"));
    })
}

fn encode<R: Response + 'static>(response: R) -> Work {
    let version = R::VALID_VERSIONS.max;
    Box::new(move || {
        let frame = encode_response(7, version, black_box(&response));
        black_box(frame.expect("it can be said"));
    })
}

fn produce_request(partitions: i32) -> ProduceRequest {
    let records: Bytes = batches::encoded(10, 100, Compression::None);
    let partition_data = (0..partitions).map(|index| PartitionProduceData {
        index,
        records: Some(Records::InMemory(records.clone())),
        ..PartitionProduceData::default()
    });
    let topic = TopicProduceData {
        topic_id: TOPIC_ID,
        partition_data: partition_data.collect(),
        ..TopicProduceData::default()
    };
    ProduceRequest { acks: -1, timeout_ms: 30_000, topic_data: vec![topic], ..Default::default() }
}

fn produce_response(partitions: i32) -> ProduceResponse {
    let partition_responses = (0..partitions).map(|index| PartitionProduceResponse {
        index,
        base_offset: 1_000_000,
        log_start_offset: 0,
        ..PartitionProduceResponse::default()
    });
    let topic = TopicProduceResponse {
        topic_id: TOPIC_ID,
        partition_responses: partition_responses.collect(),
        ..TopicProduceResponse::default()
    };
    ProduceResponse { responses: vec![topic], ..ProduceResponse::default() }
}

fn fetch_request(partitions: i32) -> FetchRequest {
    let partitions = (0..partitions).map(|partition| FetchPartition {
        partition,
        fetch_offset: 1_000_000,
        partition_max_bytes: 1 << 20,
        ..FetchPartition::default()
    });
    let topic = FetchTopic {
        topic_id: TOPIC_ID,
        partitions: partitions.collect(),
        ..FetchTopic::default()
    };
    FetchRequest { max_wait_ms: 500, topics: vec![topic], ..FetchRequest::default() }
}

fn fetch_response(partitions: i32) -> FetchResponse {
    let partitions = (0..partitions).map(|partition_index| PartitionData {
        partition_index,
        high_watermark: 1_000_000,
        last_stable_offset: 1_000_000,
        records: Some(Records::External { len_bytes: 1 << 20, token: 0 }),
        ..PartitionData::default()
    });
    let topic = FetchableTopicResponse {
        topic_id: TOPIC_ID,
        partitions: partitions.collect(),
        ..FetchableTopicResponse::default()
    };
    FetchResponse { responses: vec![topic], ..FetchResponse::default() }
}

fn metadata_response(partitions: i32) -> MetadataResponse {
    let broker = MetadataResponseBroker {
        node_id: 1,
        host: WireString::from_static("127.0.0.1"),
        port: 9092,
        ..MetadataResponseBroker::default()
    };
    let partitions = (0..partitions).map(|partition_index| MetadataResponsePartition {
        partition_index,
        leader_id: 1,
        replica_nodes: vec![1],
        isr_nodes: vec![1],
        ..MetadataResponsePartition::default()
    });
    let topic = MetadataResponseTopic {
        name: Some(WireString::from_static("orders")),
        topic_id: TOPIC_ID,
        partitions: partitions.collect(),
        ..MetadataResponseTopic::default()
    };
    MetadataResponse { brokers: vec![broker], topics: vec![topic], ..MetadataResponse::default() }
}
