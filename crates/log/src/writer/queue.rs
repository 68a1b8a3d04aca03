//! The way to the writer thread.

use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Command;
use crate::LogError;

/// Commands on their way to the writer thread, from any number of threads.
///
/// The writer takes all that is there in one exchange of vectors, so that its cost does not grow
/// with the number of commands, and it is woken only when it sleeps: while it writes or syncs,
/// commands queue up without a system call. They are the next group.
///
/// What waits is bounded by the memory that its appends take.
#[derive(Debug)]
pub(crate) struct CommandQueue {
    dir: PathBuf,
    bytes_max: usize,
    state: Mutex<State>,
    wake: Condvar,
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

impl CommandQueue {
    /// An empty queue to the writer of `dir`, for appends that take at most `bytes_max`.
    pub(crate) fn new(dir: PathBuf, bytes_max: usize) -> CommandQueue {
        CommandQueue { dir, bytes_max, state: Mutex::default(), wake: Condvar::new() }
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
        if command_bytes > 0 && state.append_bytes + command_bytes > self.bytes_max {
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
