//! A broker joins the cluster.

use logway_model::{BrokerId, DirectoryId};
use serde::{Deserialize, Serialize};

use super::partition_change::of_all_held_by;
use super::remove_broker::refuse_removed;
use super::{Command, ControllerError, Decision};
use crate::image::MetadataImage;
use crate::record::{BrokerRecord, Endpoint, MetadataRecord};
use crate::settings::BrokerSettings;

/// Makes a broker known, or changes what is known of it. A broker does this each time it starts and
/// when it loses a log directory; when nothing is new, nothing is committed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterBroker {
    /// Its number.
    pub id: BrokerId,
    /// The address it advertises, or `None` to tell each client the address it came by.
    pub endpoint: Option<Endpoint>,
    /// The failure domain it stands in, if it knows.
    pub rack: Option<String>,
    /// The log directories that it can use, in the order of its settings.
    pub log_dirs: Vec<DirectoryId>,
}

impl Command for RegisterBroker {
    type Reply = ();

    /// A broker must be able to start when the disk of the metadata is full, all the more if it was
    /// given another directory for that reason.
    const MAKES_SPACE: bool = true;

    fn evaluate(
        self,
        image: &MetadataImage,
        settings: &BrokerSettings,
    ) -> Result<Decision<()>, ControllerError> {
        let RegisterBroker { id, endpoint, rack, log_dirs } = self;
        refuse_removed(image, &log_dirs)?;
        let record = BrokerRecord { id, endpoint, rack, log_dirs };
        if image.broker(id) == Some(&record) {
            return Ok(Decision { records: Vec::new(), reply: () });
        }
        // Others lead what was in a directory that it has lost, if they are in sync (KIP-858).
        let left = of_all_held_by(image, settings, id, |change| {
            match change.is_without(id, &record.log_dirs) {
                true => change.leave(id),
                false => change,
            }
        });
        let records = [MetadataRecord::Broker(record)].into_iter().chain(left).collect();
        Ok(Decision { records, reply: () })
    }
}
