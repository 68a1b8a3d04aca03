//! When the requests of an open loop are to be sent, whatever the broker does.

use std::time::{Duration, Instant};

/// Evenly spaced moments.
///
/// A latency is counted from the moment here and not from the write: a request that could not
/// leave in time because the broker stalled has waited all the same. Leaving that out is what Gil
/// Tene calls coordinated omission.
#[derive(Debug, Clone)]
pub(crate) struct Timetable {
    start: Instant,
    per_second: f64,
    next: u64,
    /// From one to the next: as many as there are processes that share them.
    step: u64,
    count: u64,
}

impl Timetable {
    /// So many a second from `start` on, for so long.
    pub(crate) fn new(start: Instant, per_second: f64, length: Duration) -> Timetable {
        let count = (per_second * length.as_secs_f64()).floor() as u64;
        Timetable { start, per_second, next: 0, step: 1, count }
    }

    /// Those that one of so many processes has, where each has every so manieth.
    pub(crate) fn part(self, number: u64, of: u64) -> Timetable {
        Timetable { next: number, step: of, ..self }
    }

    /// How many there are in all, of all processes.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The moment of one of them. Computed from the start each time, so that no error adds up.
    pub(crate) fn moment(&self, number: u64) -> Instant {
        self.start + Duration::from_secs_f64(number as f64 / self.per_second)
    }

    /// The next one that is due: its moment, and how many there were before it.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<(u64, Instant)> {
        let moment = self.next_moment().filter(|&moment| moment <= now)?;
        let before = self.next / self.step;
        self.next += self.step;
        Some((before, moment))
    }

    /// When the next one is due; `None` after the last.
    pub(crate) fn next_moment(&self) -> Option<Instant> {
        (self.next < self.count).then(|| self.moment(self.next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_due_in_the_end_and_none_before_its_time() {
        let start = Instant::now();
        let mut timetable = Timetable::new(start, 1000.0, Duration::from_millis(2500));
        assert_eq!(timetable.count(), 2500);
        assert_eq!(timetable.pop_due(start), Some((0, start)));
        assert_eq!(timetable.pop_due(start), None);
        let late = start + Duration::from_millis(10);
        let due: Vec<u64> =
            std::iter::from_fn(|| timetable.pop_due(late)).map(|(number, _)| number).collect();
        assert_eq!(due, (1..=10).collect::<Vec<u64>>());
        let end = start + Duration::from_secs(60);
        assert_eq!(std::iter::from_fn(|| timetable.pop_due(end)).count(), 2489);
        assert_eq!(timetable.next_moment(), None);
    }

    #[test]
    fn parts_are_the_whole() {
        let start = Instant::now();
        let whole = Timetable::new(start, 10.0, Duration::from_secs(1));
        let end = start + Duration::from_secs(1);
        let due = |mut timetable: Timetable| -> Vec<(u64, Instant)> {
            std::iter::from_fn(|| timetable.pop_due(end)).collect()
        };
        let parts: Vec<Vec<(u64, Instant)>> =
            (0..3).map(|number| due(whole.clone().part(number, 3))).collect();
        let numbers = |part: &[(u64, Instant)]| part.iter().map(|due| due.0).collect::<Vec<_>>();
        assert_eq!(numbers(&parts[0]), [0, 1, 2, 3]);
        assert_eq!(numbers(&parts[2]), [0, 1, 2]);
        let mut moments: Vec<Instant> = parts.iter().flatten().map(|due| due.1).collect();
        moments.sort_unstable();
        assert_eq!(moments, due(whole).iter().map(|due| due.1).collect::<Vec<_>>());
    }

    #[test]
    fn moments_keep_their_distance_for_hours() {
        let start = Instant::now();
        let timetable = Timetable::new(start, 3.0, Duration::from_secs(36_000));
        let last = timetable.moment(timetable.count());
        let error = last.duration_since(start).abs_diff(Duration::from_secs(36_000));
        assert!(error < Duration::from_micros(1), "{error:?}");
    }
}
