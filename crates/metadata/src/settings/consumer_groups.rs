//! The broker's settings of consumer groups (KIP-848): Kafka 4.3's names, types, defaults and bounds.

use super::definition::{Kind, Setting};

/// The least time between two assignments of a consumer group.
pub const GROUP_ASSIGNMENT_INTERVAL_SETTING: &str = "group.consumer.assignment.interval.ms";

/// Each of them but one is given with a start.
pub(super) static CONSUMER_GROUP_SETTINGS: &[Setting] = &[
    Setting::dynamic(
        GROUP_ASSIGNMENT_INTERVAL_SETTING,
        Kind::int(0),
        "1000",
        "ms",
        "The least time between two assignments of a consumer group (KIP-1263).",
    ),
    Setting::at_start(
        "group.consumer.assignors",
        Kind::Words(&["uniform", "range"]),
        Some("uniform,range"),
        "",
        "The assignors that members of consumer groups may ask for; the first is used where none does.",
    ),
    Setting::at_start(
        "group.consumer.heartbeat.interval.ms",
        Kind::int(1),
        Some("5000"),
        "ms",
        "How often the members of consumer groups say that they live.",
    ),
    Setting::at_start(
        "group.consumer.max.assignment.interval.ms",
        Kind::int(0),
        Some("15000"),
        "ms",
        "The most that counts of `consumer.assignment.interval.ms` of a group.",
    ),
    Setting::at_start(
        "group.consumer.max.heartbeat.interval.ms",
        Kind::int(1),
        Some("15000"),
        "ms",
        "The most that counts of `consumer.heartbeat.interval.ms` of a group.",
    ),
    Setting::at_start(
        "group.consumer.max.session.timeout.ms",
        Kind::int(1),
        Some("60000"),
        "ms",
        "The most that counts of `consumer.session.timeout.ms` of a group.",
    ),
    Setting::at_start(
        "group.consumer.max.size",
        Kind::int(1),
        Some("10000"),
        "members",
        "How many members a consumer group may have; Kafka's own default is no limit.",
    ),
    Setting::at_start(
        "group.consumer.migration.policy",
        Kind::Word(&["bidirectional", "upgrade", "downgrade", "disabled"]),
        Some("bidirectional"),
        "",
        "Whether classic groups become consumer groups while they have members, and consumer groups classic ones.",
    ),
    Setting::at_start(
        "group.consumer.min.assignment.interval.ms",
        Kind::int(0),
        Some("0"),
        "ms",
        "The least that counts of `consumer.assignment.interval.ms` of a group.",
    ),
    Setting::at_start(
        "group.consumer.min.heartbeat.interval.ms",
        Kind::int(1),
        Some("5000"),
        "ms",
        "The least that counts of `consumer.heartbeat.interval.ms` of a group.",
    ),
    Setting::at_start(
        "group.consumer.min.session.timeout.ms",
        Kind::int(1),
        Some("45000"),
        "ms",
        "The least that counts of `consumer.session.timeout.ms` of a group.",
    ),
    Setting::at_start(
        "group.consumer.regex.refresh.interval.ms",
        Kind::int(10_000),
        Some("600000"),
        "ms",
        "After so long the regular expressions of a consumer group are matched with all topics anew. New topics are \
         seen earlier.",
    ),
    Setting::at_start(
        "group.consumer.session.timeout.ms",
        Kind::int(1),
        Some("45000"),
        "ms",
        "A member of a consumer group that is silent for longer is removed.",
    ),
    Setting::at_start(
        "group.coordinator.rebalance.protocols",
        Kind::Words(&["classic", "consumer", "streams"]),
        Some("classic,consumer,streams"),
        "",
        "The protocols of groups that are served. Without `consumer`, members of consumer groups are told \
         UNSUPPORTED_VERSION, and without `streams` those of streams groups.",
    ),
];
