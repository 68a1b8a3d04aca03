//! Names of commands, and which of them were committed lately.
//!
//! A node that has sent a command to the leader and gets no answer sends it again, perhaps to the next
//! leader. The first may have committed it. So a command has an id, the entry of the log that
//! commits its records tells the id and the reply, and every node remembers the last ones as part of
//! the state that snapshots hold (Ongaro, *Consensus: Bridging Theory and Practice*, 6.3).
//!
//! The memory has a bound. An id that is not in it may have been forgotten, so each command also says
//! what its node had seen of the log before it was sent for the first time. All that was committed of it
//! comes later. If a later entry is forgotten, nobody can tell, and the command is refused.

use std::collections::{HashMap, VecDeque};
use std::fmt;

use serde::{Deserialize, Serialize};

/// How many commands are remembered at most …
const COMMANDS_MAX: usize = 4_096;

/// … and how long their replies are together.
const REPLIES_MAX_BYTES: usize = 4 << 20;

/// What one command is called, in all of a cluster and for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "(u64, u64)", into = "(u64, u64)")]
pub(crate) struct CommandId {
    /// The life of the node that it came to: a number by chance.
    pub(crate) instance: u64,
    /// Its number in that life.
    pub(crate) sequence: u64,
}

impl From<(u64, u64)> for CommandId {
    fn from((instance, sequence): (u64, u64)) -> CommandId {
        CommandId { instance, sequence }
    }
}

impl From<CommandId> for (u64, u64) {
    fn from(id: CommandId) -> (u64, u64) {
        (id.instance, id.sequence)
    }
}

impl fmt::Display for CommandId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}/{}", self.instance, self.sequence)
    }
}

/// A command whose records are committed with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CommittedCommand {
    pub(crate) id: CommandId,
    /// The controller's reply as JSON.
    pub(crate) reply: String,
}

/// The commands that were committed last, in the order of the log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RecentCommands {
    order: VecDeque<CommandId>,
    by_id: HashMap<CommandId, Remembered>,
    reply_bytes: usize,
    /// The newest entry of which a command was forgotten; 0 if none was.
    forgotten: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Remembered {
    index: u64,
    reply: String,
}

/// What is known of an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Known {
    /// It was committed in an entry, with this reply.
    Committed { index: u64, reply: String },
    /// It was not.
    New,
    /// It may have been.
    Forgotten,
}

/// As it stands in a snapshot.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct RecentCommandsRecord {
    #[serde(default)]
    forgotten: u64,
    #[serde(default)]
    commands: Vec<(u64, CommittedCommand)>,
}

impl RecentCommands {
    /// Remembers what an entry has committed.
    pub(crate) fn add(&mut self, index: u64, command: CommittedCommand) {
        let CommittedCommand { id, reply } = command;
        self.reply_bytes += reply.len();
        if let Some(before) = self.by_id.insert(id, Remembered { index, reply }) {
            // No node lets that happen.
            self.reply_bytes -= before.reply.len();
            return;
        }
        self.order.push_back(id);
        while self.order.len() > COMMANDS_MAX || self.reply_bytes > REPLIES_MAX_BYTES {
            let Some(oldest) = self.order.pop_front() else { return };
            if let Some(remembered) = self.by_id.remove(&oldest) {
                self.reply_bytes -= remembered.reply.len();
                self.forgotten = self.forgotten.max(remembered.index);
            }
        }
    }

    /// What is known of a command that was sent for the first time when `since` was applied.
    pub(crate) fn look_up(&self, id: CommandId, since: u64) -> Known {
        match self.by_id.get(&id) {
            Some(Remembered { index, reply }) => {
                Known::Committed { index: *index, reply: reply.clone() }
            }
            None if self.forgotten > since => Known::Forgotten,
            None => Known::New,
        }
    }

    pub(crate) fn to_record(&self) -> RecentCommandsRecord {
        let command = |id: &CommandId| {
            let Remembered { index, reply } = self.by_id.get(id)?.clone();
            Some((index, CommittedCommand { id: *id, reply }))
        };
        let commands = self.order.iter().filter_map(command).collect();
        RecentCommandsRecord { forgotten: self.forgotten, commands }
    }

    pub(crate) fn from_record(record: RecentCommandsRecord) -> RecentCommands {
        let mut recent = RecentCommands { forgotten: record.forgotten, ..Self::default() };
        for (index, command) in record.commands {
            recent.add(index, command);
        }
        recent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(sequence: u64) -> CommandId {
        CommandId { instance: 1, sequence }
    }

    fn command(sequence: u64, reply_bytes: usize) -> CommittedCommand {
        CommittedCommand { id: id(sequence), reply: "r".repeat(reply_bytes) }
    }

    #[test]
    fn what_may_have_been_forgotten_is_not_taken_for_new() {
        let mut recent = RecentCommands::default();
        for sequence in 0..COMMANDS_MAX as u64 + 2 {
            recent.add(100 + sequence, command(sequence, 1));
        }
        assert_eq!(recent.look_up(id(1), 100), Known::Forgotten);
        assert_eq!(recent.look_up(id(99_999), 100), Known::Forgotten);
        assert_eq!(recent.look_up(id(99_999), 101), Known::New);
        let found = recent.look_up(id(2), 0);
        assert_eq!(found, Known::Committed { index: 102, reply: "r".to_owned() });
        let read = RecentCommands::from_record(recent.to_record());
        assert_eq!(read, recent);
    }

    #[test]
    fn replies_are_bounded_together() {
        let mut recent = RecentCommands::default();
        recent.add(5, command(1, 10));
        recent.add(6, command(2, REPLIES_MAX_BYTES + 1));
        assert_eq!(recent.look_up(id(1), 4), Known::Forgotten);
        assert_eq!(recent.look_up(id(2), 5), Known::Forgotten, "it is too long alone");
        assert_eq!(recent.look_up(id(3), 6), Known::New);
        assert_eq!(recent.reply_bytes, 0);
    }
}
