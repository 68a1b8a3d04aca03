//! The cluster as a whole; and what everybody may ask.

use logway_model::{ErrorCode, Uuid};
use logway_wire::messages::alter_client_quotas_request::{EntityData, EntryData, OpData};
use logway_wire::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};
use logway_wire::messages::alter_replica_log_dirs_request::{
    AlterReplicaLogDir, AlterReplicaLogDirTopic,
};
use logway_wire::messages::alter_user_scram_credentials_request::ScramCredentialDeletion;
use logway_wire::messages::create_acls_request::AclCreation;
use logway_wire::messages::delete_acls_request::DeleteAclsFilter;
use logway_wire::messages::describe_quorum_request::{PartitionData, TopicData};
use logway_wire::messages::describe_user_scram_credentials_request::UserName;
use logway_wire::messages::elect_leaders_request::TopicPartitions;
use logway_wire::messages::list_partition_reassignments_request::ListPartitionReassignmentsTopics;
use logway_wire::messages::update_features_request::FeatureUpdateKey;
use logway_wire::messages::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
use logway_wire::messages::*;

use super::CLUSTER;
use super::common::probe::Probe;

pub(crate) async fn refused(probe: &mut Probe) {
    partitions(probe).await;
    quotas_and_users(probe).await;

    let described = |_, response: DescribeAclsResponse| vec![response.error_code];
    let describe = |_| DescribeAclsRequest::default();
    probe.told(describe, described, CLUSTER, "Describe Cluster").await;
    let created = |_, response: CreateAclsResponse| {
        response.results.iter().map(|result| result.error_code).collect()
    };
    let create = |_| CreateAclsRequest {
        creations: vec![AclCreation { resource_name: "named".into(), ..Default::default() }],
        ..Default::default()
    };
    probe.told(create, created, CLUSTER, "Alter Cluster").await;
    let deleted = |_, response: DeleteAclsResponse| {
        response.filter_results.iter().map(|result| result.error_code).collect()
    };
    let delete =
        |_| DeleteAclsRequest { filters: vec![DeleteAclsFilter::default()], ..Default::default() };
    probe.told(delete, deleted, CLUSTER, "Alter Cluster").await;

    let topic = TopicData {
        topic_name: "__cluster_metadata".into(),
        partitions: vec![PartitionData::default()],
        ..Default::default()
    };
    let describe = |_| DescribeQuorumRequest { topics: vec![topic.clone()], ..Default::default() };
    let described = |_, response: DescribeQuorumResponse| {
        assert!(response.topics.is_empty() && response.nodes.is_empty());
        vec![response.error_code]
    };
    probe.told(describe, described, CLUSTER, "Describe Cluster").await;

    members(probe).await;
    markers(probe).await;

    let update = |_| UpdateFeaturesRequest {
        feature_updates: vec![FeatureUpdateKey {
            feature: "kraft.version".into(),
            max_version_level: 1,
            ..Default::default()
        }],
        ..Default::default()
    };
    let updated = |_, response: UpdateFeaturesResponse| vec![response.error_code];
    probe.told(update, updated, CLUSTER, "Alter Cluster").await;
}

/// As Kafka asks: an administrator may, and then a broker.
async fn markers(probe: &mut Probe) {
    let topic = WritableTxnMarkerTopic {
        name: "named".into(),
        partition_indexes: vec![0, 9],
        ..Default::default()
    };
    let marker = WritableTxnMarker { topics: vec![topic], ..Default::default() };
    let write = |_| WriteTxnMarkersRequest { markers: vec![marker.clone()], ..Default::default() };
    let written = |_, response: WriteTxnMarkersResponse| {
        let topics = response.markers.iter().flat_map(|marker| &marker.topics);
        let partitions = topics.flat_map(|topic| &topic.partitions);
        partitions.map(|partition| partition.error_code).collect()
    };
    probe.told(write, written, CLUSTER, "Alter Cluster, ClusterAction Cluster").await;
}

async fn members(probe: &mut Probe) {
    let unregister = |_| UnregisterBrokerRequest { broker_id: 1, ..Default::default() };
    let unregistered = |_, response: UnregisterBrokerResponse| vec![response.error_code];
    probe.told(unregister, unregistered, CLUSTER, "Alter Cluster").await;
    let voter_directory_id = Uuid([1; 16]);
    let add = |_| AddRaftVoterRequest {
        voter_id: 1,
        voter_directory_id,
        listeners: vec![Default::default()],
        // Older versions have no room for another.
        ack_when_committed: true,
        ..Default::default()
    };
    let added = |_, response: AddRaftVoterResponse| vec![response.error_code];
    probe.told(add, added, CLUSTER, "Alter Cluster").await;
    let remove =
        |_| RemoveRaftVoterRequest { voter_id: 1, voter_directory_id, ..Default::default() };
    let removed = |_, response: RemoveRaftVoterResponse| vec![response.error_code];
    probe.told(remove, removed, CLUSTER, "Alter Cluster").await;
}

async fn partitions(probe: &mut Probe) {
    let elect = |all| {
        move |_| ElectLeadersRequest {
            topic_partitions: match all {
                true => None,
                false => Some(vec![TopicPartitions {
                    topic: "named".into(),
                    partitions: vec![0, 5],
                    ..Default::default()
                }]),
            },
            ..Default::default()
        }
    };
    let elected = |version, response: ElectLeadersResponse| {
        let topics = response.replica_election_results.iter();
        let partitions = topics.flat_map(|topic| &topic.partition_result);
        let whole = (version > 0).then_some(response.error_code);
        partitions.map(|partition| partition.error_code).chain(whole).collect()
    };
    probe.told(elect(false), elected, CLUSTER, "Alter Cluster").await;
    probe.told_from(1, elect(true), elected, CLUSTER, "Alter Cluster").await;

    let partition = ReassignablePartition { replicas: Some(vec![1]), ..Default::default() };
    let reassign = |_| AlterPartitionReassignmentsRequest {
        topics: vec![ReassignableTopic {
            name: "named".into(),
            partitions: vec![partition.clone()],
            ..Default::default()
        }],
        ..Default::default()
    };
    let reassigned = |_, response: AlterPartitionReassignmentsResponse| {
        vec![response.error_code, response.responses[0].partitions[0].error_code]
    };
    probe.told(reassign, reassigned, CLUSTER, "Alter Cluster").await;

    let list = |_| ListPartitionReassignmentsRequest {
        topics: Some(vec![ListPartitionReassignmentsTopics {
            name: "named".into(),
            partition_indexes: vec![0],
            ..Default::default()
        }]),
        ..Default::default()
    };
    let listed = |_, response: ListPartitionReassignmentsResponse| {
        assert!(response.topics[0].partitions[0].replicas.is_empty());
        vec![response.error_code]
    };
    probe.told(list, listed, CLUSTER, "Describe Cluster").await;

    let move_to = |_| AlterReplicaLogDirsRequest {
        dirs: vec![AlterReplicaLogDir {
            path: "/nowhere".into(),
            topics: vec![AlterReplicaLogDirTopic {
                name: "named".into(),
                partitions: vec![0],
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    let moved = |_, response: AlterReplicaLogDirsResponse| {
        vec![response.results[0].partitions[0].error_code]
    };
    probe.told(move_to, moved, CLUSTER, "Alter Cluster").await;

    let describe = |_| DescribeLogDirsRequest { topics: None, ..Default::default() };
    let described = |version, response: DescribeLogDirsResponse| {
        assert!(response.results.is_empty());
        // Before that nothing can be said.
        vec![if version < 3 { CLUSTER.code() } else { response.error_code }]
    };
    probe.told(describe, described, CLUSTER, "Describe Cluster").await;
}

async fn quotas_and_users(probe: &mut Probe) {
    let describe = |_| DescribeClientQuotasRequest::default();
    let described = |_, response: DescribeClientQuotasResponse| {
        assert!(response.entries.is_none());
        vec![response.error_code]
    };
    probe.told(describe, described, CLUSTER, "DescribeConfigs Cluster").await;

    let entity = EntityData {
        entity_type: "user".into(),
        entity_name: Some("alice".into()),
        ..Default::default()
    };
    let op = OpData { key: "producer_byte_rate".into(), value: 1e6, ..Default::default() };
    let entry = EntryData { entity: vec![entity], ops: vec![op], ..Default::default() };
    let alter = |_| AlterClientQuotasRequest { entries: vec![entry.clone()], ..Default::default() };
    let altered = |_, response: AlterClientQuotasResponse| {
        assert_eq!(&*response.entries[0].entity[0].entity_type, "user");
        vec![response.entries[0].error_code]
    };
    probe.told(alter, altered, CLUSTER, "AlterConfigs Cluster").await;

    let describe = |_| DescribeUserScramCredentialsRequest {
        users: Some(vec![UserName { name: "alice".into(), ..Default::default() }]),
        ..Default::default()
    };
    let described = |_, response: DescribeUserScramCredentialsResponse| {
        vec![response.error_code, response.results[0].error_code]
    };
    probe.told(describe, described, CLUSTER, "Describe Cluster").await;

    let alter = |_| AlterUserScramCredentialsRequest {
        deletions: vec![ScramCredentialDeletion {
            name: "alice".into(),
            mechanism: 1,
            ..Default::default()
        }],
        ..Default::default()
    };
    let altered =
        |_, response: AlterUserScramCredentialsResponse| vec![response.results[0].error_code];
    probe.told(alter, altered, CLUSTER, "Alter Cluster").await;
}

/// What a client asks about itself takes no permission, and is answered as ever.
pub(crate) async fn open_to_all(probe: &mut Probe) {
    let versions = |_| ApiVersionsRequest {
        client_software_name: "test".into(),
        client_software_version: "1".into(),
        ..Default::default()
    };
    let told = |_, response: ApiVersionsResponse| vec![response.error_code];
    probe.told(versions, told, ErrorCode::None, "").await;

    let state = ErrorCode::IllegalSaslState;
    let told = |_, response: SaslHandshakeResponse| vec![response.error_code];
    probe.told(|_| SaslHandshakeRequest::default(), told, state, "").await;
    let told = |_, response: SaslAuthenticateResponse| vec![response.error_code];
    probe.told(|_| SaslAuthenticateRequest::default(), told, state, "").await;

    let (subscribed, asked) = probe.ask(&GetTelemetrySubscriptionsRequest::default(), 0).await;
    assert_eq!((subscribed.error_code, &*asked), (0, ""));
    let push = PushTelemetryRequest {
        client_instance_id: subscribed.client_instance_id,
        subscription_id: subscribed.subscription_id,
        ..Default::default()
    };
    let (pushed, asked) = probe.ask(&push, 0).await;
    assert_eq!((pushed.error_code, &*asked), (0, ""));

    let not_here = ErrorCode::DelegationTokenRequestNotAllowed;
    let told = |version, response: CreateDelegationTokenResponse| {
        assert_eq!(&*response.principal_name, "ANONYMOUS");
        let requester = if version < 3 { "" } else { "ANONYMOUS" };
        assert_eq!(&*response.token_requester_principal_name, requester);
        vec![response.error_code]
    };
    probe.told(|_| CreateDelegationTokenRequest::default(), told, not_here, "").await;
    let told = |_, response: RenewDelegationTokenResponse| vec![response.error_code];
    probe.told(|_| RenewDelegationTokenRequest::default(), told, not_here, "").await;
    let told = |_, response: ExpireDelegationTokenResponse| vec![response.error_code];
    probe.told(|_| ExpireDelegationTokenRequest::default(), told, not_here, "").await;
    let told = |_, response: DescribeDelegationTokenResponse| vec![response.error_code];
    probe.told(|_| DescribeDelegationTokenRequest::default(), told, not_here, "").await;
}
