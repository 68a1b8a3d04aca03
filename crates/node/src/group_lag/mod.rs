//! How far groups are behind, as metrics.
//!
//! Measured when somebody asks for the metrics (`sampled`), and shown with the age of the numbers. A measurement asks the
//! shards as any client would, one group after the other, and reads records where nobody waits with it.

mod exposition;
mod measure;

use std::sync::Arc;

use crate::Node;
use crate::sampled::Sampled;
use measure::Measurement;

/// The latest measurement.
#[derive(Debug)]
pub struct GroupLag {
    /// `logway.group.lag.partitions.max`
    partitions_max: usize,
    sampled: Sampled<Measurement>,
}

impl GroupLag {
    /// Nothing was measured yet.
    pub(crate) fn new(partitions_max: usize) -> GroupLag {
        GroupLag { partitions_max, sampled: Sampled::default() }
    }
}

impl Node {
    /// Measures how far groups are behind, unless that was just done. Ends soon, whether that is
    /// done or not.
    pub(crate) async fn refresh_group_lag(self: &Arc<Self>) {
        let partitions_max = self.group_lag.partitions_max;
        if partitions_max == 0 {
            return;
        }
        let node = Arc::clone(self);
        let measure = async move { Measurement::take(&node, partitions_max).await };
        self.group_lag.sampled.refresh(measure).await;
    }
}
