//! What a follower checks of what its leader has sent.
//!
//! The leader has judged the batches, and given them their offsets and epochs. So nothing is refused
//! because of a producer's sequence: the state of producers follows the log, as it does in a recovery.
//! What is refused contradicts the log here (Apache Kafka, `UnifiedLog.appendAsFollower`):
//!
//! | what | why |
//! |---|---|
//! | an answer that was not asked for at the log end | the one before it was refused: what looks like a gap is what that one had |
//! | a batch that begins before the log end | the log has a record there |
//! | an epoch below the newest of the log | the epochs of a log do not go down |
//! | an epoch above the one that is followed | the leader of that epoch cannot have it |
//! | an epoch that is over | this replica leads by now, or follows another leader |
//!
//! The leader's log may have gaps, which compaction has left. A start after a crash takes a gap for the
//! place where the log was cut off, so a batch without records fills it. The log has the same
//! records as the leader's, and not always the same bytes.

use logway_model::{LeaderEpoch, Offset};
use logway_record::Batch;

use super::log_request::Offsets;
use super::log_tail::LogTail;
use super::round::Round;
use super::staging::Placed;
use crate::gaps::without_gaps;
use crate::{AppendBatches, AppendOutcome, LogError};

impl LogTail {
    /// Stages what the leader has from `from` on, with batches without records where offsets are
    /// missing.
    pub(super) fn stage_followed(
        &mut self,
        append: AppendBatches,
        from: Offset,
        round: &mut Round,
    ) -> Result<Placed, LogError> {
        if let Some(error) = self.poisoned() {
            return Err(error);
        }
        let end = round.staging.next_offset(self.view.end.offset);
        if from != end {
            let partition = self.log.topic_partition().clone();
            return Err(LogError::OffsetNotNext { partition, end, got: from });
        }
        let append = AppendBatches { batches: without_gaps(end, append.batches), ..append };
        self.stage(&append, Offsets::Followed(from), round)
    }

    /// Checks a batch of the leader of the epoch `followed` against what is before it, and notes it
    /// with its producer; says where it is, which is where it was.
    pub(super) fn place_followed(
        &mut self,
        batch: &Batch,
        followed: LeaderEpoch,
        round: &mut Round,
    ) -> Result<AppendOutcome, LogError> {
        let header = batch.header();
        let (end, latest) = round.staging.last_placed().unwrap_or_else(|| {
            let latest = self.view.epochs.latest().map_or(LeaderEpoch::NONE, |entry| entry.epoch);
            (self.view.end.offset, latest)
        });
        let got = header.leader_epoch;
        if got < latest || got > followed {
            let partition = self.log.topic_partition().clone();
            let offset = header.base_offset;
            return Err(LogError::EpochOutOfOrder { partition, offset, latest, followed, got });
        }
        self.place_copy(batch, end, &mut round.staging)
    }
}
