//! The works of which `report/targets.rs` says what Logway is to reach, and no others.

use super::{AppendsArgs, DurabilityArg, LatencyArgs, WithDurability, appends, fetch, latency};
use super::{produce, start};
use crate::session::{Session, SessionArgs};

pub(super) async fn run(session: &mut Session<'_>, args: &SessionArgs) -> anyhow::Result<()> {
    let with = |durability: &[DurabilityArg]| WithDurability {
        durability: durability.to_vec(),
        session: args.clone(),
    };
    let (synced, unsynced) = (DurabilityArg::Synced, DurabilityArg::Unsynced);
    produce::run_some(session, &["16 KiB batches"], &[unsynced, synced]).await?;
    produce::run_some(session, &["1 MiB batches", "batch of 1"], &[unsynced]).await?;
    produce::run_files(session).await?;
    produce::run_some(session, &["100 partitions, 100 connections"], &[synced]).await?;

    let spread = AppendsArgs::usual(&with(&[unsynced, synced]));
    appends::run(session, &AppendsArgs { connections: vec![128], ..spread.clone() }).await?;
    let together = AppendsArgs::usual(&with(&[synced]));
    appends::run(session, &AppendsArgs { connections: vec![4], ..together }).await?;
    fetch::run_cached(session).await?;

    let paced = LatencyArgs::usual(&with(&[synced]));
    latency::run_acknowledged(session, &LatencyArgs { no_ladder: true, ..paced }).await?;
    latency::run(session, &LatencyArgs::usual(&with(&[unsynced]))).await?;
    start::run(session).await
}
