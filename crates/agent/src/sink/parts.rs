//! A batch in several requests, each no larger than a bound. A request that is refused as a whole is cut in two, until
//! the event is found for which it was.

use std::ops::Range;

use crate::error::{Partly, SinkError};

/// What became of an event that was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fate {
    Arrived,
    /// It will never pass.
    Refused(String),
    /// It may pass later.
    Later(String),
}

/// What became of a request.
#[derive(Debug)]
pub(super) enum Verdict {
    /// Each of its events has come to its own end.
    Each(Vec<Fate>),
    /// All of them.
    All(Fate),
    /// Something in it is not wanted, or it is too large: its events have to be sent apart.
    Apart(String),
}

impl Verdict {
    /// What became of events of which some could not be made ready, and the others were sent: their ends, in their order.
    pub(super) fn of_each<T>(
        ready: &[Result<T, String>],
        sent: impl IntoIterator<Item = Fate>,
    ) -> Verdict {
        let mut sent = sent.into_iter();
        let fate = |ready: &Result<T, String>| match ready {
            Ok(_) => sent.next().unwrap_or(Fate::Later("the answer is too short".to_owned())),
            Err(reason) => Fate::Refused(reason.clone()),
        };
        Verdict::Each(ready.iter().map(fate).collect())
    }
}

/// What sends requests.
pub(super) trait Parts: Send {
    /// Sends some of the batch's events.
    fn send_part(&mut self, events: Range<usize>) -> impl Future<Output = Verdict> + Send;
}

/// Sends events, whose sizes in a request are known, in their order. Behind one that may pass later nothing is sent.
pub(super) async fn send_parts(
    parts: &mut impl Parts,
    sizes: &[usize],
    request_bytes_max: usize,
) -> Result<(), SinkError> {
    let mut outcome = Partly::default();
    let mut left: Vec<Range<usize>> = std::iter::once(0..sizes.len()).collect();
    while let Some(mut range) = left.pop() {
        let fits = fitting(&sizes[range.clone()], request_bytes_max);
        if fits < range.len() {
            left.push(range.start + fits..range.end);
            range.end = range.start + fits;
        }
        if range.is_empty() {
            continue;
        }
        let fates = match parts.send_part(range.clone()).await {
            Verdict::Each(fates) => fates,
            Verdict::All(fate) => vec![fate; range.len()],
            Verdict::Apart(reason) if range.len() == 1 => vec![Fate::Refused(reason)],
            Verdict::Apart(_) => {
                let middle = range.start + range.len() / 2;
                left.extend([middle..range.end, range.start..middle]);
                continue;
            }
        };
        for (index, fate) in range.zip(fates) {
            match fate {
                Fate::Arrived => outcome.arrived.push(index),
                Fate::Refused(reason) => outcome.refused.push((index, reason)),
                Fate::Later(reason) => outcome.later = Some(reason),
            }
        }
        if outcome.later.is_some() {
            break;
        }
    }
    match outcome {
        Partly { refused, later: None, .. } if refused.is_empty() => Ok(()),
        Partly { arrived, refused, later: Some(reason) }
            if arrived.is_empty() && refused.is_empty() =>
        {
            Err(SinkError::Later(reason))
        }
        outcome => Err(SinkError::Partly(outcome)),
    }
}

/// How many from the first on fit; one always does, and is refused by whom it is sent to.
fn fitting(sizes: &[usize], bytes_max: usize) -> usize {
    let mut bytes: usize = 0;
    let fits = sizes.iter().take_while(|size| {
        bytes = bytes.saturating_add(**size);
        bytes <= bytes_max
    });
    fits.count().max(1).min(sizes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Refuses requests with an odd number in them, and says "later" to the number 90.
    struct Server(Vec<Range<usize>>);

    impl Parts for Server {
        async fn send_part(&mut self, events: Range<usize>) -> Verdict {
            self.0.push(events.clone());
            if events.clone().any(|event| event % 7 == 5) {
                return Verdict::Apart("no fives".to_owned());
            }
            let fate = |event| match event {
                90 => Fate::Later("busy".to_owned()),
                3 => Fate::Refused("a three".to_owned()),
                _ => Fate::Arrived,
            };
            Verdict::Each(events.map(fate).collect())
        }
    }

    #[tokio::test]
    async fn each_event_comes_to_its_own_end() {
        let mut server = Server(Vec::new());
        let sent = send_parts(&mut server, &[10; 30], 100).await;
        let Err(SinkError::Partly(Partly { arrived, mut refused, later: None })) = sent else {
            panic!("{sent:?}");
        };
        refused.sort();
        let refused: Vec<(usize, &str)> =
            refused.iter().map(|(index, reason)| (*index, reason.as_str())).collect();
        let fives = "no fives";
        assert_eq!(refused, [(3, "a three"), (5, fives), (12, fives), (19, fives), (26, fives)]);
        assert_eq!(arrived.len(), 25);
        assert!(server.0.iter().all(|request| request.len() <= 10), "{:?}", server.0);
    }

    #[tokio::test]
    async fn behind_one_that_has_to_wait_nothing_is_sent() {
        let mut server = Server(Vec::new());
        // Whether in one request or in many.
        for max in [1, 100_000] {
            let sent = send_parts(&mut server, &[10; 5], max).await;
            assert!(matches!(sent, Err(SinkError::Partly(Partly { later: None, .. }))), "{sent:?}");
        }
        struct Waits(usize);
        impl Parts for Waits {
            async fn send_part(&mut self, events: Range<usize>) -> Verdict {
                self.0 += 1;
                match events.start {
                    2.. => Verdict::All(Fate::Later("busy".to_owned())),
                    _ => Verdict::All(Fate::Arrived),
                }
            }
        }
        let mut waits = Waits(0);
        let sent = send_parts(&mut waits, &[10; 5], 1).await;
        let Err(SinkError::Partly(Partly { arrived, later: Some(_), .. })) = sent else {
            panic!("{sent:?}");
        };
        assert_eq!((arrived, waits.0), (vec![0, 1], 3));
        let mut waits = Waits(0);
        assert!(send_parts(&mut waits, &[], 1).await.is_ok());
    }
}
