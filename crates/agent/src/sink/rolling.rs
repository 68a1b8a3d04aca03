//! When a file that grows is complete, and the next one begins.

use std::time::{Duration, Instant};

use crate::event::Event;

/// A file is complete as soon as one of these is reached. `None` is never.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rolling {
    /// Since it was begun.
    pub(super) interval: Option<Duration>,
    /// Since something was written into it.
    pub(super) idle: Option<Duration>,
    pub(super) events_max: Option<u64>,
    /// Of bodies.
    pub(super) bytes_max: Option<u64>,
}

/// How far a file has come.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    since: Instant,
    pub(super) written: Instant,
    events: u64,
    bytes: u64,
}

impl Extent {
    /// That of a new file.
    pub(super) fn new() -> Extent {
        let now = Instant::now();
        Extent { since: now, written: now, events: 0, bytes: 0 }
    }

    /// Notes what was written.
    pub(super) fn add(&mut self, events: &[Event]) {
        self.written = Instant::now();
        events.iter().for_each(|event| self.count(event));
    }

    fn count(&mut self, event: &Event) {
        self.events += 1;
        self.bytes += event.body.len() as u64;
    }
}

impl Rolling {
    pub(super) fn is_due(&self, extent: &Extent) -> bool {
        let is_over = |since: Instant, bound: Option<Duration>| {
            bound.is_some_and(|bound| since.elapsed() >= bound)
        };
        self.is_full(extent)
            || is_over(extent.since, self.interval)
            || is_over(extent.written, self.idle)
    }

    fn is_full(&self, extent: &Extent) -> bool {
        self.events_max.is_some_and(|max| extent.events >= max)
            || self.bytes_max.is_some_and(|max| extent.bytes >= max)
    }

    /// How many of these events still go into the file. The one that reaches a bound does, as in Flume.
    pub(super) fn room<'a>(
        &self,
        extent: &Extent,
        events: impl Iterator<Item = &'a Event>,
    ) -> usize {
        let mut extent = *extent;
        let fits = |event: &&Event| {
            let fits = !self.is_full(&extent);
            extent.count(event);
            fits
        };
        events.take_while(fits).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_ends_with_the_event_that_reaches_a_bound() {
        let events: Vec<Event> = (0..10).map(|_| Event::new("12345")).collect();
        let room = |rolling: Rolling| rolling.room(&Extent::new(), events.iter());
        assert_eq!(room(Rolling::default()), 10);
        assert_eq!(room(Rolling { events_max: Some(3), ..Rolling::default() }), 3);
        assert_eq!(room(Rolling { bytes_max: Some(11), ..Rolling::default() }), 3);
        let rolling = Rolling { bytes_max: Some(15), ..Rolling::default() };
        let mut extent = Extent::new();
        assert!(!rolling.is_due(&extent));
        extent.add(&events[..3]);
        assert!(rolling.is_due(&extent));
        let idle = Rolling { idle: Some(Duration::ZERO), ..Rolling::default() };
        assert!(idle.is_due(&extent));
    }
}
