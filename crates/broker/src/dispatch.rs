//! From a frame to its handler: the one table of the APIs that are served.
//!
//! What the table holds is what ApiVersions announces; an API that is not in it does not exist
//! for clients.

use std::future::Future;
use std::net::SocketAddr;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use logway_log::FileRange;
use logway_model::ErrorCode;
use logway_wire::messages::ApiVersionsResponse;
use logway_wire::{
    ApiKey, DecodeError, Decoder, EncodeError, Request, Response, VersionRange, WireString,
    decode_request_header, encode_response,
};
use thiserror::Error;

use crate::Broker;
use crate::connection::{EncodedReply, FileSpan, Hurry, Reply};
use crate::handlers::{self, groups};

/// The memory that the decoded form of one request may take, apart from its frame. Names and
/// records stay in the frame; what counts here is the structs around them.
const DECODED_BYTES_MAX: usize = 32 << 20;

/// What a handler knows of the connection that a request came by.
#[derive(Debug)]
pub struct ConnectionInfo {
    /// The client's end.
    pub peer: SocketAddr,
    /// Our end: the address that the client reached us by, and so the one to advertise to it.
    pub local: SocketAddr,
    /// Asks requests that wait to answer.
    pub hurry: Hurry,
}

/// What a handler knows beside the request itself.
#[derive(Clone)]
pub struct RequestContext {
    /// The broker that serves it.
    pub broker: Arc<Broker>,
    /// The connection it came by.
    pub connection: Arc<ConnectionInfo>,
    /// The version of the request, and so of its answer.
    pub version: i16,
    /// Pairs the answer with the request.
    pub correlation_id: i32,
    /// What the client calls itself.
    pub client_id: Option<WireString>,
}

impl Deref for RequestContext {
    type Target = Broker;

    fn deref(&self) -> &Broker {
        &self.broker
    }
}

/// A frame without an answerable request; its connection is closed, as Kafka closes it.
#[derive(Debug, Error)]
pub enum RequestError {
    /// The frame does not begin with a request header of a known API.
    #[error("request header: {0}")]
    Header(DecodeError),
    /// The API exists, but is not served here.
    #[error("{0} is not served")]
    NotServed(&'static str),
    /// The API is served, but not at that version.
    #[error("{api} version {version} is not served (versions {served} are)")]
    UnsupportedVersion {
        /// The API.
        api: &'static str,
        /// What the client asked for.
        version: i16,
        /// What there is.
        served: VersionRange,
    },
    /// The bytes are not what the header says.
    #[error("{api} version {version} could not be decoded: {source}")]
    Decode {
        /// The API.
        api: &'static str,
        /// The version.
        version: i16,
        /// What was wrong, and where.
        source: DecodeError,
    },
    /// A handler's answer does not fit the version: our mistake.
    #[error("the answer to {api} version {version} could not be encoded: {source}")]
    Encode {
        /// The API.
        api: &'static str,
        /// The version.
        version: i16,
        /// Which field.
        source: EncodeError,
    },
    /// A Produce with acks 0 failed. The client waits for no answer, so closing is the only way
    /// to tell it.
    #[error("a produce request with acks=0 failed: {0}")]
    UnacknowledgedProduce(WireString),
}

/// A handler at work.
pub(crate) type Answer = Pin<Box<dyn Future<Output = Result<Reply, RequestError>> + Send>>;

/// One row of the table.
pub(crate) struct ServedApi {
    pub(crate) key: ApiKey,
    /// What can be decoded and answered.
    pub(crate) versions: VersionRange,
    /// What ApiVersions says. It differs for Produce alone: librdkafka turns compression off for
    /// brokers that do not claim the versions before 3 (KAFKA-18659), so Kafka claims them and
    /// refuses them, and so do we.
    pub(crate) announced: VersionRange,
    handle: fn(RequestContext, Decoder) -> Answer,
}

macro_rules! served {
    ($($request:ident => $handle:expr;)+) => {
        &[$(ServedApi {
            key: <logway_wire::messages::$request as Request>::API_KEY,
            versions: served_versions(<logway_wire::messages::$request as Request>::API_KEY),
            announced: announced_versions(<logway_wire::messages::$request as Request>::API_KEY),
            handle: |context, body| {
                Box::pin($handle(context, body))
            },
        },)+]
    };
}

/// A newest version that Kafka itself still calls unstable is left out, as Kafka leaves it out.
const fn served_versions(key: ApiKey) -> VersionRange {
    VersionRange::new(key.oldest(), key.latest_stable())
}

const fn announced_versions(key: ApiKey) -> VersionRange {
    match key {
        ApiKey::Produce => VersionRange::new(0, key.latest_stable()),
        _ => served_versions(key),
    }
}

/// Every API that is served, by key.
pub(crate) static SERVED_APIS: &[ServedApi] = served! {
    ProduceRequest => handlers::produce::answer;
    FetchRequest => handlers::fetch::answer;
    ListOffsetsRequest => |cx, body| answer(cx, body, handlers::list_offsets::handle);
    MetadataRequest => |cx, body| answer(cx, body, handlers::metadata::handle);
    OffsetCommitRequest => |cx, body| groups::answer(cx, body, groups::offset_commit::start);
    OffsetFetchRequest => |cx, body| groups::answer(cx, body, groups::offset_fetch::start);
    FindCoordinatorRequest => |cx, body| answer(cx, body, groups::find_coordinator::handle);
    JoinGroupRequest => |cx, body| {
        groups::answer_with_group(cx, body, groups::join_group::ask, groups::join_group::response)
    };
    HeartbeatRequest => |cx, body| groups::answer(cx, body, groups::heartbeat::start);
    LeaveGroupRequest => |cx, body| groups::answer(cx, body, groups::leave_group::start);
    SyncGroupRequest => |cx, body| {
        groups::answer_with_group(cx, body, groups::sync_group::ask, groups::sync_group::response)
    };
    DescribeGroupsRequest => |cx, body| groups::answer(cx, body, groups::describe_groups::start);
    ListGroupsRequest => |cx, body| groups::answer(cx, body, groups::list_groups::start);
    ApiVersionsRequest => |cx, body| answer(cx, body, handlers::api_versions::handle);
    CreateTopicsRequest => |cx, body| answer(cx, body, handlers::create_topics::handle);
    DeleteTopicsRequest => |cx, body| answer(cx, body, handlers::delete_topics::handle);
    DeleteRecordsRequest => |cx, body| answer(cx, body, handlers::delete_records::handle);
    InitProducerIdRequest => |cx, body| answer(cx, body, handlers::init_producer_id::handle);
    OffsetForLeaderEpochRequest =>
        |cx, body| answer(cx, body, handlers::offset_for_leader_epoch::handle);
    DescribeConfigsRequest => |cx, body| answer(cx, body, handlers::describe_configs::handle);
    AlterConfigsRequest => |cx, body| answer(cx, body, handlers::alter_configs::handle);
    AlterReplicaLogDirsRequest =>
        |cx, body| answer(cx, body, handlers::alter_replica_log_dirs::handle);
    DescribeLogDirsRequest => |cx, body| answer(cx, body, handlers::describe_log_dirs::handle);
    CreatePartitionsRequest => |cx, body| answer(cx, body, handlers::create_partitions::handle);
    DeleteGroupsRequest => |cx, body| groups::answer(cx, body, groups::delete_groups::start);
    ElectLeadersRequest => |cx, body| answer(cx, body, handlers::elect_leaders::handle);
    IncrementalAlterConfigsRequest =>
        |cx, body| answer(cx, body, handlers::incremental_alter_configs::handle);
    AlterPartitionReassignmentsRequest =>
        |cx, body| answer(cx, body, handlers::alter_partition_reassignments::handle);
    ListPartitionReassignmentsRequest =>
        |cx, body| answer(cx, body, handlers::list_partition_reassignments::handle);
    OffsetDeleteRequest => |cx, body| groups::answer(cx, body, groups::offset_delete::start);
    DescribeQuorumRequest => |cx, body| answer(cx, body, handlers::describe_quorum::handle);
    UpdateFeaturesRequest => |cx, body| answer(cx, body, handlers::update_features::handle);
    DescribeClusterRequest => |cx, body| answer(cx, body, handlers::describe_cluster::handle);
    DescribeProducersRequest => |cx, body| answer(cx, body, handlers::describe_producers::handle);
    DescribeTopicPartitionsRequest =>
        |cx, body| answer(cx, body, handlers::describe_topic_partitions::handle);
};

/// Finds the handler of a frame and starts it.
///
/// Returns when the request has been worked on far enough for the next one of the connection to
/// be started: its effects are ordered, its answer may come later.
pub(crate) async fn dispatch(
    broker: &Arc<Broker>,
    connection: &Arc<ConnectionInfo>,
    frame: Bytes,
) -> Result<(ApiKey, Reply), RequestError> {
    let mut body = Decoder::with_limit(frame, DECODED_BYTES_MAX);
    let (key, header) = decode_request_header(&mut body).map_err(RequestError::Header)?;
    let version = header.request_api_version;
    let api = SERVED_APIS.iter().find(|api| api.key == key);
    let api = api.ok_or(RequestError::NotServed(key.name()))?;
    let is_served = api.versions.contains(version);
    if !is_served && api.key != ApiKey::ApiVersions {
        let (api, served) = (api.key.name(), api.versions);
        return Err(RequestError::UnsupportedVersion { api, version, served });
    }
    let context = RequestContext {
        broker: Arc::clone(broker),
        connection: Arc::clone(connection),
        version,
        correlation_id: header.correlation_id,
        client_id: header.client_id,
    };
    if !is_served {
        return Ok((api.key, refuse_api_versions(context)?));
    }
    let reply = (api.handle)(context, body).await?;
    Ok((api.key, reply))
}

/// A client that is newer than we are learns, in the oldest form, what we speak (KIP-511).
fn refuse_api_versions(mut context: RequestContext) -> Result<Reply, RequestError> {
    context.version = 0;
    let response = ApiVersionsResponse {
        error_code: ErrorCode::UnsupportedVersion.code(),
        ..handlers::api_versions::announced_versions()
    };
    encode_reply(&context, &response, Vec::new()).map(Reply::Ready)
}

/// Decodes a request, hands it to its handler and encodes the answer: the way of every API whose
/// answer is complete when the handler returns.
async fn answer<R, F>(
    context: RequestContext,
    body: Decoder,
    handle: impl FnOnce(RequestContext, R) -> F,
) -> Result<Reply, RequestError>
where
    R: Request,
    F: Future<Output = R::Response> + Send,
{
    let request: R = decode_request(&context, body)?;
    let response = handle(context.clone(), request).await;
    encode_reply(&context, &response, Vec::new()).map(Reply::Ready)
}

/// Decodes the body of a request.
pub(crate) fn decode_request<R: Request>(
    context: &RequestContext,
    mut body: Decoder,
) -> Result<R, RequestError> {
    let version = context.version;
    R::decode(&mut body, version).map_err(|source| RequestError::Decode {
        api: R::API_KEY.name(),
        version,
        source,
    })
}

/// Encodes an answer, with its length and header. `files` are what the response's external
/// records stand for, by token.
pub(crate) fn encode_reply<M: Response>(
    context: &RequestContext,
    response: &M,
    files: Vec<Vec<FileRange>>,
) -> Result<EncodedReply, RequestError> {
    let version = context.version;
    let encoded = encode_response(context.correlation_id, version, response)
        .map_err(|source| RequestError::Encode { api: M::API_KEY.name(), version, source })?;
    let mut files: Vec<Option<Vec<FileRange>>> = files.into_iter().map(Some).collect();
    let mut spans = Vec::new();
    for hole in encoded.holes {
        let ranges = files.get_mut(hole.token).and_then(Option::take);
        let ranges = ranges.expect("each token stands for ranges, and is used once");
        let after_bytes = hole.position_bytes;
        spans.extend(ranges.into_iter().map(|range| FileSpan { after_bytes, range }));
    }
    Ok(EncodedReply { bytes: encoded.bytes, files: spans })
}
