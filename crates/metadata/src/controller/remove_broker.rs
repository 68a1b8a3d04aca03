//! A broker leaves the cluster for good.

use logway_model::{BrokerId, DirectoryId, ErrorCode};
use serde::{Deserialize, Serialize};

use super::features::with_features;
use super::node_keys::join_tokens;
use super::partition_change::of_all_held_by;
use super::{Command, ControllerError, Decision};
use crate::image::{Duty, MetadataImage};
use crate::record::{ConfigResource, MetadataRecord, RemoveBrokerRecord};
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
        let RemoveBroker { id, directory } = self;
        let broker = image.broker(id);
        let registered = broker.and_then(|broker| broker.log_dirs.first().copied());
        let Some(directory) = directory.or(registered) else {
            let message = format!("Broker {id} is not registered.");
            return Err(ControllerError::new(ErrorCode::BrokerIdNotRegistered, message));
        };
        let is_removed = image.removed_brokers().by_directory(directory).is_some();
        if broker.is_none() && is_removed {
            return Ok(Decision { records: Vec::new(), reply: () });
        }
        let mut records = of_all_held_by(image, settings, id, |change| change.lose(id));
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
