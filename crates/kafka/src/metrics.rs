//! What the front door tells about its work.

use std::time::Duration;

use logway_wire::ApiKey;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ApiLabel {
    api: &'static str,
}

/// Counts and times requests, from the frame's arrival until its reply is on the socket.
#[derive(Debug)]
pub(crate) struct RequestMetrics {
    family: Family<ApiLabel, Histogram, fn() -> Histogram>,
    /// The family's histograms by API key, found without a lock.
    by_key: Vec<Option<Histogram>>,
}

impl RequestMetrics {
    /// For the APIs of these keys.
    pub(crate) fn new(keys: impl Iterator<Item = ApiKey>) -> RequestMetrics {
        // 50 µs to 13 s: from an answer out of memory to a disk that has stopped.
        let new = || Histogram::new(exponential_buckets(50e-6, 2.0, 18));
        let family = Family::new_with_constructor(new as fn() -> Histogram);
        let mut by_key = Vec::new();
        for key in keys {
            let index = usize::try_from(key.id()).expect("keys are not negative");
            by_key.resize(by_key.len().max(index + 1), None);
            by_key[index] = Some(family.get_or_create(&ApiLabel { api: key.name() }).clone());
        }
        RequestMetrics { family, by_key }
    }

    /// One request was answered.
    pub(crate) fn observe(&self, key: ApiKey, latency: Duration) {
        let histogram = usize::try_from(key.id()).ok().and_then(|id| self.by_key.get(id));
        if let Some(Some(histogram)) = histogram {
            histogram.observe(latency.as_secs_f64());
        }
    }

    /// Makes the metrics part of what the process exports.
    pub(crate) fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("logway");
        let help = "Time from a request's arrival to its reply on the socket, by API";
        registry.register("request_seconds", help, self.family.clone());
    }
}
