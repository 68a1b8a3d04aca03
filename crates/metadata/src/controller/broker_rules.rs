//! What Kafka's brokers check when settings of theirs are changed while they run, beside each value by
//! itself.

use std::str::FromStr;

use logway_model::ErrorCode;

use super::ControllerError;
use crate::image::{MetadataImage, Overrides};
use crate::record::ConfigResource;
use crate::settings::BrokerSettings;
use crate::settings::broker::{
    AUTO_BALANCE_DISK_SETTING, AUTO_BALANCE_GONE_SETTING, AUTO_BALANCE_SETTING,
    AUTO_FINALIZE_SETTING, CLEANER_THREADS_SETTING, CONNECTIONS_OF_ADDRESSES_SETTING,
    CONNECTIONS_PER_ADDRESS_SETTING, JOIN_TOKENS_SETTING, NODE_DUTY_SETTING, broker_setting,
};

/// Numbers of threads change by half or to double at most, so that a slip of the finger starts no thousands.
const THREADS: [&str; 6] = [
    "background.threads",
    CLEANER_THREADS_SETTING,
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
];

/// Kafka has refused it since the controller elects leaders by it (KIP-966); tools that are written for
/// Kafka set it for all brokers.
const NOT_OF_ONE_BROKER: &str = "min.insync.replicas";

/// What one of them, the controller, goes by for all.
const OF_ALL_BROKERS: [&str; 5] = [
    JOIN_TOKENS_SETTING,
    AUTO_BALANCE_SETTING,
    AUTO_BALANCE_DISK_SETTING,
    AUTO_BALANCE_GONE_SETTING,
    AUTO_FINALIZE_SETTING,
];

/// Refuses a setting that one broker cannot have apart from the others.
pub(super) fn check_scope(resource: &ConfigResource, name: &str) -> Result<(), ControllerError> {
    match resource {
        ConfigResource::Broker(_) if name == NOT_OF_ONE_BROKER => {
            let message =
                format!("{name} cannot be set for one broker; set it for all, or for topics.");
            Err(ControllerError::new(ErrorCode::InvalidConfig, message))
        }
        ConfigResource::Broker(_) if OF_ALL_BROKERS.contains(&name) => {
            let message = format!("{name} is one for all brokers; it cannot be set for one.");
            Err(ControllerError::new(ErrorCode::InvalidConfig, message))
        }
        ConfigResource::BrokerDefault if name == NODE_DUTY_SETTING => {
            let message = format!("{name} is set for one broker; it cannot be set for all.");
            Err(ControllerError::new(ErrorCode::InvalidConfig, message))
        }
        _ => Ok(()),
    }
}

/// Checks what a change of `set` brings into force on this broker. What is only reset is always allowed.
pub(super) fn check_in_force(
    set: &Overrides,
    before: &MetadataImage,
    after: &MetadataImage,
    broker: &BrokerSettings,
) -> Result<(), ControllerError> {
    for name in THREADS.into_iter().filter(|name| set.contains_key(*name)) {
        let number = |image| in_force::<i32>(name, image, broker).unwrap_or(1);
        let (old, new) = (number(before), number(after));
        let (least, most) = ((old / 2).max(1), old.max(1).saturating_mul(2));
        if old != new && !(least..=most).contains(&new) {
            let message = format!(
                "{name} is {old} and can be changed to {least} up to {most} at a time, not to {new}."
            );
            return Err(ControllerError::new(ErrorCode::InvalidRequest, message));
        }
    }
    let name = CONNECTIONS_PER_ADDRESS_SETTING;
    let of_addresses = in_force::<String>(CONNECTIONS_OF_ADDRESSES_SETTING, after, broker);
    if in_force::<i32>(name, after, broker) == Some(0)
        && of_addresses.is_none_or(|text| text.is_empty())
    {
        let message = format!("{name} can be 0 only beside {CONNECTIONS_OF_ADDRESSES_SETTING}.");
        return Err(ControllerError::new(ErrorCode::InvalidRequest, message));
    }
    Ok(())
}

/// The value of a setting that this broker goes by.
fn in_force<T: FromStr>(name: &str, image: &MetadataImage, broker: &BrokerSettings) -> Option<T> {
    let of_brokers = [ConfigResource::Broker(broker.node_id), ConfigResource::BrokerDefault];
    let mut set =
        of_brokers.iter().filter_map(|resource| image.overrides(resource)?.get(name).cloned());
    let given = || broker.given(name).map(str::to_owned);
    let default = || Some(broker_setting(name).ok()?.default?.to_owned());
    set.next().or_else(given).or_else(default)?.parse().ok()
}
