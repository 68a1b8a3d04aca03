//! What tokens are sealed with.

use logway_model::Uuid;
use serde::{Deserialize, Serialize};

use super::super::features::with_features;
use super::super::{Command, ControllerError, Decision};
use crate::image::MetadataImage;
use crate::record::{MetadataRecord, StreamsRecord};
use crate::settings::BrokerSettings;

/// Sees to it that there is a [`MetadataImage::sealing_key`]. One that is there stays: tokens are sealed with it.
///
/// The key lies in what streams share, which had one before others needed it. So older nodes can read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MakeSealingKey {
    /// 32 random bytes, should there be no key yet.
    pub key: [Uuid; 2],
}

impl Command for MakeSealingKey {
    type Reply = ();

    fn evaluate(
        self,
        image: &MetadataImage,
        _broker: &BrokerSettings,
    ) -> Result<Decision<()>, ControllerError> {
        let records = Vec::from_iter(first_record(image, self.key));
        Ok(with_features(Decision { records, reply: () }, image))
    }
}

/// What has to be there before the first token.
pub(super) fn first_record(image: &MetadataImage, token_key: [Uuid; 2]) -> Option<MetadataRecord> {
    let streams = StreamsRecord { token_key, commitment_since_ms: None };
    image.streams().is_none().then_some(MetadataRecord::Streams(streams))
}
