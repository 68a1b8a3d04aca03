//! Power cuts, by the seed.
//!
//! A *world* is one broker's storage: the engine (`logway-log`) with its threads, its producers' state
//! and its checkpoints, and the group coordinator upon it, all as they run in production, on a disk
//! in memory that loses what was not synced. A random workload runs in it; at a random change of the disk the power
//! goes, or the process is killed; then the world starts again, and may be cut off in the middle of
//! that, too. All of it follows from one number, the seed.
//!
//! Beside it an oracle (`model`) remembers what was promised. After each start this must hold:
//!
//! - Every acknowledged record is at its offset, with its bytes and its leader epoch, and is found by
//!   its offset and by its timestamp.
//! - What a consumer could see is there, and behind it at most what was sent, in the order in which
//!   it was sent. Offsets have no gaps.
//! - Of a compacted log the newest record of each key is there, unless it is a tombstone whose time is
//!   over, and all that the cleaner was not yet at. What is there is as it was sent, and no record is
//!   there of whose key a newer one is gone. What was seen to be gone, in a life too, is never back.
//! - A batch that is sent again is a duplicate if the log has it, and is taken if not; one that
//!   leaves out a sequence is refused.
//! - A replica that follows has a beginning of what its leader has sent, gaps filled, with all that was
//!   acknowledged. Where its end is cut off it is as it was or cut off; what was cut off never comes back
//!   once that is acknowledged, and nothing counts as lost. It claims no high watermark that was not said.
//! - A log starts where the last acknowledged DeleteRecords or retention left it.
//! - No committed offset has gone back.
//! - A deleted topic does not come back, and one that is made anew has nothing of the one before it.
//! - A crash is no damage: no log is offline, and nothing is reported but an end that was cut off.
//!
//! `cluster` does the same with whole clusters.
//!
//! [`MUTATIONS`] each leave out one thing that the engine does to keep this. A simulation that does
//! not notice is worth nothing, so the tests hold that it notices each.
//!
//! | module | what it is about |
//! |---|---|
//! | `plan` | how a world is made |
//! | `world` | its lives, one after the other |
//! | `steps` | what happens in a life |
//! | `start`, `check` | starting again, and what must hold then |
//! | `model` | the oracle |
//! | `cluster` | worlds of several nodes |
//! | `mutation` | what is left out to see whether it is missed |

mod batch;
mod broker;
mod check;
mod clock;
mod cluster;
pub mod command;
mod model;
mod mutation;
mod plan;
mod report;
mod run;
mod start;
mod steps;
mod violation;
mod world;

pub use cluster::{
    CLUSTER_MUTATIONS, ClusterMutation, ClusterReport, Transactions, run_cluster, run_directed,
};
pub use mutation::{MUTATIONS, Mutation};
pub use report::Report;
pub use run::run;
pub use violation::Violation;
