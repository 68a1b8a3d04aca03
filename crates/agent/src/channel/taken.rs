//! A take that has not come to its end.

use std::sync::Arc;

use logway_model::Offset;

use super::file::FileQueue;
use super::spillable::{Side, SpillableTake, room_of};
use super::{Channel, Queue};
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
}

impl Taken {
    pub(super) fn new(channel: Arc<Channel>, events: Vec<Event>, held: Held) -> Taken {
        Taken { channel, events, held }
    }

    /// The events are elsewhere, and done with here.
    pub(crate) fn commit(mut self) {
        let events = std::mem::take(&mut self.events);
        let bytes = match &self.held {
            Held::Memory { bytes } => *bytes,
            Held::Disk { offsets } => {
                self.file().commit(offsets);
                0
            }
        };
        self.give_back(events.len() as u64, bytes);
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
        };
        self.give_back(1, freed);
        event
    }

    /// A name of one of the events that it keeps when it is taken again, if it is on disk.
    pub(crate) fn event_id(&self, index: usize) -> Option<String> {
        match &self.held {
            Held::Memory { .. } => None,
            Held::Disk { offsets } => Some(self.file().event_id(offsets[index])),
        }
    }

    fn give_back(&self, events: u64, bytes: u64) {
        let side = match &self.held {
            Held::Memory { .. } => Side::Memory,
            Held::Disk { .. } => Side::Disk,
        };
        let room = match &self.channel.queue {
            Queue::Memory(memory) => &memory.room,
            Queue::File(file) => &file.room,
            Queue::Spillable(spillable) => room_of(spillable, side),
        };
        room.give_back(events, bytes);
        self.channel.counters.take_successes.add(events as usize);
    }

    fn file(&self) -> &FileQueue {
        match &self.channel.queue {
            Queue::File(file) => file,
            Queue::Spillable(spillable) => spillable.disk(),
            Queue::Memory(_) => unreachable!("nothing of it is on disk"),
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let events = std::mem::take(&mut self.events);
        if events.is_empty() {
            return;
        }
        let taken = match &mut self.held {
            Held::Memory { .. } => SpillableTake::Memory(events),
            Held::Disk { offsets } => {
                SpillableTake::Disk(offsets.drain(..).zip(events).collect())
            }
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
