//! The settings of front doors beside Kafka's.

use super::definition::{Kind, Setting};

const fn shard_rate(name: &'static str, unit: &'static str, doc: &'static str) -> Setting {
    Setting::at_start(name, Kind::long(1), None, unit, doc)
}

/// Each has the name of its front door in front.
pub(super) static FRONT_DOOR_SETTINGS: &[Setting] = &[
    Setting::at_start(
        "kinesis.account.id",
        Kind::Text,
        Some("000000000000"),
        "",
        "The account that Kinesis clients see in the names (ARNs) of streams and in messages: twelve digits.",
    ),
    Setting::at_start(
        "kinesis.listen",
        Kind::Address,
        None,
        "",
        "Where Kinesis clients connect, as `host:port`; 4567 is the port that they expect of a substitute for AWS. Port 0 \
         takes a free one. Where it is not set, there is no such listener. An address that other machines can reach needs \
         `kinesis.tls` and `kinesis.signatures`, or `logway.insecure`.",
    ),
    Setting::at_start(
        "kinesis.region",
        Kind::Text,
        Some("us-east-1"),
        "",
        "The region that Kinesis clients see in the names (ARNs) of streams and in messages: letters, digits and `-`.",
    ),
    Setting::at_start(
        "kinesis.shard.limit",
        Kind::int(1),
        Some("500"),
        "shards",
        "How many open shards all streams may have together. More are refused as AWS refuses more than an account \
         may have.",
    ),
    shard_rate(
        "kinesis.shard.read.bytes.per.second",
        "bytes",
        "How many bytes of data and keys Kinesis clients may read of a shard in a second with GetRecords; AWS has 2097152. A \
         response with more takes the seconds behind it, in which readers get ProvisionedThroughputExceededException. Each \
         registered consumer has as much for itself, and gets its events more slowly. Where it is not set, there is no limit.",
    ),
    shard_rate(
        "kinesis.shard.reads.per.second",
        "requests",
        "How many GetRecords of a shard Kinesis clients may send in a second; AWS has 5. Others get \
         ProvisionedThroughputExceededException. Where it is not set, there is no limit.",
    ),
    shard_rate(
        "kinesis.shard.write.bytes.per.second",
        "bytes",
        "How many bytes of data and keys Kinesis clients may put into a shard in a second; AWS has 1048576. Other records get \
         ProvisionedThroughputExceededException, each by itself in PutRecords. A larger record takes the seconds behind it. The \
         leader of the shard counts, by its own setting: give all nodes the same. Where it is not set, there is no limit.",
    ),
    shard_rate(
        "kinesis.shard.write.records.per.second",
        "records",
        "How many records Kinesis clients may put into a shard in a second; AWS has 1000. Others get \
         ProvisionedThroughputExceededException, each by itself in PutRecords. Where it is not set, there is no limit.",
    ),
    Setting::at_start(
        "kinesis.signatures",
        Kind::Boolean,
        Some("false"),
        "",
        "Whether requests of Kinesis clients have to be signed with an access key, which is a delegation token (`logway \
         token create --aws`): they are those of its owner then. Without it any access key is taken, and each client \
         is `User:ANONYMOUS`. It is true where `logway.secure` is.",
    ),
    Setting::at_start(
        "kinesis.stream.delay.ms",
        Kind::Long { min: 0, max: 3_600_000 },
        Some("0"),
        "ms",
        "For how long Kinesis clients see a stream as CREATING, UPDATING or DELETING after a change. With 0 a stream is \
         ACTIVE at once; some programs wait for the phase before that.",
    ),
    Setting::at_start(
        "kinesis.tls",
        Kind::Boolean,
        Some("false"),
        "",
        "Whether Kinesis clients connect by TLS, with the certificate of `ssl.keystore.location`, or of the same as a \
         setting of the listener KINESIS: `listener.name.kinesis.ssl.keystore.location`. It is true where `logway.secure` is.",
    ),
    Setting::at_start(
        "logservice.listen",
        Kind::Listeners,
        None,
        "",
        "Where clients of the log service connect, over gRPC, as `host:port` or `NAME://host:port`; port 0 takes a free one. \
         The names, what is spoken there and what is asked of clients are as with `listeners`. Where it is not set, there is no log \
         service.",
    ),
    Setting::at_start(
        "logservice.logspec.listen",
        Kind::Text,
        None,
        "",
        "Where clients of Akutan's `logspec` connect, as a list of `host:port=TOPIC` or `NAME://host:port=TOPIC`. Each address \
         serves partition 0 of its topic as a log.",
    ),
];
