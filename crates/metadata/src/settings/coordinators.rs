//! What the coordinators of a broker were started with.

use std::time::Duration;

/// The settings of the group coordinator.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupCoordinatorSettings {
    /// `group.min.session.timeout.ms`
    pub session_timeout_min_ms: i32,
    /// `group.max.session.timeout.ms`
    pub session_timeout_max_ms: i32,
    /// `group.initial.rebalance.delay.ms`
    pub initial_rebalance_delay: Duration,
    /// `logway.groups.max.bytes`
    pub memory_max_bytes: usize,
    /// `group.max.size`
    pub group_size_max: usize,
    /// What consumer groups go by.
    pub consumer: ConsumerGroupSettings,
    /// What streams groups go by.
    pub streams: StreamsGroupSettings,
    /// `offset.metadata.max.bytes`
    pub offset_metadata_max_units: usize,
    /// `offsets.retention.minutes`
    pub offsets_retention: Duration,
    /// `offsets.retention.check.interval.ms`
    pub offsets_retention_check_interval: Duration,
    /// `offsets.topic.compression.codec`, a codec's number.
    pub offsets_topic_codec: u8,
    /// `offsets.topic.num.partitions`
    pub offsets_topic_partitions: i32,
    /// `offsets.topic.replication.factor`, if it is not that of any topic.
    pub offsets_topic_replicas: Option<i16>,
    /// `offsets.topic.segment.bytes`
    pub offsets_topic_segment_bytes: i32,
}

/// The settings of consumer groups (KIP-848).
#[derive(Debug, Clone, PartialEq)]
pub struct ConsumerGroupSettings {
    /// Whether they are served: `group.coordinator.rebalance.protocols`
    pub is_served: bool,
    /// `group.consumer.session.timeout.ms`, with the least and the most that counts of a group's own.
    pub session_timeout_ms: [u32; 3],
    /// `group.consumer.heartbeat.interval.ms`, with the same.
    pub heartbeat_interval_ms: [u32; 3],
    /// `group.consumer.assignment.interval.ms` as it was given, with the same.
    pub assignment_interval_ms: [u32; 3],
    /// `group.consumer.max.size`
    pub size_max: usize,
    /// `group.consumer.assignors`
    pub assignors: Vec<String>,
    /// `group.consumer.regex.refresh.interval.ms`
    pub pattern_refresh_interval_ms: u32,
    /// Whether classic groups with members become consumer groups: `group.consumer.migration.policy`
    pub upgrades: bool,
    /// Whether consumer groups with members become classic groups: `group.consumer.migration.policy`
    pub downgrades: bool,
}

/// The settings of streams groups (KIP-1071).
#[derive(Debug, Clone, PartialEq)]
pub struct StreamsGroupSettings {
    /// Whether they are served: `group.coordinator.rebalance.protocols`
    pub is_served: bool,
    /// `group.streams.session.timeout.ms`, with the least and the most that counts of a group's own.
    pub session_timeout_ms: [u32; 3],
    /// `group.streams.heartbeat.interval.ms`, with the same.
    pub heartbeat_interval_ms: [u32; 3],
    /// `group.streams.assignment.interval.ms` as it was given, with the same.
    pub assignment_interval_ms: [u32; 3],
    /// `group.streams.initial.rebalance.delay.ms`
    pub initial_rebalance_delay_ms: u32,
    /// `group.streams.num.standby.replicas`
    pub standby_replicas: u32,
    /// `group.streams.max.standby.replicas`
    pub standby_replicas_max: u32,
    /// `group.streams.max.size`
    pub size_max: usize,
}

/// The settings of the transaction coordinator.
#[derive(Debug, Clone, PartialEq)]
pub struct TransactionCoordinatorSettings {
    /// `transaction.max.timeout.ms`
    pub timeout_max_ms: i32,
    /// `transactional.id.expiration.ms`
    pub id_expiration: Duration,
    /// `transaction.state.log.num.partitions`
    pub topic_partitions: i32,
    /// `transaction.state.log.replication.factor`, if it is not that of any topic.
    pub topic_replicas: Option<i16>,
    /// `transaction.state.log.min.isr`, if it is not that of any topic.
    pub topic_in_sync_min: Option<i16>,
    /// `transaction.state.log.segment.bytes`
    pub topic_segment_bytes: i32,
    /// `logway.transactions.max.bytes`
    pub memory_max_bytes: usize,
}
