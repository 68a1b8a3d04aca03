//! What the broker that does nothing says, and the one that only stores.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use logway_model::ErrorCode;
use logway_wire::messages::api_versions_response::ApiVersion;
use logway_wire::messages::create_topics_response::CreatableTopicResult;
use logway_wire::messages::delete_topics_response::DeletableTopicResult;
use logway_wire::messages::fetch_response::{FetchableTopicResponse, PartitionData};
use logway_wire::messages::list_offsets_request::ListOffsetsPartition;
use logway_wire::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use logway_wire::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use logway_wire::messages::{
    ApiVersionsRequest, ApiVersionsResponse, CreateTopicsRequest, CreateTopicsResponse,
    DeleteTopicsRequest, DeleteTopicsResponse, FetchRequest, FetchResponse, ListOffsetsRequest,
    ListOffsetsResponse, MetadataRequest, MetadataResponse, ProduceRequest,
};
use logway_wire::{
    ApiKey, Decoder, Message, Records, Request, Response, WireString, decode_request_header,
    encode_response,
};

use super::produced::{Produced, correlation_id, is_produce};
use super::topics::{Topic, Topics};
use crate::generator::VERSION_MAX;

/// The one broker's number.
const NODE_ID: i32 = 1;

/// Answers of one connection. Those to Produce are made once for each partition.
pub(crate) struct Replies {
    address: SocketAddr,
    topics: Arc<Topics>,
    produced: Vec<Produced>,
    last: Vec<u8>,
}

/// What is to be sent.
pub(crate) enum Reply<'a> {
    Nothing,
    Bytes(&'a [u8]),
    /// Records between two parts.
    Fetched {
        before: Bytes,
        records_bytes: usize,
        after: Bytes,
    },
}

impl Replies {
    pub(crate) fn new(address: SocketAddr, topics: Arc<Topics>) -> Replies {
        Replies { address, topics, produced: Vec::new(), last: Vec::new() }
    }

    /// The answers to Produce requests that begin as this one does.
    ///
    /// # Errors
    ///
    /// It cannot be understood, or is not for one partition.
    pub(crate) fn produced(&mut self, head: &[u8]) -> anyhow::Result<usize> {
        if let Some(known) = self.produced.iter().position(|produced| produced.answers(head)) {
            return Ok(known);
        }
        let mut from = Decoder::new(Bytes::copy_from_slice(head));
        let (api_key, header) = decode_request_header(&mut from)?;
        ensure!(api_key == ApiKey::Produce, "{} produces nothing", api_key.name());
        self.produced.push(Produced::read(&mut from, head, header.request_api_version)?);
        Ok(self.produced.len() - 1)
    }

    /// Those with that number.
    pub(crate) fn known(&mut self, number: usize) -> &mut Produced {
        &mut self.produced[number]
    }

    /// The answer to a request, of which the beginning is known.
    ///
    /// # Errors
    ///
    /// The request cannot be understood, or is one that no experiment makes.
    pub(crate) fn reply(&mut self, head: &[u8]) -> anyhow::Result<Reply<'_>> {
        if is_produce(head) {
            let known = self.produced(head)?;
            let id = correlation_id(head)?;
            return Ok(self.produced[known].reply(id, 0).map_or(Reply::Nothing, Reply::Bytes));
        }
        let mut from = Decoder::new(Bytes::copy_from_slice(head));
        let (api_key, header) = decode_request_header(&mut from)?;
        let (version, id) = (header.request_api_version, header.correlation_id);
        if api_key == ApiKey::Fetch {
            return fetched(&FetchRequest::decode(&mut from, version)?, version, id);
        }
        self.last = match api_key {
            ApiKey::ApiVersions => self.api_versions(version, id)?,
            ApiKey::Metadata => {
                self.metadata(&MetadataRequest::decode(&mut from, version)?, version, id)?
            }
            ApiKey::CreateTopics => {
                self.create(&CreateTopicsRequest::decode(&mut from, version)?, version, id)?
            }
            ApiKey::DeleteTopics => {
                self.delete(&DeleteTopicsRequest::decode(&mut from, version)?, version, id)?
            }
            ApiKey::ListOffsets => {
                list_offsets(&ListOffsetsRequest::decode(&mut from, version)?, version, id)?
            }
            other => bail!("{} is not for a broker that does nothing", other.name()),
        };
        Ok(Reply::Bytes(&self.last))
    }

    fn api_versions(&self, version: i16, id: i32) -> anyhow::Result<Vec<u8>> {
        fn api<R: Request>(version_max: i16) -> ApiVersion {
            let versions = R::VALID_VERSIONS;
            ApiVersion {
                api_key: R::API_KEY.id(),
                min_version: versions.min,
                max_version: versions.max.min(version_max),
                ..ApiVersion::default()
            }
        }
        let is_known = ApiVersionsRequest::VALID_VERSIONS.contains(version);
        let error = if is_known { ErrorCode::None } else { ErrorCode::UnsupportedVersion };
        let response = ApiVersionsResponse {
            error_code: error.code(),
            api_keys: vec![
                api::<ProduceRequest>(VERSION_MAX),
                api::<FetchRequest>(VERSION_MAX),
                api::<ListOffsetsRequest>(i16::MAX),
                api::<MetadataRequest>(i16::MAX),
                api::<ApiVersionsRequest>(i16::MAX),
                api::<CreateTopicsRequest>(i16::MAX),
                api::<DeleteTopicsRequest>(i16::MAX),
            ],
            ..ApiVersionsResponse::default()
        };
        encode(id, if is_known { version } else { 0 }, &response)
    }

    fn metadata(
        &self,
        request: &MetadataRequest,
        version: i16,
        id: i32,
    ) -> anyhow::Result<Vec<u8>> {
        let names = request.topics.iter().flatten().filter_map(|topic| topic.name.clone());
        let topic = |name: WireString| {
            let partitions = self.topics.get(&name).map(|topic| topic.partitions);
            let error = match partitions {
                Some(_) => ErrorCode::None,
                None => ErrorCode::UnknownTopicOrPartition,
            };
            MetadataResponseTopic {
                error_code: error.code(),
                name: Some(name),
                partitions: (0..partitions.unwrap_or(0)).map(partition).collect(),
                ..MetadataResponseTopic::default()
            }
        };
        let broker = MetadataResponseBroker {
            node_id: NODE_ID,
            host: WireString::copy_of(&self.address.ip().to_string()),
            port: i32::from(self.address.port()),
            ..MetadataResponseBroker::default()
        };
        let response = MetadataResponse {
            brokers: vec![broker],
            controller_id: NODE_ID,
            topics: names.map(topic).collect(),
            ..MetadataResponse::default()
        };
        encode(id, version, &response)
    }

    fn create(
        &self,
        request: &CreateTopicsRequest,
        version: i16,
        id: i32,
    ) -> anyhow::Result<Vec<u8>> {
        let topics = request.topics.iter().map(|topic| {
            let is_synced = topic.configs.iter().any(|config| {
                config.name == "flush.messages" && config.value.as_deref() == Some("1")
            });
            self.topics.create(&topic.name, Topic::new(topic.num_partitions, is_synced));
            CreatableTopicResult {
                name: topic.name.clone(),
                num_partitions: topic.num_partitions,
                replication_factor: 1,
                ..CreatableTopicResult::default()
            }
        });
        let topics = topics.collect();
        encode(id, version, &CreateTopicsResponse { topics, ..Default::default() })
    }

    fn delete(
        &self,
        request: &DeleteTopicsRequest,
        version: i16,
        id: i32,
    ) -> anyhow::Result<Vec<u8>> {
        let named = request.topics.iter().filter_map(|topic| topic.name.clone());
        let names = named.chain(request.topic_names.iter().cloned());
        let responses = names.map(|name| {
            self.topics.delete(&name);
            DeletableTopicResult { name: Some(name), ..DeletableTopicResult::default() }
        });
        let responses = responses.collect();
        encode(id, version, &DeleteTopicsResponse { responses, ..Default::default() })
    }
}

fn partition(partition_index: i32) -> MetadataResponsePartition {
    MetadataResponsePartition {
        partition_index,
        leader_id: NODE_ID,
        replica_nodes: vec![NODE_ID],
        isr_nodes: vec![NODE_ID],
        ..MetadataResponsePartition::default()
    }
}

/// As many bytes as were asked for.
fn fetched<'a>(request: &FetchRequest, version: i16, id: i32) -> anyhow::Result<Reply<'a>> {
    let topic = request.topics.first().context("a fetch of nothing")?;
    let partition = topic.partitions.first().context("a fetch of nothing")?;
    let records_bytes = usize::try_from(partition.partition_max_bytes.min(request.max_bytes))?;
    let records = Records::External { len_bytes: records_bytes, token: 0 };
    let answered = PartitionData {
        partition_index: partition.partition,
        records: Some(records),
        ..PartitionData::default()
    };
    let topic = FetchableTopicResponse {
        topic: topic.topic.clone(),
        partitions: vec![answered],
        ..FetchableTopicResponse::default()
    };
    let response = FetchResponse { responses: vec![topic], ..FetchResponse::default() };
    let mut encoded = encode_response(id, version, &response)?;
    let at = encoded.holes.first().context("the records are a hole")?.position_bytes;
    let after = encoded.bytes.split_off(at);
    Ok(Reply::Fetched { before: encoded.bytes, records_bytes, after })
}

/// Nothing is kept, so every partition is empty.
fn list_offsets(request: &ListOffsetsRequest, version: i16, id: i32) -> anyhow::Result<Vec<u8>> {
    let empty = |partition: &ListOffsetsPartition| ListOffsetsPartitionResponse {
        partition_index: partition.partition_index,
        offset: 0,
        ..ListOffsetsPartitionResponse::default()
    };
    let topics = request.topics.iter().map(|topic| ListOffsetsTopicResponse {
        name: topic.name.clone(),
        partitions: topic.partitions.iter().map(empty).collect(),
        ..ListOffsetsTopicResponse::default()
    });
    let topics = topics.collect();
    encode(id, version, &ListOffsetsResponse { topics, ..Default::default() })
}

pub(super) fn encode(id: i32, version: i16, response: &impl Response) -> anyhow::Result<Vec<u8>> {
    Ok(encode_response(id, version, response)?.bytes.to_vec())
}
