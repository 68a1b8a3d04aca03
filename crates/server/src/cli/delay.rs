//! What users are told while a command waits for the cluster.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use logway_client::{Delay, DelayObserver};

/// Several partitions, or the parts of a command, often wait for the same.
const REPETITION_MIN: Duration = Duration::from_secs(10);

/// Tells it on stderr.
pub(super) fn observer() -> DelayObserver {
    let words = Mutex::new(Words::default());
    DelayObserver::new(move |delay| {
        let mut words = words.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = words.line(delay, Instant::now()) {
            eprintln!("{line}");
        }
    })
}

/// What was told last.
#[derive(Debug, Default)]
struct Words {
    last: Option<(String, Instant)>,
}

impl Words {
    /// What to tell, unless it was told a moment ago.
    fn line(&mut self, delay: Delay<'_>, now: Instant) -> Option<String> {
        let line = match delay {
            Delay::Goes(error) => format!("warning: {error}; still trying"),
            Delay::Over => "it goes on".to_owned(),
        };
        let is_new = self.last.as_ref().is_none_or(|(last, told_at)| {
            *last != line || now.duration_since(*told_at) >= REPETITION_MIN
        });
        is_new.then(|| self.last = Some((line.clone(), now))).map(|()| line)
    }
}

#[cfg(test)]
mod tests {
    use logway_client::ClientError;

    use super::*;

    #[test]
    fn the_same_is_not_told_twice_in_a_row() {
        let mut words = Words::default();
        let start = Instant::now();
        let error = ClientError::Stopped { task: "test" };
        let goes = Some("warning: the test has stopped; still trying".to_owned());
        let mut at = |seconds, delay| words.line(delay, start + Duration::from_secs(seconds));
        assert_eq!(at(0, Delay::Goes(&error)), goes);
        assert_eq!(at(1, Delay::Goes(&error)), None);
        assert_eq!(at(12, Delay::Goes(&error)), goes);
        assert_eq!(at(13, Delay::Over), Some("it goes on".to_owned()));
        assert_eq!(at(14, Delay::Over), None);
        assert_eq!(at(15, Delay::Goes(&error)), goes);
    }
}
