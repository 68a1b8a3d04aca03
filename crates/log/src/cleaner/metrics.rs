//! What the cleaner tells about its work.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use logway_model::TopicPartition;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use super::round::RoundOutcome;

/// Counters of a cleaner, and what it has last found out about each log. Cloning gives another
/// handle to the same values; the names are `logway_log_cleaner_…` once registered.
#[derive(Debug, Clone)]
pub struct CleanerMetrics {
    /// The time of one round of cleaning one log, in seconds.
    pub round_seconds: Histogram,
    /// Rounds that ended with an error.
    pub failed_rounds: Counter,
    /// Bytes of segments that were rewritten, as they were before.
    pub cleaned_bytes: Counter,
    /// Bytes of the segments that took their place.
    pub written_bytes: Counter,
    /// Records that were looked at and stayed.
    pub kept_records: Counter,
    /// Records that went because a newer one has their key, or their transaction was aborted.
    pub superseded_records: Counter,
    /// Tombstones and transaction markers that went when their time had come.
    pub deleted_records: Counter,
    /// Records that went because they have no key.
    pub keyless_records: Counter,
    states: Arc<Mutex<Vec<PartitionState>>>,
}

/// What the cleaner knows of a log.
#[derive(Debug, Clone)]
pub(super) struct PartitionState {
    pub(super) partition: TopicPartition,
    pub(super) dirty_ratio: f64,
    /// How much longer than it may the oldest dirty record waits.
    pub(super) overdue_ms: i64,
    /// What is dirty of it, if it cannot be cleaned.
    pub(super) uncleanable_bytes: Option<u64>,
}

/// So many partitions have a gauge of their own, the dirtiest first.
const PARTITIONS_SHOWN_MAX: usize = 1000;

impl Default for CleanerMetrics {
    fn default() -> CleanerMetrics {
        CleanerMetrics {
            // 1 ms to 4.6 hours.
            round_seconds: Histogram::new(exponential_buckets(1e-3, 4.0, 13)),
            failed_rounds: Counter::default(),
            cleaned_bytes: Counter::default(),
            written_bytes: Counter::default(),
            kept_records: Counter::default(),
            superseded_records: Counter::default(),
            deleted_records: Counter::default(),
            keyless_records: Counter::default(),
            states: Arc::default(),
        }
    }
}

impl CleanerMetrics {
    /// Metrics that start at zero.
    pub fn new() -> CleanerMetrics {
        CleanerMetrics::default()
    }

    /// Makes the metrics part of what the process exports.
    pub fn register(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(States(Arc::clone(&self.states))));
        let registry = registry.sub_registry_with_prefix("logway_log_cleaner");
        let help = "Time of one round of compacting one log";
        registry.register("round_seconds", help, self.round_seconds.clone());
        let counters = [
            ("failed_rounds", "Rounds of compaction that ended with an error", &self.failed_rounds),
            ("cleaned_bytes", "Bytes of segments that were compacted", &self.cleaned_bytes),
            ("written_bytes", "Bytes of the segments that took their place", &self.written_bytes),
            ("kept_records", "Records that compaction looked at and kept", &self.kept_records),
            (
                "superseded_records",
                "Records that went because a newer one has their key or their transaction was \
                 aborted",
                &self.superseded_records,
            ),
            (
                "deleted_records",
                "Tombstones and transaction markers that went when their time had come",
                &self.deleted_records,
            ),
            (
                "keyless_records",
                "Records that compaction removed because they have no key",
                &self.keyless_records,
            ),
        ];
        for (name, help, counter) in counters {
            registry.register(name, help, counter.clone());
        }
    }

    pub(super) fn observe(&self, outcome: &RoundOutcome, elapsed: Duration) {
        self.round_seconds.observe(elapsed.as_secs_f64());
        self.cleaned_bytes.inc_by(outcome.read_bytes);
        self.written_bytes.inc_by(outcome.written_bytes);
        self.kept_records.inc_by(outcome.counts.kept);
        self.superseded_records.inc_by(outcome.counts.superseded);
        self.deleted_records.inc_by(outcome.counts.deleted);
        self.keyless_records.inc_by(outcome.counts.keyless);
    }

    pub(super) fn set_states(&self, mut states: Vec<PartitionState>) {
        states.sort_by(|one, other| other.dirty_ratio.total_cmp(&one.dirty_ratio));
        *self.states.lock().unwrap_or_else(PoisonError::into_inner) = states;
    }

    /// How many logs could not be cleaned when they were last looked at.
    pub fn uncleanable_partitions(&self) -> usize {
        let states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        states.iter().filter(|state| state.uncleanable_bytes.is_some()).count()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PartitionLabel {
    topic: String,
    partition: i32,
}

/// Shows what was last found out.
#[derive(Debug)]
struct States(Arc<Mutex<Vec<PartitionState>>>);

impl Collector for States {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let states = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let uncleanable = states.iter().filter_map(|state| state.uncleanable_bytes);
        let overdue_ms = states.iter().map(|state| state.overdue_ms).max().unwrap_or(0);
        let gauges = [
            (
                "logway_log_cleaner_max_dirty_ratio",
                "The largest share of a compacted log that is not compacted yet, of what can be",
                states.first().map_or(0.0, |state| state.dirty_ratio),
            ),
            (
                "logway_log_cleaner_max_compaction_delay_seconds",
                "How much longer than max.compaction.lag.ms a record waits to be compacted, at most",
                overdue_ms as f64 / 1000.0,
            ),
            (
                "logway_log_cleaner_uncleanable_partitions",
                "Partitions that cannot be compacted; the broker's log says why",
                uncleanable.clone().count() as f64,
            ),
            (
                "logway_log_cleaner_uncleanable_bytes",
                "What those partitions have that is not compacted",
                uncleanable.sum::<u64>() as f64,
            ),
        ];
        for (name, help, value) in gauges {
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        let name = "logway_log_cleaner_dirty_ratio";
        let help = "How much of a compacted log is not compacted yet, of what can be; of the 1,000 \
                    dirtiest partitions";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for state in states.iter().take(PARTITIONS_SHOWN_MAX) {
            let topic = state.partition.topic.to_string();
            let label = PartitionLabel { topic, partition: state.partition.partition.0 };
            ConstGauge::new(state.dirty_ratio).encode(family.encode_family(&label)?)?;
        }
        Ok(())
    }
}
