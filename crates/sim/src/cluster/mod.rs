//! Whole clusters, by the seed.
//!
//! A *world* has three nodes or five: real ones ([`logway_node::Node`]) with their logs, their replication, their
//! controller and the quorum. Each stands on a disk in memory that loses what was not synced, and they are connected by a
//! network in memory that loses, delays and repeats messages. Clients write and read all the time, through the node
//! that leads as some node believes. Meanwhile processes are killed, machines lose their power, one or all at once, links are cut,
//! disks hang or fail. In half of the worlds partitions are moved between nodes, and moves cancelled.
//!
//! At the end all is well again. Then within bounded time all replicas must be in sync and take records, and this must
//! hold:
//!
//! - Every record that all replicas in sync have acknowledged is at its offset, with its bytes.
//! - What a reader has seen, from a leader or a follower, is there, in its epoch. No two readers have seen different
//!   records at an offset.
//! - A batch of an idempotent producer, which is sent until it is acknowledged, is there once.
//! - Nothing is there that nobody has sent, and offsets have no gaps.
//! - All replicas have the same batches in the same epochs, and know the same of producers and of aborted transactions.
//! - Who is in sync or eligible to lead has all of that, at any moment: on its disk, if the topic is durable.
//! - No node has ended by itself unless its disk has failed, and nothing has panicked.
//!
//! In half of the worlds there are transactions, with promises of their own (`transactions/invariants`):
//!
//! - No record of a transaction that is aborted or open is given to a `read_committed` reader.
//! - A transaction is all or nothing, over its partitions and the offsets of its group.
//! - A producer that is fenced writes nothing, and ends nothing.
//! - A `read_committed` reader gets nothing from behind the last stable offset, and what it was given stays.
//! - Offsets of a group are of committed transactions, and never go back.
//!
//! The seed gives the *plan* of a world. It does not give the interleaving: the nodes run on threads, in real time. A
//! seed that has broken a promise may have to be lived a few times to break it again.
//!
//! | module | what it is about |
//! |---|---|
//! | `plan` | how a world is made, and what befalls it |
//! | `world`, `end` | its life, and what must hold at its end |
//! | `machine`, `life` | nodes, with what survives them |
//! | `directed` | worlds that are made for one rule each |
//! | `network` | what they say to each other |
//! | `replicas` | whether all replicas have the same |
//! | `producer`, `reader`, `moves`, `removal` | clients; those that move partitions and leaders, and that remove nodes |
//! | `transactions` | producers and readers of transactions, and what must hold of these |
//! | `oracle` | what was promised |
//! | `watcher` | whether those who may lead have it, at any moment |
//! | `patience` | how long something is waited for |
//! | `mutation` | what is left out to see whether it is missed |

mod directed;
mod end;
mod life;
mod machine;
mod moves;
mod mutation;
mod network;
mod oracle;
mod patience;
mod plan;
mod producer;
mod reader;
mod removal;
mod replicas;
mod report;
mod transactions;
mod watcher;
mod world;

use std::panic;
use std::sync::{Mutex, Once, PoisonError};

use logway_log::fs::sim::Rng;
use tokio::runtime::Builder;

pub use mutation::{CLUSTER_MUTATIONS, ClusterMutation};
use plan::Plan;
pub use plan::Transactions;
pub use report::ClusterReport;
use world::World;

use crate::violation::{Violation, ensure};

/// Held by who lives a cluster.
static LIVING: Mutex<()> = Mutex::new(());

/// What has panicked, in any thread of the process.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Lives the cluster of a seed, in which a mutation is in force if there is one. Where that is about transactions, there are
/// some.
///
/// Clusters of one process live one after the other. So what panics is of the one that lives.
///
/// # Errors
///
/// The promise that was broken.
pub fn run_cluster(
    seed: u64,
    transactions: Transactions,
    mutation: Option<&'static ClusterMutation>,
) -> Result<ClusterReport, Violation> {
    let world = World::new(seed, transactions, mutation);
    run(seed, world, async |world| world.live().await)
}

/// Lives the worlds that are made for one rule each. The seed says what of a disk is lost, and what is late.
///
/// # Errors
///
/// The promise that was broken.
pub fn run_directed(
    seed: u64,
    mutation: Option<&'static ClusterMutation>,
) -> Result<ClusterReport, Violation> {
    let of_lives = World::planned(Plan::calm(), Rng::new(seed), mutation);
    let mut report = run(seed, of_lives, async |world| world.return_in_another_life().await)?;
    let plan = Plan { nodes: 5, ..Plan::calm() };
    let of_markers = World::planned(plan, Rng::new(seed), mutation);
    report += run(seed, of_markers, async |world| world.lose_a_marker().await)?;
    let plan = Plan { nodes: 5, ..Plan::calm() };
    let of_coordinators = World::planned(plan, Rng::new(seed), mutation);
    report += run(seed, of_coordinators, async |world| world.ask_a_replaced().await)?;
    Ok(report)
}

fn run(
    seed: u64,
    mut world: World,
    live: impl AsyncFnOnce(&mut World) -> Result<ClusterReport, Violation>,
) -> Result<ClusterReport, Violation> {
    let _living = LIVING.lock().unwrap_or_else(PoisonError::into_inner);
    note_panics();
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| Violation::new(format!("no runtime: {error}")))?;
    let lived = runtime.block_on(async {
        let lived = live(&mut world).await;
        world.leave();
        lived
    });
    runtime.shutdown_background();
    // What has panicked may be why something else did not come about.
    let panics = std::mem::take(&mut *PANICS.lock().unwrap_or_else(PoisonError::into_inner));
    let panics =
        ensure(panics.is_empty(), || format!("something has panicked: {}", panics.join("; ")));
    let lived = match (lived, panics) {
        (Err(violation), Err(panics)) => Err(Violation::new(format!("{violation}\n{panics}"))),
        (lived, panics) => panics.and(lived),
    };
    lived.map_err(|violation| Violation::new(format!("world {seed}: {violation}")))
}

fn note_panics() {
    static NOTED: Once = Once::new();
    NOTED.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            before(panic);
            PANICS.lock().unwrap_or_else(PoisonError::into_inner).push(panic.to_string());
        }));
    });
}
