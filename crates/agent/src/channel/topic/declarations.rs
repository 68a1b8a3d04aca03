//! What channels in topics can be told.

use crate::channel::TRANSACTION;
use crate::declaration::{Declaration, Fallback, Key, Kind, Role, key};
use crate::kafka_cluster::{
    CLUSTER, COMPRESSION, CONSUMER_PROTOCOL, PARTITION_HEADER, PRODUCER_PROTOCOL,
};

pub(crate) const KAFKA: Declaration = Declaration {
    role: Role::Channel,
    name: "kafka",
    aliases: &["org.apache.flume.channel.kafka.KafkaChannel"],
    doc: "Events wait in a topic of Kafka or Logway, as Flume's Kafka channel keeps them: both can share a topic and a group. \
          A put returns when all replicas in sync have its events; a take is committed when its offsets are. A partition \
          serves one transaction at a time, so that several sinks share a topic with several partitions. Agents that die \
          leave their partitions to the others of their group after the session's timeout.",
    keys: &[
        key("kafka.topic", Kind::Text, Fallback::Is("flume-channel"), "The topic."),
        key(
            "kafka.consumer.group.id",
            Kind::Text,
            Fallback::Is("flume"),
            "The group that takes. Agents with one topic and one group share its events.",
        ),
        key(
            "parseAsFlumeEvent",
            Kind::Flag,
            Fallback::Is("true"),
            "Whether values are Flume's events in Avro, with headers. If not, a value is a body: headers are lost.",
        ),
        key(
            "kafka.consumer.auto.offset.reset",
            Kind::Choice(&["earliest", "latest"]),
            Fallback::Is("latest"),
            "Where a group begins that has never committed: `latest` is where the topic ends at the channel's first start. \
             Partitions that come later are read from their start.",
        ),
        key(
            "pollTimeout",
            Kind::Ignored("the broker tells when there is more"),
            Fallback::Nothing,
            "How long Flume's consumer waits.",
        ),
        key(
            "capacity",
            Kind::Ignored("the topic's retention bounds it"),
            Fallback::Nothing,
            "Flume's Kafka channel ignores it, too.",
        ),
        key(
            "keep-alive",
            Kind::Ignored("a topic is not full"),
            Fallback::Nothing,
            "Flume's Kafka channel ignores it, too.",
        ),
        key(
            "migrateZookeeperOffsets",
            Kind::Only(&["false"], "offsets in ZooKeeper are not read: let Flume migrate them"),
            Fallback::Is("false"),
            "Whether offsets come from ZooKeeper.",
        ),
    ],
    shared: &[TOPIC, TRANSACTION, CLUSTER],
};

pub(crate) const LOGWAY: Declaration = Declaration {
    role: Role::Channel,
    name: "logway",
    aliases: &[],
    doc: "Events wait in a topic of Logway, replicated, and the topic is made if it is missing. Bodies are values and headers \
          are record headers, so that everybody can read them. As `kafka`, but that each event gets an id when it is first put; \
          what is put again, because an answer was lost or an upstream agent died, has the id that it had, and is given to \
          sinks once. A topic's retention bounds how long events wait.",
    keys: &[
        key("topic", Kind::Text, Fallback::Required, "The topic."),
        key(
            "group",
            Kind::Text,
            Fallback::Is("logway-agent"),
            "The group that takes. Agents with one topic and one group share its events.",
        ),
        key(
            "partitions",
            Kind::Number(1, 10_000, "partitions"),
            Fallback::Nothing,
            "With how many partitions the topic is made. Without it, the broker decides.",
        ),
        key(
            "replicationFactor",
            Kind::Number(1, 100, "replicas"),
            Fallback::Nothing,
            "With how many replicas of each the topic is made. Without it, the broker decides.",
        ),
        key(
            "eventIdHeader",
            Kind::Text,
            Fallback::Is("event.id"),
            "The header for an event's id. An event that has one keeps it; a `kafka` sink passes it on with its own `eventIdHeader`.",
        ),
        key(
            "duplicateWindow",
            Kind::Number(0, 10_000_000, "events"),
            Fallback::Is("100000"),
            "How many events of each partition an event is compared with, by id, to find out whether it was put before; 0 for none.",
        ),
    ],
    shared: &[TOPIC, TRANSACTION, CLUSTER],
};

/// What both can be told.
const TOPIC: &[Key] = &[
    key(
        "defaultPartitionId",
        Kind::Number(0, i32::MAX as i64, "partition"),
        Fallback::Nothing,
        "The partition of all events. Without it, the header `key` decides, as for every Kafka producer.",
    ),
    PARTITION_HEADER,
    key(
        "kafka.consumer.session.timeout.ms",
        Kind::Number(1000, 3_600_000, "ms"),
        Fallback::Is("10000"),
        "After so long without a sign of life others take over.",
    ),
    key(
        "kafka.consumer.heartbeat.interval.ms",
        Kind::Number(100, 3_600_000, "ms"),
        Fallback::Is("3000"),
        "How often to give a sign of life.",
    ),
    key(
        "kafka.consumer.max.poll.interval.ms",
        Kind::Number(1000, 86_400_000, "ms"),
        Fallback::Is("300000"),
        "How long the others of a group wait for this one when the group changes.",
    ),
    CONSUMER_PROTOCOL,
    key(
        "kafka.producer.acks",
        Kind::Only(&["all", "-1"], "a channel keeps what it took"),
        Fallback::Is("all"),
        "Whose acknowledgement counts.",
    ),
    COMPRESSION,
    key(
        "kafka.producer.max.request.size",
        Kind::Number(1024, i32::MAX as i64, "bytes"),
        Fallback::Is("1048576"),
        "How large an event may be. A source drops a larger one, counts it and says so, or refuses it to its sender.",
    ),
    key(
        "kafka.producer.linger.ms",
        Kind::Ignored("a put goes at once"),
        Fallback::Nothing,
        "How long Flume's producer waits for more.",
    ),
    PRODUCER_PROTOCOL,
];
