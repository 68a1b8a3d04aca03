//! How much a channel holds: what waits in it, what a put has claimed, and what a take has not committed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::error::ChannelError;

/// The bounds of a channel, and how much of them is taken. It never holds more than its bounds, but for what
/// was in a durable channel before they were lowered.
#[derive(Debug)]
pub(crate) struct Room {
    channel: String,
    events_max: u64,
    bytes_max: u64,
    used: Mutex<Used>,
    freed: Notify,
}

#[derive(Debug, Default, Clone, Copy)]
struct Used {
    events: u64,
    bytes: u64,
}

/// A right to put so much. Dropped, it is given back, unless it was kept.
#[derive(Debug)]
pub(crate) struct Claim {
    room: Arc<Room>,
    events: u64,
    bytes: u64,
}

impl Room {
    pub(crate) fn new(channel: &str, events_max: u64, bytes_max: u64) -> Arc<Room> {
        let (used, freed) = (Mutex::default(), Notify::new());
        Arc::new(Room { channel: channel.to_owned(), events_max, bytes_max, used, freed })
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for room, as long as `patience`.
    pub(crate) async fn claim(
        self: &Arc<Room>,
        events: u64,
        bytes: u64,
        patience: Duration,
    ) -> Result<Claim, ChannelError> {
        if bytes > self.bytes_max {
            let (channel, bound) = (self.channel.clone(), self.bytes_max);
            return Err(ChannelError::TooLarge { channel, found: bytes, bound, unit: "bytes" });
        }
        let until = Instant::now() + patience;
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            let full = match self.try_claim(events, bytes) {
                Ok(claim) => return Ok(claim),
                Err(full) => full,
            };
            if timeout_at(until, freed).await.is_err() {
                return Err(full);
            }
        }
    }

    fn try_claim(self: &Arc<Room>, events: u64, bytes: u64) -> Result<Claim, ChannelError> {
        let mut used = self.used();
        let channel = || self.channel.clone();
        if used.events + events > self.events_max {
            let (held, bound) = (used.events, self.events_max);
            return Err(ChannelError::Full { channel: channel(), held, bound, unit: "events" });
        }
        if used.bytes + bytes > self.bytes_max {
            let (held, bound) = (used.bytes, self.bytes_max);
            return Err(ChannelError::Full { channel: channel(), held, bound, unit: "bytes" });
        }
        used.events += events;
        used.bytes += bytes;
        Ok(Claim { room: Arc::clone(self), events, bytes })
    }

    /// Whether it could hold so much if it were empty.
    pub(crate) fn could_hold(&self, events: u64, bytes: u64) -> bool {
        events <= self.events_max && bytes <= self.bytes_max
    }

    /// Whether so much is at least half of what it may hold.
    pub(crate) fn is_half(&self, events: u64, bytes: u64) -> bool {
        events >= self.events_max.div_ceil(2) || bytes >= self.bytes_max.div_ceil(2)
    }

    /// Notes what was there before this process.
    pub(crate) fn found(&self, events: u64, bytes: u64) {
        let mut used = self.used();
        used.events += events;
        used.bytes += bytes;
    }

    /// What was taken is gone for good.
    pub(crate) fn give_back(&self, events: u64, bytes: u64) {
        {
            let mut used = self.used();
            used.events = used.events.saturating_sub(events);
            used.bytes = used.bytes.saturating_sub(bytes);
        }
        self.freed.notify_waiters();
    }

    /// Nothing is held any more. Returns how many events were.
    pub(crate) fn forget(&self) -> u64 {
        std::mem::take(&mut *self.used()).events
    }

    /// How many events are held.
    pub(crate) fn events(&self) -> u64 {
        self.used().events
    }

    pub(crate) fn events_max(&self) -> u64 {
        self.events_max
    }
}

impl Claim {
    /// What was claimed is in the channel now.
    pub(crate) fn keep(mut self) {
        (self.events, self.bytes) = (0, 0);
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.events > 0 || self.bytes > 0 {
            self.room.give_back(self.events, self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_claim_waits_for_room_and_gives_up_with_what_is_missing() {
        let room = Room::new("c", 10, 100);
        let first = room.claim(8, 10, Duration::ZERO).await.expect("there is room");
        let full = room.claim(3, 1, Duration::from_secs(3)).await.expect_err("it is full");
        assert_eq!(full.to_string(), "channel c is full: 8 of 10 events");
        let full = room.claim(1, 95, Duration::ZERO).await.expect_err("it is full");
        assert!(full.to_string().contains("10 of 100 bytes"), "{full}");
        assert!(
            room.claim(1, 101, Duration::ZERO)
                .await
                .is_err_and(|e| e.to_string().contains("above"))
        );
        let waiting = tokio::spawn({
            let room = Arc::clone(&room);
            async move { room.claim(3, 1, Duration::from_secs(60)).await.map(Claim::keep) }
        });
        tokio::task::yield_now().await;
        drop(first);
        waiting.await.expect("no panic").expect("there is room now");
        assert_eq!(room.events(), 3);
    }
}
