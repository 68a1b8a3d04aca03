//! Topics on their way to being served: which of their logs are opened, and in which role.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use logway_log::{LogConfig, LogError, NewLog};
use logway_metadata::controller::{AssignReplicasToDirs, COMMAND_RECORDS_MAX, ReplicaDirectory};
use logway_metadata::settings::TopicSettings;
use logway_metadata::{MetadataImage, PartitionImage, TopicImage};
use logway_model::{BrokerId, PartitionId, TopicPartition};
use logway_replication::Membership;
use tokio::runtime::Handle;

use super::log_config::{log_config, settings_of};
use super::{Assigning, delete_logs};
use crate::Node;
use crate::log_dirs::{PlacedLog, WantedLog};
use crate::metrics::{TopicTraffic, TrafficMetrics};
use crate::replica::{Lead, Replica};
use crate::tasks::off_thread;
use crate::topics::{BrokerOverrides, Topic, TopicTable};

/// The table with these topics as the image wants them, and without those that have vanished.
pub(super) fn next_table(
    node: &Arc<Node>,
    image: &MetadataImage,
    before: &TopicTable,
    overrides: &Arc<BrokerOverrides>,
    present: &[Arc<TopicImage>],
    vanished: &[Arc<Topic>],
) -> TopicTable {
    let mut drafts = Vec::new();
    for topic in present {
        let old = before.by_id(topic.id).ok();
        let is_as_it_should = old.is_some_and(|old| {
            // One with a partition offline is tried again.
            *old.defaults == **overrides
                && Arc::ptr_eq(&old.image, topic)
                && old.is_all_online(&node.log_dirs)
        });
        if !is_as_it_should {
            drafts.push(Draft::new(node, image, overrides, topic, old.cloned()));
        }
    }
    drafts.iter().for_each(Draft::stop_moved_away);
    let mut opened = open_logs(node, &drafts).into_iter();
    let drafts = drafts.into_iter();
    let changed: Vec<_> = drafts.map(|draft| Arc::new(draft.finish(&mut opened))).collect();
    before.changed(vanished, changed)
}

/// A topic that is new or has changed.
struct Draft<'a> {
    node: &'a Node,
    image: &'a Arc<TopicImage>,
    old: Option<Arc<Topic>>,
    defaults: Arc<BrokerOverrides>,
    settings: Arc<TopicSettings>,
    log_config: Arc<LogConfig>,
}

impl<'a> Draft<'a> {
    fn new(
        node: &'a Node,
        image: &MetadataImage,
        overrides: &Arc<BrokerOverrides>,
        topic: &'a Arc<TopicImage>,
        old: Option<Arc<Topic>>,
    ) -> Draft<'a> {
        let settings = settings_of(topic, image, &node.settings);
        let log_config = Arc::new(log_config(&settings));
        let defaults = Arc::clone(overrides);
        Draft { node, image: topic, old, defaults, settings, log_config }
    }

    /// The replica as it is served already.
    fn served(&self, id: PartitionId) -> Option<&Arc<Replica>> {
        let partition = self.old.as_ref()?.replica(id)?;
        self.node.log_dirs.has(partition).then_some(partition)
    }

    /// The partitions of which this node holds a replica.
    fn partitions_here(&self) -> impl Iterator<Item = (PartitionId, &PartitionImage)> {
        let node = self.node.settings.node_id;
        self.image.numbered_partitions().filter(move |(_, wanted)| wanted.replicas.contains(&node))
    }

    /// Ends the replicas that this node is not to hold any more, and deletes their logs.
    fn stop_moved_away(&self) {
        let here: BTreeSet<PartitionId> = self.partitions_here().map(|(id, _)| id).collect();
        let replicas = self.old.iter().flat_map(|old| old.partitions.iter().flatten());
        let is_away =
            |replica: &&Arc<Replica>| !here.contains(&replica.topic_partition().partition);
        let away: Vec<_> = replicas.filter(is_away).collect();
        away.iter().for_each(|replica| replica.go_offline());
        let names: Vec<_> = away.iter().map(|replica| replica.topic_partition().clone()).collect();
        delete_logs(self.node, &names);
    }

    /// The logs of the replicas that are not served yet.
    fn missing_logs(&self) -> impl Iterator<Item = WantedLog> {
        let missing = self.partitions_here().filter(|(id, _)| self.served(*id).is_none());
        missing.map(|(id, partition)| WantedLog {
            new: NewLog {
                partition: TopicPartition::new(self.image.name.clone(), id),
                topic_id: self.image.id,
                config: Arc::clone(&self.log_config),
            },
            assigned: partition.directory_of(self.node.settings.node_id),
        })
    }

    /// `opened` goes on with the logs of this topic, in the order of `missing_logs`.
    fn finish(self, opened: &mut impl Iterator<Item = Result<PlacedLog, LogError>>) -> Topic {
        let traffic = traffic_of(&self.node.metrics.traffic, self.image, self.old.as_ref());
        let mut offline = BTreeMap::new();
        let mut partitions = vec![None; self.image.partitions.len()];
        for ((id, wanted), slot) in self.image.numbered_partitions().zip(&mut partitions) {
            if !wanted.replicas.contains(&self.node.settings.node_id) {
                continue;
            }
            let replica = match self.served(id) {
                Some(replica) => {
                    replica.set_config(Arc::clone(&self.log_config));
                    Arc::clone(replica)
                }
                None => match opened.next().expect("there is a result for each missing log") {
                    Ok(place) => {
                        // One that was there before has the settings of another time.
                        place.log.set_config(Arc::clone(&self.log_config));
                        Replica::new(place, traffic.clone())
                    }
                    Err(error) => {
                        offline.insert(id, error);
                        continue;
                    }
                },
            };
            let in_sync_min = u32::try_from(self.settings.min_insync_replicas).unwrap_or(0);
            give_role(&replica, wanted, self.node.settings.node_id, in_sync_min);
            *slot = Some(replica);
        }
        let Draft { image, defaults, settings, log_config, .. } = self;
        let image = Arc::clone(image);
        Topic { image, defaults, settings, log_config, partitions, offline, traffic }
    }
}

/// Has a replica lead or follow, as the metadata says.
fn give_role(replica: &Replica, wanted: &PartitionImage, own: BrokerId, in_sync_min: u32) {
    match wanted.leader {
        Some(leader) if leader == own => {
            let membership = Membership {
                replicas: wanted.replicas.clone(),
                isr: wanted.isr.clone(),
                partition_epoch: wanted.partition_epoch,
                barred: Vec::new(),
            };
            let (epoch, membership) = (wanted.leader_epoch, &membership);
            replica.lead(Lead { own, epoch, membership, in_sync_min });
        }
        Some(leader) => replica.follow(wanted.leader_epoch, leader),
        None => replica.go_offline(),
    }
}

/// Opens or makes the logs that are missing, all together.
fn open_logs(node: &Arc<Node>, drafts: &[Draft<'_>]) -> Vec<Result<PlacedLog, LogError>> {
    let wanted: Vec<WantedLog> = drafts.iter().flat_map(Draft::missing_logs).collect();
    let mut opened = node.log_dirs.open_logs(&wanted);
    assign(node, &wanted, &mut opened);
    for (wanted, opened) in wanted.iter().zip(&opened) {
        let partition = &wanted.new.partition;
        match opened {
            Ok(_) => {}
            // All that its directory held are, and it was said of the directory; or the metadata is told just now.
            Err(error @ (LogError::DirectoryOffline { .. } | LogError::Unassigned { .. })) => {
                tracing::debug!(%partition, %error, "the partition is offline");
            }
            Err(error) => tracing::error!(%partition, %error, "the partition is offline"),
        }
    }
    opened
}

/// Has the metadata told of logs that are elsewhere than it says, before anything is written to them.
/// They are offline until the image says where they are.
fn assign(node: &Arc<Node>, wanted: &[WantedLog], opened: &mut [Result<PlacedLog, LogError>]) {
    let mut found = Vec::new();
    for (wanted, opened) in wanted.iter().zip(opened) {
        if let Ok(place) = opened
            && place.directory != wanted.assigned
        {
            let partition = wanted.new.partition.clone();
            let unassigned = Err(LogError::Unassigned { partition });
            let place = std::mem::replace(opened, unassigned).expect("it was just looked at");
            found.push((wanted.clone(), place));
        }
    }
    if !found.is_empty() {
        let assigning = node.reconciliation.begin_assigning();
        Handle::current().spawn(tell_where_they_are(Arc::clone(node), found, assigning));
    }
}

async fn tell_where_they_are(
    node: Arc<Node>,
    found: Vec<(WantedLog, PlacedLog)>,
    _assigning: Assigning,
) {
    for found in found.chunks(COMMAND_RECORDS_MAX) {
        let replica = |(wanted, place): &(WantedLog, PlacedLog)| {
            let NewLog { partition, topic_id, .. } = &wanted.new;
            let (topic_id, partition) = (*topic_id, partition.partition);
            ReplicaDirectory { topic_id, partition, directory: place.directory }
        };
        let replicas = found.iter().map(replica).collect();
        let command = AssignReplicasToDirs { broker: node.settings.node_id, replicas };
        let committed = match node.quorum.submit(command).await {
            Ok(committed) => committed,
            Err(error) => {
                // It is tried again with the partitions, which are offline until then.
                tracing::error!(%error, "the metadata cannot be told where partitions are");
                return;
            }
        };
        let (told, clearing) = (found.to_vec(), Arc::clone(&node));
        off_thread(move || clearing.log_dirs.forget_moved(&told)).await;
        if node.reconciliation.reached(committed.index).await.is_err() {
            return;
        }
    }
}

fn traffic_of(
    metrics: &TrafficMetrics,
    topic: &TopicImage,
    old: Option<&Arc<Topic>>,
) -> TopicTraffic {
    match old {
        Some(old) => old.traffic.clone(),
        None => metrics.of_topic(topic.name.as_str()),
    }
}
