//! The state that metadata records add up to.

mod acls;
mod client_quotas;
mod delegation_tokens;
mod difference;
mod duty;
mod removed_brokers;
mod stream;
mod topic;
mod users;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use logway_model::{BrokerId, DirectoryId, ProducerId, TopicId, TopicName, Uuid};
use rpds::RedBlackTreeMapSync;

pub use acls::{AclVerdict, Acls};
pub use client_quotas::{ApplicableQuota, ClientQuotas, QuotaLimits, QuotaSharers};
pub use delegation_tokens::DelegationTokens;
pub use difference::TopicsDifference;
pub use duty::Duty;
pub use removed_brokers::{REMOVED_BROKERS_MAX, RemovedBrokers};
pub use stream::{Intake, StreamImage};
pub use topic::{PartitionImage, TopicImage, is_internal};
pub use users::{ScramCredentials, Users};

use crate::error::MetadataError;
use crate::join_token::Digest;
use crate::level::{METADATA_FEATURE, MetadataLevel};
use crate::record::{
    BrokerEpoch, BrokerRecord, BrokerSessionRecord, BrokerState, ConfigRecord, ConfigResource,
    Endpoint, FeatureRecord, MetadataRecord, NODE_LISTENER, NodeKeyRecord, PartitionRecord,
    ProducerIdsRecord, RemoveTopicRecord, ShardRecord, StreamRecord, StreamsRecord, TopicRecord,
};
use crate::settings::broker::names::NODE_DUTY_SETTING;

/// The settings that a resource overrides, by name, as text.
pub type Overrides = BTreeMap<String, String>;

/// The cluster's metadata as of one committed record.
///
/// An image never changes: [`apply`](MetadataImage::apply) makes the next one, which shares all
/// that the records did not touch. Cloning one costs a few reference counts. So a handler takes
/// the current image once and sees one consistent state for as long as it works.
///
/// Invariants: a topic is found under its name and its id or under neither; its partitions are
/// numbered from 0 without gaps; two equal histories give equal images.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetadataImage {
    topics: RedBlackTreeMapSync<TopicName, Arc<TopicImage>>,
    names_by_id: RedBlackTreeMapSync<TopicId, TopicName>,
    brokers: RedBlackTreeMapSync<BrokerId, Arc<BrokerRecord>>,
    /// The present life of each broker of a cluster.
    sessions: RedBlackTreeMapSync<BrokerId, Arc<BrokerSessionRecord>>,
    removed_brokers: RemovedBrokers,
    /// Of everything but topics; no resource has an empty map.
    overrides: RedBlackTreeMapSync<ConfigResource, Arc<Overrides>>,
    features: RedBlackTreeMapSync<String, i16>,
    client_quotas: ClientQuotas,
    users: Users,
    acls: Acls,
    delegation_tokens: DelegationTokens,
    next_producer_id: ProducerId,
    /// What all streams share.
    streams: Option<Arc<StreamsRecord>>,
    /// The keys of the nodes, where they talk by TLS.
    node_keys: RedBlackTreeMapSync<DirectoryId, NodeKeyRecord>,
    partition_count: usize,
    /// How many replicas each log directory holds; no entry is zero.
    replicas_by_directory: RedBlackTreeMapSync<DirectoryId, usize>,
}

impl Default for MetadataImage {
    fn default() -> MetadataImage {
        MetadataImage {
            topics: RedBlackTreeMapSync::new_sync(),
            names_by_id: RedBlackTreeMapSync::new_sync(),
            brokers: RedBlackTreeMapSync::new_sync(),
            sessions: RedBlackTreeMapSync::new_sync(),
            removed_brokers: RemovedBrokers::default(),
            overrides: RedBlackTreeMapSync::new_sync(),
            features: RedBlackTreeMapSync::new_sync(),
            client_quotas: ClientQuotas::default(),
            users: Users::default(),
            acls: Acls::default(),
            delegation_tokens: DelegationTokens::default(),
            next_producer_id: ProducerId(0),
            streams: None,
            node_keys: RedBlackTreeMapSync::new_sync(),
            partition_count: 0,
            replicas_by_directory: RedBlackTreeMapSync::new_sync(),
        }
    }
}

impl MetadataImage {
    /// The image after some more records, or the first record that does not fit.
    pub fn apply(&self, records: &[MetadataRecord]) -> Result<MetadataImage, MetadataError> {
        let mut next = self.clone();
        for record in records {
            next.apply_record(record)?;
        }
        Ok(next)
    }

    /// Records that make this image from an empty one: a snapshot's content.
    pub fn to_records(&self) -> Vec<MetadataRecord> {
        let mut records = Vec::with_capacity(self.topics.size() + self.partition_count);
        records.extend(self.features().map(|(name, level)| {
            MetadataRecord::Feature(FeatureRecord { name: name.to_owned(), level })
        }));
        // In front of the brokers, because a number may have been given to another one since.
        let removed = self.removed_brokers.iter().copied();
        records.extend(removed.map(MetadataRecord::RemoveBroker));
        records.extend(self.brokers().map(|broker| MetadataRecord::Broker(broker.clone())));
        let session =
            |session: &BrokerSessionRecord| MetadataRecord::BrokerSession(session.clone());
        records.extend(self.broker_sessions().map(session));
        if self.next_producer_id != ProducerId(0) {
            let next = self.next_producer_id;
            records.push(MetadataRecord::ProducerIds(ProducerIdsRecord { next }));
        }
        for (resource, overrides) in self.overrides.iter() {
            push_overrides(&mut records, resource.clone(), overrides);
        }
        self.client_quotas.push_records(&mut records);
        self.users.push_records(&mut records);
        self.acls.push_records(&mut records);
        self.delegation_tokens.push_records(&mut records);
        records.extend(self.streams().map(|streams| MetadataRecord::Streams(streams.clone())));
        records.extend(self.node_keys.values().copied().map(MetadataRecord::NodeKey));
        for topic in self.topics() {
            topic.push_records(&mut records);
            let resource = ConfigResource::Topic(topic.name.clone());
            push_overrides(&mut records, resource, &topic.overrides);
        }
        records
    }

    /// The key by which the node of a directory is known.
    pub fn node_key(&self, directory: DirectoryId) -> Option<Digest> {
        Some(self.node_keys.get(&directory)?.key)
    }

    /// The same, and the token that the node was admitted by.
    pub fn node_admission(&self, directory: DirectoryId) -> Option<&NodeKeyRecord> {
        self.node_keys.get(&directory)
    }

    /// The directories of all nodes that are known by a key; none where nodes do not talk by TLS.
    pub fn node_keys(&self) -> impl Iterator<Item = (DirectoryId, Digest)> {
        self.node_keys.values().map(|node| (node.directory, node.key))
    }

    /// The topic of a name.
    pub fn topic(&self, name: &str) -> Option<&Arc<TopicImage>> {
        self.topics.get(name)
    }

    /// The topic of an id.
    pub fn topic_by_id(&self, id: TopicId) -> Option<&Arc<TopicImage>> {
        self.topics.get(self.names_by_id.get(&id)?)
    }

    /// Every topic, in the order of their names.
    pub fn topics(&self) -> impl Iterator<Item = &Arc<TopicImage>> {
        self.topics.values()
    }

    /// The topics whose names come at or after a text, in order: where a listing in pages goes on.
    pub fn topics_from<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Arc<TopicImage>> {
        let bounds = (Bound::Included(name), Bound::Unbounded);
        self.topics.range::<str, _>(bounds).map(|(_, topic)| topic)
    }

    /// The existing topic that a new name could be confused with, if any: metrics write `.` as
    /// `_`, so names that differ only in these two are refused.
    pub fn colliding_topic(&self, name: &TopicName) -> Option<&TopicName> {
        let ambiguous = |name: &TopicName| name.as_str().contains(['.', '_']);
        if !ambiguous(name) {
            return None;
        }
        self.topics.keys().find(|&other| other != name && collides(other, name))
    }

    /// How many topics there are.
    pub fn topic_count(&self) -> usize {
        self.topics.size()
    }

    /// How many partitions all topics have together.
    pub fn partition_count(&self) -> usize {
        self.partition_count
    }

    /// How many replicas are assigned to a log directory.
    pub fn replicas_in(&self, directory: DirectoryId) -> usize {
        self.replicas_by_directory.get(&directory).copied().unwrap_or(0)
    }

    /// A broker of the cluster.
    pub fn broker(&self, id: BrokerId) -> Option<&BrokerRecord> {
        self.brokers.get(&id).map(Arc::as_ref)
    }

    /// Every broker of the cluster, by number.
    pub fn brokers(&self) -> impl ExactSizeIterator<Item = &BrokerRecord> {
        self.brokers.values().map(Arc::as_ref)
    }

    /// The present life of a broker; `None` in a cluster of one.
    pub fn broker_session(&self, id: BrokerId) -> Option<&BrokerSessionRecord> {
        self.sessions.get(&id).map(Arc::as_ref)
    }

    /// The present lives of all brokers, by number.
    pub fn broker_sessions(&self) -> impl ExactSizeIterator<Item = &BrokerSessionRecord> {
        self.sessions.values().map(Arc::as_ref)
    }

    /// Where clients of a listener reach a broker; `None` if it has no such listener, or has told no address.
    ///
    /// A broker of an earlier version has told one address, which counts for each listener.
    pub fn endpoint(&self, broker: BrokerId, listener: &str) -> Option<&Endpoint> {
        let listeners = self.broker_session(broker).map_or(&[][..], |session| &session.listeners);
        if listeners.iter().all(|known| known.name == NODE_LISTENER) {
            return self.broker(broker)?.endpoint.as_ref();
        }
        listeners.iter().find(|known| known.name == listener).map(|known| &known.endpoint)
    }

    /// Whether a broker may lead and be in sync.
    pub fn is_active(&self, id: BrokerId) -> bool {
        let session = self.broker_session(id);
        self.broker(id).is_some() && session.is_none_or(|it| it.state == BrokerState::Active)
    }

    /// What a broker is there for.
    pub fn duty(&self, id: BrokerId) -> Duty {
        let overrides = self.overrides.get(&ConfigResource::Broker(id));
        let set = overrides.and_then(|overrides| overrides.get(NODE_DUTY_SETTING));
        set.map_or(Duty::All, |word| Duty::of_word(word))
    }

    /// Whether a broker may lead, and should where another could not.
    pub fn should_lead(&self, id: BrokerId) -> bool {
        self.is_active(id) && self.duty(id) == Duty::All
    }

    /// The epoch of the next life of a broker.
    pub fn next_broker_epoch(&self) -> BrokerEpoch {
        let alive = self.broker_sessions().map(|session| session.epoch);
        let last = alive.chain(self.removed_brokers.last_epoch()).max();
        BrokerEpoch(last.map_or(0, |last| last.0 + 1))
    }

    /// The brokers that were removed.
    pub fn removed_brokers(&self) -> &RemovedBrokers {
        &self.removed_brokers
    }

    /// What a resource overrides, or `None` where the resource has or is nothing.
    pub fn overrides(&self, resource: &ConfigResource) -> Option<&Overrides> {
        match resource {
            ConfigResource::Topic(name) => self.topic(name.as_str()).map(|topic| &topic.overrides),
            resource => self.overrides.get(resource).map(Arc::as_ref),
        }
    }

    /// Everything but topics that overrides a setting, in order.
    pub fn overriding(&self) -> impl Iterator<Item = (&ConfigResource, &Overrides)> {
        self.overrides.iter().map(|(resource, overrides)| (resource, overrides.as_ref()))
    }

    /// What clients may use.
    pub fn client_quotas(&self) -> &ClientQuotas {
        &self.client_quotas
    }

    /// Who has a password.
    pub fn users(&self) -> &Users {
        &self.users
    }

    /// Who may do what.
    pub fn acls(&self) -> &Acls {
        &self.acls
    }

    /// What programs can log in with in the place of a user's password.
    pub fn delegation_tokens(&self) -> &DelegationTokens {
        &self.delegation_tokens
    }

    /// The first producer id that was never given out.
    pub fn next_producer_id(&self) -> ProducerId {
        self.next_producer_id
    }

    /// What front doors seal tokens with, once one of them has needed it: 32 random bytes, the same on each node. It never
    /// changes.
    pub fn sealing_key(&self) -> Option<[Uuid; 2]> {
        self.streams().map(|streams| streams.token_key)
    }

    /// What all streams share, once a stream was made or [`MetadataImage::sealing_key`] was needed.
    pub fn streams(&self) -> Option<&StreamsRecord> {
        self.streams.as_deref()
    }

    /// How many shards of all streams are open.
    pub fn open_shard_count(&self) -> usize {
        let streams = self.topics().filter_map(|topic| topic.stream.as_ref());
        streams.map(|stream| stream.open_shards().count()).sum()
    }

    /// Whether a feature is on: then every node that follows can read its records.
    pub fn has_feature(&self, name: &str) -> bool {
        self.features.get(name).is_some_and(|level| *level > 0)
    }

    /// The features that are on, by name, with their levels.
    pub fn features(&self) -> impl Iterator<Item = (&str, i16)> {
        self.features.iter().map(|(name, &level)| (name.as_str(), level))
    }

    /// The level of the metadata that the cluster has finalised.
    pub fn metadata_level(&self) -> MetadataLevel {
        MetadataLevel(self.features.get(METADATA_FEATURE).copied().unwrap_or(0))
    }

    fn apply_record(&mut self, record: &MetadataRecord) -> Result<(), MetadataError> {
        match record {
            MetadataRecord::Topic(record) => self.add_topic(record),
            MetadataRecord::RemoveTopic(record) => self.remove_topic(record),
            MetadataRecord::Partition(record)
            | MetadataRecord::PartitionWithEligible(record)
            | MetadataRecord::PartitionReassigned(record) => self.set_partition(record),
            MetadataRecord::Config(record) => self.set_config(record),
            MetadataRecord::ProducerIds(record) => self.set_next_producer_id(record),
            MetadataRecord::Broker(record) => {
                self.brokers.insert_mut(record.id, Arc::new(record.clone()));
                Ok(())
            }
            MetadataRecord::BrokerSession(record) => {
                self.sessions.insert_mut(record.id, Arc::new(record.clone()));
                Ok(())
            }
            MetadataRecord::RemoveBroker(record) => {
                self.brokers.remove_mut(&record.id);
                self.sessions.remove_mut(&record.id);
                self.node_keys.remove_mut(&record.directory);
                self.removed_brokers.add(*record);
                Ok(())
            }
            MetadataRecord::Feature(record) => {
                self.set_feature(record);
                Ok(())
            }
            MetadataRecord::ClientQuota(record) => {
                self.client_quotas.set(record);
                Ok(())
            }
            MetadataRecord::ScramCredential(record) => {
                self.users.set(record);
                Ok(())
            }
            MetadataRecord::Acl(record) => {
                self.acls.set(record);
                Ok(())
            }
            MetadataRecord::DelegationToken(record) => {
                self.delegation_tokens.set(record);
                Ok(())
            }
            MetadataRecord::RemoveDelegationToken(record) => {
                self.delegation_tokens.remove(&record.id);
                Ok(())
            }
            MetadataRecord::Stream(record) => self.set_stream(record),
            MetadataRecord::Shard(record) => self.set_shard(record),
            MetadataRecord::Streams(record) => {
                self.streams = Some(Arc::new(record.clone()));
                Ok(())
            }
            MetadataRecord::NodeKey(record) => {
                self.node_keys.insert_mut(record.directory, *record);
                Ok(())
            }
        }
    }

    fn add_topic(&mut self, record: &TopicRecord) -> Result<(), MetadataError> {
        let TopicRecord { name, id } = record.clone();
        if self.topics.contains_key(&name) || self.names_by_id.contains_key(&id) {
            return Err(MetadataError::TopicExists { name, id });
        }
        self.names_by_id.insert_mut(id, name.clone());
        self.topics.insert_mut(name.clone(), Arc::new(TopicImage::new(name, id)));
        Ok(())
    }

    fn remove_topic(&mut self, record: &RemoveTopicRecord) -> Result<(), MetadataError> {
        let id = record.id;
        let topic = self.topic_by_id(id).ok_or(MetadataError::UnknownTopicId { id })?.clone();
        self.names_by_id.remove_mut(&id);
        self.topics.remove_mut(&topic.name);
        self.partition_count -= topic.partitions.len();
        for partition in &topic.partitions {
            self.uncount_directories(&partition.directories);
        }
        Ok(())
    }

    fn set_partition(&mut self, record: &PartitionRecord) -> Result<(), MetadataError> {
        let topic = self.topic_mut(record.topic_id)?;
        let partitions_before = topic.partitions.len();
        let directories_before =
            topic.partition(record.partition).map(|partition| partition.directories.clone());
        topic.set_partition(record)?;
        let added = topic.partitions.len() - partitions_before;
        self.partition_count += added;
        self.uncount_directories(&directories_before.unwrap_or_default());
        for directory in assigned(&record.directories) {
            let count = self.replicas_in(directory) + 1;
            self.replicas_by_directory.insert_mut(directory, count);
        }
        Ok(())
    }

    fn topic_mut(&mut self, id: TopicId) -> Result<&mut TopicImage, MetadataError> {
        let unknown = || MetadataError::UnknownTopicId { id };
        let name = self.names_by_id.get(&id).ok_or_else(unknown)?;
        Ok(Arc::make_mut(self.topics.get_mut(name).ok_or_else(unknown)?))
    }

    fn set_stream(&mut self, record: &StreamRecord) -> Result<(), MetadataError> {
        self.topic_mut(record.topic_id)?.set_stream(&record.state);
        Ok(())
    }

    fn set_shard(&mut self, record: &ShardRecord) -> Result<(), MetadataError> {
        let topic = self.topic_mut(record.topic_id)?;
        match topic.set_shard(record.partition, &record.shard) {
            true => Ok(()),
            false => Err(MetadataError::ShardGap {
                name: topic.name.clone(),
                partition: record.partition,
            }),
        }
    }

    fn uncount_directories(&mut self, directories: &[DirectoryId]) {
        for directory in assigned(directories) {
            match self.replicas_in(directory) {
                0 | 1 => drop(self.replicas_by_directory.remove_mut(&directory)),
                count => self.replicas_by_directory.insert_mut(directory, count - 1),
            }
        }
    }

    fn set_config(&mut self, record: &ConfigRecord) -> Result<(), MetadataError> {
        let ConfigRecord { resource, name, value } = record;
        match resource {
            ConfigResource::Topic(topic) => self.set_topic_override(topic, name, value),
            resource => {
                self.set_other_override(resource, name, value);
                Ok(())
            }
        }
    }

    fn set_topic_override(
        &mut self,
        topic: &TopicName,
        name: &str,
        value: &Option<String>,
    ) -> Result<(), MetadataError> {
        let Some(image) = self.topics.get_mut(topic) else {
            let (name, setting) = (topic.clone(), name.to_owned());
            return Err(MetadataError::UnknownTopicName { name, setting });
        };
        set_override(&mut Arc::make_mut(image).overrides, name, value);
        Ok(())
    }

    fn set_other_override(
        &mut self,
        resource: &ConfigResource,
        name: &str,
        value: &Option<String>,
    ) {
        let mut overrides = self.overrides.get(resource).cloned().unwrap_or_default();
        set_override(Arc::make_mut(&mut overrides), name, value);
        match overrides.is_empty() {
            true => drop(self.overrides.remove_mut(resource)),
            false => self.overrides.insert_mut(resource.clone(), overrides),
        }
    }

    fn set_next_producer_id(&mut self, record: &ProducerIdsRecord) -> Result<(), MetadataError> {
        let (from, to) = (self.next_producer_id, record.next);
        if to < from {
            return Err(MetadataError::ProducerIdsGoBack { from, to });
        }
        self.next_producer_id = to;
        Ok(())
    }

    fn set_feature(&mut self, record: &FeatureRecord) {
        match record.level {
            0 => drop(self.features.remove_mut(record.name.as_str())),
            level => self.features.insert_mut(record.name.clone(), level),
        }
    }
}

/// The directories that replicas are assigned to.
fn assigned(directories: &[DirectoryId]) -> impl Iterator<Item = DirectoryId> {
    directories.iter().copied().filter(|directory| *directory != DirectoryId::UNASSIGNED)
}

fn set_override(overrides: &mut Overrides, name: &str, value: &Option<String>) {
    match value {
        Some(value) => drop(overrides.insert(name.to_owned(), value.clone())),
        None => drop(overrides.remove(name)),
    }
}

fn push_overrides(
    records: &mut Vec<MetadataRecord>,
    resource: ConfigResource,
    overrides: &Overrides,
) {
    records.extend(overrides.iter().map(|(name, value)| {
        MetadataRecord::Config(ConfigRecord {
            resource: resource.clone(),
            name: name.clone(),
            value: Some(value.clone()),
        })
    }));
}

fn collides(a: &TopicName, b: &TopicName) -> bool {
    let flat = |byte: u8| if byte == b'.' { b'_' } else { byte };
    let (a, b) = (a.as_str().bytes().map(flat), b.as_str().bytes().map(flat));
    a.eq(b)
}
