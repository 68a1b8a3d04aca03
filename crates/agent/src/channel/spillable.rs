//! A channel in memory that overflows into files.
//!
//! A transaction goes into memory as a whole, or into the file channel's log if memory has no room for it. Which of
//! them has the next events is written down as *runs*, so that events are taken in the order in which they were put.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use logway_model::Offset;

use super::file::{FILES, FileQueue, TRANSACTION_BYTES_MAX};
use super::memory::{MemoryQueue, bytes_of};
use super::room::{Claim, Room};
use crate::declaration::{Declaration, Fallback, Kind, Role, key};
use crate::error::{ChannelError, StartError};
use crate::event::Event;
use crate::settings::Settings;

pub(crate) const DECLARATION: Declaration = Declaration {
    role: Role::Channel,
    name: "spillablememory",
    aliases: &["org.apache.flume.channel.SpillableMemoryChannel"],
    doc: "Events wait in memory, and on disk if memory is full. A kill loses what is in memory and keeps what is on disk; \
          an orderly end moves what is in memory to the disk, unless there is no overflow.",
    keys: &[
        key(
            "memoryCapacity",
            Kind::Number(0, i64::MAX, "events"),
            Fallback::Is("10000"),
            "How many events it holds in memory; 0 for none.",
        ),
        key(
            "overflowCapacity",
            Kind::Number(0, i64::MAX, "events"),
            Fallback::Is("100000000"),
            "How many events it holds on disk; 0 for none: then it is a channel in memory.",
        ),
        key(
            "overflowTimeout",
            Kind::Number(0, 86400, "s"),
            Fallback::Is("3"),
            "How long a put waits for room in memory before it goes to the disk. As long as something is on disk, no put waits.",
        ),
        key(
            "byteCapacity",
            Kind::Number(1024, i64::MAX, "bytes"),
            Fallback::Is("134217728"),
            "How many bytes of bodies and headers it holds in memory. Flume takes 80% of Java's heap.",
        ),
        key(
            "byteCapacityBufferPercentage",
            Kind::Ignored("headers are counted as they are"),
            Fallback::Nothing,
            "Flume's guess at what headers take.",
        ),
        key(
            "avgEventSize",
            Kind::Ignored("events are measured"),
            Fallback::Nothing,
            "Flume's guess at an event's size.",
        ),
        key(
            "capacity",
            Kind::Ignored("memoryCapacity and overflowCapacity are its parts"),
            Fallback::Nothing,
            "The file channel's bound.",
        ),
        key(
            "keep-alive",
            Kind::Ignored("overflowTimeout says how long a put waits"),
            Fallback::Nothing,
            "The file channel's patience.",
        ),
    ],
    shared: &[FILES, super::TRANSACTION],
};

/// How many events an orderly end moves to the disk in one batch.
const MOVED_AT_ONCE: usize = 1000;

/// Which of the two has events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Memory,
    Disk,
}

/// Room on one of the sides.
#[derive(Debug)]
pub(super) struct SpillableClaim {
    pub(super) side: Side,
    pub(super) claim: Claim,
}

/// What was taken: from one of the sides alone.
pub(super) enum SpillableTake {
    Memory(Vec<Event>),
    Disk(Vec<(Offset, Event)>),
}

/// Two queues, and the order of what is in them.
#[derive(Debug)]
pub(super) struct SpillableQueue {
    pub(super) memory: MemoryQueue,
    /// `None` if it may not overflow.
    pub(super) disk: Option<FileQueue>,
    overflow_timeout: Duration,
    /// How many events come from where, the next first. Neighbours differ in their side.
    runs: Mutex<VecDeque<(Side, usize)>>,
    /// Events on disk that could not be read, and that nobody has counted yet.
    lost: AtomicU64,
}

impl SpillableQueue {
    pub(super) async fn open(settings: &Settings) -> Result<SpillableQueue, StartError> {
        let (memory_max, disk_max) =
            (settings.number("memoryCapacity"), settings.number("overflowCapacity"));
        if memory_max == 0 && disk_max == 0 {
            return Err("memoryCapacity and overflowCapacity are both 0".to_owned());
        }
        let memory = Room::new(&settings.name, memory_max, settings.number("byteCapacity"));
        let disk = match disk_max {
            0 => None,
            _ => Some(FileQueue::open(settings, disk_max).await?),
        };
        let found = disk.as_ref().map_or(0, |disk| disk.room.events());
        let found = usize::try_from(found).unwrap_or(usize::MAX);
        let runs = (found > 0).then_some((Side::Disk, found));
        Ok(SpillableQueue {
            memory: MemoryQueue::new(memory),
            disk,
            overflow_timeout: settings.seconds("overflowTimeout"),
            runs: Mutex::new(VecDeque::from_iter(runs)),
            lost: AtomicU64::new(0),
        })
    }

    fn runs(&self) -> MutexGuard<'_, VecDeque<(Side, usize)>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_overflow(&self) -> bool {
        self.runs().iter().any(|(side, _)| *side == Side::Disk)
    }

    /// Claims room in memory, or else on disk, where a put does not wait: memory was waited for.
    pub(super) async fn claim(
        &self,
        events: &[Event],
        waits: bool,
    ) -> Result<SpillableClaim, ChannelError> {
        let (count, bytes) = (events.len() as u64, bytes_of(events));
        let room = &self.memory.room;
        let patience = if waits { self.overflow_timeout } else { Duration::ZERO };
        let Some(disk) = &self.disk else {
            let claim = room.claim(count, bytes, patience).await?;
            return Ok(SpillableClaim { side: Side::Memory, claim });
        };
        if room.could_hold(count, bytes) {
            let is_full = self.has_overflow();
            let patience = if is_full { Duration::ZERO } else { patience };
            if let Ok(claim) = room.claim(count, bytes, patience).await {
                return Ok(SpillableClaim { side: Side::Memory, claim });
            }
        }
        let claim = disk.claim(events, Duration::ZERO).await?;
        Ok(SpillableClaim { side: Side::Disk, claim })
    }

    /// Puts events where room was claimed.
    pub(super) async fn put(&self, side: Side, events: Vec<Event>) -> Result<(), ChannelError> {
        let count = events.len();
        match side {
            Side::Memory => self.memory.put(events),
            Side::Disk => self.disk().put(events).await?,
        }
        let mut runs = self.runs();
        match runs.back_mut() {
            Some((last, length)) if *last == side => *length += count,
            _ => runs.push_back((side, count)),
        }
        Ok(())
    }

    /// Takes what is next, from one side.
    pub(super) fn take(&self, max: usize) -> Result<SpillableTake, ChannelError> {
        let mut runs = self.runs();
        loop {
            if let Some(taken) = self.take_of(&mut runs, max)? {
                return Ok(taken);
            }
        }
    }

    /// Takes what is next from this side; `None` if what is next is on the other one.
    pub(super) fn take_from(
        &self,
        side: Side,
        max: usize,
    ) -> Result<Option<SpillableTake>, ChannelError> {
        let mut runs = self.runs();
        loop {
            if runs.front().is_some_and(|(next, _)| *next != side) {
                return Ok(None);
            }
            if let Some(taken) = self.take_of(&mut runs, max)? {
                return Ok(Some(taken));
            }
        }
    }

    /// Takes of the first run; `None` if some of it was lost, so that another may be the first.
    fn take_of(
        &self,
        runs: &mut VecDeque<(Side, usize)>,
        max: usize,
    ) -> Result<Option<SpillableTake>, ChannelError> {
        let Some(&(side, length)) = runs.front() else {
            return Ok(Some(SpillableTake::Memory(Vec::new())));
        };
        let max = max.min(length);
        let taken = match side {
            Side::Memory => SpillableTake::Memory(self.memory.take(max)),
            Side::Disk => {
                let taken = self.disk().take(max)?;
                let lost = self.disk().take_lost();
                if lost > 0 {
                    self.disk().put_back(taken);
                    self.lost.fetch_add(lost, Ordering::Relaxed);
                    leave_out_of_disk(runs, usize::try_from(lost).unwrap_or(usize::MAX));
                    return Ok(None);
                }
                SpillableTake::Disk(taken)
            }
        };
        let count = match &taken {
            SpillableTake::Memory(events) => events.len(),
            SpillableTake::Disk(events) => events.len(),
        };
        match length - count {
            0 => drop(runs.pop_front()),
            left => runs[0].1 = left,
        }
        Ok(Some(taken))
    }

    /// How many events on disk were lost since this was last asked.
    pub(super) fn take_lost(&self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }

    /// What was taken is next again.
    pub(super) fn put_back(&self, taken: SpillableTake) {
        let mut runs = self.runs();
        let (side, count) = match taken {
            SpillableTake::Memory(events) => {
                let count = events.len();
                self.memory.put_back(events);
                (Side::Memory, count)
            }
            SpillableTake::Disk(events) => {
                let count = events.len();
                self.disk().put_back(events);
                (Side::Disk, count)
            }
        };
        match runs.front_mut() {
            Some((first, length)) if *first == side => *length += count,
            _ => runs.push_front((side, count)),
        }
    }

    /// The queue on disk, of what is known to be there.
    pub(super) fn disk(&self) -> &FileQueue {
        self.disk.as_ref().expect("events were put there")
    }

    pub(super) fn len(&self) -> u64 {
        self.memory.room.events() + self.len_on_disk()
    }

    pub(super) fn len_on_disk(&self) -> u64 {
        self.disk.as_ref().map_or(0, |disk| disk.room.events())
    }

    pub(super) fn capacity(&self) -> u64 {
        let disk = self.disk.as_ref().map_or(0, |disk| disk.room.events_max());
        self.memory.room.events_max().saturating_add(disk)
    }

    /// Moves what is in memory to the disk, and closes the files. What has no room there is lost: how much.
    pub(super) async fn close(&self) -> u64 {
        if let Some(disk) = &self.disk {
            self.move_to(disk).await;
            disk.close().await;
        }
        self.memory.room.forget()
    }

    /// Moves as many of the events in memory as there is room for, the oldest first. An event that no file takes is
    /// left out. What is not moved keeps its room.
    async fn move_to(&self, disk: &FileQueue) {
        let mut max = MOVED_AT_ONCE;
        loop {
            let events = self.memory.take_within(max, TRANSACTION_BYTES_MAX);
            if events.is_empty() {
                return;
            }
            let (count, bytes) = (events.len(), bytes_of(&events));
            let moved = async {
                let claim = disk.claim(&events, Duration::ZERO).await?;
                disk.put(events.clone()).await?;
                claim.keep();
                Ok::<(), ChannelError>(())
            };
            match moved.await {
                Ok(()) => self.memory.room.give_back(count as u64, bytes),
                // There may be room for some of them.
                Err(ChannelError::Full { .. }) if count > 1 => {
                    self.memory.put_back(events);
                    max = count / 2;
                }
                Err(error) if error.is_final() && count == 1 => {
                    tracing::error!(%error, "an event in memory cannot be moved to the disk");
                }
                Err(error) => {
                    tracing::error!(%error, "what is in memory cannot be moved to the disk");
                    return self.memory.put_back(events);
                }
            }
        }
    }
}

/// Takes events out of the runs that were the next on disk.
fn leave_out_of_disk(runs: &mut VecDeque<(Side, usize)>, mut count: usize) {
    for (side, length) in std::mem::take(runs) {
        let left_out = if side == Side::Disk { count.min(length) } else { 0 };
        count -= left_out;
        match runs.back_mut() {
            _ if left_out == length => {}
            Some((last, joined)) if *last == side => *joined += length - left_out,
            _ => runs.push_back((side, length - left_out)),
        }
    }
}

/// Room that is given back when what was taken is committed.
pub(super) fn room_of(queue: &SpillableQueue, side: Side) -> &Arc<Room> {
    match side {
        Side::Memory => &queue.memory.room,
        Side::Disk => &queue.disk().room,
    }
}
