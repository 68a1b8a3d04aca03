//! The way to the writer thread.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Command;
use crate::{FailureListener, LogError};

/// Commands on their way to the writer thread, from any number of threads.
///
/// The writer takes all that is there in one exchange of vectors, so that its cost does not grow
/// with the number of commands, and it is woken only when it sleeps: while it writes or syncs,
/// commands queue up without a system call. They are the next group.
///
/// What waits is bounded by the memory that its appends take.
pub(crate) struct CommandQueue {
    dir: PathBuf,
    bytes_max: usize,
    state: Mutex<State>,
    wake: Condvar,
    failure_listener: Option<FailureListener>,
}

/// A longer vector is given back after the burst that needed it.
const COMMANDS_KEPT: usize = 4096;

#[derive(Debug, Default)]
struct State {
    commands: Vec<Command>,
    append_bytes: usize,
    is_writer_asleep: bool,
    is_closed: bool,
}

impl fmt::Debug for CommandQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandQueue").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl CommandQueue {
    /// An empty queue to the writer of `dir`, for appends that take at most `bytes_max`.
    pub(crate) fn new(
        dir: PathBuf,
        bytes_max: usize,
        failure_listener: Option<FailureListener>,
    ) -> CommandQueue {
        let (state, wake) = (Mutex::default(), Condvar::new());
        CommandQueue { dir, bytes_max, state, wake, failure_listener }
    }

    /// Tells whom it concerns that the directory cannot be relied on any more.
    pub(crate) fn note_failure(&self, error: &LogError) {
        if let Some(listener) = &self.failure_listener {
            listener(error);
        }
    }

    /// As [`CommandQueue::note_failure`], of a writer that panics.
    pub(crate) fn note_panic(&self) {
        let what = format!("the writer of {} has panicked, and", self.dir.display());
        self.note_failure(&LogError::Closed { what });
    }

    /// Puts a command at the end.
    ///
    /// A command that is refused fails its [`Completion`](crate::Completion) by itself:
    /// [`LogError::Closed`] once the writer has ended, [`LogError::QueueFull`] for an append that
    /// does not fit.
    pub(crate) fn push(&self, command: Command) {
        let command_bytes = command.cost_bytes();
        let mut state = self.state();
        if state.is_closed {
            // Its completer goes with it, outside of the lock.
            drop(state);
            return;
        }
        // One that is larger than all may wait alone.
        let is_first = state.append_bytes == 0;
        if command_bytes > 0 && !is_first && state.append_bytes + command_bytes > self.bytes_max {
            let queued_bytes = state.append_bytes;
            drop(state);
            command.fail(self.full(queued_bytes));
            return;
        }
        state.append_bytes += command_bytes;
        state.commands.push(command);
        let wake = std::mem::take(&mut state.is_writer_asleep);
        drop(state);
        if wake {
            self.wake.notify_one();
        }
    }

    /// Moves everything that waits into `commands`, which is empty; if nothing waits, sleeps until
    /// something comes, for at most `timeout`.
    pub(crate) fn take(&self, commands: &mut Vec<Command>, timeout: Duration) {
        debug_assert!(commands.is_empty(), "what was taken before is not done");
        commands.shrink_to(COMMANDS_KEPT);
        let mut state = self.state();
        if state.commands.is_empty() && !timeout.is_zero() {
            state.is_writer_asleep = true;
            state = self
                .wake
                .wait_timeout_while(state, timeout, |state| state.commands.is_empty())
                .unwrap_or_else(PoisonError::into_inner)
                .0;
            state.is_writer_asleep = false;
        }
        state.append_bytes = 0;
        std::mem::swap(&mut state.commands, commands);
    }

    /// Refuses all further commands and drops those that wait, whose completions fail.
    pub(crate) fn close(&self) {
        let dropped = {
            let mut state = self.state();
            state.is_closed = true;
            std::mem::take(&mut state.commands)
        };
        drop(dropped);
    }

    fn full(&self, queued_bytes: usize) -> LogError {
        LogError::QueueFull { dir: self.dir.clone(), queued_bytes, limit_bytes: self.bytes_max }
    }

    /// No code panics while it holds the lock, so a poisoned one guards a sound state.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
