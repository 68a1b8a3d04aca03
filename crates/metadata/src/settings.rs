//! Every setting that exists, in four tables, and what is made from them: parsed values, the
//! answers of DescribeConfigs, and the reference page.

pub mod definition;
mod nearest;
mod value;

pub mod topic;
mod topic_settings;

pub mod client_metrics;
pub mod group;

mod accepted;
mod balance;
pub mod broker;
mod broker_settings;
mod config_file;
pub mod consumer_groups;
mod coordinators;
mod front_doors;
mod given;
mod key_source;
mod listener;
mod listeners;
pub mod streams_groups;
mod transactions;

mod layers;

mod describe;
mod reference;

pub use broker_settings::{
    AuditSettings, AuthorizerSettings, BrokerSettings, CleanerSettings, ClusterSettings,
    DelegationTokenSettings, KinesisSettings, LogFormat, LogServiceSettings, NODE_ID_SETTING,
    NodeRole, ShardRates,
};
pub use config_file::parse_config_file;
pub use coordinators::{ConsumerGroupSettings, StreamsGroupSettings};
pub use definition::{Effect, Kind, Setting, Synonym, Update};
pub use describe::{
    ConfigEntry, NO_EFFECT, describe_broker, describe_broker_default, describe_client_metrics,
    describe_group, describe_topic,
};
pub use given::Secret;
pub use key_source::{KeyServer, KeySource};
pub use layers::{ConfigSource, ConfigSynonym};
pub use listeners::{
    BearerSettings, ClientAuth, KINESIS_LISTENER, ListenerSettings, LogspecSettings, SaslSettings,
    SecurityProtocol, TlsSettings,
};
pub use reference::render_reference;
pub use topic_settings::{CleanupPolicy, CompressionType, TimestampType, TopicSettings};
pub use value::{UNNAMED_LISTENER, Value, address_limits};
