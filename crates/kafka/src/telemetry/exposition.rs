//! Clients' metrics among the broker's own.

use std::time::Instant;

use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::ClientTelemetry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InstanceLabels {
    client_instance_id: String,
    client_id: String,
    software: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SeriesLabels {
    client_instance_id: String,
    client_id: String,
    metric: String,
    attributes: String,
}

impl ClientTelemetry {
    /// Writes what clients have pushed; nothing as long as nobody was asked.
    pub(crate) fn encode(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
    ) -> Result<(), std::fmt::Error> {
        let mut instances = self.instances();
        instances.forget_gone(Instant::now());
        let help = "Numbers of clients' metrics that were not kept because there are too many";
        let dropped = ConstCounter::new(instances.dropped);
        let name = "logway_client_metrics_dropped";
        dropped.encode(encoder.encode_descriptor(name, help, None, dropped.metric_type())?)?;
        let pushing = || instances.by_id.iter().filter(|(_, instance)| instance.pushes > 0);
        if pushing().next().is_none() {
            return Ok(());
        }
        let help = "Pushes of metrics, by client";
        let name = "logway_client_metrics_pushes";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (id, instance) in pushing() {
            let labels = InstanceLabels {
                client_instance_id: id.to_string(),
                client_id: instance.client_id.clone(),
                software: instance.software.clone(),
            };
            ConstCounter::new(instance.pushes).encode(family.encode_family(&labels)?)?;
        }
        let help =
            "What clients have pushed of their metrics: the latest of gauges, the total of sums";
        let name = "logway_client_metric";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (id, instance) in pushing() {
            for (series, &value) in &instance.series {
                let labels = SeriesLabels {
                    client_instance_id: id.to_string(),
                    client_id: instance.client_id.clone(),
                    metric: series.metric.clone(),
                    attributes: series.attributes.clone(),
                };
                ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}
