//! Channels: where events wait between sources and sinks.
//!
//! A put is claimed first and made then, so that a source knows of all its channels that they have room before
//! any of them has its events. A take is committed by [`Taken::commit`]; dropped, its events are next again.

pub(crate) mod file;
pub(crate) mod memory;
mod room;

use std::sync::Arc;
use std::time::Duration;

use logway_model::Offset;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use self::file::FileQueue;
use self::memory::MemoryQueue;
use self::room::{Claim, Room};
use crate::counters::ChannelCounters;
use crate::declaration::{Fallback, Key, Kind, key};
use crate::error::{ChannelError, StartError};
use crate::event::Event;
use crate::settings::Settings;

/// What every channel can be told.
const SHARED: &[Key] = &[
    key(
        "transactionCapacity",
        Kind::Number(1, i64::MAX, "events"),
        Fallback::Nothing,
        "How many events a source puts, or a sink takes, in one transaction. 100 for a memory channel, 10000 for a file channel.",
    ),
    key(
        "keep-alive",
        Kind::Number(0, 86400, "s"),
        Fallback::Is("3"),
        "How long a put waits for room.",
    ),
];

/// What a channel takes in one transaction, unless it says otherwise.
pub(crate) fn transaction_default(kind: &str) -> u64 {
    if kind == "file" { 10_000 } else { 100 }
}

/// A channel that runs. It outlives the sources and sinks of one configuration.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) name: String,
    pub(crate) counters: ChannelCounters,
    transaction_events_max: u64,
    keep_alive: Duration,
    room: Arc<Room>,
    arrived: Notify,
    queue: Queue,
}

#[derive(Debug)]
enum Queue {
    Memory(MemoryQueue),
    File(Box<FileQueue>),
}

/// Room in a channel for some events.
#[derive(Debug)]
pub(crate) struct Reservation {
    channel: Arc<Channel>,
    claim: Claim,
}

/// Events that were taken and not committed.
#[derive(Debug)]
pub(crate) struct Taken {
    channel: Arc<Channel>,
    pub(crate) events: Vec<Event>,
    /// Of a durable channel: where each event is.
    offsets: Vec<Offset>,
    /// Of a channel in memory: what they hold of its room.
    bytes: u64,
}

impl Channel {
    pub(crate) async fn open(settings: &Settings) -> Result<Arc<Channel>, StartError> {
        let kind = settings.declaration.name;
        let queue = match kind {
            "file" => Queue::File(Box::new(FileQueue::open(settings).await?)),
            _ => Queue::Memory(MemoryQueue::default()),
        };
        let bytes_max = match &queue {
            Queue::Memory(_) => settings.number("byteCapacity"),
            // The disk bounds it.
            Queue::File(_) => i64::MAX as u64,
        };
        let room = Room::new(&settings.name, settings.number("capacity"), bytes_max);
        if let Queue::File(file) = &queue {
            room.found(file.len(), 0);
        }
        let bound =
            settings.limit("transactionCapacity").unwrap_or_else(|| transaction_default(kind));
        Ok(Arc::new(Channel {
            name: settings.name.clone(),
            counters: ChannelCounters::default(),
            transaction_events_max: bound,
            keep_alive: settings.seconds("keep-alive"),
            room,
            arrived: Notify::new(),
            queue,
        }))
    }

    /// Whether it keeps what it holds when the process ends.
    pub(crate) fn is_durable(&self) -> bool {
        matches!(self.queue, Queue::File(_))
    }

    pub(crate) fn transaction_events_max(&self) -> usize {
        usize::try_from(self.transaction_events_max).unwrap_or(usize::MAX)
    }

    /// How many events it holds, those included that are on their way in or out.
    pub(crate) fn len(&self) -> u64 {
        self.room.events()
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.room.events_max()
    }

    /// Makes sure of room for some events, waiting for it as long as the channel's keep-alive.
    pub(crate) async fn reserve(
        self: &Arc<Channel>,
        events: &[Event],
    ) -> Result<Reservation, ChannelError> {
        self.counters.put_attempts.add(events.len());
        let count = events.len() as u64;
        let too_large = |found, bound, unit| {
            Err(ChannelError::TooLarge { channel: self.name.clone(), found, bound, unit })
        };
        if count > self.transaction_events_max {
            return too_large(count, self.transaction_events_max, "events");
        }
        let bytes: u64 = events.iter().map(|event| event.size_bytes() as u64).sum();
        let claimed_bytes = match &self.queue {
            Queue::Memory(_) => bytes,
            Queue::File(file) => {
                if bytes > file::TRANSACTION_BYTES_MAX {
                    return too_large(bytes, file::TRANSACTION_BYTES_MAX, "bytes");
                }
                file.check_space()?;
                0
            }
        };
        let claim = self.room.claim(count, claimed_bytes, self.keep_alive).await?;
        Ok(Reservation { channel: Arc::clone(self), claim })
    }

    /// Takes events, at most so many; waits for the first as long as `patience`.
    pub(crate) async fn take(
        self: &Arc<Channel>,
        max: usize,
        patience: Duration,
    ) -> Result<Taken, ChannelError> {
        let until = Instant::now() + patience;
        loop {
            let arrived = self.arrived.notified();
            tokio::pin!(arrived);
            arrived.as_mut().enable();
            self.counters.take_attempts.add(1);
            let taken = self.try_take(max)?;
            if !taken.events.is_empty() || timeout_at(until, arrived).await.is_err() {
                return Ok(taken);
            }
        }
    }

    fn try_take(self: &Arc<Channel>, max: usize) -> Result<Taken, ChannelError> {
        let max = max.min(usize::try_from(self.transaction_events_max).unwrap_or(usize::MAX));
        let (offsets, events) = match &self.queue {
            Queue::Memory(memory) => (Vec::new(), memory.take(max)),
            Queue::File(file) => file.take(max)?.into_iter().unzip(),
        };
        let bytes = match &self.queue {
            Queue::Memory(_) => events.iter().map(|event| event.size_bytes() as u64).sum(),
            Queue::File(_) => 0,
        };
        Ok(Taken { channel: Arc::clone(self), events, offsets, bytes })
    }

    pub(crate) async fn close(&self) {
        if let Queue::File(file) = &self.queue {
            file.close().await;
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
        let Reservation { channel, claim } = self;
        let count = events.len();
        match &channel.queue {
            Queue::Memory(memory) => memory.put(events),
            Queue::File(file) => file.put(events).await?,
        }
        claim.keep();
        channel.counters.put_successes.add(count);
        channel.arrived.notify_waiters();
        Ok(())
    }

    pub(crate) fn is_durable(&self) -> bool {
        self.channel.is_durable()
    }
}

impl Taken {
    /// The events are elsewhere, and done with here.
    pub(crate) fn commit(mut self) {
        let events = std::mem::take(&mut self.events);
        let count = events.len() as u64;
        if let Queue::File(file) = &self.channel.queue {
            file.commit(&self.offsets);
        }
        self.channel.room.give_back(count, self.bytes);
        self.channel.counters.take_successes.add(events.len());
    }

    /// Commits one of the events, which is dealt with in another way than the rest.
    pub(crate) fn commit_one(&mut self, index: usize) -> Event {
        let event = self.events.remove(index);
        let bytes = match &self.channel.queue {
            Queue::Memory(_) => event.size_bytes() as u64,
            Queue::File(file) => {
                file.commit(&[self.offsets.remove(index)]);
                0
            }
        };
        self.bytes -= bytes;
        self.channel.room.give_back(1, bytes);
        self.channel.counters.take_successes.add(1);
        event
    }

    /// A name of one of the events that it keeps when it is taken again, if the channel is durable.
    pub(crate) fn event_id(&self, index: usize) -> Option<String> {
        match &self.channel.queue {
            Queue::Memory(_) => None,
            Queue::File(file) => Some(file.event_id(self.offsets[index])),
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let events = std::mem::take(&mut self.events);
        if events.is_empty() {
            return;
        }
        match &self.channel.queue {
            Queue::Memory(memory) => memory.put_back(events),
            Queue::File(file) => {
                file.put_back(self.offsets.drain(..).zip(events).collect());
            }
        }
        self.channel.arrived.notify_waiters();
    }
}
