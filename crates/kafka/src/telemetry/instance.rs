//! One client that was asked for its metrics, and the numbers that it pushed.

use std::collections::BTreeMap;
use std::sync::Weak;
use std::time::{Duration, Instant};

use logway_model::ErrorCode;

use super::otlp::Sample;
use super::requested::Requested;
use crate::request::ConnectionInfo;

/// The most series of one client.
pub(super) const SERIES_MAX: usize = 500;

/// How much of a text is kept that a client chose.
const TEXT_CHARS_MAX: usize = 200;

/// A client is forgotten that was silent for as long, and for three intervals.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// What tells the series of one client apart: the metric and its attributes, as text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SeriesName {
    pub(super) metric: String,
    pub(super) attributes: String,
}

/// One client that was asked for its metrics.
#[derive(Debug)]
pub(super) struct Instance {
    pub(super) client_id: String,
    pub(super) software: String,
    pub(super) requested: Requested,
    pub(super) pushes: u64,
    pub(super) series: BTreeMap<SeriesName, f64>,
    connection: Weak<ConnectionInfo>,
    last_asked: Option<Instant>,
    last_pushed: Option<Instant>,
    is_terminating: bool,
    pub(super) last_seen: Instant,
}

impl Instance {
    pub(super) fn new(
        client_id: &str,
        software: String,
        requested: Requested,
        connection: Weak<ConnectionInfo>,
        now: Instant,
    ) -> Instance {
        Instance {
            client_id: shortened(client_id),
            software,
            requested,
            pushes: 0,
            series: BTreeMap::new(),
            connection,
            last_asked: None,
            last_pushed: None,
            is_terminating: false,
            last_seen: now,
        }
    }

    /// Takes note of a request. A client on a new connection, or of which something else is wanted
    /// now, may ask and push at once.
    pub(super) fn seen(
        &mut self,
        requested: Requested,
        connection: Weak<ConnectionInfo>,
        now: Instant,
    ) {
        if self.connection.upgrade().is_none() || requested != self.requested {
            (self.last_asked, self.last_pushed) = (None, None);
        }
        self.connection = connection;
        self.requested = requested;
        self.last_seen = now;
    }

    /// The client asks what to push: once in an interval.
    pub(super) fn ask(&mut self, now: Instant) -> Result<(), ErrorCode> {
        if self.last_asked.max(self.last_pushed).is_some_and(|last| self.is_early(last, now)) {
            return Err(ErrorCode::ThrottlingQuotaExceeded);
        }
        self.last_asked = Some(now);
        Ok(())
    }

    /// The client pushes: once in an interval, and at once after it has asked.
    pub(super) fn push(&mut self, is_last: bool, now: Instant) -> Result<(), ErrorCode> {
        // One that goes on after all is refused once, as in Kafka: its last push may have been refused itself.
        if std::mem::replace(&mut self.is_terminating, is_last) {
            return Err(ErrorCode::InvalidRequest);
        }
        let is_early = self.last_pushed.is_some_and(|last| {
            self.last_asked.is_none_or(|asked| asked <= last) && self.is_early(last, now)
        });
        if is_early && !is_last {
            return Err(ErrorCode::ThrottlingQuotaExceeded);
        }
        // A last push that comes early leaves the interval as it was, as in Kafka.
        if !is_early {
            self.last_pushed = Some(now);
        }
        Ok(())
    }

    /// Keeps a number, if it was asked for and there is room: `false` if there is none.
    pub(super) fn keep(&mut self, sample: &Sample<'_>, room: usize) -> bool {
        if !self.requested.wants(sample.name) {
            return true;
        }
        let mut attributes: Vec<String> =
            sample.attributes.iter().map(|(key, value)| format!("{key}={value}")).collect();
        attributes.sort_unstable();
        let name = SeriesName {
            metric: shortened(sample.name),
            attributes: shortened(&attributes.join(",")),
        };
        let is_full = self.series.len() >= SERIES_MAX || room == 0;
        match self.series.get_mut(&name) {
            Some(value) if sample.is_delta => *value += sample.value,
            Some(value) => *value = sample.value,
            None if is_full => return false,
            None => _ = self.series.insert(name, sample.value),
        }
        true
    }

    /// Whether the client was silent for so long that it has gone.
    pub(super) fn has_gone(&self, now: Instant) -> bool {
        let silence_max = SILENCE_MAX.max(self.requested.interval() * 3);
        now.saturating_duration_since(self.last_seen) > silence_max
    }

    fn is_early(&self, last: Instant, now: Instant) -> bool {
        now.saturating_duration_since(last) < self.requested.interval()
    }
}

/// The beginning of a text that a client chose.
pub(super) fn shortened(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::requested::tests::requested;

    const INTERVAL: Duration = Duration::from_secs(300);

    fn instance(now: Instant) -> Instance {
        Instance::new("c", "java".to_owned(), requested(&["org.a"], INTERVAL), Weak::new(), now)
    }

    fn sample(name: &str, value: f64, is_delta: bool) -> Sample<'_> {
        Sample {
            name,
            attributes: vec![("b", "2".to_owned()), ("a", "1".to_owned())],
            value,
            is_delta,
        }
    }

    #[test]
    fn a_client_asks_once_and_pushes_once_in_an_interval() {
        let start = Instant::now();
        let mut instance = instance(start);
        let early = Err(ErrorCode::ThrottlingQuotaExceeded);
        assert_eq!(instance.ask(start), Ok(()));
        assert_eq!(instance.ask(start + INTERVAL / 2), early);
        assert_eq!(instance.push(false, start + INTERVAL / 2), Ok(()));
        assert_eq!(instance.push(false, start + INTERVAL), early);
        assert_eq!(instance.push(false, start + INTERVAL * 2), Ok(()));
        let half_later = start + INTERVAL * 5 / 2;
        assert_eq!(instance.push(true, half_later), Ok(()), "the last comes at any time");
        assert_eq!(instance.push(false, half_later), Err(ErrorCode::InvalidRequest));
        assert_eq!(instance.push(false, half_later), early, "it goes on after all");
        assert_eq!(
            instance.push(false, start + INTERVAL * 3),
            Ok(()),
            "an interval after the one before the last"
        );
    }

    #[test]
    fn who_comes_anew_or_is_asked_for_something_else_need_not_wait() {
        let start = Instant::now();
        let mut instance = instance(start);
        assert_eq!(instance.ask(start), Ok(()));
        instance.seen(requested(&["org.a"], INTERVAL), Weak::new(), start);
        assert_eq!(instance.ask(start), Ok(()), "its connection has gone");
        let same = instance.requested.clone();
        assert_eq!(same, requested(&["org.a"], INTERVAL));
        instance.seen(requested(&["org.b"], INTERVAL), Weak::new(), start);
        assert_eq!(instance.ask(start), Ok(()));
    }

    #[test]
    fn deltas_add_up_and_the_rest_is_the_latest() {
        let mut instance = instance(Instant::now());
        for value in [2.0, 3.0] {
            assert!(instance.keep(&sample("org.a.sum", value, true), 9));
            assert!(instance.keep(&sample("org.a.gauge", value, false), 9));
            assert!(instance.keep(&sample("org.other", value, false), 9));
        }
        let kept: Vec<_> = instance.series.iter().collect();
        let name = |metric: &str| SeriesName {
            metric: metric.to_owned(),
            attributes: "a=1,b=2".to_owned(),
        };
        assert_eq!(kept, [(&name("org.a.gauge"), &3.0), (&name("org.a.sum"), &5.0)]);
    }

    #[test]
    fn series_have_a_bound() {
        let mut instance = instance(Instant::now());
        for number in 0..SERIES_MAX {
            assert!(instance.keep(&sample(&format!("org.a.{number}"), 1.0, false), 1));
        }
        assert!(!instance.keep(&sample("org.a.more", 1.0, false), 1));
        assert!(instance.keep(&sample("org.a.0", 1.0, false), 0), "it is known");
        assert!(!self::instance(Instant::now()).keep(&sample("org.a", 1.0, false), 0));
    }
}
