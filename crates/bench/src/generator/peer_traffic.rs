//! What is said to a peer that does not speak Kafka's protocol.

use std::time::Instant;

use super::{Asked, Framing, Observed, Pace, Payload, Traffic};
use crate::peer::Listener;

/// The longest frame that the peers send.
const FRAME_BYTES_MAX: usize = 128 << 10;

/// Requests that are copies of one another, and what comes back.
pub(crate) struct PeerTraffic {
    listener: Box<dyn Listener>,
    /// What one request brings, of a producer; what one message is, of a consumer.
    payload: Payload,
    kind: Kind,
}

enum Kind {
    Producer {
        pace: Pace,
        is_answered: bool,
    },
    /// Of a queue with so many messages; and how many have come.
    Consumer {
        messages: u64,
        received: u64,
    },
}

impl PeerTraffic {
    /// Of a producer. Without answers, what is sent counts.
    pub(crate) fn producer(
        listener: Box<dyn Listener>,
        payload: Payload,
        pace: Pace,
        is_answered: bool,
    ) -> PeerTraffic {
        PeerTraffic { listener, payload, kind: Kind::Producer { pace, is_answered } }
    }

    /// Of a consumer of all that a queue holds; counts messages.
    pub(crate) fn consumer(
        listener: Box<dyn Listener>,
        value_bytes: u64,
        messages: u64,
    ) -> PeerTraffic {
        let payload = Payload { records: 1, value_bytes };
        PeerTraffic { listener, payload, kind: Kind::Consumer { messages, received: 0 } }
    }
}

impl Traffic for PeerTraffic {
    fn framing(&self) -> Framing {
        self.listener.framing()
    }

    fn head_bytes_max(&self) -> usize {
        FRAME_BYTES_MAX
    }

    fn answer(
        &mut self,
        head: &[u8],
        _frame_bytes: usize,
        asked: &mut Asked,
        now: Instant,
        observed: &mut Observed,
    ) -> anyhow::Result<()> {
        let heard = self.listener.hear(head)?;
        for _ in 0..heard.answered {
            let due = asked.pop()?;
            let Kind::Producer { pace, .. } = self.kind else { continue };
            observed.count_answer(pace, (due, now), self.payload);
        }
        if let Kind::Consumer { received, .. } = &mut self.kind
            && heard.messages > 0
        {
            *received += heard.messages;
            observed.count(now, self.payload.times(heard.messages));
        }
        Ok(())
    }

    fn is_answered(&self) -> bool {
        !matches!(self.kind, Kind::Producer { is_answered: false, .. })
    }

    fn sent_unanswered(&mut self) -> Payload {
        self.payload
    }

    fn goes_on(&self, now: Instant, observed: &Observed) -> bool {
        let has_more = match &self.kind {
            Kind::Producer { .. } => true,
            Kind::Consumer { messages, received } => received < messages,
        };
        has_more && now < observed.window.to
    }
}
