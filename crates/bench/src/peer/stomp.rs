//! ActiveMQ over STOMP 1.2.
//!
//! ```text
//! frame    command \n (name:value \n)* \n body \0
//! ```
//!
//! A body may hold zeros if the header `content-length` says how long it is.

use anyhow::{Context, bail, ensure};
use logway_client::BrokerAddress;

use super::{Conversation, Heard, Listener, Peer, Queue, Subscription};
use crate::generator::{Acks, Framing};
use crate::measure::Durability;

/// No peer's headers are longer.
const HEADERS_BYTES_MAX: usize = 16 << 10;

/// No body is longer.
const BODY_BYTES_MAX: usize = 64 << 20;

/// How many messages the broker sends ahead, as in the paper.
const PREFETCH: usize = 1000;

/// The last message of a queue, before it is read empty.
const LAST: &[u8] = b"last";

/// ActiveMQ Classic. Messages are persistent; whether their journal is synced is decided by the
/// beginning of the queue's name, see `side/activemq.rs`.
///
/// Of its protocols with clients in Rust it is the one that costs the broker least to publish a
/// message to a queue: AMQP 1.0 is translated twice, MQTT has no queues.
#[derive(Debug)]
pub(crate) struct Stomp;

impl Peer for Stomp {
    fn connect(&self, address: &BrokerAddress) -> anyhow::Result<Conversation> {
        let mut conversation = Conversation::open(address, Framing::Stomp)?;
        let headers = ["accept-version:1.2", "host:localhost", "heart-beat:0,0"];
        conversation.send(&frame("CONNECT", &headers, b""))?;
        await_command(&mut conversation, "CONNECTED")?;
        Ok(conversation)
    }

    fn refusal(&self, acks: Acks, durability: Durability) -> Option<&'static str> {
        (acks == Acks::None && durability == Durability::Synced)
            .then_some("syncs messages that wait for a receipt, and no others")
    }

    /// Queues make themselves.
    fn create(&self, _conversation: &mut Conversation, _queue: &Queue) -> anyhow::Result<()> {
        Ok(())
    }

    fn begin_publishing(&self, _: &mut Conversation, _: Acks) -> anyhow::Result<()> {
        Ok(())
    }

    fn publication(&self, _: &Conversation, queue: &Queue, body: &[u8], acks: Acks) -> Vec<u8> {
        publication(queue, body, acks)
    }

    fn acknowledgements(&self) -> Box<dyn Listener> {
        Box::new(Ears)
    }

    /// The broker does what comes over one connection in its order, here an empty transaction.
    fn await_arrival(&self, conversation: &mut Conversation, _: &Queue) -> anyhow::Result<()> {
        conversation.send(&frame("BEGIN", &["transaction:1"], b""))?;
        conversation.send(&frame("ABORT", &["transaction:1", "receipt:2"], b""))?;
        await_command(conversation, "RECEIPT")
    }

    fn subscribe(
        &self,
        conversation: &mut Conversation,
        queue: &Queue,
    ) -> anyhow::Result<Subscription> {
        let (destination, prefetch) =
            (destination(queue), format!("activemq.prefetchSize:{PREFETCH}"));
        let headers = [&destination, "id:0", "ack:auto", &prefetch];
        conversation.send(&frame("SUBSCRIBE", &headers, b""))?;
        Ok(Subscription { request: None, listener: Box::new(Ears) })
    }

    /// Nothing in the protocol removes a queue: it is read until it is empty, and the broker then
    /// forgets it.
    fn delete(&self, conversation: &mut Conversation, queue: &Queue) -> anyhow::Result<()> {
        conversation.send(&publication(queue, LAST, Acks::All))?;
        await_command(conversation, "RECEIPT")?;
        self.subscribe(conversation, queue)?;
        let is_last = |frame: &[u8]| {
            refuse_error(frame)?;
            Ok(is_message_with(frame, LAST))
        };
        conversation.await_frame(is_last)?;
        conversation.send(&frame("UNSUBSCRIBE", &["id:0", "receipt:2"], b""))?;
        await_command(conversation, "RECEIPT")
    }
}

/// How long the frame at the beginning of `bytes` is, with the line ends that may stand in front of
/// it.
pub(crate) fn frame_bytes(bytes: &[u8]) -> anyhow::Result<Option<usize>> {
    let Some(start) = bytes.iter().position(|&byte| byte != b'\n' && byte != b'\r') else {
        return Ok(None);
    };
    let Some(headers_bytes) = headers_bytes(&bytes[start..]) else {
        ensure!(bytes.len() - start <= HEADERS_BYTES_MAX, "not a frame of STOMP");
        return Ok(None);
    };
    let headers = &bytes[start..start + headers_bytes];
    let body_at = start + headers_bytes;
    let body_bytes = match header(headers, b"content-length:") {
        Some(length) => {
            let length = std::str::from_utf8(length).ok().and_then(|text| text.trim().parse().ok());
            length.filter(|&length: &usize| length <= BODY_BYTES_MAX).context("a frame's length")?
        }
        None => {
            let Some(length) = bytes[body_at..].iter().position(|&byte| byte == 0) else {
                return Ok(None);
            };
            length
        }
    };
    Ok(Some(body_at + body_bytes + 1))
}

/// Counts receipts and messages.
struct Ears;

impl Listener for Ears {
    fn framing(&self) -> Framing {
        Framing::Stomp
    }

    fn hear(&mut self, frame: &[u8]) -> anyhow::Result<Heard> {
        refuse_error(frame)?;
        let frame = frame.trim_ascii_start();
        Ok(Heard {
            answered: u64::from(frame.starts_with(b"RECEIPT")),
            messages: u64::from(frame.starts_with(b"MESSAGE")),
        })
    }
}

/// A message, with the wish for a receipt where it is waited for.
fn publication(queue: &Queue, body: &[u8], acks: Acks) -> Vec<u8> {
    let destination = destination(queue);
    let length = format!("content-length:{}", body.len());
    let mut headers = vec![destination.as_str(), "persistent:true", length.as_str()];
    if acks != Acks::None {
        headers.push("receipt:1");
    }
    frame("SEND", &headers, body)
}

fn destination(queue: &Queue) -> String {
    format!("destination:/queue/{}.{}", queue.durability.name(), queue.name)
}

fn frame(command: &str, headers: &[&str], body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("{command}\n{}\n\n", headers.join("\n")).into_bytes();
    bytes.extend(body);
    bytes.push(0);
    bytes
}

fn await_command(conversation: &mut Conversation, command: &str) -> anyhow::Result<()> {
    conversation.await_frame(|frame| {
        refuse_error(frame)?;
        Ok(frame.trim_ascii_start().starts_with(command.as_bytes()))
    })?;
    Ok(())
}

fn refuse_error(frame: &[u8]) -> anyhow::Result<()> {
    if frame.trim_ascii_start().starts_with(b"ERROR") {
        bail!("the peer refused: {}", String::from_utf8_lossy(frame));
    }
    Ok(())
}

/// Command and headers, with the empty line behind them.
fn headers_bytes(frame: &[u8]) -> Option<usize> {
    frame.windows(2).position(|pair| pair == b"\n\n").map(|at| at + 2)
}

fn header<'a>(headers: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    headers.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(name))
}

/// Whether a frame, which line ends may precede, brings that body.
fn is_message_with(frame: &[u8], body: &[u8]) -> bool {
    let frame = frame.trim_ascii_start();
    let brought = headers_bytes(frame).and_then(|at| frame[at..].strip_suffix(b"\0"));
    frame.starts_with(b"MESSAGE\n") && brought == Some(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_end_where_their_length_says_or_at_a_zero() {
        let with_length = frame("MESSAGE", &["content-length:3"], b"a\0b");
        let without = frame("RECEIPT", &["receipt-id:1"], b"");
        let both = [with_length.as_slice(), b"\n", &without].concat();
        assert_eq!(frame_bytes(&both).expect("is sound"), Some(with_length.len()));
        let rest = &both[with_length.len()..];
        assert_eq!(frame_bytes(rest).expect("is sound"), Some(rest.len()));
        assert_eq!(frame_bytes(b"RECEIPT\nreceipt").expect("may become one"), None);
        assert_eq!(frame_bytes(b"\n").expect("may become one"), None);
        assert!(is_message_with(&[b"\n", with_length.as_slice()].concat(), b"a\0b"));
        assert!(!is_message_with(&with_length, b"a"));
    }

    #[test]
    fn impossible_lengths_and_endless_headers_are_refused() {
        assert!(frame_bytes(b"MESSAGE\ncontent-length:-1\n\n").is_err());
        assert!(frame_bytes(b"MESSAGE\ncontent-length:99999999999\n\n").is_err());
        assert!(frame_bytes(&[b'x'; HEADERS_BYTES_MAX + 1]).is_err());
    }

    #[test]
    fn receipts_are_answers_and_errors_end_the_run() {
        let heard = |bytes: &[u8]| Ears.hear(bytes);
        let receipt = heard(b"\nRECEIPT\nreceipt-id:1\n\n\0").expect("is good");
        assert_eq!(receipt, Heard { answered: 1, messages: 0 });
        let message = heard(b"MESSAGE\ncontent-length:1\n\nx\0").expect("is good");
        assert_eq!(message, Heard { answered: 0, messages: 1 });
        assert!(heard(b"ERROR\nmessage:no\n\n\0").is_err());
    }

    #[test]
    fn a_publication_says_whether_it_wants_a_receipt() {
        let queue = Queue { name: "q".to_owned(), durability: Durability::Synced };
        let acked = publication(&queue, b"xy", Acks::All);
        let expected = "SEND\ndestination:/queue/synced.q\npersistent:true\ncontent-length:2\n\
                        receipt:1\n\nxy\0";
        assert_eq!(String::from_utf8_lossy(&acked), expected);
        let unanswered = publication(&queue, b"xy", Acks::None);
        assert!(!String::from_utf8_lossy(&unanswered).contains("receipt"));
    }
}
