//! The latest of each metric, as many as there is room for.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use tokio::time::Instant;

/// Metrics that are kept. When there are more, the one that was told longest ago goes.
const SERIES_MAX: usize = 1_000;

/// One that is not told for so long goes.
const IDLE_MAX: Duration = Duration::from_secs(600);

/// A metric.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Series {
    /// The application that it is of.
    pub(super) namespace: String,
    /// Its name.
    pub(super) metric: String,
    /// `Name=value`, with commas between them.
    pub(super) dimensions: String,
    /// What it counts.
    pub(super) unit: String,
}

/// Some values together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sample {
    /// How many.
    pub(super) count: f64,
    /// Their sum.
    pub(super) sum: f64,
    /// The least.
    pub(super) minimum: f64,
    /// The greatest.
    pub(super) maximum: f64,
}

impl Sample {
    /// The same value so many times.
    pub(super) fn of(value: f64, count: f64) -> Sample {
        Sample { count, sum: value * count, minimum: value, maximum: value }
    }

    /// Both together.
    pub(super) fn with(self, other: Sample) -> Sample {
        Sample {
            count: self.count + other.count,
            sum: self.sum + other.sum,
            minimum: self.minimum.min(other.minimum),
            maximum: self.maximum.max(other.maximum),
        }
    }
}

/// One number of a sample.
type Statistic = fn(&Sample) -> f64;

/// The metrics that are kept, and in which order they were told.
#[derive(Debug, Default)]
struct Kept {
    latest: HashMap<Arc<Series>, (u64, Sample)>,
    by_age: BTreeMap<u64, (Instant, Arc<Series>)>,
    /// Numbers what is told.
    next: u64,
}

impl Kept {
    fn put(&mut self, series: Series, sample: Sample) {
        let series = Arc::new(series);
        let number = self.next;
        self.next += 1;
        match self.latest.insert(Arc::clone(&series), (number, sample)) {
            Some((before, _)) => _ = self.by_age.remove(&before),
            None if self.latest.len() > SERIES_MAX => self.remove_oldest(),
            None => {}
        }
        self.by_age.insert(number, (Instant::now(), series));
    }

    fn remove_oldest(&mut self) {
        if let Some((_, (_, series))) = self.by_age.pop_first() {
            self.latest.remove(&series);
        }
    }

    fn remove_idle(&mut self) {
        let now = Instant::now();
        let is_idle = |told: Instant| now.duration_since(told) > IDLE_MAX;
        while self.by_age.first_key_value().is_some_and(|(_, (told, _))| is_idle(*told)) {
            self.remove_oldest();
        }
    }
}

/// What clients have told of themselves.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gauges(Arc<Mutex<Kept>>);

impl Gauges {
    fn with<T>(&self, work: impl FnOnce(&mut Kept) -> T) -> T {
        // What it guards is right after each step.
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.remove_idle();
        work(&mut kept)
    }

    /// Takes over what was told of metrics.
    pub(super) fn put(&self, samples: Vec<(Series, Sample)>) {
        self.with(|kept| samples.into_iter().for_each(|(series, sample)| kept.put(series, sample)));
    }
}

impl Collector for Gauges {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let series = self.with(|kept| kept.latest.clone());
        let gauges: [(&str, &str, Statistic); 4] = [
            (
                "logway_cloudwatch_samples",
                "Values of a metric that was put last by PutMetricData",
                |it| it.count,
            ),
            ("logway_cloudwatch_sum", "The sum of the values that were put last", |it| it.sum),
            ("logway_cloudwatch_minimum", "The least of the values that were put last", |it| {
                it.minimum
            }),
            ("logway_cloudwatch_maximum", "The greatest of the values that were put last", |it| {
                it.maximum
            }),
        ];
        for (name, help, value) in gauges {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (labels, (_, sample)) in &series {
                ConstGauge::new(value(sample)).encode(family.encode_family(&**labels)?)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(number: usize) -> Series {
        let text = || "x".to_owned();
        Series { namespace: text(), metric: number.to_string(), dimensions: text(), unit: text() }
    }

    #[tokio::test(start_paused = true)]
    async fn the_ones_that_were_told_last_are_kept() {
        let gauges = Gauges::default();
        for number in 0..SERIES_MAX + 5 {
            gauges.put(vec![(series(number), Sample::of(1.0, 1.0))]);
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        gauges.with(|kept| {
            assert_eq!((kept.latest.len(), kept.by_age.len()), (SERIES_MAX, SERIES_MAX));
            assert!(!kept.latest.contains_key(&series(4)) && kept.latest.contains_key(&series(5)));
        });
        // One that is told again is the youngest, and takes no place of another one.
        gauges.put(vec![(series(5), Sample::of(2.0, 1.0))]);
        gauges.with(|kept| assert!(kept.latest.contains_key(&series(6))));
        gauges.put(vec![(series(SERIES_MAX + 5), Sample::of(1.0, 1.0))]);
        gauges.with(|kept| {
            assert_eq!((kept.latest.len(), kept.by_age.len()), (SERIES_MAX, SERIES_MAX));
            assert!(!kept.latest.contains_key(&series(6)) && kept.latest.contains_key(&series(5)));
        });
        tokio::time::advance(IDLE_MAX + Duration::from_secs(1)).await;
        gauges.with(|kept| assert!(kept.latest.is_empty() && kept.by_age.is_empty()));
    }

    #[test]
    fn values_are_summed_up() {
        let sample = Sample::of(2.0, 3.0).with(Sample::of(-1.0, 1.0));
        assert_eq!(sample, Sample { count: 4.0, sum: 5.0, minimum: -1.0, maximum: 2.0 });
    }
}
