//! A take that has not come to its end.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use logway_log::random_uuid;
use logway_model::{Offset, Uuid};

use super::file::FileQueue;
use super::memory::bytes_of;
use super::place::Place;
use super::room::Room;
use super::spillable::{Side, SpillableTake, room_of};
use super::topic::{TopicQueue, TopicTake};
use super::{Channel, Queue};
use crate::error::ChannelError;
use crate::event::Event;
use crate::interceptor::now_ms;

/// Events that were taken and not committed. Dropped, they are next again.
#[derive(Debug)]
pub(crate) struct Taken {
    channel: Arc<Channel>,
    pub(crate) events: Vec<Event>,
    held: Held,
    /// What the events count against bounds in bytes.
    bytes: u64,
    since: Instant,
    began_ms: i64,
    name: OnceLock<Uuid>,
}

/// What a take has got beyond what it had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum More {
    /// So many events.
    Events(usize),
    /// What is next can only be in another take.
    Never,
}

/// Where the events are from, and what they hold there.
#[derive(Debug)]
pub(super) enum Held {
    Memory,
    Disk { offsets: Vec<Offset> },
    Topic(TopicTake),
}

impl Taken {
    pub(super) fn new(channel: Arc<Channel>, events: Vec<Event>, held: Held) -> Taken {
        let bytes = bytes_of(&events);
        let (since, began_ms, name) = (Instant::now(), now_ms(), OnceLock::new());
        Taken { channel, events, held, bytes, since, began_ms, name }
    }

    /// What its events count against bounds in bytes.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.bytes
    }

    /// How long ago it began.
    pub(crate) fn age(&self) -> Duration {
        self.since.elapsed()
    }

    /// When it began, in milliseconds since 1970.
    pub(crate) fn began_ms(&self) -> i64 {
        self.began_ms
    }

    /// A name that no other take has.
    pub(crate) fn name(&self) -> Uuid {
        *self.name.get_or_init(random_uuid)
    }

    /// Whether it has at least half of what the channel may hold: sources may wait for its end.
    pub(crate) fn is_half_of_channel(&self) -> bool {
        self.room().is_some_and(|room| room.is_half(self.events.len() as u64, self.room_bytes()))
    }

    /// Whether it can still be committed, as far as is known here: another member may have its partitions now.
    pub(crate) fn is_current(&self) -> bool {
        match &self.held {
            Held::Topic(take) => self.topic().is_current(take),
            Held::Memory | Held::Disk { .. } => true,
        }
    }

    /// Takes more into it, at most so many events, perhaps nothing.
    ///
    /// # Errors
    ///
    /// It will not be committed any more, or the channel cannot be read.
    pub(super) fn take_more(&mut self, max: usize) -> Result<More, ChannelError> {
        let channel = Arc::clone(&self.channel);
        let more = match (&channel.queue, &mut self.held) {
            (Queue::Memory(memory), Held::Memory) => memory.take(max),
            (Queue::File(file), Held::Disk { offsets }) => unzipped(offsets, file.take(max)?),
            (Queue::Spillable(spillable), Held::Memory) => {
                match spillable.take_from(Side::Memory, max)? {
                    Some(SpillableTake::Memory(more)) => more,
                    _ => return Ok(More::Never),
                }
            }
            (Queue::Spillable(spillable), Held::Disk { offsets }) => {
                match spillable.take_from(Side::Disk, max)? {
                    Some(SpillableTake::Disk(more)) => unzipped(offsets, more),
                    // There is nothing at all.
                    Some(SpillableTake::Memory(none)) => none,
                    None => return Ok(More::Never),
                }
            }
            (Queue::Topic(topic), Held::Topic(take)) => {
                topic.take_more(take, max).ok_or_else(|| topic.changed())?
            }
            _ => unreachable!("what was taken is of its channel's kind"),
        };
        channel.count_unreadable();
        self.bytes += bytes_of(&more);
        let count = more.len();
        self.events.extend(more);
        Ok(More::Events(count))
    }

    /// The events are elsewhere, and done with here. Dropped before it returns, it may be that they come again.
    ///
    /// # Errors
    ///
    /// The channel cannot note it: the events come again, here or in another agent.
    pub(crate) async fn commit(mut self) -> Result<(), ChannelError> {
        if let Held::Topic(take) = &self.held {
            self.topic().commit(take).await?;
        }
        let count = std::mem::take(&mut self.events).len() as u64;
        if let Held::Disk { offsets } = &self.held {
            self.file().commit(offsets);
        }
        match &self.held {
            Held::Memory | Held::Disk { .. } => self.give_back(count, self.room_bytes()),
            Held::Topic(_) => self.count(count),
        }
        Ok(())
    }

    /// Commits one of the events, which is dealt with in another way than the rest.
    pub(crate) fn commit_one(&mut self, index: usize) -> Event {
        let event = self.events.remove(index);
        let event_bytes = event.size_bytes() as u64;
        self.bytes -= event_bytes;
        let freed = match &mut self.held {
            Held::Memory => event_bytes,
            Held::Disk { offsets } => {
                let offset = offsets.remove(index);
                self.file().commit(&[offset]);
                0
            }
            Held::Topic(take) => {
                // Its offset is committed together with the others'.
                take.remove(index);
                self.count(1);
                return event;
            }
        };
        self.give_back(1, freed);
        event
    }

    /// A name of one of the events that it keeps when it is taken again, unless it is in memory.
    pub(crate) fn event_id(&self, index: usize) -> Option<String> {
        match &self.held {
            Held::Memory => None,
            Held::Disk { offsets } => Some(self.file().event_id(offsets[index])),
            Held::Topic(take) => Some(self.topic().event_id(take, index, &self.events[index])),
        }
    }

    /// Where one of the events is in its topic, if the channel is one.
    pub(crate) fn place(&self, index: usize) -> Option<Place> {
        match &self.held {
            Held::Memory | Held::Disk { .. } => None,
            Held::Topic(take) => Some(take.place(index)),
        }
    }

    fn give_back(&self, events: u64, bytes: u64) {
        self.room().expect("a topic has no room to give back").give_back(events, bytes);
        self.count(events);
    }

    /// What it holds of its room's bytes: on disk nothing counts.
    fn room_bytes(&self) -> u64 {
        if matches!(self.held, Held::Memory) { self.bytes } else { 0 }
    }

    /// What it came from is bounded by; a topic is by nothing.
    fn room(&self) -> Option<&Arc<Room>> {
        let side = match &self.held {
            Held::Memory => Side::Memory,
            Held::Disk { .. } | Held::Topic(_) => Side::Disk,
        };
        match &self.channel.queue {
            Queue::Memory(memory) => Some(&memory.room),
            Queue::File(file) => Some(&file.room),
            Queue::Spillable(spillable) => Some(room_of(spillable, side)),
            Queue::Topic(_) => None,
        }
    }

    fn count(&self, events: u64) {
        self.channel.ages().take(events);
        self.channel.counters.take_successes.add(events as usize);
    }

    fn topic(&self) -> &TopicQueue {
        match &self.channel.queue {
            Queue::Topic(topic) => topic,
            _ => unreachable!("it was taken from a topic"),
        }
    }

    fn file(&self) -> &FileQueue {
        match &self.channel.queue {
            Queue::File(file) => file,
            Queue::Spillable(spillable) => spillable.disk(),
            Queue::Memory(_) | Queue::Topic(_) => unreachable!("nothing of it is on disk"),
        }
    }
}

/// Of events from a disk the events, when their offsets are noted.
fn unzipped(offsets: &mut Vec<Offset>, taken: Vec<(Offset, Event)>) -> Vec<Event> {
    let (more, events): (Vec<Offset>, Vec<Event>) = taken.into_iter().unzip();
    offsets.extend(more);
    events
}

impl Drop for Taken {
    fn drop(&mut self) {
        let events = std::mem::take(&mut self.events);
        if let Held::Topic(take) = &self.held {
            // Its partitions are free again, whatever became of its events. A take that has none wakes nobody:
            // or takes that find nothing would wake each other for ever.
            if !take.is_empty() {
                self.topic().end(take, events);
                self.channel.arrived.notify_waiters();
            }
            return;
        }
        if events.is_empty() {
            return;
        }
        let taken = match &mut self.held {
            Held::Memory => SpillableTake::Memory(events),
            Held::Disk { offsets } => SpillableTake::Disk(offsets.drain(..).zip(events).collect()),
            Held::Topic(_) => return,
        };
        match (&self.channel.queue, taken) {
            (Queue::Spillable(spillable), taken) => spillable.put_back(taken),
            (Queue::Memory(memory), SpillableTake::Memory(events)) => memory.put_back(events),
            (Queue::File(file), SpillableTake::Disk(events)) => file.put_back(events),
            _ => unreachable!("what was taken is of its channel's kind"),
        }
        self.channel.arrived.notify_waiters();
    }
}
