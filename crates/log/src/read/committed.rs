//! Reading for those who must not see what was aborted.

use logway_model::{Offset, ProducerEpoch, ProducerId, Sequence};
use std::time::Instant;

use super::{ReadRequest, ReadSlice};
use crate::LogError;
use crate::index::Searched;
use crate::log::Log;
use crate::producer_state::{AbortedTransaction, VerificationGuard};
use crate::view::LogView;

/// Whole batches of a log, and which transactions in them were aborted.
#[derive(Debug, Clone, Default)]
pub struct CommittedSlice {
    /// The batches. The reader passes over those of an aborted transaction, from its first offset to its marker.
    pub slice: ReadSlice,
    /// The aborted transactions that have batches in the slice, in the order of their markers.
    pub aborted: Vec<AbortedTransaction>,
}

/// A reader is told of so many aborted transactions at once, about; with more, it gets less of the log.
const ABORTED_MAX: usize = 32 << 10;

impl Log {
    /// As [`Log::read`], with what a reader has to know to pass over aborted transactions. The upper bound of the request
    /// must be no higher than [`Log::last_stable_offset`].
    ///
    /// # Errors
    ///
    /// Those of [`Log::read`], also for the index of aborted transactions.
    pub fn read_committed(&self, request: ReadRequest) -> Result<CommittedSlice, LogError> {
        self.state().with_view(|view| {
            let mut request = request;
            loop {
                let slice = self.read_view(view, &request)?;
                let aborted = view.aborted(request.offset, slice.next_offset)?;
                let is_one_batch = request.max_bytes == 0;
                if aborted.len() <= ABORTED_MAX || is_one_batch {
                    return Ok(CommittedSlice { slice, aborted });
                }
                request.max_bytes = slice.size_bytes().min(request.max_bytes) / 4;
                request.at_least_one_batch = true;
            }
        })
    }

    /// Where `read_committed` readers stop, if everything before `high_watermark` is committed: there, or where the first
    /// transaction begins that is open or whose marker is not committed (KIP-98). Not before the log start.
    ///
    /// It does not go back while the high watermark does not.
    pub fn last_stable_offset(&self, high_watermark: Offset) -> Offset {
        let transactions = self.state().transactions();
        if !transactions.has_unstable() {
            return high_watermark;
        }
        let last_stable = transactions.last_stable(high_watermark);
        last_stable.max(self.log_start_offset()).min(high_watermark)
    }

    /// Whether the last stable offset may be another than the high watermark.
    pub fn has_unstable_transactions(&self) -> bool {
        self.state().transactions().has_unstable()
    }

    /// Whether a producer has a transaction open here that it began or went on with in this epoch. What it sends then needs
    /// no verification.
    pub fn has_open_transaction(&self, producer_id: ProducerId, epoch: ProducerEpoch) -> bool {
        self.state().transactions().is_open(producer_id, epoch)
    }

    /// Begins to verify that this partition is part of a producer's transaction: to be called *before* the coordinator is
    /// asked. Where it vouches, that is told by [`Log::vouch`](crate::Log::vouch). The batch is then appended with
    /// [`AppendOrigin::Verified`](crate::AppendOrigin::Verified), which is refused if a marker of the producer was appended
    /// meanwhile ([`LogError::UnverifiedTransaction`], KIP-890).
    ///
    /// `sequence` is the batch's first; `raises_epoch` says that the client raises its epoch with each transaction
    /// (transaction version 2), and so begins each with sequence 0. `None` while too many producers are being verified:
    /// the client is to try again.
    pub fn begin_verification(
        &self,
        producer_id: ProducerId,
        epoch: ProducerEpoch,
        sequence: Sequence,
        raises_epoch: bool,
    ) -> Option<VerificationGuard> {
        let producer = (producer_id, epoch);
        self.state()
            .transactions()
            .with_verifications(|all| all.begin(producer, sequence, raises_epoch, Instant::now()))
    }

    /// Says that the coordinator, in its epoch, vouches for what it was asked with the guard. A guard that nobody has vouched
    /// for is refused, and so is one that only a coordinator before the last marker's has vouched for
    /// ([`LogError::StaleCoordinator`]).
    pub fn vouch(&self, producer_id: ProducerId, guard: VerificationGuard, coordinator_epoch: i32) {
        self.state()
            .transactions()
            .with_verifications(|all| all.vouch(producer_id, guard, coordinator_epoch));
    }
}

impl LogView {
    /// The aborted transactions that have batches from `start` on and before `end`, in the order of their markers.
    fn aborted(&self, start: Offset, end: Offset) -> Result<Vec<AbortedTransaction>, LogError> {
        let mut found = Vec::new();
        if start >= end {
            return Ok(found);
        }
        for segment in &self.segments[self.segment_index(start)..] {
            let searched = segment.aborted.search(start, end, |aborted| found.push(aborted))?;
            if searched == Searched::Done {
                break;
            }
        }
        Ok(found)
    }
}
