//! Reading: what is in memory still, as consumers that keep up do, and what is not; beside `cat`
//! on the same files.

use crate::generator::BatchShape;
use crate::load::{CatLoad, FetchLoad};
use crate::session::Session;
use crate::works;

const EXPERIMENT: &str = "fetch";

pub(super) async fn run(session: &mut Session<'_>) -> anyhow::Result<()> {
    run_cached(session).await?;
    if !session.is_own() {
        for side in session.side_names() {
            for work in ["cat", "1 MiB uncached"] {
                session.omit(
                    (EXPERIMENT, work),
                    &side,
                    "was running before, and its files are not touched",
                );
            }
        }
        return Ok(());
    }
    for (is_cached, state) in [(true, "cached"), (false, "uncached")] {
        let like = load(1 << 20, is_cached);
        let work = format!("cat, {state}");
        session.measure_brokers(EXPERIMENT, &work, &CatLoad { like: like.clone() }).await?;
        if !is_cached {
            session.measure_brokers(EXPERIMENT, "1 MiB uncached", &like).await?;
        }
    }
    Ok(())
}

/// What is in memory still.
pub(super) async fn run_cached(session: &mut Session<'_>) -> anyhow::Result<()> {
    session.measure(EXPERIMENT, works::FETCH_1_MIB, &load(1 << 20, true)).await?;
    session.measure(EXPERIMENT, works::FETCH_8_MIB, &load(8 << 20, true)).await?;
    Ok(())
}

fn load(fetch_bytes: i32, is_cached: bool) -> FetchLoad {
    FetchLoad {
        batch: BatchShape::Bytes(16 << 10),
        record_bytes: 100,
        fetch_bytes,
        partitions: 1,
        is_cached,
        batches_max: u64::MAX,
    }
}
