//! Producer ids, given out in blocks.

use logway_model::{ErrorCode, ProducerId};
use serde::{Deserialize, Serialize};

use super::{Command, ControllerError, Decision};
use crate::image::MetadataImage;
use crate::record::{MetadataRecord, ProducerIdsRecord};
use crate::settings::BrokerSettings;

/// How many producer ids a broker gets at a time.
pub const PRODUCER_ID_BLOCK: i64 = 1_000;

/// Reserves the next [`PRODUCER_ID_BLOCK`] producer ids for whoever asks.
///
/// What a broker has not used of a block when it stops is lost, so that no id is ever used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AllocateProducerIds;

/// Producer ids that are the asker's alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProducerIdBlock {
    /// The first.
    pub first: ProducerId,
    /// How many, from the first on.
    pub count: i64,
}

impl Command for AllocateProducerIds {
    type Reply = ProducerIdBlock;

    fn evaluate(
        self,
        image: &MetadataImage,
        _broker: &BrokerSettings,
    ) -> Result<Decision<ProducerIdBlock>, ControllerError> {
        let first = image.next_producer_id();
        let Some(next) = first.0.checked_add(PRODUCER_ID_BLOCK).map(ProducerId) else {
            let message = "Every producer id has been given out.";
            return Err(ControllerError::new(ErrorCode::UnknownServerError, message));
        };
        let records = vec![MetadataRecord::ProducerIds(ProducerIdsRecord { next })];
        let reply = ProducerIdBlock { first, count: PRODUCER_ID_BLOCK };
        Ok(Decision { records, reply })
    }
}
