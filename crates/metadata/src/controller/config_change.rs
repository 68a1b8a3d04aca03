//! What AlterConfigs, IncrementalAlterConfigs and CreateTopics have in common: checking the
//! overrides of one resource, and the records that lead to them.

use logway_model::ErrorCode;

use super::ControllerError;
use super::broker_rules::{check_in_force, check_scope};
use super::delete_topics::unknown_topic;
use super::partition_change::settle_eligible;
use crate::error::{MetadataError, excerpt};
use crate::image::{MetadataImage, Overrides};
use crate::record::{ConfigRecord, ConfigResource, MetadataRecord};
use crate::settings::broker::broker_setting;
use crate::settings::client_metrics::client_metrics_setting;
use crate::settings::group::{check_group_overrides, group_setting};
use crate::settings::topic::topic_setting;
use crate::settings::{BrokerSettings, Setting, TimestampType, TopicSettings, Update};

/// What a resource overrides now, or the refusal if there is no such resource.
pub(super) fn present_overrides(
    resource: &ConfigResource,
    image: &MetadataImage,
) -> Result<Overrides, ControllerError> {
    match resource {
        ConfigResource::Topic(name) if image.topic(name.as_str()).is_none() => {
            return Err(unknown_topic(name.as_str()));
        }
        ConfigResource::Broker(id) if image.broker(*id).is_none() => {
            let message = format!("No broker {id} is registered.");
            return Err(ControllerError::new(ErrorCode::BrokerIdNotRegistered, message));
        }
        _ => {}
    }
    Ok(image.overrides(resource).cloned().unwrap_or_default())
}

/// The setting of a name, of all that a resource has.
pub(super) fn setting_of(
    resource: &ConfigResource,
    name: &str,
) -> Result<&'static Setting, MetadataError> {
    match resource {
        ConfigResource::Topic(_) => topic_setting(name),
        ConfigResource::Broker(_) | ConfigResource::BrokerDefault => broker_setting(name),
        ConfigResource::Group(_) => group_setting(name),
        ConfigResource::ClientMetrics(_) => client_metrics_setting(name),
    }
}

/// The setting of a name that can be set on a resource while the broker runs.
pub(super) fn changeable_setting(
    resource: &ConfigResource,
    name: &str,
) -> Result<&'static Setting, ControllerError> {
    check_scope(resource, name)?;
    let changeable = setting_of(resource, name).and_then(|setting| match setting.update {
        Update::Dynamic => Ok(setting),
        Update::Restart => Err(MetadataError::ReadOnlySetting { name: setting.name }),
    });
    changeable.map_err(|error| refusal(resource, error))
}

/// Why settings cannot be put in force. Of a broker's or a subscription's, clients are told that the request is invalid,
/// as by Kafka, which would rather say what it says of a topic's but keeps to it (KAFKA-13609).
fn refusal(resource: &ConfigResource, error: MetadataError) -> ControllerError {
    let refusal = ControllerError::from(error);
    match refusal.code {
        ErrorCode::InvalidConfig
            if !matches!(resource, ConfigResource::Topic(_) | ConfigResource::Group(_)) =>
        {
            ControllerError { code: ErrorCode::InvalidRequest, ..refusal }
        }
        _ => refusal,
    }
}

/// The value a setting of a resource is given: checked, in canonical text.
pub(super) fn checked_value(
    resource: &ConfigResource,
    setting: &Setting,
    value: Option<&str>,
) -> Result<String, ControllerError> {
    match value {
        Some(value) => {
            let value = setting.parse(value).map_err(|error| refusal(resource, error))?;
            Ok(value.to_string())
        }
        None => {
            let message = format!("Setting '{}' is given no value.", setting.name);
            Err(ControllerError::new(ErrorCode::InvalidRequest, message))
        }
    }
}

/// The overrides of a topic that does not exist yet.
pub(super) fn check_topic_overrides(
    configs: &[(String, Option<String>)],
    image: &MetadataImage,
    broker: &BrokerSettings,
) -> Result<Overrides, ControllerError> {
    let mut overrides = Overrides::new();
    for (name, value) in configs {
        let setting = topic_setting(name)?;
        let Some(value) = value else {
            let message = format!("Setting '{}' is given no value.", excerpt(name));
            return Err(ControllerError::new(ErrorCode::InvalidConfig, message));
        };
        overrides.insert(name.clone(), setting.parse(value)?.to_string());
    }
    TopicSettings::resolve(&overrides, image, broker)?.check_together()?;
    Ok(overrides)
}

/// The records that turn a resource's present overrides into others.
///
/// Fails if settings that are valid one by one contradict each other.
pub(super) fn change_records(
    resource: &ConfigResource,
    present: &Overrides,
    wanted: &Overrides,
    image: &MetadataImage,
    broker: &BrokerSettings,
) -> Result<Vec<MetadataRecord>, ControllerError> {
    let record = |name: &String, value: Option<&String>| {
        let (resource, name, value) = (resource.clone(), name.clone(), value.cloned());
        MetadataRecord::Config(ConfigRecord { resource, name, value })
    };
    let removed = present.keys().filter(|name| !wanted.contains_key(*name));
    let removed = removed.map(|name| record(name, None));
    let set = wanted.iter().filter(|(name, value)| present.get(*name) != Some(*value));
    let set = set.map(|(name, value)| record(name, Some(value)));
    let mut records: Vec<MetadataRecord> = removed.chain(set).collect();

    match resource {
        ConfigResource::Group(_) => {
            let checked = check_group_overrides(present, wanted, &broker.groups);
            return checked.map(|()| records).map_err(|error| refusal(resource, error));
        }
        ConfigResource::ClientMetrics(_) => return Ok(records),
        _ => {}
    }
    let changed = image.apply(&records)?;
    if matches!(resource, ConfigResource::Broker(_) | ConfigResource::BrokerDefault) {
        check_in_force(wanted, image, &changed, broker)?;
    }
    if records.iter().any(is_of_min_insync) {
        records.extend(settle_eligible(&changed, broker));
    }
    let overrides = changed.overrides(resource).cloned().unwrap_or_default();
    let overrides = if is_topic(resource) { overrides } else { Overrides::new() };
    let settings = TopicSettings::resolve(&overrides, &changed, broker);
    let together = settings.and_then(|settings| settings.check_together().map(|()| settings));
    let settings = together.map_err(|error| refusal(resource, error))?;
    if let ConfigResource::Topic(name) = resource
        && changed.topic(name.as_str()).is_some_and(|topic| topic.stream.is_some())
    {
        check_stream(&settings)?;
    }
    Ok(records)
}

/// The most that a stream's topic must take in one batch: what one request of a Kinesis client can hold for one shard,
/// 10 MiB of data and keys, with room for what surrounds them.
pub(super) const STREAM_BATCH_BYTES: i32 = 12 << 20;

/// What a topic must obey that is a stream.
fn check_stream(settings: &TopicSettings) -> Result<(), ControllerError> {
    let reason = if settings.message_timestamp_type != TimestampType::LogAppendTime {
        "message.timestamp.type is LogAppendTime"
    } else if settings.cleanup_policy.compact {
        "cleanup.policy is delete"
    } else if settings.max_message_bytes < STREAM_BATCH_BYTES {
        "max.message.bytes is 12582912 or more"
    } else if settings.retention_ms.is_none() {
        // Shards are listed as long as they may have records, and clients are told a period in hours.
        "retention.ms is 0 or more"
    } else {
        return Ok(());
    };
    let message = format!("The topic is a stream. Of a stream, {reason}.");
    Err(ControllerError::new(ErrorCode::InvalidConfig, message))
}

fn is_of_min_insync(record: &MetadataRecord) -> bool {
    matches!(record, MetadataRecord::Config(config) if config.name == "min.insync.replicas")
}

fn is_topic(resource: &ConfigResource) -> bool {
    matches!(resource, ConfigResource::Topic(_))
}
