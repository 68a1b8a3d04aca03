//! Which leader epoch wrote which part of a log.

use logway_model::{LeaderEpoch, Offset};

/// The leader epochs of a log, in memory (KIP-101, KIP-279).
///
/// Both the epochs and their start offsets increase strictly from entry to entry: of two epochs
/// that start at one offset the earlier wrote nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LeaderEpochCache {
    entries: Vec<EpochEntry>,
}

/// A leader epoch and the offset of the first record written in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochEntry {
    /// The epoch.
    pub epoch: LeaderEpoch,
    /// Where it starts.
    pub start_offset: Offset,
}

/// The end of what a log holds of an epoch; the answer to OffsetsForLeaderEpoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochEnd {
    /// The largest epoch of the log that is not above the one asked for.
    pub epoch: LeaderEpoch,
    /// The offset after its last record.
    pub end_offset: Offset,
}

/// Where a follower cuts its log off, by what its leader has told it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TruncationPoint {
    /// What is from here on goes. It is not behind the log end.
    pub offset: Offset,
    /// What stays is the leader's, too. If not, the leader is asked again for the newest epoch that
    /// stays.
    pub is_final: bool,
}

/// Whether a follower has what its leader has, up to where it wants to go on (KIP-595).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Divergence {
    /// It has.
    None,
    /// It has something else: this is the leader's end of the epoch that the follower has, or of the
    /// largest one below.
    At(EpochEnd),
    /// The leader does not know the epoch. In Apache Kafka the answer is OFFSET_OUT_OF_RANGE.
    UnknownEpoch,
}

impl EpochEntry {
    /// Whether `next` may follow this entry.
    pub(super) fn is_before(self, next: EpochEntry) -> bool {
        self.epoch < next.epoch && self.start_offset < next.start_offset
    }
}

impl LeaderEpochCache {
    /// A cache of entries that are known to increase.
    pub(super) fn from_increasing(entries: Vec<EpochEntry>) -> LeaderEpochCache {
        debug_assert!(entries.windows(2).all(|pair| pair[0].is_before(pair[1])));
        LeaderEpochCache { entries }
    }

    /// All entries, the oldest first.
    pub fn entries(&self) -> &[EpochEntry] {
        &self.entries
    }

    /// The newest entry.
    pub fn latest(&self) -> Option<EpochEntry> {
        self.entries.last().copied()
    }

    /// Notes that `epoch` starts at `start_offset`; returns whether anything changed, in which
    /// case the checkpoint must be written before records of the epoch are acknowledged.
    ///
    /// Entries that contradict the new one (a later or equal epoch, or one that starts at or
    /// after it) are dropped: the log is what it is, and this is its newest part. An epoch that
    /// is already the latest keeps its start unless the new one is earlier.
    pub fn assign(&mut self, epoch: LeaderEpoch, start_offset: Offset) -> bool {
        assert!(epoch.0 >= 0 && start_offset.0 >= 0, "an epoch of the log is a real one");
        let new = EpochEntry { epoch, start_offset };
        let mut changed = false;
        while let Some(latest) = self.latest().filter(|latest| !latest.is_before(new)) {
            // It goes on behind an epoch that has no record any more.
            if latest.epoch == epoch && latest.start_offset <= start_offset {
                return changed;
            }
            self.entries.pop();
            changed = true;
        }
        self.entries.push(new);
        true
    }

    /// Where the log's records of `epoch` end, given its log end offset.
    ///
    /// If the log has no record of that epoch, the answer is about the largest epoch below; if
    /// it has none below either, the answer keeps the asked epoch and gives the start of the
    /// first one above. `None` if the epoch is unknown: [`LeaderEpoch::NONE`], above the latest, or
    /// the cache is empty.
    pub fn end_offset_for(&self, epoch: LeaderEpoch, log_end: Offset) -> Option<EpochEnd> {
        let latest = self.latest()?;
        if epoch == latest.epoch {
            return Some(EpochEnd { epoch, end_offset: log_end });
        }
        if epoch.0 < 0 {
            return None;
        }
        let above = self.entries.partition_point(|entry| entry.epoch <= epoch);
        let end_offset = self.entries.get(above)?.start_offset;
        let at_or_below = above.checked_sub(1).map(|index| self.entries[index].epoch);
        Some(EpochEnd { epoch: at_or_below.unwrap_or(epoch), end_offset })
    }

    /// The leader's side of a Fetch of a follower whose log ends at `fetch_offset`, with a record of
    /// `fetched_epoch` before (KIP-595; `Partition.readRecords` in Apache Kafka).
    pub fn divergence(
        &self,
        fetched_epoch: LeaderEpoch,
        fetch_offset: Offset,
        log_end: Offset,
    ) -> Divergence {
        match self.end_offset_for(fetched_epoch, log_end) {
            None => Divergence::UnknownEpoch,
            Some(end) if end.epoch < fetched_epoch || end.end_offset < fetch_offset => {
                Divergence::At(end)
            }
            Some(_) => Divergence::None,
        }
    }

    /// The follower's side: where it cuts its log, which ends at `log_end`, when its leader has
    /// answered `leader` about the follower's newest epoch (KIP-101, KIP-279;
    /// `AbstractFetcherThread.getOffsetTruncationState` in Apache Kafka).
    ///
    /// If the follower has the epoch of the answer, both have the same records of it as far as the
    /// shorter of them goes. If not, nothing behind the largest epoch below is the leader's, and of that
    /// one the leader has yet to be asked.
    pub fn truncation_point(&self, leader: EpochEnd, log_end: Offset) -> TruncationPoint {
        match self.end_offset_for(leader.epoch, log_end) {
            Some(own) if own.epoch != leader.epoch => {
                TruncationPoint { offset: own.end_offset.min(log_end), is_final: false }
            }
            Some(own) => TruncationPoint {
                offset: own.end_offset.min(leader.end_offset).min(log_end),
                is_final: true,
            },
            // All that is here is of earlier epochs, or nobody knows of which.
            None => TruncationPoint { offset: leader.end_offset.min(log_end), is_final: true },
        }
    }

    /// The epoch that wrote the record at `offset`.
    pub fn epoch_at(&self, offset: Offset) -> Option<LeaderEpoch> {
        let above = self.entries.partition_point(|entry| entry.start_offset <= offset);
        above.checked_sub(1).map(|index| self.entries[index].epoch)
    }

    /// Follows a truncation of the log's end to `end`: epochs that start there or later go.
    ///
    /// Returns whether anything changed.
    pub fn truncate_from_end(&mut self, end: Offset) -> bool {
        let kept = self.entries.partition_point(|entry| entry.start_offset < end);
        let changed = kept < self.entries.len();
        self.entries.truncate(kept);
        changed
    }

    /// Follows an advance of the log's start to `start`: epochs that end there or earlier go,
    /// and the one that goes on over `start` begins there.
    ///
    /// Returns whether anything changed.
    pub fn truncate_from_start(&mut self, start: Offset) -> bool {
        let not_after = self.entries.partition_point(|entry| entry.start_offset <= start);
        let Some(first) = not_after.checked_sub(1) else { return false };
        let changed = first > 0 || self.entries[0].start_offset != start;
        self.entries.drain(..first);
        self.entries[0].start_offset = start;
        changed
    }

    /// Forgets everything, as when a follower starts its log anew.
    pub fn clear(&mut self) {
        self.entries.clear();
    }
}
