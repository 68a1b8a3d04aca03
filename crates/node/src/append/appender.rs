//! One source of appends: a connection, or whoever else hands batches over one after the other.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use logway_log::InlineRound;
use tokio::task::yield_now;

use super::rounds::UnderWay;

/// Hands over the batches of one client, in their order.
///
/// Small appends may be left in it, to be written together by the thread that has received them. Its
/// owner runs in [`Appender::drive`], which writes them whenever the owner waits, and calls
/// [`Appender::flush`] before it waits without giving the thread up. Dropped, it leaves what it holds to
/// the writer's thread.
#[derive(Debug, Default)]
pub struct Appender {
    burst: Mutex<Burst>,
    /// It has done a round with a sync, and reads nothing more until others have had their turn.
    is_resting: AtomicBool,
    /// It leaves all to the writer's thread.
    hands_over: bool,
    /// The others are to have their turn: there is something that it would have read, or they have asked for
    /// something lately.
    yields: AtomicBool,
}

/// What is done of what a client has sent.
#[derive(Debug, Default)]
pub(super) struct Burst {
    pub(super) open: Option<OpenRound>,
    /// What the rounds have taken since there was nothing more to read.
    pub(super) done_bytes: usize,
}

/// A round that more appends can join.
#[derive(Debug)]
pub(super) struct OpenRound {
    pub(super) round: InlineRound,
    pub(super) under_way: UnderWay,
}

impl OpenRound {
    pub(super) fn run(self) {
        let OpenRound { round, under_way: _under_way } = self;
        round.run();
    }
}

impl Appender {
    /// One that writes nothing itself, for an owner whom a disk that hangs must not hold up.
    pub fn handing_over() -> Appender {
        Appender { hands_over: true, ..Appender::default() }
    }

    /// Whether it leaves all to the writer's thread.
    pub(super) fn hands_over(&self) -> bool {
        self.hands_over
    }

    /// Whether there are appends that are not written yet: no answer can come before they are.
    pub fn has_open_round(&self) -> bool {
        self.burst().open.is_some()
    }

    /// Writes what it holds; whether there was anything.
    pub fn flush(&self) -> bool {
        let Some(open) = self.burst().open.take() else { return false };
        if open.round.has_sync() {
            self.is_resting.store(true, Ordering::Relaxed);
            self.yields.store(open.under_way.has_company(), Ordering::Relaxed);
        }
        open.run();
        true
    }

    /// Nothing more was there to be read: what comes next is not part of what came before.
    pub fn begin_burst(&self) {
        self.burst().done_bytes = 0;
    }

    /// Runs its owner, and writes what it holds whenever the owner waits.
    ///
    /// After a sync the owner sends what it answers. If more has come meanwhile, or others were there lately, it is
    /// their turn before it reads on: they have waited for the sync, too.
    pub async fn drive<T>(&self, owner: impl Future<Output = T>) -> T {
        let _left_at_the_end = LeaveRound(self);
        let mut owner = pin!(owner);
        poll_fn(|context| {
            loop {
                let polled = owner.as_mut().poll(context);
                let has_written = self.flush();
                if polled.is_ready() {
                    return polled;
                }
                if !has_written {
                    if self.end_rest() {
                        let others = pin!(yield_now());
                        _ = others.poll(context);
                    }
                    return polled;
                }
            }
        })
        .await
    }

    /// Ends when the owner may read what has come. Behind a sync that is not before the owner has waited once; nobody
    /// is woken by it.
    pub async fn may_read(&self) {
        poll_fn(|_| match self.is_resting.load(Ordering::Relaxed) {
            true => {
                self.yields.store(true, Ordering::Relaxed);
                Poll::Pending
            }
            false => Poll::Ready(()),
        })
        .await;
    }

    /// Has the owner read again; whether that is to be after the others' turn.
    fn end_rest(&self) -> bool {
        self.is_resting.store(false, Ordering::Relaxed);
        self.yields.swap(false, Ordering::Relaxed)
    }

    pub(super) fn burst(&self) -> MutexGuard<'_, Burst> {
        // What it guards is right after each step.
        self.burst.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Leaves to the writer's thread what an owner that panics has not written.
struct LeaveRound<'a>(&'a Appender);

impl Drop for LeaveRound<'_> {
    fn drop(&mut self) {
        let open = self.0.burst().open.take();
        drop(open);
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn who_rests_does_not_read_until_the_others_had_their_turn() {
        let appender = Appender::default();
        let mut context = Context::from_waker(Waker::noop());
        let mut may_read = || pin!(appender.may_read()).poll(&mut context).is_ready();
        assert!(may_read());
        appender.is_resting.store(true, Ordering::Relaxed);
        assert!(!appender.end_rest(), "there was nothing to read");
        appender.is_resting.store(true, Ordering::Relaxed);
        assert!(!may_read());
        assert!(appender.end_rest());
        assert!(may_read() && !appender.end_rest());
    }
}
