//! Work that waits for the disk, away from tasks that must not wait.

use crate::error::QuorumError;
use crate::options::DiskWork;

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
