//! Batches of the sizes that matter: what a busy client sends, what fills the disk, and what a
//! client that cannot wait sends.

use super::DurabilityArg;
use crate::generator::BatchShape;
use crate::load::ProduceLoad;
use crate::session::Session;

const EXPERIMENT: &str = "produce";

pub(super) async fn run(
    session: &mut Session<'_>,
    durabilities: &[DurabilityArg],
) -> anyhow::Result<()> {
    for (work, load) in works() {
        for &durability in durabilities {
            let load = ProduceLoad { durability: durability.into(), ..load.clone() };
            session.measure(EXPERIMENT, work, &load).await?;
        }
    }
    Ok(())
}

fn works() -> [(&'static str, ProduceLoad); 6] {
    let usual = ProduceLoad::default();
    [
        ("16 KiB batches", usual.clone()),
        (
            "16 KiB batches, 6 partitions",
            ProduceLoad { partitions: 6, connections: 6, ..usual.clone() },
        ),
        (
            "1 MiB batches",
            ProduceLoad { batch: BatchShape::Bytes(1 << 20), record_bytes: 1024, ..usual.clone() },
        ),
        (
            "batch of 1",
            ProduceLoad {
                batch: BatchShape::Records(1),
                record_bytes: 200,
                in_flight: 50,
                ..usual.clone()
            },
        ),
        (
            "batch of 50",
            ProduceLoad {
                batch: BatchShape::Records(50),
                record_bytes: 200,
                in_flight: 50,
                ..usual.clone()
            },
        ),
        (
            "100 partitions, 100 connections",
            ProduceLoad {
                batch: BatchShape::Records(10),
                partitions: 100,
                connections: 100,
                in_flight: 1,
                ..usual
            },
        ),
    ]
}
