//! Work that waits for the disk, away from tasks that must not wait.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::error::QuorumError;
use crate::options::DiskWork;

/// Whether the disk makes progress.
#[derive(Debug, Default)]
pub(crate) struct DiskProgress(Mutex<UnderWay>);

#[derive(Debug, Default)]
struct UnderWay {
    count: usize,
    /// When something was last done, or begun where nothing was under way.
    moved_at: Option<Instant>,
}

impl DiskProgress {
    /// Something begins; it ends with what is returned.
    pub(crate) fn begin(&self) -> WorkUnderWay<'_> {
        let mut under_way = self.under_way();
        if under_way.count == 0 {
            under_way.moved_at = Some(Instant::now());
        }
        under_way.count += 1;
        WorkUnderWay(self)
    }

    /// For how long nothing was done, though something is to be.
    pub(crate) fn stalled_for(&self) -> Duration {
        let under_way = self.under_way();
        let moved_at = under_way.moved_at.filter(|_| under_way.count > 0);
        moved_at.map_or(Duration::ZERO, |at| at.elapsed())
    }

    fn under_way(&self) -> MutexGuard<'_, UnderWay> {
        // What it guards is right after each step.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Work that is under way until this is dropped.
pub(crate) struct WorkUnderWay<'a>(&'a DiskProgress);

impl Drop for WorkUnderWay<'_> {
    fn drop(&mut self) {
        let mut under_way = self.0.under_way();
        under_way.count -= 1;
        under_way.moved_at = Some(Instant::now());
    }
}

impl DiskWork {
    /// Does some work where it holds up no other task.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, QuorumError> {
        match self {
            DiskWork::Threads => tokio::task::spawn_blocking(work)
                .await
                .map_err(|error| QuorumError::Stopped { reason: error.to_string() }),
            DiskWork::Inline(pause) => {
                let pause = pause();
                if !pause.is_zero() {
                    tokio::time::sleep(pause).await;
                }
                Ok(work())
            }
        }
    }

    /// As [`DiskWork::run`], of work that can fail.
    pub(crate) async fn try_run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, QuorumError> + Send + 'static,
    ) -> Result<T, QuorumError> {
        self.run(work).await?
    }
}
