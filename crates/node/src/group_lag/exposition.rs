//! The latest measurement among the broker's metrics.

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use super::GroupLag;

impl GroupLag {
    /// Writes what was measured last.
    pub(crate) fn encode(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
    ) -> Result<(), std::fmt::Error> {
        let latest = self.sampled.latest();
        let help = "Offsets that a group has not read yet, by partition";
        let name = "logway_group_lag_records";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for lag in &latest.lags {
            let gauge = ConstGauge::new(i64::try_from(lag.records).unwrap_or(i64::MAX));
            gauge.encode(family.encode_family(&lag.labels)?)?;
        }
        let help = "Age of the oldest record that a group has not read yet, by partition";
        let name = "logway_group_lag_seconds";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for lag in &latest.lags {
            if let Some(seconds) = lag.seconds {
                ConstGauge::new(seconds).encode(family.encode_family(&lag.labels)?)?;
            }
        }
        let help = "Groups whose lag is not shown, because there are more partitions than \
            logway.group.lag.partitions.max or their names are too long";
        let gauge = ConstGauge::new(i64::try_from(latest.groups_left_out).unwrap_or(i64::MAX));
        let name = "logway_group_lag_groups_left_out";
        gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        let help = "How long ago the lag of groups was measured";
        let gauge = ConstGauge::new(latest.at.elapsed().as_secs_f64());
        let name = "logway_group_lag_measured_seconds_ago";
        gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)
    }
}
