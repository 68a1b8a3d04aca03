//! What the processes say to each other: lines of JSON.

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::Context;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};
use logway_model::TopicName;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::generator::{Observed, Window};
use crate::load::{Leaders, ProduceLoad};

/// What a process is to send, and where to.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) leaders: Leaders,
    topic: String,
    pub(super) version: i16,
    pub(super) load: ProduceLoad,
    /// Its number among the processes that share the load.
    pub(super) number: usize,
}

impl Job {
    pub(super) fn new(
        leaders: &Leaders,
        topic: &TopicName,
        version: i16,
        (load, number): (ProduceLoad, usize),
    ) -> Job {
        let leaders = leaders.clone();
        Job { leaders, topic: topic.as_str().to_owned(), version, load, number }
    }

    pub(super) fn topic(&self) -> anyhow::Result<TopicName> {
        Ok(TopicName::new(&self.topic)?)
    }
}

/// When to. All follows from one moment: two, each told by the clock, would not keep their distance to the nanosecond.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Begin {
    /// When the first of all requests is due.
    pub(super) start: Moment,
    /// Until the window opens.
    pub(super) warm_up: Duration,
    pub(super) measured: Duration,
}

/// A moment in nanoseconds of the clock that [`Instant`] reads, which is the same in all processes of a machine.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Moment(i64);

impl Moment {
    fn now() -> Moment {
        let now = clock_gettime(ClockId::Monotonic);
        Moment(now.tv_sec * 1_000_000_000 + now.tv_nsec)
    }

    pub(super) fn of(instant: Instant) -> Moment {
        let (Moment(now), reference) = (Moment::now(), Instant::now());
        let nanoseconds = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        Moment(match instant.checked_duration_since(reference) {
            Some(to_come) => now.saturating_add(nanoseconds(to_come)),
            None => now.saturating_sub(nanoseconds(reference - instant)),
        })
    }

    pub(super) fn instant(self) -> Instant {
        let (Moment(now), reference) = (Moment::now(), Instant::now());
        let distance = Duration::from_nanos(self.0.abs_diff(now));
        if self.0 >= now { reference + distance } else { reference - distance }
    }
}

/// What a process says, or why it cannot go on.
pub(super) type Reply = Result<Word, String>;

/// How far a process has come.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Word {
    /// It is connected, and has encoded what it can before.
    Ready,
    /// This is what it saw.
    Done(Box<Account>),
}

/// What one process saw.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Account {
    requests: u64,
    records: u64,
    value_bytes: u64,
    entrusted_records: u64,
    timeline: Vec<u64>,
    /// In HdrHistogram's V2 format.
    latency_ns: Vec<u8>,
    lateness_ns: Vec<u8>,
    unanswered: u64,
    waiting: Duration,
    counted: Option<Duration>,
    cpu_seconds: f64,
    queued_seconds: f64,
    busy: Duration,
}

impl Account {
    pub(super) fn of(observed: &Observed) -> anyhow::Result<Account> {
        Ok(Account {
            requests: observed.requests,
            records: observed.records,
            value_bytes: observed.value_bytes,
            entrusted_records: observed.entrusted_records,
            timeline: observed.timeline.clone(),
            latency_ns: bytes(&observed.latency_ns)?,
            lateness_ns: bytes(&observed.lateness_ns)?,
            unanswered: observed.unanswered,
            waiting: observed.waiting,
            counted: observed.counted,
            cpu_seconds: observed.usage.generator_cpu_seconds,
            queued_seconds: observed.usage.generator_queued_seconds,
            busy: observed.busy_with_queue(),
        })
    }

    /// Whether it goes on to what was done when the window was over already.
    pub(super) fn ended_after(&self, window: &Window) -> bool {
        self.counted.is_some_and(|counted| counted > window.length())
    }

    /// Adds it to what others saw.
    pub(super) fn add_to(&self, observed: &mut Observed) -> anyhow::Result<()> {
        observed.requests += self.requests;
        observed.records += self.records;
        observed.value_bytes += self.value_bytes;
        observed.entrusted_records += self.entrusted_records;
        if self.timeline.len() > observed.timeline.len() {
            observed.timeline.resize(self.timeline.len(), 0);
        }
        for (all, own) in observed.timeline.iter_mut().zip(&self.timeline) {
            *all += own;
        }
        observed.latency_ns.add(histogram(&self.latency_ns)?)?;
        observed.lateness_ns.add(histogram(&self.lateness_ns)?)?;
        observed.unanswered += self.unanswered;
        observed.waiting += self.waiting;
        observed.counted = observed.counted.max(self.counted);
        observed.usage = observed.usage.with_generator(self.cpu_seconds, self.queued_seconds);
        observed.busiest = observed.busiest.max(Some(self.busy));
        Ok(())
    }
}

fn bytes(histogram: &Histogram<u64>) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let written = V2Serializer::new().serialize(histogram, &mut bytes);
    written.context("cannot write a histogram")?;
    Ok(bytes)
}

fn histogram(bytes: &[u8]) -> anyhow::Result<Histogram<u64>> {
    let read = Deserializer::new().deserialize(&mut &*bytes);
    read.context("cannot read a histogram")
}

/// Says one thing.
pub(super) fn say(output: &mut impl Write, what: &impl Serialize) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    output.write_all(&line)?;
    Ok(output.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::{Pace, Payload};

    #[test]
    fn a_moment_is_the_same_for_whoever_is_told() {
        let now = Instant::now();
        for instant in [now, now + Duration::from_secs(9), now - Duration::from_millis(1)] {
            let told = Moment::of(instant).instant();
            let error = told.max(instant) - told.min(instant);
            // Two clocks are read one after the other, twice.
            assert!(error < Duration::from_millis(100), "{error:?}");
        }
    }

    #[test]
    fn what_several_saw_is_added_up() {
        let window = Window::starting_now(Duration::ZERO, Duration::from_secs(1));
        let seen = |times: u32, counted| {
            let mut observed = Observed::new(window);
            for number in 0..times {
                let due = window.from + number * Duration::from_millis(100);
                let answered = due + Duration::from_millis(u64::from(times));
                observed.offer(due);
                let payload = Payload { records: 2, value_bytes: 10 };
                observed.count_answer(Pace::Open, (due, answered), payload);
                observed.entrusted_records += 2;
            }
            observed.counted = counted;
            observed.waiting = Duration::from_millis(u64::from(times));
            observed.usage.generator_cpu_seconds = f64::from(times) / 10.0;
            observed.usage.generator_queued_seconds = f64::from(times) / 100.0;
            Account::of(&observed).expect("it can be written")
        };
        let mut all = Observed::new(window);
        all.usage.others_cpu_seconds = Some(1.0);
        let longest = Some(Duration::from_millis(1200));
        for (times, counted) in [(2, None), (4, longest), (3, Some(Duration::from_secs(1)))] {
            let told = serde_json::to_string(&seen(times, counted)).expect("it is plain");
            let account: Account = serde_json::from_str(&told).expect("it is whole");
            account.add_to(&mut all).expect("the histograms are alike");
        }
        assert_eq!((all.requests, all.records, all.value_bytes), (9, 18, 90));
        assert_eq!((all.entrusted_records, all.counted), (18, longest));
        assert_eq!(all.timeline, [6, 6, 4, 2]);
        assert_eq!(all.latency_ns.len(), 9);
        assert_eq!(all.latency_ns.max() / 100_000, 40);
        assert_eq!(all.waiting, Duration::from_millis(9));
        assert!((all.usage.generator_cpu_seconds - 0.9).abs() < 1e-9);
        assert!(all.usage.others_cpu_seconds.is_some_and(|others| (others - 0.1).abs() < 1e-9));
        assert!((all.usage.generator_queued_seconds - 0.09).abs() < 1e-9);
        // The one with four: that is whether one of them could have held the run back.
        assert_eq!(all.busy(), Duration::from_millis(440));
    }
}
