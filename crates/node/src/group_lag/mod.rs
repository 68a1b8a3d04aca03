//! How far groups are behind, as metrics.
//!
//! Measured when somebody asks for the metrics, so a broker whose metrics nobody reads does none of
//! it, and what is read is new. One measurement is in work at a time, in a task of its own: it asks
//! the shards as any client would, one group after the other, and reads records where nobody waits
//! with it. It takes a tenth of the time at most. Who asks meanwhile gets the numbers of the last
//! one, with their age beside them.

mod exposition;
mod measure;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

use crate::Node;
use measure::Measurement;

/// Numbers that are no older are not measured anew.
const FRESH_MAX: Duration = Duration::from_secs(5);

/// After a measurement none is begun for this many times the time that it took.
const REST_FACTOR: u32 = 9;

/// How long whoever reads the metrics waits for new numbers.
const WAIT_MAX: Duration = Duration::from_millis(500);

/// The latest measurement.
#[derive(Debug)]
pub struct GroupLag {
    /// `logway.group.lag.partitions.max`
    partitions_max: usize,
    latest: ArcSwap<Measurement>,
    /// When the next measurement may begin; held while one is in work.
    due: Arc<Mutex<Instant>>,
}

impl GroupLag {
    /// Nothing was measured yet.
    pub(crate) fn new(partitions_max: usize) -> GroupLag {
        GroupLag {
            partitions_max,
            latest: ArcSwap::from_pointee(Measurement::default()),
            due: Arc::new(Mutex::new(Instant::now())),
        }
    }
}

impl Node {
    /// Measures how far groups are behind, unless that was just done. Ends soon, whether that is
    /// done or not.
    pub async fn refresh_group_lag(self: &Arc<Self>) {
        let until = Instant::now() + WAIT_MAX;
        let due = Arc::clone(&self.group_lag.due).lock_owned();
        let Ok(mut due) = timeout_at(until, due).await else { return };
        let began = Instant::now();
        if began < *due || self.group_lag.partitions_max == 0 {
            return;
        }
        let node = Arc::clone(self);
        let work = tokio::spawn(async move {
            let measurement = Measurement::take(&node, node.group_lag.partitions_max).await;
            node.group_lag.latest.store(Arc::new(measurement));
            *due = Instant::now() + FRESH_MAX.max(began.elapsed() * REST_FACTOR);
        });
        // One that is late goes on; one that failed has said so.
        let _ = timeout_at(until, work).await;
    }
}

#[cfg(test)]
mod tests {
    use logway_metadata::settings::BrokerSettings;
    use prometheus_client::registry::Registry;

    use super::*;
    use crate::log_levels::LogLevels;

    #[tokio::test]
    async fn who_asks_does_not_wait_for_a_measurement_that_takes_long() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().to_str().expect("is text");
        let settings = [("log.dirs", path)];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let settings = BrokerSettings::new(settings).expect("are valid");
        let node =
            Node::start(settings, None, LogLevels::default(), &mut Registry::default()).await;
        let node = node.expect("starts");
        let in_work = node.group_lag.due.lock().await;
        let asking = node.refresh_group_lag();
        timeout_at(Instant::now() + 20 * WAIT_MAX, asking).await.expect("ends soon");
        drop(in_work);
        node.stop().await.expect("stops");
    }
}
