//! The broker's settings of streams groups (KIP-1071): Kafka 4.3's names, types, defaults and bounds.

use super::definition::{Kind, Setting};

/// The least time between two assignments of a streams group.
pub const STREAMS_ASSIGNMENT_INTERVAL_SETTING: &str = "group.streams.assignment.interval.ms";

const fn ms(name: &'static str, min: i32, default: &'static str, doc: &'static str) -> Setting {
    Setting::at_start(name, Kind::int(min), Some(default), "ms", doc)
}

/// Each of them but one is given with a start.
pub(super) static STREAMS_GROUP_SETTINGS: &[Setting] = &[
    Setting::dynamic(
        STREAMS_ASSIGNMENT_INTERVAL_SETTING,
        Kind::int(0),
        "1000",
        "ms",
        "The least time between two assignments of a streams group (KIP-1263).",
    ),
    ms(
        "group.streams.heartbeat.interval.ms",
        1,
        "5000",
        "How often the members of streams groups say that they live.",
    ),
    ms(
        "group.streams.initial.rebalance.delay.ms",
        0,
        "3000",
        "How long the first assignment of a streams group waits for more members.",
    ),
    ms(
        "group.streams.max.assignment.interval.ms",
        0,
        "15000",
        "The most that counts of `streams.assignment.interval.ms` of a group.",
    ),
    ms(
        "group.streams.max.heartbeat.interval.ms",
        1,
        "15000",
        "The most that counts of `streams.heartbeat.interval.ms` of a group.",
    ),
    ms(
        "group.streams.max.session.timeout.ms",
        1,
        "60000",
        "The most that counts of `streams.session.timeout.ms` of a group.",
    ),
    Setting::at_start(
        "group.streams.max.size",
        Kind::int(1),
        Some("10000"),
        "members",
        "How many members a streams group has at most.",
    ),
    Setting::at_start(
        "group.streams.max.standby.replicas",
        Kind::int(0),
        Some("2"),
        "replicas",
        "The most that counts of `streams.num.standby.replicas` of a group.",
    ),
    ms(
        "group.streams.min.assignment.interval.ms",
        0,
        "0",
        "The least that counts of `streams.assignment.interval.ms` of a group.",
    ),
    ms(
        "group.streams.min.heartbeat.interval.ms",
        1,
        "5000",
        "The least that counts of `streams.heartbeat.interval.ms` of a group.",
    ),
    ms(
        "group.streams.min.session.timeout.ms",
        1,
        "45000",
        "The least that counts of `streams.session.timeout.ms` of a group.",
    ),
    Setting::at_start(
        "group.streams.num.standby.replicas",
        Kind::int(0),
        Some("0"),
        "replicas",
        "How many standby replicas each task of a streams group has that has state.",
    ),
    ms(
        "group.streams.session.timeout.ms",
        1,
        "45000",
        "A member of a streams group that is silent for longer is removed.",
    ),
];
