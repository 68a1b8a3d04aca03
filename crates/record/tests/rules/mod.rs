//! The rules by which batches are judged whose topic nobody has configured. Also those of the benchmarks
//! (`leaf-benches`) and of fuzz targets (`crates/fuzz-targets`).

use logway_model::TimestampMs;
use logway_record::{AppendRules, DecodeLimit, TimestampType};

/// The time, of a leader and of its clients.
pub(crate) const NOW: TimestampMs = TimestampMs(1_700_000_000_000);

/// As Kafka's defaults, about.
pub(crate) const RULES: AppendRules = AppendRules {
    max_batch_bytes: 1 << 20,
    timestamp_type: TimestampType::CreateTime,
    timestamp_before_max_ms: i64::MAX,
    timestamp_after_max_ms: 3_600_000,
    keys_required: false,
    decode_limit: DecodeLimit::DEFAULT,
    compression: None,
    now: NOW,
};
