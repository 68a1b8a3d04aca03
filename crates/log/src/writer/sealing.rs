//! How far the sealing of a log has come: see [`seal`](super::seal).

use std::collections::VecDeque;
use std::sync::Arc;

use logway_model::Offset;

use super::seal_job::SealJob;
use super::snapshot_room::WaitingSnapshot;
use crate::LogError;
use crate::log_state::LogState;
use crate::producer_state::snapshot::Snapshot;
use crate::segment::Segment;

/// The sealing of one log, as the writer sees it.
#[derive(Debug, Default)]
pub(super) struct Sealing {
    /// The full segments that are not sealed, the oldest first.
    pub(super) unsealed: VecDeque<Arc<Segment>>,
    /// What is to be sealed next.
    pub(super) next: Option<SealJob>,
    /// The background thread has a job of this log.
    pub(super) is_under_way: bool,
    /// The log stands in line.
    pub(super) is_in_line: bool,
    /// Why the last try failed.
    pub(super) error: Option<LogError>,
}

impl Sealing {
    /// For a log that was opened, whose segments `unsealed` recovery did not seal. Without a
    /// snapshot of the producers they are sealed with the next roll, or by the close.
    ///
    /// The snapshot is no larger than the producers that it is of, and their number has a bound: it
    /// needs no room among those that wait.
    pub(super) fn of_recovered(
        log: &Arc<LogState>,
        unsealed: Vec<Arc<Segment>>,
        active: &Segment,
        snapshot: Option<Snapshot>,
    ) -> Sealing {
        let snapshot = snapshot.map(WaitingSnapshot::apart);
        let next = (!unsealed.is_empty()).then(|| SealJob {
            log: Arc::clone(log),
            segments: unsealed.clone(),
            end: active.base_offset(),
            snapshot,
            index_interval_bytes: log.config().index_interval_bytes,
        });
        Sealing { unsealed: unsealed.into(), next, ..Sealing::default() }
    }

    /// Where the oldest segment that is not sealed begins.
    pub(super) fn begins(&self) -> Option<Offset> {
        self.unsealed.front().map(|segment| segment.base_offset())
    }

    /// Forgets segments that were deleted: those before `start`.
    pub(super) fn forget_before(&mut self, start: Offset) {
        self.unsealed.retain(|segment| segment.base_offset() >= start);
        if let Some(job) = &mut self.next {
            job.segments.retain(|segment| segment.base_offset() >= start);
        }
        self.next.take_if(|job| job.segments.is_empty());
    }

    /// Why something could not be sealed that still waits.
    pub(super) fn error(&self) -> Option<LogError> {
        self.error.clone().filter(|_| !self.unsealed.is_empty())
    }

    /// Keeps a job that could not be done, as part of the next one if there is one.
    pub(super) fn take_back(&mut self, mut job: SealJob, error: LogError) {
        self.error = Some(error);
        let Some(start) = self.begins() else { return };
        job.segments.retain(|segment| segment.base_offset() >= start);
        if job.segments.is_empty() {
            return;
        }
        self.next = Some(match self.next.take() {
            None => job,
            Some(mut newer) => {
                job.segments.append(&mut newer.segments);
                SealJob { segments: job.segments, ..newer }
            }
        });
    }
}
