//! A broker leaves the cluster for good.

use logway_model::{BrokerId, DirectoryId, ErrorCode};
use serde::{Deserialize, Serialize};

use super::features::with_features;
use super::node_keys::join_tokens;
use super::partition_change::of_all_held_by;
use super::{Command, ControllerError, Decision};
use crate::image::{Duty, MetadataImage, PartitionImage};
use crate::record::{BrokerRecord, ConfigResource, MetadataRecord, RemoveBrokerRecord};
use crate::settings::BrokerSettings;
use crate::settings::broker::{JOIN_TOKENS_SETTING, NODE_DUTY_SETTING};

/// Removes a broker, whether it lives or not (Kafka's UnregisterBroker).
///
/// As in Kafka, others lead what it led, it leaves each ISR in which it is not the last one, and it stays among the
/// replicas of its partitions, offline. Unlike there, it does not come back by itself: its directory is remembered,
/// and refused ([`refuse_removed`]).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveBroker {
    /// Its number.
    pub id: BrokerId,
    /// Its directory with the metadata, as the quorum knows it; `None` where the quorum does not know the node.
    pub directory: Option<DirectoryId>,
    /// A node with an empty directory is to take its place. So it is refused while the broker serves, and while it is the last
    /// one in sync with a partition.
    #[serde(default)]
    pub is_replaced: bool,
}

impl Command for RemoveBroker {
    type Reply = ();

    /// What it led must get another leader on a full disk, too.
    const MAKES_SPACE: bool = true;

    fn evaluate(
        self,
        image: &MetadataImage,
        settings: &BrokerSettings,
    ) -> Result<Decision<()>, ControllerError> {
        let RemoveBroker { id, directory, is_replaced } = self;
        let broker = image.broker(id);
        let registered = broker.and_then(BrokerRecord::metadata_directory);
        let Some(directory) = directory.or(registered) else {
            let message = format!("Broker {id} is not registered.");
            return Err(ControllerError::new(ErrorCode::BrokerIdNotRegistered, message));
        };
        let is_removed = image.removed_brokers().by_directory(directory).is_some();
        // Whoever has the number by now is another node.
        if is_removed && registered != Some(directory) {
            return Ok(Decision { records: Vec::new(), reply: () });
        }
        if is_replaced {
            check_dispensable(image, id)?;
        }
        let mut records = of_all_held_by(image, settings, id, |change| change.lose(id, directory));
        let epoch = image.broker_session(id).map(|session| session.epoch);
        let record = RemoveBrokerRecord { id, directory, epoch };
        records.push(MetadataRecord::RemoveBroker(record));
        // Another node may get the number.
        if image.duty(id) != Duty::All {
            let resource = ConfigResource::Broker(id);
            records.push(MetadataRecord::override_ended(resource, NODE_DUTY_SETTING));
        }
        // They may name the removed node as the one to ask, which has the authority's key and would be believed.
        if !join_tokens(image).is_empty() {
            let resource = ConfigResource::BrokerDefault;
            records.push(MetadataRecord::override_ended(resource, JOIN_TOKENS_SETTING));
        }
        Ok(with_features(Decision { records, reply: () }, image))
    }
}

/// Refuses to have a broker replaced that serves, or that alone has all records of a partition: its directory could not come
/// back with them.
fn check_dispensable(image: &MetadataImage, id: BrokerId) -> Result<(), ControllerError> {
    if image.is_active(id) {
        let message = format!("Broker {id} serves. Stop it, and wait until it is fenced.");
        return Err(ControllerError::new(ErrorCode::DuplicateBrokerRegistration, message));
    }
    let mut last_of = image.topics().flat_map(|topic| {
        let is_last = |partition: &PartitionImage| partition.isr == [id];
        let partitions = topic.numbered_partitions();
        let lost = partitions.filter(move |(_, partition)| is_last(partition));
        lost.map(|(number, _)| format!("{}-{number}", topic.name))
    });
    let Some(first) = last_of.next() else { return Ok(()) };
    let count = 1 + last_of.count();
    let message = format!(
        "Broker {id} alone has all records of {count} partition(s), the first of which is {first}."
    );
    Err(ControllerError::new(ErrorCode::PolicyViolation, message))
}

/// Refuses a broker that was removed: a start that was under way when it was removed must not bring it back.
pub(super) fn refuse_removed(
    image: &MetadataImage,
    log_dirs: &[DirectoryId],
) -> Result<(), ControllerError> {
    let removed = log_dirs.iter().find_map(|dir| image.removed_brokers().by_directory(*dir));
    let Some(removed) = removed else { return Ok(()) };
    let message = format!("Broker {} was removed from the cluster.", removed.id);
    Err(ControllerError::new(ErrorCode::BrokerIdNotRegistered, message))
}
