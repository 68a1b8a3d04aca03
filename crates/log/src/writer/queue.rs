//! The way to the writer thread.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::command::Command;
use crate::{FailureListener, LogError};

/// Who lives in a queue while its thread sleeps, and does what the queue carries: the writer.
///
/// The queue knows no more of it, so that it is below all that the writer does.
pub(crate) trait Resident {
    /// Where it puts what it takes from the queue.
    fn backlog(&mut self) -> &mut Vec<Command>;
    /// Whether any thread may do a round that has syncs.
    fn are_syncs_quick(&self) -> bool;
    /// The time, for pauses.
    fn now(&self) -> Instant;
}

/// Commands on their way to the writer, from any number of threads.
///
/// The writer takes all that is there in one exchange of vectors, so that its cost does not grow
/// with the number of commands, and its thread is woken only when it sleeps: while it writes or
/// syncs, commands queue up without a system call. They are the next group.
///
/// While the thread sleeps the writer `W` is here. A thread with a [quick](Command::is_quick) command may take it
/// for an [`InlineRound`](super::InlineRound). Only who has the writer changes a log.
///
/// What waits is bounded by the memory that its appends take.
pub(crate) struct Queue<W> {
    dir: PathBuf,
    bytes_max: usize,
    state: Mutex<State<W>>,
    wake: Condvar,
    /// When the round began that the writer does.
    round_began: Mutex<Option<Instant>>,
    failure_listener: Option<FailureListener>,
}

/// An append that did not fit, on its way back to who made it.
#[derive(Debug)]
pub(crate) struct Unqueued {
    pub(crate) command: Command,
    pub(crate) error: LogError,
}

impl Unqueued {
    /// Answers it: [`LogError::QueueFull`].
    pub(crate) fn fail(self) {
        self.command.fail(self.error);
    }
}

/// The thread does all for so long after others have appended meanwhile, or more came than one
/// thread should do: then it has enough to do not to sleep, and no thread has to be woken for an
/// append.
pub(super) const PAUSE_AFTER_MUCH: Duration = Duration::from_millis(10);

/// A longer vector is given back after the burst that needed it.
const COMMANDS_KEPT: usize = 4096;

struct State<W> {
    commands: Vec<Command>,
    append_bytes: usize,
    /// The writer, while its thread waits and nobody has it.
    writer: Option<Box<W>>,
    /// The thread waits, and was not woken.
    is_thread_asleep: bool,
    /// The thread is to go on as soon as the writer is here, although no command waits.
    is_thread_wanted: bool,
    /// Whether inline rounds may have syncs, as the writer says.
    are_syncs_quick: bool,
    /// Until then there are no inline rounds.
    inline_from: Option<Instant>,
    is_closed: bool,
}

// For any `W`, which `derive` would want to have a default, too.
impl<W> Default for State<W> {
    fn default() -> State<W> {
        State {
            commands: Vec::new(),
            append_bytes: 0,
            writer: None,
            is_thread_asleep: false,
            is_thread_wanted: false,
            are_syncs_quick: false,
            inline_from: None,
            is_closed: false,
        }
    }
}

impl<W: Resident> State<W> {
    fn take_commands(&mut self, into: &mut Vec<Command>) {
        debug_assert!(into.is_empty(), "what was taken before is not done");
        into.shrink_to(COMMANDS_KEPT);
        self.append_bytes = 0;
        std::mem::swap(&mut self.commands, into);
    }

    /// Whether a command that takes so much may wait, of at most `bytes_max`.
    fn has_room_for(&self, command_bytes: usize, bytes_max: usize) -> bool {
        // One that is larger than all may wait alone.
        let is_first = self.append_bytes == 0;
        command_bytes == 0 || is_first || self.append_bytes + command_bytes <= bytes_max
    }

    /// The writer, for a round with a command that nothing waits before.
    fn lend_writer(&mut self, command: &Command) -> Option<Box<W>> {
        if !command.is_quick(self.are_syncs_quick)
            || !self.commands.is_empty()
            || self.is_thread_wanted
        {
            return None;
        }
        if let Some(from) = self.inline_from {
            let is_pause_over = self.writer.as_ref()?.now() >= from;
            if !is_pause_over {
                return None;
            }
            self.inline_from = None;
        }
        self.writer.take()
    }

    /// Whether the thread is to be woken; not twice.
    fn must_wake(&mut self) -> bool {
        let has_work = !self.commands.is_empty() || self.is_thread_wanted;
        has_work && self.writer.is_some() && std::mem::take(&mut self.is_thread_asleep)
    }
}

/// What an inline round leaves to others.
#[derive(Debug)]
pub(super) struct Left {
    pub(super) is_thread_wanted: bool,
    pub(super) now: Instant,
    /// For how long there is to be no other inline round.
    pub(super) pause: Duration,
}

impl<W> fmt::Debug for Queue<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandQueue").field("dir", &self.dir).finish_non_exhaustive()
    }
}

impl<W: Resident> Queue<W> {
    /// An empty queue to the writer of `dir`, for appends that take at most `bytes_max`.
    pub(crate) fn new(
        dir: PathBuf,
        bytes_max: usize,
        failure_listener: Option<FailureListener>,
    ) -> Queue<W> {
        let (state, wake) = (Mutex::default(), Condvar::new());
        Queue { dir, bytes_max, state, wake, round_began: Mutex::default(), failure_listener }
    }

    /// The writer begins a round, or has ended one.
    pub(super) fn note_round(&self, began: Option<Instant>) {
        *self.round_began.lock().unwrap_or_else(PoisonError::into_inner) = began;
    }

    /// When the round began that the writer does, if it does one.
    pub(crate) fn round_began(&self) -> Option<Instant> {
        *self.round_began.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells whom it concerns that the directory cannot be relied on any more.
    pub(crate) fn note_failure(&self, error: &LogError) {
        if let Some(listener) = &self.failure_listener {
            listener(error);
        }
    }

    /// As [`Queue::note_failure`], of a writer that panics.
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
        if let Err(unqueued) = self.try_push(command) {
            unqueued.fail();
        }
    }

    /// As [`Queue::push`], but the caller gets back an append that does not fit.
    pub(crate) fn try_push(&self, command: Command) -> Result<(), Box<Unqueued>> {
        self.push_under(self.state(), command)
    }

    /// As [`Queue::try_push`]; but if the writer has nothing to do and the command is quick, the
    /// caller gets both.
    pub(super) fn push_or_lend(
        &self,
        command: Command,
    ) -> Result<Option<(Box<W>, Command)>, Box<Unqueued>> {
        let mut state = self.state();
        if let Some(writer) = state.lend_writer(&command) {
            return Ok(Some((writer, command)));
        }
        self.push_under(state, command)?;
        Ok(None)
    }

    /// As [`Queue::push`], of several commands with none of others between them: the writer takes
    /// them for one round, as far as a round reaches.
    pub(crate) fn push_all(&self, commands: Vec<Command>) {
        let mut state = self.state();
        if state.is_closed {
            // Their completers go with them, outside of the lock.
            return drop(state);
        }
        let mut refused = Vec::new();
        for command in commands {
            let command_bytes = command.cost_bytes();
            if state.has_room_for(command_bytes, self.bytes_max) {
                state.append_bytes += command_bytes;
                state.commands.push(command);
            } else {
                refused.push((command, state.append_bytes));
            }
        }
        let wake = state.must_wake();
        drop(state);
        if wake {
            self.wake.notify_one();
        }
        for (command, queued_bytes) in refused {
            command.fail(self.full(queued_bytes));
        }
    }

    fn push_under(
        &self,
        mut state: MutexGuard<'_, State<W>>,
        command: Command,
    ) -> Result<(), Box<Unqueued>> {
        let command_bytes = command.cost_bytes();
        if state.is_closed {
            // Its completer goes with it, outside of the lock.
            drop(state);
            return Ok(());
        }
        if !state.has_room_for(command_bytes, self.bytes_max) {
            let error = self.full(state.append_bytes);
            return Err(Box::new(Unqueued { command, error }));
        }
        state.append_bytes += command_bytes;
        state.commands.push(command);
        let wake = state.must_wake();
        drop(state);
        if wake {
            self.wake.notify_one();
        }
        Ok(())
    }

    /// Gives the writer up until there is something for its thread, for at most `timeout`, and then
    /// moves everything that waits into its backlog. `None` if it is lost: an inline round panicked.
    pub(super) fn wait(&self, mut writer: Box<W>, timeout: Duration) -> Option<Box<W>> {
        let mut state = self.state();
        if state.commands.is_empty() && !timeout.is_zero() {
            state.are_syncs_quick = writer.are_syncs_quick();
            state.writer = Some(writer);
            state.is_thread_asleep = true;
            let has_cause = |state: &State<W>| {
                state.writer.is_some() && (!state.commands.is_empty() || state.is_thread_wanted)
            };
            state = self
                .wake
                .wait_timeout_while(state, timeout, |state| !has_cause(state) && !state.is_closed)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
            // The time is over in the middle of an inline round.
            state.is_thread_wanted = true;
            state.is_thread_asleep = true;
            state = self
                .wake
                .wait_while(state, |state| state.writer.is_none() && !state.is_closed)
                .unwrap_or_else(PoisonError::into_inner);
            state.is_thread_wanted = false;
            state.is_thread_asleep = false;
            writer = state.writer.take()?;
        }
        // Unless it brings some itself, of an inline round that was not done.
        if writer.backlog().is_empty() {
            state.take_commands(writer.backlog());
        }
        Some(writer)
    }

    /// Ends an inline round, and wakes the thread if there is something for it.
    pub(super) fn give_back(&self, writer: Box<W>, left: Left) {
        let mut state = self.state();
        state.are_syncs_quick = writer.are_syncs_quick();
        state.writer = Some(writer);
        state.is_thread_wanted |= left.is_thread_wanted;
        let was_joined = state.append_bytes > 0;
        let pause = if was_joined { left.pause.max(PAUSE_AFTER_MUCH) } else { left.pause };
        if !pause.is_zero() {
            state.inline_from = Some(left.now + pause);
        }
        let wake = state.must_wake();
        drop(state);
        if wake {
            self.wake.notify_one();
        }
    }

    /// What waits, of a writer that ends.
    pub(super) fn take_last(&self) -> Vec<Command> {
        let mut last = Vec::new();
        self.state().take_commands(&mut last);
        last
    }

    /// Refuses all further commands and drops those that wait, whose completions fail.
    pub(crate) fn close(&self) {
        let dropped = {
            let mut state = self.state();
            state.is_closed = true;
            std::mem::take(&mut state.commands)
        };
        drop(dropped);
        self.wake.notify_one();
    }

    fn full(&self, queued_bytes: usize) -> LogError {
        LogError::QueueFull { dir: self.dir.clone(), queued_bytes, limit_bytes: self.bytes_max }
    }

    /// No code panics while it holds the lock, so a poisoned one guards a sound state.
    fn state(&self) -> MutexGuard<'_, State<W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, channel};
    use std::thread::{self, JoinHandle};

    use logway_model::{LeaderEpoch, TimestampMs};
    use logway_record::{Batch, BatchBuilder, Compression};

    use super::super::log_request::{Append, Offsets};
    use super::*;
    use crate::AppendBatches;
    use crate::completion::Completion;
    use crate::log_state::LogKey;

    /// What it is given it forgets.
    struct Forgetful {
        backlog: Vec<Command>,
        now: Arc<Mutex<Instant>>,
    }

    impl Resident for Forgetful {
        fn backlog(&mut self) -> &mut Vec<Command> {
            &mut self.backlog
        }

        fn are_syncs_quick(&self) -> bool {
            false
        }

        fn now(&self) -> Instant {
            *self.now.lock().expect("nobody panics")
        }
    }

    /// A queue with a thread, which tells how many commands it has taken each time.
    struct Running {
        queue: Arc<Queue<Forgetful>>,
        now: Arc<Mutex<Instant>>,
        taken: Receiver<usize>,
        thread: JoinHandle<()>,
    }

    impl Running {
        fn start(bytes_max: usize) -> Running {
            let queue = Arc::new(Queue::new(PathBuf::from("/data"), bytes_max, None));
            let now = Arc::new(Mutex::new(Instant::now()));
            let (sender, taken) = channel();
            let resident = Forgetful { backlog: Vec::new(), now: Arc::clone(&now) };
            let of_thread = Arc::clone(&queue);
            let thread = thread::spawn(move || {
                let mut resident = Box::new(resident);
                loop {
                    let hour = Duration::from_secs(3600);
                    let Some(back) = of_thread.wait(resident, hour) else { return };
                    resident = back;
                    let commands = std::mem::take(&mut resident.backlog);
                    let ends = commands.iter().any(|command| matches!(command, Command::Abort));
                    sender.send(commands.len()).expect("the test is there");
                    if ends {
                        return;
                    }
                }
            });
            Running { queue, now, taken, thread }
        }

        /// Pushes quick appends until the thread sleeps, so that one is left to the caller.
        fn borrow(&self) -> (Box<Forgetful>, Command) {
            loop {
                match self.queue.push_or_lend(append(true)).expect("there is room") {
                    Some(lent) => return lent,
                    None => assert_eq!(self.taken.recv().expect("the thread runs"), 1),
                }
            }
        }

        fn give_back(&self, resident: Box<Forgetful>, pause: Duration) {
            let now = resident.now();
            self.queue.give_back(resident, Left { is_thread_wanted: false, now, pause });
        }

        fn end(self) {
            self.queue.push(Command::Abort);
            self.thread.join().expect("the thread ends");
        }
    }

    fn append(is_sync_free: bool) -> Command {
        let mut builder = BatchBuilder::new(Compression::None);
        builder.append(TimestampMs(0), None, Some(b"value"), &[]).expect("the record fits");
        let batch = Batch::parse(builder.finish().expect("it is encoded")).expect("it is good");
        let batches = AppendBatches::new(vec![batch], LeaderEpoch(0));
        let (done, _) = Completion::new(&"t-0".into());
        Command::Append(Append {
            key: LogKey(1),
            batches,
            offsets: Offsets::Assigned,
            is_sync_free,
            done,
        })
    }

    #[test]
    fn what_comes_while_the_resident_is_lent_waits_for_its_return() {
        let running = Running::start(usize::MAX);
        let (resident, _) = running.borrow();
        assert!(running.queue.push_or_lend(append(true)).expect("there is room").is_none());
        running.queue.push(Command::CheckpointEnded);
        running.give_back(resident, Duration::ZERO);
        assert_eq!(running.taken.recv().expect("the thread runs"), 2, "it was woken for both");
        running.end();
    }

    #[test]
    fn during_a_pause_all_is_left_to_the_thread() {
        let running = Running::start(usize::MAX);
        let (resident, _) = running.borrow();
        let pause = Duration::from_secs(5);
        running.give_back(resident, pause);
        for _ in 0..100 {
            assert!(running.queue.push_or_lend(append(true)).expect("there is room").is_none());
            assert_eq!(running.taken.recv().expect("the thread runs"), 1);
        }
        *running.now.lock().expect("nobody panics") += pause;
        let (resident, _) = running.borrow();
        running.give_back(resident, Duration::ZERO);
        running.end();
    }

    #[test]
    fn a_command_that_is_not_quick_is_the_threads() {
        let running = Running::start(usize::MAX);
        for _ in 0..100 {
            assert!(running.queue.push_or_lend(append(false)).expect("there is room").is_none());
            assert_eq!(running.taken.recv().expect("the thread runs"), 1);
        }
        running.end();
    }

    #[test]
    fn appends_that_wait_have_a_bound() {
        let two = 2 * append(true).cost_bytes();
        let queue: Queue<Forgetful> = Queue::new(PathBuf::from("/data"), two, None);
        queue.try_push(append(true)).expect("there is room");
        queue.try_push(append(true)).expect("there is room");
        let refused = queue.try_push(append(true)).expect_err("there is none");
        assert!(
            matches!(refused.error, LogError::QueueFull { limit_bytes, .. } if limit_bytes == two)
        );
        queue.try_push(Command::Abort).expect("it takes none");
        assert_eq!(queue.take_last().len(), 3);
        queue.try_push(append(true)).expect("there is room again");
    }
}
