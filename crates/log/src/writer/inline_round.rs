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
//! synchronization-parallelism tradeoff", SPAA 2010). Timers, what becomes of full segments,
//! whatever is large, and all that comes while the disk holds writers up stay with the thread.
//!
//! Syncs are done inline while they are [quick](super::sync_time): then two threads woken take as long as the sync, during
//! which there is nothing for the thread to do but to wait for it. The others of the network are
//! looked after as if it were a write that takes longer.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::command::Command;
use super::queue::{Left, PAUSE_AFTER_MUCH, Unqueued};
use super::{CloseOnPanic, CommandQueue, Writer};
use crate::log_state::LogKey;

/// A round that takes so long was held up: the system has the writer wait for the disk. It is more
/// than a busy machine takes a processor away for.
const HELD_UP: Duration = Duration::from_millis(10);

/// Afterwards the thread does all for so long.
const PAUSE_AFTER_HELD_UP: Duration = Duration::from_secs(1);

/// A sync is held up now and then on any disk, so that after one the pause is so many times what it took.
const HELD_UP_PART: u32 = 10;

/// Without a journal each log has a sync of its own: more than these are left to the writer's thread.
const SYNCED_LOGS_MAX: usize = 16;

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
    /// Whose appends wait for a sync.
    synced_logs: Vec<LogKey>,
    /// Something of the caller is behind the round, so that no more can join it.
    is_closed: bool,
}

impl InlineRound {
    /// Puts a command into the queue; but if the writer has nothing to do and the command is quick, the
    /// caller gets both, for a round of its own.
    ///
    /// # Errors
    ///
    /// The caller gets back an append that does not fit.
    pub(crate) fn push_or_begin(
        queue: &Arc<CommandQueue>,
        command: Command,
    ) -> Result<Option<InlineRound>, Box<Unqueued>> {
        let lent = queue.push_or_lend(command)?;
        Ok(lent.map(|(writer, command)| InlineRound::new(Arc::clone(queue), writer, command)))
    }

    fn new(queue: Arc<CommandQueue>, writer: Box<Writer>, command: Command) -> InlineRound {
        let size_bytes = command.cost_bytes();
        let synced_logs = command.synced_log().into_iter().collect();
        let (writer, commands) = (Some(writer), vec![command]);
        InlineRound { queue, writer, commands, size_bytes, synced_logs, is_closed: false }
    }

    /// The memory that its appends take.
    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// Whether its appends are answered after a sync, so that it is better done once for all.
    pub fn has_sync(&self) -> bool {
        !self.synced_logs.is_empty()
    }

    /// Appends, and answers. It writes to files and may sync them, which takes less than a millisecond as a rule and as
    /// long as the disk likes when the system has too much to write.
    pub fn run(mut self) {
        let mut writer = self.writer.take().expect("it is run once");
        let _closed_by_panic = CloseOnPanic(Arc::clone(&self.queue));
        writer.backlog.append(&mut self.commands);
        let is_thread_wanted = writer.do_inline_round(self.has_sync());
        let now = writer.clock.instant();
        let took = now.saturating_duration_since(writer.round.started);
        let pause = match took >= HELD_UP {
            true if self.has_sync() => took * HELD_UP_PART,
            true => PAUSE_AFTER_HELD_UP,
            false => Duration::ZERO,
        };
        self.queue.give_back(writer, Left { is_thread_wanted, now, pause });
    }

    /// Whether it is of the writer that this queue leads to.
    pub(crate) fn is_of(&self, queue: &Arc<CommandQueue>) -> bool {
        Arc::ptr_eq(&self.queue, queue)
    }

    /// Has a command done in the round, or behind it.
    pub(crate) fn add(&mut self, command: Command) {
        let writer = self.writer.as_ref();
        let are_syncs_quick = writer.is_some_and(|writer| writer.sync_time.is_quick());
        let new_log = command.synced_log().filter(|key| !self.synced_logs.contains(key));
        let is_one_too_many = new_log.is_some() && self.synced_logs.len() == SYNCED_LOGS_MAX;
        self.is_closed |= is_one_too_many || !command.is_quick(are_syncs_quick);
        if self.is_closed {
            return self.queue.push(command);
        }
        self.size_bytes += command.cost_bytes();
        self.synced_logs.extend(new_log);
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
