//! What an operator can set.

use crate::cluster_view::{ConsumerOverrides, StreamsOverrides};
use crate::consumer::Assignor;

/// The limits and times that a shard goes by.
///
/// Those that Kafka has keep its name (in the comments) and meaning. The others bound what Kafka leaves unbounded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupSettings {
    /// `group.min.session.timeout.ms`: JoinGroup asking for less gets INVALID_SESSION_TIMEOUT. Kafka's default, 6 s.
    pub session_timeout_min_ms: i32,
    /// `group.max.session.timeout.ms`: JoinGroup asking for more gets INVALID_SESSION_TIMEOUT. Kafka's default, 30 min.
    pub session_timeout_max_ms: i32,
    /// `group.initial.rebalance.delay.ms`: how long the first rebalance of an empty group waits for more members
    /// (KIP-134). Kafka's default, 3 s.
    pub initial_rebalance_delay_ms: u32,
    /// How long a JoinGroup of a new member may wait: its client cannot send heartbeats yet. Kafka's constant, 5 min.
    pub new_member_join_timeout_ms: u32,
    /// `group.max.size`: members of a group, those that were only given an id among them; one more gets
    /// GROUP_MAX_SIZE_REACHED (KIP-389). Default 10,000; Kafka has no limit.
    pub group_size_max: usize,
    /// Groups of a shard. A member or an offset of one more gets POLICY_VIOLATION. Default 50,000.
    pub groups_max: usize,
    /// Bytes that one member can make the coordinator keep: its names, its protocols and their metadata. JoinGroup
    /// with more gets POLICY_VIOLATION. Default 1 MiB.
    pub member_bytes_max: usize,
    /// Bytes that one group can make the coordinator keep: its members' and their assignments. JoinGroup beyond them
    /// gets GROUP_MAX_SIZE_REACHED; an assignment beyond them fails as one that the log refuses, with
    /// UNKNOWN_SERVER_ERROR. Default 32 MiB.
    pub group_bytes_max: usize,
    /// Partitions of which a group can commit offsets; those beyond get INVALID_COMMIT_OFFSET_SIZE. Default 100,000.
    pub group_offsets_max: usize,
    /// Bytes of the records that one OffsetCommit or OffsetDelete can make, each of which repeats the names of group and
    /// topic. Partitions beyond get INVALID_COMMIT_OFFSET_SIZE. Default 16 MiB; Kafka refuses the whole request if its
    /// records are over the `max.message.bytes` of `__consumer_offsets`, 1 MiB.
    pub commit_bytes_max: usize,
    /// `offset.metadata.max.bytes`: a commit with a longer text gets OFFSET_METADATA_TOO_LARGE. Kafka's default, 4096.
    pub offset_metadata_max_units: usize,
    /// `offsets.retention.minutes`, in milliseconds: how long the offsets of a group without members are kept
    /// (KIP-211). Kafka's default, 7 days.
    pub offsets_retention_ms: i64,
    /// `offsets.retention.check.interval.ms`: how often offsets are looked through for such. Kafka's default, 10 min.
    pub offsets_retention_check_interval_ms: u32,
    /// Records of one append, where they need not be appended together. Default 1000.
    pub append_records_max: usize,
    /// Bytes of one append, where its records need not be appended together. Default 1 MiB.
    pub append_bytes_max: usize,
    /// What consumer groups go by.
    pub consumer: ConsumerSettings,
    /// What streams groups go by.
    pub streams: StreamsSettings,
}

/// The limits and times of streams groups (KIP-1071).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamsSettings {
    /// `group.streams.session.timeout.ms`: a member that is silent for longer is removed. Kafka's default, 45 s.
    pub session_timeout: Bounded,
    /// `group.streams.heartbeat.interval.ms`: how often members say that they live. Kafka's default, 5 s.
    pub heartbeat_interval: Bounded,
    /// `group.streams.assignment.interval.ms`: the least time between two assignments (KIP-1263). Kafka's default, 1 s.
    pub assignment_interval: Bounded,
    /// `group.streams.initial.rebalance.delay.ms`: how long the first assignment waits for more members. Kafka's default,
    /// 3 s.
    pub initial_rebalance_delay_ms: u32,
    /// `group.streams.num.standby.replicas`: standbys of each task that has state. Kafka's default, none.
    pub standby_replicas: u32,
    /// `group.streams.max.standby.replicas`: the most that counts of what is set for a group. Kafka's default, 2.
    pub standby_replicas_max: u32,
    /// `group.streams.max.size`: one member more gets GROUP_MAX_SIZE_REACHED. Default 10,000; Kafka has no limit.
    pub size_max: usize,
    /// Subtopologies of an application. One with more gets STREAMS_INVALID_TOPOLOGY. Default 1,000; Kafka has no limit.
    pub subtopologies_max: usize,
    /// Tasks of an application, standbys not counted. One with more is told INCORRECTLY_PARTITIONED_TOPICS. Default
    /// 50,000; Kafka has no limit.
    pub tasks_max: usize,
}

/// The limits and times of consumer groups (KIP-848).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerSettings {
    /// `group.consumer.session.timeout.ms`: a member that is silent for longer is removed. Kafka's default, 45 s.
    pub session_timeout: Bounded,
    /// `group.consumer.heartbeat.interval.ms`: how often members say that they live. Kafka's default, 5 s.
    pub heartbeat_interval: Bounded,
    /// `group.consumer.assignment.interval.ms`: the least time between two assignments (KIP-1263). Kafka's default, 1 s.
    pub assignment_interval: Bounded,
    /// `group.consumer.max.size`: one member more gets GROUP_MAX_SIZE_REACHED. Default 10,000; Kafka has no limit.
    pub size_max: usize,
    /// `group.consumer.assignors`: those that members may ask for; the first is the default.
    pub assignors: Vec<Assignor>,
    /// `group.consumer.regex.refresh.interval.ms`: after so long patterns are matched with all topics anew. Kafka's
    /// default, 10 min.
    pub pattern_refresh_interval_ms: u32,
    /// Bytes of a regular expression. A longer one gets INVALID_REGULAR_EXPRESSION. Default 4096; Kafka has no limit.
    pub pattern_bytes_max: usize,
    /// Regular expressions of a group. One more gets INVALID_REGULAR_EXPRESSION. Default 32; Kafka has no limit.
    pub patterns_max: usize,
    /// `group.consumer.migration.policy`: whether a classic group becomes a consumer group while it has members.
    pub upgrades: bool,
    /// `group.consumer.migration.policy`: whether a consumer group becomes a classic group while it has members.
    pub downgrades: bool,
}

/// A time that can be set for each group, within bounds. All are in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounded {
    /// What it is where nothing is set for the group.
    pub default_ms: u32,
    /// The least that counts.
    pub min_ms: u32,
    /// The most that counts.
    pub max_ms: u32,
}

impl Bounded {
    /// What it is for a group.
    fn value_ms(self, set: Option<u32>) -> u32 {
        // What was set may be from before the bounds were.
        set.map_or(self.default_ms, |set| set.max(self.min_ms).min(self.max_ms.max(self.min_ms)))
    }
}

impl ConsumerSettings {
    /// How long a member may be silent.
    pub(crate) fn session_timeout_ms(&self, overrides: &ConsumerOverrides) -> u32 {
        self.session_timeout.value_ms(overrides.session_timeout_ms)
    }

    /// How often it is to say something.
    pub(crate) fn heartbeat_interval_ms(&self, overrides: &ConsumerOverrides) -> u32 {
        self.heartbeat_interval.value_ms(overrides.heartbeat_interval_ms)
    }

    /// The least time between two assignments.
    pub(crate) fn assignment_interval_ms(&self, overrides: &ConsumerOverrides) -> u32 {
        self.assignment_interval.value_ms(overrides.assignment_interval_ms)
    }
}

impl StreamsSettings {
    /// How long a member may be silent.
    pub(crate) fn session_timeout_ms(&self, overrides: &StreamsOverrides) -> u32 {
        self.session_timeout.value_ms(overrides.session_timeout_ms)
    }

    /// How often it is to say something.
    pub(crate) fn heartbeat_interval_ms(&self, overrides: &StreamsOverrides) -> u32 {
        self.heartbeat_interval.value_ms(overrides.heartbeat_interval_ms)
    }

    /// The least time between two assignments.
    pub(crate) fn assignment_interval_ms(&self, overrides: &StreamsOverrides) -> u32 {
        self.assignment_interval.value_ms(overrides.assignment_interval_ms)
    }

    /// How long the first assignment waits for more members.
    pub(crate) fn initial_delay_ms(&self, overrides: &StreamsOverrides) -> u32 {
        overrides.initial_rebalance_delay_ms.unwrap_or(self.initial_rebalance_delay_ms)
    }

    /// How many standbys a task that has state shall have.
    pub(crate) fn standby_replicas(&self, overrides: &StreamsOverrides) -> u32 {
        match overrides.standby_replicas {
            Some(set) => set.min(self.standby_replicas_max),
            None => self.standby_replicas,
        }
    }
}

impl Default for StreamsSettings {
    fn default() -> StreamsSettings {
        let bounded = |default_ms, min_ms, max_ms| Bounded { default_ms, min_ms, max_ms };
        StreamsSettings {
            session_timeout: bounded(45_000, 45_000, 60_000),
            heartbeat_interval: bounded(5_000, 5_000, 15_000),
            assignment_interval: bounded(1_000, 0, 15_000),
            initial_rebalance_delay_ms: 3_000,
            standby_replicas: 0,
            standby_replicas_max: 2,
            size_max: 10_000,
            subtopologies_max: 1_000,
            tasks_max: 50_000,
        }
    }
}

impl Default for ConsumerSettings {
    fn default() -> ConsumerSettings {
        let bounded = |default_ms, min_ms, max_ms| Bounded { default_ms, min_ms, max_ms };
        ConsumerSettings {
            session_timeout: bounded(45_000, 45_000, 60_000),
            heartbeat_interval: bounded(5_000, 5_000, 15_000),
            assignment_interval: bounded(1_000, 0, 15_000),
            size_max: 10_000,
            assignors: Assignor::ALL.to_vec(),
            pattern_refresh_interval_ms: 10 * 60 * 1000,
            pattern_bytes_max: 4096,
            patterns_max: 32,
            upgrades: true,
            downgrades: true,
        }
    }
}

impl Default for GroupSettings {
    fn default() -> GroupSettings {
        GroupSettings {
            session_timeout_min_ms: 6_000,
            session_timeout_max_ms: 30 * 60 * 1000,
            initial_rebalance_delay_ms: 3_000,
            new_member_join_timeout_ms: 5 * 60 * 1000,
            group_size_max: 10_000,
            groups_max: 50_000,
            member_bytes_max: 1 << 20,
            group_bytes_max: 32 << 20,
            group_offsets_max: 100_000,
            commit_bytes_max: 16 << 20,
            offset_metadata_max_units: 4096,
            offsets_retention_ms: 7 * 24 * 60 * 60 * 1000,
            offsets_retention_check_interval_ms: 10 * 60 * 1000,
            append_records_max: 1000,
            append_bytes_max: 1 << 20,
            consumer: ConsumerSettings::default(),
            streams: StreamsSettings::default(),
        }
    }
}
