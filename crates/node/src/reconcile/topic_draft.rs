//! Topics on their way to being served: which of their logs are opened, and in which role.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use logway_log::{LogConfig, LogError, NewLog};
use logway_metadata::controller::{AssignReplicasToDirs, COMMAND_RECORDS_MAX, ReplicaDirectory};
use logway_metadata::settings::TopicSettings;
use logway_metadata::{MetadataImage, PartitionImage, TopicImage};
use logway_model::{BrokerId, PartitionId, TopicId, TopicPartition};
use logway_replication::Membership;
use tokio::runtime::Handle;

use super::log_config::{log_config, settings_of};
use super::{Assigning, PART_PARTITIONS, delete_logs};
use crate::Node;
use crate::cluster::Mutation;
use crate::log_dirs::{LocatedLog, WantedLog};
use crate::metrics::{TopicTraffic, TrafficMetrics};
use crate::replica::{Lead, Replica};
use crate::tasks::off_thread;
use crate::topics::{BrokerOverrides, Topic, TopicTable};

/// What topics are brought in line with, and what is served until then.
pub(super) struct Drafted<'a> {
    pub(super) image: &'a MetadataImage,
    pub(super) before: &'a TopicTable,
    pub(super) overrides: &'a Arc<BrokerOverrides>,
}

impl Drafted<'_> {
    /// The table with these topics as the image wants them, and without those that have vanished. Those
    /// with more logs to open than one turn has are named, and stay as they were.
    pub(super) fn next_table(
        &self,
        node: &Arc<Node>,
        present: &[Arc<TopicImage>],
        vanished: &[Arc<Topic>],
        openings: &mut Openings,
    ) -> (TopicTable, Vec<TopicId>) {
        let mut drafts = Vec::new();
        for topic in present {
            let old = self.before.by_id(topic.id).ok();
            let is_as_it_should = old.is_some_and(|old| {
                // One with a partition offline is tried again.
                *old.defaults == **self.overrides
                    && Arc::ptr_eq(&old.image, topic)
                    && old.is_all_online(&node.log_dirs)
            });
            if !is_as_it_should {
                drafts.push(Draft::new(node, self.image, self.overrides, topic, old.cloned()));
            }
        }
        drafts.iter().for_each(Draft::stop_moved_away);
        openings.open_part(node, &drafts);
        let (mut changed, mut unfinished) = (Vec::new(), Vec::new());
        for draft in drafts {
            match openings.take_whole(&draft) {
                Some(opened) => changed.push(Arc::new(draft.finish(opened))),
                None => unfinished.push(draft.image.id),
            }
        }
        (self.before.changed(vanished, changed), unfinished)
    }
}

/// Logs that were opened for topics whose turn was over before all of theirs were. Nobody sees such a topic:
/// a client that sees a partition may write to it.
#[derive(Default)]
pub(super) struct Openings(HashMap<TopicId, Opening>);

struct Opening {
    image: Arc<TopicImage>,
    opened: OpenedLogs,
}

type OpenedLogs = BTreeMap<PartitionId, Result<LocatedLog, LogError>>;

impl Openings {
    /// Deletes the logs of topics that were deleted meanwhile.
    pub(super) fn delete_vanished(&mut self, node: &Node, image: &MetadataImage) {
        self.0.retain(|id, opening| {
            let is_there = image.topic_by_id(*id).is_some();
            if !is_there {
                delete_opened(node, &opening.image, &opening.opened);
            }
            is_there
        });
    }

    /// Opens logs that the topics miss, as many as a turn has.
    fn open_part(&mut self, node: &Arc<Node>, drafts: &[Draft<'_>]) {
        let missing = drafts.iter().flat_map(|draft| {
            let missing = draft.missing_logs(self.opened(draft));
            missing.map(move |wanted| (draft.image, wanted))
        });
        let (images, wanted): (Vec<_>, Vec<_>) = missing.take(PART_PARTITIONS).unzip();
        let opened = open_logs(node, &wanted);
        for ((image, wanted), opened) in images.into_iter().zip(wanted).zip(opened) {
            let opening = || Opening { image: Arc::clone(image), opened: BTreeMap::new() };
            let opening = self.0.entry(image.id).or_insert_with(opening);
            opening.image = Arc::clone(image);
            opening.opened.insert(wanted.new.partition.partition, opened);
        }
    }

    /// What was opened for a topic, if that is all that it misses.
    fn take_whole(&mut self, draft: &Draft<'_>) -> Option<OpenedLogs> {
        if draft.missing_logs(self.opened(draft)).next().is_some() {
            return None;
        }
        let opening = self.0.remove(&draft.image.id);
        Some(opening.map(|opening| opening.opened).unwrap_or_default())
    }

    fn opened(&self, draft: &Draft<'_>) -> Option<&OpenedLogs> {
        self.0.get(&draft.image.id).map(|opening| &opening.opened)
    }
}

/// Deletes logs that were opened for a topic and are not needed any more.
fn delete_opened(node: &Node, topic: &TopicImage, opened: &OpenedLogs) {
    let open = opened.iter().filter(|(_, opened)| opened.is_ok());
    let names = open.map(|(id, _)| TopicPartition::new(topic.name.clone(), *id));
    delete_logs(node, &names.collect::<Vec<_>>());
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

    /// The logs of the replicas that are not served yet, and are not among the opened.
    fn missing_logs(&self, opened: Option<&OpenedLogs>) -> impl Iterator<Item = WantedLog> {
        let is_opened =
            move |id: &PartitionId| opened.is_some_and(|opened| opened.contains_key(id));
        let missing = self
            .partitions_here()
            .filter(move |(id, _)| !is_opened(id) && self.served(*id).is_none());
        missing.map(|(id, partition)| WantedLog {
            new: NewLog {
                partition: TopicPartition::new(self.image.name.clone(), id),
                topic_id: self.image.id,
                config: Arc::clone(&self.log_config),
            },
            assigned: partition.directory_of(self.node.settings.node_id),
        })
    }

    /// The directory of a replica has failed since it was found to be served.
    fn has_just_failed(&self, id: PartitionId) -> LogError {
        let replica = self.old.as_ref().and_then(|old| old.replica(id));
        let directory = replica.map_or_else(String::new, |it| it.directory().to_string());
        let partition = TopicPartition::new(self.image.name.clone(), id);
        LogError::DirectoryOffline { partition, directory }
    }

    /// `opened` has all of `missing_logs`.
    fn finish(self, mut opened: OpenedLogs) -> Topic {
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
                None => match opened.remove(&id).unwrap_or_else(|| Err(self.has_just_failed(id))) {
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
            // First: who leads before it is known that a shard is closed takes records for it.
            replica.set_intake(self.image.intake(id));
            if self.node.breaks(Mutation::ShowsItsEnd) && !replica.is_leading() {
                // Without a role nobody else moves the watermark.
                replica.go_offline();
                replica.high_watermark().reset(replica.log().log_end_offset());
            }
            give_role(&replica, wanted, self.node.settings.node_id, in_sync_min);
            *slot = Some(replica);
        }
        // Of replicas that were taken away while others were opened.
        let here: BTreeSet<PartitionId> = self.partitions_here().map(|(id, _)| id).collect();
        opened.retain(|id, _| !here.contains(id));
        delete_opened(self.node, self.image, &opened);
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
                has_eligible: !wanted.eligible.is_empty(),
                partition_epoch: wanted.partition_epoch,
            };
            let (epoch, membership) = (wanted.leader_epoch, &membership);
            replica.lead(Lead { own, epoch, membership, in_sync_min });
        }
        Some(leader) => replica.follow(wanted.leader_epoch, leader),
        None => replica.go_offline(),
    }
}

/// Opens or makes logs, all together.
fn open_logs(node: &Arc<Node>, wanted: &[WantedLog]) -> Vec<Result<LocatedLog, LogError>> {
    let mut opened = node.log_dirs.open_logs(wanted);
    assign(node, wanted, &mut opened);
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
fn assign(node: &Arc<Node>, wanted: &[WantedLog], opened: &mut [Result<LocatedLog, LogError>]) {
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
    found: Vec<(WantedLog, LocatedLog)>,
    _assigning: Assigning,
) {
    for found in found.chunks(COMMAND_RECORDS_MAX) {
        let replica = |(wanted, place): &(WantedLog, LocatedLog)| {
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
