//! What all connections of the front door share.

use std::sync::{Arc, Weak};

use logway_node::Node;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::gauge::ConstGauge;

use crate::fetch_session::FetchSessions;
use crate::metrics::RequestMetrics;
use crate::telemetry::ClientTelemetry;

/// Partitions that all fetch sessions together may remember: some tens of MiB.
const SESSION_PARTITIONS_MAX: usize = 200_000;

/// A node as Kafka clients see it, and what the front door itself remembers of them.
pub(crate) struct Service {
    /// What is served.
    pub(crate) node: Arc<Node>,
    /// What consumers have told us once and need not repeat.
    pub(crate) fetch_sessions: FetchSessions,
    /// The metrics of clients that were asked for theirs.
    pub(crate) telemetry: ClientTelemetry,
    /// Requests by API.
    pub(crate) metrics: RequestMetrics,
}

impl Service {
    pub(crate) fn new(node: Arc<Node>, metrics: RequestMetrics) -> Service {
        let settings = &node.settings;
        Service {
            fetch_sessions: FetchSessions::new(settings.fetch_sessions_max, SESSION_PARTITIONS_MAX),
            telemetry: ClientTelemetry::new(settings.telemetry_max_bytes),
            metrics,
            node,
        }
    }
}

/// What is not counted but looked at, each time somebody asks: the fetch sessions, and what clients
/// have told of themselves.
#[derive(Debug)]
pub(crate) struct ServiceState(pub(crate) Weak<Service>);

impl Collector for ServiceState {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let Some(service) = self.0.upgrade() else { return Ok(()) };
        let sessions = i64::try_from(service.fetch_sessions.count()).unwrap_or(i64::MAX);
        let gauge = ConstGauge::new(sessions);
        let name = "logway_fetch_sessions";
        let family =
            encoder.encode_descriptor(name, "Fetch sessions", None, gauge.metric_type())?;
        gauge.encode(family)?;
        service.telemetry.encode(&mut encoder)
    }
}
