//! The table of broker settings, and how they are written down.
//!
//! A broker is configured by one TOML file (`logway serve --config FILE`) and by flags, which win.
//! A setting has Kafka's name where Kafka has the setting; names that Kafka does not have begin
//! with `logway.`, or with the name of another front door, as `kinesis.`. TOML reads a dotted key as nested tables, and a setting's name is the path to
//! its value joined with dots, so these three say the same:
//!
//! ```toml
//! log.retention.ms = 86400000
//!
//! "log.retention.ms" = 86400000
//!
//! [log.retention]
//! ms = 86400000
//! ```
//!
//! Lists are TOML arrays or texts with commas. A setting that is given twice, or that does not
//! exist, stops the broker from starting.

pub(crate) mod names;

use std::sync::LazyLock;

pub use names::{
    CATCH_UP_RATE_DEFAULT, CATCH_UP_RATE_SETTING, CLEANER_BACKOFF_SETTING, CLEANER_MEMORY_SETTING,
    CLEANER_RATE_SETTING, CLEANER_THREADS_SETTING, CONNECTION_RATE_SETTING,
    CONNECTIONS_OF_ADDRESSES_SETTING, CONNECTIONS_PER_ADDRESS_SETTING, CONNECTIONS_SETTING,
    FOLLOWER_THROTTLE_RATE_SETTING, JOIN_TOKEN_SETTING, JOIN_TOKENS_SETTING,
    LEADER_THROTTLE_RATE_SETTING, MOVES_RATE_SETTING, NODE_AUTHORITY_SETTING, NODE_DUTY_SETTING,
    NODE_ROLE_SETTING, PRODUCER_EXPIRATION_SETTING, RACK_AWARE_SELECTOR, STANDARD_AUTHORIZER,
};

use super::accepted::ACCEPTED_SETTINGS;
use super::balance::BALANCE_SETTINGS;
pub use super::balance::{
    AUTO_BALANCE_DISK_DEFAULT, AUTO_BALANCE_DISK_SETTING, AUTO_BALANCE_GONE_DEFAULT,
    AUTO_BALANCE_GONE_SETTING, AUTO_BALANCE_LAST_SETTING, AUTO_BALANCE_SETTING,
    AUTO_FINALIZE_SETTING,
};
use super::consumer_groups::CONSUMER_GROUP_SETTINGS;
use super::definition::{Kind, Setting, Synonym, Update, look_up};
use super::front_doors::FRONT_DOOR_SETTINGS;
use super::listener::LISTENER_SETTINGS;
use super::streams_groups::STREAMS_GROUP_SETTINGS;
use super::topic::TOPIC_SETTINGS;
use super::transactions::TRANSACTION_SETTINGS;
use crate::controller::COMMAND_RECORDS_MAX;
use crate::error::MetadataError;

/// A topic is made by one command, with a record for each partition, for itself and for its settings.
pub(super) const PARTITIONS: Kind =
    Kind::Int { min: 1, max: COMMAND_RECORDS_MAX as i32 - 100, special: None };

/// As many replicas as the protocol can say.
pub(super) const REPLICAS: Kind = Kind::Int { min: 1, max: i16::MAX as i32, special: None };

/// The broker setting of a name, or the error that says so and which name comes close.
pub fn broker_setting(name: &str) -> Result<&'static Setting, MetadataError> {
    look_up(broker_settings(), "broker", name)
}

/// Every broker setting, by name: the broker's own, and the defaults of topic settings.
pub fn broker_settings() -> &'static [Setting] {
    static ALL: LazyLock<Vec<Setting>> = LazyLock::new(|| {
        let tables = [
            OWN_SETTINGS,
            LISTENER_SETTINGS,
            FRONT_DOOR_SETTINGS,
            CONSUMER_GROUP_SETTINGS,
            STREAMS_GROUP_SETTINGS,
            TRANSACTION_SETTINGS,
            BALANCE_SETTINGS,
            ACCEPTED_SETTINGS,
        ];
        let mut all = tables.concat();
        all.extend(topic_defaults());
        all.sort_by_key(|setting| setting.name);
        all
    });
    &ALL
}

/// The topic setting that a broker setting is the default of, and how its unit converts.
pub fn topic_setting_of_default(
    broker_setting: &str,
) -> Option<(&'static Setting, &'static Synonym)> {
    TOPIC_SETTINGS.iter().find_map(|setting| {
        let synonym = setting.synonyms.iter().find(|synonym| synonym.name == broker_setting)?;
        Some((setting, synonym))
    })
}

fn topic_defaults() -> impl Iterator<Item = Setting> {
    TOPIC_SETTINGS.iter().flat_map(|setting| {
        let rows = setting.synonyms.iter().enumerate();
        rows.map(move |(rank, synonym)| topic_default(setting, synonym, rank))
    })
}

/// The broker's row of a topic setting's synonym.
///
/// The strongest synonym can be changed while the broker runs. It also shows the default, unless
/// one in another unit does, as `log.retention.hours` for `log.retention.ms`.
fn topic_default(setting: &Setting, synonym: &Synonym, rank: usize) -> Setting {
    let default_is_elsewhere = setting.synonyms.iter().any(|other| other.default.is_some());
    let (kind, unit) = match synonym.factor {
        1 => (setting.kind, setting.unit),
        _ => (coarser(&setting.kind), synonym.unit),
    };
    let default = match rank {
        0 if !default_is_elsewhere => setting.default,
        _ => synonym.default,
    };
    let update = if rank == 0 { Update::Dynamic } else { Update::Restart };
    Setting { name: synonym.name, kind, default, unit, synonyms: &[], update, ..*setting }
}

/// The kind of a topic setting in a coarser unit: a 32-bit number, as in Kafka. The lower bounds
/// are -1, 0 and 1, which mean the same in every unit.
fn coarser(kind: &Kind) -> Kind {
    match *kind {
        Kind::Long { min, .. } => Kind::int(i32::try_from(min).expect("it is -1, 0 or 1")),
        _ => unreachable!("only 64-bit settings have synonyms in other units"),
    }
}

/// Bytes per second; not limited by default. It can be changed while the broker runs.
const fn rate(name: &'static str, doc: &'static str) -> Setting {
    const UNLIMITED: &str = "9223372036854775807";
    Setting::dynamic(name, Kind::long(0), UNLIMITED, "bytes per second", doc)
}

/// The settings of the broker itself.
static OWN_SETTINGS: &[Setting] = &[
    Setting::at_start(
        "allow.everyone.if.no.acl.found",
        Kind::Boolean,
        Some("false"),
        "",
        "Whether everybody may do what no ACL is about, where ACLs are in force.",
    ),
    Setting::at_start(
        "authorizer.class.name",
        Kind::Word(&["", STANDARD_AUTHORIZER]),
        Some(""),
        "",
        "Puts ACLs in force, under the name of Kafka's authorizer. Empty, everybody may do everything.",
    ),
    Setting::at_start(
        "super.users",
        Kind::Text,
        Some(""),
        "",
        "Who may do everything, whatever ACLs say, as `User:alice;User:bob`.",
    ),
    Setting::at_start(
        "advertised.listeners",
        Kind::Reachable,
        None,
        "",
        "The addresses that clients are told to use, as `NAME://host:port` for the listener of that name. \
         Of a listener that has none here, each client is told the address that it reached the broker by, \
         which is right unless something between them translates addresses.",
    ),
    Setting::at_start(
        "auto.create.topics.enable",
        Kind::Boolean,
        Some("true"),
        "",
        "Whether asking for the metadata of a topic that does not exist creates it, if the client \
         allows that.",
    ),
    Setting::at_start(
        "auto.leader.rebalance.enable",
        Kind::Boolean,
        Some("true"),
        "",
        "Whether partitions go back to the first of their replicas when it is in sync again.",
    ),
    Setting::at_start(
        "broker.heartbeat.interval.ms",
        Kind::int(1),
        Some("50"),
        "ms",
        "How often a broker of a cluster tells the active controller that it lives; Kafka's own default is \
         2000.",
    ),
    Setting::at_start(
        "broker.rack",
        Kind::Texts,
        None,
        "",
        "The failure domain that the broker stands in, e.g. a zone. Replicas of a partition are spread over \
         them.",
    ),
    Setting::at_start(
        "broker.session.timeout.ms",
        Kind::int(1),
        Some("1000"),
        "ms",
        "A broker that was not heard for so long leads nothing any more; Kafka's own default is 9000. Of a \
         broker whose process has ended the others know at once.",
    ),
    Setting::at_start(
        "connections.max.idle.ms",
        Kind::long(-1),
        Some("600000"),
        "ms",
        "How long a connection may be silent before it is closed; -1 is for ever.",
    ),
    Setting::at_start(
        "controller.quota.window.num",
        Kind::int(1),
        Some("11"),
        "windows",
        "How many windows, of `controller.quota.window.size.seconds` each, a client may save up of \
         its `controller_mutation_rate` (KIP-599): so many seconds' worth of partitions can be \
         made or deleted at once.",
    ),
    Setting::at_start(
        "controller.quota.window.size.seconds",
        Kind::int(1),
        Some("1"),
        "seconds",
        "The length of one window of `controller.quota.window.num`.",
    ),
    Setting::at_start(
        "default.replication.factor",
        REPLICAS,
        Some("1"),
        "replicas",
        "How many replicas the partitions of a topic get where its creator does not say. Not set, it is 1, and 3 \
         as soon as three brokers serve.",
    ),
    Setting::at_start(
        "delegation.token.expiry.check.interval.ms",
        Kind::long(1),
        Some("3600000"),
        "ms",
        "How often the active controller removes delegation tokens that have expired. Nobody logs in with them meanwhile.",
    ),
    Setting::at_start(
        "delegation.token.expiry.time.ms",
        Kind::long(1),
        Some("86400000"),
        "ms",
        "How long a delegation token is good for before it has to be renewed. The active controller's counts.",
    ),
    Setting::at_start(
        "delegation.token.max.lifetime.ms",
        Kind::long(1),
        Some("604800000"),
        "ms",
        "How long a delegation token can be renewed. The active controller's counts.",
    ),
    Setting::at_start(
        "delegation.token.secret.key",
        Kind::Password,
        None,
        "",
        "What delegation tokens are made with (KIP-48). All nodes of a cluster need the same, long and random; with another \
         one the tokens before it are good for nothing. Where it is not set, there are no delegation tokens. It is never shown.",
    ),
    Setting::at_start(
        "delete.topic.enable",
        Kind::Boolean,
        Some("true"),
        "",
        "Whether topics can be deleted.",
    ),
    Setting::at_start(
        "fetch.max.bytes",
        Kind::int(1_024),
        Some("57671680"),
        "bytes",
        "The most that one fetch response carries, whatever the consumer asked for.",
    ),
    rate(
        FOLLOWER_THROTTLE_RATE_SETTING,
        "How fast a broker takes what replicas miss that are not in sync and that \
         `follower.replication.throttled.replicas` of their topics names (KIP-73).",
    ),
    Setting::at_start(
        "group.initial.rebalance.delay.ms",
        Kind::int(0),
        Some("3000"),
        "ms",
        "How long the first rebalance of an empty group waits for more members (KIP-134).",
    ),
    Setting::at_start(
        "group.max.session.timeout.ms",
        Kind::int(1),
        Some("1800000"),
        "ms",
        "The longest session timeout that a member may ask for.",
    ),
    Setting::at_start(
        "group.max.size",
        Kind::int(1),
        Some("10000"),
        "members",
        "How many members a group may have (KIP-389); Kafka's own default is no limit.",
    ),
    Setting::at_start(
        "group.min.session.timeout.ms",
        Kind::int(1),
        Some("6000"),
        "ms",
        "The shortest session timeout that a member may ask for.",
    ),
    Setting::at_start(
        "leader.imbalance.check.interval.seconds",
        Kind::long(1),
        Some("30"),
        "seconds",
        "How often the active controller looks whether partitions are led by the first of their replicas, and has those lead \
         that are in sync. So a node leads again soon after it is back.",
    ),
    rate(
        LEADER_THROTTLE_RATE_SETTING,
        "How fast a broker sends what replicas miss that are not in sync, of partitions that \
         `leader.replication.throttled.replicas` of their topics names (KIP-73).",
    ),
    Setting::at_start(
        "listeners",
        Kind::Listeners,
        Some("127.0.0.1:9092"),
        "",
        "Where Kafka clients connect, as `NAME://host:port`; without a name it is `PLAINTEXT`. A listener may \
         have several addresses. Port 0 takes a free one.",
    ),
    Setting::at_start(
        "listener.security.protocol.map",
        Kind::Protocols,
        Some("SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT"),
        "",
        "What is spoken on the listener of each name: `PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`. \
         `listener.name.NAME.SETTING` is a setting of one listener, of those about connections, `ssl.` and `sasl.`.",
    ),
    Setting::dynamic(
        CLEANER_BACKOFF_SETTING,
        Kind::long(0),
        "15000",
        "ms",
        "How often compacted topics are looked at when none of them has to be compacted.",
    ),
    Setting::dynamic(
        CLEANER_MEMORY_SETTING,
        Kind::long(1_048_576),
        "134217728",
        "bytes",
        "The memory for the keys of what is being compacted, of all threads together: 24 bytes for \
         each key and some room. It is taken as it is needed and given back afterwards; a log with \
         more keys is compacted in several rounds.",
    ),
    Setting::dynamic(
        CLEANER_RATE_SETTING,
        Kind::Double { min: 1.0, max: f64::MAX },
        "1.7976931348623157E308",
        "bytes per second",
        "What compaction may read and write in a second, on all disks together.",
    ),
    Setting::dynamic(
        CLEANER_THREADS_SETTING,
        Kind::Int { min: 0, max: 256, special: None },
        "1",
        "threads",
        "How many logs are compacted at the same time; 0, which only the broker's file can give, \
         compacts none.",
    ),
    Setting::at_start(
        "log.dirs",
        Kind::Paths,
        Some("./logway-data"),
        "",
        "The directories of the logs. Each should be a disk of its own: if one fails, only its \
         partitions are offline. A new partition goes to the directory that holds the fewest. The \
         first holds the metadata, too, without which the broker does not run, so it must stay the \
         first.",
    ),
    Setting::at_start(
        "log.flush.offset.checkpoint.interval.ms",
        Kind::int(1),
        Some("60000"),
        "ms",
        "How often each log's recovery point is written down: a restart after a crash looks at \
         what came later.",
    ),
    Setting::at_start(
        "log.retention.check.interval.ms",
        Kind::long(1),
        Some("300000"),
        "ms",
        "How often segments that are too old or too many are looked for.",
    ),
    Setting::at_start(
        "logway.append.inline",
        Kind::Boolean,
        Some("true"),
        "",
        "Whether the thread that has received small appends may write them itself, which saves two \
         hand-overs between threads. Without it the writer's thread of the log directory does all \
         writing: for measurements.",
    ),
    Setting::at_start(
        "logway.audit.log.file",
        Kind::Text,
        None,
        "",
        "The file of the audit log: a line of JSON for each change that was asked for, with who asked and whether it was \
         allowed, and for each client that was not believed. Where it is not set there is none.",
    ),
    Setting::at_start(
        "logway.audit.log.max.bytes",
        Kind::Long { min: 1 << 16, max: i64::MAX },
        Some("104857600"),
        "bytes",
        "How large a file of the audit log grows before the next one is begun.",
    ),
    Setting::at_start(
        "logway.audit.log.max.files",
        Kind::int(1),
        Some("10"),
        "files",
        "How many files of the audit log are kept: FILE, FILE.1 and so on, the oldest last.",
    ),
    Setting::at_start(
        "logway.group.lag.partitions.max",
        Kind::int(0),
        Some("5000"),
        "partitions",
        "For how many partitions of groups the lag is among the metrics, each with two numbers. \
         Groups are shown whole, those with the fewest first; those that find no room are counted \
         in `logway_group_lag_groups_left_out`. 0 measures none.",
    ),
    Setting::at_start(
        "logway.groups.max.bytes",
        Kind::long(1_048_576),
        Some("268435456"),
        "bytes",
        "The memory that all consumer groups share: members with their subscriptions and \
         assignments, and committed offsets, of which it has room for more than two million. \
         When an eighth of it is left, new groups and offsets of further partitions are refused \
         with COORDINATOR_LOAD_IN_PROGRESS, at which clients try again; the rest is for the groups \
         that are there.",
    ),
    Setting::at_start(
        "logway.http.listen",
        Kind::Listeners,
        Some("127.0.0.1:9644"),
        "",
        "Where health and metrics are served, as `host:port` or `NAME://host:port`; port 0 takes a free one. The names, what \
         is spoken there and what is asked of clients are as with `listeners`. Where clients are asked who they are, metrics \
         need DESCRIBE on the cluster, and health nothing.",
    ),
    Setting::at_start(
        "logway.insecure",
        Kind::Boolean,
        Some("false"),
        "",
        "Whether other machines may reach the address where nodes talk to each other, and listeners for clients that are \
         not encrypted or ask nobody who he is. Who reaches those can read and change all data. The log says each hour \
         which they are.",
    ),
    Setting::at_start(
        "logway.join",
        Kind::Addresses,
        None,
        "",
        "Addresses of nodes of a cluster, for nodes or for clients: a node without data asks to be admitted there. A \
         node that has data is simply back; addresses of another cluster than its own are an error.",
    ),
    Setting::at_start(
        JOIN_TOKEN_SETTING,
        Kind::Password,
        None,
        "",
        "A join token, as `logway cluster token create` prints it, or `@` and a file that has one: a node without data is \
         admitted by it to a cluster whose nodes talk by TLS. It needs `logway.secure`. A node that has been admitted does \
         not need it any more.",
    ),
    Setting::dynamic(
        JOIN_TOKENS_SETTING,
        Kind::JoinTokens,
        "",
        "",
        "What the cluster keeps of its join tokens: the digest of the secret, when it expires, in milliseconds since 1970, and \
         how many nodes can still join by it. `logway cluster token` changes it. It is one for all brokers.",
    ),
    Setting::at_start(
        "logway.journal.bytes",
        Kind::Int { min: 0, max: 1 << 30, special: None },
        Some("33554432"),
        "bytes",
        "The size of the journal that each log directory gets when durable appends come for several \
         partitions at a time: their batches are written to it as well, and one sync of it serves all \
         of them, where else each partition's file is synced. Larger batches, of 96 KiB and more for \
         a partition, are not written twice. 0 for none. It takes no memory.",
    ),
    Setting::at_start(
        "logway.log.format",
        Kind::Word(&["auto", "text", "json", "journal"]),
        Some("auto"),
        "",
        "How the broker's own log is written to stderr. `text` is for people. `json` is one JSON \
         object a line. `journal` is for systemd: lines without a time, each with its priority in \
         front. `auto` is `journal` where stderr is connected to systemd's journal, else `text`.",
    ),
    Setting::at_start(
        "logway.log.level",
        Kind::LogLevels,
        Some("info"),
        "",
        "The least important lines that the broker's own log has. Parts of the program can have \
         other levels, as in `info,logway_log=debug`.",
    ),
    Setting::at_start(
        "logway.node.advertised",
        Kind::Texts,
        None,
        "",
        "The host by which other nodes reach this one. Not set, it is the address that it listens on, or that of the \
         machine's way out.",
    ),
    Setting::at_start(
        NODE_AUTHORITY_SETTING,
        Kind::Text,
        None,
        "",
        "The SHA-256 of the certificate of the authority by whose certificates nodes know each other. The first node of a \
         cluster with `logway.secure` writes it; it is there to be read.",
    ),
    Setting::dynamic(
        NODE_DUTY_SETTING,
        Kind::Word(&["all", "follow", "leave"]),
        "all",
        "",
        "What a node is there for. With `follow` others lead, until the node starts again: `logway cluster drain` sets it. \
         With `leave` it gets no new replicas either, also after a start: `logway cluster decommission` sets it. It is set \
         for one broker, while it runs.",
    ),
    Setting::at_start(
        "logway.node.listen",
        Kind::Address,
        None,
        "",
        "Where other nodes connect, as `host:port`. Not set, it is the port after that of Kafka clients, on the same \
         address, if only this machine can reach it.",
    ),
    Setting::at_start(
        NODE_ROLE_SETTING,
        Kind::Word(&["broker", "voter"]),
        Some("broker"),
        "",
        "What a node is. A `broker` holds partitions and serves clients, and may vote in the metadata quorum. A `voter` \
         only votes, as the third machine of a cluster of two brokers does: it joins a cluster, gets no replicas, and \
         listens for other nodes and for health alone. Of `listeners` only the port counts, where `logway.node.listen` \
         is not set.",
    ),
    Setting::dynamic(
        CATCH_UP_RATE_SETTING,
        Kind::long(65_536),
        "67108864",
        "bytes per second",
        "How fast a leader's broker sends to replicas that are not in sync, all together, so that moves of partitions leave \
         clients the disks and the network. It is for what was there when a replica began; for what has come meanwhile it is \
         twice as much, and so on. What topics throttle by name has `leader.replication.throttled.rate` instead.",
    ),
    Setting::at_start(
        "logway.producers.max",
        Kind::int(1_000),
        Some("200000"),
        "producers",
        "How many idempotent producers the broker remembers, each once for each partition that it writes to; the log \
         directories share the number evenly. Each takes 250 to 500 bytes. What has not written for the longest is forgotten \
         first, but no open transaction is: so half of them may have one, and who wants to begin another gets \
         POLICY_VIOLATION.",
    ),
    Setting::at_start(
        "logway.replica.stall.max.ms",
        Kind::int(1),
        Some("2000"),
        "ms",
        "A replica in sync that makes no progress for so long, though there is something to get, holds up nobody any \
         more, if `min.insync.replicas` others are in sync: its disk may hang.",
    ),
    Setting::dynamic(
        CONNECTION_RATE_SETTING,
        Kind::int(1),
        "2147483647",
        "connections/s",
        "How many connections are accepted per second (KIP-612); further ones wait until their \
         turn comes. Addresses can have a quota of their own, `connection_creation_rate`.",
    ),
    Setting::dynamic(
        CONNECTIONS_SETTING,
        Kind::int(1),
        "10000",
        "connections",
        "How many connections may be open at once; further ones are closed as they come. A lower \
         number closes none that are open.",
    ),
    Setting::dynamic(
        CONNECTIONS_PER_ADDRESS_SETTING,
        Kind::int(0),
        "2147483647",
        "connections",
        "How many connections may be open from one address at once, on all listeners; further ones are \
         closed as they come. 0 only beside `max.connections.per.ip.overrides`, for addresses that are \
         not in it.",
    ),
    Setting::dynamic(
        CONNECTIONS_OF_ADDRESSES_SETTING,
        Kind::AddressLimits,
        "",
        "",
        "Addresses with another number than `max.connections.per.ip`, as `10.0.0.7:100,[::1]:5`. Kafka \
         takes names of hosts, too; here they are refused.",
    ),
    Setting::at_start(
        "logway.secure",
        Kind::Boolean,
        Some("false"),
        "",
        "Whether the broker sees to TLS and users itself, as `serve --secure` says: below `secure` in the first log directory it \
         makes an authority, certificates and a user `admin`. Listeners are SASL_SSL then, and ACLs in force.",
    ),
    Setting::at_start(
        "logway.secure.names",
        Kind::Texts,
        Some(""),
        "",
        "Names of hosts and addresses that certificates are for, beside those of the machine and its listeners.",
    ),
    Setting::at_start(
        "max.incremental.fetch.session.cache.slots",
        Kind::int(0),
        Some("1000"),
        "sessions",
        "How many fetch sessions are remembered (KIP-227). A consumer without one repeats its \
         partitions in every request.",
    ),
    Setting::at_start(
        "max.request.partition.size.limit",
        Kind::int(1),
        Some("2000"),
        "partitions",
        "How many partitions one DescribeTopicPartitions response lists; clients ask again for the \
         rest.",
    ),
    Setting::at_start(
        "node.id",
        Kind::int(0),
        Some("1"),
        "",
        "The broker's number in its cluster. It belongs to the data directory and never changes. Not set, a \
         node that joins a cluster gets the next free number.",
    ),
    Setting::at_start(
        "num.partitions",
        PARTITIONS,
        Some("1"),
        "partitions",
        "How many partitions a topic gets where its creator does not say.",
    ),
    Setting::at_start(
        "offset.metadata.max.bytes",
        Kind::int(0),
        Some("4096"),
        "UTF-16 units",
        "The longest text that may be committed with an offset. As in Kafka it is measured in UTF-16 \
         code units, in spite of its name: `ü` counts one, an emoji two.",
    ),
    Setting::at_start(
        "offsets.retention.check.interval.ms",
        Kind::long(1),
        Some("600000"),
        "ms",
        "How often committed offsets are looked through for those that have expired.",
    ),
    Setting::at_start(
        "offsets.retention.minutes",
        Kind::int(1),
        Some("10080"),
        "minutes",
        "How long the committed offsets of a group without members are kept (KIP-211).",
    ),
    Setting::at_start(
        "offsets.topic.compression.codec",
        Kind::Int { min: 0, max: 4, special: None },
        Some("0"),
        "",
        "What the batches of `__consumer_offsets` are compressed with: 0 for nothing, 1 gzip, \
         2 snappy, 3 lz4, 4 zstd. `compression.type` of that topic goes before it.",
    ),
    Setting::at_start(
        "offsets.topic.num.partitions",
        PARTITIONS,
        Some("50"),
        "partitions",
        "The partitions of `__consumer_offsets`, which keeps the groups and their offsets; it is \
         made when the first group asks for its coordinator.",
    ),
    Setting::at_start(
        "offsets.topic.replication.factor",
        REPLICAS,
        None,
        "replicas",
        "How many replicas the partitions of `__consumer_offsets` get. Not set, as many as those of any topic \
         (`default.replication.factor`), where Kafka has 3.",
    ),
    Setting::at_start(
        "offsets.topic.segment.bytes",
        Kind::int(1),
        Some("104857600"),
        "bytes",
        "The segment size of `__consumer_offsets`.",
    ),
    Setting::dynamic(
        PRODUCER_EXPIRATION_SETTING,
        Kind::int(1),
        "86400000",
        "ms",
        "How long a partition remembers an idempotent producer that has stopped writing.",
    ),
    Setting::at_start(
        "queued.max.request.bytes",
        Kind::long(1_048_576),
        Some("134217728"),
        "bytes",
        "The memory that all requests being received and handled share. When it is used up, \
         connections are read no further until some is free. Half as much is for answers that are \
         being made, as much for large ones on their way, and as much for batches that are compressed \
         anew; a request that names more than can be answered with that ends its connection.",
    ),
    Setting::at_start(
        "quota.window.num",
        Kind::int(1),
        Some("11"),
        "windows",
        "Over how many windows, of `quota.window.size.seconds` each, what a client uses is \
         averaged for its quota. It may use one window less than that at once after it was idle, \
         and is held up for all of them at most.",
    ),
    Setting::at_start(
        "quota.window.size.seconds",
        Kind::int(1),
        Some("1"),
        "seconds",
        "The length of one window of `quota.window.num`.",
    ),
    rate(MOVES_RATE_SETTING, "How fast the replicas that move to one log directory are copied."),
    Setting::at_start(
        "replica.fetch.response.max.bytes",
        Kind::int(1),
        Some("10485760"),
        "bytes",
        "The most that a follower gets from a leader in one answer; the first batch may be larger.",
    ),
    Setting::at_start(
        "replica.fetch.wait.max.ms",
        Kind::int(1),
        Some("500"),
        "ms",
        "How long a leader waits for something new before it answers a follower that has everything.",
    ),
    Setting::at_start(
        "replica.lag.time.max.ms",
        Kind::long(1),
        Some("30000"),
        "ms",
        "A replica in sync that had not everything for so long is not in sync any more.",
    ),
    Setting::at_start(
        "replica.selector.class",
        Kind::Word(&[RACK_AWARE_SELECTOR]),
        None,
        "",
        "From which replica consumers read that say in which rack they are (KIP-392), under the name of Kafka's class: one in \
         their rack that is in sync. Not set, all read from the leader.",
    ),
    Setting::at_start(
        "socket.request.max.bytes",
        Kind::int(1_024),
        Some("104857600"),
        "bytes",
        "The largest request that is read; a connection that announces a larger one is closed.",
    ),
    Setting::at_start(
        "telemetry.max.bytes",
        Kind::Int { min: 1, max: 8 << 20, special: None },
        Some("1048576"),
        "bytes",
        "The largest push of a client's metrics, compressed (KIP-714); it may unpack to four times \
         as much.",
    ),
];
