//! Taking memory for what arrives in pieces, over any front door.

use std::future::Future;
use std::time::Duration;

use tokio::time::timeout;

use super::budget::BudgetShare;
use super::request_memory::RequestMemory;

/// While others wait for the memory of something that has not come whole, it must grow in each such interval by
/// [`PROGRESS_BYTES_MIN`] and by a tenth, or end.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

const PROGRESS_BYTES_MIN: usize = 64 << 10;

const PROGRESS_PARTS: usize = 10;

/// Something that comes in pieces over a network.
pub trait Arriving {
    /// Why no more comes.
    type Error;

    /// How much has come.
    fn come_bytes(&self) -> usize;

    /// Waits until so much has come, or all. Says whether it is all. Cancelled, it loses nothing.
    fn come_to(&mut self, enough: usize) -> impl Future<Output = Result<bool, Self::Error>> + Send;

    /// It came too slowly, while others waited for its memory.
    fn late() -> Self::Error;
}

/// How what arrives is counted.
#[derive(Debug, Clone, Copy)]
pub struct ArrivalRules {
    /// So much is not counted until it is whole.
    pub uncounted_bytes: usize,
    /// What was announced, or the most that may come.
    pub size_max: usize,
    /// What is held of each byte: as it came, and as what is made of it.
    pub held_factor: usize,
}

impl RequestMemory {
    /// Waits for the whole. Memory is taken as bytes come: nothing for a small thing until it is whole, then for the
    /// beginning of a larger one, and then for all of it.
    pub async fn take_arriving<A: Arriving + Send>(
        &self,
        arriving: &mut A,
        rules: ArrivalRules,
    ) -> Result<BudgetShare, A::Error> {
        let ArrivalRules { uncounted_bytes, size_max, held_factor } = rules;
        if arriving.come_to(uncounted_bytes).await? {
            return Ok(self.take_small(arriving.come_bytes() * held_factor).await);
        }
        let beginning = self.take_beginning().await;
        let beginning_bytes = self.beginning_bytes();
        let is_whole = self.come_on_to(arriving, beginning_bytes, size_max).await?;
        let held = if is_whole { arriving.come_bytes() } else { size_max };
        let share = self.take_large(held * held_factor).await;
        drop(beginning);
        if !is_whole {
            self.come_on_to(arriving, usize::MAX, size_max).await?;
        }
        Ok(share)
    }

    /// Waits for more of what holds memory: while others wait for that, it has to come on.
    async fn come_on_to<A: Arriving + Send>(
        &self,
        arriving: &mut A,
        enough: usize,
        size_max: usize,
    ) -> Result<bool, A::Error> {
        let progress = PROGRESS_BYTES_MIN.max(size_max / PROGRESS_PARTS);
        loop {
            let next = enough.min(arriving.come_bytes() + progress);
            match timeout(PROGRESS_INTERVAL, arriving.come_to(next)).await {
                Ok(is_whole) => {
                    if is_whole? {
                        return Ok(true);
                    }
                    if arriving.come_bytes() >= enough {
                        return Ok(false);
                    }
                }
                Err(_elapsed) if self.is_contended() => return Err(A::late()),
                Err(_elapsed) => {}
            }
        }
    }
}
