//! The works of which `report/targets.rs` says what Logway is to reach, and no others.

use super::{Appends, Latency, appends, fetch, latency, produce, start};
use crate::measure::Durability::{Synced, Unsynced};
use crate::session::Session;
use crate::works::{BATCH_OF_1, BATCHES_OF_1_MIB, BATCHES_OF_16_KIB, HUNDRED_PARTITIONS};

pub(super) async fn run(session: &mut Session<'_>) -> anyhow::Result<()> {
    produce::run_some(session, &[BATCHES_OF_16_KIB], &[Unsynced, Synced]).await?;
    produce::run_some(session, &[BATCHES_OF_1_MIB, BATCH_OF_1], &[Unsynced]).await?;
    produce::run_files(session).await?;
    produce::run_some(session, &[HUNDRED_PARTITIONS], &[Synced]).await?;

    let is_quick = session.lengths.is_quick;
    let alone = Appends::usual(&[Unsynced, Synced], is_quick);
    appends::run_appenders(session, &Appends { connections: vec![128], ..alone }).await?;
    let together = Appends::usual(&[Synced], is_quick);
    appends::run_appenders(session, &Appends { connections: vec![4], ..together }).await?;
    fetch::run(session).await?;

    let paced = Latency { no_ladder: true, ..Latency::usual(&[Synced]) };
    latency::run_acknowledged(session, &paced).await?;
    latency::run(session, &Latency::usual(&[Unsynced])).await?;
    start::run(session).await
}
