//! What the logs got in a round, for an entry in the journal: see [`journalling`](super::journalling).

use std::ops::Range;

use logway_model::{TopicId, Uuid};

use super::log_tail::LogTail;
use super::write_vector::WriteVector;
use crate::journal::EntryBuilder;
use crate::log_state::LogKey;
use crate::view::LogPoint;

/// Of a log that gets more in a round, the bytes are better written once: 128 KiB take as long to be written
/// twice as their file takes to grow.
const PIECE_MAX_BYTES: u64 = 96 << 10;

/// A round of more than that is synced as without a journal.
pub(super) const ROUND_MAX_BYTES: u64 = 1 << 20;

/// The pieces of a round, before it is known which logs are journalled.
#[derive(Debug, Default)]
pub(super) struct RoundPieces {
    is_wanted: bool,
    pub(super) builder: EntryBuilder,
    pub(super) pieces: Vec<RoundPiece>,
}

/// What a log got in one write.
#[derive(Debug)]
pub(super) struct RoundPiece {
    pub(super) key: LogKey,
    pub(super) start: LogPoint,
    pub(super) end: LogPoint,
    pub(super) encoded: Range<usize>,
}

impl RoundPieces {
    /// Forgets those of the round before; of this one they are noted if `is_wanted`.
    pub(super) fn begin(&mut self, is_wanted: bool) {
        self.is_wanted = is_wanted;
        self.builder.clear();
        self.pieces.clear();
    }

    /// Takes note of a write to a log from `start` to `end`, unless it is too large.
    pub(super) fn note_write(
        &mut self,
        tail: &LogTail,
        (start, end): (LogPoint, LogPoint),
        vector: &WriteVector,
    ) {
        let size_bytes = vector.size_bytes();
        let is_small =
            size_bytes <= PIECE_MAX_BYTES && self.builder.size_bytes() <= ROUND_MAX_BYTES as usize;
        if !self.is_wanted || !is_small || !tail.may_be_journalled(start) {
            return;
        }
        let id = (tail.log.topic_id(), tail.log.topic_partition());
        let (points, bytes) = ((start, end.offset), size_bytes as usize);
        let encoded = self.builder.add(id, points, bytes, |out| vector.copy_to(out));
        self.pieces.push(RoundPiece { key: tail.log.key(), start, end, encoded });
    }
}

impl LogTail {
    /// Whether what is written from `start` on may be put on stable storage in the journal.
    fn may_be_journalled(&self, start: LogPoint) -> bool {
        let is_known = self.log.topic_id() != TopicId(Uuid::ZERO);
        let is_all = start.offset == self.view.flushed.offset;
        is_known && is_all && !self.needs_dir_sync && self.poison.is_none()
    }

    /// Whether a piece is all of the log that is not on stable storage.
    pub(super) fn is_all(&self, piece: &RoundPiece) -> bool {
        piece.end == self.view.end && self.may_be_journalled(piece.start)
    }
}
