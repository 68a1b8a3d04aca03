//! Brings the served topics and their logs in line with the metadata.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use logway_coordinator::{CommittedTopic, DeletedTopic};
use logway_log::{CleanupPolicy, LogConfig, LogError, NewLog};
use logway_metadata::controller::{
    AssignReplicasToDirs, COMMAND_RECORDS_MAX, ReplicaDirectory, TopicReference,
};
use logway_metadata::settings::broker::{
    CLEANER_BACKOFF_SETTING, CLEANER_MEMORY_SETTING, CLEANER_RATE_SETTING, CLEANER_THREADS_SETTING,
    PRODUCER_EXPIRATION_SETTING,
};
use logway_metadata::settings::{BrokerSettings, CompressionType, TimestampType, TopicSettings};
use logway_metadata::{ConfigResource, MetadataImage, TopicImage};
use logway_model::{DirectoryId, PartitionId, TopicId, TopicPartition};
use logway_record::{TargetCompression, TimestampType as RecordTimestampType};
use tokio::runtime::Handle;

use crate::Broker;
use crate::backoff::Backoff;
use crate::broker::off_thread;
use crate::groups::OFFSETS_TOPIC;
use crate::log_dirs::{PlacedLog, WantedLog};
use crate::metrics::TrafficMetrics;
use crate::partition::Partition;
use crate::topics::{BrokerOverrides, Topic, TopicTable};

impl Broker {
    /// Opens the logs of new partitions, deletes those of deleted topics, and puts changed
    /// settings in force, for these topics or for all; then shows the result to handlers.
    ///
    /// Many topics are done in parts, and between two parts others have their turn.
    pub(crate) async fn reconcile(self: &Arc<Self>, topics: Option<Vec<TopicReference>>) {
        let Some(topics) = topics else { return self.reconcile_part(None).await };
        for part in topics.chunks(PART_TOPICS) {
            self.reconcile_part(Some(part.to_vec())).await;
        }
    }

    async fn reconcile_part(self: &Arc<Self>, topics: Option<Vec<TopicReference>>) {
        let _one_at_a_time = self.reconciling.lock().await;
        let broker = Arc::clone(self);
        off_thread(move || {
            let image = broker.image();
            let before = broker.topics.load_full();
            let part = Part::new(&broker, &image, &before, topics.as_deref());
            // First, because a topic of the same name may have been created again.
            delete_vanished(&broker, &part.vanished);
            let table = Arc::new(next_table(&broker, &image, &before, &part));
            broker.topics.store(Arc::clone(&table));
            broker.put_changes_in_force();
            wake_vanished(&part.vanished);
            wake_offline(&before, &table);
            broker.groups.follow(table.by_name(OFFSETS_TOPIC).ok());
            let deleted = part.vanished.iter().map(|topic| DeletedTopic {
                name: CommittedTopic::from(topic.name().as_str()),
                id: topic.image.id,
            });
            broker.groups.forget_topics(deleted);
        })
        .await;
    }

    /// Puts the broker's own settings in force that can be changed while it runs, but for those that
    /// are looked up when they are needed.
    fn put_changes_in_force(&self) {
        let given = &self.settings;
        let backoff_ms = self.changeable_setting(CLEANER_BACKOFF_SETTING);
        let cleaner = self.log_cleaner.set_options(|options| {
            options.io_bytes_per_second =
                self.changeable_setting(CLEANER_RATE_SETTING).unwrap_or(f64::MAX);
            options.threads =
                self.changeable_setting(CLEANER_THREADS_SETTING).unwrap_or(given.cleaner.threads);
            options.keys_bytes_max = self
                .changeable_setting(CLEANER_MEMORY_SETTING)
                .unwrap_or(given.cleaner.keys_bytes_max);
            options.backoff = backoff_ms.map_or(given.cleaner.backoff, Duration::from_millis);
        });
        if let Err(error) = cleaner {
            tracing::error!(%error, "fewer logs are compacted at a time than log.cleaner.threads");
        }
        let expiration_ms = self.changeable_setting(PRODUCER_EXPIRATION_SETTING);
        let given_ms = i64::try_from(given.producer_id_expiration.as_millis()).unwrap_or(i64::MAX);
        let expiration_ms = expiration_ms.unwrap_or(given_ms);
        self.log_dirs.online().for_each(|dir| dir.set_producer_expiration_ms(expiration_ms));
    }

    /// Takes the logs out of service that belong to no topic. Done once, at the start, before any
    /// topic is served.
    ///
    /// Mostly their topics were deleted just before the broker stopped. But if the metadata was
    /// lost they are all that is left, so they are set aside under another name and not deleted.
    pub(crate) fn set_strays_aside(&self) {
        let image = self.image();
        for (dir, log) in self.log_dirs.logs_in_place() {
            let partition = log.topic_partition();
            // One that does not say whose it is keeps its name: its partition is then offline,
            // which somebody will notice, instead of empty.
            let is_anonymous = log.topic_id() == TopicId::default();
            if image.topic_by_id(log.topic_id()).is_some()
                || (is_anonymous && image.topic(partition.topic.as_str()).is_some())
            {
                continue;
            }
            match dir.set_aside(partition) {
                Ok(path) => tracing::warn!(%partition, topic_id = %log.topic_id(), ?path,
                    "no topic has this log: it is set aside; remove it if it is not needed"),
                Err(error) => tracing::error!(%partition, %error,
                    "no topic has this log, and it cannot be set aside"),
            }
        }
    }

    /// Names the log directories that cannot be used or are missing from `log.dirs`, with how many
    /// partitions are in each. Done once, at the start.
    pub(crate) fn report_absent_dirs(&self) {
        let image = self.image();
        let mut counts: BTreeMap<DirectoryId, usize> = BTreeMap::new();
        for (_, replicas) in image.topics().flat_map(|topic| topic.numbered_partitions()) {
            if replicas.replicas.contains(&self.settings.node_id) {
                *counts.entry(replicas.directory_of(self.settings.node_id)).or_default() += 1;
            }
        }
        counts.remove(&DirectoryId::UNASSIGNED);
        counts.retain(|id, _| !self.log_dirs.is_given_up(*id));
        self.log_dirs.online_ids().iter().for_each(|id| _ = counts.remove(id));
        for (path, id) in self.log_dirs.absent() {
            let partitions = id.and_then(|id| counts.remove(&id)).unwrap_or(0);
            let (path, id) = (path.display(), id.map(tracing::field::display));
            tracing::error!(%path, id, partitions, "a log directory that was in use is missing, and \
                the partitions in it are offline; put it back and name it in log.dirs, or give it \
                up with 'logway log forget-dir' while the broker is stopped");
        }
        for (id, partitions) in counts {
            tracing::error!(%id, partitions, "partitions are offline that are in a log directory of \
                which no path is known; name it in log.dirs, or give it up with 'logway log \
                forget-dir' while the broker is stopped");
        }
    }

    /// Names the partitions that have no log, before their logs are made: a crash came between the
    /// commit that made the topic and its log, or the log was lost in its first second, before a
    /// checkpoint knew it. Nobody can tell which. Done once, at the start.
    pub(crate) fn report_missing_logs(&self) {
        let image = self.image();
        for topic in image.topics() {
            for (id, replicas) in topic.numbered_partitions() {
                let partition = TopicPartition::new(topic.name.clone(), id);
                let assigned = replicas.directory_of(self.settings.node_id);
                let place = self.log_dirs.by_id(assigned);
                if let Some(place) = place
                    && !self.log_dirs.has_log(&partition)
                {
                    let dir = place.path().display();
                    tracing::warn!(%partition, %dir, "the partition has no log: it is made, and \
                        begins at offset 0");
                }
            }
        }
    }

    /// Tries again and again to open the logs that could not be opened, e.g. for want of file
    /// descriptors, for as long as the broker exists; less and less often while that does not help.
    pub(crate) async fn retry_offline_logs(broker: Weak<Broker>) {
        let mut backoff = Backoff::new();
        loop {
            tokio::time::sleep(backoff.pause()).await;
            let Some(broker) = broker.upgrade() else { return };
            let topics = broker.topics().topics_to_retry();
            let before = topics.len();
            if before > 0 {
                broker.reconcile(Some(topics)).await;
            }
            let after = broker.topics().topics_to_retry().len();
            if after == 0 || after < before {
                backoff.reset();
            }
        }
    }
}

/// How many topics are brought in line before others have their turn.
const PART_TOPICS: usize = 250;

/// The topics that one turn is about.
struct Part {
    defaults: BrokerOverrides,
    /// Those that are to be served, new ones and others.
    present: Vec<Arc<TopicImage>>,
    /// Those that are served no more.
    vanished: Vec<Arc<Topic>>,
}

impl Part {
    fn new(
        broker: &Broker,
        image: &MetadataImage,
        before: &TopicTable,
        asked: Option<&[TopicReference]>,
    ) -> Part {
        let of_brokers =
            [ConfigResource::BrokerDefault, ConfigResource::Broker(broker.settings.node_id)];
        let defaults = of_brokers.map(|resource| image.overrides(&resource).cloned());
        // Broker settings are defaults of topic settings, so a change of them can touch every topic.
        match asked.filter(|_| before.defaults == defaults) {
            None => Part {
                defaults,
                present: image.topics().cloned().collect(),
                vanished: before.iter().filter(|topic| !is_in(image, topic)).cloned().collect(),
            },
            Some(asked) => {
                let present: Vec<_> =
                    asked.iter().filter_map(|asked| find(image, asked)).cloned().collect();
                let asked = asked.iter().filter_map(|asked| served(before, asked));
                // What had the name of a new topic may have gone without having had its turn.
                let of_same_name =
                    present.iter().filter_map(|topic| before.by_name(topic.name.as_str()).ok());
                let served: BTreeMap<TopicId, &Arc<Topic>> =
                    asked.chain(of_same_name).map(|topic| (topic.image.id, topic)).collect();
                let vanished = served.into_values().filter(|topic| !is_in(image, topic));
                Part { defaults, vanished: vanished.cloned().collect(), present }
            }
        }
    }
}

fn is_in(image: &MetadataImage, topic: &Topic) -> bool {
    image.topic_by_id(topic.image.id).is_some()
}

fn find<'a>(image: &'a MetadataImage, asked: &TopicReference) -> Option<&'a Arc<TopicImage>> {
    match asked {
        TopicReference::Name(name) => image.topic(name),
        TopicReference::Id(id) => image.topic_by_id(*id),
    }
}

fn served<'a>(table: &'a TopicTable, asked: &TopicReference) -> Option<&'a Arc<Topic>> {
    match asked {
        TopicReference::Name(name) => table.by_name(name).ok(),
        TopicReference::Id(id) => table.by_id(*id).ok(),
    }
}

fn next_table(
    broker: &Broker,
    image: &MetadataImage,
    before: &TopicTable,
    part: &Part,
) -> TopicTable {
    let same_defaults = before.defaults == part.defaults;
    let mut drafts = Vec::new();
    for topic in &part.present {
        let old = before.by_id(topic.id).ok();
        let is_as_it_should = old.is_some_and(|old| {
            // One with a partition offline is tried again.
            same_defaults && Arc::ptr_eq(&old.image, topic) && old.is_all_online(&broker.log_dirs)
        });
        if !is_as_it_should {
            drafts.push(Draft::new(broker, image, topic, old.cloned()));
        }
    }
    let mut opened = open_logs(broker, &drafts).into_iter();
    let drafts = drafts.into_iter();
    let changed: Vec<_> = drafts.map(|draft| Arc::new(draft.finish(&mut opened))).collect();
    before.changed(&part.vanished, changed, part.defaults.clone())
}

/// A topic that is new or has changed.
struct Draft<'a> {
    broker: &'a Broker,
    image: &'a Arc<TopicImage>,
    old: Option<Arc<Topic>>,
    settings: Arc<TopicSettings>,
    log_config: Arc<LogConfig>,
}

impl<'a> Draft<'a> {
    fn new(
        broker: &'a Broker,
        image: &MetadataImage,
        topic: &'a Arc<TopicImage>,
        old: Option<Arc<Topic>>,
    ) -> Draft<'a> {
        let settings = settings_of(topic, image, &broker.settings);
        let log_config = Arc::new(log_config(&settings));
        Draft { broker, image: topic, old, settings, log_config }
    }

    /// The partition as it is served already.
    fn served(&self, id: PartitionId) -> Option<&Arc<Partition>> {
        let partition = self.old.as_ref()?.partition(id).ok()?;
        self.broker.log_dirs.has(partition).then_some(partition)
    }

    /// The logs of the partitions that are not served yet.
    fn missing_logs(&self) -> impl Iterator<Item = WantedLog> {
        let missing = self.image.numbered_partitions().filter(|(id, _)| self.served(*id).is_none());
        missing.map(|(id, partition)| WantedLog {
            new: NewLog {
                partition: TopicPartition::new(self.image.name.clone(), id),
                topic_id: self.image.id,
                config: Arc::clone(&self.log_config),
            },
            assigned: partition.directory_of(self.broker.settings.node_id),
        })
    }

    /// `opened` goes on with the logs of this topic, in the order of `missing_logs`.
    fn finish(self, opened: &mut impl Iterator<Item = Result<PlacedLog, LogError>>) -> Topic {
        let mut offline = BTreeMap::new();
        let partitions = self.image.numbered_partitions().map(|(id, partition_image)| {
            if let Some(partition) = self.served(id) {
                partition.set_config(Arc::clone(&self.log_config));
                return Some(Arc::clone(partition));
            }
            match opened.next().expect("there is a result for each missing log") {
                Ok(place) => {
                    // One that was there before has the settings of another time.
                    place.log.set_config(Arc::clone(&self.log_config));
                    Some(Partition::leading(place, partition_image.leader_epoch))
                }
                Err(error) => {
                    offline.insert(id, error);
                    None
                }
            }
        });
        let partitions = partitions.collect();
        let traffic = traffic_of(&self.broker.metrics.traffic, self.image, self.old.as_ref());
        let Draft { image, settings, log_config, .. } = self;
        Topic { image: Arc::clone(image), settings, log_config, partitions, offline, traffic }
    }
}

/// Opens or makes the logs that are missing, all together.
fn open_logs(broker: &Broker, drafts: &[Draft<'_>]) -> Vec<Result<PlacedLog, LogError>> {
    let wanted: Vec<WantedLog> = drafts.iter().flat_map(Draft::missing_logs).collect();
    let opened = broker.log_dirs.open_logs(&wanted);
    let mut results: Vec<_> = wanted.iter().zip(opened).collect();
    assign(broker, &mut results);
    let log_error = |(wanted, opened): (&WantedLog, Result<PlacedLog, LogError>)| {
        opened.inspect_err(|error| match error {
            // All that its directory held are; it was said of the directory.
            LogError::DirectoryOffline { partition, .. } => {
                tracing::debug!(%partition, %error, "the partition is offline");
            }
            error => {
                let partition = &wanted.new.partition;
                tracing::error!(%partition, %error, "the partition is offline");
            }
        })
    };
    results.into_iter().map(log_error).collect()
}

/// Tells the metadata of logs that are elsewhere than it says, before anything is written to them.
/// Those of which that is not possible stay offline for now.
fn assign(broker: &Broker, results: &mut [(&WantedLog, Result<PlacedLog, LogError>)]) {
    let replica = |(wanted, opened): &(&WantedLog, Result<PlacedLog, LogError>)| {
        let directory = opened.as_ref().ok()?.directory;
        let NewLog { partition, topic_id, .. } = &wanted.new;
        let is_new = directory != wanted.assigned;
        let (topic_id, partition) = (*topic_id, partition.partition);
        is_new.then_some(ReplicaDirectory { topic_id, partition, directory })
    };
    let found: Vec<ReplicaDirectory> = results.iter().filter_map(replica).collect();
    for replicas in found.chunks(COMMAND_RECORDS_MAX) {
        let assignment =
            AssignReplicasToDirs { broker: broker.settings.node_id, replicas: replicas.to_vec() };
        let Err(error) = Handle::current().block_on(broker.quorum.submit(assignment)) else {
            forget_moved(broker, results, replicas);
            continue;
        };
        tracing::error!(%error, "the metadata cannot be told where partitions are");
        for (wanted, opened) in results.iter_mut() {
            let is_unknown = |place: &PlacedLog| place.directory != wanted.assigned;
            if opened.as_ref().is_ok_and(is_unknown) {
                let what =
                    format!("the metadata does not know where {} is, so it", wanted.new.partition);
                *opened = Err(LogError::Closed { what });
            }
        }
        return;
    }
}

/// Has the logs forgotten where they were that the metadata was just told of.
fn forget_moved(
    broker: &Broker,
    results: &[(&WantedLog, Result<PlacedLog, LogError>)],
    told: &[ReplicaDirectory],
) {
    let told: BTreeSet<_> = told.iter().map(|told| (told.topic_id, told.partition)).collect();
    let is_told =
        |wanted: &WantedLog| told.contains(&(wanted.new.topic_id, wanted.new.partition.partition));
    let moved = results.iter().filter(|(wanted, _)| is_told(wanted));
    let moved: Vec<_> =
        moved.filter_map(|(wanted, place)| Some((*wanted, place.as_ref().ok()?))).collect();
    broker.log_dirs.forget_moved(&moved);
}

fn traffic_of(
    metrics: &TrafficMetrics,
    topic: &TopicImage,
    old: Option<&Arc<Topic>>,
) -> crate::metrics::TopicTraffic {
    match old {
        Some(old) => old.traffic.clone(),
        None => metrics.of_topic(topic.name.as_str()),
    }
}

fn settings_of(
    topic: &TopicImage,
    image: &MetadataImage,
    broker: &BrokerSettings,
) -> Arc<TopicSettings> {
    let resolved = TopicSettings::resolve(&topic.overrides, image, broker).or_else(|error| {
        // Another version wrote the metadata. The topic is served all the same.
        tracing::error!(topic = %topic.name, %error, "a stored setting is not valid; \
            the topic runs on the broker's defaults");
        TopicSettings::resolve(&Default::default(), image, broker)
    });
    Arc::new(resolved.expect("the broker's defaults were checked when it started"))
}

fn delete_vanished(broker: &Broker, vanished: &[Arc<Topic>]) {
    let mut partitions = Vec::new();
    for topic in vanished {
        let name = topic.name();
        let numbers = topic.image.numbered_partitions().map(|(number, _)| number);
        partitions.extend(numbers.map(|number| TopicPartition::new(name.clone(), number)));
        broker.metrics.traffic.forget_topic(name.as_str());
    }
    if !partitions.is_empty()
        && let Err(error) = broker.log_dirs.delete_logs(&partitions)
    {
        tracing::error!(%error, "a deleted topic's log could not be removed; \
            the next start sets it aside");
    }
}

/// Those who wait for records of a deleted topic look again, and find that it is gone.
fn wake_vanished(vanished: &[Arc<Topic>]) {
    for partition in vanished.iter().flat_map(|topic| topic.partitions.iter().flatten()) {
        partition.go_offline();
    }
}

/// Those who wait for records of a partition that is offline now are told.
fn wake_offline(before: &TopicTable, after: &TopicTable) {
    for topic in after.iter().filter(|topic| !topic.offline.is_empty()) {
        let Ok(before) = before.by_id(topic.image.id) else { continue };
        let offline = topic.offline.keys().filter_map(|id| before.partition(*id).ok());
        offline.for_each(|partition| partition.go_offline());
    }
}

/// What `compression.type` has batches compressed with; `None` for `producer`.
fn compression(settings: &TopicSettings) -> Option<TargetCompression> {
    Some(match settings.compression_type {
        CompressionType::Producer => return None,
        CompressionType::Uncompressed => TargetCompression::None,
        CompressionType::Gzip => TargetCompression::Gzip { level: settings.compression_gzip_level },
        CompressionType::Snappy => TargetCompression::Snappy,
        CompressionType::Lz4 => TargetCompression::Lz4 { level: settings.compression_lz4_level },
        CompressionType::Zstd => TargetCompression::Zstd { level: settings.compression_zstd_level },
    })
}

/// A topic's settings as its logs need them.
fn log_config(settings: &TopicSettings) -> LogConfig {
    let ms = |number: i64| u64::try_from(number).unwrap_or(0);
    let bytes = |number: i32| u32::try_from(number).unwrap_or(0);
    let policy = settings.cleanup_policy;
    LogConfig {
        segment_bytes: bytes(settings.segment_bytes),
        segment_ms: ms(settings.segment_ms),
        segment_jitter_ms: ms(settings.segment_jitter_ms),
        segment_index_bytes: bytes(settings.segment_index_bytes),
        index_interval_bytes: bytes(settings.index_interval_bytes),
        cleanup: match (policy.compact, policy.delete) {
            (true, true) => CleanupPolicy::CompactAndDelete,
            (true, false) => CleanupPolicy::Compact,
            (false, _) => CleanupPolicy::Delete,
        },
        min_compaction_lag_ms: ms(settings.min_compaction_lag_ms),
        max_compaction_lag_ms: ms(settings.max_compaction_lag_ms),
        min_cleanable_dirty_ratio: settings.min_cleanable_dirty_ratio,
        delete_retention_ms: ms(settings.delete_retention_ms),
        retention_ms: settings.retention_ms.filter(|_| policy.delete).map(ms),
        retention_bytes: settings.retention_bytes.filter(|_| policy.delete).map(ms),
        flush_messages: ms(settings.flush_messages),
        flush_ms: ms(settings.flush_ms),
        max_message_bytes: bytes(settings.max_message_bytes),
        compression: compression(settings),
        timestamp_type: match settings.message_timestamp_type {
            TimestampType::CreateTime => RecordTimestampType::CreateTime,
            TimestampType::LogAppendTime => RecordTimestampType::LogAppendTime,
        },
        timestamp_before_max_ms: ms(settings.message_timestamp_before_max_ms),
        timestamp_after_max_ms: ms(settings.message_timestamp_after_max_ms),
        file_delete_delay_ms: ms(settings.file_delete_delay_ms),
    }
}
