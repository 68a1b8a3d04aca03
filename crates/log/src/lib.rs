//! The storage engine: the only crate that touches partition data files.
//!
//! A [`LogDir`] is a directory of [`Log`]s, one for each partition, in Apache Kafka's own layout. A
//! log is a list of segments: files of record batches, each with an index from offsets and one from
//! timestamps. One *writer thread* for each directory owns the ends of all its logs: it takes what
//! waits, writes it, syncs it once for all, and answers. Readers load an immutable picture of a log
//! and are told which bytes of which files to send; no record is copied or decoded on either way.
//!
//! | module | what it is about |
//! |---|---|
//! | [`LogDir`], [`Log`] | what the broker holds |
//! | `writer` | the thread that changes logs: appends, syncs, rolls, retention, checkpoints |
//! | `log_state` | what readers and the writer share of a log |
//! | `follow` | what a follower appends |
//! | `read` | from offsets and timestamps to places in files |
//! | `file_names` | the names of the files in the directory of a log |
//! | `segment`, `view`, `scan` | a segment; the picture of a log; walking batches |
//! | `transactions` | what readers see of transactions: the last stable offset |
//! | `cleaner` | compaction: of each key the newest record stays |
//! | `recovery` | opening a log, after a crash or in good order |
//! | [`inspect`] | a look at the files from outside |
//! | [`index`], [`checkpoint`], [`producer_state`] | the small files beside the batches |
//! | [`fs`] | the disk, and a simulated one |
//!
//! The layers, the highest first. A module uses those below its own, so that nobody has to know the writer
//! to understand the files, or the directory to understand the writer:
//!
//! 1. `follow`, `cleaner`, [`LogDir`]: many logs, and the threads that work for them.
//! 2. [`Log`]: the shared state of a log, and the way to the writer.
//! 3. `writer`: its files are in layers of their own, which it lists.
//! 4. `log_state`: the newest picture of a log, and what else its readers and its writer see. It knows no way
//!    to the writer. The writer, the background thread and their jobs own it, and never a `Log`: that
//!    owns the queue, which owns the writer while its thread sleeps.
//! 5. `recovery`, `read`, `view`, `transactions`, and how the cleaner swaps files.
//! 6. `segment`, [`index`], [`producer_state`], `journal`, [`checkpoint`], [`fs`].
//!
//! What holds at every moment, whatever fails:
//!
//! - An append to a durable log is answered after its bytes, and the name of their file, are on
//!   stable storage.
//! - The log end and the flushed offset that readers see never cover bytes that are not written, or
//!   not on stable storage.
//! - After a crash a log is a beginning of what was appended, and has all that was answered as
//!   durable. An offset that was given is not given again for another record, unless that record
//!   was cut off with the unflushed end.
//! - What was appended is there until retention, compaction or DeleteRecords takes it, or a follower's end
//!   is cut off.
//! - Damage to what was on stable storage is reported and never truncated. Nor is its loss taken
//!   for an empty log.
//! - Nothing that lies on the disk of one log applies to another of the same name.

pub use append::{AppendBatches, AppendFuture, AppendOutcome, HeldAppend};
pub use cleaner::{CleanerMetrics, CleanerOptions, LogCleaner};
pub use clock::{Clock, ManualClock, SystemClock};
pub use completion::Completion;
pub use config::{CleanupPolicy, LogConfig};
pub use error::LogError;
pub use failure_listener::FailureListener;
pub use file_names::ACCEPT_LOSS_FILE;
pub use follow::{FollowedEnd, FollowerAppend, FollowerBatches};
pub use log::Log;
pub use log_dir::{CompactionPause, LogDir, LogDirOptions, NewLog, Truncation};
pub use logway_record::TimestampType;
pub use metrics::LogMetrics;
pub use producer_state::{AbortedTransaction, AppendOrigin, VerificationGuard};
pub use random::random_uuid;
pub use read::{
    CommittedSlice, FileRange, ReadRequest, ReadSlice, TimestampLookup, TimestampedOffset,
};
pub use recovery::{Finding, RecoveryReport};
pub use tail_listener::TailListener;
pub use writer::InlineRound;

mod append;
pub mod checkpoint;
mod cleaner;
mod clock;
mod completion;
mod config;
mod dir_syncs;
mod error;
mod failure_listener;
mod file_names;
mod follow;
pub mod fs;
mod gaps;
mod high_watermarks;
pub mod index;
pub mod inspect;
mod journal;
mod log;
mod log_dir;
mod log_state;
mod metrics;
pub mod producer_state;
mod random;
mod read;
mod recovery;
mod resync;
mod scan;
mod segment;
mod tail_listener;
mod transactions;
mod trust;
mod view;
mod writer;
