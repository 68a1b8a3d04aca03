//! Settings of topics, brokers and whatever else has some.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use logway_model::{BrokerId, ErrorCode, TopicName};
use logway_wire::WireString;
use logway_wire::messages::describe_configs_request::DescribeConfigsResource;
use logway_wire::messages::describe_configs_response::DescribeConfigsResourceResult;
use logway_wire::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use logway_wire::messages::{
    DescribeConfigsRequest, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
    ListConfigResourcesRequest,
};

use crate::error::check;
use crate::{Client, ClientError, Connection, MissingTopic, TopicSelection};

/// What can have settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConfigKind {
    /// A topic.
    Topic,
    /// A broker, by its number; without a name, all brokers.
    Broker,
    /// A consumer group (KIP-848).
    Group,
    /// A subscription to metrics of clients (KIP-714).
    ClientMetrics,
}

impl ConfigKind {
    /// Every kind.
    pub const ALL: [ConfigKind; 4] =
        [ConfigKind::Topic, ConfigKind::Broker, ConfigKind::Group, ConfigKind::ClientMetrics];

    /// The numbers are those of `ConfigResource.Type`.
    fn to_wire(self) -> i8 {
        match self {
            ConfigKind::Topic => 2,
            ConfigKind::Broker => 4,
            ConfigKind::ClientMetrics => 16,
            ConfigKind::Group => 32,
        }
    }

    /// A word for it.
    pub const fn name(self) -> &'static str {
        match self {
            ConfigKind::Topic => "topic",
            ConfigKind::Broker => "broker",
            ConfigKind::Group => "group",
            ConfigKind::ClientMetrics => "client-metrics",
        }
    }
}

/// Something that has settings; shown as `topic 'orders'`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfigResource {
    /// What it is.
    pub kind: ConfigKind,
    /// Its name.
    pub name: String,
}

impl ConfigResource {
    /// A topic's settings.
    pub fn topic(name: &TopicName) -> ConfigResource {
        ConfigResource { kind: ConfigKind::Topic, name: name.to_string() }
    }
}

impl fmt::Display for ConfigResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.kind, &*self.name) {
            (ConfigKind::Broker, "") => f.write_str("all brokers"),
            (kind, name) => write!(f, "{} '{name}'", kind.name()),
        }
    }
}

/// A request is about so many topics at most.
const TOPICS_MAX: usize = 500;

/// The operations of an incremental change (KIP-339).
const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

/// A setting and where its value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigEntry {
    /// The name.
    pub name: String,
    /// The value; `None` if the broker does not show it.
    pub value: Option<String>,
    /// Where the value comes from.
    pub source: ConfigSource,
    /// Whether the value is secret.
    pub is_sensitive: bool,
    /// Whether it cannot be changed.
    pub is_read_only: bool,
    /// What it does, if that was asked for and the broker tells.
    pub documentation: Option<String>,
}

/// Where the value of a setting comes from, the closest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigSource {
    /// Set for the topic.
    Topic,
    /// Set at run time for the broker.
    Broker,
    /// Set at run time for all brokers.
    AllBrokers,
    /// What the broker was started with: its configuration file or flags.
    Static,
    /// Built in.
    Default,
    /// Set for the subscription to metrics.
    ClientMetrics,
    /// Set for the group.
    Group,
    /// Something that this client does not know.
    Other,
}

impl ConfigSource {
    /// The numbers are those of `DescribeConfigsResponse.ConfigSource`.
    fn from_wire(source: i8) -> ConfigSource {
        match source {
            1 => ConfigSource::Topic,
            2 => ConfigSource::Broker,
            3 => ConfigSource::AllBrokers,
            4 => ConfigSource::Static,
            5 => ConfigSource::Default,
            7 => ConfigSource::ClientMetrics,
            8 => ConfigSource::Group,
            _ => ConfigSource::Other,
        }
    }

    /// A word for it.
    pub const fn name(self) -> &'static str {
        match self {
            ConfigSource::Topic => "topic",
            ConfigSource::Broker => "broker",
            ConfigSource::AllBrokers => "all-brokers",
            ConfigSource::Static => "static",
            ConfigSource::Default => "default",
            ConfigSource::ClientMetrics => "client-metrics",
            ConfigSource::Group => "group",
            ConfigSource::Other => "other",
        }
    }
}

/// One step of a change of settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigChange {
    /// Gives a setting a value.
    Set {
        /// The setting.
        name: String,
        /// Its value.
        value: String,
    },
    /// Adds an item to a setting that is a list.
    Append {
        /// The setting.
        name: String,
        /// The item.
        value: String,
    },
    /// Takes one out of it.
    Subtract {
        /// The setting.
        name: String,
        /// The item.
        value: String,
    },
    /// Takes a setting's value away, so that it gets its default.
    Delete {
        /// The setting.
        name: String,
    },
}

impl Client {
    /// All settings of a resource, in the broker's order.
    pub async fn describe_configs(
        &self,
        resource: &ConfigResource,
    ) -> Result<Vec<ConfigEntry>, ClientError> {
        self.describe(resource, None).await
    }

    /// Some settings of a resource with what they do.
    pub async fn explain_configs(
        &self,
        resource: &ConfigResource,
        names: &[&str],
    ) -> Result<Vec<ConfigEntry>, ClientError> {
        self.describe(resource, Some(names)).await
    }

    /// One setting of many topics. Topics that do not exist, and such as do not show the setting, are left out.
    pub async fn topic_setting(
        &self,
        topics: impl IntoIterator<Item = &TopicName>,
        setting: &str,
    ) -> Result<BTreeMap<TopicName, String>, ClientError> {
        let topics: Vec<&TopicName> = topics.into_iter().collect();
        let mut values = BTreeMap::new();
        for some in topics.chunks(TOPICS_MAX) {
            let described = |topic: &&TopicName| DescribeConfigsResource {
                resource_type: ConfigKind::Topic.to_wire(),
                resource_name: WireString::copy_of(topic.as_str()),
                configuration_keys: Some(vec![WireString::copy_of(setting)]),
                ..DescribeConfigsResource::default()
            };
            let resources = some.iter().map(described).collect();
            let request = DescribeConfigsRequest { resources, ..Default::default() };
            for result in self.call_any(&request).await?.results {
                if result.error_code == ErrorCode::UnknownTopicOrPartition.code() {
                    continue;
                }
                let what = || format!("describe the settings of topic '{}'", result.resource_name);
                check(what, result.error_code, result.error_message.as_ref())?;
                let value = result.configs.into_iter().find(|config| *config.name == *setting);
                let name = TopicName::new(result.resource_name.as_str()).ok();
                if let (Some(name), Some(value)) = (name, value.and_then(|config| config.value)) {
                    values.insert(name, value.into());
                }
            }
        }
        Ok(values)
    }

    async fn describe(
        &self,
        resource: &ConfigResource,
        explained: Option<&[&str]>,
    ) -> Result<Vec<ConfigEntry>, ClientError> {
        let keys = |names: &[&str]| names.iter().map(|name| WireString::copy_of(name)).collect();
        let described = DescribeConfigsResource {
            resource_type: resource.kind.to_wire(),
            resource_name: WireString::copy_of(&resource.name),
            configuration_keys: explained.map(keys),
            ..DescribeConfigsResource::default()
        };
        let request = DescribeConfigsRequest {
            resources: vec![described],
            // Brokers before version 3 cannot be asked for it.
            include_documentation: explained.is_some(),
            ..DescribeConfigsRequest::default()
        };
        let response = match self.broker_of(resource).await? {
            Some(connection) => connection.call(&request).await?,
            None => self.call_any(&request).await?,
        };
        let mut entries = Vec::new();
        for result in &response.results {
            let what = || format!("describe the settings of {resource}");
            check(what, result.error_code, result.error_message.as_ref())?;
            entries.extend(result.configs.iter().map(entry));
        }
        Ok(entries)
    }

    /// Changes settings of a resource and leaves the others as they are; with `validate_only`
    /// says whether they could be changed.
    pub async fn alter_configs(
        &self,
        resource: &ConfigResource,
        changes: &[ConfigChange],
        validate_only: bool,
    ) -> Result<(), ClientError> {
        let altered = AlterConfigsResource {
            resource_type: resource.kind.to_wire(),
            resource_name: WireString::copy_of(&resource.name),
            configs: changes.iter().map(alterable).collect(),
            ..AlterConfigsResource::default()
        };
        let request = IncrementalAlterConfigsRequest {
            resources: vec![altered],
            validate_only,
            ..IncrementalAlterConfigsRequest::default()
        };
        let codes = |response: &IncrementalAlterConfigsResponse| {
            response.responses.iter().map(|result| result.error_code).collect()
        };
        let response = match self.broker_of(resource).await? {
            Some(connection) => connection.call(&request).await?,
            None => self.change(&request, codes).await?,
        };
        let what = || format!("alter the settings of {resource}");
        response
            .responses
            .iter()
            .try_for_each(|result| check(what, result.error_code, result.error_message.as_ref()))
    }

    /// The names of all resources of a kind that have settings of their own, or could have.
    ///
    /// # Errors
    ///
    /// [`ClientError::Unsupported`] from brokers before KIP-1142.
    pub async fn list_config_resources(
        &self,
        kind: ConfigKind,
    ) -> Result<Vec<ConfigResource>, ClientError> {
        let connection = self.any().await?;
        let version = connection.version_for::<ListConfigResourcesRequest>(i16::MAX)?;
        // The first version lists client metrics and nothing else.
        let resource_types = match version {
            0 => Vec::new(),
            _ => vec![kind.to_wire()],
        };
        let request = ListConfigResourcesRequest { resource_types, ..Default::default() };
        let response = connection.send(&request, version).await?.response().await?;
        check(|| format!("list every {}", kind.name()), response.error_code, None)?;
        let listed = response.config_resources.into_iter();
        let of_kind = listed.filter(|listed| listed.resource_type == kind.to_wire());
        let mut resources: Vec<ConfigResource> = of_kind
            .map(|listed| ConfigResource { kind, name: listed.resource_name.into() })
            .collect();
        resources.sort();
        Ok(resources)
    }

    /// The broker that alone knows about a resource, if there is one: a broker has settings of its
    /// own.
    async fn broker_of(
        &self,
        resource: &ConfigResource,
    ) -> Result<Option<Connection>, ClientError> {
        let id = match (resource.kind, resource.name.parse()) {
            (ConfigKind::Broker, Ok(id)) => BrokerId(id),
            _ => return Ok(None),
        };
        let no_topics = BTreeSet::new();
        self.refresh_metadata(TopicSelection::Named(&no_topics), MissingTopic::Refuse).await?;
        self.broker(id).await.map(Some)
    }
}

fn entry(config: &DescribeConfigsResourceResult) -> ConfigEntry {
    ConfigEntry {
        name: config.name.to_string(),
        value: config.value.as_ref().map(ToString::to_string),
        source: ConfigSource::from_wire(config.config_source),
        is_sensitive: config.is_sensitive,
        is_read_only: config.read_only,
        documentation: config.documentation.as_ref().map(ToString::to_string),
    }
}

fn alterable(change: &ConfigChange) -> AlterableConfig {
    let (name, operation, value) = match change {
        ConfigChange::Set { name, value } => (name, SET, Some(WireString::copy_of(value))),
        ConfigChange::Append { name, value } => (name, APPEND, Some(WireString::copy_of(value))),
        ConfigChange::Subtract { name, value } => {
            (name, SUBTRACT, Some(WireString::copy_of(value)))
        }
        ConfigChange::Delete { name } => (name, DELETE, None),
    };
    AlterableConfig {
        name: WireString::copy_of(name),
        config_operation: operation,
        value,
        ..AlterableConfig::default()
    }
}
