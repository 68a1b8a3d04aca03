//! How far a truncation of a log has come: see [`truncate`](super::truncate).

use logway_model::Offset;

use super::log_request::LogRequest;
use super::truncate_job::TruncateJob;
use crate::LogError;
use crate::completion::Completer;
use crate::view::LogPoint;

/// What is left of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CutTo {
    /// The batches before an offset.
    Before(Offset),
    /// None; it goes on at an offset.
    Restart(Offset),
}

/// A truncation of a log, as the writer sees it.
#[derive(Debug)]
pub(super) struct Truncating {
    /// Where what is cut off begins.
    pub(super) cut: LogPoint,
    /// Where the log starts then, if nothing of it is left.
    pub(super) restart: Option<Offset>,
    /// Who waits for the end of it; `None` while it is prepared.
    pub(super) done: Option<Completer<Offset>>,
    /// To be tried again.
    pub(super) unfinished: Option<Box<TruncateJob>>,
    /// All is done but that the checkpoint has the new log start.
    pub(super) needs_checkpoint: bool,
    /// What comes meanwhile and concerns the log.
    pub(super) held: Vec<LogRequest>,
}

impl Truncating {
    /// Where the log ends in the end.
    pub(super) fn end(&self) -> Offset {
        self.restart.unwrap_or(self.cut.offset)
    }

    /// Tells who waits, if that is not done yet.
    pub(super) fn answer(&mut self, result: Result<Offset, LogError>) {
        if let Some(done) = self.done.take() {
            done.complete(result);
        }
    }

    /// The recovery point may not be behind it.
    pub(super) fn mark(&self) -> Offset {
        self.cut.offset.min(self.end())
    }
}
