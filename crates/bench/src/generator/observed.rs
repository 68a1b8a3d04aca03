//! What a run saw.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::{BatchSize, Pace, Window};
use crate::measure::{BrokerRates, Snapshot, Usage};

/// The longest latency that is told from longer ones: two minutes.
const LATENCY_NS_MAX: u64 = 120_000_000_000;

/// How long an entry of the timeline is.
const TENTH_MS: u128 = 100;

/// What one thread of the generator saw while the window was open.
#[derive(Debug)]
pub(crate) struct Observed {
    pub(crate) window: Window,
    /// Requests that were answered.
    pub(crate) requests: u64,
    /// Records in them, or in their answers.
    pub(crate) records: u64,
    /// Bytes of record batches in them, or in their answers.
    pub(crate) bytes: u64,
    /// Records of each tenth of a second, the window's first one first. What gets no answers is in
    /// the tenth in which it was due.
    pub(crate) timeline: Vec<u64>,
    /// In nanoseconds; from when, the traffic says.
    pub(crate) latency_ns: Histogram<u64>,
    /// How late the generator itself was in an open loop: from the intended time to the write.
    pub(crate) lateness_ns: Histogram<u64>,
    /// Sends of an open loop that no answer came to before the generator gave up.
    pub(crate) unanswered: u64,
    /// How long the generator waited, in the window, for its own records: see `Stream::waiting`.
    pub(crate) waiting: Duration,
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
            records: 0,
            bytes: 0,
            timeline: Vec::new(),
            latency_ns: histogram(),
            lateness_ns: histogram(),
            unanswered: 0,
            waiting: Duration::ZERO,
            counted: None,
            broker_rates: None,
            usage: Usage::default(),
            opening: None,
        }
    }

    /// Counts what was done at `moment`, if that is within the window.
    pub(crate) fn count(&mut self, moment: Instant, size: BatchSize) {
        if self.window.contains(moment) {
            self.requests += 1;
            self.records += size.records;
            self.bytes += size.bytes;
            let tenth = ((moment - self.window.from).as_millis() / TENTH_MS) as usize;
            if tenth >= self.timeline.len() {
                self.timeline.resize(tenth + 1, 0);
            }
            self.timeline[tenth] += size.records;
        }
    }

    /// Counts what was due at the first of the moments and answered at the second, and notes how long it took. In an
    /// open loop what was due before the window is not the window's, however late it is answered: a broker that has
    /// stood still would seem to do more than it is offered.
    pub(crate) fn count_answer(
        &mut self,
        pace: Pace,
        moments: (Instant, Instant),
        size: BatchSize,
    ) {
        let (due, now) = moments;
        if pace != Pace::Open || self.window.contains(due) {
            self.count(now, size);
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

    /// What was sent without answers has arrived only now, or has been given up: so long it took,
    /// and so much it cost.
    /// For the generator's thread.
    pub(crate) fn arrived(&mut self) {
        self.counted = Some(Instant::now() - self.window.from);
        if let Some(opening) = &self.opening {
            self.usage = opening.until_now();
        }
    }

    /// For how long was counted.
    pub(crate) fn length(&self) -> Duration {
        self.counted.unwrap_or(self.window.length())
    }
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
    fn an_open_loop_counts_what_was_due_and_answered_in_the_window() {
        let window = Window::starting_now(Duration::from_secs(1), Duration::from_secs(1));
        let (before, after) = (window.from - Duration::from_millis(1), window.to);
        let within = window.from + Duration::from_millis(500);
        let counted = |pace, due, now| {
            let mut observed = Observed::new(window);
            observed.count_answer(pace, (due, now), BatchSize { bytes: 1, records: 1 });
            (observed.records, observed.latency_ns.len())
        };
        assert_eq!(counted(Pace::Open, before, within), (0, 0));
        assert_eq!(counted(Pace::Open, window.from, within), (1, 1));
        assert_eq!(counted(Pace::Open, within, after), (0, 1));
        assert_eq!(counted(Pace::Closed(1), before, within), (1, 1));
        assert_eq!(counted(Pace::Closed(1), within, after), (0, 0));
    }
}
