//! What the broker that does nothing says.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, bail};
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
use logway_wire::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
use logway_wire::messages::{
    ApiVersionsRequest, ApiVersionsResponse, CreateTopicsRequest, CreateTopicsResponse,
    DeleteTopicsRequest, DeleteTopicsResponse, FetchRequest, FetchResponse, ListOffsetsRequest,
    ListOffsetsResponse, MetadataRequest, MetadataResponse, ProduceRequest, ProduceResponse,
};
use logway_wire::{
    ApiKey, Decoder, Message, Records, Request, Response, WireString, decode_request_header,
    encode_response,
};

use super::topics::Topics;
use crate::generator::VERSION_MAX;

/// The one broker's number.
const NODE_ID: i32 = 1;

/// Where the correlation id is, in a request without its length and in an answer with it.
const REQUEST_ID_AT: usize = 4;
const REPLY_ID_AT: usize = 4;

/// Answers of one connection. Those to Produce are made once for each partition.
pub(super) struct Replies {
    address: SocketAddr,
    topics: Arc<Topics>,
    produced: Vec<Produced>,
    last: Vec<u8>,
}

/// What to say to a Produce request that begins so; nothing if it wants no answer.
struct Produced {
    before_id: Vec<u8>,
    after_id: Vec<u8>,
    reply: Option<Vec<u8>>,
}

/// What is to be sent.
pub(super) enum Reply<'a> {
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
    pub(super) fn new(address: SocketAddr, topics: Arc<Topics>) -> Replies {
        Replies { address, topics, produced: Vec::new(), last: Vec::new() }
    }

    /// The answer to a request, of which the beginning is known.
    ///
    /// # Errors
    ///
    /// The request cannot be understood, or is one that no experiment makes.
    pub(super) fn reply(&mut self, head: &[u8]) -> anyhow::Result<Reply<'_>> {
        let id = head.get(REQUEST_ID_AT..REQUEST_ID_AT + 4).context("a short request")?;
        if let Some(known) = self.produced.iter().position(|produced| produced.answers(head)) {
            let Some(reply) = &mut self.produced[known].reply else { return Ok(Reply::Nothing) };
            reply[REPLY_ID_AT..REPLY_ID_AT + 4].copy_from_slice(id);
            return Ok(Reply::Bytes(reply));
        }
        let mut from = Decoder::new(Bytes::copy_from_slice(head));
        let (api_key, header) = decode_request_header(&mut from)?;
        let (version, id) = (header.request_api_version, header.correlation_id);
        if api_key == ApiKey::Fetch {
            return fetched(&FetchRequest::decode(&mut from, version)?, version, id);
        }
        if api_key == ApiKey::Produce {
            let produced = Produced::read(&mut from, head, version, id)?;
            self.last = produced.reply.clone().unwrap_or_default();
            self.produced.push(produced);
            return Ok(Reply::Bytes(&self.last));
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
            let partitions = self.topics.partitions(&name);
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
            self.topics.create(&topic.name, topic.num_partitions);
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

impl Produced {
    /// Whether this is the answer: nothing but the correlation id and the records may differ.
    fn answers(&self, head: &[u8]) -> bool {
        head.starts_with(&self.before_id) && head[REQUEST_ID_AT + 4..].starts_with(&self.after_id)
    }

    /// Reads a request for one partition up to its records, which may not be all there.
    fn read(from: &mut Decoder, head: &[u8], version: i16, id: i32) -> anyhow::Result<Produced> {
        let flexible = ProduceRequest::FLEXIBLE_VERSIONS.contains(version);
        let count = |from: &mut Decoder| -> anyhow::Result<()> {
            let count = match flexible {
                true => from.unsigned_varint("count")? as i32 - 1,
                false => from.i32("count")?,
            };
            anyhow::ensure!(count == 1, "a request for one partition, not for {count}");
            Ok(())
        };
        from.nullable_string("transactional_id", flexible)?;
        let acks = from.i16("acks")?;
        from.i32("timeout_ms")?;
        count(from)?;
        let name = from.string("name", flexible)?;
        count(from)?;
        let index = from.i32("index")?;
        let after_id = head[REQUEST_ID_AT + 4..from.position_bytes()].to_vec();
        let partition = PartitionProduceResponse { index, ..PartitionProduceResponse::default() };
        let topic = TopicProduceResponse {
            name,
            partition_responses: vec![partition],
            ..TopicProduceResponse::default()
        };
        let response = ProduceResponse { responses: vec![topic], ..ProduceResponse::default() };
        let reply = (acks != 0).then(|| encode(id, version, &response)).transpose()?;
        Ok(Produced { before_id: head[..REQUEST_ID_AT].to_vec(), after_id, reply })
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

fn encode(id: i32, version: i16, response: &impl Response) -> anyhow::Result<Vec<u8>> {
    Ok(encode_response(id, version, response)?.bytes.to_vec())
}
