//! The broker: connections, request handlers, partitions.
//!
//! A request's way: [`connection`] reads its frame, [`dispatch`] finds its handler, the handler
//! in `handlers/` answers it out of [`topics`] and [`partition`]s, and the connection sends the
//! answer when it is complete. Errors become Kafka's codes in [`failure`].

mod backoff;
pub mod broker;
pub mod connection;
mod disk_space;
pub mod dispatch;
pub mod failure;
pub mod fetch_session;
pub mod group_lag;
pub mod groups;
mod handlers;
mod heavy_work;
pub mod high_watermark;
mod inline_appends;
pub mod log_dirs;
pub mod log_levels;
pub mod metrics;
pub mod partition;
pub mod producer_ids;
pub mod quotas;
mod recompression;
mod reconcile;
pub mod replica_moves;
pub mod running;
pub mod telemetry;
pub mod topics;
mod unpacking;

pub use broker::Broker;
pub use log_levels::{Levels, LogLevels};
pub use running::{BrokerError, RunningBroker};

/// The target of lines about what clients can cause at will, which are limited in number.
pub(crate) const CLIENTS: &str = "logway_broker::clients";
