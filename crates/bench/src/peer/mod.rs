//! Brokers that speak other protocols, as far as their messages can be measured beside ours.
//!
//! Their clients would cost more than what is to be measured, so the few frames that a producer
//! and a consumer need are made here: those that open a connection and a queue with
//! [`Conversation`], one by one; those that are measured once, before the run, by
//! [`Peer::publication`]. What comes back is counted by a [`Listener`].

mod amqp;
mod conversation;
mod nats;
mod stomp;

use std::fmt;

use logway_client::BrokerAddress;

pub(crate) use amqp::{Amqp, frame_bytes as amqp_frame_bytes};
pub(crate) use conversation::Conversation;
pub(crate) use nats::{Nats, frame_bytes as nats_frame_bytes};
pub(crate) use stomp::{Stomp, frame_bytes as stomp_frame_bytes};

use crate::generator::{Acks, Framing};
use crate::measure::Durability;

/// A place for messages, as the peer has it: a queue or a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Queue {
    pub(crate) name: String,
    pub(crate) durability: Durability,
}

/// What a frame says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Heard {
    /// How many requests it answers.
    pub(crate) answered: u64,
    /// How many messages it delivers.
    pub(crate) messages: u64,
}

/// Understands what a peer sends over one connection.
pub(crate) trait Listener: Send {
    /// How frames are cut.
    fn framing(&self) -> Framing;

    /// Takes a frame.
    ///
    /// # Errors
    ///
    /// The peer refuses something, or says what it should not.
    fn hear(&mut self, frame: &[u8]) -> anyhow::Result<Heard>;
}

/// What a consumer sends, and what comes back.
pub(crate) struct Subscription {
    /// The request for more messages; none if they come unasked.
    pub(crate) request: Option<Vec<u8>>,
    pub(crate) listener: Box<dyn Listener>,
}

/// A protocol with what the benchmark asks in it.
pub(crate) trait Peer: fmt::Debug + Send + Sync {
    /// Opens a connection and greets.
    fn connect(&self, address: &BrokerAddress) -> anyhow::Result<Conversation>;

    /// Why it cannot give messages this promise, if it cannot.
    fn refusal(&self, acks: Acks, durability: Durability) -> Option<&'static str>;

    /// Makes a queue.
    fn create(&self, conversation: &mut Conversation, queue: &Queue) -> anyhow::Result<()>;

    /// Prepares a connection for publishing.
    ///
    /// # Errors
    ///
    /// The peer refuses.
    fn begin_publishing(&self, conversation: &mut Conversation, acks: Acks) -> anyhow::Result<()>;

    /// The bytes that publish one message over that connection.
    fn publication(
        &self,
        conversation: &Conversation,
        queue: &Queue,
        body: &[u8],
        acks: Acks,
    ) -> Vec<u8>;

    /// Understands the acknowledgements of publications.
    fn acknowledgements(&self) -> Box<dyn Listener>;

    /// Returns when the peer has everything that was published over this connection.
    fn await_arrival(&self, conversation: &mut Conversation, queue: &Queue) -> anyhow::Result<()>;

    /// Has the messages of a queue sent to this connection, from the first on, without
    /// acknowledging them one by one.
    fn subscribe(
        &self,
        conversation: &mut Conversation,
        queue: &Queue,
    ) -> anyhow::Result<Subscription>;

    /// Removes a queue with what it holds.
    fn delete(&self, conversation: &mut Conversation, queue: &Queue) -> anyhow::Result<()>;
}
