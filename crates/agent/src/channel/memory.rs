//! A channel in memory: fast, bounded, and gone with the process.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::room::Room;
use crate::declaration::{Declaration, Fallback, Kind, Role, key};
use crate::event::Event;

pub(crate) const DECLARATION: Declaration = Declaration {
    role: Role::Channel,
    name: "memory",
    aliases: &["org.apache.flume.channel.MemoryChannel"],
    doc: "Events wait in memory. They are lost if the process is killed; an orderly end waits until sinks have \
          taken them. Headers count as bytes too, so there is no need for a buffer for them.",
    keys: &[
        key(
            "capacity",
            Kind::Number(1, i64::MAX, "events"),
            Fallback::Is("100"),
            "How many events it holds.",
        ),
        key(
            "byteCapacity",
            Kind::Number(1024, i64::MAX, "bytes"),
            Fallback::Is("134217728"),
            "How many bytes of bodies and headers it holds. Flume takes 80% of Java's heap.",
        ),
        key(
            "byteCapacityBufferPercentage",
            Kind::Ignored("headers are counted as they are"),
            Fallback::Nothing,
            "Flume's guess at what headers take.",
        ),
    ],
    shared: &[super::TRANSACTION, super::KEEP_ALIVE],
};

/// The events that wait, oldest first, and how many there may be.
#[derive(Debug)]
pub(super) struct MemoryQueue {
    pub(super) room: Arc<Room>,
    events: Mutex<VecDeque<Event>>,
}

impl MemoryQueue {
    pub(super) fn new(room: Arc<Room>) -> MemoryQueue {
        MemoryQueue { room, events: Mutex::default() }
    }

    fn events(&self) -> MutexGuard<'_, VecDeque<Event>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn put(&self, events: Vec<Event>) {
        self.events().extend(events);
    }

    pub(super) fn take(&self, max: usize) -> Vec<Event> {
        let mut events = self.events();
        let count = max.min(events.len());
        events.drain(..count).collect()
    }

    /// As [`MemoryQueue::take`], and no more bytes than so many; one event at least, if there is one.
    pub(super) fn take_within(&self, max: usize, bytes_max: u64) -> Vec<Event> {
        let mut events = self.events();
        let mut bytes = 0;
        let fits = |(index, event): &(usize, &Event)| {
            bytes += event.size_bytes() as u64;
            *index == 0 || bytes <= bytes_max
        };
        let count = events.iter().take(max).enumerate().take_while(fits).count();
        events.drain(..count).collect()
    }

    /// Back to where they were taken.
    pub(super) fn put_back(&self, taken: Vec<Event>) {
        let mut events = self.events();
        for event in taken.into_iter().rev() {
            events.push_front(event);
        }
    }
}

/// What events count against a bound in bytes.
pub(super) fn bytes_of(events: &[Event]) -> u64 {
    events.iter().map(|event| event.size_bytes() as u64).sum()
}
