//! RabbitMQ over AMQP 0-9-1 (specification of 2008, and RabbitMQ's publisher confirms).
//!
//! ```text
//! frame    type u8 (1 method, 2 header, 3 body, 8 heartbeat) · channel u16 · size u32 · payload · 0xCE
//! method   class u16 · method u16 · arguments
//! header   class u16 · weight u16 · body bytes u64 · flags u16 · properties
//! ```

use anyhow::{bail, ensure};
use logway_client::BrokerAddress;

use super::{Conversation, Heard, Listener, Peer, Queue, Subscription};
use crate::generator::{Acks, Framing};
use crate::measure::Durability;

const FRAME_HEAD_BYTES: usize = 7;
const FRAME_END: u8 = 0xCE;
const METHOD: u8 = 1;
const HEADER: u8 = 2;
const BODY: u8 = 3;

/// What we may send in one frame, and the peer to us: its own default.
const FRAME_BYTES_MAX: u32 = 131_072;

/// The one channel that we use.
const CHANNEL: u16 = 1;

/// A class and a method of it.
type Method = (u16, u16);

const CONNECTION_START: Method = (10, 10);
const CONNECTION_START_OK: Method = (10, 11);
const CONNECTION_TUNE: Method = (10, 30);
const CONNECTION_TUNE_OK: Method = (10, 31);
const CONNECTION_OPEN: Method = (10, 40);
const CONNECTION_OPEN_OK: Method = (10, 41);
const CONNECTION_CLOSE: Method = (10, 50);
const CHANNEL_OPEN: Method = (20, 10);
const CHANNEL_OPEN_OK: Method = (20, 11);
const CHANNEL_CLOSE: Method = (20, 40);
const QUEUE_DECLARE: Method = (50, 10);
const QUEUE_DECLARE_OK: Method = (50, 11);
const QUEUE_DELETE: Method = (50, 40);
const QUEUE_DELETE_OK: Method = (50, 41);
const BASIC_CONSUME: Method = (60, 20);
const BASIC_PUBLISH: Method = (60, 40);
const BASIC_DELIVER: Method = (60, 60);
const BASIC_ACK: Method = (60, 80);
const BASIC_NACK: Method = (60, 120);
const CONFIRM_SELECT: Method = (85, 10);
const CONFIRM_SELECT_OK: Method = (85, 11);

/// Of `queue.declare`: fails where there is none; outlives the broker.
const PASSIVE: u8 = 1;
const DURABLE: u8 = 2;

/// Of `basic.consume`: what was sent counts as acknowledged.
const NO_ACK: u8 = 2;

/// The delivery mode is the only property of our messages, and they are persistent.
const HAS_DELIVERY_MODE: u16 = 0x1000;
const PERSISTENT: u8 = 2;

/// RabbitMQ. Messages are persistent; a queue that syncs is a quorum queue of one member, which
/// syncs its log before it confirms, one that does not is a durable classic queue, without confirms.
#[derive(Debug)]
pub(crate) struct Amqp;

impl Peer for Amqp {
    fn connect(&self, address: &BrokerAddress) -> anyhow::Result<Conversation> {
        let mut conversation = Conversation::open(address, Framing::Amqp)?;
        conversation.send(b"AMQP\x00\x00\x09\x01")?;
        await_method(&mut conversation, CONNECTION_START)?;
        let start_ok = Arguments::default()
            .table(&[])
            .short_string("PLAIN")
            .long_string("\0guest\0guest")
            .short_string("en_US");
        conversation.send(&start_ok.method(0, CONNECTION_START_OK))?;
        await_method(&mut conversation, CONNECTION_TUNE)?;
        // One channel, and no heartbeats.
        let tune_ok = Arguments::default().u16(CHANNEL).u32(FRAME_BYTES_MAX).u16(0);
        conversation.send(&tune_ok.method(0, CONNECTION_TUNE_OK))?;
        let open = Arguments::default().short_string("/").short_string("").u8(0);
        conversation.send(&open.method(0, CONNECTION_OPEN))?;
        await_method(&mut conversation, CONNECTION_OPEN_OK)?;
        let open = Arguments::default().short_string("");
        conversation.send(&open.method(CHANNEL, CHANNEL_OPEN))?;
        await_method(&mut conversation, CHANNEL_OPEN_OK)?;
        Ok(conversation)
    }

    fn refusal(&self, acks: Acks, durability: Durability) -> Option<&'static str> {
        match (acks, durability) {
            (Acks::None, Durability::Unsynced) | (Acks::Leader | Acks::All, Durability::Synced) => {
                None
            }
            (Acks::None, Durability::Synced) => {
                Some("says that a message is on the disk by confirming it, and not otherwise")
            }
            (Acks::Leader | Acks::All, Durability::Unsynced) => {
                Some("confirms a persistent message when it is on the disk, not before")
            }
        }
    }

    fn create(&self, conversation: &mut Conversation, queue: &Queue) -> anyhow::Result<()> {
        let kind = match queue.durability {
            Durability::Synced => "quorum",
            Durability::Unsynced => "classic",
        };
        declare(conversation, queue, DURABLE, &[("x-queue-type", kind)])
    }

    fn begin_publishing(&self, conversation: &mut Conversation, acks: Acks) -> anyhow::Result<()> {
        if acks == Acks::None {
            return Ok(());
        }
        conversation.send(&Arguments::default().u8(0).method(CHANNEL, CONFIRM_SELECT))?;
        await_method(conversation, CONFIRM_SELECT_OK)
    }

    fn publication(&self, _: &Conversation, queue: &Queue, body: &[u8], _: Acks) -> Vec<u8> {
        publication(queue, body)
    }

    fn acknowledgements(&self) -> Box<dyn Listener> {
        Box::new(Ears { confirmed: 0 })
    }

    /// The channel does one thing after the other, and so does the queue: when it answers a
    /// question it has had everything that was published before.
    fn await_arrival(&self, conversation: &mut Conversation, queue: &Queue) -> anyhow::Result<()> {
        declare(conversation, queue, PASSIVE, &[])
    }

    fn subscribe(
        &self,
        conversation: &mut Conversation,
        queue: &Queue,
    ) -> anyhow::Result<Subscription> {
        let consume = Arguments::default()
            .u16(0)
            .short_string(&queue.name)
            .short_string("")
            .u8(NO_ACK)
            .table(&[]);
        conversation.send(&consume.method(CHANNEL, BASIC_CONSUME))?;
        Ok(Subscription { request: None, listener: self.acknowledgements() })
    }

    fn delete(&self, conversation: &mut Conversation, queue: &Queue) -> anyhow::Result<()> {
        let delete = Arguments::default().u16(0).short_string(&queue.name).u8(0);
        conversation.send(&delete.method(CHANNEL, QUEUE_DELETE))?;
        await_method(conversation, QUEUE_DELETE_OK)
    }
}

/// How long the frame at the beginning of `bytes` is.
pub(crate) fn frame_bytes(bytes: &[u8]) -> anyhow::Result<Option<usize>> {
    let Some(head) = bytes.first_chunk::<FRAME_HEAD_BYTES>() else { return Ok(None) };
    let payload_bytes = u32::from_be_bytes([head[3], head[4], head[5], head[6]]);
    let is_frame = matches!(head[0], METHOD | HEADER | BODY | 8);
    ensure!(is_frame && payload_bytes <= FRAME_BYTES_MAX, "not a frame of AMQP 0-9-1");
    Ok(Some(FRAME_HEAD_BYTES + payload_bytes as usize + 1))
}

/// Counts confirms and deliveries.
struct Ears {
    /// The number of the last publication that was confirmed together with all before it.
    confirmed: u64,
}

impl Listener for Ears {
    fn framing(&self) -> Framing {
        Framing::Amqp
    }

    fn hear(&mut self, frame: &[u8]) -> anyhow::Result<Heard> {
        let Some((method, arguments)) = method_of(frame)? else { return Ok(Heard::default()) };
        match method {
            BASIC_DELIVER => Ok(Heard { messages: 1, answered: 0 }),
            BASIC_ACK => {
                let Some((tag, [multiple, ..])) = arguments.split_first_chunk() else {
                    bail!("a confirm without a number");
                };
                let number = u64::from_be_bytes(*tag);
                // Together they are confirmed in their order, singly in any.
                let answered = match multiple {
                    0 => 1,
                    _ => number.saturating_sub(self.confirmed),
                };
                self.confirmed += answered;
                Ok(Heard { answered, messages: 0 })
            }
            BASIC_NACK => bail!("the peer refused a message"),
            _ => Ok(Heard::default()),
        }
    }
}

/// A method, a header and the body.
fn publication(queue: &Queue, body: &[u8]) -> Vec<u8> {
    let publish = Arguments::default().u16(0).short_string("").short_string(&queue.name).u8(0);
    let mut bytes = publish.method(CHANNEL, BASIC_PUBLISH);
    let header = Arguments::default()
        .u16(BASIC_PUBLISH.0)
        .u16(0)
        .u64(body.len() as u64)
        .u16(HAS_DELIVERY_MODE)
        .u8(PERSISTENT);
    bytes.extend(frame(HEADER, CHANNEL, &header.0));
    let part_bytes_max = FRAME_BYTES_MAX as usize - FRAME_HEAD_BYTES - 1;
    for part in body.chunks(part_bytes_max) {
        bytes.extend(frame(BODY, CHANNEL, part));
    }
    bytes
}

fn declare(
    conversation: &mut Conversation,
    queue: &Queue,
    flags: u8,
    arguments: &[(&str, &str)],
) -> anyhow::Result<()> {
    let declare = Arguments::default().u16(0).short_string(&queue.name).u8(flags).table(arguments);
    conversation.send(&declare.method(CHANNEL, QUEUE_DECLARE))?;
    await_method(conversation, QUEUE_DECLARE_OK)
}

fn await_method(conversation: &mut Conversation, wanted: Method) -> anyhow::Result<()> {
    conversation.await_frame(|frame| Ok(method_of(frame)?.is_some_and(|(is, _)| is == wanted)))?;
    Ok(())
}

/// The method of a frame with its arguments; `None` for a frame of content.
fn method_of(frame: &[u8]) -> anyhow::Result<Option<(Method, &[u8])>> {
    if frame.first() != Some(&METHOD) {
        return Ok(None);
    }
    let payload = frame.get(FRAME_HEAD_BYTES..frame.len() - 1).unwrap_or(&[]);
    let Some((&[a, b, c, d], arguments)) = payload.split_first_chunk() else {
        bail!("a method without a number");
    };
    let method = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    if matches!(method, CHANNEL_CLOSE | CONNECTION_CLOSE) {
        // A code, and a short string that says why.
        let why = String::from_utf8_lossy(arguments.get(3..).unwrap_or(&[]));
        bail!("the peer closed the connection: {why}");
    }
    Ok(Some((method, arguments)))
}

fn frame(kind: u8, channel: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend(channel.to_be_bytes());
    bytes.extend((payload.len() as u32).to_be_bytes());
    bytes.extend(payload);
    bytes.push(FRAME_END);
    bytes
}

/// The arguments of a method, one after the other.
#[derive(Debug, Default)]
struct Arguments(Vec<u8>);

impl Arguments {
    fn u8(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }

    fn u16(mut self, value: u16) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_be_bytes());
        self
    }

    /// One of at most 255 bytes.
    fn short_string(mut self, value: &str) -> Self {
        self.0.push(u8::try_from(value.len()).expect("our names are short"));
        self.0.extend(value.as_bytes());
        self
    }

    fn long_string(mut self, value: &str) -> Self {
        self.0.extend((value.len() as u32).to_be_bytes());
        self.0.extend(value.as_bytes());
        self
    }

    /// Names and strings.
    fn table(self, entries: &[(&str, &str)]) -> Self {
        let mut table = Arguments::default();
        for (name, value) in entries {
            table = table.short_string(name).u8(b'S').long_string(value);
        }
        let mut with_length = self.u32(table.0.len() as u32);
        with_length.0.extend(table.0);
        with_length
    }

    fn method(self, channel: u16, (class, method): Method) -> Vec<u8> {
        let mut payload = Arguments::default().u16(class).u16(method).0;
        payload.extend(self.0);
        frame(METHOD, channel, &payload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(number: u64, multiple: u8) -> Vec<u8> {
        Arguments::default().u64(number).u8(multiple).method(CHANNEL, BASIC_ACK)
    }

    #[test]
    fn a_publication_is_three_frames() {
        let queue = Queue { name: "q".to_owned(), durability: Durability::Synced };
        let bytes = publication(&queue, b"hello");
        let mut rest = bytes.as_slice();
        let mut kinds = Vec::new();
        while let Some(length) = frame_bytes(rest).expect("they are sound") {
            kinds.push((rest[0], rest[length - 1]));
            rest = &rest[length..];
        }
        assert_eq!(kinds, [(METHOD, FRAME_END), (HEADER, FRAME_END), (BODY, FRAME_END)]);
        assert!(bytes.windows(5).any(|window| window == b"hello"));
    }

    #[test]
    fn confirms_are_single_or_of_all_before() {
        let mut ears = Ears { confirmed: 0 };
        let mut answered = |frame: Vec<u8>| ears.hear(&frame).expect("is good").answered;
        assert_eq!(answered(ack(1, 0)), 1);
        assert_eq!(answered(ack(5, 1)), 4);
        assert_eq!(answered(ack(5, 1)), 0);
        assert_eq!(answered(ack(7, 0)), 1);
        assert_eq!(answered(ack(9, 1)), 3);
        let nack = Arguments::default().u64(10).u8(0).method(CHANNEL, BASIC_NACK);
        assert!(ears.hear(&nack).is_err());
    }

    #[test]
    fn a_closed_channel_says_why() {
        let close = Arguments::default().u16(404).short_string("NOT_FOUND").u16(50).u16(10);
        let error = Ears { confirmed: 0 }.hear(&close.method(CHANNEL, CHANNEL_CLOSE));
        assert!(error.expect_err("is closed").to_string().contains("NOT_FOUND"));
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        assert_eq!(frame_bytes(b"\x01\x00").expect("may become one"), None);
        assert!(frame_bytes(b"HTTP/1.1").is_err());
        assert!(frame_bytes(b"\x01\x00\x01\xff\xff\xff\xff").is_err());
    }
}
