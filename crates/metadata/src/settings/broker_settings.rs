//! What the broker was started with.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use logway_model::BrokerId;

use super::broker::{JOIN_TOKEN_SETTING, NODE_ROLE_SETTING, broker_setting};
use super::coordinators::{
    ConsumerGroupSettings, GroupCoordinatorSettings, StreamsGroupSettings,
    TransactionCoordinatorSettings,
};
use super::definition::Setting;
use super::given::{Given, Secret};
use super::listeners::{
    AllListeners, GivenOfListeners, KINESIS_LISTENER, LISTENER_PREFIX, ListenerSettings,
    LogspecSettings, TlsSettings, listener_setting, listeners,
};
use super::value::{NamedAddress, Value, parse_address, parse_named_address};
use crate::error::MetadataError;
use crate::record::Endpoint;

/// A node's number; who is not given one gets it from its data directory or its cluster.
pub const NODE_ID_SETTING: &str = "node.id";

/// By which of them clients are served, beside `listeners`.
const FRONT_DOORS: &[&str] = &["kinesis.listen", "logservice.listen", "logservice.logspec.listen"];

/// The broker's settings as its file and flags gave them; they last until it stops.
///
/// The defaults of topic settings are not fields here: other layers can override them, so they
/// are found by [`TopicSettings`](super::TopicSettings).
#[derive(Debug, Clone, PartialEq)]
pub struct BrokerSettings {
    given: Given,
    given_of_listeners: GivenOfListeners,
    /// `node.id`
    pub node_id: BrokerId,
    /// `log.dirs`, at least one. The first holds the metadata, too.
    pub log_dirs: Vec<PathBuf>,
    /// `listeners`, at least one.
    pub listeners: Vec<ListenerSettings>,
    /// `logway.http.listen`
    pub http: Vec<ListenerSettings>,
    /// `logway.log.format`
    pub log_format: LogFormat,
    /// `logway.log.level`: each is `level` or `part=level`.
    pub log_levels: Vec<String>,
    /// `num.partitions`
    pub num_partitions: i32,
    /// `default.replication.factor`
    pub default_replication_factor: i16,
    /// `auto.create.topics.enable`
    pub auto_create_topics: bool,
    /// `delete.topic.enable`
    pub delete_topics: bool,
    /// `socket.request.max.bytes`
    pub request_max_bytes: usize,
    /// `queued.max.request.bytes`
    pub requests_memory_max_bytes: usize,
    /// `fetch.max.bytes`
    pub fetch_max_bytes: usize,
    /// `max.connections`
    pub connections_max: usize,
    /// `connections.max.idle.ms`, or `None` for ever.
    pub connections_max_idle: Option<Duration>,
    /// `max.incremental.fetch.session.cache.slots`
    pub fetch_sessions_max: usize,
    /// `max.request.partition.size.limit`
    pub describe_partitions_max: usize,
    /// `log.retention.check.interval.ms`
    pub retention_check_interval: Duration,
    /// `log.flush.offset.checkpoint.interval.ms`
    pub checkpoint_interval: Duration,
    /// `logway.journal.bytes`
    pub journal_bytes: u64,
    /// `producer.id.expiration.ms`
    pub producer_id_expiration: Duration,
    /// `logway.producers.max`
    pub producers_max: usize,
    /// `telemetry.max.bytes`
    pub telemetry_max_bytes: usize,
    /// `quota.window.num`
    pub quota_windows: u32,
    /// `quota.window.size.seconds`
    pub quota_window_size: Duration,
    /// `controller.quota.window.num`
    pub controller_quota_windows: u32,
    /// `controller.quota.window.size.seconds`
    pub controller_quota_window_size: Duration,
    /// `max.connection.creation.rate`
    pub connections_per_second_max: u32,
    /// `logway.append.inline`
    pub inline_appends: bool,
    /// `logway.group.lag.partitions.max`
    pub group_lag_partitions_max: usize,
    /// What compaction goes by.
    pub cleaner: CleanerSettings,
    /// What the group coordinator goes by.
    pub groups: GroupCoordinatorSettings,
    /// The transaction coordinator's.
    pub transactions: TransactionCoordinatorSettings,
    /// What the node goes by among others.
    pub cluster: ClusterSettings,
    /// The log service.
    pub log_service: LogServiceSettings,
    /// The front door for Kinesis clients.
    pub kinesis: KinesisSettings,
    /// `authorizer.class.name`, or `None` where everybody may do everything.
    pub authorizer: Option<AuthorizerSettings>,
    /// Programs that log in for users.
    pub delegation_tokens: DelegationTokenSettings,
    /// The audit log, or `None` where there is none.
    pub audit: Option<AuditSettings>,
    /// `logway.secure`
    pub secure: bool,
    /// `logway.secure.names`
    pub secure_names: Vec<String>,
}

/// What delegation tokens go by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DelegationTokenSettings {
    /// `delegation.token.secret.key`, or `None` where there are no tokens.
    pub secret_key: Option<Secret>,
    /// `delegation.token.max.lifetime.ms`
    pub lifetime_max_ms: i64,
    /// `delegation.token.expiry.time.ms`
    pub renewal_max_ms: i64,
    /// `delegation.token.expiry.check.interval.ms`
    pub check_interval: Duration,
}

/// Where the audit log is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditSettings {
    /// `logway.audit.log.file`
    pub file: PathBuf,
    /// `logway.audit.log.max.bytes`
    pub file_bytes_max: u64,
    /// `logway.audit.log.max.files`
    pub files_max: u32,
}

/// What ACLs are read with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthorizerSettings {
    /// `super.users`, each as `User:alice`.
    pub super_users: BTreeSet<String>,
    /// `allow.everyone.if.no.acl.found`
    pub allows_where_no_acl: bool,
}

/// How the broker's own log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// As fits what stderr is connected to.
    Auto,
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
    /// For systemd's journal.
    Journal,
}

/// What file and flags say of compaction; all of it can be changed while the broker runs.
#[derive(Debug, Clone, PartialEq)]
pub struct CleanerSettings {
    /// `log.cleaner.threads`
    pub threads: usize,
    /// `log.cleaner.dedupe.buffer.size`
    pub keys_bytes_max: usize,
    /// `log.cleaner.backoff.ms`
    pub backoff: Duration,
}

/// What a node is in its cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NodeRole {
    /// It holds partitions and serves clients, and may vote.
    #[default]
    Broker,
    /// It only votes: to the metadata it is no broker, as Kafka's controllers that are nothing else (KIP-500).
    Voter,
}

/// How a node takes part in a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterSettings {
    /// `logway.node.role`
    pub role: NodeRole,
    /// `logway.node.listen`, or `None` for the port after that of Kafka clients.
    pub listen: Option<Endpoint>,
    /// `logway.node.advertised`
    pub advertised: Option<String>,
    /// `logway.join`: addresses of nodes of a cluster to join.
    pub join: Vec<String>,
    /// `logway.join.token`
    pub join_token: Option<Secret>,
    /// `logway.insecure`
    pub insecure: bool,
    /// `broker.rack`
    pub rack: Option<String>,
    /// Whether consumers are sent to replicas in their racks: `replica.selector.class`
    pub sends_readers_to_racks: bool,
    /// `broker.heartbeat.interval.ms`
    pub heartbeat_interval: Duration,
    /// `broker.session.timeout.ms`
    pub session_timeout: Duration,
    /// `leader.imbalance.check.interval.seconds`, or `None` where `auto.leader.rebalance.enable` is off.
    pub imbalance_check_interval: Option<Duration>,
    /// `replica.lag.time.max.ms`
    pub replica_lag_max: Duration,
    /// `logway.replica.stall.max.ms`
    pub replica_stall_max: Duration,
    /// `replica.fetch.wait.max.ms`
    pub fetch_wait_max: Duration,
    /// `replica.fetch.response.max.bytes`
    pub fetch_max_bytes: u32,
}

/// The settings of the log service.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LogServiceSettings {
    /// `logservice.listen`: none, where there is no log service.
    pub listeners: Vec<ListenerSettings>,
    /// `logservice.logspec.listen`
    pub logspec: Vec<LogspecSettings>,
}

/// The settings of the front door for Kinesis clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KinesisSettings {
    /// `kinesis.listen`, or `None` for no such listener.
    pub listen: Option<Endpoint>,
    /// `kinesis.tls`: what TLS needs there, or `None` where nothing is encrypted.
    pub tls: Option<TlsSettings>,
    /// `kinesis.signatures`
    pub checks_signatures: bool,
    /// `kinesis.account.id`
    pub account_id: String,
    /// `kinesis.region`
    pub region: String,
    /// `kinesis.shard.limit`
    pub shard_limit: u32,
    /// `kinesis.stream.delay.ms`
    pub stream_delay: Duration,
    /// `kinesis.shard.*.per.second`
    pub shard_rates: ShardRates,
}

/// What clients may do with a shard of a stream in a second; `None` is without limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ShardRates {
    /// `kinesis.shard.write.bytes.per.second`
    pub written_bytes: Option<u64>,
    /// `kinesis.shard.write.records.per.second`
    pub written_records: Option<u64>,
    /// `kinesis.shard.read.bytes.per.second`
    pub read_bytes: Option<u64>,
    /// `kinesis.shard.reads.per.second`
    pub reads: Option<u64>,
}

impl ShardRates {
    /// Whether writing has a limit.
    pub fn limit_writes(&self) -> bool {
        self.written_bytes.is_some() || self.written_records.is_some()
    }

    /// Whether reading has a limit.
    pub fn limit_reads(&self) -> bool {
        self.read_bytes.is_some() || self.reads.is_some()
    }
}

impl KinesisSettings {
    /// Whether it is encrypted, and nobody uses it who has not shown who he is.
    pub fn is_guarded(&self) -> bool {
        self.tls.is_some() && self.checks_signatures
    }
}

impl Default for BrokerSettings {
    fn default() -> BrokerSettings {
        BrokerSettings::new([]).expect("the defaults are valid")
    }
}

impl BrokerSettings {
    /// Whether a front door may have this address: it is guarded, no other machine can reach it, or `logway.insecure` says
    /// that this does not matter.
    pub fn may_listen(&self, address: IpAddr, is_guarded: bool) -> bool {
        is_guarded || address.is_loopback() || self.cluster.insecure
    }

    /// The settings of single listeners that were given: the whole name, which setting it is, and the value.
    pub(super) fn settings_of_listeners(
        &self,
    ) -> impl Iterator<Item = (String, &'static Setting, &str)> {
        self.given_of_listeners.iter().filter_map(|((listener, name), value)| {
            let whole = format!("{LISTENER_PREFIX}{}.{name}", listener.to_lowercase());
            Some((whole, broker_setting(name).ok()?, &**value))
        })
    }

    /// Checks settings given by name, a later one winning over an earlier one of the same name:
    /// so the file's come first and the flags' after them.
    pub fn new(
        settings: impl IntoIterator<Item = (String, String)>,
    ) -> Result<BrokerSettings, MetadataError> {
        let (mut given, mut given_of_listeners) = (Given::default(), GivenOfListeners::new());
        for (name, text) in settings {
            if let Some(of_listener) = listener_setting(&name, &text) {
                let (name, value) = of_listener?;
                given_of_listeners.insert(name, value);
                continue;
            }
            let setting = broker_setting(&name)?;
            let value = setting.parse(&text)?;
            given.insert(setting.name, value.to_string());
        }
        BrokerSettings::of_parsed(given, given_of_listeners)
    }

    /// The value that file or flags gave to a setting, in canonical text.
    pub fn given(&self, name: &str) -> Option<&str> {
        self.given.get(name)
    }

    /// The same of the node with this number: that of its data directory, or the one that the cluster has given it.
    pub fn with_node_id(&self, id: BrokerId) -> BrokerSettings {
        let mut settings = self.clone();
        settings.given.insert(NODE_ID_SETTING, id.to_string());
        settings.node_id = id;
        settings
    }

    /// Of values that their settings can have.
    fn of_parsed(
        given: Given,
        given_of_listeners: GivenOfListeners,
    ) -> Result<BrokerSettings, MetadataError> {
        let fields = Fields { given: &given, of_listeners: &given_of_listeners, listener: None };
        let AllListeners { kafka: listeners, http, log_service, logspec } = listeners(&fields)?;
        Ok(BrokerSettings {
            node_id: BrokerId(fields.int(NODE_ID_SETTING)),
            log_dirs: fields.paths("log.dirs"),
            listeners,
            log_service: LogServiceSettings { listeners: log_service, logspec },
            http,
            log_format: fields.log_format(),
            log_levels: fields.list("logway.log.level"),
            num_partitions: fields.int("num.partitions"),
            default_replication_factor: fields
                .replicas("default.replication.factor")
                .expect("it has a default"),
            auto_create_topics: fields.boolean("auto.create.topics.enable"),
            delete_topics: fields.boolean("delete.topic.enable"),
            request_max_bytes: fields.size("socket.request.max.bytes"),
            requests_memory_max_bytes: fields.size("queued.max.request.bytes"),
            fetch_max_bytes: fields.size("fetch.max.bytes"),
            connections_max: fields.size("max.connections"),
            connections_max_idle: fields.duration("connections.max.idle.ms"),
            fetch_sessions_max: fields.size("max.incremental.fetch.session.cache.slots"),
            describe_partitions_max: fields.size("max.request.partition.size.limit"),
            retention_check_interval: fields.interval("log.retention.check.interval.ms"),
            checkpoint_interval: fields.interval("log.flush.offset.checkpoint.interval.ms"),
            journal_bytes: fields.size("logway.journal.bytes") as u64,
            producer_id_expiration: fields.interval("producer.id.expiration.ms"),
            producers_max: fields.size("logway.producers.max"),
            telemetry_max_bytes: fields.size("telemetry.max.bytes"),
            quota_windows: fields.positive("quota.window.num"),
            quota_window_size: fields.seconds("quota.window.size.seconds"),
            controller_quota_windows: fields.positive("controller.quota.window.num"),
            controller_quota_window_size: fields.seconds("controller.quota.window.size.seconds"),
            connections_per_second_max: fields.positive("max.connection.creation.rate"),
            inline_appends: fields.boolean("logway.append.inline"),
            group_lag_partitions_max: fields.size("logway.group.lag.partitions.max"),
            cleaner: CleanerSettings {
                threads: fields.size("log.cleaner.threads"),
                keys_bytes_max: fields.size("log.cleaner.dedupe.buffer.size"),
                backoff: fields.interval("log.cleaner.backoff.ms"),
            },
            groups: fields.groups(),
            transactions: fields.transactions(),
            cluster: fields.cluster()?,
            authorizer: fields.authorizer(),
            delegation_tokens: fields.delegation_tokens(),
            audit: fields.audit(),
            secure: fields.boolean("logway.secure"),
            secure_names: fields.list("logway.secure.names"),
            kinesis: fields.kinesis()?,
            given,
            given_of_listeners,
        })
    }
}

/// Reads fields out of checked texts. It panics on names and types that the table does not have,
/// which the first test that makes any settings would show.
pub(super) struct Fields<'a> {
    given: &'a Given,
    pub(super) of_listeners: &'a GivenOfListeners,
    /// The listener whose own settings beat those of all.
    listener: Option<&'a str>,
}

impl<'a> Fields<'a> {
    /// The fields as they are for one listener.
    pub(super) fn of(&self, listener: &'a str) -> Fields<'a> {
        Fields { listener: Some(listener), ..*self }
    }

    /// Whether a setting without a default is set.
    pub(super) fn has(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    fn value(&self, name: &str) -> Option<Value> {
        let setting = broker_setting(name).expect("the table has every field's setting");
        let of_listener = self
            .listener
            .and_then(|listener| self.of_listeners.get(&(listener.to_owned(), setting.name)));
        match of_listener.map(String::as_str).or_else(|| self.given.get(name)) {
            Some(text) => Some(setting.parse(text).expect("given values were checked")),
            None => setting.default_value(),
        }
    }

    fn number(&self, name: &str) -> i64 {
        match self.value(name) {
            Some(Value::Int(number)) => i64::from(number),
            Some(Value::Long(number)) => number,
            other => unreachable!("'{name}' is {other:?}, not a number"),
        }
    }

    fn int(&self, name: &str) -> i32 {
        i32::try_from(self.number(name)).expect("the setting's type is int")
    }

    fn positive(&self, name: &str) -> u32 {
        u32::try_from(self.int(name)).expect("the setting's least value is positive")
    }

    /// A number of replicas, if one is said.
    fn replicas(&self, name: &str) -> Option<i16> {
        let number = self.has(name).then(|| self.int(name))?;
        Some(i16::try_from(number).expect("the setting's bounds are those of i16"))
    }

    /// A size that is never negative.
    pub(super) fn size(&self, name: &str) -> usize {
        usize::try_from(self.number(name)).unwrap_or(usize::MAX)
    }

    fn duration(&self, name: &str) -> Option<Duration> {
        u64::try_from(self.number(name)).ok().map(Duration::from_millis)
    }

    pub(super) fn interval(&self, name: &str) -> Duration {
        self.duration(name).expect("the setting's least value is not negative")
    }

    pub(super) fn seconds(&self, name: &str) -> Duration {
        let seconds = u64::try_from(self.number(name));
        Duration::from_secs(seconds.expect("the setting's least value is not negative"))
    }

    fn groups(&self) -> GroupCoordinatorSettings {
        const MINUTE: Duration = Duration::from_secs(60);
        let minutes = u32::try_from(self.int("offsets.retention.minutes"))
            .expect("the setting's least value is positive");
        GroupCoordinatorSettings {
            session_timeout_min_ms: self.int("group.min.session.timeout.ms"),
            session_timeout_max_ms: self.int("group.max.session.timeout.ms"),
            initial_rebalance_delay: self.interval("group.initial.rebalance.delay.ms"),
            memory_max_bytes: self.size("logway.groups.max.bytes"),
            group_size_max: self.size("group.max.size"),
            consumer: self.consumer_groups(),
            streams: self.streams_groups(),
            offset_metadata_max_units: self.size("offset.metadata.max.bytes"),
            offsets_retention: MINUTE * minutes,
            offsets_retention_check_interval: self.interval("offsets.retention.check.interval.ms"),
            offsets_topic_codec: u8::try_from(self.int("offsets.topic.compression.codec"))
                .expect("its bounds are those of the codecs"),
            offsets_topic_partitions: self.int("offsets.topic.num.partitions"),
            offsets_topic_replicas: self.replicas("offsets.topic.replication.factor"),
            offsets_topic_segment_bytes: self.int("offsets.topic.segment.bytes"),
        }
    }

    fn serves_protocol(&self, protocol: &str) -> bool {
        let served = self.list("group.coordinator.rebalance.protocols");
        served.iter().any(|name| name == protocol)
    }

    fn streams_groups(&self) -> StreamsGroupSettings {
        let number =
            |name: &str| u32::try_from(self.int(&format!("group.streams.{name}"))).unwrap_or(0);
        let bounded =
            |name: &str| ["", "min.", "max."].map(|bound| number(&format!("{bound}{name}")));
        StreamsGroupSettings {
            is_served: self.serves_protocol("streams"),
            session_timeout_ms: bounded("session.timeout.ms"),
            heartbeat_interval_ms: bounded("heartbeat.interval.ms"),
            assignment_interval_ms: bounded("assignment.interval.ms"),
            initial_rebalance_delay_ms: number("initial.rebalance.delay.ms"),
            standby_replicas: number("num.standby.replicas"),
            standby_replicas_max: number("max.standby.replicas"),
            size_max: self.size("group.streams.max.size"),
        }
    }

    fn consumer_groups(&self) -> ConsumerGroupSettings {
        let ms = |name: &str| u32::try_from(self.int(name)).unwrap_or(0);
        let bounded = |name: &str| {
            ["", "min.", "max."].map(|bound| ms(&format!("group.consumer.{bound}{name}")))
        };
        let policy = self.text("group.consumer.migration.policy");
        ConsumerGroupSettings {
            is_served: self.serves_protocol("consumer"),
            session_timeout_ms: bounded("session.timeout.ms"),
            heartbeat_interval_ms: bounded("heartbeat.interval.ms"),
            assignment_interval_ms: bounded("assignment.interval.ms"),
            size_max: self.size("group.consumer.max.size"),
            assignors: self.list("group.consumer.assignors"),
            pattern_refresh_interval_ms: ms("group.consumer.regex.refresh.interval.ms"),
            upgrades: ["bidirectional", "upgrade"].contains(&policy.as_str()),
            downgrades: ["bidirectional", "downgrade"].contains(&policy.as_str()),
        }
    }

    fn transactions(&self) -> TransactionCoordinatorSettings {
        TransactionCoordinatorSettings {
            timeout_max_ms: self.int("transaction.max.timeout.ms"),
            id_expiration: self.interval("transactional.id.expiration.ms"),
            topic_partitions: self.int("transaction.state.log.num.partitions"),
            topic_replicas: self.replicas("transaction.state.log.replication.factor"),
            topic_in_sync_min: self.replicas("transaction.state.log.min.isr"),
            topic_segment_bytes: self.int("transaction.state.log.segment.bytes"),
            memory_max_bytes: self.size("logway.transactions.max.bytes"),
        }
    }

    fn kinesis(&self) -> Result<KinesisSettings, MetadataError> {
        const ACCOUNT_ID_DIGITS: usize = 12;
        const REGION_CHARS_MAX: usize = 64;
        let account_id =
            self.text_of("kinesis.account.id", "it must be twelve digits", |text| {
                text.len() == ACCOUNT_ID_DIGITS && text.bytes().all(|byte| byte.is_ascii_digit())
            })?;
        // Both are parts of names in which `:` and `/` separate.
        let region = "it must be 1 to 64 letters, digits and '-'";
        let region = self.text_of("kinesis.region", region, |text| {
            let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            (1..=REGION_CHARS_MAX).contains(&text.len()) && text.bytes().all(is_legal)
        })?;
        let has_tls = self.has("kinesis.listen") && self.boolean("kinesis.tls");
        let own = self.of(KINESIS_LISTENER);
        Ok(KinesisSettings {
            listen: self.addresses("kinesis.listen").pop(),
            tls: has_tls.then(|| own.checked_tls(KINESIS_LISTENER, "kinesis.tls")).transpose()?,
            checks_signatures: self.boolean("kinesis.signatures"),
            account_id,
            region,
            shard_limit: self.positive("kinesis.shard.limit"),
            stream_delay: self.interval("kinesis.stream.delay.ms"),
            shard_rates: ShardRates {
                written_bytes: self.rate("kinesis.shard.write.bytes.per.second"),
                written_records: self.rate("kinesis.shard.write.records.per.second"),
                read_bytes: self.rate("kinesis.shard.read.bytes.per.second"),
                reads: self.rate("kinesis.shard.reads.per.second"),
            },
        })
    }

    /// What may be done in a second, where that has a limit.
    fn rate(&self, name: &str) -> Option<u64> {
        self.has(name).then(|| u64::try_from(self.number(name)).unwrap_or(u64::MAX))
    }

    /// A text that has to be of a form.
    fn text_of(
        &self,
        name: &str,
        form: &str,
        is_of_form: impl Fn(&str) -> bool,
    ) -> Result<String, MetadataError> {
        let text = self.text(name);
        match is_of_form(&text) {
            true => Ok(text),
            false => Err(broker_setting(name)?.invalid(&text, form.to_owned())),
        }
    }

    /// # Errors
    ///
    /// A voter has no front doors.
    fn role(&self) -> Result<NodeRole, MetadataError> {
        if self.text(NODE_ROLE_SETTING) != "voter" {
            return Ok(NodeRole::Broker);
        }
        let is_given = |name: &&&str| self.given.get(name).is_some();
        match FRONT_DOORS.iter().find(is_given) {
            None => Ok(NodeRole::Voter),
            Some(name) => {
                let reason = format!("a voter serves no clients, and {name} is set");
                Err(broker_setting(NODE_ROLE_SETTING)?.invalid("voter", reason))
            }
        }
    }

    fn cluster(&self) -> Result<ClusterSettings, MetadataError> {
        let texts = |name: &str| Some(self.list(name).join(",")).filter(|text| !text.is_empty());
        Ok(ClusterSettings {
            role: self.role()?,
            listen: self.addresses("logway.node.listen").pop(),
            advertised: texts("logway.node.advertised"),
            join: self.addresses("logway.join").iter().map(Endpoint::to_string).collect(),
            join_token: self
                .given
                .get(JOIN_TOKEN_SETTING)
                .map(|token| Secret::new(token.to_owned())),
            insecure: self.boolean("logway.insecure"),
            rack: texts("broker.rack"),
            sends_readers_to_racks: self.has("replica.selector.class"),
            heartbeat_interval: self.interval("broker.heartbeat.interval.ms"),
            session_timeout: self.interval("broker.session.timeout.ms"),
            imbalance_check_interval: self
                .boolean("auto.leader.rebalance.enable")
                .then(|| self.seconds("leader.imbalance.check.interval.seconds")),
            replica_lag_max: self.interval("replica.lag.time.max.ms"),
            replica_stall_max: self.interval("logway.replica.stall.max.ms"),
            fetch_wait_max: self.interval("replica.fetch.wait.max.ms"),
            fetch_max_bytes: self.positive("replica.fetch.response.max.bytes"),
        })
    }

    fn authorizer(&self) -> Option<AuthorizerSettings> {
        let is_on = !self.text("authorizer.class.name").is_empty();
        let super_users = self.text("super.users");
        let super_users = super_users.split(';').map(str::trim).filter(|user| !user.is_empty());
        is_on.then(|| AuthorizerSettings {
            super_users: super_users.map(str::to_owned).collect(),
            allows_where_no_acl: self.boolean("allow.everyone.if.no.acl.found"),
        })
    }

    fn delegation_tokens(&self) -> DelegationTokenSettings {
        let secret_key = self.text("delegation.token.secret.key");
        DelegationTokenSettings {
            secret_key: (!secret_key.is_empty()).then(|| Secret::new(secret_key)),
            lifetime_max_ms: self.number("delegation.token.max.lifetime.ms"),
            renewal_max_ms: self.number("delegation.token.expiry.time.ms"),
            check_interval: self.interval("delegation.token.expiry.check.interval.ms"),
        }
    }

    fn audit(&self) -> Option<AuditSettings> {
        let file = self.text("logway.audit.log.file");
        (!file.is_empty()).then(|| AuditSettings {
            file: file.into(),
            file_bytes_max: self.number("logway.audit.log.max.bytes").unsigned_abs(),
            files_max: self.positive("logway.audit.log.max.files"),
        })
    }

    fn boolean(&self, name: &str) -> bool {
        match self.value(name) {
            Some(Value::Boolean(value)) => value,
            other => unreachable!("'{name}' is {other:?}, not a boolean"),
        }
    }

    fn log_format(&self) -> LogFormat {
        match self.value("logway.log.format") {
            Some(Value::Text(word)) if word == "text" => LogFormat::Text,
            Some(Value::Text(word)) if word == "json" => LogFormat::Json,
            Some(Value::Text(word)) if word == "journal" => LogFormat::Journal,
            _ => LogFormat::Auto,
        }
    }

    pub(super) fn list(&self, name: &str) -> Vec<String> {
        self.value(name).map(|value| value.items().to_vec()).unwrap_or_default()
    }

    /// A text; empty where none is set.
    pub(super) fn text(&self, name: &str) -> String {
        self.value(name).map(|value| value.to_string()).unwrap_or_default()
    }

    pub(super) fn named_addresses(&self, name: &str) -> Vec<NamedAddress> {
        self.list(name).iter().filter_map(|item| parse_named_address(item)).collect()
    }

    fn paths(&self, name: &str) -> Vec<PathBuf> {
        let value = self.value(name).expect("the setting has a default");
        value.items().iter().map(PathBuf::from).collect()
    }

    fn addresses(&self, name: &str) -> Vec<Endpoint> {
        let text = self.value(name).map(|value| value.to_string()).unwrap_or_default();
        text.split(',').filter_map(parse_address).collect()
    }
}
