//! The layers in which a setting's value is looked for.

use std::borrow::Cow;

use super::broker::{broker_setting, topic_setting_of_default};
use super::broker_settings::BrokerSettings;
use super::definition::Setting;
use super::value::Value;
use crate::error::MetadataError;
use crate::image::{MetadataImage, Overrides};
use crate::record::ConfigResource;

/// Where a value comes from, by its number in DescribeConfigs responses (KIP-226).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i8)]
pub enum ConfigSource {
    /// Set on the topic.
    DynamicTopicConfig = 1,
    /// Set on this broker while it runs.
    DynamicBrokerConfig = 2,
    /// Set on all brokers while they run.
    DynamicDefaultBrokerConfig = 3,
    /// From the broker's file or flags.
    StaticBrokerConfig = 4,
    /// Built in.
    DefaultConfig = 5,
    /// The level of a part of the broker's log.
    DynamicBrokerLoggerConfig = 6,
    /// Set on the subscription to metrics.
    ClientMetricsConfig = 7,
    /// Set on the group.
    GroupConfig = 8,
}

/// A place where a setting has a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigSynonym {
    /// The setting's name there.
    pub name: Cow<'static, str>,
    /// Its value there, in its own unit.
    pub value: String,
    /// The layer.
    pub source: ConfigSource,
}

/// The layers below a topic's own settings, as one broker sees them.
///
/// Strongest first: the topic's override, the broker's dynamic setting, the cluster's dynamic
/// default, the broker's file and flags, the built-in default.
pub(super) struct Layers<'a> {
    broker_dynamic: Option<&'a Overrides>,
    cluster_dynamic: Option<&'a Overrides>,
    broker: &'a BrokerSettings,
}

impl<'a> Layers<'a> {
    pub(super) fn new(image: &'a MetadataImage, broker: &'a BrokerSettings) -> Layers<'a> {
        Layers {
            broker_dynamic: image.overrides(&ConfigResource::Broker(broker.node_id)),
            cluster_dynamic: image.overrides(&ConfigResource::BrokerDefault),
            broker,
        }
    }

    /// Every place where a topic's setting has a value, strongest first; the last is the default.
    pub(super) fn of_topic(
        &self,
        setting: &'static Setting,
        overrides: &Overrides,
    ) -> Vec<ConfigSynonym> {
        let mut places = Vec::new();
        if let Some(value) = overrides.get(setting.name) {
            let (name, value) = (setting.name.into(), value.clone());
            places.push(ConfigSynonym { name, value, source: ConfigSource::DynamicTopicConfig });
        }
        for synonym in setting.synonyms {
            self.push_broker_layers(synonym.name, &mut places);
        }
        // Within the broker, the layer counts more than the name: a file's `log.retention.ms` is
        // weaker than a dynamic one. The sort is stable, so names keep their order in a layer.
        places.sort_by_key(|place| place.source as i8);
        places.push(default_of_topic(setting));
        places
    }

    /// Every place where a broker's setting has a value, strongest first.
    pub(super) fn of_broker(&self, setting: &'static Setting) -> Vec<ConfigSynonym> {
        let mut places = Vec::new();
        self.push_broker_layers(setting.name, &mut places);
        places.extend(setting.default.map(|value| ConfigSynonym {
            name: setting.name.into(),
            value: value.to_owned(),
            source: ConfigSource::DefaultConfig,
        }));
        places
    }

    /// Every place where a setting of one listener alone has a value, strongest first: it itself, then that of all listeners.
    pub(super) fn of_listener(
        &self,
        name: &str,
        value: &str,
        setting: &'static Setting,
    ) -> Vec<ConfigSynonym> {
        let mut places = self.of_broker(setting);
        let source = ConfigSource::StaticBrokerConfig;
        let own = ConfigSynonym { name: name.to_owned().into(), value: value.to_owned(), source };
        places.insert(0, own);
        places
    }

    fn push_broker_layers(&self, name: &'static str, places: &mut Vec<ConfigSynonym>) {
        let layers = [
            (ConfigSource::DynamicBrokerConfig, dynamic(self.broker_dynamic, name)),
            (ConfigSource::DynamicDefaultBrokerConfig, dynamic(self.cluster_dynamic, name)),
            (ConfigSource::StaticBrokerConfig, self.broker.given(name)),
        ];
        places.extend(layers.into_iter().filter_map(|(source, value)| {
            Some(ConfigSynonym { name: name.into(), value: value?.to_owned(), source })
        }));
    }
}

fn dynamic<'a>(overrides: Option<&'a Overrides>, name: &str) -> Option<&'a str> {
    overrides?.get(name).map(String::as_str)
}

/// The built-in default, under the name that Kafka documents it by.
fn default_of_topic(setting: &'static Setting) -> ConfigSynonym {
    let stated = setting.synonyms.iter().find_map(|synonym| Some((synonym.name, synonym.default?)));
    let first = setting.synonyms.first().map_or(setting.name, |synonym| synonym.name);
    let own = (first, setting.default.expect("every topic setting has a default"));
    let (name, value) = stated.unwrap_or(own);
    let source = ConfigSource::DefaultConfig;
    ConfigSynonym { name: name.into(), value: value.to_owned(), source }
}

/// The value of a topic's setting that is found at one place, in the topic setting's unit.
pub(super) fn topic_value(
    setting: &Setting,
    place: &ConfigSynonym,
) -> Result<Value, MetadataError> {
    if place.source == ConfigSource::DynamicTopicConfig {
        return setting.parse(&place.value);
    }
    match topic_setting_of_default(&place.name) {
        Some((_, synonym)) if synonym.factor != 1 => {
            let value = broker_setting(&place.name)?.parse(&place.value)?;
            Ok(in_units_of(value, synonym.factor))
        }
        _ => setting.parse(&place.value),
    }
}

/// A coarse number in a finer unit; a negative one means "without bound" in both.
fn in_units_of(value: Value, factor: i64) -> Value {
    match value {
        Value::Int(number) if number < 0 => Value::Long(i64::from(number)),
        Value::Int(number) => Value::Long(i64::from(number).saturating_mul(factor)),
        other => other,
    }
}
