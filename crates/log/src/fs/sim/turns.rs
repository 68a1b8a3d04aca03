//! One thread at a time, in an order that chance gives.
//!
//! The engine has threads of its own, and which of them reaches the disk first is up to the
//! machine's scheduler: what a seed has found could not be found again. So the threads of a disk
//! [in turns](super::SimFs::in_turns) wait, before they change something, until none of them runs:
//! until each waits here for its turn, or sleeps because it can do nothing before another has gone
//! on. Then chance gives one of those that wait here its turn.
//!
//! Which threads sleep, the kernel tells. So the engine needs no switches for the simulation,
//! whatever its threads wait for: a queue, a lock, an answer, the end of another thread.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::Duration;

use super::rng::Rng;
use super::tasks::{TaskId, Tasks, current_id};

/// The order in which the threads of a simulation change what is on its disks.
///
/// It is about all threads of the process that begin while it exists, and the one that made it, the
/// *driver*. There is one at a time: who wants another waits.
///
/// Between two changes threads run as they like. For a run to be repeatable, the driver must not race
/// with them: before it does what others take note of, it calls [`Turns::pause`].
pub struct Turns {
    state: Mutex<State>,
}

struct State {
    rng: Rng,
    tasks: Tasks,
    /// Who waits for a turn; sorted so that it does not matter who came first.
    waiting: BTreeSet<Waiter>,
    /// Whose turn it is, until it has noticed.
    granted: Option<TaskId>,
    /// The driver lets the others go on.
    is_driver_resting: bool,
    driver: TaskId,
    /// Who has most of the turns for a while: a thread that falls far behind is as real as two that
    /// alternate.
    favourite: TaskId,
}

/// A thread that waits for its turn. Those of one name are told apart by their age.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Waiter {
    name: Option<String>,
    id: TaskId,
}

static IS_IN_USE: Mutex<bool> = Mutex::new(false);
static USE_ENDED: Condvar = Condvar::new();

impl Turns {
    /// Begins an order, when no other is in use any more.
    pub fn begin(seed: u64) -> Arc<Turns> {
        let is_in_use = IS_IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut is_in_use = USE_ENDED
            .wait_while(is_in_use, |is_in_use| *is_in_use)
            .unwrap_or_else(PoisonError::into_inner);
        *is_in_use = true;
        let driver = current_id();
        let state = State {
            rng: Rng::new(seed),
            tasks: Tasks::from_now_on(),
            waiting: BTreeSet::new(),
            granted: None,
            is_driver_resting: false,
            driver,
            favourite: driver,
        };
        Arc::new(Turns { state: Mutex::new(state) })
    }

    /// Waits until all other threads sleep or wait for their turn, which they do not get meanwhile.
    /// For the driver.
    pub fn pause(&self) {
        let driver = current_id();
        loop {
            let mut state = self.lock();
            if state.granted.is_none() && state.nobody_runs_but(driver) {
                return;
            }
            drop(state);
            // Never asleep, or the others would take it for one that waits for them.
            thread::yield_now();
        }
    }

    /// Lets all other threads go on until they have nothing to do. For the driver.
    pub fn rest(&self) {
        self.lock().is_driver_resting = true;
        let driver = current_id();
        let mut patience = Patience::default();
        loop {
            let mut state = self.lock();
            let is_over = state.granted.is_none()
                && state.waiting.is_empty()
                && state.nobody_runs_but(driver);
            if is_over {
                state.is_driver_resting = false;
                return;
            }
            drop(state);
            patience.wait();
        }
    }

    /// Waits for this thread's turn.
    pub(super) fn take(&self) {
        let id = current_id();
        let waiter = Waiter { name: thread::current().name().map(str::to_owned), id };
        self.lock().waiting.insert(waiter.clone());
        let mut patience = Patience::default();
        loop {
            let mut state = self.lock();
            if state.granted.is_none() && state.nobody_runs_but(id) {
                state.grant();
            }
            if state.granted == Some(id) {
                state.granted = None;
                state.waiting.remove(&waiter);
                return;
            }
            drop(state);
            patience.wait();
        }
    }

    /// Takes the lock without sleeping: a thread on its way here counts as one that runs.
    fn lock(&self) -> MutexGuard<'_, State> {
        loop {
            match self.state.try_lock() {
                Ok(state) => return state,
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => thread::yield_now(),
            }
        }
    }
}

impl State {
    /// Whether all threads wait for their turn or sleep, this one left out.
    fn nobody_runs_but(&mut self, own: TaskId) -> bool {
        let State { tasks, waiting, is_driver_resting, driver, .. } = self;
        tasks.all_sleep(|id| {
            id == own
                || (*is_driver_resting && id == *driver)
                || waiting.iter().any(|waiter| waiter.id == id)
        })
    }

    /// Gives one of those that wait its turn.
    fn grant(&mut self) {
        let State { rng, waiting, favourite, .. } = self;
        let is_kept = rng.below(8) > 0 && waiting.iter().any(|waiter| waiter.id == *favourite);
        if !is_kept {
            let chosen = waiting.iter().nth(rng.below(waiting.len()));
            *favourite = chosen.expect("somebody waits").id;
        }
        self.granted = Some(*favourite);
    }
}

impl Drop for Turns {
    fn drop(&mut self) {
        *IS_IN_USE.lock().unwrap_or_else(PoisonError::into_inner) = false;
        USE_ENDED.notify_one();
    }
}

impl fmt::Debug for Turns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Turns")
    }
}

/// How a thread waits that the others know to wait: awake at first, because it is short as a rule.
#[derive(Debug, Default)]
struct Patience {
    tries: u32,
}

impl Patience {
    fn wait(&mut self) {
        const TRIES_AWAKE: u32 = 200;
        self.tries += 1;
        match self.tries {
            ..TRIES_AWAKE => thread::yield_now(),
            _ => thread::sleep(Duration::from_micros(50)),
        }
    }
}
