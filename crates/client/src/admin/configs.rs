//! Settings of topics.

use logway_model::TopicName;
use logway_wire::WireString;
use logway_wire::messages::describe_configs_request::DescribeConfigsResource;
use logway_wire::messages::describe_configs_response::DescribeConfigsResourceResult;
use logway_wire::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use logway_wire::messages::{DescribeConfigsRequest, IncrementalAlterConfigsRequest};

use crate::error::check;
use crate::{Client, ClientError};

/// `ConfigResource.Type` of a topic (KIP-133).
const TOPIC_RESOURCE: i8 = 2;

/// The operations of an incremental change (KIP-339).
const SET: i8 = 0;
const DELETE: i8 = 1;

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
}

/// Where the value of a setting comes from, the closest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigSource {
    /// Set for the topic.
    Topic,
    /// Set at run time for the broker, or for all of them.
    Broker,
    /// From the broker's configuration file.
    File,
    /// Built in.
    Default,
    /// Something that this client does not know.
    Other,
}

impl ConfigSource {
    /// The numbers are those of `DescribeConfigsResponse.ConfigSource`.
    fn from_wire(source: i8) -> ConfigSource {
        match source {
            1 => ConfigSource::Topic,
            2 | 3 => ConfigSource::Broker,
            4 => ConfigSource::File,
            5 => ConfigSource::Default,
            _ => ConfigSource::Other,
        }
    }

    /// A word for it.
    pub const fn name(self) -> &'static str {
        match self {
            ConfigSource::Topic => "topic",
            ConfigSource::Broker => "broker",
            ConfigSource::File => "file",
            ConfigSource::Default => "default",
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
    /// Takes a setting's value away, so that it gets its default.
    Delete {
        /// The setting.
        name: String,
    },
}

impl Client {
    /// All settings of a topic, in the broker's order.
    pub async fn describe_topic_configs(
        &self,
        topic: &TopicName,
    ) -> Result<Vec<ConfigEntry>, ClientError> {
        let resource = DescribeConfigsResource {
            resource_type: TOPIC_RESOURCE,
            resource_name: WireString::copy_of(topic.as_str()),
            configuration_keys: None,
            ..DescribeConfigsResource::default()
        };
        let request = DescribeConfigsRequest { resources: vec![resource], ..Default::default() };
        let response = self.call_any(&request).await?;
        let mut entries = Vec::new();
        for result in &response.results {
            let what = || format!("describe the settings of topic '{topic}'");
            check(what, result.error_code, result.error_message.as_ref())?;
            entries.extend(result.configs.iter().map(entry));
        }
        Ok(entries)
    }

    /// Changes settings of a topic and leaves the others as they are.
    pub async fn alter_topic_configs(
        &self,
        topic: &TopicName,
        changes: &[ConfigChange],
    ) -> Result<(), ClientError> {
        let resource = AlterConfigsResource {
            resource_type: TOPIC_RESOURCE,
            resource_name: WireString::copy_of(topic.as_str()),
            configs: changes.iter().map(alterable).collect(),
            ..AlterConfigsResource::default()
        };
        let request =
            IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
        let response = self
            .change(&request, |response| response.responses.iter().map(|r| r.error_code).collect())
            .await?;
        let what = || format!("alter the settings of topic '{topic}'");
        response
            .responses
            .iter()
            .try_for_each(|result| check(what, result.error_code, result.error_message.as_ref()))
    }
}

fn entry(config: &DescribeConfigsResourceResult) -> ConfigEntry {
    ConfigEntry {
        name: config.name.to_string(),
        value: config.value.as_ref().map(ToString::to_string),
        source: ConfigSource::from_wire(config.config_source),
        is_sensitive: config.is_sensitive,
        is_read_only: config.read_only,
    }
}

fn alterable(change: &ConfigChange) -> AlterableConfig {
    let (name, operation, value) = match change {
        ConfigChange::Set { name, value } => (name, SET, Some(WireString::copy_of(value))),
        ConfigChange::Delete { name } => (name, DELETE, None),
    };
    AlterableConfig {
        name: WireString::copy_of(name),
        config_operation: operation,
        value,
        ..AlterableConfig::default()
    }
}
