//! Who wants to know that a log grew, and knows how far it counts.

use logway_model::Offset;

/// Is told each time that the end of a log, or what is flushed of it, moves. Both move back when an end is
/// cut off, which only followers do.
///
/// Called on the writer thread, after the new values are visible to readers and before the
/// appends that they complete are answered. It must not block: all logs of the directory wait.
pub trait TailListener: Send + Sync {
    /// The log ends before `log_end`, and everything before `flushed` is on stable storage.
    fn on_tail(&self, log_end: Offset, flushed: Offset);

    /// The offset from which on records may yet be taken back, or consumers may not read them:
    /// compaction leaves those alone. The last stable offset of a leader.
    fn stable_offset(&self) -> Offset;
}
