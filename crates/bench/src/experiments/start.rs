//! How long users wait for a broker, and what it costs while it does nothing.

use crate::generator::BatchShape;
use crate::load::{RestartLoad, StartLoad};
use crate::session::Session;
use crate::side::is_limit;
use crate::works;

const EXPERIMENT: &str = "start";

pub(super) async fn run(session: &mut Session<'_>) -> anyhow::Result<()> {
    session.measure(EXPERIMENT, works::START, &StartLoad).await?;
    let load = RestartLoad { batch: BatchShape::Bytes(1 << 20), record_bytes: 1024 };
    session.measure_on(EXPERIMENT, works::RESTART, &load, |side| !is_limit(side)).await?;
    Ok(())
}
