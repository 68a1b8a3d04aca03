//! The result of one run.

use clap::ValueEnum;
use hdrhistogram::Histogram;
use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize};

use super::{BrokerRates, Usage};
use crate::generator::{Acks, BatchSize, Observed};

/// What an acknowledgement promises.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Durability {
    /// Records are on the disk before they are acknowledged.
    Synced,
    /// Records are with the operating system when they are acknowledged.
    Unsynced,
}

impl Durability {
    /// One word.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Durability::Synced => "synced",
            Durability::Unsynced => "unsynced",
        }
    }
}

/// What the load was: everything that must be equal for two rows to be compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Parameters {
    /// What an acknowledgement promises; none where nothing is written.
    pub durability: Option<Durability>,
    /// What producers wait for: `0`, `1` or `all`; none where nothing is produced.
    pub acks: Option<&'static str>,
    /// Records in a batch.
    pub batch_records: u64,
    /// Bytes of a batch, with its header.
    pub batch_bytes: u64,
    /// Bytes of a record's value.
    pub record_bytes: u64,
    /// How long a producer waits for a batch to fill; 0 as batches are encoded before.
    pub linger_ms: u64,
    /// What the records' keys are.
    pub keys: &'static str,
    /// How records are compressed.
    pub compression: &'static str,
    /// Partitions of the topic.
    pub partitions: i32,
    /// Of each partition, one on each node.
    pub replicas: usize,
    /// Producers: a connection each, or one to each leader that they write to.
    pub producers: usize,
    /// Connections that consume.
    pub consumers: usize,
    /// Requests on their way on each connection; 0 in an open loop, where there is no bound.
    pub in_flight: usize,
    /// Requests a second that are asked for; none in a closed loop.
    pub rate: Option<f64>,
    /// How much a consumer asks for at once; 0 without one.
    pub fetch_bytes: u64,
    /// How the connections are encrypted.
    pub tls: &'static str,
}

impl Parameters {
    /// Whether requests are sent by a timetable, which may be another for each side.
    pub(crate) fn is_open_loop(&self) -> bool {
        self.producers > 0 && self.in_flight == 0
    }

    /// Those of batches of a size, with values of a size.
    pub(crate) fn of_batch(batch: BatchSize, record_bytes: usize) -> Parameters {
        Parameters {
            batch_records: batch.records,
            batch_bytes: batch.bytes,
            record_bytes: record_bytes as u64,
            ..Parameters::default()
        }
    }
}

impl Default for Parameters {
    fn default() -> Parameters {
        Parameters {
            durability: None,
            acks: None,
            batch_records: 0,
            batch_bytes: 0,
            record_bytes: 0,
            linger_ms: 0,
            keys: "none",
            compression: "none",
            partitions: 0,
            replicas: 1,
            producers: 0,
            consumers: 0,
            in_flight: 0,
            rate: None,
            fetch_bytes: 0,
            tls: "none",
        }
    }
}

/// One run of one work on one side.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// The experiment, such as `produce`.
    pub experiment: &'static str,
    /// The work, one line of the experiment's table.
    pub work: String,
    /// Who was measured: `logway`, `kafka`, …
    pub side: String,
    /// From 1.
    pub round: u32,
    /// What the load was.
    pub parameters: Parameters,
    /// For how long was counted.
    pub seconds: f64,
    /// Answered requests.
    pub requests: u64,
    /// Records in them.
    pub records: u64,
    /// Bytes of their values, or of the bodies of as many messages: what the sides put around them differs.
    pub value_bytes: u64,
    /// Records of each [`TIMELINE_STEP`], to the end of the time; without acknowledgements as they were handed over,
    /// and then nothing until all have arrived.
    ///
    /// [`TIMELINE_STEP`]: crate::generator::TIMELINE_STEP
    pub timeline: Vec<u64>,
    /// In nanoseconds.
    pub latency_ns: Histogram<u64>,
    /// How late an open loop's generator was, in nanoseconds.
    pub lateness_ns: Histogram<u64>,
    /// Requests of an open loop that were never answered.
    pub unanswered: u64,
    /// What it cost.
    pub usage: Usage,
    /// What the broker says that it took, where it was asked.
    pub broker_rates: Option<BrokerRates>,
}

/// What tells works apart: a work is done once with each promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WorkKey<'a> {
    pub(crate) experiment: &'static str,
    pub(crate) work: &'a str,
    pub(crate) durability: Option<Durability>,
}

/// A generator that works so much of the time may be what holds the run back.
const GENERATOR_BUSY_MAX: f64 = 0.85;

/// So much of a timetable's rate is all of it but for the window's edges.
const RATE_KEPT_MIN: f64 = 0.95;

impl Row {
    pub(crate) fn of(
        (experiment, work): (&'static str, &str),
        (side, round): (&str, u32),
        parameters: Parameters,
        observed: Observed,
    ) -> Row {
        let generator_busy_seconds = observed.busy().as_secs_f64();
        Row {
            experiment,
            work: work.to_owned(),
            side: side.to_owned(),
            round,
            parameters,
            seconds: observed.length().as_secs_f64(),
            requests: observed.requests,
            records: observed.records,
            value_bytes: observed.value_bytes,
            timeline: observed.whole_timeline(),
            latency_ns: observed.latency_ns,
            lateness_ns: observed.lateness_ns,
            unanswered: observed.unanswered,
            usage: Usage { generator_busy_seconds, ..observed.usage },
            broker_rates: observed.broker_rates,
        }
    }

    /// Whether its records were only sent, so that nobody knows when each arrived.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.parameters.acks == Some(Acks::None.name())
    }

    /// Which work it is a run of.
    pub(crate) fn key(&self) -> WorkKey<'_> {
        WorkKey {
            experiment: self.experiment,
            work: &self.work,
            durability: self.parameters.durability,
        }
    }

    /// Whether anything went over connections.
    fn has_traffic(&self) -> bool {
        self.parameters.producers + self.parameters.consumers > 0
    }

    /// Whether a rate says anything of it, as it does not of a start.
    pub(crate) fn has_rate(&self) -> bool {
        self.has_traffic() || self.value_bytes > 0
    }

    /// Whether files were read or written without the broker, so that the figure is one of the machine.
    pub(crate) fn is_without_broker(&self) -> bool {
        !self.has_traffic() && self.value_bytes > 0
    }

    /// Records a second.
    pub(crate) fn records_per_second(&self) -> f64 {
        self.records as f64 / self.seconds
    }

    /// Requests a second.
    pub(crate) fn requests_per_second(&self) -> f64 {
        self.requests as f64 / self.seconds
    }

    /// Megabytes (10^6) of values a second.
    pub(crate) fn megabytes_per_second(&self) -> f64 {
        self.value_bytes as f64 / 1e6 / self.seconds
    }

    /// Whether it was to send by a timetable and nearly all of that was answered.
    pub(crate) fn keeps_its_rate(&self) -> bool {
        self.parameters.rate.is_some_and(|rate| self.requests_per_second() >= rate * RATE_KEPT_MIN)
    }

    /// A quantile of the latency, in milliseconds; none where nothing is answered.
    pub(crate) fn latency_ms(&self, quantile: f64) -> Option<f64> {
        let is_any = !self.latency_ns.is_empty();
        is_any.then(|| self.latency_ns.value_at_quantile(quantile) as f64 / 1e6)
    }

    /// How late the generator of an open loop was with all but a hundredth of its requests, in milliseconds; none in a
    /// closed loop.
    pub(crate) fn lateness_p99_ms(&self) -> Option<f64> {
        let is_any = !self.lateness_ns.is_empty();
        is_any.then(|| self.lateness_ns.value_at_quantile(0.99) as f64 / 1e6)
    }

    /// CPU seconds of the broker for a gigabyte (10^9) of values.
    pub(crate) fn broker_cpu_seconds_per_gigabyte(&self) -> Option<f64> {
        let cpu_seconds = self.usage.resolved_broker_cpu_seconds()?;
        (self.value_bytes > 0).then(|| cpu_seconds / (self.value_bytes as f64 / 1e9))
    }

    /// CPU seconds of the broker for a million requests, which is microseconds for one.
    pub(crate) fn broker_cpu_seconds_per_million_requests(&self) -> Option<f64> {
        let cpu_seconds = self.usage.resolved_broker_cpu_seconds()?;
        (self.requests > 0).then(|| cpu_seconds / (self.requests as f64 / 1e6))
    }

    /// The same for a million records.
    pub(crate) fn broker_cpu_seconds_per_million_records(&self) -> Option<f64> {
        let cpu_seconds = self.usage.resolved_broker_cpu_seconds()?;
        (self.records > 0).then(|| cpu_seconds / (self.records as f64 / 1e6))
    }

    /// The broker's resident memory at the end, in megabytes (10^6).
    pub(crate) fn resident_megabytes(&self) -> Option<f64> {
        self.usage.memory.map(|memory| memory.resident_bytes as f64 / 1e6)
    }

    /// How much of the time the generator's thread, the busiest if there are several, was working, or waiting for its own
    /// records.
    pub(crate) fn generator_busy(&self) -> f64 {
        self.usage.generator_busy_seconds / self.seconds
    }

    /// Whether the generator may have held the run back: what a closed loop has done is then the least that the broker
    /// can, and the latencies of an open one are the most that it takes.
    pub(crate) fn is_generator_bound(&self) -> bool {
        self.has_traffic() && self.generator_busy() > GENERATOR_BUSY_MAX
    }
}

/// The fields that a row is shown with: some formats say how many before they write the first.
const SHOWN_FIELDS: usize = 26;

/// The figures that are shown, not the histogram.
impl Serialize for Row {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut row = serializer.serialize_struct("Row", SHOWN_FIELDS)?;
        row.serialize_field("experiment", self.experiment)?;
        row.serialize_field("work", &self.work)?;
        row.serialize_field("side", &self.side)?;
        row.serialize_field("round", &self.round)?;
        row.serialize_field("parameters", &self.parameters)?;
        row.serialize_field("seconds", &self.seconds)?;
        row.serialize_field("requests", &self.requests)?;
        row.serialize_field("records", &self.records)?;
        row.serialize_field("value_bytes", &self.value_bytes)?;
        row.serialize_field("records_per_second", &self.records_per_second())?;
        row.serialize_field("value_megabytes_per_second", &self.megabytes_per_second())?;
        for (name, quantile) in QUANTILES {
            row.serialize_field(name, &self.latency_ms(quantile))?;
        }
        row.serialize_field("max_ms", &self.latency_ms(1.0))?;
        row.serialize_field("generator_lateness_p99_ms", &self.lateness_p99_ms())?;
        row.serialize_field("unanswered", &self.unanswered)?;
        row.serialize_field(
            "broker_cpu_seconds_per_value_gigabyte",
            &self.broker_cpu_seconds_per_gigabyte(),
        )?;
        row.serialize_field(
            "broker_cpu_seconds_per_million_requests",
            &self.broker_cpu_seconds_per_million_requests(),
        )?;
        row.serialize_field(
            "broker_cpu_seconds_per_million_records",
            &self.broker_cpu_seconds_per_million_records(),
        )?;
        row.serialize_field("generator_busy", &self.generator_busy())?;
        row.serialize_field("is_generator_bound", &self.is_generator_bound())?;
        row.serialize_field("usage", &self.usage)?;
        row.serialize_field("broker_rates", &self.broker_rates)?;
        row.serialize_field("records_of_each_100_ms", &self.timeline)?;
        row.end()
    }
}

/// The quantiles of the latency that are shown.
pub(crate) const QUANTILES: [(&str, f64); 4] =
    [("p50_ms", 0.5), ("p90_ms", 0.9), ("p99_ms", 0.99), ("p99_9_ms", 0.999)];

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::generator::Window;

    #[test]
    fn who_waits_for_its_own_records_holds_the_run_back() {
        let window = Window::starting_now(Duration::ZERO, Duration::from_secs(1));
        let row = |waiting| {
            let mut observed = Observed::new(window);
            observed.note_waiting(window.from, waiting);
            observed.note_waiting(window.to, Duration::from_secs(9));
            let parameters = Parameters { producers: 1, ..Parameters::default() };
            Row::of(("ingest", "work"), ("logway", 1), parameters, observed)
        };
        assert!(!row(Duration::from_millis(800)).is_generator_bound());
        assert!(row(Duration::from_millis(900)).is_generator_bound());
    }

    #[test]
    fn as_many_fields_are_shown_as_are_announced() {
        let observed = Observed::new(Window::starting_now(Duration::ZERO, Duration::from_secs(1)));
        let row = Row::of(("produce", "work"), ("logway", 1), Parameters::default(), observed);
        let shown = serde_json::to_value(row).expect("a row has only plain values");
        assert_eq!(shown.as_object().map(serde_json::Map::len), Some(SHOWN_FIELDS));
    }
}
