//! Waiting for space on a full disk.

use std::io;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

/// The pauses between two tries grow from this one…
const PAUSE_MIN: Duration = Duration::from_millis(20);

/// … to this one: whoever has made space should not have to wait for long.
const PAUSE_MAX: Duration = Duration::from_millis(250);

/// Lets what does not fit on the disk wait until it does.
///
/// openraft stops for good when its storage fails, so a full disk must not be a failure. Nobody who
/// submits a command waits along: see [`SpaceWait::watch`].
#[derive(Debug)]
pub(crate) struct SpaceWait {
    patience: Mutex<Patience>,
    has_changed: Condvar,
    is_log_waiting: watch::Sender<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Patience {
    /// The quorum is being opened: whoever starts it learns at once that the disk is full.
    NotYet,
    Endless,
    /// The quorum is being closed.
    NoMore,
}

impl SpaceWait {
    /// Nothing waits until [`SpaceWait::begin`].
    pub(crate) fn new() -> SpaceWait {
        SpaceWait {
            patience: Mutex::new(Patience::NotYet),
            has_changed: Condvar::new(),
            is_log_waiting: watch::Sender::new(false),
        }
    }

    /// From now on a full disk is waited for.
    pub(crate) fn begin(&self) {
        self.set(Patience::Endless);
    }

    /// From now on it is not, and what waits fails.
    pub(crate) fn end(&self) {
        self.set(Patience::NoMore);
    }

    /// Tells whether the log waits, and with it every command.
    pub(crate) fn watch(&self) -> watch::Receiver<bool> {
        self.is_log_waiting.subscribe()
    }

    /// Writes to the log, again and again while the disk is full. `write` can be repeated after it
    /// was done in part.
    pub(crate) fn write_log(&self, write: impl FnMut() -> io::Result<()>) -> io::Result<()> {
        let result = self.write(write, || {
            if !self.is_log_waiting.send_replace(true) {
                tracing::error!("the disk is full: changes of the metadata wait for space");
            }
        });
        let was_waiting = self.is_log_waiting.send_if_modified(std::mem::take);
        if was_waiting && result.is_ok() {
            tracing::info!("there is space for the metadata again");
        }
        result
    }

    /// Writes something that commands do not wait for.
    pub(crate) fn write_aside(&self, write: impl FnMut() -> io::Result<()>) -> io::Result<()> {
        self.write(write, || {})
    }

    fn write(
        &self,
        mut write: impl FnMut() -> io::Result<()>,
        mut begin_waiting: impl FnMut(),
    ) -> io::Result<()> {
        let mut pause = PAUSE_MIN;
        loop {
            match write() {
                Err(error) if is_for_want_of_space(&error) => {
                    begin_waiting();
                    if !self.pause(pause) {
                        return Err(error);
                    }
                    pause = PAUSE_MAX.min(pause * 2);
                }
                result => return result,
            }
        }
    }

    /// Whether to try again after the pause.
    fn pause(&self, pause: Duration) -> bool {
        let patience = self.patience.lock().unwrap_or_else(PoisonError::into_inner);
        let is_endless = |patience: &mut Patience| *patience == Patience::Endless;
        let waited = self.has_changed.wait_timeout_while(patience, pause, is_endless);
        let (patience, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *patience == Patience::Endless
    }

    fn set(&self, patience: Patience) {
        *self.patience.lock().unwrap_or_else(PoisonError::into_inner) = patience;
        self.has_changed.notify_all();
    }
}

fn is_for_want_of_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
