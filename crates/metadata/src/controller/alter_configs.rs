//! AlterConfigs and IncrementalAlterConfigs.

use std::collections::BTreeSet;

use logway_model::ErrorCode;
use serde::{Deserialize, Serialize};

use super::config_change::{
    change_records, changeable_setting, checked_value, present_overrides, setting_of,
};
use super::room_for_names::RoomForNames;
use super::{
    COMMAND_RECORDS_MAX, Command, ControllerError, Decision, duplicates, too_many_records,
};
use crate::error::excerpt;
use crate::image::{MetadataImage, Overrides};
use crate::record::{ConfigResource, MetadataRecord};
use crate::settings::broker::NODE_AUTHORITY_SETTING;
use crate::settings::{BrokerSettings, Setting};

/// Replaces all settings of resources, each resource by itself; what is not named loses its
/// override. Kafka's older call, with a race between reading and writing in its nature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlterConfigs {
    /// The resources.
    pub resources: Vec<ResourceConfigs>,
    /// Only say what would happen.
    pub validate_only: bool,
}

/// All the settings that one resource is to have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceConfigs {
    /// The resource.
    pub resource: ConfigResource,
    /// Settings with their values, not checked yet.
    pub configs: Vec<(String, Option<String>)>,
}

/// Changes single settings of resources, each resource by itself (KIP-339).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncrementalAlterConfigs {
    /// The resources.
    pub resources: Vec<ResourceOperations>,
    /// Only say what would happen.
    pub validate_only: bool,
}

/// The changes of one resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceOperations {
    /// The resource.
    pub resource: ConfigResource,
    /// The changes; no setting twice.
    pub operations: Vec<ConfigOperation>,
}

/// One change of one setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigOperation {
    /// The setting, not checked yet.
    pub name: String,
    /// What to do.
    pub kind: OperationKind,
    /// The value to do it with; ignored by `Delete`.
    pub value: Option<String>,
}

/// What to do with a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OperationKind {
    /// Override it.
    Set,
    /// End the override.
    Delete,
    /// Add items to a list.
    Append,
    /// Remove items from a list.
    Subtract,
}

impl OperationKind {
    /// The operation of a number on the wire.
    pub fn from_code(code: i8) -> Option<OperationKind> {
        match code {
            0 => Some(OperationKind::Set),
            1 => Some(OperationKind::Delete),
            2 => Some(OperationKind::Append),
            3 => Some(OperationKind::Subtract),
            _ => None,
        }
    }
}

impl Command for AlterConfigs {
    type Reply = Vec<Result<(), ControllerError>>;

    /// Retention can be shortened.
    const MAKES_SPACE: bool = true;

    fn evaluate(
        self,
        image: &MetadataImage,
        broker: &BrokerSettings,
    ) -> Result<Decision<Self::Reply>, ControllerError> {
        let asked_twice = duplicates(self.resources.iter().map(|change| &change.resource));
        let mut room = RoomForNames::of(image);
        let plans = self.resources.iter().map(|change| {
            let resource = &change.resource;
            check_once(&asked_twice, resource)?;
            check_names_once(change.configs.iter().map(|(name, _)| name))?;
            let present = present_overrides(resource, image)?;
            let mut wanted = Overrides::new();
            for (name, value) in &change.configs {
                let setting = changeable_setting(resource, name)?;
                wanted.insert(name.clone(), checked_value(resource, setting, value.as_deref())?);
            }
            keep_what_the_cluster_has_set(&present, &mut wanted);
            room.take(resource, &present, &wanted)?;
            change_records(resource, &present, &wanted, image, broker)
        });
        Ok(decide(plans, self.validate_only))
    }
}

impl Command for IncrementalAlterConfigs {
    type Reply = Vec<Result<(), ControllerError>>;

    /// Retention can be shortened.
    const MAKES_SPACE: bool = true;

    fn evaluate(
        self,
        image: &MetadataImage,
        broker: &BrokerSettings,
    ) -> Result<Decision<Self::Reply>, ControllerError> {
        let asked_twice = duplicates(self.resources.iter().map(|change| &change.resource));
        let mut room = RoomForNames::of(image);
        let plans = self.resources.iter().map(|change| {
            let resource = &change.resource;
            check_once(&asked_twice, resource)?;
            check_names_once(change.operations.iter().map(|operation| &operation.name))?;
            let present = present_overrides(resource, image)?;
            let mut wanted = present.clone();
            for operation in &change.operations {
                operate(resource, operation, &mut wanted)?;
            }
            keep_what_the_cluster_has_set(&present, &mut wanted);
            room.take(resource, &present, &wanted)?;
            change_records(resource, &present, &wanted, image, broker)
        });
        Ok(decide(plans, self.validate_only))
    }
}

/// Tools end all that they do not name or know of. The authority of nodes is there to be read.
fn keep_what_the_cluster_has_set(present: &Overrides, wanted: &mut Overrides) {
    if let Some((name, value)) = present.get_key_value(NODE_AUTHORITY_SETTING) {
        wanted.insert(name.clone(), value.clone());
    }
}

fn operate(
    resource: &ConfigResource,
    operation: &ConfigOperation,
    wanted: &mut Overrides,
) -> Result<(), ControllerError> {
    let name = &operation.name;
    let value = match operation.kind {
        OperationKind::Delete => {
            // As in Kafka, whatever the name: tools end all that they know of, and not only what
            // there is.
            wanted.remove(name);
            return Ok(());
        }
        OperationKind::Set => {
            let setting = changeable_setting(resource, name)?;
            checked_value(resource, setting, operation.value.as_deref())?
        }
        OperationKind::Append | OperationKind::Subtract => {
            // Of a name that it does not know, Kafka does not know either that it is of a list.
            let setting =
                changeable_setting(resource, name).map_err(|refusal| {
                    match setting_of(resource, name) {
                        Ok(_) => refusal,
                        Err(_) => ControllerError { code: ErrorCode::InvalidConfig, ..refusal },
                    }
                })?;
            changed_list(resource, setting, operation, wanted.get(name))?
        }
    };
    wanted.insert(name.clone(), value);
    Ok(())
}

/// A list with items added or removed. The list begins as the override or else the built-in
/// default, as in Kafka.
fn changed_list(
    resource: &ConfigResource,
    setting: &Setting,
    operation: &ConfigOperation,
    present: Option<&String>,
) -> Result<String, ControllerError> {
    if !setting.kind.is_list() {
        let message = format!(
            "Setting '{}' is not a list, so items cannot be added to it or \
             removed from it.",
            setting.name
        );
        return Err(ControllerError::new(ErrorCode::InvalidConfig, message));
    }
    let present = present.map(String::as_str).or(setting.default).unwrap_or_default();
    let mut items: Vec<String> = setting.parse(present)?.items().to_vec();
    let change = checked_value(resource, setting, operation.value.as_deref())?;
    let change = setting.parse(&change)?;
    items.retain(|item| !change.items().contains(item));
    if operation.kind == OperationKind::Append {
        items.extend_from_slice(change.items());
    }
    checked_value(resource, setting, Some(&items.join(",")))
}

fn check_once(
    asked_twice: &BTreeSet<ConfigResource>,
    resource: &ConfigResource,
) -> Result<(), ControllerError> {
    match asked_twice.contains(resource) {
        true => Err(resource_asked_twice(resource)),
        false => Ok(()),
    }
}

/// What of one request cannot be changed, as it is there twice. Nobody has to be judged for it, and nothing of it is
/// submitted: alone, one of the two would be changed.
pub fn resource_asked_twice(resource: &ConfigResource) -> ControllerError {
    let message = format!("The request has {resource} twice.");
    ControllerError::new(ErrorCode::InvalidRequest, message)
}

fn check_names_once<'a>(names: impl Iterator<Item = &'a String>) -> Result<(), ControllerError> {
    match duplicates(names).first() {
        None => Ok(()),
        Some(name) => {
            let message = format!("The request has the setting '{}' twice.", excerpt(name));
            Err(ControllerError::new(ErrorCode::InvalidRequest, message))
        }
    }
}

/// One answer for each plan, and the records of those that succeed, as long as they are not too many.
pub(super) fn decide(
    plans: impl Iterator<Item = Result<Vec<MetadataRecord>, ControllerError>>,
    validate_only: bool,
) -> Decision<Vec<Result<(), ControllerError>>> {
    let mut records = Vec::new();
    let mut add = |made: Vec<MetadataRecord>| {
        if records.len() + made.len() > COMMAND_RECORDS_MAX {
            return Err(too_many_records(COMMAND_RECORDS_MAX));
        }
        records.extend(made);
        Ok(())
    };
    let reply = plans.map(|plan| plan.and_then(&mut add)).collect();
    if validate_only {
        records.clear();
    }
    Decision { records, reply }
}
