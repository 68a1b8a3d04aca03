//! The cluster agrees on what its metadata may look like.

use logway_model::ErrorCode;
use serde::{Deserialize, Serialize};

use super::{Command, ControllerError, Decision};
use crate::image::MetadataImage;
use crate::level::{METADATA_FEATURE, MetadataLevel};
use crate::record::{FeatureRecord, MetadataRecord};
use crate::settings::BrokerSettings;

/// Finalises a level of the metadata (KIP-584). From then on a node that does not know the level cannot
/// follow. So there is no way back, and whoever sends this has seen that every node knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinalizeMetadataLevel {
    /// The level; a lower one than the cluster has changes nothing.
    pub level: MetadataLevel,
}

impl Command for FinalizeMetadataLevel {
    type Reply = ();

    /// A cluster on a full disk must be able to grow.
    const MAKES_SPACE: bool = true;

    fn evaluate(
        self,
        image: &MetadataImage,
        _broker: &BrokerSettings,
    ) -> Result<Decision<()>, ControllerError> {
        let FinalizeMetadataLevel { level } = self;
        if level > MetadataLevel::NEWEST {
            let newest = MetadataLevel::NEWEST;
            let message = format!("Metadata level {level} is not known; the newest is {newest}.");
            return Err(ControllerError::new(ErrorCode::FeatureUpdateFailed, message));
        }
        let name = METADATA_FEATURE.to_owned();
        let record = MetadataRecord::Feature(FeatureRecord { name, level: level.0 });
        let is_news = level > image.metadata_level();
        Ok(Decision { records: if is_news { vec![record] } else { Vec::new() }, reply: () })
    }
}
