//! From a frame to its handler: the one table of the APIs that are served.
//!
//! What the table holds is what ApiVersions announces; an API that is not in it does not exist
//! for clients.

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use logway_log::FileRange;
use logway_model::ErrorCode;
use logway_wire::messages::{ApiVersionsResponse, ProduceRequest};
use logway_wire::{
    ApiKey, DecodeError, Decoder, EncodeError, Encoded, Request, Response, VersionRange,
    WireString, decode_request_header, encode_response,
};
use thiserror::Error;

use crate::Broker;
use crate::connection::{
    BudgetShare, EncodedReply, FileSpan, Held, Hurry, Mute, Reply, decoded_bytes_max,
};
use crate::handlers::{self, groups};
use crate::inline_appends::HeldRound;
use crate::quotas::RequestCharge;

/// What a handler knows of the connection that a request came by.
#[derive(Debug)]
pub struct ConnectionInfo {
    /// The client's end.
    pub peer: SocketAddr,
    /// Our end: the address that the client reached us by, and so the one to advertise to it.
    pub local: SocketAddr,
    /// Asks requests that wait to answer.
    pub hurry: Hurry,
    /// Whether it is read.
    pub mute: Mute,
    /// Appends that it is about to do itself.
    pub held_round: HeldRound,
    /// What the client is, if it said so in time (KIP-511).
    pub software: OnceLock<ClientSoftware>,
}

/// A client library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientSoftware {
    /// Its name, e.g. `apache-kafka-java`.
    pub name: String,
    /// Its version.
    pub version: String,
}

impl fmt::Display for ClientSoftware {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.version)
    }
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
    /// The memory of the request itself. Who keeps something of the request keeps it, whatever becomes of the client.
    pub request_share: Held,
    /// The memory that answering takes, if it takes much. Work that goes on when the request is
    /// answered keeps it.
    pub building: Held,
    /// What the request uses up, if any client has a quota.
    pub(crate) charge: Option<Arc<RequestCharge>>,
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

/// A decoded request, before its work begins.
pub(crate) struct Work {
    /// The API.
    pub(crate) api_key: ApiKey,
    /// What answering may take, in bytes and beyond the request's own memory: an estimate that the
    /// handler makes of the request, and that the connection gets before it runs the work.
    pub(crate) built_bytes: usize,
    context: RequestContext,
    todo: Todo,
}

/// What is to be done for a request.
enum Todo {
    /// By far the most frequent, and often done at once.
    Produce(ProduceRequest),
    Other(Box<dyn FnOnce(RequestContext) -> Answer + Send>),
}

/// Work that was started.
pub(crate) enum Started {
    /// It is done as far as the next request has to wait for it.
    Done(Reply),
    Working(Answer),
}

impl Work {
    /// The appends of a Produce.
    pub(crate) fn produce(
        context: RequestContext,
        built_bytes: usize,
        request: ProduceRequest,
    ) -> Work {
        let todo = Todo::Produce(request);
        Work { api_key: ApiKey::Produce, built_bytes, context, todo }
    }

    /// Work that `answer` does.
    pub(crate) fn new(
        context: RequestContext,
        built_bytes: usize,
        api_key: ApiKey,
        answer: impl FnOnce(RequestContext) -> Answer + Send + 'static,
    ) -> Work {
        Work { api_key, built_bytes, context, todo: Todo::Other(Box::new(answer)) }
    }

    /// Starts the work, with the memory of the request, and that for the answer where it takes much.
    ///
    /// Ends when the request has been worked on far enough for the next one of the connection to
    /// be started: its effects are ordered, its answer may come later.
    pub(crate) fn run(
        mut self,
        request_share: Arc<BudgetShare>,
        building: Held,
        is_heavy: bool,
    ) -> Started {
        self.context.request_share = Some(request_share);
        self.context.building = building;
        let Work { context, todo, .. } = self;
        match (context.charge.clone(), todo) {
            (Some(charge), todo) => Started::Working(Box::pin(charge.run(|| todo.answer(context)))),
            (None, Todo::Produce(request)) if !is_heavy => {
                match handlers::produce::try_answer_now(context, request) {
                    Ok(reply) => Started::Done(reply),
                    Err(slow) => {
                        let (context, request) = *slow;
                        Started::Working(handlers::produce::answer(context, request))
                    }
                }
            }
            (None, todo) => Started::Working(todo.answer(context)),
        }
    }
}

impl Todo {
    fn answer(self, context: RequestContext) -> Answer {
        match self {
            Todo::Produce(request) => handlers::produce::answer(context, request),
            Todo::Other(answer) => answer(context),
        }
    }
}

/// One row of the table.
pub(crate) struct ServedApi {
    pub(crate) key: ApiKey,
    /// What can be decoded and answered.
    pub(crate) versions: VersionRange,
    /// What ApiVersions says. It differs for Produce alone: librdkafka turns compression off for
    /// brokers that do not claim the versions before 3 (KAFKA-18659), so Kafka claims them and
    /// refuses them, and so do we.
    pub(crate) announced: VersionRange,
    prepare: fn(RequestContext, Decoder) -> Result<Work, RequestError>,
}

macro_rules! served {
    ($($request:ident => $prepare:expr;)+) => {
        &[$(ServedApi {
            key: <logway_wire::messages::$request as Request>::API_KEY,
            versions: served_versions(<logway_wire::messages::$request as Request>::API_KEY),
            announced: announced_versions(<logway_wire::messages::$request as Request>::API_KEY),
            prepare: $prepare,
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

/// Prepares a request for a handler whose answer is complete when it returns: its module has the
/// functions `built_bytes` and `handle`.
macro_rules! answered_by {
    ($($api:ident)::+) => {
        |context, body| {
            prepare_for(
                context,
                body,
                handlers::$($api)::+::built_bytes,
                handlers::$($api)::+::handle,
            )
        }
    };
}

/// Prepares a request of a module that answers several.
macro_rules! answered_in {
    ($module:ident::$handle:ident) => {
        |context, body| {
            let built_bytes = handlers::$module::built_bytes;
            prepare_for(context, body, built_bytes, handlers::$module::$handle)
        }
    };
}

/// Every API that is served, by key.
pub(crate) static SERVED_APIS: &[ServedApi] = served! {
    ProduceRequest => handlers::produce::prepare;
    FetchRequest => handlers::fetch::prepare;
    ListOffsetsRequest => answered_by!(list_offsets);
    MetadataRequest => answered_by!(metadata);
    OffsetCommitRequest => groups::offset_commit::prepare;
    OffsetFetchRequest => groups::offset_fetch::prepare;
    FindCoordinatorRequest => answered_by!(groups::find_coordinator);
    JoinGroupRequest => groups::join_group::prepare;
    HeartbeatRequest => groups::heartbeat::prepare;
    LeaveGroupRequest => groups::leave_group::prepare;
    SyncGroupRequest => groups::sync_group::prepare;
    DescribeGroupsRequest => groups::describe_groups::prepare;
    ListGroupsRequest => groups::list_groups::prepare;
    SaslHandshakeRequest => answered_in!(sasl::handshake);
    ApiVersionsRequest => answered_by!(api_versions);
    CreateTopicsRequest => answered_by!(create_topics);
    DeleteTopicsRequest => answered_by!(delete_topics);
    DeleteRecordsRequest => answered_by!(delete_records);
    InitProducerIdRequest => answered_by!(init_producer_id);
    OffsetForLeaderEpochRequest => answered_by!(offset_for_leader_epoch);
    DescribeAclsRequest => answered_by!(acls::describe);
    CreateAclsRequest => answered_by!(acls::create);
    DeleteAclsRequest => answered_by!(acls::delete);
    DescribeConfigsRequest => handlers::describe_configs::prepare;
    AlterConfigsRequest => answered_by!(alter_configs);
    AlterReplicaLogDirsRequest => answered_by!(alter_replica_log_dirs);
    DescribeLogDirsRequest => answered_by!(describe_log_dirs);
    SaslAuthenticateRequest => answered_in!(sasl::authenticate);
    CreatePartitionsRequest => answered_by!(create_partitions);
    CreateDelegationTokenRequest => answered_in!(delegation_tokens::create);
    RenewDelegationTokenRequest => answered_in!(delegation_tokens::renew);
    ExpireDelegationTokenRequest => answered_in!(delegation_tokens::expire);
    DescribeDelegationTokenRequest => answered_in!(delegation_tokens::describe);
    DeleteGroupsRequest => groups::delete_groups::prepare;
    ElectLeadersRequest => answered_by!(elect_leaders);
    IncrementalAlterConfigsRequest => answered_by!(incremental_alter_configs);
    AlterPartitionReassignmentsRequest => answered_by!(alter_partition_reassignments);
    ListPartitionReassignmentsRequest => answered_by!(list_partition_reassignments);
    OffsetDeleteRequest => groups::offset_delete::prepare;
    DescribeClientQuotasRequest => answered_by!(describe_client_quotas);
    AlterClientQuotasRequest => answered_by!(alter_client_quotas);
    DescribeUserScramCredentialsRequest => answered_by!(describe_user_scram_credentials);
    DescribeQuorumRequest => answered_by!(describe_quorum);
    UpdateFeaturesRequest => answered_by!(update_features);
    DescribeClusterRequest => answered_by!(describe_cluster);
    DescribeProducersRequest => answered_by!(describe_producers);
    GetTelemetrySubscriptionsRequest => answered_by!(get_telemetry_subscriptions);
    PushTelemetryRequest => answered_by!(push_telemetry);
    ListConfigResourcesRequest => answered_by!(list_config_resources);
    DescribeTopicPartitionsRequest => answered_by!(describe_topic_partitions);
};

/// Decodes a frame for its handler.
pub(crate) fn prepare(
    broker: &Arc<Broker>,
    connection: &Arc<ConnectionInfo>,
    frame: Bytes,
) -> Result<Work, RequestError> {
    let frame_bytes = frame.len();
    let mut body = Decoder::with_limit(frame, decoded_bytes_max(frame_bytes));
    let (key, header) = decode_request_header(&mut body).map_err(RequestError::Header)?;
    let version = header.request_api_version;
    let api = SERVED_APIS.iter().find(|api| api.key == key);
    let api = api.ok_or(RequestError::NotServed(key.name()))?;
    let is_served = api.versions.contains(version);
    if !is_served && api.key != ApiKey::ApiVersions {
        let (api, served) = (api.key.name(), api.versions);
        return Err(RequestError::UnsupportedVersion { api, version, served });
    }
    let client_id = header.client_id.as_ref();
    let charge = RequestCharge::begin(broker, connection, key, client_id, frame_bytes);
    let context = RequestContext {
        broker: Arc::clone(broker),
        connection: Arc::clone(connection),
        version,
        correlation_id: header.correlation_id,
        client_id: header.client_id,
        request_share: None,
        building: None,
        charge: charge.clone(),
    };
    if !is_served {
        let answer = |context| -> Answer { Box::pin(async { refuse_api_versions(context) }) };
        return Ok(Work::new(context, 0, key, answer));
    }
    let prepare = || (api.prepare)(context, body);
    match charge {
        Some(charge) => charge.time(prepare),
        None => prepare(),
    }
}

/// A client that is newer than we are learns, in the oldest form, what we speak (KIP-511).
fn refuse_api_versions(mut context: RequestContext) -> Result<Reply, RequestError> {
    context.version = 0;
    let mut response = ApiVersionsResponse {
        error_code: ErrorCode::UnsupportedVersion.code(),
        ..handlers::api_versions::announced_versions()
    };
    // Which versions of this request there are; the others come with the answer to the next one.
    response.api_keys.retain(|api| api.api_key == ApiKey::ApiVersions.id());
    encode_reply(&context, response, Vec::new()).map(Reply::Ready)
}

/// Decodes a request whose handler's answer is complete when it returns.
fn prepare_for<R, F>(
    context: RequestContext,
    body: Decoder,
    built_bytes: impl FnOnce(&RequestContext, &R) -> usize,
    handle: impl FnOnce(RequestContext, R) -> F + Send + 'static,
) -> Result<Work, RequestError>
where
    R: Request + Send + 'static,
    F: Future<Output = R::Response> + Send,
{
    let request: R = decode_request(&context, body)?;
    let built_bytes = built_bytes(&context, &request);
    Ok(Work::new(context, built_bytes, R::API_KEY, |context| {
        Box::pin(async move {
            let response = handle(context.clone(), request).await;
            encode_reply(&context, response, Vec::new()).map(Reply::Ready)
        })
    }))
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
/// records stand for, by token. It says so if the client has used more than its quota.
pub(crate) fn encode_reply<M: Response>(
    context: &RequestContext,
    response: M,
    files: Vec<Vec<FileRange>>,
) -> Result<EncodedReply, RequestError> {
    let encode = |response: &M| encode(context, response);
    let encoded = match &context.charge {
        None => encode(&response)?,
        Some(charge) => {
            let file_bytes: u64 = files.iter().flatten().map(|range| range.len_bytes).sum();
            let settle = |bytes: u64| charge.settle(M::API_KEY, bytes + file_bytes);
            encode_charged(response, encode, settle)?
        }
    };
    let mut files: Vec<Option<Vec<FileRange>>> = files.into_iter().map(Some).collect();
    let mut spans = Vec::new();
    for hole in encoded.holes {
        let ranges = files.get_mut(hole.token).and_then(Option::take);
        let ranges = ranges.expect("each token stands for ranges, and is used once");
        let after_bytes = hole.position_bytes;
        spans.extend(ranges.into_iter().map(|range| FileSpan { after_bytes, range }));
    }
    Ok(EncodedReply { bytes: encoded.bytes, files: spans, held: None })
}

/// Encodes an answer that says how long to wait for what it costs.
fn encode_charged<M: Response>(
    mut response: M,
    encode: impl Fn(&M) -> Result<Encoded, RequestError>,
    settle: impl FnOnce(u64) -> i32,
) -> Result<Encoded, RequestError> {
    // What a Fetch costs goes by its size. It is encoded twice if its client has to wait, but its records are not in
    // it; others can be large, and are encoded when that is known.
    let sized = match M::API_KEY {
        ApiKey::Fetch => Some(encode(&response)?),
        _ => None,
    };
    let throttle_time_ms = settle(sized.as_ref().map_or(0, |sized| sized.bytes.len() as u64));
    match sized {
        Some(sized) if throttle_time_ms == 0 => Ok(sized),
        _ => {
            response.set_throttle_time_ms(throttle_time_ms);
            encode(&response)
        }
    }
}

fn encode<M: Response>(context: &RequestContext, response: &M) -> Result<Encoded, RequestError> {
    let version = context.version;
    encode_response(context.correlation_id, version, response)
        .map_err(encode_error(M::API_KEY, version))
}

/// Says of which answer it is that something in it does not fit the version.
pub(crate) fn encode_error(
    api_key: ApiKey,
    version: i16,
) -> impl Fn(EncodeError) -> RequestError + Copy {
    move |source| RequestError::Encode { api: api_key.name(), version, source }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use logway_wire::messages::{FetchResponse, FindCoordinatorRequest, ListGroupsResponse};
    use logway_wire::{Message, encode_request};

    use super::*;

    const VERSION: i16 = 5;

    /// How often an answer is encoded whose client has to wait for so long; and the time that it tells.
    fn encoded_times<M: Response>(response: M, wait_ms: i32) -> (usize, Encoded) {
        let times = Cell::new(0);
        let encode = |response: &M| {
            times.set(times.get() + 1);
            encode_response(1, VERSION, response).map_err(|source| RequestError::Encode {
                api: "any",
                version: VERSION,
                source,
            })
        };
        let encoded = encode_charged(response, encode, |_| wait_ms).expect("encodes");
        (times.get(), encoded)
    }

    #[test]
    fn an_answer_that_can_be_large_is_encoded_once() {
        for wait_ms in [0, 1_000] {
            let (times, encoded) = encoded_times(ListGroupsResponse::default(), wait_ms);
            assert_eq!(times, 1);
            // Length, correlation id, tagged fields of the header; then the time.
            let mut body = Decoder::new(encoded.bytes.slice(9..));
            let told = ListGroupsResponse::decode(&mut body, VERSION).expect("is whole");
            assert_eq!(told.throttle_time_ms, wait_ms);
        }
        assert_eq!(encoded_times(FetchResponse::default(), 0).0, 1);
    }

    #[test]
    fn a_large_request_is_not_decoded_into_more_than_it_is_charged() {
        let keys = |count: usize, key: &'static str| {
            let request = FindCoordinatorRequest {
                coordinator_keys: vec![WireString::from_static(key); count],
                ..Default::default()
            };
            let frame = encode_request(1, None, 4, &request).expect("encodes").bytes.slice(4..);
            let mut body = Decoder::with_limit(frame.clone(), decoded_bytes_max(frame.len()));
            decode_request_header(&mut body).expect("is a header");
            FindCoordinatorRequest::decode(&mut body, 4)
                .map(|request| request.coordinator_keys.len())
        };
        assert_eq!(keys(10_000, "").ok(), Some(10_000), "a small one may be dense");
        assert_eq!(keys(1_000_000, "g").ok(), Some(1_000_000));
        assert!(keys(1_000_000, "").is_err(), "no memory was taken for that");
    }
}
