//! How long the oldest event of a channel has been waiting, found by counting.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// Events that come within so long of each other count as equally old.
const GRAIN: Duration = Duration::from_millis(100);

/// How many moments are remembered.
const SAMPLES_MAX: usize = 1024;

/// Events are numbered as they come. As many as were taken are taken to be the first: transactions that end in another
/// order make a difference of their own length. What was there at the start counts from then on.
#[derive(Debug, Default)]
pub(super) struct Ages {
    put: u64,
    taken: u64,
    /// From this number on events came at this moment or later.
    samples: VecDeque<(u64, Instant)>,
}

impl Ages {
    pub(super) fn put(&mut self, events: u64) {
        let now = Instant::now();
        if self.put == self.taken {
            self.samples.clear();
        }
        if self.samples.back().is_none_or(|(_, since)| now - *since >= GRAIN) {
            self.samples.push_back((self.put, now));
        }
        self.put += events;
        if self.samples.len() > SAMPLES_MAX {
            // Every second one: what it stood for counts as a little older.
            let mut index = 0;
            self.samples.retain(|_| {
                index += 1;
                index % 2 == 1
            });
        }
    }

    pub(super) fn take(&mut self, events: u64) {
        self.taken = (self.taken + events).min(self.put);
        while self.samples.get(1).is_some_and(|(first, _)| *first <= self.taken) {
            self.samples.pop_front();
        }
    }

    /// Of the oldest event that waits, if any does.
    pub(super) fn oldest(&self) -> Option<Duration> {
        let (_, since) = self.samples.front().filter(|_| self.taken < self.put)?;
        Some(since.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_oldest_is_the_first_that_was_not_taken() {
        let second = Duration::from_secs(1);
        let mut ages = Ages::default();
        assert_eq!(ages.oldest(), None);
        ages.put(10);
        tokio::time::advance(second).await;
        ages.put(10);
        tokio::time::advance(second).await;
        assert_eq!(ages.oldest(), Some(2 * second));
        ages.take(9);
        assert_eq!(ages.oldest(), Some(2 * second));
        ages.take(1);
        assert_eq!(ages.oldest(), Some(second));
        ages.take(10);
        assert_eq!(ages.oldest(), None);
        tokio::time::advance(second).await;
        ages.put(1);
        assert_eq!(ages.oldest(), Some(Duration::ZERO));
        for _ in 0..5000 {
            tokio::time::advance(second).await;
            ages.put(1);
        }
        assert!(ages.samples.len() <= SAMPLES_MAX);
        assert_eq!(ages.oldest(), Some(5000 * second));
    }
}
