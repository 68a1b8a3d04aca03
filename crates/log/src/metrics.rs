//! What the storage engine tells about its work.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// The counters and histograms of a log directory, shared with its writer thread.
///
/// The names are `logway_log_…` once registered; cloning gives another handle to the same values.
#[derive(Debug, Clone)]
pub struct LogMetrics {
    /// Appends that one round of syncs made durable: the size of the group commit.
    pub group_commit_appends: Histogram,
    /// The time of one `fdatasync` of a segment, in seconds.
    pub sync_seconds: Histogram,
    /// `fdatasync`s of segments.
    pub syncs: Counter,
    /// Syncs of logs that could not be begun, for want of descriptors, and are tried again.
    pub delayed_syncs: Counter,
    /// Rounds of syncs that one write to the journal has replaced.
    pub journal_rounds: Counter,
    /// Bytes written to journals.
    pub journal_bytes: Counter,
    /// Journals that were given up because a write or a sync of them failed.
    pub journal_failures: Counter,
    /// Writes to segments.
    pub writes: Counter,
    /// Bytes of record batches written to segments.
    pub written_bytes: Counter,
    /// Appends that were answered with an error.
    pub failed_appends: Counter,
    /// Batches that were not appended because the log had them already.
    pub duplicate_batches: Counter,
    /// Idempotent producers that the logs remember.
    pub producers: Gauge,
    /// Transactions that are open in the logs.
    pub open_transactions: Gauge,
    /// Idempotent producers that were forgotten for want of room.
    pub evicted_producers: Counter,
}

impl Default for LogMetrics {
    fn default() -> LogMetrics {
        LogMetrics {
            group_commit_appends: Histogram::new(exponential_buckets(1.0, 2.0, 13)),
            // 25 µs to 1.6 s: from a sync that a RAM disk does to one behind a stuck disk.
            sync_seconds: Histogram::new(exponential_buckets(25e-6, 2.0, 17)),
            syncs: Counter::default(),
            delayed_syncs: Counter::default(),
            journal_rounds: Counter::default(),
            journal_bytes: Counter::default(),
            journal_failures: Counter::default(),
            writes: Counter::default(),
            written_bytes: Counter::default(),
            failed_appends: Counter::default(),
            duplicate_batches: Counter::default(),
            producers: Gauge::default(),
            open_transactions: Gauge::default(),
            evicted_producers: Counter::default(),
        }
    }
}

impl LogMetrics {
    /// Metrics that start at zero.
    pub fn new() -> LogMetrics {
        LogMetrics::default()
    }

    /// Makes the metrics part of what the process exports.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("logway_log");
        registry.register(
            "group_commit_appends",
            "Appends made durable by one round of syncs",
            self.group_commit_appends.clone(),
        );
        registry.register(
            "sync_seconds",
            "Time of one fdatasync of a segment",
            self.sync_seconds.clone(),
        );
        registry.register("syncs", "Segment fdatasyncs", self.syncs.clone());
        registry.register(
            "delayed_syncs",
            "Syncs of logs that could not be begun and are tried again",
            self.delayed_syncs.clone(),
        );
        registry.register(
            "journal_rounds",
            "Writes to the journal, each synced once for all logs that it is about",
            self.journal_rounds.clone(),
        );
        registry.register("journal_bytes", "Bytes written to journals", self.journal_bytes.clone());
        registry.register(
            "journal_failures",
            "Journals given up because a write or a sync of them failed",
            self.journal_failures.clone(),
        );
        registry.register("writes", "Segment writes", self.writes.clone());
        registry.register(
            "written_bytes",
            "Bytes of record batches written to segments",
            self.written_bytes.clone(),
        );
        registry.register(
            "failed_appends",
            "Appends answered with an error",
            self.failed_appends.clone(),
        );
        registry.register(
            "duplicate_batches",
            "Batches not appended because the log had them already",
            self.duplicate_batches.clone(),
        );
        registry.register(
            "producers",
            "Idempotent producers that the logs remember, once for each log",
            self.producers.clone(),
        );
        registry.register(
            "open_transactions",
            "Transactions that are open in the logs, once for each log; half of logway.producers.max may be",
            self.open_transactions.clone(),
        );
        registry.register(
            "evicted_producers",
            "Idempotent producers forgotten for want of room",
            self.evicted_producers.clone(),
        );
    }
}
