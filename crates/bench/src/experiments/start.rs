//! How long users wait for a broker, and what it costs while it does nothing.

use crate::generator::BatchShape;
use crate::load::{RestartLoad, StartLoad};
use crate::session::Session;
use crate::side::is_limit;
use crate::works;

const EXPERIMENT: &str = "start";

pub(super) async fn run(session: &mut Session<'_>) -> anyhow::Result<()> {
    session.measure(EXPERIMENT, works::START, &StartLoad).await?;
    for (work, is_at_once) in [(works::RESTART, false), (works::RESTART_AT_ONCE, true)] {
        let batch = BatchShape::Bytes(1 << 20);
        let load = RestartLoad { is_at_once, batch, record_bytes: 1024 };
        session.measure_on(EXPERIMENT, work, &load, |side| !is_limit(side)).await?;
    }
    Ok(())
}
