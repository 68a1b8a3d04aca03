//! The memory that all groups of a broker share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use tracing::warn;

/// Counts what the groups of all shards take, against a limit.
///
/// What would make them take more is refused beyond it with COORDINATOR_LOAD_IN_PROGRESS (at a SyncGroup with
/// REBALANCE_IN_PROGRESS), which all clients take as a reason to try again later: it is nothing that the client has
/// done wrong, and it passes when other groups go. What takes no more than before is never refused, so groups that
/// are there go on. Nor is what a log holds: a shard that is loaded may exceed the limit.
#[derive(Debug, Clone)]
pub struct GroupMemory(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    limit_bytes: usize,
    used_bytes: AtomicUsize,
    refusals: AtomicU64,
    /// Whether somebody was refused since there was room; said once.
    is_full: AtomicBool,
}

impl GroupMemory {
    /// Memory of so many bytes, none of which is used.
    pub fn new(limit_bytes: usize) -> GroupMemory {
        GroupMemory(Arc::new(Inner {
            limit_bytes,
            used_bytes: AtomicUsize::new(0),
            refusals: AtomicU64::new(0),
            is_full: AtomicBool::new(false),
        }))
    }

    /// What groups take now, in bytes.
    pub fn used_bytes(&self) -> usize {
        self.0.used_bytes.load(Ordering::Relaxed)
    }

    /// What they may take.
    pub fn limit_bytes(&self) -> usize {
        self.0.limit_bytes
    }

    /// How often something was refused.
    pub fn refusals(&self) -> u64 {
        self.0.refusals.load(Ordering::Relaxed)
    }

    /// Whether groups may take so much more.
    pub(crate) fn has_room_for(&self, growth_bytes: usize) -> bool {
        let has_room = growth_bytes == 0
            || self.used_bytes().saturating_add(growth_bytes) <= self.0.limit_bytes;
        if !has_room {
            self.0.refusals.fetch_add(1, Ordering::Relaxed);
            if !self.0.is_full.swap(true, Ordering::Relaxed) {
                let (used_bytes, limit_bytes) = (self.used_bytes(), self.0.limit_bytes);
                warn!(
                    used_bytes,
                    limit_bytes, "no memory is left for more members or offsets of groups"
                );
            }
        }
        has_room
    }

    /// Counts bytes until the result is dropped.
    pub(crate) fn hold(&self, bytes: usize) -> HeldMemory {
        let mut held = HeldMemory { memory: self.clone(), bytes: 0 };
        held.set(bytes);
        held
    }
}

/// Bytes that are counted for as long as this lives.
#[derive(Debug)]
pub(crate) struct HeldMemory {
    memory: GroupMemory,
    bytes: usize,
}

impl HeldMemory {
    /// It is so many now.
    pub(crate) fn set(&mut self, bytes: usize) {
        let inner = &self.memory.0;
        if bytes > self.bytes {
            inner.used_bytes.fetch_add(bytes - self.bytes, Ordering::Relaxed);
        } else if bytes < self.bytes {
            inner.used_bytes.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
            inner.is_full.store(false, Ordering::Relaxed);
        }
        self.bytes = bytes;
    }

    pub(crate) fn grow(&mut self, bytes: usize) {
        self.set(self.bytes + bytes);
    }
}

impl Drop for HeldMemory {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_counts_until_it_is_dropped() {
        let memory = GroupMemory::new(100);
        let mut held = memory.hold(60);
        assert!(memory.has_room_for(40) && !memory.has_room_for(41));
        held.set(10);
        held.grow(5);
        assert_eq!((memory.used_bytes(), memory.refusals()), (15, 1));
        let over = memory.hold(200);
        assert!(memory.has_room_for(0), "what takes no more is never refused");
        drop((held, over));
        assert_eq!(memory.used_bytes(), 0);
    }
}
