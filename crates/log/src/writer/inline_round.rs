//! A round of the writer on the thread that appends.
//!
//! An append to a log that needs no sync is a copy into the page cache. Handing it to the writer's
//! thread and waiting for the answer takes longer than the copy: two threads are woken for it, on
//! processors that may be asleep. So the thread that appends takes the writer along, if that has
//! nothing to do, and does what its thread would do. What comes meanwhile from others queues up as
//! always, and is the thread's next group: where there are many who append, the thread is always at
//! work, and groups are better than hops saved.
//!
//! The idea is that of combining (Hendler et al., "Flat combining and the
//! synchronization-parallelism tradeoff", SPAA 2010). Syncs, timers, what becomes of full segments,
//! whatever is large, and all that comes while the disk holds writers up stay with the thread.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::queue::{CommandQueue, Left};
use super::{CloseOnPanic, Command, Writer};

/// A round that takes so long was held up: the system has the writer wait for the disk. It is more
/// than a busy machine takes a processor away for.
const HELD_UP: Duration = Duration::from_millis(10);

/// Afterwards the thread does all for so long.
const PAUSE_AFTER_HELD_UP: Duration = Duration::from_secs(1);

/// The thread does all for so long after others have appended meanwhile, or more came than one
/// thread should do: then it has enough to do not to sleep, and no thread has to be woken for an
/// append.
pub(super) const PAUSE_AFTER_MUCH: Duration = Duration::from_millis(10);

/// A round of the writer that the caller is to do: [`Log::append_inline`](crate::Log::append_inline).
///
/// More appends of the caller may join it. Until it is run nothing else is written in the log
/// directory, so that is to be soon, and the caller waits for nothing meanwhile. Dropped, it is left
/// to the writer's thread.
#[must_use = "until it is run nothing is written in the log directory"]
pub struct InlineRound {
    queue: Arc<CommandQueue>,
    /// Until it was run or given back.
    writer: Option<Box<Writer>>,
    commands: Vec<Command>,
    size_bytes: usize,
    /// Something of the caller is behind the round, so that no more can join it.
    is_closed: bool,
}

impl InlineRound {
    pub(super) fn new(
        queue: Arc<CommandQueue>,
        writer: Box<Writer>,
        command: Command,
    ) -> InlineRound {
        let size_bytes = command.cost_bytes();
        let commands = vec![command];
        InlineRound { queue, writer: Some(writer), commands, size_bytes, is_closed: false }
    }

    /// The memory that its appends take.
    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// Appends, and answers. It writes to files, which takes some microseconds as a rule and as long
    /// as the disk likes when the system has too much to write.
    pub fn run(mut self) {
        let mut writer = self.writer.take().expect("it is run once");
        let _closed_by_panic = CloseOnPanic(Arc::clone(&self.queue));
        writer.backlog.append(&mut self.commands);
        let is_thread_wanted = writer.do_inline_round();
        let now = writer.clock.instant();
        let was_held_up = now.saturating_duration_since(writer.round.started) >= HELD_UP;
        let pause = if was_held_up { PAUSE_AFTER_HELD_UP } else { Duration::ZERO };
        self.queue.give_back(writer, Left { is_thread_wanted, now, pause });
    }

    /// Whether it is of the writer that this queue leads to.
    pub(crate) fn is_of(&self, queue: &Arc<CommandQueue>) -> bool {
        Arc::ptr_eq(&self.queue, queue)
    }

    /// Has a command done in the round, or behind it.
    pub(crate) fn add(&mut self, command: Command) {
        self.is_closed |= !command.is_quick();
        if self.is_closed {
            return self.queue.push(command);
        }
        self.size_bytes += command.cost_bytes();
        self.commands.push(command);
    }
}

impl Drop for InlineRound {
    fn drop(&mut self) {
        if let Some(mut writer) = self.writer.take() {
            writer.backlog.append(&mut self.commands);
            let (now, pause) = (writer.clock.instant(), PAUSE_AFTER_MUCH);
            self.queue.give_back(writer, Left { is_thread_wanted: true, now, pause });
        }
    }
}

impl fmt::Debug for InlineRound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InlineRound").field("queue", &self.queue).finish_non_exhaustive()
    }
}
