//! What a run saw.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::{Meter, Pace, Payload, Window};
use crate::measure::{BrokerRates, Snapshot, Usage};

/// The longest latency that is told from longer ones: two minutes.
const LATENCY_NS_MAX: u64 = 120_000_000_000;

/// How long an entry of the timeline is.
pub(crate) const TIMELINE_STEP: Duration = Duration::from_millis(100);

/// What one thread of the generator saw while the window was open.
#[derive(Debug)]
pub(crate) struct Observed {
    pub(crate) window: Window,
    /// Requests that were answered.
    pub(crate) requests: u64,
    /// Requests of an open loop that were due in the window until now.
    offered: u64,
    /// Records in them, or in their answers.
    pub(crate) records: u64,
    /// Bytes of those records' values.
    pub(crate) value_bytes: u64,
    /// Records that the broker has said it has, and those that it was sent and says nothing of, whenever that was.
    pub(crate) entrusted_records: u64,
    /// Records of each [`TIMELINE_STEP`], the window's first one first. When something that gets no answer arrives is
    /// not known: it is in the step in which it was due, which in a closed loop is when it was handed to the socket.
    pub(crate) timeline: Vec<u64>,
    /// In nanoseconds; from when, the traffic says.
    pub(crate) latency_ns: Histogram<u64>,
    /// How late the generator itself was in an open loop: from the intended time to the write.
    pub(crate) lateness_ns: Histogram<u64>,
    /// Sends of an open loop that no answer came to before the generator gave up.
    pub(crate) unanswered: u64,
    /// How long the generator waited, in the window, for its own records: see `Stream::waiting`.
    pub(crate) waiting: Duration,
    /// How long the busiest process of the generator worked or waited so, if there are several.
    pub(crate) busiest: Option<Duration>,
    /// For how long was counted, if not for the window's length.
    pub(crate) counted: Option<Duration>,
    /// What the broker says that it took, if it was asked.
    pub(crate) broker_rates: Option<BrokerRates>,
    /// What the processes used in the meantime.
    pub(crate) usage: Usage,
    /// What they had used before.
    pub(super) opening: Option<Snapshot>,
}

impl Observed {
    pub(crate) fn new(window: Window) -> Observed {
        Observed {
            window,
            requests: 0,
            offered: 0,
            records: 0,
            value_bytes: 0,
            entrusted_records: 0,
            timeline: Vec::new(),
            latency_ns: histogram(),
            lateness_ns: histogram(),
            unanswered: 0,
            waiting: Duration::ZERO,
            busiest: None,
            counted: None,
            broker_rates: None,
            usage: Usage::default(),
            opening: None,
        }
    }

    /// Counts what was done at `moment`, if that is within the window.
    pub(crate) fn count(&mut self, moment: Instant, payload: Payload) {
        if self.window.contains(moment) {
            self.requests += 1;
            self.records += payload.records;
            self.value_bytes += payload.value_bytes;
            let step = steps(moment - self.window.from) as usize;
            if step >= self.timeline.len() {
                self.timeline.resize(step + 1, 0);
            }
            self.timeline[step] += payload.records;
        }
    }

    /// A request of an open loop was due at `moment`.
    pub(crate) fn offer(&mut self, moment: Instant) {
        self.offered += u64::from(self.window.contains(moment));
    }

    /// Counts what was due at the first of the moments and answered at the second, and notes how long it took. What a
    /// broker answers in the window is its rate, even if it was due before; but in an open loop never more than the window
    /// has offered until then: a broker that has stood still would seem to do more than it is asked for.
    pub(crate) fn count_answer(
        &mut self,
        pace: Pace,
        moments: (Instant, Instant),
        payload: Payload,
    ) {
        let (due, now) = moments;
        if pace != Pace::Open || self.requests < self.offered {
            self.count(now, payload);
        }
        self.note_answer(pace, due, now);
    }

    /// Notes how long something took.
    pub(crate) fn note_latency(&mut self, time: Duration) {
        record(&mut self.latency_ns, time);
    }

    /// Notes how long the answer to a request took. In an open loop the request belongs to the
    /// window in which it should have been sent, however late its answer is.
    fn note_answer(&mut self, pace: Pace, due: Instant, now: Instant) {
        let belongs_to = if pace == Pace::Open { due } else { now };
        if self.window.contains(belongs_to) {
            self.note_latency(now.saturating_duration_since(due));
        }
    }

    /// Notes how late the generator was with a request.
    pub(crate) fn note_lateness(&mut self, time: Duration) {
        record(&mut self.lateness_ns, time);
    }

    /// Notes how long the generator waited at `moment` for its own records.
    pub(crate) fn note_waiting(&mut self, moment: Instant, time: Duration) {
        if self.window.contains(moment) {
            self.waiting += time;
        }
    }

    /// Takes what was used of the machine.
    pub(crate) fn read(&mut self, meter: &Meter) {
        self.opening = meter.opening.clone();
        self.usage = meter.usage.unwrap_or_default();
    }

    /// For how long the generator worked, or waited for its own records: the busiest process of it, if there are several.
    pub(crate) fn busy(&self) -> Duration {
        let alone = Duration::from_secs_f64(self.usage.generator_cpu_seconds) + self.waiting;
        self.busiest.unwrap_or(alone)
    }

    /// The same of one of several processes, which take the processors from each other: what it waited for one counts. Of
    /// records that are made as they are due, that is a part of the waiting for them already.
    pub(crate) fn busy_with_queue(&self) -> Duration {
        let queued = Duration::from_secs_f64(self.usage.generator_queued_seconds);
        self.busy() + queued.saturating_sub(self.waiting)
    }

    /// What was sent without answers has arrived only now, or has been given up: so long it took,
    /// and so much it cost.
    /// For the generator's thread.
    pub(crate) fn arrived(&mut self) {
        self.counted = Some(Instant::now() - self.window.from);
        if let Some(opening) = &self.opening {
            self.usage = opening.until_now();
        }
    }

    /// The timeline to the end of the time that was counted, in which nothing may have been done at last: a broker stood
    /// still, or what it had been handed was yet to arrive. Its mean is the rate. Empty if nothing was counted.
    pub(crate) fn whole_timeline(&self) -> Vec<u64> {
        let mut timeline = self.timeline.clone();
        let count = steps(self.length()).ceil() as usize;
        if !timeline.is_empty() && count > timeline.len() {
            timeline.resize(count, 0);
        }
        timeline
    }

    /// For how long was counted.
    pub(crate) fn length(&self) -> Duration {
        self.counted.unwrap_or(self.window.length())
    }
}

fn steps(time: Duration) -> f64 {
    time.div_duration_f64(TIMELINE_STEP)
}

/// Three significant digits from a microsecond's fraction to two minutes.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).expect("the bounds are valid")
}

/// Records a time; one beyond the bounds as the longest that there is.
fn record(histogram: &mut Histogram<u64>, time: Duration) {
    let time_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1);
    histogram.saturating_record(time_ns);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeline_lasts_as_long_as_was_counted() {
        let window = Window::starting_now(Duration::ZERO, Duration::from_secs(1));
        let mut observed = Observed::new(window);
        assert!(observed.whole_timeline().is_empty());
        let payload = Payload { records: 7, value_bytes: 1 };
        observed.count(window.from + Duration::from_millis(150), payload);
        assert_eq!(observed.whole_timeline(), [0, 7, 0, 0, 0, 0, 0, 0, 0, 0]);
        observed.counted = Some(Duration::from_millis(1840));
        let timeline = observed.whole_timeline();
        assert_eq!((timeline.len(), timeline.iter().sum::<u64>()), (19, 7));
    }

    #[test]
    fn an_open_loop_counts_what_is_answered_but_no_more_than_it_has_offered() {
        let window = Window::starting_now(Duration::from_secs(1), Duration::from_secs(1));
        let (before, after) = (window.from - Duration::from_millis(1), window.to);
        let within = window.from + Duration::from_millis(500);
        let counted = |pace, due, now| {
            let mut observed = Observed::new(window);
            for offered in [before, window.from, within, window.to] {
                observed.offer(offered);
            }
            for _ in 0..3 {
                observed.count_answer(pace, (due, now), Payload { records: 1, value_bytes: 1 });
            }
            (observed.records, observed.latency_ns.len())
        };
        // A broker that is behind works in the window, too.
        assert_eq!(counted(Pace::Open, before, within), (2, 0));
        assert_eq!(counted(Pace::Open, window.from, within), (2, 3));
        assert_eq!(counted(Pace::Open, within, after), (0, 3));
        assert_eq!(counted(Pace::Closed(1), before, within), (3, 3));
        assert_eq!(counted(Pace::Closed(1), within, after), (0, 0));
    }
}
