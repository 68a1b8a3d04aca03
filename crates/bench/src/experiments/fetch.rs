//! Reading what has just been written, as consumers that keep up do.

use crate::load::FetchLoad;
use crate::session::Session;
use crate::works;

const EXPERIMENT: &str = "fetch";

pub(super) async fn run(session: &mut Session<'_>) -> anyhow::Result<()> {
    for (work, fetch_bytes) in [(works::FETCH_1_MIB, 1 << 20), (works::FETCH_8_MIB, 8 << 20)] {
        let load = FetchLoad { fetch_bytes, ..FetchLoad::default() };
        session.measure(EXPERIMENT, work, &load).await?;
    }
    Ok(())
}
