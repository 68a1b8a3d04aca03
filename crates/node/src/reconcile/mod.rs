//! Brings what this node serves in line with the metadata.
//!
//! One task follows the images that the quorum publishes. It finds which topics each image has
//! changed, and leads, follows, stops and deletes accordingly. It waits for no commit: what it has to
//! tell the metadata, another task submits, and the image that comes of it is the next one. Who has
//! changed the metadata waits until the topics of that change are served here.
//!
//! | file | idea |
//! |---|---|
//! | [`progress`] | how far the task is, and who waits for that |
//! | [`start`] | what a start looks for before any topic is served |
//! | [`topic_draft`] | one topic on its way to being served |
//! | [`log_config`] | topic settings as the logs need them |

mod log_config;
mod progress;
mod start;
mod topic_draft;

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

use logway_coordinator::{CommittedTopic, DeletedTopic};
use logway_metadata::settings::broker::{
    CLEANER_BACKOFF_SETTING, CLEANER_MEMORY_SETTING, CLEANER_RATE_SETTING, CLEANER_THREADS_SETTING,
    PRODUCER_EXPIRATION_SETTING,
};
use logway_metadata::{ConfigResource, MetadataImage, TopicImage};
use logway_model::{TopicId, TopicPartition};
use logway_quorum::IndexedImage;
use tokio::time::Instant;

use crate::Node;
use crate::backoff::Backoff;
use crate::groups::OFFSETS_TOPIC;
use crate::tasks::{off_thread, until};
use crate::topics::{BrokerOverrides, Topic, TopicTable};
use crate::transactions::TRANSACTIONS_TOPIC;
pub(crate) use progress::{Assigning, Reconciliation};
use progress::{EndOfTask, Span};
use topic_draft::{Drafted, Openings};

/// How many partitions of one change are brought in line before others have their turn, and at least one
/// topic.
const PART_PARTITIONS: usize = 250;

/// Topics that are to be brought in line. When all are, who waits for the change is told.
struct Change {
    /// `None` if nobody waits for it.
    span: Option<Span>,
    topics: Vec<TopicId>,
}

impl Change {
    /// Cuts the first topics off, of as many partitions as have a turn.
    fn cut_part(&mut self, image: &MetadataImage, served: &TopicTable) -> Vec<TopicId> {
        let partitions_of = |id: &TopicId| {
            let wanted = image.topic_by_id(*id).map_or(0, |topic| topic.partitions.len());
            let served = served.by_id(*id).map_or(0, |topic| topic.partitions.len());
            wanted.max(served).max(1)
        };
        let mut partitions = 0;
        let mut has_room = |id: &TopicId| {
            let has_room = partitions < PART_PARTITIONS;
            partitions += partitions_of(id);
            has_room
        };
        let count = self.topics.iter().take_while(|id| has_room(id)).count();
        let later = self.topics.split_off(count);
        std::mem::replace(&mut self.topics, later)
    }
}

/// Follows the metadata for as long as the broker exists.
///
/// Changes take turns, so that one of very many topics, or of one topic of very many partitions, holds up no other. Each topic is brought in line with the newest
/// image when its turn comes, whichever change it is of. Logs that could not be opened, e.g. for want of file
/// descriptors, are tried again; less and less often while that does not help.
pub(crate) async fn follow_metadata(node: Weak<Node>) {
    let _end = EndOfTask(Weak::clone(&node));
    let Some(strong) = node.upgrade() else { return };
    let mut images = strong.quorum.watch();
    let mut asked = strong.reconciliation.asked();
    drop(strong);
    let mut seen = Seen::default();
    let mut changes: VecDeque<Change> = VecDeque::new();
    let mut openings = Openings::default();
    let mut backoff = Backoff::new();
    let mut retry_at = None;
    loop {
        let Some(strong) = node.upgrade() else { return };
        images.mark_unchanged();
        let number = *asked.borrow_and_update();
        let newest = strong.quorum.indexed_image();
        changes.extend(seen.change(&strong, newest, number));
        if let Some(mut change) = changes.pop_front() {
            let part = change.cut_part(&seen.image.image, &strong.topics());
            let unfinished;
            (openings, unfinished) = bring_in_line(&strong, &seen, part, openings).await;
            change.topics.splice(..0, unfinished);
            match (change.topics.is_empty(), change.span) {
                (true, Some(span)) => strong.reconciliation.finished(span),
                (true, None) => {}
                (false, _) => changes.push_back(change),
            }
        }
        if retry_at.is_some_and(|at| at <= Instant::now()) {
            retry_at = None;
            let retried = strong.topics().topics_to_retry();
            let before = retried.len();
            let unfinished;
            (openings, unfinished) = bring_in_line(&strong, &seen, retried, openings).await;
            if !unfinished.is_empty() {
                changes.push_back(Change { span: None, topics: unfinished });
            }
            if strong.topics().topics_to_retry().len() < before {
                backoff.reset();
            }
        }
        match strong.topics().topics_to_retry().is_empty() {
            true => {
                retry_at = None;
                backoff.reset();
            }
            false => _ = retry_at.get_or_insert_with(|| Instant::now() + backoff.pause()),
        }
        drop(strong);
        if !changes.is_empty() {
            continue;
        }
        tokio::select! {
            // The quorum and what is asked are parts of the broker.
            changed = images.changed() => if changed.is_err() { return },
            changed = asked.changed() => if changed.is_err() { return },
            () = until(retry_at) => {}
        }
    }
}

/// The image that the changes were found up to.
#[derive(Default)]
struct Seen {
    image: IndexedImage,
    /// What was overridden for all brokers, and for this one.
    overrides: Arc<BrokerOverrides>,
    /// How often it was asked for every topic.
    asked: u64,
}

impl Seen {
    /// What has changed up to this image, if anything.
    fn change(&mut self, node: &Node, newest: IndexedImage, asked: u64) -> Option<Change> {
        let is_news = newest.index > self.image.index || asked > self.asked;
        if !is_news {
            return None;
        }
        let overrides = overrides_of_brokers(node, &newest.image);
        let difference = newest.image.topics_changed_since(&self.image.image);
        node.groups.cluster_changed(&newest.image, newest.index, &difference);
        // Broker settings are defaults of topic settings, so a change of them can touch every topic.
        let all = asked > self.asked || *self.overrides != overrides;
        let topics: Vec<TopicId> = match all {
            true => {
                let served = node.topics();
                let served = served.iter().map(|topic| topic.image.id);
                let gone = served.filter(|id| newest.image.topic_by_id(*id).is_none());
                gone.chain(newest.image.topics().map(|topic| topic.id)).collect()
            }
            false => {
                difference.gone.iter().chain(&difference.changed).map(|topic| topic.id).collect()
            }
        };
        let span = Span { after: self.image.index, last: newest.index, asked };
        if *self.overrides != overrides {
            self.overrides = Arc::new(overrides);
        }
        self.image = newest;
        self.asked = asked;
        node.reconciliation.began(span);
        Some(Change { span: Some(span), topics })
    }
}

/// What is overridden for all brokers, and for this one.
fn overrides_of_brokers(node: &Node, image: &MetadataImage) -> BrokerOverrides {
    let resources = [ConfigResource::BrokerDefault, ConfigResource::Broker(node.settings.node_id)];
    resources.map(|resource| image.overrides(&resource).cloned())
}

/// Opens the logs of new partitions, deletes those of deleted topics, gives replicas their roles and
/// puts changed settings in force; then shows the result to handlers.
///
/// No more logs are opened than in one turn. Gives what is opened so far of topics that need more, and
/// those topics.
async fn bring_in_line(
    node: &Arc<Node>,
    seen: &Seen,
    topics: Vec<TopicId>,
    mut openings: Openings,
) -> (Openings, Vec<TopicId>) {
    let image = Arc::clone(&seen.image.image);
    let overrides = Arc::clone(&seen.overrides);
    let _no_replica_moves = node.reconciling.lock().await;
    let node = Arc::clone(node);
    off_thread(move || {
        let before = node.topics.load_full();
        let present: Vec<Arc<TopicImage>> =
            topics.iter().filter_map(|id| image.topic_by_id(*id)).cloned().collect();
        let vanished = vanished(&image, &before, &topics, &present);
        // First, because a topic of the same name may have been created again.
        delete_vanished(&node, &vanished);
        openings.delete_vanished(&node, &image);
        let drafted = Drafted { image: &image, before: &before, overrides: &overrides };
        let (table, unfinished) = drafted.next_table(&node, &present, &vanished, &mut openings);
        let table = Arc::new(table);
        node.topics.store(Arc::clone(&table));
        node.put_changes_in_force();
        node.end_closed_shards(&present);
        // Those who wait for records of what is deleted look again, and find that it is gone.
        let gone = vanished.iter().flat_map(|topic| topic.partitions.iter().flatten());
        gone.for_each(|partition| partition.go_offline());
        take_offline(&before, &table);
        node.groups.follow(table.by_name(OFFSETS_TOPIC).ok());
        node.transactions.follow(&node, table.by_name(TRANSACTIONS_TOPIC).ok());
        node.reconciliation.served_anew();
        let deleted = vanished.iter().map(|topic| DeletedTopic {
            name: CommittedTopic::from(topic.name().as_str()),
            id: topic.image.id,
        });
        node.groups.forget_topics(deleted);
        (openings, unfinished)
    })
    .await
}

/// Those of the topics that are served and do not exist any more; and what has the name of a new one, which may have
/// gone without having had its turn.
fn vanished(
    image: &MetadataImage,
    before: &TopicTable,
    topics: &[TopicId],
    present: &[Arc<TopicImage>],
) -> Vec<Arc<Topic>> {
    let served = topics.iter().filter_map(|id| before.by_id(*id).ok());
    let of_same_name = present.iter().filter_map(|topic| before.by_name(topic.name.as_str()).ok());
    let is_gone = |topic: &&Arc<Topic>| image.topic_by_id(topic.image.id).is_none();
    let mut known = BTreeSet::new();
    let gone = served.chain(of_same_name).filter(is_gone);
    gone.filter(|topic| known.insert(topic.image.id)).cloned().collect()
}

impl Node {
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
}

fn delete_vanished(node: &Node, vanished: &[Arc<Topic>]) {
    let mut partitions = Vec::new();
    for topic in vanished {
        let name = topic.name();
        let numbers = topic.image.numbered_partitions().map(|(number, _)| number);
        partitions.extend(numbers.map(|number| TopicPartition::new(name.clone(), number)));
        node.metrics.traffic.forget_topic(name.as_str());
    }
    delete_logs(node, &partitions);
}

fn delete_logs(node: &Node, partitions: &[TopicPartition]) {
    if !partitions.is_empty()
        && let Err(error) = node.log_dirs.delete_logs(partitions)
    {
        tracing::error!(%error, "a log that is not needed any more could not be removed; \
            the next start sets it aside");
    }
}

/// Those who wait for records of a partition that is offline now are told.
fn take_offline(before: &TopicTable, after: &TopicTable) {
    for topic in after.iter().filter(|topic| !topic.offline.is_empty()) {
        let Ok(before) = before.by_id(topic.image.id) else { continue };
        let offline = topic.offline.keys().filter_map(|id| before.partition(*id).ok());
        offline.for_each(|partition| partition.go_offline());
    }
}
