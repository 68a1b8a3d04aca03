//! How a world is made.

use std::path::PathBuf;

use logway_log::fs::sim::Rng;
use logway_log::{CleanupPolicy, LogConfig};

use crate::model::Kind;

/// What is the same for all lives of a world; it follows from the seed.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The log directories, each of one component.
    pub(crate) dirs: Vec<PathBuf>,
    durable: LogConfig,
    lazy: LogConfig,
    compacted: LogConfig,
    offsets: LogConfig,
    /// How often the world is started.
    pub(crate) lives: usize,
    /// A life ends at the latest at this change of the disk.
    pub(crate) changes_max: usize,
    /// A life ends at the latest after so many steps.
    pub(crate) steps_max: usize,
    /// The size of the journals: most are so small that they are filled many times.
    pub(crate) journal_bytes: u64,
    /// After so many rounds that are worth it there is one.
    pub(crate) journal_after_rounds: u32,
    /// From this size of their last segment on logs are not synced while they are opened.
    pub(crate) sync_later_bytes: u64,
    /// So much at the end of a segment is checked to the last byte after a kill.
    pub(crate) checked_bytes_min: u64,
    /// Operations of the disk may fail.
    pub(crate) is_disk_failing: bool,
    /// Logs are compacted, by a thread that looks at them while others change them. What it sees of two
    /// changes between which nothing is written is up to the machine's scheduler, so that such a world is not
    /// always the same.
    pub(crate) compacts: bool,
}

/// How old a record gets before retention may delete it.
const RETENTION_MS: u64 = 20_000;

impl Plan {
    /// The plan that a seed gives.
    pub(crate) fn new(random: &mut Rng, journal: &mut Rng) -> Plan {
        let dirs = 1 + [0, 0, 0, 1, 2][random.below(5)];
        let durable = LogConfig {
            segment_bytes: [300, 700, 2_000, 6_000][random.below(4)],
            segment_ms: [3_000, 1 << 40][random.below(2)],
            index_interval_bytes: [1, 150, 1_000][random.below(3)],
            retention_ms: Some(RETENTION_MS),
            retention_bytes: [None, Some(3_000)][random.below(2)],
            file_delete_delay_ms: [0, u64::MAX][random.below(2)],
            flush_messages: 1,
            ..LogConfig::default()
        };
        let flush_messages = [3, 20, u64::MAX][random.below(3)];
        // Many small segments, which become one.
        let compacted = LogConfig {
            segment_bytes: [700, 2_000, 6_000][random.below(3)],
            segment_ms: 1_000,
            cleanup: CleanupPolicy::Compact,
            min_cleanable_dirty_ratio: [0.0, 0.5][random.below(2)],
            min_compaction_lag_ms: [0, 0, 2_000][random.below(3)],
            delete_retention_ms: [0, 0, 5_000][random.below(3)],
            ..durable.clone()
        };
        let with_retention =
            LogConfig { cleanup: CleanupPolicy::CompactAndDelete, ..compacted.clone() };
        Plan {
            dirs: (0..dirs).map(|number| PathBuf::from(format!("/disk{number}"))).collect(),
            lazy: LogConfig { flush_messages, ..durable.clone() },
            compacted: if random.coin() { with_retention } else { compacted.clone() },
            offsets: compacted,
            durable,
            lives: 4 + random.below(8),
            changes_max: [30, 120, 400, 1_500][random.below(4)],
            steps_max: 5 + random.below(100),
            journal_bytes: [0, 16, 24, 32, 64, 256][journal.below(6)] << 10,
            journal_after_rounds: [0, 0, 1, 3][journal.below(4)],
            sync_later_bytes: [0, 1, 400, 1 << 20][journal.below(4)],
            checked_bytes_min: [0, 200, 1 << 20][journal.below(3)],
            is_disk_failing: random.below(4) == 0,
            compacts: random.below(4) > 0,
        }
    }
    /// The settings of the logs of a topic.
    pub(crate) fn config(&self, kind: Kind) -> &LogConfig {
        match kind {
            Kind::Durable | Kind::Followed => &self.durable,
            Kind::Lazy => &self.lazy,
            Kind::Compacted => &self.compacted,
            Kind::Offsets => &self.offsets,
        }
    }
}
