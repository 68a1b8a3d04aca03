//! Metrics as they are on `/metrics`.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Weak;

use logway_metadata::{MetadataImage, TopicImage};
use logway_model::{PartitionId, TopicId};
use logway_node::Node;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::names::{Metric, SHARD_AGE, SHARD_METRICS, STREAM_AGE, STREAM_BEHIND, STREAM_METRICS};
use super::{OfShard, OfStream, StreamMetrics, fresh};
use crate::names::shard_id;

/// Shows what is counted of the streams that there are.
#[derive(Debug)]
pub(crate) struct StreamMetricsCollector {
    metrics: StreamMetrics,
    node: Weak<Node>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StreamLabel {
    stream: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ShardLabels {
    stream: String,
    shard: String,
}

/// What is shown, by its labels.
type Shown<L, N> = Vec<(L, N)>;

impl StreamMetricsCollector {
    pub(crate) fn new(metrics: StreamMetrics, node: Weak<Node>) -> StreamMetricsCollector {
        StreamMetricsCollector { metrics, node }
    }

    fn read(&self) -> Reading {
        let Some(node) = self.node.upgrade() else { return Reading::default() };
        let image = node.image();
        self.metrics.retain(|id| stream_of(&image, id).is_some());
        let all = self.metrics.all();
        Reading::of(&image, &all.streams, &all.shards)
    }
}

fn stream_of(image: &MetadataImage, id: TopicId) -> Option<&TopicImage> {
    image.topic_by_id(id).filter(|topic| topic.stream.is_some()).map(|topic| &**topic)
}

/// All that there is to show, of one moment.
#[derive(Default)]
struct Reading {
    streams: Shown<StreamLabel, OfStream>,
    /// With the metrics that the stream's enhanced monitoring has.
    shards: Shown<ShardLabels, (OfShard, Vec<String>)>,
    ages: BTreeMap<String, i64>,
    behind: BTreeMap<String, i64>,
}

impl Reading {
    fn of(
        image: &MetadataImage,
        streams: &HashMap<TopicId, OfStream>,
        shards: &HashMap<(TopicId, PartitionId), OfShard>,
    ) -> Reading {
        let mut reading = Reading::default();
        for (id, of_stream) in streams {
            let Some(topic) = stream_of(image, *id) else { continue };
            let stream = topic.name.as_str().to_owned();
            reading.streams.push((StreamLabel { stream }, of_stream.clone()));
        }
        for ((id, number), of_shard) in shards {
            let Some(topic) = stream_of(image, *id) else { continue };
            let stream = topic.name.as_str().to_owned();
            for (ages, age) in
                [(&mut reading.ages, of_shard.age), (&mut reading.behind, of_shard.behind)]
            {
                if let Some(ms) = fresh(age) {
                    let oldest = ages.entry(stream.clone()).or_default();
                    *oldest = ms.max(*oldest);
                }
            }
            let monitored = topic.stream.as_ref().map(|it| it.state.shard_metrics.clone());
            let monitored = monitored.unwrap_or_default();
            if !monitored.is_empty() {
                let labels = ShardLabels { stream, shard: shard_id(*number) };
                reading.shards.push((labels, (of_shard.clone(), monitored)));
            }
        }
        reading
    }
}

impl Collector for StreamMetricsCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let reading = self.read();
        for (index, metric) in STREAM_METRICS.iter().enumerate() {
            let counts = reading.streams.iter().map(|(labels, it)| (labels, it.counts[index]));
            counters(&mut encoder, metric, counts)?;
        }
        for (metric, ages) in [(&STREAM_AGE, &reading.ages), (&STREAM_BEHIND, &reading.behind)] {
            let ages: Vec<_> =
                ages.iter().map(|(name, ms)| (StreamLabel { stream: name.clone() }, *ms)).collect();
            gauges(&mut encoder, metric, ages.iter().map(|(labels, ms)| (labels, *ms)))?;
        }
        for (index, metric) in SHARD_METRICS.iter().enumerate() {
            let counts = reading.shards.iter().filter(|(_, it)| is_shown(metric, it));
            let counts = counts.map(|(labels, (it, _))| (labels, it.counts[index]));
            counters(&mut encoder, metric, counts)?;
        }
        let ages = reading.shards.iter().filter(|(_, it)| is_shown(&SHARD_AGE, it));
        let ages = ages.filter_map(|(labels, (it, _))| Some((labels, fresh(it.age)?)));
        gauges(&mut encoder, &SHARD_AGE, ages)
    }
}

fn is_shown(metric: &Metric, (_, monitored): &(OfShard, Vec<String>)) -> bool {
    monitored.iter().any(|name| name == metric.cloudwatch)
}

fn counters<'a, L: EncodeLabelSet + 'a>(
    encoder: &mut DescriptorEncoder<'_>,
    metric: &Metric,
    counts: impl Iterator<Item = (&'a L, u64)>,
) -> Result<(), fmt::Error> {
    let help = help(metric);
    let mut family = encoder.encode_descriptor(metric.family, &help, None, MetricType::Counter)?;
    for (labels, count) in counts {
        ConstCounter::new(count).encode(family.encode_family(labels)?)?;
    }
    Ok(())
}

fn gauges<'a, L: EncodeLabelSet + 'a>(
    encoder: &mut DescriptorEncoder<'_>,
    metric: &Metric,
    values: impl Iterator<Item = (&'a L, i64)>,
) -> Result<(), fmt::Error> {
    let help = help(metric);
    let mut family = encoder.encode_descriptor(metric.family, &help, None, MetricType::Gauge)?;
    for (labels, value) in values {
        ConstGauge::new(value).encode(family.encode_family(labels)?)?;
    }
    Ok(())
}

fn help(metric: &Metric) -> String {
    format!("{} (CloudWatch: {})", metric.help, metric.cloudwatch)
}

#[cfg(test)]
mod tests {
    use super::super::Counted;
    use super::super::names::{CountedOfShard, STREAM_METRIC_COUNT};
    use super::*;

    #[test]
    fn each_metric_is_in_the_place_of_its_number() {
        let name = |counted: Counted| STREAM_METRICS[counted as usize].cloudwatch;
        for (counted, told) in [
            (Counted::GetRecordsBytes, "GetRecords.Bytes"),
            (Counted::IncomingRecords, "IncomingRecords"),
            (Counted::PutRecordsThrottledRecords, "PutRecords.ThrottledRecords"),
            (Counted::ReadExceeded, "ReadProvisionedThroughputExceeded"),
            (Counted::SubscribeBytes, "SubscribeToShardEvent.Bytes"),
            (Counted::SubscribeEvents, "SubscribeToShardEvent.Success"),
            (Counted::SubscribeRateExceeded, "SubscribeToShard.RateExceeded"),
            (Counted::SubscribeSuccess, "SubscribeToShard.Success"),
            (Counted::WriteExceeded, "WriteProvisionedThroughputExceeded"),
        ] {
            assert_eq!(name(counted), told);
        }
        assert_eq!(Counted::WriteExceeded as usize, STREAM_METRIC_COUNT - 1);
        let write = SHARD_METRICS.last().map(|metric| metric.cloudwatch);
        assert_eq!(write, Some("WriteProvisionedThroughputExceeded"));
        assert_eq!(CountedOfShard::WriteExceeded as usize, SHARD_METRICS.len() - 1);
        let mut families: Vec<_> =
            STREAM_METRICS.iter().chain(&SHARD_METRICS).map(|metric| metric.family).collect();
        families.sort_unstable();
        families.dedup();
        assert_eq!(families.len(), STREAM_METRICS.len() + SHARD_METRICS.len());
    }
}
