//! Flume's Avro RPC (Avro specification 1.11, "Protocol Wire Format"; Flume's `flume.avdl`).
//!
//! | part of a frame | bytes                                                   |
//! |-----------------|---------------------------------------------------------|
//! | serial          | u32, given back in the response                         |
//! | count           | u32, of buffers                                         |
//! | buffers         | u32 with the length, and as many bytes, each            |
//!
//! The buffers' bytes in a row are the call:
//!
//! | part     | request                                                    | response                  |
//! |----------|------------------------------------------------------------|---------------------------|
//! | handshake| first call of a connection, and again until hashes match   | as the request            |
//! | metadata | a map of bytes                                             | the same                  |
//! | message  | its name, and its parameters                               | `00`, and a status's place; or `01` and an error |

use bytes::{BufMut, BytesMut};

use super::avro::{Reader, put_bytes, put_event, put_long};
use super::intake::Intake;
use super::{Malformed, Unread};
use crate::event::Event;

/// MD5 of [`PROTOCOL`].
pub(crate) const HASH: [u8; 16] = [
    0x86, 0xaa, 0xda, 0xe2, 0xc4, 0x54, 0x74, 0xc0, 0xfe, 0x93, 0xff, 0xd0, 0xf2, 0x35, 0x0a, 0x65,
];

/// The protocol, letter by letter as Flume's own classes have it, because of its hash. Its text begins with the licence
/// of the file that it was made from.
pub(crate) const PROTOCOL: &str = include_str!("flume_protocol.json");

/// How many buffers a frame may have. Java's client makes them of 8 KiB.
const BUFFERS_MAX: u32 = 65_536;

/// The head of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameHead {
    pub(crate) serial: u32,
    pub(crate) buffers: u32,
}

impl FrameHead {
    pub(crate) fn read(bytes: [u8; 8]) -> Result<FrameHead, Malformed> {
        let number =
            |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let head = FrameHead { serial: number(0), buffers: number(4) };
        match head.buffers {
            0..=BUFFERS_MAX => Ok(head),
            count => {
                Err(Malformed(format!("a frame announces {count} buffers, above {BUFFERS_MAX}")))
            }
        }
    }
}

/// A frame with one buffer.
pub(crate) fn frame(serial: u32, body: &[u8]) -> BytesMut {
    let mut frame = BytesMut::with_capacity(12 + body.len());
    frame.put_u32(serial);
    frame.put_u32(1);
    frame.put_u32(body.len() as u32);
    frame.put_slice(body);
    frame
}

/// What a client wants.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// Events, or with a handshake alone none.
    Append(Vec<Event>),
    /// A handshake alone.
    Ping,
}

/// What a server remembers of a connection, and how it answers.
#[derive(Debug, Default)]
pub(crate) struct ServerSession {
    is_shaken: bool,
}

/// A request, judged.
#[derive(Debug)]
pub(crate) struct Request {
    /// What comes before the answer.
    pub(crate) preamble: Vec<u8>,
    /// What is asked for; an error is answered to the client.
    pub(crate) call: Result<Call, Unread>,
}

impl ServerSession {
    /// Reads a call, whose events are taken in.
    ///
    /// # Errors
    ///
    /// Bytes from which nothing can be answered.
    pub(crate) fn read(
        &mut self,
        bytes: &[u8],
        mut intake: Intake<'_>,
    ) -> Result<Request, Malformed> {
        let mut reader = Reader::new(bytes);
        let mut preamble = Vec::new();
        if !self.is_shaken {
            let shaken = shake(&mut reader)?;
            preamble = shaken.response;
            if !shaken.is_known {
                // The client comes again with its protocol.
                return Ok(Request { preamble, call: Ok(Call::Ping) });
            }
            self.is_shaken = true;
        }
        if reader.is_empty() {
            return Ok(Request { preamble, call: Ok(Call::Ping) });
        }
        skip_metadata(&mut reader)?;
        let message = reader.text()?;
        put_long(&mut preamble, 0);
        let call = match message {
            "" => Ok(Call::Ping),
            "append" => reader.event_into(&mut intake).map(|()| Call::Append(intake.take())),
            "appendBatch" => {
                let read = reader.blocks(|reader| reader.event_into(&mut intake));
                read.map(|()| Call::Append(intake.take()))
            }
            other => {
                Err(Malformed(format!("there is no message '{}'", other.escape_debug())).into())
            }
        };
        Ok(Request { preamble, call })
    }
}

struct Shaken {
    response: Vec<u8>,
    is_known: bool,
}

/// Reads a handshake: two hashes, the client's protocol unless it hopes that we know it, and metadata.
fn shake(reader: &mut Reader<'_>) -> Result<Shaken, Malformed> {
    let client_hash = reader.fixed(16)?;
    let client_protocol = match reader.long()? {
        0 => None,
        1 => Some(reader.text()?),
        other => return Err(Malformed(format!("a handshake has branch {other} of two"))),
    };
    let server_hash = reader.fixed(16)?;
    match reader.long()? {
        0 => {}
        1 => skip_metadata(reader)?,
        other => return Err(Malformed(format!("a handshake has branch {other} of two"))),
    }
    let is_known = client_hash == HASH || client_protocol.is_some_and(has_flumes_events);
    let mut response = Vec::new();
    match (is_known, server_hash == HASH) {
        (true, true) => {
            response.extend_from_slice(&[MATCH_BOTH << 1, 0, 0, 0]);
            return Ok(Shaken { response, is_known });
        }
        (true, false) => response.push(MATCH_CLIENT << 1),
        (false, _) => response.push(MATCH_NONE << 1),
    }
    put_long(&mut response, 1);
    put_bytes(&mut response, PROTOCOL.as_bytes());
    put_long(&mut response, 1);
    response.extend_from_slice(&HASH);
    put_long(&mut response, 0);
    Ok(Shaken { response, is_known })
}

const MATCH_BOTH: u8 = 0;
const MATCH_CLIENT: u8 = 1;
const MATCH_NONE: u8 = 2;

fn skip_metadata(reader: &mut Reader<'_>) -> Result<(), Malformed> {
    reader.blocks(|reader| {
        reader.bytes()?;
        reader.bytes()?;
        Ok::<(), Malformed>(())
    })
}

/// Whether a protocol's events have Flume's two fields in Flume's order, so that their bytes are the same.
fn has_flumes_events(protocol: &str) -> bool {
    let Ok(protocol) = serde_json::from_str::<serde_json::Value>(protocol) else { return false };
    let types = protocol["types"].as_array().map(Vec::as_slice).unwrap_or_default();
    let event = types.iter().find(|one| one["name"] == "AvroFlumeEvent");
    let fields = event.and_then(|event| event["fields"].as_array());
    let is_string = |of: &serde_json::Value| *of == "string" || of["type"] == "string";
    fields.is_some_and(|fields| match &fields[..] {
        [headers, body] => {
            headers["type"]["type"] == "map"
                && is_string(&headers["type"]["values"])
                && body["type"] == "bytes"
        }
        _ => false,
    })
}

/// The answer to a call: its status, or an error in words.
pub(crate) fn response(preamble: &[u8], outcome: Result<Status, &str>) -> Vec<u8> {
    let mut bytes = preamble.to_vec();
    match outcome {
        Ok(status) => bytes.extend_from_slice(&[0, (status as u8) << 1]),
        // The errors of a message are a union that begins with a string.
        Err(text) => {
            bytes.push(1);
            put_long(&mut bytes, 0);
            put_bytes(&mut bytes, text.as_bytes());
        }
    }
    bytes
}

/// What a server says of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Ok = 0,
    Failed = 1,
}

/// The bytes of a call of `appendBatch`; the first of a connection begins with a handshake, which has the protocol
/// once the server has asked for it.
pub(crate) fn append_batch(handshake: Option<Handshake>, events: &[Event]) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(handshake) = handshake {
        bytes.extend_from_slice(&HASH);
        match handshake.with_protocol {
            false => put_long(&mut bytes, 0),
            true => {
                put_long(&mut bytes, 1);
                put_bytes(&mut bytes, PROTOCOL.as_bytes());
            }
        }
        bytes.extend_from_slice(&handshake.server_hash);
        put_long(&mut bytes, 0);
    }
    put_long(&mut bytes, 0);
    put_bytes(&mut bytes, b"appendBatch");
    if !events.is_empty() {
        put_long(&mut bytes, events.len() as i64);
        events.iter().for_each(|event| put_event(&mut bytes, event));
    }
    put_long(&mut bytes, 0);
    bytes
}

/// How a client begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Handshake {
    pub(crate) with_protocol: bool,
    pub(crate) server_hash: [u8; 16],
}

/// What a server has answered.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Status(i64),
    /// It does not know our protocol, and has this one.
    WantsProtocol([u8; 16]),
    Error(String),
}

/// Reads a response, with a handshake before it if there was one before the request.
pub(crate) fn read_response(bytes: &[u8], has_handshake: bool) -> Result<Answer, Malformed> {
    let mut reader = Reader::new(bytes);
    if has_handshake {
        let matched = reader.long()?;
        if reader.long()? == 1 {
            reader.text()?;
        }
        let mut server_hash = HASH;
        if reader.long()? == 1 {
            server_hash = reader.fixed(16)?.try_into().expect("sixteen bytes");
        }
        if reader.long()? == 1 {
            skip_metadata(&mut reader)?;
        }
        if matched == i64::from(MATCH_NONE) {
            return Ok(Answer::WantsProtocol(server_hash));
        }
    }
    skip_metadata(&mut reader)?;
    match reader.fixed(1)?[0] {
        0 => reader.long().map(Answer::Status),
        _ => {
            reader.long()?;
            reader.text().map(|text| Answer::Error(text.to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::budget::Budget;

    fn read(session: &mut ServerSession, bytes: &[u8]) -> Result<Request, Malformed> {
        let budget = Budget::new(1 << 20);
        session.read(bytes, Intake::new(&mut budget.share(), 100))
    }

    fn events() -> Vec<Event> {
        let mut event = Event::new(&b"body"[..]);
        event.headers.set("a", "b");
        vec![event, Event::new(&b""[..])]
    }

    #[test]
    fn a_first_call_is_answered_as_flume_answers_it() {
        let hand = Handshake { with_protocol: false, server_hash: HASH };
        let call = append_batch(Some(hand), &events());
        let mut session = ServerSession::default();
        let request = read(&mut session, &call).expect("is read");
        assert_eq!(request.call, Ok(Call::Append(events())));
        let answer = response(&request.preamble, Ok(Status::Ok));
        assert_eq!(answer, [0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(read_response(&answer, true), Ok(Answer::Status(0)));

        let request = read(&mut session, &append_batch(None, &events()[..1])).expect("is read");
        assert_eq!(response(&request.preamble, Ok(Status::Failed)), [0, 0, 2]);
    }

    #[test]
    fn an_unknown_client_is_asked_for_its_protocol_and_a_like_one_is_served() {
        let mut session = ServerSession::default();
        let hand = |with_protocol| Handshake { with_protocol, server_hash: [1; 16] };
        let mut call = append_batch(Some(hand(false)), &events());
        call[0] ^= 1;
        let request = read(&mut session, &call).expect("is read");
        assert_eq!(request.call, Ok(Call::Ping));
        assert_eq!(read_response(&request.preamble, true), Ok(Answer::WantsProtocol(HASH)));

        let mut call = append_batch(Some(hand(true)), &events());
        call[0] ^= 1;
        let request = read(&mut session, &call).expect("is read");
        assert_eq!(request.call, Ok(Call::Append(events())));
        let answer = response(&request.preamble, Err("full"));
        assert_eq!(read_response(&answer, true), Ok(Answer::Error("full".to_owned())));
    }

    #[test]
    fn what_is_no_call_is_refused() {
        let mut session = ServerSession::default();
        assert!(read(&mut session, b"GET / HTTP/1.1\r\n\r\n").is_err());
        assert!(FrameHead::read(*b"GET / HT").is_err());
        let mut bytes =
            append_batch(Some(Handshake { with_protocol: false, server_hash: HASH }), &[]);
        let at = bytes.len() - 2;
        bytes[at] = b'X';
        let request = read(&mut session, &bytes).expect("is a call");
        assert!(request.call.is_err_and(|e| e.to_string().contains("appendBatcX")));
    }

    #[test]
    fn events_are_charged_and_are_no_more_than_a_batch_may_have() {
        let hand = Handshake { with_protocol: false, server_hash: HASH };
        let call = append_batch(Some(hand), &vec![Event::default(); 100_000]);
        let read = |bytes, events_max| {
            let budget = Budget::new(bytes);
            let read =
                ServerSession::default().read(&call, Intake::new(&mut budget.share(), events_max));
            read.expect("is a call").call
        };
        assert_eq!(read(1 << 30, 1000), Err(Unread::TooMany(1000)));
        assert!(read(1 << 20, usize::MAX).is_err_and(|error| error.is_final()));
        assert!(read(1 << 30, 100_000).is_ok());
    }
}
