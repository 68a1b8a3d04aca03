//! The table of topic settings: Kafka 4.3's names, types, defaults and bounds.
//!
//! They differ from Kafka in three ways, each on purpose: `flush.messages` is 1, because
//! acknowledged means on disk; `retention.bytes` below -1 is refused, which Kafka takes for -1;
//! and `min.cleanable.dirty.ratio` cannot be `NaN`.

use super::definition::{Kind, Setting, Synonym, look_up};
use crate::error::MetadataError;

/// The topic setting of a name, or the error that says so and which name comes close.
pub fn topic_setting(name: &str) -> Result<&'static Setting, MetadataError> {
    look_up(TOPIC_SETTINGS, "topic", name)
}

/// A row with what most rows have: one synonym of the same unit, and an effect.
const fn row(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    unit: &'static str,
    synonyms: &'static [Synonym],
    doc: &'static str,
) -> Setting {
    Setting { synonyms, ..Setting::dynamic(name, kind, default, unit, doc) }
}

/// A broker setting in the topic setting's own unit.
const fn same(name: &'static str) -> Synonym {
    Synonym { name, factor: 1, unit: "", default: None }
}

/// A broker setting in hours, which holds Kafka's default.
const fn hours(name: &'static str, default: &'static str) -> Synonym {
    Synonym { name, factor: 3_600_000, unit: "hours", default: Some(default) }
}

pub(super) const NO_TIERS: &str = "there is no tiered storage";
const NO_TIERS_DEFAULT_ONLY: &str = "there is no tiered storage, so only the default is allowed";

const NEVER_UNCLEAN: &str =
    "a leader that lacks records is elected only when ElectLeaders asks for it";

/// Every topic setting, by name.
pub static TOPIC_SETTINGS: &[Setting] = &[
    row(
        "cleanup.policy",
        Kind::Words(&["compact", "delete"]),
        "delete",
        "",
        &[same("log.cleanup.policy")],
        "How old data leaves the topic: `delete` drops whole segments by age and size, `compact` \
         keeps the last record of each key, both do both, and an empty list keeps everything. \
         Records of a compacted topic must have keys.",
    ),
    row(
        "compression.gzip.level",
        Kind::Int { min: 1, max: 9, special: Some(-1) },
        "-1",
        "",
        &[same("compression.gzip.level")],
        "How hard gzip tries where `compression.type` is `gzip` and the broker compresses a batch \
         anew; -1 is gzip's own default, 6.",
    ),
    row(
        "compression.lz4.level",
        Kind::Int { min: 1, max: 17, special: None },
        "9",
        "",
        &[same("compression.lz4.level")],
        "How hard lz4 tries where `compression.type` is `lz4` and the broker compresses a batch \
         anew. As in Kafka 9, the default, is the fastest; any other number has it look for the \
         longest matches.",
    ),
    row(
        "compression.type",
        Kind::Word(&["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"]),
        "producer",
        "",
        &[same("compression.type")],
        "The compression of stored batches; `producer` keeps each batch as its producer sent it. \
         With any other value the broker compresses batches of another codec anew, which takes its \
         processors; one of the same codec stays as it is, whatever its level. What is compressed \
         anew must not unpack to more than 128 MiB, or `max.message.bytes` if that is more, and must \
         fit `max.message.bytes` before and after.",
    ),
    row(
        "compression.zstd.level",
        Kind::Int { min: -131_072, max: 22, special: None },
        "3",
        "",
        &[same("compression.zstd.level")],
        "How hard zstd tries where `compression.type` is `zstd` and the broker compresses a batch \
         anew. Above 19 it takes many times as long for little.",
    ),
    row(
        "delete.retention.ms",
        Kind::long(0),
        "86400000",
        "ms",
        &[same("log.cleaner.delete.retention.ms")],
        "How long a compacted topic keeps a record without a value, from its first compaction on, \
         so that readers learn of the deletion before the record goes too. Transaction markers are \
         kept as long.",
    ),
    row(
        "file.delete.delay.ms",
        Kind::long(0),
        "60000",
        "ms",
        &[same("log.segment.delete.delay.ms")],
        "How long the files of a dropped segment stay on disk, for readers that still use them.",
    ),
    row(
        "flush.messages",
        Kind::long(1),
        "1",
        "records",
        &[same("log.flush.interval.messages")],
        "How many records may be written before they are forced to disk. At 1, the default, an \
         acknowledged record survives a power cut. A higher number acknowledges from memory: \
         faster, and what is not yet forced is lost with the machine.",
    ),
    row(
        "flush.ms",
        Kind::long(0),
        "9223372036854775807",
        "ms",
        &[
            same("log.flush.interval.ms"),
            Synonym {
                name: "log.flush.scheduler.interval.ms",
                factor: 1,
                unit: "ms",
                default: Some("9223372036854775807"),
            },
        ],
        "How long records may wait before they are forced to disk where `flush.messages` does not \
         force them earlier.",
    ),
    row(
        "follower.replication.throttled.replicas",
        Kind::ThrottledReplicas,
        "",
        "",
        &[],
        "The replicas that are copied to no faster than `follower.replication.throttled.rate` of their broker \
         says while they are not in sync, as `partition:broker`, or all by `*`.",
    ),
    row(
        "index.interval.bytes",
        Kind::int(0),
        "4096",
        "bytes",
        &[same("log.index.interval.bytes")],
        "How many bytes of log lie between two entries of the offset index. Fewer find a record \
         with less reading and make a larger index.",
    ),
    row(
        "leader.replication.throttled.replicas",
        Kind::ThrottledReplicas,
        "",
        "",
        &[],
        "The leaders that copy no faster than `leader.replication.throttled.rate` of their broker says to \
         replicas that are not in sync, as `partition:broker`, or all by `*`.",
    ),
    row(
        "local.retention.bytes",
        Kind::long(-2),
        "-2",
        "bytes",
        &[same("log.local.retention.bytes")],
        "How much of a tiered partition stays on the local disk; -2 is as `retention.bytes`.",
    )
    .without_effect(NO_TIERS),
    row(
        "local.retention.ms",
        Kind::long(-2),
        "-2",
        "ms",
        &[same("log.local.retention.ms")],
        "How long records of a tiered topic stay on the local disk; -2 is as `retention.ms`.",
    )
    .without_effect(NO_TIERS),
    row(
        "max.compaction.lag.ms",
        Kind::long(1),
        "9223372036854775807",
        "ms",
        &[same("log.cleaner.max.compaction.lag.ms")],
        "The longest time that a record of a compacted topic waits to be compacted. The segment \
         that holds it is ended in time for that, also if nobody writes any more.",
    ),
    row(
        "max.message.bytes",
        Kind::int(0),
        "1048588",
        "bytes",
        &[same("message.max.bytes")],
        "The largest record batch that the topic takes, compressed if it is compressed.",
    ),
    row(
        "message.timestamp.after.max.ms",
        Kind::long(0),
        "3600000",
        "ms",
        &[same("log.message.timestamp.after.max.ms")],
        "How far a record's timestamp may lie ahead of the broker's clock. Not looked at where \
         `message.timestamp.type` is `LogAppendTime`.",
    ),
    row(
        "message.timestamp.before.max.ms",
        Kind::long(0),
        "9223372036854775807",
        "ms",
        &[same("log.message.timestamp.before.max.ms")],
        "How far a record's timestamp may lie behind the broker's clock. Not looked at where \
         `message.timestamp.type` is `LogAppendTime`.",
    ),
    row(
        "message.timestamp.type",
        Kind::Word(&["CreateTime", "LogAppendTime"]),
        "CreateTime",
        "",
        &[same("log.message.timestamp.type")],
        "Whose time a record carries: the producer's (`CreateTime`) or the broker's when it was \
         appended (`LogAppendTime`).",
    ),
    row(
        "min.cleanable.dirty.ratio",
        Kind::Double { min: 0.0, max: 1.0 },
        "0.5",
        "",
        &[same("log.cleaner.min.cleanable.ratio")],
        "How much of a compacted log must be new before it is compacted again. What is in the \
         segment that grows, or younger than `min.compaction.lag.ms`, does not count.",
    ),
    row(
        "min.compaction.lag.ms",
        Kind::long(0),
        "0",
        "ms",
        &[same("log.cleaner.min.compaction.lag.ms")],
        "The shortest time that a record of a compacted topic stays before it may be compacted.",
    ),
    row(
        "min.insync.replicas",
        Kind::int(1),
        "1",
        "replicas",
        &[same("min.insync.replicas")],
        "How many replicas must be in sync for a write with `acks=all` to be taken; of a partition that \
         has fewer, all. A topic that is made with three replicas or more gets 2, unless it or the broker says \
         otherwise.",
    ),
    row(
        "preallocate",
        Kind::Boolean,
        "false",
        "",
        &[same("log.preallocate")],
        "Whether a new segment's file gets its whole size at once.",
    )
    .without_effect("segment files grow as they are written"),
    row(
        "remote.log.copy.disable",
        Kind::Boolean,
        "false",
        "",
        &[],
        "Whether a tiered topic stops copying segments to remote storage.",
    )
    .default_only(NO_TIERS_DEFAULT_ONLY),
    row(
        "remote.log.delete.on.disable",
        Kind::Boolean,
        "false",
        "",
        &[],
        "Whether turning tiered storage off deletes what is there.",
    )
    .default_only(NO_TIERS_DEFAULT_ONLY),
    row(
        "remote.storage.enable",
        Kind::Boolean,
        "false",
        "",
        &[],
        "Whether the topic's older segments move to remote storage.",
    )
    .default_only(NO_TIERS_DEFAULT_ONLY),
    row(
        "retention.bytes",
        Kind::long(-1),
        "-1",
        "bytes",
        &[same("log.retention.bytes")],
        "How large one partition may grow before its oldest segments are dropped; -1 is without \
         bound. For topics whose `cleanup.policy` has `delete`.",
    ),
    row(
        "retention.ms",
        Kind::long(-1),
        "604800000",
        "ms",
        &[
            same("log.retention.ms"),
            Synonym {
                name: "log.retention.minutes",
                factor: 60_000,
                unit: "minutes",
                default: None,
            },
            hours("log.retention.hours", "168"),
        ],
        "How old records may grow before their segment is dropped; -1 is for ever. For topics \
         whose `cleanup.policy` has `delete`.",
    ),
    row(
        "segment.bytes",
        Kind::int(1_048_576),
        "1073741824",
        "bytes",
        &[same("log.segment.bytes")],
        "How large a segment grows before the next one is begun. Retention and compaction work on \
         whole segments.",
    ),
    row(
        "segment.index.bytes",
        Kind::int(4),
        "10485760",
        "bytes",
        &[same("log.index.size.max.bytes")],
        "How large a segment's index may grow; a full index begins the next segment.",
    ),
    row(
        "segment.jitter.ms",
        Kind::long(0),
        "0",
        "ms",
        &[same("log.roll.jitter.ms"), hours("log.roll.jitter.hours", "0")],
        "Up to how much earlier than `segment.ms` a segment is ended, at random, so that many \
         partitions do not begin segments at once.",
    ),
    row(
        "segment.ms",
        Kind::long(1),
        "604800000",
        "ms",
        &[same("log.roll.ms"), hours("log.roll.hours", "168")],
        "How old a segment may grow before the next one is begun, full or not, so that retention \
         gets at its records.",
    ),
    row(
        "unclean.leader.election.enable",
        Kind::Boolean,
        "false",
        "",
        &[same("unclean.leader.election.enable")],
        "Whether a replica that is not in sync may lead when no other is left, which loses what it \
         lacks.",
    )
    .without_effect(NEVER_UNCLEAN),
];
