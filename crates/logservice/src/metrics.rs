//! What is counted.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Counts what clients of the log service do, beside what topics count.
#[derive(Debug, Clone, Default)]
pub(crate) struct Metrics {
    /// Streams that are open.
    pub(crate) appends_open: Gauge,
    pub(crate) reads_open: Gauge,
    /// Records that readers did not get because of their filters.
    pub(crate) filtered_records: Counter,
    /// Records of those for which their expression had no result.
    pub(crate) unresolved_records: Counter,
    /// Appends that came again, and were in the log.
    pub(crate) duplicates: Counter,
    /// Looks at logs for those who ask about them.
    pub(crate) looks: Counter,
    /// Connections that were given up because memory was short and they read nothing.
    pub(crate) given_up: Counter,
}

impl Metrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("logway_log_service");
        registry.register(
            "append_streams_open",
            "Append streams open now",
            self.appends_open.clone(),
        );
        registry.register("read_streams_open", "Read streams open now", self.reads_open.clone());
        let help = "Records that readers of the log service did not get because of their filters";
        registry.register("filtered_records", help, self.filtered_records.clone());
        let help = "Records among those for which the expression of a filter had no result";
        registry.register("unresolved_records", help, self.unresolved_records.clone());
        let help = "Appends of the log service that came again and were not appended twice";
        registry.register("duplicate_appends", help, self.duplicates.clone());
        let help = "Looks at logs for Info, Watch and InfoStream, which those who ask at the same time share";
        registry.register("looks", help, self.looks.clone());
        let help = "Connections of the log service given up because they read nothing while memory was short";
        registry.register("connections_given_up", help, self.given_up.clone());
    }
}

/// Counts an open stream.
pub(crate) struct Open(Gauge);

impl Open {
    pub(crate) fn of(gauge: &Gauge) -> Open {
        gauge.inc();
        Open(gauge.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.dec();
    }
}
