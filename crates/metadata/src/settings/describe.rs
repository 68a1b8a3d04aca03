//! The answers of DescribeConfigs, out of the tables.

use std::borrow::Cow;

use super::broker::{broker_setting, broker_settings};
use super::broker_settings::BrokerSettings;
use super::client_metrics::CLIENT_METRICS_SETTINGS;
use super::definition::{Effect, Setting, Update};
use super::group::GROUP_SETTINGS;
use super::layers::{ConfigSource, ConfigSynonym, Layers, topic_value};
use super::topic::TOPIC_SETTINGS;
use crate::image::{MetadataImage, Overrides};
use crate::record::ConfigResource;

/// Stands in the documentation of a setting before the reason why it changes nothing.
pub const NO_EFFECT: &str = "No effect here: ";

/// One setting as DescribeConfigs shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigEntry {
    /// The setting; its row has the type and the documentation.
    pub name: Cow<'static, str>,
    /// The value that holds, or `None` where the setting is not set.
    pub value: Option<String>,
    /// Where that value comes from.
    pub source: ConfigSource,
    /// Whether it can be changed only with a restart.
    pub read_only: bool,
    /// Whether the value must not be shown: then neither it nor its synonyms have one.
    pub sensitive: bool,
    /// The type's number on the wire.
    pub type_code: i8,
    /// What the setting does; ends with [`NO_EFFECT`] and a reason if it does nothing.
    pub documentation: Cow<'static, str>,
    /// Every place where it has a value, strongest first.
    pub synonyms: Vec<ConfigSynonym>,
}

/// All settings of a topic with these overrides, by name.
pub fn describe_topic(
    overrides: &Overrides,
    image: &MetadataImage,
    broker: &BrokerSettings,
) -> Vec<ConfigEntry> {
    let layers = Layers::new(image, broker);
    let entry = |setting: &'static Setting| {
        let places = layers.of_topic(setting, overrides);
        // A stored value that this version cannot read is shown as it is.
        let value = topic_value(setting, &places[0])
            .map_or_else(|_| places[0].value.clone(), |value| value.to_string());
        entry(setting, Some(value), places)
    };
    TOPIC_SETTINGS.iter().map(entry).collect()
}

/// All settings of this broker, by name, and those of single listeners that it was given.
pub fn describe_broker(image: &MetadataImage, broker: &BrokerSettings) -> Vec<ConfigEntry> {
    let layers = Layers::new(image, broker);
    let entry = |setting: &'static Setting| {
        let places = layers.of_broker(setting);
        entry(setting, places.first().map(|place| place.value.clone()), places)
    };
    let of_listeners = broker.settings_of_listeners().map(|(name, setting, value)| {
        let places = layers.of_listener(&name, value, setting);
        let value = Some(value.to_owned());
        // What a listener is made of lasts until the broker stops.
        ConfigEntry { name: name.into(), read_only: true, ..self::entry(setting, value, places) }
    });
    let mut entries: Vec<ConfigEntry> = broker_settings().iter().map(entry).collect();
    entries.extend(of_listeners);
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    entries
}

/// The settings that the cluster gives to all brokers while they run; only those that it does.
pub fn describe_broker_default(image: &MetadataImage) -> Vec<ConfigEntry> {
    let overrides = image.overrides(&ConfigResource::BrokerDefault);
    let entry = |(name, value): (&String, &String)| {
        let setting = broker_setting(name).ok()?;
        let source = ConfigSource::DynamicDefaultBrokerConfig;
        let place = ConfigSynonym { name: setting.name.into(), value: value.clone(), source };
        Some(entry(setting, Some(value.clone()), vec![place]))
    };
    overrides.into_iter().flatten().filter_map(entry).collect()
}

/// All settings of a group, by name.
pub fn describe_group(overrides: Option<&Overrides>) -> Vec<ConfigEntry> {
    describe_own(GROUP_SETTINGS, overrides, ConfigSource::GroupConfig)
}

/// All settings of a subscription to clients' metrics, by name.
pub fn describe_client_metrics(overrides: Option<&Overrides>) -> Vec<ConfigEntry> {
    describe_own(CLIENT_METRICS_SETTINGS, overrides, ConfigSource::ClientMetricsConfig)
}

/// Settings that have a value of their own or the default.
fn describe_own(
    settings: &'static [Setting],
    overrides: Option<&Overrides>,
    source: ConfigSource,
) -> Vec<ConfigEntry> {
    let described = settings.iter().map(|setting| {
        let own = overrides.and_then(|overrides| overrides.get(setting.name));
        let name = || setting.name.into();
        let own = own.map(|value| ConfigSynonym { name: name(), value: value.clone(), source });
        let default = setting.default.map(|value| ConfigSynonym {
            name: name(),
            value: value.to_owned(),
            source: ConfigSource::DefaultConfig,
        });
        let places: Vec<ConfigSynonym> = own.into_iter().chain(default).collect();
        entry(setting, places.first().map(|place| place.value.clone()), places)
    });
    described.collect()
}

fn entry(
    setting: &'static Setting,
    value: Option<String>,
    mut synonyms: Vec<ConfigSynonym>,
) -> ConfigEntry {
    let sensitive = setting.is_secret();
    if sensitive {
        synonyms.iter_mut().for_each(|place| place.value.clear());
    }
    ConfigEntry {
        name: setting.name.into(),
        value: value.filter(|_| !sensitive),
        source: synonyms.first().map_or(ConfigSource::DefaultConfig, |place| place.source),
        read_only: setting.update == Update::Restart,
        sensitive,
        type_code: setting.kind.type_code(),
        documentation: documentation(setting),
        synonyms,
    }
}

fn documentation(setting: &Setting) -> Cow<'static, str> {
    match setting.effect {
        Effect::Nothing(reason) => format!("{} {NO_EFFECT}{reason}.", setting.doc).into(),
        Effect::Now | Effect::DefaultOnly(_) => setting.doc.into(),
    }
}
