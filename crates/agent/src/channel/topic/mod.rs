//! Channels in topics: `kafka`, as Flume has it, and `logway`, where an event has an id.
//!
//! A put is a flush of an idempotent producer. Takes come from a member of a group, which reads ahead; a take is
//! committed when its offsets are. A partition serves one transaction at a time: so offsets are committed in order,
//! and nothing that a rollback gives back lies before what is committed.

mod cursor;
mod declarations;
mod format;
mod ground;
mod lag;
mod member;
mod producers;
mod seen;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use logway_client::{ConsumerOptions, GroupOptions, NewTopic, ProducerOptions, StartAt};
use logway_model::{PartitionId, TopicName};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;

pub(super) use self::cursor::TopicTake;
pub(crate) use self::declarations::{KAFKA, LOGWAY};
use self::format::Format;
use self::ground::Ground;
use self::member::{Commit, Member, Shared};
use self::producers::Producers;
use crate::error::{ChannelError, StartError};
use crate::event::Event;
use crate::interceptor::now_ms;
use crate::kafka_cluster::{PATIENCE, client, compression};
use crate::settings::Settings;
use crate::stop::Stopper;

/// How much is read at once; twice as much may be on its way.
const FETCH_BYTES: u32 = 2 << 20;

/// How many commits may wait to be made together.
const COMMITS_MAX: usize = 64;

/// A topic in which events wait.
#[derive(Debug)]
pub(super) struct TopicQueue {
    channel: String,
    topic: TopicName,
    format: Format,
    ground: Arc<Ground>,
    producers: Producers,
    shared: Arc<Shared>,
    commits: mpsc::Sender<Commit>,
    stopper: Stopper,
    member: Mutex<Option<JoinHandle<()>>>,
    lag: Arc<AtomicU64>,
    watcher: JoinHandle<()>,
}

impl TopicQueue {
    /// Begins. The cluster is asked for the first time when something is put or taken.
    pub(super) fn open(
        settings: &Settings,
        arrived: Arc<Notify>,
    ) -> Result<TopicQueue, StartError> {
        let is_logway = settings.declaration.name == LOGWAY.name;
        let (topic_key, group_key) = match is_logway {
            true => ("topic", "group"),
            false => ("kafka.topic", "kafka.consumer.group.id"),
        };
        let topic = TopicName::new(settings.required(topic_key).trim());
        let topic = topic.map_err(|error| format!("{topic_key}: {error}"))?;
        let format = format(settings, is_logway);
        let client = client(settings)?;
        let creation = is_logway.then(|| creation(settings, &topic));
        let ground = Arc::new(Ground {
            client: client.clone(),
            topic: topic.clone(),
            group: settings.required(group_key).trim().to_owned(),
            creation,
            begins_at_end: !is_logway && settings.is("kafka.consumer.auto.offset.reset", "latest"),
            is_there: tokio::sync::OnceCell::new(),
        });
        let producers = Producers {
            channel: settings.name.clone(),
            client: client.clone(),
            topic: topic.clone(),
            options: ProducerOptions {
                compression: compression(settings),
                delivery_timeout: PATIENCE,
                ..ProducerOptions::default()
            },
            format: format.clone(),
            partition: settings.limit("defaultPartitionId").map(|id| PartitionId(id as i32)),
            partition_header: settings.text("partitionIdHeader").map(str::to_owned),
            event_bytes_max: settings.size("kafka.producer.max.request.size"),
            idle: Mutex::default(),
            permits: Producers::permits(),
        };
        let shared = Arc::new(Shared::new(arrived));
        let (commits, to_commit) = mpsc::channel(COMMITS_MAX);
        let (stopper, stop) = Stopper::new();
        let member = Member {
            channel: settings.name.clone(),
            client: client.clone(),
            ground: Arc::clone(&ground),
            topic: topic.clone(),
            options: group_options(settings),
            format: format.clone(),
            window: if is_logway { settings.size("duplicateWindow") } else { 0 },
            shared: Arc::clone(&shared),
            commits: to_commit,
            stop,
            seen: Default::default(),
        };
        let member = Mutex::new(Some(tokio::spawn(member.run())));
        let lag = Arc::new(AtomicU64::new(0));
        let watcher = tokio::spawn(lag::watch(Arc::clone(&ground), Arc::clone(&lag)));
        let channel = settings.name.clone();
        Ok(TopicQueue {
            channel,
            topic,
            format,
            ground,
            producers,
            shared,
            commits,
            stopper,
            member,
            lag,
            watcher,
        })
    }

    /// Makes sure that there is a topic which could take these events.
    pub(super) async fn check(&self, events: &[Event]) -> Result<(), ChannelError> {
        self.producers.check(events)?;
        self.ground.prepare().await.map_err(|error| self.failed(error.to_string()))
    }

    /// Puts events; returns when all replicas in sync have them.
    pub(super) async fn put(&self, events: &[Event]) -> Result<(), ChannelError> {
        self.producers.put(events).await
    }

    /// Takes what has come, perhaps nothing.
    pub(super) fn take(&self, max: usize) -> (TopicTake, Vec<Event>) {
        self.shared.wanted.notify_one();
        let taken = self.shared.cursor().take(max);
        self.shared.freed.notify_one();
        taken
    }

    /// Takes more of what has come into a take that has begun. `None` if it will not be committed any more.
    pub(super) fn take_more(&self, take: &mut TopicTake, max: usize) -> Option<Vec<Event>> {
        self.shared.wanted.notify_one();
        let taken = self.shared.cursor().take_more(take, max);
        self.shared.freed.notify_one();
        taken
    }

    /// Commits the offsets of a take.
    ///
    /// # Errors
    ///
    /// They are not committed, and the events are read again, here or by another member.
    pub(super) async fn commit(&self, take: &TopicTake) -> Result<(), ChannelError> {
        let (done, outcome) = oneshot::channel();
        let (generation, next) = (take.generation, take.next.clone());
        let commit = Commit { generation, next, done: Some(done) };
        let gone = || self.failed("the channel is closed".to_owned());
        self.commits.send(commit).await.map_err(|_| gone())?;
        let outcome = outcome.await.map_err(|_| gone())?;
        outcome.map_err(|reason| self.failed(reason))
    }

    /// A take has come to its end. Events that are given are next again.
    pub(super) fn end(&self, take: &TopicTake, events: Vec<Event>) {
        let next = self.shared.cursor().end(take, events);
        if !next.is_empty() {
            // Nobody waits for that: if there is no room for it, the next one says the same.
            let _ = self.commits.try_send(Commit { generation: take.generation, next, done: None });
        }
    }

    /// A name that an event keeps, however often it is taken.
    pub(super) fn event_id(&self, take: &TopicTake, index: usize, event: &Event) -> String {
        let place = take.place(index);
        let own = self.format.id(event).map(str::to_owned);
        own.unwrap_or_else(|| format!("{}-{}-{}", self.topic, place.partition.0, place.offset.0))
    }

    /// The header for ids, if events have them.
    pub(super) fn id_header(&self) -> Option<&str> {
        match &self.format {
            Format::Headers { id } => Some(id),
            Format::Avro | Format::Body => None,
        }
    }

    /// How many events were not committed when it was last looked.
    pub(super) fn len(&self) -> u64 {
        self.lag.load(Ordering::Relaxed)
    }

    /// How old the oldest of the events is that were read and not committed.
    pub(super) fn oldest_age(&self) -> Option<Duration> {
        let oldest = self.shared.cursor().oldest()?;
        Some(Duration::from_millis(u64::try_from(now_ms() - oldest.0).unwrap_or(0)))
    }

    /// How many events were there before.
    pub(super) fn repeated(&self) -> u64 {
        self.shared.repeated.get()
    }

    /// How many offsets were gone before they were read.
    pub(super) fn lost(&self) -> u64 {
        self.shared.lost.get()
    }

    /// Leaves the group, so that others need not wait until it is missed.
    pub(super) async fn close(&self) {
        self.watcher.abort();
        self.stopper.stop();
        let member = self.member.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut member) = member
            && tokio::time::timeout(PATIENCE, &mut member).await.is_err()
        {
            member.abort();
            tracing::warn!(channel = self.channel, "the group was not left in time");
        }
    }

    /// Whether the partitions are still those that the take came from.
    pub(super) fn is_current(&self, take: &TopicTake) -> bool {
        self.shared.cursor().generation == take.generation
    }

    /// Why a take that has begun comes to nothing.
    pub(super) fn changed(&self) -> ChannelError {
        self.failed(member::REBALANCED.to_owned())
    }

    fn failed(&self, reason: String) -> ChannelError {
        ChannelError::Storage { channel: self.channel.clone(), reason }
    }
}

impl Drop for TopicQueue {
    fn drop(&mut self) {
        self.watcher.abort();
        if let Some(member) = self.member.get_mut().unwrap_or_else(PoisonError::into_inner) {
            member.abort();
        }
    }
}

fn format(settings: &Settings, is_logway: bool) -> Format {
    match is_logway {
        true => Format::Headers { id: settings.required("eventIdHeader").trim().to_owned() },
        false if settings.flag("parseAsFlumeEvent") => Format::Avro,
        false => Format::Body,
    }
}

fn creation(settings: &Settings, topic: &TopicName) -> NewTopic {
    let number = |key: &str| settings.limit(key);
    NewTopic {
        name: topic.clone(),
        partitions: number("partitions").and_then(|count| i32::try_from(count).ok()),
        replication_factor: number("replicationFactor").and_then(|count| i16::try_from(count).ok()),
        configs: Vec::new(),
    }
}

fn group_options(settings: &Settings) -> GroupOptions {
    GroupOptions {
        session_timeout: settings.millis("kafka.consumer.session.timeout.ms"),
        heartbeat_interval: settings.millis("kafka.consumer.heartbeat.interval.ms"),
        poll_interval_max: settings.millis("kafka.consumer.max.poll.interval.ms"),
        // A group that begins at the end has committed that: what has no offset is a new partition.
        start_at: StartAt::Start,
        consumer: ConsumerOptions {
            fetch_bytes_max: FETCH_BYTES,
            partition_bytes_max: FETCH_BYTES / 2,
            ..ConsumerOptions::default()
        },
        ..GroupOptions::default()
    }
}
