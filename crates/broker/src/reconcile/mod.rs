//! Brings what this node serves in line with the metadata.
//!
//! One task follows the images that the quorum publishes. For each it finds how it differs from the
//! one before, and leads, follows, stops and deletes accordingly. It waits for no commit: what it
//! has to tell the metadata, another task submits, and the image that comes of it is the next one.
//! Who has changed the metadata waits until the image of that change is served here.
//!
//! | file | idea |
//! |---|---|
//! | [`start`] | what a start looks for before any topic is served |
//! | [`topic_draft`] | one topic on its way to being served |
//! | [`log_config`] | topic settings as the logs need them |

mod log_config;
mod start;
mod topic_draft;

use std::sync::{Arc, Weak};
use std::time::Duration;

use logway_coordinator::{CommittedTopic, DeletedTopic};
use logway_metadata::settings::broker::{
    CLEANER_BACKOFF_SETTING, CLEANER_MEMORY_SETTING, CLEANER_RATE_SETTING, CLEANER_THREADS_SETTING,
    PRODUCER_EXPIRATION_SETTING,
};
use logway_metadata::{ConfigResource, MetadataImage, TopicImage};
use logway_model::{ErrorCode, TopicId, TopicPartition};
use logway_quorum::{IndexedImage, MetadataIndex};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::Broker;
use crate::backoff::Backoff;
use crate::broker::off_thread;
use crate::failure::Failure;
use crate::groups::OFFSETS_TOPIC;
use crate::topics::{BrokerOverrides, Topic, TopicTable};
use topic_draft::next_table;

/// How many topics are brought in line before a move of a replica may have its turn.
const PART_TOPICS: usize = 250;

/// What is asked of the task that follows the metadata, and how far it is.
#[derive(Debug)]
pub(crate) struct Reconciliation {
    /// How often it was asked to look at every topic.
    asked: watch::Sender<u64>,
    progress: watch::Sender<Progress>,
    /// Submissions under way of where replicas were found.
    assigning: watch::Sender<usize>,
}

/// How far the task is.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    /// The image of this index is served.
    index: MetadataIndex,
    /// Every topic was looked at since it was asked for so often.
    answered: u64,
    /// The task has ended, and serves no further image.
    is_over: bool,
}

impl Default for Reconciliation {
    fn default() -> Reconciliation {
        Reconciliation {
            asked: watch::Sender::new(0),
            progress: watch::Sender::new(Progress::default()),
            assigning: watch::Sender::new(0),
        }
    }
}

impl Reconciliation {
    /// Waits until the image of an index is served here.
    pub(crate) async fn reached(&self, index: MetadataIndex) -> Result<(), Failure> {
        self.progressed(|progress| progress.index >= index).await
    }

    /// Has every topic looked at once more, whether its metadata has changed or not; returns when that
    /// is done.
    pub(crate) async fn look_at_all(&self) -> Result<(), Failure> {
        let mut number = 0;
        self.asked.send_modify(|asked| {
            *asked += 1;
            number = *asked;
        });
        self.progressed(|progress| progress.answered >= number).await
    }

    /// Waits until the metadata knows where all replicas are that were found elsewhere than it said.
    pub(crate) async fn assigned(&self) {
        let none_left = |assigning: &usize| *assigning == 0;
        let mut assigning = self.assigning.subscribe();
        // The sender is in `self`.
        let _ = assigning.wait_for(none_left).await;
    }

    /// Counts a submission until it is dropped.
    fn begin_assigning(&self) -> Assigning {
        self.assigning.send_modify(|assigning| *assigning += 1);
        Assigning(self.assigning.clone())
    }

    async fn progressed(&self, is_far_enough: impl Fn(&Progress) -> bool) -> Result<(), Failure> {
        let mut progress = self.progress.subscribe();
        let reached = progress.wait_for(|now| now.is_over || is_far_enough(now)).await;
        match reached {
            Ok(now) if is_far_enough(&now) => Ok(()),
            _ => {
                let message = "the broker is stopping: the change is made, and comes into force with the next start";
                Err(Failure::new(ErrorCode::NotController, message))
            }
        }
    }
}

/// A submission of where replicas were found.
struct Assigning(watch::Sender<usize>);

impl Drop for Assigning {
    fn drop(&mut self) {
        self.0.send_modify(|assigning| *assigning -= 1);
    }
}

/// Says that the task has ended, however it does.
struct EndOfTask(Weak<Broker>);

impl Drop for EndOfTask {
    fn drop(&mut self) {
        if let Some(broker) = self.0.upgrade() {
            broker.reconciliation.progress.send_modify(|progress| progress.is_over = true);
        }
    }
}

/// Follows the metadata for as long as the broker exists.
///
/// Logs that could not be opened, e.g. for want of file descriptors, are tried again; less and less
/// often while that does not help.
pub(crate) async fn follow_metadata(broker: Weak<Broker>) {
    let _end = EndOfTask(Weak::clone(&broker));
    let Some(strong) = broker.upgrade() else { return };
    let mut images = strong.quorum.watch();
    let mut asked = strong.reconciliation.asked.subscribe();
    drop(strong);
    let mut backoff = Backoff::new();
    let mut applied = IndexedImage::default();
    let mut is_retry = false;
    loop {
        let Some(strong) = broker.upgrade() else { return };
        images.mark_unchanged();
        let number = *asked.borrow_and_update();
        let next = strong.quorum.indexed_image();
        let looks_at_all = number > strong.reconciliation.progress.borrow().answered;
        let retried = strong.topics().topics_to_retry();
        let scope = match (looks_at_all, is_retry) {
            (true, _) => Scope::All,
            (false, true) => Scope::DifferenceAnd(&retried),
            (false, false) => Scope::DifferenceAnd(&[]),
        };
        reconcile(&strong, &applied.image, &next.image, scope).await;
        let progress = Progress { index: next.index, answered: number, is_over: false };
        strong.reconciliation.progress.send_replace(progress);
        applied = next;
        let left = strong.topics().topics_to_retry().len();
        if left == 0 || left < retried.len() {
            backoff.reset();
        }
        drop(strong);
        is_retry = tokio::select! {
            changed = images.changed() => {
                // The quorum is part of the broker.
                if changed.is_err() { return };
                false
            }
            changed = asked.changed() => {
                if changed.is_err() { return };
                false
            }
            () = sleep(backoff.pause()), if left > 0 => true,
        };
    }
}

/// Which topics are looked at.
enum Scope<'a> {
    All,
    /// Those that differ between the two images, and these.
    DifferenceAnd(&'a [TopicId]),
}

/// Opens the logs of new partitions, deletes those of deleted topics, gives replicas their roles and
/// puts changed settings in force; then shows the result to handlers.
async fn reconcile(
    broker: &Arc<Broker>,
    before: &MetadataImage,
    image: &Arc<MetadataImage>,
    scope: Scope<'_>,
) {
    let overrides = overrides_of_brokers(broker, image);
    let table = broker.topics.load_full();
    let (present, vanished) = match scope {
        // Broker settings are defaults of topic settings, so a change of them can touch every topic.
        Scope::DifferenceAnd(also) if table.defaults == overrides => {
            let difference = image.topics_changed_since(before);
            let mut present = difference.changed;
            present.extend(also.iter().filter_map(|id| image.topic_by_id(*id)).cloned());
            let vanished = difference.gone.iter().filter_map(|topic| table.by_id(topic.id).ok());
            (present, vanished.cloned().collect())
        }
        Scope::DifferenceAnd(_) | Scope::All => {
            let is_gone = |topic: &&Arc<Topic>| image.topic_by_id(topic.image.id).is_none();
            (image.topics().cloned().collect(), table.iter().filter(is_gone).cloned().collect())
        }
    };
    let mut vanished: Vec<Arc<Topic>> = vanished;
    let mut parts = present.chunks(PART_TOPICS);
    loop {
        let part = parts.next().unwrap_or_default().to_vec();
        let is_last = parts.len() == 0;
        let part = Part {
            image: Arc::clone(image),
            overrides: overrides.clone(),
            present: part,
            vanished: std::mem::take(&mut vanished),
        };
        let _no_replica_moves = broker.reconciling.lock().await;
        let broker = Arc::clone(broker);
        off_thread(move || part.bring_in_line(&broker)).await;
        if is_last {
            return;
        }
    }
}

/// What is overridden for all brokers, and for this one.
fn overrides_of_brokers(broker: &Broker, image: &MetadataImage) -> BrokerOverrides {
    let resources =
        [ConfigResource::BrokerDefault, ConfigResource::Broker(broker.settings.node_id)];
    resources.map(|resource| image.overrides(&resource).cloned())
}

/// Topics that are brought in line together.
struct Part {
    image: Arc<MetadataImage>,
    overrides: BrokerOverrides,
    /// Those that are to be served, new ones and others.
    present: Vec<Arc<TopicImage>>,
    /// Those that are served no more.
    vanished: Vec<Arc<Topic>>,
}

impl Part {
    fn bring_in_line(self, broker: &Arc<Broker>) {
        let Part { image, overrides, present, vanished } = self;
        let before = broker.topics.load_full();
        // First, because a topic of the same name may have been created again.
        delete_vanished(broker, &vanished);
        let table = next_table(broker, &image, &before, overrides, &present, &vanished);
        let table = Arc::new(table);
        broker.topics.store(Arc::clone(&table));
        broker.put_changes_in_force();
        vanished.iter().flat_map(|topic| topic.partitions.iter().flatten()).for_each(|partition| {
            // Those who wait for its records look again, and find that it is gone.
            partition.go_offline();
        });
        take_offline(&before, &table);
        broker.groups.follow(table.by_name(OFFSETS_TOPIC).ok());
        let deleted = vanished.iter().map(|topic| DeletedTopic {
            name: CommittedTopic::from(topic.name().as_str()),
            id: topic.image.id,
        });
        broker.groups.forget_topics(deleted);
    }
}

impl Broker {
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

fn delete_vanished(broker: &Broker, vanished: &[Arc<Topic>]) {
    let mut partitions = Vec::new();
    for topic in vanished {
        let name = topic.name();
        let numbers = topic.image.numbered_partitions().map(|(number, _)| number);
        partitions.extend(numbers.map(|number| TopicPartition::new(name.clone(), number)));
        broker.metrics.traffic.forget_topic(name.as_str());
    }
    delete_logs(broker, &partitions);
}

fn delete_logs(broker: &Broker, partitions: &[TopicPartition]) {
    if !partitions.is_empty()
        && let Err(error) = broker.log_dirs.delete_logs(partitions)
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
