//! Channels: where events wait between sources and sinks.
//!
//! A put is claimed first and made then, so that a source knows of all its channels that they have room before
//! any of them has its events. A take is committed by [`Taken::commit`]; dropped, its events are next again.

mod ages;
mod damage;
pub(crate) mod file;
pub(crate) mod memory;
mod place;
mod room;
pub(crate) mod spillable;
mod taken;
pub(crate) mod topic;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use self::ages::Ages;
use self::file::FileQueue;
use self::memory::{MemoryQueue, bytes_of};
pub(crate) use self::place::Place;
use self::room::{Claim, Room};
use self::spillable::{SpillableClaim, SpillableQueue, SpillableTake};
use self::taken::Held;
pub(crate) use self::taken::{More, Taken};
use self::topic::TopicQueue;
use crate::counters::ChannelCounters;
use crate::declaration::{Fallback, Key, Kind, key};
use crate::error::{ChannelError, StartError};
use crate::event::Event;
use crate::settings::Settings;

/// What every channel can be told.
const TRANSACTION: &[Key] = &[key(
    "transactionCapacity",
    Kind::Number(1, i64::MAX, "events"),
    Fallback::Nothing,
    "How many events a source puts, or a sink takes, in one transaction. 100 for a memory channel, 10000 for others.",
)];

/// And those where a put waits for room.
const KEEP_ALIVE: &[Key] = &[key(
    "keep-alive",
    Kind::Number(0, 86400, "s"),
    Fallback::Is("3"),
    "How long a put waits for room.",
)];

/// What a channel takes in one transaction, unless it says otherwise.
pub(crate) fn transaction_default(kind: &str) -> u64 {
    if kind == "memory" { 100 } else { 10_000 }
}

/// Where the events of a channel wait on the disk, if they do.
pub(crate) fn directory(settings: &Settings) -> Option<PathBuf> {
    let overflows = |settings: &Settings| settings.number("overflowCapacity") > 0;
    match settings.declaration.name {
        "file" => Some(settings.path("dataDirs")),
        "spillablememory" if overflows(settings) => Some(settings.path("dataDirs")),
        _ => None,
    }
}

/// Whether it is a topic, from which others may take.
pub(crate) fn is_topic(settings: &Settings) -> bool {
    ["kafka", "logway"].contains(&settings.declaration.name)
}

/// A channel that runs. It outlives the sources and sinks of one configuration.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) name: String,
    pub(crate) counters: ChannelCounters,
    transaction_events_max: u64,
    /// How long a put waits for room, in those that have but one place for it.
    keep_alive: Duration,
    arrived: Arc<Notify>,
    ages: Mutex<Ages>,
    /// It is to become empty: nobody waits for more to come.
    is_draining: AtomicBool,
    queue: Queue,
}

#[derive(Debug)]
enum Queue {
    Memory(MemoryQueue),
    File(Box<FileQueue>),
    Spillable(Box<SpillableQueue>),
    Topic(Box<TopicQueue>),
}

/// Room in a channel for some events.
#[derive(Debug)]
pub(crate) struct Reservation {
    channel: Arc<Channel>,
    claimed: Claimed,
}

#[derive(Debug)]
enum Claimed {
    Room(Claim),
    Spillable(SpillableClaim),
    /// A topic is not full.
    Nothing,
}

impl Channel {
    pub(crate) async fn open(settings: &Settings) -> Result<Arc<Channel>, StartError> {
        let kind = settings.declaration.name;
        let mut keep_alive = Duration::ZERO;
        let arrived = Arc::new(Notify::new());
        let queue = match kind {
            "spillablememory" => Queue::Spillable(Box::new(SpillableQueue::open(settings).await?)),
            "kafka" | "logway" => {
                Queue::Topic(Box::new(TopicQueue::open(settings, Arc::clone(&arrived))?))
            }
            _ => {
                keep_alive = settings.seconds("keep-alive");
                let capacity = settings.number("capacity");
                match kind {
                    "file" => Queue::File(Box::new(FileQueue::open(settings, capacity).await?)),
                    _ => {
                        let bytes_max = settings.number("byteCapacity");
                        let room = Room::new(&settings.name, capacity, bytes_max);
                        Queue::Memory(MemoryQueue::new(room))
                    }
                }
            }
        };
        let bound =
            settings.limit("transactionCapacity").unwrap_or_else(|| transaction_default(kind));
        let channel = Channel {
            name: settings.name.clone(),
            counters: ChannelCounters::default(),
            transaction_events_max: bound,
            keep_alive,
            arrived,
            ages: Mutex::default(),
            is_draining: AtomicBool::new(false),
            queue,
        };
        channel.ages().put(channel.len());
        Ok(Arc::new(channel))
    }

    fn ages(&self) -> MutexGuard<'_, Ages> {
        self.ages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it keeps what it holds when the process ends in good order, so that nothing has to be taken before.
    pub(crate) fn is_durable(&self) -> bool {
        match &self.queue {
            Queue::Memory(_) => false,
            Queue::File(_) | Queue::Topic(_) => true,
            Queue::Spillable(spillable) => spillable.disk.is_some(),
        }
    }

    pub(crate) fn transaction_events_max(&self) -> usize {
        usize::try_from(self.transaction_events_max).unwrap_or(usize::MAX)
    }

    /// How many events it holds, those included that are on their way in or out.
    pub(crate) fn len(&self) -> u64 {
        match &self.queue {
            Queue::Memory(memory) => memory.room.events(),
            Queue::File(file) => file.room.events(),
            Queue::Spillable(spillable) => spillable.len(),
            Queue::Topic(topic) => topic.len(),
        }
    }

    /// How many events it holds on the disk.
    pub(crate) fn len_on_disk(&self) -> u64 {
        match &self.queue {
            Queue::File(file) => file.room.events(),
            Queue::Spillable(spillable) => spillable.len_on_disk(),
            Queue::Memory(_) | Queue::Topic(_) => 0,
        }
    }

    /// How many it could hold, if that is known.
    pub(crate) fn capacity(&self) -> Option<u64> {
        match &self.queue {
            Queue::Memory(memory) => Some(memory.room.events_max()),
            Queue::File(file) => Some(file.room.events_max()),
            Queue::Spillable(spillable) => Some(spillable.capacity()),
            Queue::Topic(_) => None,
        }
    }

    /// How long the oldest event has been waiting; none if there is none.
    pub(crate) fn oldest_age(&self) -> Option<Duration> {
        match &self.queue {
            Queue::Topic(topic) => topic.oldest_age(),
            _ => self.ages().oldest(),
        }
    }

    /// What was lost, and what this kind of channel alone counts.
    pub(crate) fn own_counts(&self) -> Vec<(&'static str, u64)> {
        let lost = self.counters.lost.get();
        match &self.queue {
            Queue::Topic(topic) => vec![
                ("EventRepeatedCount", topic.repeated()),
                ("EventLostCount", topic.lost().saturating_add(lost)),
            ],
            Queue::Memory(_) | Queue::File(_) | Queue::Spillable(_) => {
                vec![("EventLostCount", lost)]
            }
        }
    }

    /// The header in which events of this channel have an id, which a source gives them before their first put.
    pub(crate) fn id_header(&self) -> Option<&str> {
        match &self.queue {
            Queue::Topic(topic) => topic.id_header(),
            Queue::Memory(_) | Queue::File(_) | Queue::Spillable(_) => None,
        }
    }

    /// Makes sure of room for some events, waiting for it as long as the channel's keep-alive.
    pub(crate) async fn reserve(
        self: &Arc<Channel>,
        events: &[Event],
    ) -> Result<Reservation, ChannelError> {
        self.claim(events, true).await
    }

    /// Makes sure of room for some events, if there is room now.
    pub(crate) async fn reserve_now(
        self: &Arc<Channel>,
        events: &[Event],
    ) -> Result<Reservation, ChannelError> {
        self.claim(events, false).await
    }

    async fn claim(
        self: &Arc<Channel>,
        events: &[Event],
        waits: bool,
    ) -> Result<Reservation, ChannelError> {
        self.counters.put_attempts.add(events.len());
        let (found, bound) = (events.len() as u64, self.transaction_events_max);
        if found > bound {
            let channel = self.name.clone();
            return Err(ChannelError::TooLarge { channel, found, bound, unit: "events" });
        }
        let patience = if waits { self.keep_alive } else { Duration::ZERO };
        let claimed = match &self.queue {
            Queue::Memory(memory) => {
                Claimed::Room(memory.room.claim(found, bytes_of(events), patience).await?)
            }
            Queue::File(file) => Claimed::Room(file.claim(events, patience).await?),
            Queue::Spillable(spillable) => {
                Claimed::Spillable(spillable.claim(events, waits).await?)
            }
            Queue::Topic(topic) => {
                topic.check(events).await?;
                Claimed::Nothing
            }
        };
        Ok(Reservation { channel: Arc::clone(self), claimed })
    }

    /// Takes events, at most so many; waits for the first as long as `patience`.
    pub(crate) async fn take(
        self: &Arc<Channel>,
        max: usize,
        patience: Duration,
    ) -> Result<Taken, ChannelError> {
        self.take_until(patience, || self.try_take(max), |taken| !taken.events.is_empty()).await
    }

    /// Takes again when something arrives, until it is enough or `patience` is at its end.
    async fn take_until<T>(
        &self,
        patience: Duration,
        mut take: impl FnMut() -> Result<T, ChannelError>,
        is_enough: impl Fn(&T) -> bool,
    ) -> Result<T, ChannelError> {
        let until = Instant::now() + patience;
        loop {
            let arrived = self.arrived.notified();
            tokio::pin!(arrived);
            arrived.as_mut().enable();
            self.counters.take_attempts.add(1);
            let taken = take()?;
            if is_enough(&taken) || timeout_at(until, arrived).await.is_err() {
                return Ok(taken);
            }
        }
    }

    /// Takes more events into a take of this channel, at most so many; waits for the first as long as `patience`, and not at
    /// all if the channel is to become empty.
    ///
    /// # Errors
    ///
    /// The take will not be committed any more, or the channel cannot be read.
    pub(crate) async fn take_more(
        &self,
        taken: &mut Taken,
        max: usize,
        patience: Duration,
    ) -> Result<More, ChannelError> {
        let max = max.min(self.transaction_events_max());
        let is_enough = |more: &More| *more != More::Events(0) || self.is_draining();
        self.take_until(patience, || taken.take_more(max), is_enough).await
    }

    /// Whether it is to become empty.
    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed)
    }

    /// Says whether it is to become empty.
    pub(crate) fn set_draining(&self, is_draining: bool) {
        self.is_draining.store(is_draining, Ordering::Relaxed);
        self.arrived.notify_waiters();
    }

    fn try_take(self: &Arc<Channel>, max: usize) -> Result<Taken, ChannelError> {
        let max = max.min(self.transaction_events_max());
        let in_memory = |events: Vec<Event>| (Held::Memory, events);
        let on_disk = |taken: Vec<(_, Event)>| {
            let (offsets, events) = taken.into_iter().unzip();
            (Held::Disk { offsets }, events)
        };
        let (held, events) = match &self.queue {
            Queue::Memory(memory) => in_memory(memory.take(max)),
            Queue::File(file) => on_disk(file.take(max)?),
            Queue::Spillable(spillable) => match spillable.take(max)? {
                SpillableTake::Memory(events) => in_memory(events),
                SpillableTake::Disk(events) => on_disk(events),
            },
            Queue::Topic(topic) => {
                let (take, events) = topic.take(max);
                (Held::Topic(take), events)
            }
        };
        self.count_unreadable();
        Ok(Taken::new(Arc::clone(self), events, held))
    }

    /// Counts what a take found to be lost on the disk.
    fn count_unreadable(&self) {
        let lost = match &self.queue {
            Queue::File(file) => file.take_lost(),
            Queue::Spillable(spillable) => spillable.take_lost(),
            Queue::Memory(_) | Queue::Topic(_) => 0,
        };
        if lost > 0 {
            self.counters.lost.add(usize::try_from(lost).unwrap_or(usize::MAX));
            self.ages().take(lost);
        }
    }

    /// Closes its files. Returns how many events are lost by that, which are counted, too.
    pub(crate) async fn close(&self) -> u64 {
        let lost = self.close_queue().await;
        self.counters.lost.add(usize::try_from(lost).unwrap_or(usize::MAX));
        if lost > 0 {
            tracing::error!(
                channel = self.name,
                events = lost,
                "events in memory are lost: no sink has taken them"
            );
        }
        lost
    }

    async fn close_queue(&self) -> u64 {
        match &self.queue {
            Queue::Memory(memory) => memory.room.forget(),
            Queue::File(file) => {
                file.close().await;
                0
            }
            Queue::Spillable(spillable) => spillable.close().await,
            Queue::Topic(topic) => {
                topic.close().await;
                0
            }
        }
    }
}

impl Reservation {
    /// Puts the events that the room was reserved for. In memory it does not fail. A put that has begun ends, also
    /// when its caller does not wait for it any more.
    pub(crate) async fn put(self, events: Vec<Event>) -> Result<(), ChannelError> {
        if !self.is_durable() {
            return self.put_now(events).await;
        }
        let channel = self.channel.name.clone();
        let put = tokio::spawn(self.put_now(events));
        put.await.unwrap_or_else(|error| {
            Err(ChannelError::Storage { channel, reason: error.to_string() })
        })
    }

    async fn put_now(self, events: Vec<Event>) -> Result<(), ChannelError> {
        let Reservation { channel, claimed } = self;
        let count = events.len();
        let claim = match (&channel.queue, claimed) {
            (Queue::Spillable(spillable), Claimed::Spillable(SpillableClaim { side, claim })) => {
                spillable.put(side, events).await?;
                Some(claim)
            }
            (Queue::File(file), Claimed::Room(claim)) => {
                file.put(events).await?;
                Some(claim)
            }
            (Queue::Memory(memory), Claimed::Room(claim)) => {
                memory.put(events);
                Some(claim)
            }
            (Queue::Topic(topic), Claimed::Nothing) => {
                topic.put(&events).await?;
                None
            }
            _ => unreachable!("a claim is of its channel's kind"),
        };
        if let Some(claim) = claim {
            claim.keep();
        }
        channel.ages().put(count as u64);
        channel.counters.put_successes.add(count);
        channel.arrived.notify_waiters();
        Ok(())
    }

    pub(crate) fn is_durable(&self) -> bool {
        self.channel.is_durable()
    }
}
