//! NATS with JetStream, over its own protocol of lines.
//!
//! ```text
//! PUB subject reply bytes \r\n payload \r\n          what we send
//! MSG subject number [reply] bytes \r\n payload \r\n      a message
//! HMSG subject number [reply] head bytes \r\n …          the same with headers; bytes counts both
//! +OK, -ERR 'text', PING, PONG, INFO {…}                lines
//! ```

use anyhow::{Context, bail, ensure};
use logway_client::BrokerAddress;
use serde_json::{Value, json};

use super::{Conversation, Heard, Listener, Peer, Queue, Subscription};
use crate::generator::{Acks, Framing};
use crate::measure::Durability;

/// Its own limit for a line is 4 KiB, but for INFO.
const LINE_BYTES_MAX: usize = 32 << 10;

/// No payload is longer.
const PAYLOAD_BYTES_MAX: usize = 64 << 20;

/// The consumer's name in its stream.
const CONSUMER: &str = "bench";

/// How many messages a consumer asks for at once, as in the paper. One request is on its way: the
/// server says of a second, too, that it is over, and not which of the two it means.
const PULL: u64 = 1000;

/// JetStream. A queue is a stream with one subject, both of its name; whether streams are synced
/// is a setting of the server, see `side/nats.rs`.
#[derive(Debug)]
pub(crate) struct Nats;

impl Peer for Nats {
    fn connect(&self, address: &BrokerAddress) -> anyhow::Result<Conversation> {
        let mut conversation = Conversation::open(address, Framing::Nats)?;
        let options = json!({
            "verbose": false, "pedantic": false, "headers": true, "no_responders": true,
            "name": "logway-bench", "lang": "rust", "version": env!("CARGO_PKG_VERSION"),
        });
        let inbox = inbox(&conversation);
        conversation.send(format!("CONNECT {options}\r\nSUB {inbox} 1\r\nPING\r\n").as_bytes())?;
        await_line(&mut conversation, b"PONG")?;
        Ok(conversation)
    }

    fn refusal(&self, acks: Acks, _durability: Durability) -> Option<&'static str> {
        (acks == Acks::None).then_some(
            "drops what is published without acknowledgements when it falls behind: \
             `produce` has its acknowledged publications",
        )
    }

    fn create(&self, conversation: &mut Conversation, queue: &Queue) -> anyhow::Result<()> {
        let name = &queue.name;
        let stream = json!({
            "name": name, "subjects": [name], "storage": "file", "retention": "limits",
            "discard": "old", "num_replicas": 1, "max_msgs": -1, "max_bytes": -1,
        });
        ask(conversation, &format!("STREAM.CREATE.{name}"), &stream)
    }

    fn begin_publishing(&self, _: &mut Conversation, _: Acks) -> anyhow::Result<()> {
        Ok(())
    }

    fn publication(&self, to: &Conversation, queue: &Queue, body: &[u8], _: Acks) -> Vec<u8> {
        publish(to, &queue.name, body)
    }

    fn acknowledgements(&self) -> Box<dyn Listener> {
        Box::new(Acknowledgements)
    }

    /// The server has read all; what it stored it has acknowledged.
    fn await_arrival(&self, conversation: &mut Conversation, _: &Queue) -> anyhow::Result<()> {
        conversation.send(b"PING\r\n")?;
        await_line(conversation, b"PONG")
    }

    fn subscribe(
        &self,
        conversation: &mut Conversation,
        queue: &Queue,
    ) -> anyhow::Result<Subscription> {
        let stream = &queue.name;
        let consumer = json!({
            "stream_name": stream,
            "config": {
                "name": CONSUMER, "ack_policy": "none", "deliver_policy": "all",
                "replay_policy": "instant", "mem_storage": true,
                "inactive_threshold": 60_000_000_000_u64,
            },
        });
        ask(conversation, &format!("CONSUMER.CREATE.{stream}.{CONSUMER}"), &consumer)?;
        // Without waiting, so that the last request is answered too.
        let pull = json!({ "batch": PULL, "no_wait": true }).to_string();
        let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{CONSUMER}");
        let request = publish(conversation, &subject, pull.as_bytes());
        let listener = Box::new(Messages { missing: PULL });
        Ok(Subscription { request: Some(request), listener })
    }

    fn delete(&self, conversation: &mut Conversation, queue: &Queue) -> anyhow::Result<()> {
        ask(conversation, &format!("STREAM.DELETE.{}", queue.name), &Value::Null)
    }
}

/// How long the frame at the beginning of `bytes` is.
pub(crate) fn frame_bytes(bytes: &[u8]) -> anyhow::Result<Option<usize>> {
    let Some(line_bytes) = bytes.windows(2).position(|pair| pair == b"\r\n") else {
        ensure!(bytes.len() <= LINE_BYTES_MAX, "not a line of NATS");
        return Ok(None);
    };
    let line = &bytes[..line_bytes];
    if !line.starts_with(b"MSG ") && !line.starts_with(b"HMSG ") {
        return Ok(Some(line_bytes + 2));
    }
    let length = line.rsplit(|&byte| byte == b' ').next();
    let length = length.and_then(|length| std::str::from_utf8(length).ok()?.parse().ok());
    let length = length.filter(|&length: &usize| length <= PAYLOAD_BYTES_MAX);
    Ok(Some(line_bytes + 2 + length.context("a message's length")? + 2))
}

/// Counts the acknowledgements of publications.
struct Acknowledgements;

impl Listener for Acknowledgements {
    fn framing(&self) -> Framing {
        Framing::Nats
    }

    fn hear(&mut self, frame: &[u8]) -> anyhow::Result<Heard> {
        if !is_message(frame)? {
            return Ok(Heard::default());
        }
        let is_good = payload(frame).starts_with(b"{\"stream\":");
        ensure!(is_good, "the peer refused a message: {}", String::from_utf8_lossy(frame));
        Ok(Heard { answered: 1, messages: 0 })
    }
}

/// Counts messages, and the requests for them that are done.
struct Messages {
    /// Of those that the oldest request asked for.
    missing: u64,
}

impl Listener for Messages {
    fn framing(&self) -> Framing {
        Framing::Nats
    }

    fn hear(&mut self, frame: &[u8]) -> anyhow::Result<Heard> {
        if !is_message(frame)? {
            return Ok(Heard::default());
        }
        // Our messages have no headers: this says that there are no more.
        if frame.starts_with(b"HMSG ") {
            let is_end = payload(frame).starts_with(b"NATS/1.0 404")
                || payload(frame).starts_with(b"NATS/1.0 408");
            ensure!(is_end, "the peer refused: {}", String::from_utf8_lossy(frame));
            self.missing = PULL;
            return Ok(Heard { answered: 1, messages: 0 });
        }
        self.missing -= 1;
        if self.missing == 0 {
            self.missing = PULL;
            return Ok(Heard { answered: 1, messages: 1 });
        }
        Ok(Heard { answered: 0, messages: 1 })
    }
}

/// Where answers and messages come to, on this connection and no other.
fn inbox(conversation: &Conversation) -> String {
    format!("_INBOX.{}", conversation.port())
}

/// A publication whose answer comes to the connection's inbox.
fn publish(to: &Conversation, subject: &str, payload: &[u8]) -> Vec<u8> {
    let line = format!("PUB {subject} {} {}\r\n", inbox(to), payload.len());
    let mut bytes = line.into_bytes();
    bytes.extend(payload);
    bytes.extend(b"\r\n");
    bytes
}

/// Asks JetStream for something.
fn ask(conversation: &mut Conversation, what: &str, body: &Value) -> anyhow::Result<()> {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let question = publish(conversation, &format!("$JS.API.{what}"), body.as_bytes());
    conversation.send(&question)?;
    let answer = conversation.await_frame(is_message)?;
    let answer: Value = serde_json::from_slice(payload(&answer).trim_ascii_end())
        .with_context(|| format!("{what}: {}", String::from_utf8_lossy(&answer)))?;
    match answer.get("error") {
        Some(error) => bail!("the peer refused {what}: {error}"),
        None => Ok(()),
    }
}

fn await_line(conversation: &mut Conversation, line: &[u8]) -> anyhow::Result<()> {
    conversation.await_frame(|frame| {
        refuse_error(frame)?;
        Ok(frame.starts_with(line))
    })?;
    Ok(())
}

/// Whether a frame is a message and not a line of talk; an error ends the run.
fn is_message(frame: &[u8]) -> anyhow::Result<bool> {
    refuse_error(frame)?;
    Ok(frame.starts_with(b"MSG ") || frame.starts_with(b"HMSG "))
}

fn refuse_error(frame: &[u8]) -> anyhow::Result<()> {
    ensure!(!frame.starts_with(b"-ERR"), "the peer refused: {}", String::from_utf8_lossy(frame));
    Ok(())
}

/// What follows a message's line.
fn payload(frame: &[u8]) -> &[u8] {
    let line_end = frame.windows(2).position(|pair| pair == b"\r\n");
    line_end.map_or(&[], |at| &frame[at + 2..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_as_long_as_they_say() {
        let cases: [(&[u8], Option<usize>); 6] = [
            (b"PONG\r\nMSG", Some(6)),
            (b"MSG a 1 3\r\nxyz\r\n+OK", Some(16)),
            (b"MSG a 1 reply 3\r\nx", Some(22)),
            (b"HMSG a 1 12 14\r\n", Some(32)),
            (b"INFO {\"a\":1", None),
            (b"", None),
        ];
        for (bytes, expected) in cases {
            assert_eq!(frame_bytes(bytes).expect("is sound"), expected);
        }
        assert!(frame_bytes(b"MSG a 1 many\r\n").is_err());
        assert!(frame_bytes(b"MSG a 1 99999999999\r\n").is_err());
        assert!(frame_bytes(&[b'x'; LINE_BYTES_MAX + 1]).is_err());
    }

    #[test]
    fn acknowledgements_are_counted_and_refusals_end_the_run() {
        let heard = |frame: &[u8]| Acknowledgements.hear(frame);
        let good = heard(b"MSG _INBOX 1 26\r\n{\"stream\":\"S\", \"seq\":1}\r\n").expect("is good");
        assert_eq!(good.answered, 1);
        assert_eq!(heard(b"PING\r\n").expect("is good"), Heard::default());
        assert!(heard(b"MSG _INBOX 1 12\r\n{\"error\":{}}\r\n").is_err());
        assert!(heard(b"HMSG _INBOX 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n").is_err());
        assert!(heard(b"-ERR 'Maximum Payload'\r\n").is_err());
    }

    #[test]
    fn a_request_is_answered_by_all_its_messages_or_by_the_word_that_there_are_no_more() {
        let mut messages = Messages { missing: PULL };
        let mut total = Heard::default();
        for _ in 0..PULL + 1 {
            let heard = messages.hear(b"MSG a 1 1\r\nx\r\n").expect("is good");
            total.answered += heard.answered;
            total.messages += heard.messages;
        }
        assert_eq!(total, Heard { answered: 1, messages: PULL + 1 });
        let end = messages.hear(b"HMSG a 1 16 16\r\nNATS/1.0 408 Request Timeout\r\n\r\n\r\n");
        assert_eq!(end.expect("is good").answered, 1);
    }
}
