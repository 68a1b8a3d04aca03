//! From nothing to the first answer.

use std::time::{Duration, Instant};

use super::{Load, Run};
use crate::generator::{Observed, Window};
use crate::measure::{Parameters, ProcessMemory};
use crate::side::Side;

/// How long a broker is left alone before its idle memory is looked at.
const IDLE: Duration = Duration::from_secs(2);

/// Why a side may not be started again.
pub(super) const NOT_KILLED: &str = "was running before, and only what was started here is killed";

/// Starts a broker that has been stopped in good order, and leaves it idle. The latency is the time until the
/// first answer, the memory that of the idle broker.
#[derive(Debug, Clone)]
pub(crate) struct StartLoad;

impl Load for StartLoad {
    fn parameters(&self) -> anyhow::Result<Parameters> {
        Ok(Parameters::default())
    }

    fn refusal(&self, side: &Side) -> Option<&'static str> {
        (!side.is_own()).then_some(NOT_KILLED)
    }

    fn written_bytes_max(&self, _side: &Side, _run: &Run) -> anyhow::Result<u64> {
        // It is only for brokers that were started here.
        Ok(0)
    }

    async fn run(&self, side: &mut Side, _run: &Run) -> anyhow::Result<Observed> {
        side.stop().await?;
        let took = side.start_again().await?;
        tokio::time::sleep(IDLE).await;
        Ok(started(side, took))
    }
}

/// What is seen of a start that took so long.
pub(super) fn started(side: &Side, took: Duration) -> Observed {
    let now = Instant::now();
    let mut observed = Observed::new(Window { from: now - took, to: now });
    observed.note_latency(took);
    observed.requests = 1;
    observed.usage.memory = ProcessMemory::of(&side.pids);
    observed
}
