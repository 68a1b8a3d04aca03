//! An offset of a partition that rises, and those who wait for that, in the order of what they wait for: the high
//! watermark, and of a leader with followers the log end.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use logway_model::Offset;
use tokio::sync::{Notify, oneshot};

/// Nobody waits.
const NOBODY: i64 = i64::MAX;

/// An offset that rises while the replica has one role.
///
/// Readers load it without a lock. It is raised by whoever holds the replica's role, so that it never
/// goes back. A rise wakes those whom it reaches, and no others.
#[derive(Debug)]
pub struct RisingOffset {
    value: AtomicI64,
    /// The least offset that somebody waits for. It spares the writer thread the lock.
    next_wanted: AtomicI64,
    waits: Mutex<Waits>,
}

/// Who waits, by the offset that the watermark has to come to.
#[derive(Debug, Default)]
struct Waits {
    by_offset: BTreeMap<WaitKey, Waiter>,
    last_number: u64,
}

/// A wait's place in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WaitKey {
    wanted: Offset,
    /// Tells waits for the same offset apart; the earlier one is first.
    number: u64,
}

enum Waiter {
    /// Looks again when it is woken.
    Reader(Arc<Notify>),
    /// The same, with something to be done for it first.
    Call(Box<dyn FnOnce() + Send>),
    /// An append that is committed then. Dropped, it never will be in this leader epoch.
    Append(oneshot::Sender<()>),
}

impl Waiter {
    fn reached(self) {
        match self {
            Waiter::Reader(notify) => notify.notify_one(),
            Waiter::Call(call) => call(),
            // Its client may have gone.
            Waiter::Append(committed) => _ = committed.send(()),
        }
    }
}

impl fmt::Debug for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Waiter::Reader(_) | Waiter::Call(_) => "Reader",
            Waiter::Append(_) => "Append",
        })
    }
}

impl RisingOffset {
    /// One that starts at `offset`.
    pub fn new(offset: Offset) -> RisingOffset {
        RisingOffset {
            value: AtomicI64::new(offset.0),
            next_wanted: AtomicI64::new(NOBODY),
            waits: Mutex::default(),
        }
    }

    /// Where it stands.
    pub fn get(&self) -> Offset {
        Offset(self.value.load(Ordering::SeqCst))
    }

    /// Raises it and wakes those who wait for that.
    pub fn raise(&self, offset: Offset) {
        debug_assert!(offset >= self.get(), "an offset that rises went back");
        self.value.store(offset.0, Ordering::SeqCst);
        if offset.0 < self.next_wanted.load(Ordering::SeqCst) {
            return;
        }
        let reached = {
            let mut waits = self.waits();
            let first_behind = WaitKey { wanted: offset.next(), number: 0 };
            let behind = waits.by_offset.split_off(&first_behind);
            let reached = std::mem::replace(&mut waits.by_offset, behind);
            self.note_next(&waits);
            reached
        };
        reached.into_values().for_each(Waiter::reached);
    }

    /// Takes it back, with a new role or a log whose end was cut off. Those who wait go on to.
    pub(crate) fn reset(&self, offset: Offset) {
        self.value.store(offset.0, Ordering::SeqCst);
    }

    /// Asks to be notified when the watermark has passed `beyond`. Look at [`RisingOffset::get`]
    /// *after* this, so that no change falls in between.
    pub fn subscribe(&self, beyond: Offset, reader: &Arc<Notify>) -> WaitKey {
        self.add(&mut self.waits(), beyond.next(), Waiter::Reader(Arc::clone(reader)))
    }

    /// Has something done when the watermark has passed `beyond`, or its waits end. It must be quick and take no
    /// replica's lock: who raises the offset does it. Look as after [`RisingOffset::subscribe`].
    pub(crate) fn call(&self, beyond: Offset, call: impl FnOnce() + Send + 'static) -> WaitKey {
        self.add(&mut self.waits(), beyond.next(), Waiter::Call(Box::new(call)))
    }

    /// Takes a subscription back, so that waits that end in a timeout leave nothing behind.
    pub fn unsubscribe(&self, key: WaitKey) {
        let mut waits = self.waits();
        if waits.by_offset.remove(&key).is_some() {
            self.note_next(&waits);
        }
    }

    /// Is told when everything before `end` is committed; `None` if it is. The sender is dropped when
    /// the leader epoch ends before.
    pub(crate) fn when_committed(&self, end: Offset) -> Option<oneshot::Receiver<()>> {
        if self.get() >= end {
            return None;
        }
        let (committed, receiver) = oneshot::channel();
        let mut waits = self.waits();
        let key = self.add(&mut waits, end, Waiter::Append(committed));
        // It may have been raised before this wait was to be seen.
        if self.get() < end {
            return Some(receiver);
        }
        waits.by_offset.remove(&key);
        self.note_next(&waits);
        None
    }

    /// Ends all waits: the replica has another role, or is no more. Readers look again, and appends that are not
    /// committed will not be told that they are.
    pub fn end_waits(&self) {
        let ended = {
            let mut waits = self.waits();
            let ended = std::mem::take(&mut waits.by_offset);
            self.note_next(&waits);
            ended
        };
        for waiter in ended.into_values() {
            match waiter {
                Waiter::Reader(_) | Waiter::Call(_) => waiter.reached(),
                Waiter::Append(committed) => drop(committed),
            }
        }
    }

    fn add(&self, waits: &mut Waits, wanted: Offset, waiter: Waiter) -> WaitKey {
        waits.last_number += 1;
        let key = WaitKey { wanted, number: waits.last_number };
        waits.by_offset.insert(key, waiter);
        self.note_next(waits);
        key
    }

    fn note_next(&self, waits: &Waits) {
        let next = waits.by_offset.first_key_value().map_or(NOBODY, |(key, _)| key.wanted.0);
        self.next_wanted.store(next, Ordering::SeqCst);
    }

    fn waits(&self) -> MutexGuard<'_, Waits> {
        // What it guards is right after each step.
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use tokio::sync::oneshot::error::TryRecvError;

    use super::*;

    fn is_empty(watermark: &RisingOffset) -> bool {
        watermark.waits().by_offset.is_empty()
            && watermark.next_wanted.load(Ordering::SeqCst) == NOBODY
    }

    #[tokio::test]
    async fn a_rise_wakes_whom_it_reaches_once_and_no_other() {
        let watermark = RisingOffset::new(Offset(5));
        let (near, far) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        watermark.subscribe(Offset(5), &near);
        let far_key = watermark.subscribe(Offset(7), &far);
        let mut committed = watermark.when_committed(Offset(8)).expect("is not committed");
        watermark.raise(Offset(6));
        near.notified().await;
        watermark.raise(Offset(7));
        assert_eq!(committed.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(watermark.waits().by_offset.len(), 2, "neither is woken before its time");
        watermark.raise(Offset(8));
        far.notified().await;
        committed.await.expect("is committed");
        assert!(is_empty(&watermark) && watermark.when_committed(Offset(8)).is_none());
        watermark.unsubscribe(far_key);
    }

    #[test]
    fn a_wait_that_ends_leaves_nothing_behind() {
        let watermark = RisingOffset::new(Offset(0));
        let (one, other) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let key = watermark.subscribe(Offset(0), &one);
        let other_key = watermark.subscribe(Offset(0), &other);
        watermark.unsubscribe(key);
        assert_eq!(watermark.waits().by_offset.len(), 1);
        watermark.unsubscribe(other_key);
        assert!(is_empty(&watermark));
    }

    #[tokio::test]
    async fn when_an_epoch_ends_readers_look_again_and_appends_are_not_committed() {
        let watermark = RisingOffset::new(Offset(0));
        let reader = Arc::new(Notify::new());
        watermark.subscribe(Offset(0), &reader);
        let committed = watermark.when_committed(Offset(3)).expect("is not committed");
        watermark.end_waits();
        reader.notified().await;
        assert!(committed.await.is_err());
        assert!(is_empty(&watermark));
    }

    /// Whether the two meet in a bad moment is up to chance, so there are many moments.
    #[test]
    fn no_rise_passes_by_one_who_begins_to_wait() {
        const RISES: i64 = 50_000;
        let watermark = RisingOffset::new(Offset(0));
        thread::scope(|scope| {
            scope.spawn(|| (1..=RISES).for_each(|offset| watermark.raise(Offset(offset))));
            for end in (1..=RISES).step_by(7) {
                if let Some(committed) = watermark.when_committed(Offset(end)) {
                    committed.blocking_recv().expect("it comes");
                }
            }
        });
        assert!(is_empty(&watermark));
    }
}
