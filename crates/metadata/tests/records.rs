//! The records' form on disk. It must never change for a version that was released.

use std::collections::BTreeMap;

use logway_metadata::acl::{Acl, AclOperation, PatternType, Permission, ResourceType};
use logway_metadata::credential::{Bytes, ScramCredential};
use logway_metadata::delegation_token::DelegationToken;
use logway_metadata::join_token::{Digest, JoinToken};
use logway_metadata::quota::{QuotaEntity, QuotaKey, QuotaLimit, QuotaName};
use logway_metadata::record::{
    AclRecord, BrokerEpoch, BrokerRecord, BrokerSessionRecord, BrokerState, ClientQuotaRecord,
    ConfigRecord, Endpoint, FeatureRecord, HashKey, HashRange, Listener, NodeKeyRecord,
    PartitionRecord, ProducerIdsRecord, Reassignment, RemoveBrokerRecord,
    RemoveDelegationTokenRecord, RemoveTopicRecord, ScramCredentialRecord, Shard, ShardEnd,
    ShardRecord, StreamConsumer, StreamMode, StreamPhase, StreamRecord, StreamState, StreamsRecord,
    TopicRecord,
};
use logway_metadata::sasl::ScramMechanism;
use logway_metadata::{ConfigResource, MetadataError, MetadataImage, MetadataRecord};
use logway_model::{
    BrokerId, DirectoryId, LeaderEpoch, PartitionId, ProducerId, TimestampMs, TopicId, TopicName,
    Uuid,
};

fn id() -> TopicId {
    TopicId(Uuid([7; 16]))
}

fn name() -> TopicName {
    TopicName::new("orders").expect("is a name")
}

fn config(resource: ConfigResource, value: Option<&str>) -> MetadataRecord {
    let (name, value) = ("retention.ms".to_owned(), value.map(str::to_owned));
    MetadataRecord::Config(ConfigRecord { resource, name, value })
}

fn partition(number: i32) -> MetadataRecord {
    MetadataRecord::Partition(PartitionRecord {
        topic_id: id(),
        partition: PartitionId(number),
        replicas: vec![BrokerId(1), BrokerId(2)],
        directories: vec![DirectoryId(Uuid([8; 16])), DirectoryId::UNASSIGNED],
        isr: vec![BrokerId(1)],
        eligible: Vec::new(),
        reassignment: None,
        leader: Some(BrokerId(1)),
        leader_epoch: LeaderEpoch(3),
        partition_epoch: 4,
    })
}

fn with_eligible() -> MetadataRecord {
    let MetadataRecord::Partition(record) = partition(0) else { unreachable!("it is one") };
    MetadataRecord::partition(PartitionRecord { eligible: vec![BrokerId(2)], ..record })
}

fn reassigned() -> MetadataRecord {
    let MetadataRecord::Partition(record) = partition(0) else { unreachable!("it is one") };
    let (original, target) = (vec![BrokerId(1)], vec![BrokerId(2)]);
    let reassignment = Some(Reassignment { original, target });
    MetadataRecord::partition(PartitionRecord { reassignment, ..record })
}

fn stream() -> MetadataRecord {
    let consumer = StreamConsumer { created_ms: 3, tags: BTreeMap::new(), policy: None };
    let state = StreamState {
        created_ms: 1,
        phase_since_ms: 2,
        phase: StreamPhase::Changed,
        mode: StreamMode::OnDemand,
        max_record_kib: 1_024,
        warm_mibps: None,
        encryption_key: Some("alias/a".to_owned()),
        shard_metrics: vec!["IncomingBytes".to_owned()],
        tags: [("a".to_owned(), "b".to_owned())].into(),
        policy: None,
        consumers: [("app".to_owned(), consumer)].into(),
    };
    MetadataRecord::Stream(Box::new(StreamRecord { topic_id: id(), state }))
}

fn shard() -> MetadataRecord {
    let shard = Shard {
        range: HashRange { start: HashKey(0), end: HashKey(u128::MAX) },
        parents: vec![PartitionId(1), PartitionId(2)],
        created_s: 5,
        closed: Some(ShardEnd { at_ms: 6, offset: Some(7) }),
    };
    MetadataRecord::Shard(ShardRecord { topic_id: id(), partition: PartitionId(3), shard })
}

#[test]
fn every_kind_has_its_form() {
    let endpoint = Endpoint { host: "broker.example".to_owned(), port: 9092 };
    let session = BrokerSessionRecord {
        id: BrokerId(1),
        incarnation: Uuid([7; 16]),
        epoch: BrokerEpoch(5),
        state: BrokerState::ShuttingDown,
        listeners: vec![Listener { name: "PLAINTEXT".to_owned(), endpoint: endpoint.clone() }],
    };
    let forms = [
        (
            stream(),
            concat!(
                r#"{"stream/0":{"topic_id":"BwcHBwcHBwcHBwcHBwcHBw","state":{"created_ms":1,"#,
                r#""phase_since_ms":2,"phase":"changed","mode":"on_demand","max_record_kib":1024,"#,
                r#""warm_mibps":null,"encryption_key":"alias/a","shard_metrics":["IncomingBytes"],"#,
                r#""tags":{"a":"b"},"policy":null,"#,
                r#""consumers":{"app":{"created_ms":3,"tags":{},"policy":null}}}}}"#
            ),
        ),
        (
            shard(),
            concat!(
                r#"{"shard/0":{"topic_id":"BwcHBwcHBwcHBwcHBwcHBw","partition":3,"#,
                r#""shard":{"range":{"start":"0","end":"340282366920938463463374607431768211455"},"#,
                r#""parents":[1,2],"created_s":5,"closed":{"at_ms":6,"offset":7}}}}"#
            ),
        ),
        (
            MetadataRecord::NodeKey(NodeKeyRecord {
                directory: DirectoryId(Uuid([7; 16])),
                key: Digest([8; 32]),
                token: Some(JoinToken { secret: Digest([9; 32]), expires_ms: 5, uses: 2 }),
            }),
            concat!(
                r#"{"node_key/0":{"directory":"BwcHBwcHBwcHBwcHBwcHBw","#,
                r#""key":"CAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAg","#,
                r#""token":"CQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQk:5:2"}}"#
            ),
        ),
        (
            MetadataRecord::Streams(StreamsRecord {
                token_key: [Uuid([7; 16]), Uuid([8; 16])],
                commitment_since_ms: None,
            }),
            concat!(
                r#"{"streams/0":{"token_key":["BwcHBwcHBwcHBwcHBwcHBw","CAgICAgICAgICAgICAgICA"],"#,
                r#""commitment_since_ms":null}}"#
            ),
        ),
        (
            MetadataRecord::BrokerSession(session),
            concat!(
                r#"{"broker_session/0":{"id":1,"incarnation":"BwcHBwcHBwcHBwcHBwcHBw","epoch":5,"#,
                r#""state":"shutting_down","listeners":[{"name":"PLAINTEXT","#,
                r#""endpoint":{"host":"broker.example","port":9092}}]}}"#
            ),
        ),
        (
            MetadataRecord::RemoveBroker(RemoveBrokerRecord {
                id: BrokerId(3),
                directory: DirectoryId(Uuid([7; 16])),
                epoch: Some(BrokerEpoch(5)),
            }),
            r#"{"remove_broker/0":{"id":3,"directory":"BwcHBwcHBwcHBwcHBwcHBw","epoch":5}}"#,
        ),
        (
            reassigned(),
            concat!(
                r#"{"partition/3":{"topic_id":"BwcHBwcHBwcHBwcHBwcHBw","partition":0,"#,
                r#""replicas":[1,2],"directories":["CAgICAgICAgICAgICAgICA","#,
                r#""AAAAAAAAAAAAAAAAAAAAAA"],"isr":[1],"#,
                r#""reassignment":{"original":[1],"target":[2]},"leader":1,"#,
                r#""leader_epoch":3,"partition_epoch":4}}"#
            ),
        ),
        (
            with_eligible(),
            concat!(
                r#"{"partition/2":{"topic_id":"BwcHBwcHBwcHBwcHBwcHBw","partition":0,"#,
                r#""replicas":[1,2],"directories":["CAgICAgICAgICAgICAgICA","#,
                r#""AAAAAAAAAAAAAAAAAAAAAA"],"isr":[1],"eligible":[2],"leader":1,"#,
                r#""leader_epoch":3,"partition_epoch":4}}"#
            ),
        ),
        (
            MetadataRecord::Topic(TopicRecord { name: name(), id: id() }),
            r#"{"topic/0":{"name":"orders","id":"BwcHBwcHBwcHBwcHBwcHBw"}}"#,
        ),
        (
            MetadataRecord::RemoveTopic(RemoveTopicRecord { id: id() }),
            r#"{"remove_topic/0":{"id":"BwcHBwcHBwcHBwcHBwcHBw"}}"#,
        ),
        (
            partition(0),
            concat!(
                r#"{"partition/1":{"topic_id":"BwcHBwcHBwcHBwcHBwcHBw","partition":0,"#,
                r#""replicas":[1,2],"#,
                r#""directories":["CAgICAgICAgICAgICAgICA","AAAAAAAAAAAAAAAAAAAAAA"],"#,
                r#""isr":[1],"leader":1,"leader_epoch":3,"partition_epoch":4}}"#
            ),
        ),
        (
            config(ConfigResource::Topic(name()), Some("5")),
            r#"{"config/0":{"resource":{"topic":"orders"},"name":"retention.ms","value":"5"}}"#,
        ),
        (
            config(ConfigResource::Broker(BrokerId(1)), None),
            r#"{"config/0":{"resource":{"broker":1},"name":"retention.ms","value":null}}"#,
        ),
        (
            config(ConfigResource::BrokerDefault, None),
            r#"{"config/0":{"resource":"broker_default","name":"retention.ms","value":null}}"#,
        ),
        (
            config(ConfigResource::Group("g".to_owned()), None),
            r#"{"config/0":{"resource":{"group":"g"},"name":"retention.ms","value":null}}"#,
        ),
        (
            config(ConfigResource::ClientMetrics("s".to_owned()), None),
            r#"{"config/0":{"resource":{"client_metrics":"s"},"name":"retention.ms","value":null}}"#,
        ),
        (
            MetadataRecord::Broker(BrokerRecord {
                id: BrokerId(1),
                endpoint: Some(endpoint),
                rack: None,
                log_dirs: vec![DirectoryId(Uuid([8; 16]))],
            }),
            concat!(
                r#"{"broker/1":{"id":1,"endpoint":{"host":"broker.example","port":9092},"#,
                r#""rack":null,"log_dirs":["CAgICAgICAgICAgICAgICA"]}}"#
            ),
        ),
        (
            MetadataRecord::ProducerIds(ProducerIdsRecord { next: ProducerId(1000) }),
            r#"{"producer_ids/0":{"next":1000}}"#,
        ),
        (
            MetadataRecord::Feature(FeatureRecord {
                name: "metadata.version".to_owned(),
                level: 1,
            }),
            r#"{"feature/0":{"name":"metadata.version","level":1}}"#,
        ),
        (
            MetadataRecord::ClientQuota(ClientQuotaRecord {
                entity: QuotaEntity::UserClient {
                    user: QuotaName::Named("alice".to_owned()),
                    client_id: QuotaName::Default,
                },
                key: QuotaKey::RequestPercentage,
                limit: QuotaLimit::new(12.5),
            }),
            concat!(
                r#"{"client_quota/0":{"entity":{"user_client":{"user":{"named":"alice"},"#,
                r#""client_id":"default"}},"key":"request_percentage","limit":"12.5"}}"#
            ),
        ),
        (
            MetadataRecord::ClientQuota(ClientQuotaRecord {
                entity: QuotaEntity::ClientId(QuotaName::Default),
                key: QuotaKey::ProducerByteRate,
                limit: None,
            }),
            concat!(
                r#"{"client_quota/0":{"entity":{"client_id":"default"},"#,
                r#""key":"producer_byte_rate","limit":null}}"#
            ),
        ),
        (
            MetadataRecord::ClientQuota(ClientQuotaRecord {
                entity: QuotaEntity::Ip(QuotaName::Named("::1".to_owned())),
                key: QuotaKey::ConnectionCreationRate,
                limit: QuotaLimit::new(5.0),
            }),
            concat!(
                r#"{"client_quota/0":{"entity":{"ip":{"named":"::1"}},"#,
                r#""key":"connection_creation_rate","limit":"5"}}"#
            ),
        ),
        (
            MetadataRecord::ScramCredential(ScramCredentialRecord {
                user: "alice".to_owned(),
                mechanism: ScramMechanism::Sha256,
                credential: Some(ScramCredential {
                    salt: Bytes(vec![1, 2]),
                    iterations: 4096,
                    stored_key: Bytes(vec![3]),
                    server_key: Bytes(vec![4]),
                }),
            }),
            concat!(
                r#"{"scram_credential/0":{"user":"alice","mechanism":"sha256","#,
                r#""credential":{"salt":"AQI=","iterations":4096,"stored_key":"Aw==","server_key":"BA=="}}}"#
            ),
        ),
        (
            MetadataRecord::Acl(AclRecord {
                acl: Acl {
                    resource_type: ResourceType::TransactionalId,
                    pattern: PatternType::Prefixed,
                    name: "t".to_owned(),
                    principal: "User:alice".to_owned(),
                    host: "*".to_owned(),
                    operation: AclOperation::IdempotentWrite,
                    permission: Permission::Deny,
                },
                is_removed: false,
            }),
            concat!(
                r#"{"acl/0":{"acl":{"resource_type":"transactional_id","pattern":"prefixed","name":"t","#,
                r#""principal":"User:alice","host":"*","operation":"idempotent_write","#,
                r#""permission":"deny"},"is_removed":false}}"#
            ),
        ),
        (
            MetadataRecord::DelegationToken(DelegationToken {
                id: "t".to_owned(),
                hmac_digest: Bytes(vec![1, 2]),
                owner: "alice".to_owned(),
                requester: "admin".to_owned(),
                renewers: vec!["bob".to_owned()],
                issued_ms: TimestampMs(3),
                expires_ms: TimestampMs(4),
                max_ms: TimestampMs(5),
            }),
            concat!(
                r#"{"delegation_token/0":{"id":"t","hmac_digest":"AQI=","owner":"alice","#,
                r#""requester":"admin","renewers":["bob"],"issued_ms":3,"expires_ms":4,"max_ms":5}}"#
            ),
        ),
        (
            MetadataRecord::RemoveDelegationToken(RemoveDelegationTokenRecord {
                id: "t".to_owned(),
            }),
            r#"{"remove_delegation_token/0":{"id":"t"}}"#,
        ),
    ];
    for (record, form) in forms {
        assert_eq!(serde_json::to_string(&record).expect("can be written"), form);
        assert_eq!(serde_json::from_str::<MetadataRecord>(form).expect("can be read"), record);
    }
}

/// As they were before brokers had several log directories.
#[test]
fn older_forms_are_read() {
    let old = concat!(
        r#"{"partition/0":{"topic_id":"BwcHBwcHBwcHBwcHBwcHBw","partition":0,"#,
        r#""replicas":[1,2],"isr":[1],"leader":1,"leader_epoch":3,"partition_epoch":4}}"#
    );
    let MetadataRecord::Partition(expected) = partition(0) else { unreachable!("it is one") };
    let expected = PartitionRecord { directories: Vec::new(), ..expected };
    let read: MetadataRecord = serde_json::from_str(old).expect("can be read");
    assert_eq!(read, MetadataRecord::Partition(expected));
    let old = r#"{"broker/0":{"id":1,"endpoint":null,"rack":null}}"#;
    let broker = BrokerRecord { id: BrokerId(1), endpoint: None, rack: None, log_dirs: Vec::new() };
    let read: MetadataRecord = serde_json::from_str(old).expect("can be read");
    assert_eq!(read, MetadataRecord::Broker(broker));
}

#[test]
fn what_is_not_understood_is_refused_by_name() {
    for (form, part) in [
        (r#"{"acl/9":{}}"#, "acl/9"),
        (r#"{"topic/1":{"name":"orders","id":"BwcHBwcHBwcHBwcHBwcHBw"}}"#, "topic/1"),
        (r#"{"producer_ids/0":{"next":1,"more":2}}"#, "more"),
        (r#"{"topic/0":{"name":"..","id":"BwcHBwcHBwcHBwcHBwcHBw"}}"#, "'..' is invalid"),
        (r#"{"producer_ids/0":{}}"#, "next"),
        (
            concat!(
                r#"{"client_quota/0":{"entity":{"user":"default"},"#,
                r#""key":"producer_byte_rate","limit":"-1"}}"#
            ),
            "'-1' is not a limit",
        ),
    ] {
        let error = serde_json::from_str::<MetadataRecord>(form).expect_err(form).to_string();
        assert!(error.contains(part), "{form}: {error}");
    }
}

#[test]
fn records_that_do_not_fit_are_errors() {
    let topic = MetadataRecord::Topic(TopicRecord { name: name(), id: id() });
    let remove = MetadataRecord::RemoveTopic(RemoveTopicRecord { id: id() });
    let next = |next| MetadataRecord::ProducerIds(ProducerIdsRecord { next: ProducerId(next) });
    let on_topic = config(ConfigResource::Topic(name()), None);
    type Fits = fn(&MetadataError) -> bool;
    let cases: [(&[MetadataRecord], Fits); 7] = [
        (&[topic.clone(), topic.clone()], |e| matches!(e, MetadataError::TopicExists { .. })),
        (&[remove], |e| matches!(e, MetadataError::UnknownTopicId { .. })),
        (&[partition(0)], |e| matches!(e, MetadataError::UnknownTopicId { .. })),
        (&[topic.clone(), partition(1)], |e| matches!(e, MetadataError::PartitionGap { .. })),
        (&[topic, partition(-1)], |e| matches!(e, MetadataError::PartitionGap { .. })),
        (&[on_topic], |e| matches!(e, MetadataError::UnknownTopicName { .. })),
        (&[next(5), next(4)], |e| matches!(e, MetadataError::ProducerIdsGoBack { .. })),
    ];
    for (records, fits) in cases {
        let error = MetadataImage::default().apply(records).expect_err("they do not fit");
        assert!(fits(&error), "{records:?}: {error}");
    }
}
