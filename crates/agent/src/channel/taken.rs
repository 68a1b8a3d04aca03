//! A take that has not come to its end.

use std::sync::Arc;

use logway_model::Offset;

use super::file::FileQueue;
use super::spillable::{Side, SpillableTake, room_of};
use super::topic::{TopicQueue, TopicTake};
use super::{Channel, Queue};
use crate::error::ChannelError;
use crate::event::Event;

/// Events that were taken and not committed. Dropped, they are next again.
#[derive(Debug)]
pub(crate) struct Taken {
    channel: Arc<Channel>,
    pub(crate) events: Vec<Event>,
    held: Held,
}

/// Where the events are from, and what they hold there.
#[derive(Debug)]
pub(super) enum Held {
    Memory { bytes: u64 },
    Disk { offsets: Vec<Offset> },
    Topic(TopicTake),
}

impl Taken {
    pub(super) fn new(channel: Arc<Channel>, events: Vec<Event>, held: Held) -> Taken {
        Taken { channel, events, held }
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
        match &self.held {
            Held::Memory { bytes } => self.give_back(count, *bytes),
            Held::Disk { offsets } => {
                self.file().commit(offsets);
                self.give_back(count, 0);
            }
            Held::Topic(_) => self.count(count),
        }
        Ok(())
    }

    /// Commits one of the events, which is dealt with in another way than the rest.
    pub(crate) fn commit_one(&mut self, index: usize) -> Event {
        let event = self.events.remove(index);
        let freed = match &mut self.held {
            Held::Memory { bytes } => {
                let freed = event.size_bytes() as u64;
                *bytes -= freed;
                freed
            }
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
            Held::Memory { .. } => None,
            Held::Disk { offsets } => Some(self.file().event_id(offsets[index])),
            Held::Topic(take) => Some(self.topic().event_id(take, index, &self.events[index])),
        }
    }

    fn give_back(&self, events: u64, bytes: u64) {
        let side = match &self.held {
            Held::Memory { .. } => Side::Memory,
            Held::Disk { .. } | Held::Topic(_) => Side::Disk,
        };
        let room = match &self.channel.queue {
            Queue::Memory(memory) => &memory.room,
            Queue::File(file) => &file.room,
            Queue::Spillable(spillable) => room_of(spillable, side),
            Queue::Topic(_) => unreachable!("a topic has no room to give back"),
        };
        room.give_back(events, bytes);
        self.count(events);
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
            Held::Memory { .. } => SpillableTake::Memory(events),
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
