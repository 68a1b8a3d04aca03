//! Names of broker settings that other parts look up while the broker runs.

/// A token that this node joins by.
pub const JOIN_TOKEN_SETTING: &str = "logway.join.token";

/// Which authority join tokens name.
pub const NODE_AUTHORITY_SETTING: &str = "logway.node.authority";

/// What a node is there for, by its number.
pub const NODE_DUTY_SETTING: &str = "logway.node.duty";

/// Whether a node holds partitions, or votes alone.
pub const NODE_ROLE_SETTING: &str = "logway.node.role";

/// What the cluster keeps of all tokens.
pub const JOIN_TOKENS_SETTING: &str = "logway.join.tokens";

/// How fast replicas move between log directories; Kafka's tool for reassignments sets it.
pub const MOVES_RATE_SETTING: &str = "replica.alter.log.dirs.io.max.bytes.per.second";

/// How fast replicas of partitions that topics name catch up, on the side of their leaders.
pub const LEADER_THROTTLE_RATE_SETTING: &str = "leader.replication.throttled.rate";

/// The same on the side of the followers.
pub const FOLLOWER_THROTTLE_RATE_SETTING: &str = "follower.replication.throttled.rate";

/// How fast a leader sends to all other replicas that catch up.
pub const CATCH_UP_RATE_SETTING: &str = "logway.replica.catch.up.max.bytes.per.second";

/// The default of [`CATCH_UP_RATE_SETTING`], in bytes per second.
pub const CATCH_UP_RATE_DEFAULT: u64 = 64 << 20;

/// How fast logs are compacted.
pub const CLEANER_RATE_SETTING: &str = "log.cleaner.io.max.bytes.per.second";

/// How many logs are compacted at the same time.
pub const CLEANER_THREADS_SETTING: &str = "log.cleaner.threads";

/// The memory for keys of compaction.
pub const CLEANER_MEMORY_SETTING: &str = "log.cleaner.dedupe.buffer.size";

/// How often logs to compact are looked for.
pub const CLEANER_BACKOFF_SETTING: &str = "log.cleaner.backoff.ms";

/// How many connections there may be.
pub const CONNECTIONS_SETTING: &str = "max.connections";

/// How many connections there may be from one address.
pub const CONNECTIONS_PER_ADDRESS_SETTING: &str = "max.connections.per.ip";

/// How many there may be from some addresses instead.
pub const CONNECTIONS_OF_ADDRESSES_SETTING: &str = "max.connections.per.ip.overrides";

/// How many connections are accepted per second.
pub const CONNECTION_RATE_SETTING: &str = "max.connection.creation.rate";

/// Kafka's authorizer of clusters without ZooKeeper.
pub const STANDARD_AUTHORIZER: &str = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";

/// Kafka's selector of replicas in the rack of who reads.
pub const RACK_AWARE_SELECTOR: &str = "org.apache.kafka.common.replica.RackAwareReplicaSelector";

/// How long an idempotent producer is remembered.
pub const PRODUCER_EXPIRATION_SETTING: &str = "producer.id.expiration.ms";
