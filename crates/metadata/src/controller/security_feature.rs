//! The cluster has users or ACLs: nodes that know neither cannot follow.

use super::Decision;
use crate::image::MetadataImage;
use crate::level::{SECURITY_FEATURE, SECURITY_LEVEL};
use crate::record::{FeatureRecord, MetadataRecord};

/// Says in front of the first record of its kind that the cluster has such records.
pub(super) fn with_feature<R>(mut decision: Decision<R>, image: &MetadataImage) -> Decision<R> {
    let is_on = image.features().any(|(name, _)| name == SECURITY_FEATURE);
    if !decision.records.is_empty() && !is_on {
        let name = SECURITY_FEATURE.to_owned();
        let feature = FeatureRecord { name, level: SECURITY_LEVEL };
        decision.records.insert(0, MetadataRecord::Feature(feature));
    }
    decision
}
