//! Telling whoever waits what they wait for.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::ClientError;

/// What passes within this time is nobody's concern: an election, a broker that starts.
const SILENCE_MAX: Duration = Duration::from_millis(1500);

/// How long to be silent after a word.
const SILENCE_AFTER_WORD: Duration = Duration::from_secs(15);

/// What an observer is told.
#[derive(Debug, Clone, Copy)]
pub enum Delay<'a> {
    /// Something has been tried again and again for a while; this was the last answer.
    Goes(&'a ClientError),
    /// What was told of before works again.
    Over,
}

/// Somebody to be told when what a client does takes long. It is called on the client's tasks and
/// should be brief.
#[derive(Clone, Default)]
pub struct DelayObserver(Option<Arc<Observe>>);

type Observe = dyn Fn(Delay<'_>) + Send + Sync;

impl DelayObserver {
    /// Calls a function.
    pub fn new(observe: impl Fn(Delay<'_>) + Send + Sync + 'static) -> DelayObserver {
        DelayObserver(Some(Arc::new(observe)))
    }

    fn tell(&self, delay: Delay<'_>) {
        if let Some(observe) = &self.0 {
            observe(delay);
        }
    }
}

impl fmt::Debug for DelayObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DelayObserver").field(&self.0.is_some()).finish()
    }
}

/// How long something has not worked, and whether anybody was told.
#[derive(Debug, Clone)]
pub(crate) struct Attempts {
    observer: DelayObserver,
    next_word_at: Option<Instant>,
    has_told: bool,
}

impl Attempts {
    /// Nothing has gone wrong yet.
    pub(crate) fn new(observer: DelayObserver) -> Attempts {
        Attempts { observer, next_word_at: None, has_told: false }
    }

    /// It did not work, and will be tried again.
    pub(crate) fn failed(&mut self, error: &ClientError) {
        self.failed_at(Instant::now(), error);
    }

    fn failed_at(&mut self, now: Instant, error: &ClientError) {
        if now < *self.next_word_at.get_or_insert(now + SILENCE_MAX) {
            return;
        }
        self.observer.tell(Delay::Goes(error));
        self.has_told = true;
        self.next_word_at = Some(now + SILENCE_AFTER_WORD);
    }

    /// It worked.
    pub(crate) fn succeeded(&mut self) {
        self.next_word_at = None;
        if std::mem::take(&mut self.has_told) {
            self.observer.tell(Delay::Over);
        }
    }
}

/// The things that are being waited for, each with its attempts.
#[derive(Debug)]
pub(crate) struct Delays<K> {
    observer: DelayObserver,
    attempts: BTreeMap<K, Attempts>,
}

impl<K: Clone + Ord> Delays<K> {
    /// Nothing is being waited for yet.
    pub(crate) fn new(observer: DelayObserver) -> Delays<K> {
        Delays { observer, attempts: BTreeMap::new() }
    }

    /// It did not work with this one, and will be tried again.
    pub(crate) fn failed(&mut self, what: &K, error: &ClientError) {
        let first = || Attempts::new(self.observer.clone());
        self.attempts.entry(what.clone()).or_insert_with(first).failed(error);
    }

    /// It worked with this one.
    pub(crate) fn succeeded(&mut self, what: &K) {
        if let Some(mut attempts) = self.attempts.remove(what) {
            attempts.succeeded();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn only_what_lasts_is_told_and_then_its_end() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&told);
        let mut attempts = Attempts::new(DelayObserver::new(move |delay| {
            seen.lock().expect("no panic").push(match delay {
                Delay::Goes(error) => error.to_string(),
                Delay::Over => "over".to_owned(),
            });
        }));
        let error = ClientError::Stopped { task: "test" };
        let start = Instant::now();
        let fail = |attempts: &mut Attempts, seconds: &[u64]| {
            for &second in seconds {
                attempts.failed_at(start + Duration::from_secs(second), &error);
            }
        };
        fail(&mut attempts, &[0, 1]);
        attempts.succeeded();
        assert!(told.lock().expect("no panic").is_empty(), "it did not last");
        fail(&mut attempts, &[10, 11, 12, 13, 26, 27, 28]);
        attempts.succeeded();
        attempts.succeeded();
        let text = error.to_string();
        assert_eq!(*told.lock().expect("no panic"), [&*text, &text, "over"]);
    }
}
