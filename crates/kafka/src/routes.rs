//! From a frame to its handler: the one table of the APIs that are served.
//!
//! What the table holds is what ApiVersions announces; an API that is not in it does not exist
//! for clients.

use std::sync::Arc;

use bytes::Bytes;
use logway_model::ErrorCode;
use logway_wire::messages::ApiVersionsResponse;
use logway_wire::{ApiKey, Decoder, Request, VersionRange, decode_request_header};

use crate::handlers::{self, groups, transactions};
use crate::request::{
    ConnectionInfo, Reply, ReplyFuture, RequestCharge, RequestContext, RequestError, RequestOrigin,
    Work, decoded_bytes_max, encode_reply, prepare_for,
};
use crate::service::Service;

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
    FindCoordinatorRequest => answered_by!(find_coordinator);
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
    InitProducerIdRequest => answered_by!(transactions::init_producer_id);
    OffsetForLeaderEpochRequest => answered_by!(offset_for_leader_epoch);
    AddPartitionsToTxnRequest => answered_by!(transactions::add_partitions_to_txn);
    AddOffsetsToTxnRequest => answered_by!(transactions::add_offsets_to_txn);
    EndTxnRequest => answered_by!(transactions::end_txn);
    WriteTxnMarkersRequest => answered_by!(write_txn_markers);
    TxnOffsetCommitRequest => answered_by!(transactions::txn_offset_commit);
    DescribeAclsRequest => answered_by!(acls::describe);
    CreateAclsRequest => answered_by!(acls::create);
    DeleteAclsRequest => answered_by!(acls::delete);
    DescribeConfigsRequest => handlers::describe_configs::prepare;
    AlterConfigsRequest => answered_by!(alter_configs);
    AlterReplicaLogDirsRequest => answered_by!(alter_replica_log_dirs);
    DescribeLogDirsRequest => answered_by!(describe_log_dirs);
    SaslAuthenticateRequest => answered_in!(sasl::authenticate);
    CreatePartitionsRequest => answered_by!(create_partitions);
    CreateDelegationTokenRequest => answered_by!(delegation_tokens::create);
    RenewDelegationTokenRequest => answered_by!(delegation_tokens::renew);
    ExpireDelegationTokenRequest => answered_by!(delegation_tokens::expire);
    DescribeDelegationTokenRequest => answered_by!(delegation_tokens::describe);
    DeleteGroupsRequest => groups::delete_groups::prepare;
    ElectLeadersRequest => answered_by!(elect_leaders);
    IncrementalAlterConfigsRequest => answered_by!(incremental_alter_configs);
    AlterPartitionReassignmentsRequest => answered_by!(alter_partition_reassignments);
    ListPartitionReassignmentsRequest => answered_by!(list_partition_reassignments);
    OffsetDeleteRequest => groups::offset_delete::prepare;
    DescribeClientQuotasRequest => answered_by!(describe_client_quotas);
    AlterClientQuotasRequest => answered_by!(alter_client_quotas);
    DescribeUserScramCredentialsRequest => answered_by!(describe_user_scram_credentials);
    AlterUserScramCredentialsRequest => answered_by!(alter_user_scram_credentials);
    DescribeQuorumRequest => answered_by!(describe_quorum);
    UpdateFeaturesRequest => answered_by!(update_features);
    DescribeClusterRequest => answered_by!(describe_cluster);
    DescribeProducersRequest => answered_by!(describe_producers);
    UnregisterBrokerRequest => answered_by!(unregister_broker);
    DescribeTransactionsRequest => transactions::describe_transactions::prepare;
    ListTransactionsRequest => transactions::list_transactions::prepare;
    ConsumerGroupHeartbeatRequest => groups::consumer_heartbeat::prepare;
    ConsumerGroupDescribeRequest => groups::consumer_describe::prepare;
    GetTelemetrySubscriptionsRequest => answered_by!(get_telemetry_subscriptions);
    PushTelemetryRequest => answered_by!(push_telemetry);
    ListConfigResourcesRequest => answered_by!(list_config_resources);
    DescribeTopicPartitionsRequest => answered_by!(describe_topic_partitions);
    AddRaftVoterRequest => answered_by!(raft_voters::add);
    RemoveRaftVoterRequest => answered_by!(raft_voters::remove);
    StreamsGroupHeartbeatRequest => groups::streams_heartbeat::prepare;
    StreamsGroupDescribeRequest => groups::streams_describe::prepare;
};

/// Decodes a frame for its handler.
pub(crate) fn prepare(
    service: &Arc<Service>,
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
    let charge = RequestCharge::begin(&service.node, connection, key, client_id, frame_bytes);
    let (correlation_id, client_id) = (header.correlation_id, header.client_id);
    let origin = RequestOrigin { version, correlation_id, client_id };
    let context = RequestContext::new(service, connection, origin, charge.clone());
    if !is_served {
        let refuse = |context| -> ReplyFuture { Box::pin(async { refuse_api_versions(context) }) };
        return Ok(Work::new(context, 0, key, refuse));
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
        ..handlers::api_versions::announced()
    };
    // Which versions of this request there are; the others come with the answer to the next one.
    response.api_keys.retain(|api| api.api_key == ApiKey::ApiVersions.id());
    encode_reply(&context, response, Vec::new()).map(Reply::Ready)
}
