//! Hours of a load that programs make, to see whether anything is lost, changed or slowly grows.

use crate::load::SoakLoad;
use crate::session::Session;

const EXPERIMENT: &str = "soak";

/// Records a second: what a broker bears beside everything else on a small machine.
const RATE: f64 = 5000.0;

pub(super) async fn run(session: &mut Session<'_>) -> anyhow::Result<()> {
    let load = SoakLoad { partitions: 6, rate: RATE };
    session.measure_brokers(EXPERIMENT, "each record verified", &load).await?;
    Ok(())
}
