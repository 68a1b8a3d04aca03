//! Clusters of several nodes in one process: simulated disks, a simulated network and virtual time.
//!
//! `scenarios` tells one story each; `worlds` lives thousands of them by the seed. A longer run:
//!
//! ```text
//! QUORUM_WORLDS=5000 QUORUM_SEED=0 cargo test -p logway-quorum --test cluster worlds -- --nocapture
//! ```

mod leaving;
mod network;
mod nodes;
mod oracle;
mod real;
mod scenarios;
mod world;
mod worlds;

/// Runs a story in virtual time, on one thread.
fn in_virtual_time<T>(story: impl Future<Output = T>) -> T {
    // To see what the nodes log: QUORUM_LOG=debug.
    if let Ok(level) = std::env::var("QUORUM_LOG") {
        let level: tracing_subscriber::filter::LevelFilter = level.parse().expect("is a level");
        _ = tracing_subscriber::fmt().with_max_level(level).without_time().try_init();
    }
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true).build().expect("runs").block_on(story)
}
