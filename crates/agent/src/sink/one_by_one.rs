//! A batch that is stored at once, and one by one when one of its events is refused: so the one is found that will never
//! be stored, and each of the others is stored once.

use crate::error::{Partly, SinkError};

/// Why events are not stored.
#[derive(Debug)]
pub(super) enum Failure {
    /// They may be later.
    Later(String),
    /// One of them will never be; which one shows when they are sent one by one.
    Refused(String),
}

/// What became of events that were sent together.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// By their places in the batch.
    pub(super) stored: Vec<usize>,
    /// Why the others are not.
    pub(super) failure: Option<Failure>,
}

/// What stores events of a batch.
pub(super) trait Store: Send {
    /// Stores events, by their places, in their order.
    fn store(&mut self, events: &[usize]) -> impl Future<Output = Outcome> + Send;
}

/// Stores a batch of so many events. Nothing is sent one by one behind the first event that is refused: without a place
/// for dead letters it holds up what is behind it.
pub(super) async fn store_each_once(store: &mut impl Store, count: usize) -> Result<(), SinkError> {
    let all: Vec<usize> = (0..count).collect();
    let mut outcome = Partly::default();
    let left = match store.store(&all).await {
        Outcome { failure: None, .. } => return Ok(()),
        Outcome { stored, failure: Some(failure) } => {
            outcome.arrived = stored;
            let mut is_left = vec![true; count];
            outcome.arrived.iter().for_each(|index| is_left[*index] = false);
            let left: Vec<usize> = all.into_iter().filter(|index| is_left[*index]).collect();
            match failure {
                Failure::Later(reason) => {
                    outcome.later = Some(reason);
                    Vec::new()
                }
                Failure::Refused(reason) if left.len() == 1 => {
                    outcome.refused = vec![(left[0], reason)];
                    Vec::new()
                }
                Failure::Refused(_) => left,
            }
        }
    };
    for index in left {
        let Outcome { stored, failure } = store.store(&[index]).await;
        outcome.arrived.extend(stored);
        match failure {
            None => continue,
            Some(Failure::Later(reason)) => outcome.later = Some(reason),
            Some(Failure::Refused(reason)) => outcome.refused = vec![(index, reason)],
        }
        break;
    }
    match outcome.refused.is_empty() && outcome.later.is_none() {
        true => Ok(()),
        false => Err(SinkError::Partly(outcome)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two partitions, for even and for odd events. Behind what one refuses it stores nothing more of the same request.
    #[derive(Default)]
    struct Broker {
        stored: Vec<usize>,
        never: Vec<usize>,
        busy: Option<usize>,
        /// The events of the batch that are left, as the broker knows them.
        batch: Vec<usize>,
    }

    impl Store for Broker {
        async fn store(&mut self, events: &[usize]) -> Outcome {
            let mut outcome = Outcome::default();
            for parity in [0, 1] {
                for index in events {
                    let event = self.batch[*index];
                    if event % 2 != parity {
                        continue;
                    }
                    if self.never.contains(&event) {
                        outcome.failure = Some(Failure::Refused(format!("no {event}")));
                        break;
                    }
                    if self.busy == Some(event) {
                        outcome.failure = Some(Failure::Later("busy".to_owned()));
                        break;
                    }
                    self.stored.push(event);
                    outcome.stored.push(*index);
                }
            }
            outcome
        }
    }

    /// Sends the rest of the batch once more, without what arrived, and if there are dead letters without what was refused.
    async fn turn(broker: &mut Broker, has_dead_letters: bool) -> Option<Partly> {
        let sent = store_each_once(broker, broker.batch.len()).await;
        let Err(error) = sent else { return None };
        let SinkError::Partly(partly) = error else { panic!("{error:?}") };
        let mut done = partly.arrived.clone();
        if has_dead_letters {
            done.extend(partly.refused.iter().map(|(index, _)| index));
        }
        let left = broker.batch.iter().enumerate().filter(|(index, _)| !done.contains(index));
        broker.batch = left.map(|(_, event)| *event).collect();
        Some(partly)
    }

    #[tokio::test]
    async fn each_event_is_stored_once_whatever_is_refused() {
        let never = vec![0, 7, 8, 15, 39];
        let mut broker =
            Broker { never: never.clone(), batch: (0..40).collect(), ..Broker::default() };
        let mut refused = Vec::new();
        while let Some(partly) = turn(&mut broker, true).await {
            refused.extend(partly.refused.into_iter().map(|(_, reason)| reason));
        }
        broker.stored.sort();
        let others: Vec<usize> = (0..40).filter(|event| !never.contains(event)).collect();
        assert_eq!(broker.stored, others);
        assert_eq!(refused.len(), 5, "{refused:?}");
    }

    #[tokio::test]
    async fn an_event_that_stays_holds_up_its_partition_and_nothing_is_stored_twice() {
        let mut broker = Broker { never: vec![7], batch: (0..12).collect(), ..Broker::default() };
        for _ in 0..5 {
            let partly = turn(&mut broker, false).await.expect("it is refused");
            assert_eq!(partly.refused[0].1, "no 7");
        }
        assert_eq!(broker.stored, [0, 2, 4, 6, 8, 10, 1, 3, 5]);
        assert_eq!(broker.batch, [7, 9, 11]);
        broker.never.clear();
        assert!(turn(&mut broker, false).await.is_none());
        assert_eq!(broker.stored[9..], [7, 9, 11]);
    }

    #[tokio::test]
    async fn what_arrived_is_known_also_when_the_rest_has_to_wait() {
        let mut broker =
            Broker { busy: Some(3), never: vec![9], batch: (0..12).collect(), ..Broker::default() };
        let partly = turn(&mut broker, false).await.expect("is busy");
        assert_eq!((partly.arrived.len(), partly.later.as_deref()), (7, Some("busy")));
        broker.busy = None;
        turn(&mut broker, true).await.expect("the nine is refused");
        assert!(turn(&mut broker, true).await.is_none());
        broker.stored.sort();
        assert_eq!(broker.stored, [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11]);
    }
}
