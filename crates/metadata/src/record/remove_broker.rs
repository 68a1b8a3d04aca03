//! The end of a broker.

use logway_model::{BrokerId, DirectoryId};
use serde::{Deserialize, Serialize};

use super::BrokerEpoch;

/// A broker does not belong to the cluster any more. Its directory is remembered, so that the node is told why when it
/// comes back. Its number is free for another directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoveBrokerRecord {
    /// Which broker.
    pub id: BrokerId,
    /// Its directory with the metadata, which is never admitted again.
    pub directory: DirectoryId,
    /// Its last life; none of a broker that never started. Later lives of any broker are greater.
    pub epoch: Option<BrokerEpoch>,
}
