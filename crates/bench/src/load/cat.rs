//! Reading a broker's files as `cat` does: what a fetch could be at best.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;

use super::fetch::{FetchLoad, Reading};
use super::{Load, NO_KAFKA, Run};
use crate::generator::{Observed, Payload, Window};
use crate::measure::{Parameters, Snapshot};
use crate::side::Side;

/// What `cat` reads at a time.
const READ_BYTES: usize = 128 << 10;

/// Has a broker store what the fetch would read, and reads its segments from start to end without
/// the broker.
#[derive(Debug, Clone)]
pub(crate) struct CatLoad {
    pub(crate) like: FetchLoad,
}

impl Load for CatLoad {
    fn parameters(&self) -> anyhow::Result<Parameters> {
        let fetch_bytes = READ_BYTES as u64;
        // Nobody asks a broker for anything.
        Ok(Parameters { consumers: 0, in_flight: 0, fetch_bytes, ..self.like.parameters()? })
    }

    fn refusal(&self, side: &Side) -> Option<&'static str> {
        match side.nodes() {
            1 => side.peer.map(|_| NO_KAFKA),
            _ => Some("has each record in the files of several nodes"),
        }
    }

    fn written_bytes_max(&self, _side: &Side, _run: &Run) -> anyhow::Result<u64> {
        // It is only for brokers that were started here.
        Ok(0)
    }

    async fn run(&self, side: &mut Side, run: &Run) -> anyhow::Result<Observed> {
        let stored = self.like.store(side, run).await?;
        let segments = side.segments(&stored.topic)?;
        let pids = side.pids.clone();
        let is_cached = self.like.reading != Reading::Uncached;
        let read = move || read_all(&segments, is_cached, &pids);
        let mut observed =
            tokio::task::spawn_blocking(read).await.context("the reader failed")??;
        // What was read has more around the values: this way it is counted as a fetch of the same.
        let payload = stored.batch.payload().times(stored.batches);
        (observed.records, observed.value_bytes) = (payload.records, payload.value_bytes);
        stored.topic.delete().await?;
        Ok(observed)
    }
}

fn read_all(
    segments: &[PathBuf],
    is_cached: bool,
    broker_pids: &[u32],
) -> anyhow::Result<Observed> {
    if !is_cached {
        crate::side::drop_from_memory(segments)?;
    }
    let (before, start) = (Snapshot::take(broker_pids), Instant::now());
    let mut observed = Observed::new(Window { from: start, to: start + Duration::from_secs(3600) });
    let mut buffer = vec![0; READ_BYTES];
    for path in segments {
        let mut file = File::open(path).with_context(|| path.display().to_string())?;
        loop {
            let read = file.read(&mut buffer).with_context(|| path.display().to_string())?;
            if read == 0 {
                break;
            }
            observed.count(Instant::now(), Payload { records: 0, value_bytes: read as u64 });
        }
    }
    observed.counted = Some(start.elapsed());
    observed.usage = before.until_now();
    Ok(observed)
}
