//! Features that records need: nodes that do not know those records cannot follow.

use std::collections::BTreeSet;

use super::Decision;
use crate::image::MetadataImage;
use crate::record::{FeatureRecord, MetadataRecord};

/// Says in front of the first record of its kind that the cluster has such records.
pub(super) fn with_features<R>(mut decision: Decision<R>, image: &MetadataImage) -> Decision<R> {
    let needed: BTreeSet<_> = decision.records.iter().filter_map(MetadataRecord::feature).collect();
    let missing = needed.into_iter().filter(|(name, _)| !image.has_feature(name));
    let turned_on = missing.map(|(name, level)| {
        MetadataRecord::Feature(FeatureRecord { name: name.to_owned(), level })
    });
    decision.records.splice(0..0, turned_on);
    decision
}
