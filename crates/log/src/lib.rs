//! The storage engine: the only crate that touches partition data files.

pub use append::{AppendBatches, AppendFuture, AppendOutcome};
pub use clock::{Clock, ManualClock, SystemClock};
pub use completion::Completion;
pub use config::{CleanupPolicy, LogConfig};
pub use error::LogError;
pub use log::Log;
pub use log_dir::{LogDir, LogDirOptions};
pub use logway_record::TimestampType;
pub use metrics::LogMetrics;
pub use read::{FileRange, ReadRequest, ReadSlice, TimestampedOffset};
pub use recovery::{Finding, RecoveryReport};
pub use tail_listener::TailListener;

mod append;
pub mod checkpoint;
mod clock;
mod completion;
mod config;
mod error;
pub mod fs;
pub mod index;
pub mod inspect;
mod log;
mod log_dir;
mod metrics;
pub mod producer_state;
mod read;
mod recovery;
mod scan;
mod segment;
mod tail_listener;
mod view;
mod writer;
