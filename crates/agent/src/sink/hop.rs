//! What sinks of Flume's RPC share: messages of a bounded size, and what is done if the next hop refuses one.
//!
//! A source whose bound a message exceeds closes the connection in place of an answer. So does one that ends, and a proxy
//! in front of a source that is not there. The sink tells them apart by an empty message: a hop that takes that one is up.

use std::io;
use std::ops::Range;

use super::parts::{Fate, Parts, Verdict, send_parts};
use crate::error::SinkError;
use crate::event::Event;

/// How large a message with several events becomes, about. Flume's Thrift source takes 16 MB, our sources take 64 MiB by
/// default, for which several connections may share 256 MiB.
const MESSAGE_BYTES_MAX: usize = 8 << 20;

/// What a header takes in a message beside its texts, at most.
const HEADER_BYTES: usize = 16;

/// How often in a row a hop that is up has to refuse an event which is alone in its message, until it counts as refused for
/// good. A hop may refuse one also because its memory is taken by others for a while.
const REFUSALS_MIN: u32 = 5;

/// Why the next hop does not have the events of a message.
#[derive(Debug)]
pub(super) enum Unsent {
    /// It may take them later.
    Later(String),
    /// It has closed the connection or answered with an error, perhaps because of what the message is like.
    Refused(String),
}

impl Unsent {
    /// Of a call that came to no answer.
    pub(super) fn of(error: &io::Error, next: &str) -> Unsent {
        let reason = format!("{next}: {error}");
        match error.kind() {
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::UnexpectedEof => Unsent::Refused(reason),
            _ => Unsent::Later(reason),
        }
    }
}

/// The next hop.
pub(super) trait Hop: Send {
    /// Sends events in one message, perhaps none. When it returns, the hop has them.
    fn append(&mut self, events: &[Event]) -> impl Future<Output = Result<(), Unsent>> + Send;
}

/// Sends a batch in messages that a hop should take. `refusals` counts how often in a row an event was refused alone.
pub(super) async fn send_in_messages(
    hop: &mut impl Hop,
    events: &[Event],
    refusals: &mut u32,
) -> Result<(), SinkError> {
    let size = |event: &Event| event.size_bytes() + HEADER_BYTES * event.headers.len();
    let sizes: Vec<usize> = events.iter().map(size).collect();
    send_parts(&mut Messages { hop, events, refusals }, &sizes, MESSAGE_BYTES_MAX).await
}

struct Messages<'a, H> {
    hop: &'a mut H,
    events: &'a [Event],
    refusals: &'a mut u32,
}

impl<H: Hop> Parts for Messages<'_, H> {
    async fn send_part(&mut self, range: Range<usize>) -> Verdict {
        let reason = match self.hop.append(&self.events[range.clone()]).await {
            Ok(()) => {
                *self.refusals = 0;
                return Verdict::All(Fate::Arrived);
            }
            Err(Unsent::Later(reason)) => return Verdict::All(Fate::Later(reason)),
            Err(Unsent::Refused(reason)) => reason,
        };
        if self.hop.append(&[]).await.is_err() {
            return Verdict::All(Fate::Later(reason));
        }
        if range.len() == 1 {
            *self.refusals += 1;
            if *self.refusals < REFUSALS_MIN {
                return Verdict::All(Fate::Later(reason));
            }
            *self.refusals = 0;
        }
        Verdict::Apart(reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Partly;

    /// Takes messages of so many bytes, if it is up.
    struct Server {
        bytes_max: usize,
        is_up: bool,
        taken: Vec<Event>,
        messages: usize,
    }

    impl Server {
        fn new(bytes_max: usize) -> Server {
            Server { bytes_max, is_up: true, taken: Vec::new(), messages: 0 }
        }
    }

    impl Hop for Server {
        async fn append(&mut self, events: &[Event]) -> Result<(), Unsent> {
            self.messages += 1;
            let bytes: usize = events.iter().map(|event| event.body.len()).sum();
            if !self.is_up || bytes > self.bytes_max {
                return Err(Unsent::of(&io::ErrorKind::ConnectionReset.into(), "hop"));
            }
            self.taken.extend_from_slice(events);
            Ok(())
        }
    }

    fn events(sizes: &[usize]) -> Vec<Event> {
        sizes.iter().map(|size| Event::new(vec![b'x'; *size])).collect()
    }

    #[tokio::test]
    async fn many_large_events_go_in_messages_that_a_hop_takes() {
        let events = events(&[1 << 20; 90]);
        for (bytes_max, messages_max) in [(64 << 20, 13), (3 << 20, 90)] {
            let mut server = Server::new(bytes_max);
            send_in_messages(&mut server, &events, &mut 0).await.expect("all are sent");
            assert_eq!(server.taken.len(), 90);
            assert!(server.messages <= messages_max, "{} messages", server.messages);
        }
    }

    #[tokio::test]
    async fn an_event_that_is_too_large_for_a_hop_is_refused_and_the_others_arrive() {
        let (mut server, mut refusals) = (Server::new(100), 0);
        let mut left = events(&[50, 60, 101, 70]);
        for _ in 1..REFUSALS_MIN {
            let sent = send_in_messages(&mut server, &left, &mut refusals).await;
            let later = match sent.expect_err("one is too large") {
                SinkError::Partly(Partly { arrived, refused, later }) => {
                    assert_eq!((arrived, refused.len()), (vec![0, 1], 0));
                    left.drain(..2);
                    later
                }
                SinkError::Later(reason) => Some(reason),
                error => panic!("{error:?}"),
            };
            assert!(later.is_some(), "it may pass later");
        }
        let sent = send_in_messages(&mut server, &left, &mut refusals).await;
        let Err(SinkError::Partly(Partly { arrived, refused, later: None })) = sent else {
            panic!("{sent:?}");
        };
        assert_eq!((arrived, refused[0].0), (vec![1], 0));
        assert_eq!(server.taken, events(&[50, 60, 70]));
    }

    /// A proxy takes connections for it, and closes them.
    #[tokio::test]
    async fn a_hop_that_is_not_up_refuses_nothing_for_good() {
        let (mut server, mut refusals) = (Server::new(100), 0);
        server.is_up = false;
        for events in [events(&[1; 10]), events(&[1])] {
            for _ in 0..3 * REFUSALS_MIN {
                let sent = send_in_messages(&mut server, &events, &mut refusals).await;
                assert!(matches!(sent, Err(SinkError::Later(_))), "{sent:?}");
            }
        }
    }
}
