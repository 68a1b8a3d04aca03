//! The topics as this broker serves them: the image's topics with their open logs.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use logway_log::{Completion, LogConfig, LogError};
pub use logway_metadata::is_internal;
use logway_metadata::settings::TopicSettings;
use logway_metadata::{Overrides, TopicImage};
use logway_model::{ErrorCode, Offset, PartitionId, TopicId, TopicName, Uuid};
use logway_record::Compression;

use crate::log_dirs::LogDirs;
use crate::metrics::TopicTraffic;
use crate::replica::{ReadFrom, Replica};

/// One topic, with the replicas that are here.
#[derive(Debug)]
pub struct Topic {
    /// The metadata it was made from.
    pub image: Arc<TopicImage>,
    /// What was overridden for all brokers and for this one when the settings were resolved.
    pub(crate) defaults: Arc<BrokerOverrides>,
    /// What is in force: the topic's overrides over the broker's defaults.
    pub settings: Arc<TopicSettings>,
    /// The same, as the logs need it.
    pub log_config: Arc<LogConfig>,
    /// The replicas here, by number; `None` where the log could not be opened, and where there is none.
    pub partitions: Vec<Option<Arc<Replica>>>,
    /// Why those are offline that are.
    pub offline: BTreeMap<PartitionId, LogError>,
    /// Counts what goes in and out.
    pub traffic: TopicTraffic,
}

impl Topic {
    /// A partition that this node leads.
    ///
    /// Errors are `UNKNOWN_TOPIC_OR_PARTITION`, `KAFKA_STORAGE_ERROR` if its log is offline, or
    /// `NOT_LEADER_OR_FOLLOWER` if another node leads it.
    pub fn partition(&self, id: PartitionId) -> Result<&Arc<Replica>, ErrorCode> {
        if self.image.partition(id).is_none() {
            return Err(ErrorCode::UnknownTopicOrPartition);
        }
        match self.replica(id) {
            Some(replica) if replica.is_leading() => Ok(replica),
            None if self.offline.contains_key(&id) => Err(ErrorCode::KafkaStorageError),
            _ => Err(ErrorCode::NotLeaderOrFollower),
        }
    }

    /// A replica of a partition here that serves a reader.
    ///
    /// Errors are those of [`Topic::partition`]; `NOT_LEADER_OR_FOLLOWER` where any replica would do, if there is none.
    pub fn readable(&self, id: PartitionId, from: ReadFrom) -> Result<&Arc<Replica>, ErrorCode> {
        match (self.partition(id), from) {
            (Err(ErrorCode::NotLeaderOrFollower), ReadFrom::AnyReplica) => {
                let follower = self.replica(id).filter(|replica| replica.is_following());
                follower.ok_or(ErrorCode::NotLeaderOrFollower)
            }
            (found, _) => found,
        }
    }

    /// Begins to delete the records of a partition before an offset, or all that consumers can read; ends with the new log
    /// start offset.
    ///
    /// Errors: those of [`Topic::partition`], `INVALID_TOPIC_EXCEPTION` for topics of coordinators, `POLICY_VIOLATION` where
    /// compaction alone removes records, and `OFFSET_OUT_OF_RANGE` past what consumers can read.
    pub fn begin_truncation(
        &self,
        id: PartitionId,
        before: Option<Offset>,
    ) -> Result<Completion<Offset>, ErrorCode> {
        let replica = self.partition(id)?;
        if is_internal(self.name().as_str()) {
            return Err(ErrorCode::InvalidTopicException);
        }
        let policy = self.settings.cleanup_policy;
        if policy.compact && !policy.delete {
            return Err(ErrorCode::PolicyViolation);
        }
        let end = replica.high_watermark().get();
        let before = before.unwrap_or(end);
        if !(Offset::ZERO..=end).contains(&before) {
            return Err(ErrorCode::OffsetOutOfRange);
        }
        replica.delete_records_before(before)
    }

    /// The replica of a partition here, in whatever role; `None` if there is none that is open.
    pub fn replica(&self, id: PartitionId) -> Option<&Arc<Replica>> {
        self.partitions.get(usize::try_from(id.0).ok()?)?.as_ref()
    }

    /// Whether the log of every partition is open, in a directory that has not failed since.
    pub(crate) fn is_all_online(&self, log_dirs: &LogDirs) -> bool {
        self.offline.is_empty()
            && self.partitions.iter().flatten().all(|partition| log_dirs.has(partition))
    }

    /// Whether there is a partition offline that may come back while the broker runs: not because
    /// its log directory has failed.
    fn has_hope(&self) -> bool {
        self.offline.values().any(|error| !matches!(error, LogError::DirectoryOffline { .. }))
    }

    /// Whether batches that are not compressed stay so.
    pub fn keeps_plain(&self) -> bool {
        self.log_config.compression.is_none_or(|target| target.codec() == Compression::None)
    }

    /// Its name.
    pub fn name(&self) -> &TopicName {
        &self.image.name
    }
}

/// Every topic, as of one metadata image. A table never changes; the broker swaps in the next one.
#[derive(Debug, Default)]
pub struct TopicTable {
    by_name: HashMap<TopicName, Arc<Topic>>,
    by_id: HashMap<TopicId, Arc<Topic>>,
    /// Whether any topic has batches compressed anew. So those who append where none does need not
    /// ask for each topic.
    compresses_anew: bool,
}

/// What is overridden for all brokers, and for this one.
pub(crate) type BrokerOverrides = [Option<Overrides>; 2];

impl TopicTable {
    /// The table without the topics that vanished, and with those that are new or have changed.
    pub(crate) fn changed(&self, vanished: &[Arc<Topic>], changed: Vec<Arc<Topic>>) -> TopicTable {
        let (mut by_name, mut by_id) = (self.by_name.clone(), self.by_id.clone());
        for topic in vanished {
            by_name.remove(topic.name());
            by_id.remove(&topic.image.id);
        }
        for topic in changed {
            by_name.insert(topic.name().clone(), Arc::clone(&topic));
            by_id.insert(topic.image.id, topic);
        }
        let compresses_anew = by_name.values().any(|topic| topic.log_config.compression.is_some());
        TopicTable { by_name, by_id, compresses_anew }
    }

    /// Whether any topic has batches compressed anew.
    pub fn compresses_anew(&self) -> bool {
        self.compresses_anew
    }

    /// The topic of a name.
    pub fn by_name(&self, name: &str) -> Result<&Arc<Topic>, ErrorCode> {
        self.by_name.get(name).ok_or(ErrorCode::UnknownTopicOrPartition)
    }

    /// The topic of an id.
    pub fn by_id(&self, id: TopicId) -> Result<&Arc<Topic>, ErrorCode> {
        self.by_id.get(&id).ok_or(ErrorCode::UnknownTopicId)
    }

    /// The topic that a request names, in versions up to one by name and from then on by id.
    pub fn by_name_or_id(&self, name: &str, id: Uuid) -> Result<&Arc<Topic>, ErrorCode> {
        if id.is_zero() { self.by_name(name) } else { self.by_id(TopicId(id)) }
    }

    /// Every topic, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Topic>> {
        self.by_name.values()
    }

    /// Every replica that is here, with the id of its topic.
    pub(crate) fn replicas(&self) -> impl Iterator<Item = (TopicId, &Arc<Replica>)> {
        self.iter().flat_map(|topic| {
            let id = topic.image.id;
            topic.partitions.iter().flatten().map(move |replica| (id, replica))
        })
    }

    /// The topics with partitions whose logs could not be opened and are worth another try.
    pub(crate) fn topics_to_retry(&self) -> Vec<TopicId> {
        self.iter().filter(|topic| topic.has_hope()).map(|topic| topic.image.id).collect()
    }
}
