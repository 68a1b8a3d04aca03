//! Broker settings of Kafka that are taken and shown, and change nothing here: what they are about does
//! not exist in this program, or needs no setting.
//!
//! Tools and operators set them while a cluster runs, and a refusal stops the whole change (KIP-226). Those
//! that promise security, or where data goes, are not among them: who sets such a one must hear that
//! it cannot be had.

use super::definition::{Kind, Setting};
use super::topic::NO_TIERS;

const ONE_RUNTIME: &str =
    "there is no such pool: one runtime with a thread for each processor serves all connections";
const NO_BUFFERS: &str = "the buffers of the cleaner have a fixed size";
const NO_CLASSES: &str = "metrics are told at /metrics, and no classes can be loaded";
const ALWAYS_VERIFIED: &str =
    "it always is: records that come late would begin a transaction that nobody ends";
const NO_PROTOCOL: &str = "groups of this protocol do not exist yet";
const GROUP_MEMORY: &str = "the memory of groups is bounded by `logway.groups.max.bytes`";

const fn threads(name: &'static str, default: &'static str, doc: &'static str) -> Setting {
    Setting::dynamic(name, Kind::int(1), default, "threads", doc).without_effect(ONE_RUNTIME)
}

const fn tier(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    unit: &'static str,
    doc: &'static str,
) -> Setting {
    Setting::dynamic(name, kind, default, unit, doc).without_effect(NO_TIERS)
}

const fn interval(name: &'static str, doc: &'static str) -> Setting {
    Setting::dynamic(name, Kind::int(0), "1000", "ms", doc).without_effect(NO_PROTOCOL)
}

const fn cached_buffer(name: &'static str, doc: &'static str) -> Setting {
    Setting::dynamic(name, Kind::int(512 << 10), "1048588", "bytes", doc)
}

const UNLIMITED: &str = "9223372036854775807";

/// Each of them can be changed while the broker runs.
pub(super) static ACCEPTED_SETTINGS: &[Setting] = &[
    threads("background.threads", "10", "How many threads do work in the background."),
    tier(
        "follower.fetch.last.tiered.offset.enable",
        Kind::Boolean,
        "false",
        "",
        "Whether an empty follower begins behind what is tiered (KIP-1023).",
    ),
    cached_buffer(
        "group.coordinator.cached.buffer.max.bytes",
        "The largest buffer that the coordinator of groups keeps for the next write.",
    )
    .without_effect(GROUP_MEMORY),
    interval(
        "group.share.assignment.interval.ms",
        "The least time between two assignments of a share group.",
    ),
    Setting::dynamic(
        "log.cleaner.io.buffer.load.factor",
        Kind::Double { min: f64::MIN, max: f64::MAX },
        "0.9",
        "",
        "How full the cleaner's table of keys may become.",
    )
    .without_effect(NO_BUFFERS),
    Setting::dynamic(
        "log.cleaner.io.buffer.size",
        Kind::int(0),
        "524288",
        "bytes",
        "The memory for the cleaner's reads and writes, of all threads together.",
    )
    .without_effect(NO_BUFFERS),
    Setting::dynamic(
        "metric.reporters",
        Kind::Words(&["org.apache.kafka.common.metrics.JmxReporter"]),
        "org.apache.kafka.common.metrics.JmxReporter",
        "",
        "The classes that are told of metrics.",
    )
    .without_effect(NO_CLASSES),
    threads("num.io.threads", "8", "How many threads answer requests."),
    threads("num.network.threads", "3", "How many threads read requests and send answers."),
    threads(
        "num.recovery.threads.per.data.dir",
        "2",
        "How many threads look through each log directory at a start.",
    ),
    Setting::dynamic(
        "num.replica.fetchers",
        Kind::int(1),
        "1",
        "threads",
        "How many threads copy from each other broker.",
    )
    .without_effect("one task copies from each broker that leads"),
    tier(
        "remote.fetch.max.wait.ms",
        Kind::int(1),
        "500",
        "ms",
        "How long a fetch waits for tiered records.",
    ),
    tier(
        "remote.list.offsets.request.timeout.ms",
        Kind::long(1),
        "30000",
        "ms",
        "How long a search by time waits for tiered records.",
    ),
    tier(
        "remote.log.index.file.cache.total.size.bytes",
        Kind::long(1),
        "1073741824",
        "bytes",
        "The disk space for indexes of tiered segments.",
    ),
    tier(
        "remote.log.manager.copier.thread.pool.size",
        Kind::int(1),
        "10",
        "threads",
        "How many threads copy segments to the other tier.",
    ),
    tier(
        "remote.log.manager.copy.max.bytes.per.second",
        Kind::long(1),
        UNLIMITED,
        "bytes per second",
        "How fast segments are copied to the other tier.",
    ),
    tier(
        "remote.log.manager.expiration.thread.pool.size",
        Kind::int(1),
        "10",
        "threads",
        "How many threads delete tiered segments.",
    ),
    tier(
        "remote.log.manager.fetch.max.bytes.per.second",
        Kind::long(1),
        UNLIMITED,
        "bytes per second",
        "How fast tiered segments are read.",
    ),
    tier(
        "remote.log.manager.follower.thread.pool.size",
        Kind::int(1),
        "2",
        "threads",
        "How many threads of followers ask for the end of what is tiered.",
    ),
    tier(
        "remote.log.reader.threads",
        Kind::int(1),
        "10",
        "threads",
        "How many threads read tiered records.",
    ),
    cached_buffer(
        "share.coordinator.cached.buffer.max.bytes",
        "The largest buffer that the coordinator of share groups keeps for the next write.",
    )
    .without_effect(NO_PROTOCOL),
    Setting::dynamic(
        "transaction.partition.verification.enable",
        Kind::Boolean,
        "true",
        "",
        "Whether it is checked that a partition belongs to a transaction before its records are \
         appended (KIP-890).",
    )
    .without_effect(ALWAYS_VERIFIED),
];
