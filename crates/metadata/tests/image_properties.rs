//! Random commands: whatever the controller decides fits the image, and an image is the same
//! whether it comes from the history, from one long batch or from its own snapshot.

use std::collections::BTreeMap;

use logway_metadata::controller::{
    AllocateProducerIds, AlterClientQuotas, AlterConfigs, AssignReplicasToDirs, Command,
    ConfigOperation, CreateDelegationToken, CreatePartitions, CreateTopics, DeleteTopics,
    ExpireDelegationToken, IncrementalAlterConfigs, NewTopic, OperationKind, PartitionsIncrease,
    ProducerIdBlock, QuotaAlteration, RegisterBroker, RemoveExpiredTokens, RenewDelegationToken,
    ReplicaDirectory, ResourceConfigs, ResourceOperations, TopicReference,
};
use logway_metadata::credential::Bytes;
use logway_metadata::quota::{QuotaEntity, QuotaKey, QuotaLimit, QuotaName};
use logway_metadata::settings::{BrokerSettings, TopicSettings};
use logway_metadata::{ConfigResource, MetadataImage, MetadataRecord};
use logway_model::{BrokerId, DirectoryId, PartitionId, TimestampMs, TopicId, TopicName, Uuid};
use proptest::prelude::*;

/// Few names, some of which collide, so that commands meet each other's traces.
const NAMES: &[&str] = &["orders", "a.b", "a_b", "payments", "..", "x"];

const SETTINGS: &[(&str, &str)] = &[
    ("retention.ms", "5"),
    ("retention.ms", "-2"),
    ("cleanup.policy", "compact"),
    ("cleanup.policy", "delete"),
    ("min.compaction.lag.ms", "10"),
    ("max.compaction.lag.ms", "5"),
    ("log.retention.ms", "7"),
    ("log.cleaner.max.compaction.lag.ms", "3"),
    ("num.partitions", "3"),
    ("interval.ms", "1000"),
    ("metrics", "org.a,org.b"),
    ("consumer.session.timeout.ms", "6000"),
    ("nonsense", "1"),
];

#[derive(Debug, Clone)]
enum Op {
    Create { name: usize, partitions: i32, replication_factor: i16, setting: Option<usize> },
    Delete { name: usize, by_id: bool },
    Grow { name: usize, count: i32 },
    Alter { resource: ConfigResource, setting: usize },
    Operate { resource: ConfigResource, setting: usize, kind: OperationKind },
    ProducerIds,
    Broker { id: i32, log_dirs: u8 },
    Assign { name: usize, partition: i32, broker: i32, directory: u8 },
    Quota { entity: QuotaEntity, key: usize, limit: Option<f64> },
    CreateToken { id: u8, lifetime_max_ms: i64 },
    RenewToken { id: u8, period_ms: i64, now_ms: i64 },
    ExpireToken { id: u8, period_ms: i64, now_ms: i64 },
    RemoveExpired { now_ms: i64 },
}

fn any_resource() -> impl Strategy<Value = ConfigResource> {
    prop_oneof![
        (0..NAMES.len()).prop_filter_map("must be a name", |index| {
            TopicName::new(NAMES[index]).ok().map(ConfigResource::Topic)
        }),
        (1..4).prop_map(|id| ConfigResource::Broker(BrokerId(id))),
        Just(ConfigResource::BrokerDefault),
        Just(ConfigResource::Group("g".to_owned())),
        Just(ConfigResource::ClientMetrics("s".to_owned())),
    ]
}

fn any_kind() -> impl Strategy<Value = OperationKind> {
    (0..4_i8).prop_map(|code| OperationKind::from_code(code).expect("is an operation"))
}

fn any_quota_name() -> impl Strategy<Value = QuotaName> {
    prop_oneof![Just(QuotaName::Default), "[ab]".prop_map(QuotaName::Named)]
}

fn any_quota_entity() -> impl Strategy<Value = QuotaEntity> {
    prop_oneof![
        any_quota_name().prop_map(QuotaEntity::User),
        any_quota_name().prop_map(QuotaEntity::ClientId),
        (any_quota_name(), any_quota_name())
            .prop_map(|(user, client_id)| QuotaEntity::UserClient { user, client_id }),
        any_quota_name().prop_map(QuotaEntity::Ip),
    ]
}

fn any_op() -> impl Strategy<Value = Op> {
    let setting = 0..SETTINGS.len();
    prop_oneof![
        4 => (0..NAMES.len(), -1..5, -1..4_i16, proptest::option::of(setting.clone())).prop_map(
            |(name, partitions, replication_factor, setting)| Op::Create {
                name, partitions, replication_factor, setting,
            }
        ),
        2 => (0..NAMES.len(), any::<bool>()).prop_map(|(name, by_id)| Op::Delete { name, by_id }),
        2 => (0..NAMES.len(), -1..8).prop_map(|(name, count)| Op::Grow { name, count }),
        2 => (any_resource(), setting.clone())
            .prop_map(|(resource, setting)| Op::Alter { resource, setting }),
        3 => (any_resource(), setting, any_kind())
            .prop_map(|(resource, setting, kind)| Op::Operate { resource, setting, kind }),
        1 => Just(Op::ProducerIds),
        2 => (1..4, 0..3_u8).prop_map(|(id, log_dirs)| Op::Broker { id, log_dirs }),
        2 => (0..NAMES.len(), 0..5, 1..4, 0..6_u8).prop_map(
            |(name, partition, broker, directory)| Op::Assign {
                name, partition, broker, directory,
            }
        ),
        2 => (any_quota_entity(), 0..QuotaKey::ALL.len(), proptest::option::of(0.0..1e9)).prop_map(
            |(entity, key, limit)| Op::Quota { entity, key, limit }
        ),
        2 => (0..3_u8, -1..20_i64)
            .prop_map(|(id, lifetime_max_ms)| Op::CreateToken { id, lifetime_max_ms }),
        1 => (0..3_u8, -1..20_i64, 0..30_i64)
            .prop_map(|(id, period_ms, now_ms)| Op::RenewToken { id, period_ms, now_ms }),
        1 => (0..3_u8, -1..20_i64, 0..30_i64)
            .prop_map(|(id, period_ms, now_ms)| Op::ExpireToken { id, period_ms, now_ms }),
        1 => (0..30_i64).prop_map(|now_ms| Op::RemoveExpired { now_ms }),
    ]
}

/// A controller with its history.
struct Cluster {
    image: MetadataImage,
    broker: BrokerSettings,
    history: Vec<MetadataRecord>,
    topics_created: u8,
    producer_ids: Vec<ProducerIdBlock>,
}

impl Cluster {
    fn new() -> Cluster {
        let key = ("delegation.token.secret.key".to_owned(), "secret".to_owned());
        Cluster {
            image: MetadataImage::default(),
            broker: BrokerSettings::new([key]).expect("is valid"),
            history: Vec::new(),
            topics_created: 0,
            producer_ids: Vec::new(),
        }
    }

    fn submit<C: Command>(&mut self, command: C) -> Option<C::Reply> {
        let decision = command.evaluate(&self.image, &self.broker).ok()?;
        self.image = self.image.apply(&decision.records).expect("the controller's records fit");
        self.history.extend(decision.records);
        Some(decision.reply)
    }

    fn run(&mut self, op: Op) {
        match op {
            Op::Create { name, partitions, replication_factor, setting } => {
                self.topics_created += 1;
                let topic = NewTopic {
                    name: NAMES[name].to_owned(),
                    id: TopicId(Uuid([self.topics_created; 16])),
                    num_partitions: partitions,
                    replication_factor,
                    assignments: Vec::new(),
                    configs: setting.map(config).into_iter().collect(),
                };
                self.submit(CreateTopics { topics: vec![topic], validate_only: false });
            }
            Op::Delete { name, by_id } => {
                let topic = self.image.topic(NAMES[name]).filter(|_| by_id);
                let by_name = TopicReference::Name(NAMES[name].to_owned());
                let topic = topic.map_or(by_name, |topic| TopicReference::Id(topic.id));
                self.submit(DeleteTopics { topics: vec![topic] });
            }
            Op::Grow { name, count } => {
                let name = NAMES[name].to_owned();
                let topic = PartitionsIncrease { name, count, assignments: None };
                self.submit(CreatePartitions { topics: vec![topic], validate_only: false });
            }
            Op::Alter { resource, setting } => {
                let resources = vec![ResourceConfigs { resource, configs: vec![config(setting)] }];
                self.submit(AlterConfigs { resources, validate_only: false });
            }
            Op::Operate { resource, setting, kind } => {
                let (name, value) = config(setting);
                let operations = vec![ConfigOperation { name, kind, value }];
                let resources = vec![ResourceOperations { resource, operations }];
                self.submit(IncrementalAlterConfigs { resources, validate_only: false });
            }
            Op::ProducerIds => {
                let block = self.submit(AllocateProducerIds);
                self.producer_ids.extend(block);
            }
            Op::Quota { entity, key, limit } => {
                let limits = vec![(QuotaKey::ALL[key], limit.and_then(QuotaLimit::new))];
                let entities = vec![QuotaAlteration { entity, limits }];
                self.submit(AlterClientQuotas { entities, validate_only: false });
            }
            Op::CreateToken { id, lifetime_max_ms } => {
                self.submit(CreateDelegationToken {
                    id: format!("token-{id}"),
                    hmac_digest: Bytes(vec![id]),
                    owner: "a".to_owned(),
                    requester: "b".to_owned(),
                    renewers: vec!["c".to_owned()],
                    lifetime_max_ms,
                    now_ms: TimestampMs(1),
                });
            }
            Op::RenewToken { id, period_ms, now_ms } => {
                let (hmac_digest, requester) = (Bytes(vec![id]), "a".to_owned());
                let now_ms = TimestampMs(now_ms);
                self.submit(RenewDelegationToken { hmac_digest, requester, period_ms, now_ms });
            }
            Op::ExpireToken { id, period_ms, now_ms } => {
                let (hmac_digest, requester) = (Bytes(vec![id]), "c".to_owned());
                let now_ms = TimestampMs(now_ms);
                self.submit(ExpireDelegationToken { hmac_digest, requester, period_ms, now_ms });
            }
            Op::RemoveExpired { now_ms } => {
                let now_ms = TimestampMs(now_ms);
                self.submit(RemoveExpiredTokens { now_ms });
                assert_eq!(self.image.delegation_tokens().expired(now_ms).count(), 0);
            }
            Op::Broker { id, log_dirs } => {
                let first = u8::try_from(2 * id).expect("is small");
                let log_dirs = (first..first + log_dirs).map(directory).collect();
                let id = BrokerId(id);
                self.submit(RegisterBroker { id, endpoint: None, rack: None, log_dirs });
            }
            Op::Assign { name, partition, broker, directory: number } => {
                let Some(topic) = self.image.topic(NAMES[name]) else { return };
                let (topic_id, partition) = (topic.id, PartitionId(partition));
                let directory = directory(number);
                let replicas = vec![ReplicaDirectory { topic_id, partition, directory }];
                self.submit(AssignReplicasToDirs { broker: BrokerId(broker), replicas });
            }
        }
    }

    fn check(&self) {
        let replayed = MetadataImage::default().apply(&self.history).expect("history fits");
        assert_eq!(replayed, self.image, "history in one batch");
        let text = serde_json::to_string(&self.image.to_records()).expect("can be written");
        let snapshot: Vec<MetadataRecord> = serde_json::from_str(&text).expect("can be read");
        let restored = MetadataImage::default().apply(&snapshot).expect("snapshot fits");
        assert_eq!(restored, self.image, "snapshot");

        let mut partitions = 0;
        let mut replicas_in = BTreeMap::new();
        for topic in self.image.topics() {
            assert_eq!(self.image.topic(topic.name.as_str()), Some(topic));
            assert_eq!(self.image.topic_by_id(topic.id), Some(topic));
            assert_eq!(self.image.colliding_topic(&topic.name), None);
            partitions += topic.partitions.len();
            for partition in &topic.partitions {
                for directory in &partition.directories {
                    *replicas_in.entry(*directory).or_default() += 1;
                }
                // One that has lost its directory leads no more.
                assert!(partition.leader.is_none_or(|leader| partition.isr.contains(&leader)));
                assert!(partition.isr.iter().all(|id| partition.replicas.contains(id)));
                assert!(partition.replicas.iter().all(|&id| self.image.broker(id).is_some()));
            }
            TopicSettings::resolve(&topic.overrides, &self.image, &self.broker)
                .expect("stored settings are valid");
        }
        assert_eq!(self.image.partition_count(), partitions);
        for directory in (1..10).map(directory) {
            let counted = replicas_in.get(&directory).copied().unwrap_or(0);
            assert_eq!(self.image.replicas_in(directory), counted, "{directory}");
        }
        for token in self.image.delegation_tokens().iter() {
            let found = self.image.delegation_tokens().token_of_hmac(&token.hmac_digest);
            assert_eq!(found, Some(token));
            assert!(token.expires_ms <= token.max_ms);
        }
        assert!(self.producer_ids.is_sorted_by(|a, b| a.first.0 + a.count <= b.first.0));
    }
}

/// 0 is no directory.
fn directory(number: u8) -> DirectoryId {
    DirectoryId(Uuid([number; 16]))
}

fn config(setting: usize) -> (String, Option<String>) {
    let (name, value) = SETTINGS[setting];
    (name.to_owned(), Some(value.to_owned()))
}

proptest! {
    #[test]
    fn every_way_to_an_image_leads_to_the_same(
        ops in proptest::collection::vec(any_op(), 0..40)
    ) {
        let mut cluster = Cluster::new();
        for op in ops {
            cluster.run(op);
        }
        cluster.check();
    }
}

#[test]
fn an_older_image_does_not_change() {
    let mut cluster = Cluster::new();
    cluster.run(Op::Broker { id: 1, log_dirs: 1 });
    let create = |name| Op::Create { name, partitions: 2, replication_factor: 1, setting: None };
    cluster.run(create(0));
    let before = cluster.image.clone();
    let records = before.to_records();
    cluster.run(create(3));
    cluster.run(Op::Grow { name: 0, count: 4 });
    cluster.run(Op::Delete { name: 0, by_id: true });
    assert_eq!(before.to_records(), records);
    assert_eq!(before.partition_count(), 2);
    assert_eq!(cluster.image.topic_count(), 1);
}
