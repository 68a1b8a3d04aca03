//! The memory that all groups of a broker share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use tracing::warn;

/// Counts what the groups of all shards take, against a limit.
///
/// What would make them take more is refused beyond it with COORDINATOR_LOAD_IN_PROGRESS (at a SyncGroup with
/// REBALANCE_IN_PROGRESS), which all clients take as a reason to try again later: it is nothing that the client has
/// done wrong, and it passes when other groups go. An eighth is kept for groups that there are, whose members come
/// and go and whose assignments change: new groups and offsets are refused before that. What takes no more than
/// before is never refused. Nor is what a log holds: a shard that is loaded may exceed the limit.
#[derive(Debug, Clone)]
pub struct GroupMemory(Arc<Inner>);

/// The part of the memory that is kept for groups that there are.
const RESERVE_PART: usize = 8;

/// What memory is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Growth {
    /// A new group, or a partition of which a group has committed no offset before.
    New,
    /// Members and assignments of a group that there is, and longer texts of its offsets.
    OfGroup,
}

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

    /// Counts bytes until the result is dropped, if there is room for them.
    pub(crate) fn try_hold(&self, bytes: usize, growth: Growth) -> Option<HeldMemory> {
        let mut held = self.hold(0);
        held.try_grow(bytes, growth).then_some(held)
    }

    fn note_refusal(&self) {
        self.0.refusals.fetch_add(1, Ordering::Relaxed);
        if !self.0.is_full.swap(true, Ordering::Relaxed) {
            let (used_bytes, limit_bytes) = (self.used_bytes(), self.0.limit_bytes);
            warn!(
                used_bytes,
                limit_bytes, "no memory is left for more members or offsets of groups"
            );
        }
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

    /// Takes so many bytes more, if there is room for them; else nothing changes.
    pub(crate) fn try_grow(&mut self, bytes: usize, growth: Growth) -> bool {
        let inner = &self.memory.0;
        let limit_bytes = match growth {
            Growth::New => inner.limit_bytes - inner.limit_bytes / RESERVE_PART,
            Growth::OfGroup => inner.limit_bytes,
        };
        // In one step: the shards of other partitions take from it at the same time.
        let grown = |used: usize| used.checked_add(bytes).filter(|&used| used <= limit_bytes);
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        if bytes > 0 && inner.used_bytes.fetch_update(set, fetch, grown).is_err() {
            self.memory.note_refusal();
            return false;
        }
        self.bytes += bytes;
        true
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
        let mut held = memory.try_hold(60, Growth::OfGroup).expect("there is room");
        assert!(memory.try_hold(41, Growth::OfGroup).is_none());
        assert!(held.try_grow(40, Growth::OfGroup) && !held.try_grow(1, Growth::OfGroup));
        held.set(15);
        assert_eq!((memory.used_bytes(), memory.refusals()), (15, 2));
        let over = memory.hold(200);
        assert!(held.try_grow(0, Growth::New), "what takes no more is never refused");
        drop((held, over));
        assert_eq!(memory.used_bytes(), 0);
    }

    #[test]
    fn an_eighth_is_kept_for_groups_that_there_are() {
        let memory = GroupMemory::new(800);
        let _held = memory.try_hold(700, Growth::New).expect("there is room");
        assert!(memory.try_hold(1, Growth::New).is_none());
        assert!(memory.try_hold(100, Growth::OfGroup).is_some());
    }

    #[test]
    fn shards_that_take_at_the_same_time_take_no_more_than_there_is() {
        const THREADS: usize = 4;
        const EACH: usize = 100_000;
        let memory = GroupMemory::new(THREADS * EACH / 2);
        let take = |memory: GroupMemory| {
            let mut held = memory.hold(0);
            let taken = (0..EACH).filter(|_| held.try_grow(1, Growth::OfGroup)).count();
            (taken, held)
        };
        let threads: Vec<_> = (0..THREADS)
            .map(|_| (memory.clone(), take))
            .map(|(memory, take)| std::thread::spawn(move || take(memory)))
            .collect();
        let taken: Vec<_> =
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect();
        let sum: usize = taken.iter().map(|(taken, _)| taken).sum();
        assert_eq!((sum, memory.used_bytes()), (memory.limit_bytes(), memory.limit_bytes()));
    }
}
