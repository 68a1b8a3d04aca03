//! The table of group settings (KIP-848, KIP-932, KIP-1071): Kafka 4.3's names, types, defaults and
//! bounds.
//!
//! Those of consumer groups (KIP-848) and of streams groups (KIP-1071) have their effect. The others are about a protocol
//! that this broker does not serve yet, and are kept for the day when it does. Of `share.auto.offset.reset` the durations are refused.

use super::coordinators::GroupCoordinatorSettings;
use super::definition::{Kind, Setting, look_up};
use crate::error::MetadataError;
use crate::image::Overrides;

/// The group setting of a name, or the error that says so and which name comes close.
pub fn group_setting(name: &str) -> Result<&'static Setting, MetadataError> {
    look_up(GROUP_SETTINGS, "group", name)
}

/// Checks what a group is to have against the broker's bounds, as Kafka 4.3 does: what is new in it, and that a member has
/// time for more than one heartbeat. Bounds that changed later say what counts of it.
pub(crate) fn check_group_overrides(
    present: &Overrides,
    wanted: &Overrides,
    broker: &GroupCoordinatorSettings,
) -> Result<(), MetadataError> {
    let GroupCoordinatorSettings { consumer, streams, .. } = broker;
    let bounded = [
        (CONSUMER_HEARTBEAT_SETTING, consumer.heartbeat_interval_ms),
        (CONSUMER_SESSION_SETTING, consumer.session_timeout_ms),
        (CONSUMER_ASSIGNMENT_SETTING, consumer.assignment_interval_ms),
        (STREAMS_HEARTBEAT_SETTING, streams.heartbeat_interval_ms),
        (STREAMS_SESSION_SETTING, streams.session_timeout_ms),
        (STREAMS_ASSIGNMENT_SETTING, streams.assignment_interval_ms),
    ];
    let is_new = |name: &str| present.get(name) != wanted.get(name);
    for (name, [_, least, most]) in bounded {
        let Some(value) = wanted.get(name).filter(|_| is_new(name)) else { continue };
        if !is_within(value, [least, most]) {
            let (kind, time) = name.split_once('.').expect("it is in the table");
            let by = format!("group.{kind}.min.{time} and group.{kind}.max.{time}");
            let reason = format!("the broker allows {least} to {most}, by {by}");
            return Err(group_setting(name)?.invalid(value, reason));
        }
    }
    let standbys = wanted.get(STREAMS_STANDBYS_SETTING);
    if let Some(value) = standbys.filter(|_| is_new(STREAMS_STANDBYS_SETTING))
        && !is_within(value, [0, streams.standby_replicas_max])
    {
        let most = streams.standby_replicas_max;
        let reason =
            format!("the broker allows 0 to {most}, by group.streams.max.standby.replicas");
        return Err(group_setting(STREAMS_STANDBYS_SETTING)?.invalid(value, reason));
    }
    let in_force = |(name, [given, least, most]): (&str, [u32; 3])| {
        let set = wanted.get(name).and_then(|value| value.parse::<u32>().ok());
        set.map_or(given, |set| set.max(least).min(most))
    };
    for (heartbeat, session) in [(bounded[0], bounded[1]), (bounded[3], bounded[4])] {
        let (interval, timeout) = (in_force(heartbeat), in_force(session));
        if timeout <= interval && (is_new(heartbeat.0) || is_new(session.0)) {
            let reason = format!("it must be greater than {}, which is {interval}", heartbeat.0);
            return Err(group_setting(session.0)?.invalid(&timeout.to_string(), reason));
        }
    }
    Ok(())
}

fn is_within(value: &str, [least, most]: [u32; 2]) -> bool {
    value.parse().is_ok_and(|value: u32| (least..=most).contains(&value))
}

const NO_PROTOCOL: &str = "groups of this protocol do not exist yet";

const fn row(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    unit: &'static str,
    doc: &'static str,
) -> Setting {
    Setting::dynamic(name, kind, default, unit, doc).without_effect(NO_PROTOCOL)
}

const fn ms(name: &'static str, min: i32, default: &'static str, doc: &'static str) -> Setting {
    row(name, Kind::int(min), default, "ms", doc)
}

const fn served_ms(
    name: &'static str,
    min: i32,
    default: &'static str,
    doc: &'static str,
) -> Setting {
    Setting::dynamic(name, Kind::int(min), default, "ms", doc)
}

/// How often the members of a consumer group say that they live.
pub const CONSUMER_HEARTBEAT_SETTING: &str = "consumer.heartbeat.interval.ms";
/// How long a member of a consumer group may be silent.
pub const CONSUMER_SESSION_SETTING: &str = "consumer.session.timeout.ms";
/// The least time between two assignments of a consumer group.
pub const CONSUMER_ASSIGNMENT_SETTING: &str = "consumer.assignment.interval.ms";

/// How often the members of a streams group say that they live.
pub const STREAMS_HEARTBEAT_SETTING: &str = "streams.heartbeat.interval.ms";
/// How long a member of a streams group may be silent.
pub const STREAMS_SESSION_SETTING: &str = "streams.session.timeout.ms";
/// The least time between two assignments of a streams group.
pub const STREAMS_ASSIGNMENT_SETTING: &str = "streams.assignment.interval.ms";
/// How long the first assignment of a streams group waits for more members.
pub const STREAMS_INITIAL_DELAY_SETTING: &str = "streams.initial.rebalance.delay.ms";
/// How many standby replicas the tasks of a streams group have.
pub const STREAMS_STANDBYS_SETTING: &str = "streams.num.standby.replicas";

const ASSIGNMENT_DOC: &str = "The least time between two assignments of the group.";
const HEARTBEAT_DOC: &str = "How often the members say that they live.";
const SESSION_DOC: &str = "A member that is silent for longer is removed.";

/// Every group setting, by name.
pub static GROUP_SETTINGS: &[Setting] = &[
    served_ms(CONSUMER_ASSIGNMENT_SETTING, 0, "1000", ASSIGNMENT_DOC),
    served_ms(CONSUMER_HEARTBEAT_SETTING, 1, "5000", HEARTBEAT_DOC),
    served_ms(CONSUMER_SESSION_SETTING, 1, "45000", SESSION_DOC),
    ms("share.assignment.interval.ms", 0, "1000", ASSIGNMENT_DOC),
    row(
        "share.auto.offset.reset",
        Kind::Word(&["latest", "earliest"]),
        "latest",
        "",
        "Where a share group begins to read a partition.",
    ),
    row(
        "share.delivery.count.limit",
        Kind::int(2),
        "5",
        "deliveries",
        "How often a record is delivered to a share group at most.",
    ),
    ms("share.heartbeat.interval.ms", 1, "5000", HEARTBEAT_DOC),
    row(
        "share.isolation.level",
        Kind::Word(&["read_committed", "read_uncommitted"]),
        "read_uncommitted",
        "",
        "Whether a share group gets the records of transactions before they are committed.",
    ),
    row(
        "share.partition.max.record.locks",
        Kind::int(100),
        "2000",
        "records",
        "How many records of a partition a share group may work on at once.",
    ),
    ms(
        "share.record.lock.duration.ms",
        1_000,
        "30000",
        "For how long a member of a share group has a record to itself.",
    ),
    row(
        "share.renew.acknowledge.enable",
        Kind::Boolean,
        "true",
        "",
        "Whether members of a share group may keep records for longer.",
    ),
    ms("share.session.timeout.ms", 1, "45000", SESSION_DOC),
    served_ms(STREAMS_ASSIGNMENT_SETTING, 0, "1000", ASSIGNMENT_DOC),
    served_ms(STREAMS_HEARTBEAT_SETTING, 1, "5000", HEARTBEAT_DOC),
    served_ms(
        STREAMS_INITIAL_DELAY_SETTING,
        0,
        "3000",
        "How long the first assignment of a streams group waits for more members.",
    ),
    Setting::dynamic(
        STREAMS_STANDBYS_SETTING,
        Kind::int(0),
        "0",
        "replicas",
        "How many standby replicas each task of a streams group has that has state.",
    ),
    served_ms(STREAMS_SESSION_SETTING, 1, "45000", SESSION_DOC),
];
