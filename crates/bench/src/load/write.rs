//! Writing files as a broker's log grows: what a produce could be at best.

use std::fs::{self, File};
use std::io::IoSlice;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Instant;

use anyhow::{Context, ensure};

use super::{Load, Run};
use crate::files::create_directory;
use crate::generator::{BatchShape, EncodedBatch, Observed, Window};
use crate::measure::{Durability, Parameters, Snapshot};
use crate::side::Side;
use crate::vectored::write_at;

/// As long as segments are.
const FILE_BYTES: u64 = 1 << 30;

/// Writes batches to files, one after the other, without a broker: how fast the system takes what
/// is not synced.
#[derive(Debug, Clone)]
pub(crate) struct WriteLoad {
    pub(crate) batch: BatchShape,
    pub(crate) record_bytes: usize,
}

impl Load for WriteLoad {
    fn parameters(&self) -> anyhow::Result<Parameters> {
        let batch = EncodedBatch::of_size(self.batch, self.record_bytes)?;
        Ok(Parameters {
            durability: Some(Durability::Unsynced),
            ..Parameters::of_batch(batch.size(), self.record_bytes)
        })
    }

    fn written_bytes_max(&self, _side: &Side, _run: &Run) -> anyhow::Result<u64> {
        // It is only for brokers that were started here.
        Ok(0)
    }

    async fn run(&self, side: &mut Side, run: &Run) -> anyhow::Result<Observed> {
        let directory = side.scratch_directory()?;
        let batch = EncodedBatch::of_size(self.batch, self.record_bytes)?;
        let run = run.clone();
        let write = move || {
            create_directory(&directory)?;
            let observed = write_all(&directory, &batch, &run);
            fs::remove_dir_all(&directory)?;
            observed
        };
        tokio::task::spawn_blocking(write).await.context("the writer failed")?
    }
}

fn write_all(directory: &Path, batch: &EncodedBatch, run: &Run) -> anyhow::Result<Observed> {
    let window = Window::starting_now(run.warm_up, run.measured);
    let mut observed = Observed::new(window);
    let mut before = None;
    let mut number = 0;
    loop {
        number += 1;
        let path = directory.join(number.to_string());
        let file = File::create(&path).with_context(|| path.display().to_string())?;
        let mut written = 0;
        while written < FILE_BYTES {
            ensure!(!run.stop.load(Ordering::Relaxed), "the run was called off");
            write_at(&file, &mut [IoSlice::new(&batch.bytes)], written)
                .with_context(|| path.display().to_string())?;
            written += batch.bytes.len() as u64;
            let now = Instant::now();
            if now >= window.from {
                before.get_or_insert_with(|| Snapshot::take(&[]));
            }
            if now >= window.to {
                observed.usage = before.map(|before| before.until_now()).unwrap_or_default();
                return Ok(observed);
            }
            observed.count(now, batch.payload());
        }
    }
}
