//! Flume's Thrift service, in Thrift's compact and binary protocols (Apache Thrift, `thrift-compact-protocol.md` and
//! `thrift-binary-protocol.md`; Flume's `flume.thrift`).
//!
//! A frame is a u32 with the length, and a message: head, and a struct with the parameters. `append` has an event in
//! field 1, `appendBatch` a list of them. An event has a map of strings in field 1, and bytes in field 2.

use bytes::Bytes;

use super::intake::{HeaderPairs, Intake};
use super::{Malformed, Unread};
use crate::event::Event;

/// How values are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Compact,
    Binary,
}

/// Structs in structs in fields that nobody knows.
const DEPTH_MAX: usize = 16;

const CALL: u8 = 1;
const REPLY: u8 = 2;
const EXCEPTION: u8 = 3;

/// Types by the numbers of the binary protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    Bool(Option<bool>),
    Byte,
    Double,
    I16,
    I32,
    I64,
    Binary,
    Struct,
    Map,
    List,
}

/// What a client has asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) sequence: i32,
    /// An error is answered.
    pub(crate) events: Result<Vec<Event>, Unread>,
}

struct Reader<'a> {
    rest: &'a [u8],
    protocol: Protocol,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let split = self.rest.split_at_checked(count);
        let (taken, rest) = split.ok_or_else(|| {
            Malformed(format!(
                "a value of {count} bytes is longer than the {} that follow",
                self.rest.len()
            ))
        })?;
        self.rest = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, Malformed> {
        Ok(self.take(1)?[0])
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0u64;
        for shift in (0..70).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Malformed::new("a number has more than ten bytes"))
    }

    fn zigzag(&mut self) -> Result<i64, Malformed> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    fn fixed_i32(&mut self) -> Result<i32, Malformed> {
        Ok(i32::from_be_bytes(self.take(4)?.try_into().expect("four bytes")))
    }

    fn length(&mut self) -> Result<usize, Malformed> {
        let length = match self.protocol {
            Protocol::Compact => i64::try_from(self.varint()?).unwrap_or(-1),
            Protocol::Binary => i64::from(self.fixed_i32()?),
        };
        usize::try_from(length).map_err(|_| Malformed(format!("a length is {length}")))
    }

    fn binary(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.length()?;
        self.take(length)
    }

    fn text(&mut self) -> Result<&'a str, Malformed> {
        let bytes = self.binary()?;
        std::str::from_utf8(bytes)
            .map_err(|error| Malformed(format!("a string is no UTF-8: {error}")))
    }

    /// The type by its number in the protocol.
    fn typed(&self, number: u8) -> Result<Type, Malformed> {
        Ok(match (self.protocol, number) {
            (Protocol::Compact, 1) => Type::Bool(Some(true)),
            (Protocol::Compact, 2) => Type::Bool(Some(false)),
            (Protocol::Binary, 2) => Type::Bool(None),
            (_, 3) => Type::Byte,
            (Protocol::Compact, 4) | (Protocol::Binary, 6) => Type::I16,
            (Protocol::Compact, 5) | (Protocol::Binary, 8) => Type::I32,
            (Protocol::Compact, 6) | (Protocol::Binary, 10) => Type::I64,
            (Protocol::Compact, 7) | (Protocol::Binary, 4) => Type::Double,
            (Protocol::Compact, 8) | (Protocol::Binary, 11) => Type::Binary,
            (Protocol::Compact, 9 | 10) | (Protocol::Binary, 14 | 15) => Type::List,
            (Protocol::Compact, 11) | (Protocol::Binary, 13) => Type::Map,
            (_, 12) => Type::Struct,
            (_, other) => return Err(Malformed(format!("there is no type {other}"))),
        })
    }

    /// The next field of a struct: its id and type; `None` at the end.
    fn field(&mut self, last: &mut i16) -> Result<Option<(i16, Type)>, Malformed> {
        let head = self.byte()?;
        if head == 0 {
            return Ok(None);
        }
        let (number, id) = match self.protocol {
            Protocol::Binary => {
                (head, i16::from_be_bytes(self.take(2)?.try_into().expect("two bytes")))
            }
            Protocol::Compact if head >> 4 == 0 => (head & 0x0f, self.zigzag()? as i16),
            Protocol::Compact => (head & 0x0f, last.wrapping_add(i16::from(head >> 4))),
        };
        *last = id;
        Ok(Some((id, self.typed(number)?)))
    }

    fn list_head(&mut self) -> Result<(u64, Type), Malformed> {
        let head = self.byte()?;
        match self.protocol {
            Protocol::Binary => {
                let of = self.typed(head)?;
                Ok((self.length()? as u64, of))
            }
            Protocol::Compact => {
                let of = self.typed(head & 0x0f)?;
                let count = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
                Ok((count, of))
            }
        }
    }

    fn map_head(&mut self) -> Result<Option<(u64, Type, Type)>, Malformed> {
        let (count, key, value) = match self.protocol {
            Protocol::Binary => {
                let (key, value) = (self.byte()?, self.byte()?);
                (self.length()? as u64, key, value)
            }
            Protocol::Compact => {
                let count = self.varint()?;
                let types = if count == 0 { 0 } else { self.byte()? };
                (count, types >> 4, types & 0x0f)
            }
        };
        if count == 0 {
            return Ok(None);
        }
        Ok(Some((count, self.typed(key)?, self.typed(value)?)))
    }

    /// Passes over a value. Values in collections take at least a byte each, so that a count costs nothing.
    fn skip(&mut self, of: Type, depth: usize) -> Result<(), Malformed> {
        if depth > DEPTH_MAX {
            return Err(Malformed::new("values are nested too deep"));
        }
        match of {
            Type::Bool(Some(_)) if depth == 0 => {}
            Type::Bool(_) | Type::Byte => _ = self.byte()?,
            Type::Double => _ = self.take(8)?,
            Type::I16 | Type::I32 | Type::I64 if self.protocol == Protocol::Compact => {
                _ = self.varint()?
            }
            Type::I16 => _ = self.take(2)?,
            Type::I32 => _ = self.take(4)?,
            Type::I64 => _ = self.take(8)?,
            Type::Binary => _ = self.binary()?,
            Type::Struct => {
                let mut last = 0;
                while let Some((_, of)) = self.field(&mut last)? {
                    // A field's bool is in its head.
                    if !matches!(of, Type::Bool(Some(_))) {
                        self.skip(of, depth + 1)?;
                    }
                }
            }
            Type::List => {
                let (count, of) = self.list_head()?;
                for _ in 0..count {
                    self.skip(of, depth + 1)?;
                }
            }
            Type::Map => {
                if let Some((count, key, value)) = self.map_head()? {
                    for _ in 0..count {
                        self.skip(key, depth + 1)?;
                        self.skip(value, depth + 1)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn event(&mut self, intake: &mut Intake<'_>) -> Result<(), Unread> {
        intake.begin()?;
        let (mut last, mut headers, mut body) = (0, None, None);
        while let Some((id, of)) = self.field(&mut last)? {
            match (id, of) {
                (1, Type::Map) => headers = Some(self.headers(intake)?),
                (2, Type::Binary) => {
                    let bytes = self.binary()?;
                    intake.body(bytes.len())?;
                    body = Some(Bytes::copy_from_slice(bytes));
                }
                _ => self.skip(of, 0)?,
            }
        }
        match (headers, body) {
            (Some(headers), Some(body)) => {
                intake.push(headers, body);
                Ok(())
            }
            _ => Err(Malformed::new("an event lacks its headers or its body").into()),
        }
    }

    fn headers(&mut self, intake: &mut Intake<'_>) -> Result<HeaderPairs, Unread> {
        let mut pairs = Vec::new();
        match self.map_head()? {
            None => {}
            Some((count, Type::Binary, Type::Binary)) => {
                for _ in 0..count {
                    let (name, value) = (self.text()?, self.text()?);
                    intake.header(name, value)?;
                    pairs.push((Box::from(name), Box::from(value)));
                }
            }
            Some(_) => return Err(Malformed::new("headers are no map of strings").into()),
        }
        Ok(pairs)
    }

    fn events(&mut self, name: &str, intake: &mut Intake<'_>) -> Result<Vec<Event>, Unread> {
        let (mut last, mut has_events) = (0, false);
        while let Some((id, of)) = self.field(&mut last)? {
            match (name, id, of) {
                ("append", 1, Type::Struct) => {
                    self.event(intake)?;
                    has_events = true;
                }
                ("appendBatch", 1, Type::List) => {
                    let (count, of) = self.list_head()?;
                    if count > 0 && of != Type::Struct {
                        return Err(Malformed::new("the list is none of events").into());
                    }
                    for _ in 0..count {
                        self.event(intake)?;
                    }
                    has_events = true;
                }
                ("append" | "appendBatch", ..) => self.skip(of, 0)?,
                _ => {
                    let why = format!("there is no method '{}'", name.escape_debug());
                    return Err(Malformed(why).into());
                }
            }
        }
        match has_events {
            true => Ok(intake.take()),
            false => Err(Malformed(format!("'{}' lacks its events", name.escape_debug())).into()),
        }
    }

    /// Name, kind and sequence of a message.
    fn head(&mut self) -> Result<(String, u8, i32), Malformed> {
        match self.protocol {
            Protocol::Compact => {
                let (id, kind) = (self.byte()?, self.byte()?);
                if id != 0x82 || kind & 0x1f != 1 {
                    return Err(Malformed::new("it is no message of Thrift's compact protocol"));
                }
                let sequence = self.varint()? as i32;
                Ok((self.text()?.to_owned(), kind >> 5, sequence))
            }
            Protocol::Binary => {
                let head = self.fixed_i32()? as u32;
                if head >> 16 != 0x8001 {
                    return Err(Malformed::new("it is no message of Thrift's binary protocol"));
                }
                let name = self.text()?.to_owned();
                Ok((name, head as u8, self.fixed_i32()?))
            }
        }
    }
}

/// Reads a call, whose events are taken in.
///
/// # Errors
///
/// Bytes that are no message: there is nobody to answer.
pub(crate) fn read_call(
    bytes: &[u8],
    protocol: Protocol,
    mut intake: Intake<'_>,
) -> Result<Call, Malformed> {
    let mut reader = Reader { rest: bytes, protocol };
    let (name, kind, sequence) = reader.head()?;
    if kind != CALL {
        return Err(Malformed(format!("a message is of kind {kind}, and no call")));
    }
    let events = reader.events(&name, &mut intake);
    Ok(Call { name, sequence, events })
}

/// The response to a call: a status, or an error in words; without the length before it.
pub(crate) fn response(call: &Call, protocol: Protocol, outcome: Result<i32, &str>) -> Vec<u8> {
    let mut out = Writer { bytes: Vec::new(), protocol, last: 0 };
    match outcome {
        Ok(status) => {
            out.head(&call.name, REPLY, call.sequence);
            out.i32_field(0, status);
        }
        Err(text) => {
            out.head(&call.name, EXCEPTION, call.sequence);
            out.field(1, 8, 11);
            out.binary(text.as_bytes());
            // UNKNOWN_METHOD is 1, PROTOCOL_ERROR 7.
            out.i32_field(2, if text.contains("method") { 1 } else { 7 });
        }
    }
    out.bytes.push(0);
    out.bytes
}

/// A call of `appendBatch`, without the length before it.
pub(crate) fn append_batch(sequence: i32, events: &[Event], protocol: Protocol) -> Vec<u8> {
    let mut out = Writer { bytes: Vec::new(), protocol, last: 0 };
    out.head("appendBatch", CALL, sequence);
    out.field(1, 9, 15);
    match protocol {
        Protocol::Compact if events.len() < 15 => out.bytes.push((events.len() as u8) << 4 | 12),
        Protocol::Compact => {
            out.bytes.push(0xfc);
            out.varint(events.len() as u64);
        }
        Protocol::Binary => {
            out.bytes.push(12);
            out.length(events.len());
        }
    }
    for event in events {
        out.event(event);
    }
    out.bytes.push(0);
    out.bytes
}

/// Reads a response: the status, or the server's words.
pub(crate) fn read_response(
    bytes: &[u8],
    protocol: Protocol,
    sequence: i32,
) -> Result<Result<i32, String>, Malformed> {
    let mut reader = Reader { rest: bytes, protocol };
    let (_, kind, answered) = reader.head()?;
    if answered != sequence {
        return Err(Malformed(format!("call {sequence} is answered as {answered}")));
    }
    let (mut last, mut status, mut words) = (0, None, None);
    while let Some((id, of)) = reader.field(&mut last)? {
        match (kind, id, of) {
            (REPLY, 0, Type::I32) => {
                status = Some(match protocol {
                    Protocol::Compact => reader.zigzag()? as i32,
                    Protocol::Binary => reader.fixed_i32()?,
                });
            }
            (EXCEPTION, 1, Type::Binary) => words = Some(reader.text()?.to_owned()),
            _ => reader.skip(of, 0)?,
        }
    }
    match (kind, status) {
        (REPLY, Some(status)) => Ok(Ok(status)),
        (EXCEPTION, _) => Ok(Err(words.unwrap_or_else(|| "an error without words".to_owned()))),
        _ => Err(Malformed::new("a response has no status")),
    }
}

struct Writer {
    bytes: Vec<u8>,
    protocol: Protocol,
    last: i16,
}

impl Writer {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    fn length(&mut self, length: usize) {
        match self.protocol {
            Protocol::Compact => self.varint(length as u64),
            Protocol::Binary => self.bytes.extend_from_slice(&(length as i32).to_be_bytes()),
        }
    }

    fn binary(&mut self, bytes: &[u8]) {
        self.length(bytes.len());
        self.bytes.extend_from_slice(bytes);
    }

    fn head(&mut self, name: &str, kind: u8, sequence: i32) {
        match self.protocol {
            Protocol::Compact => {
                self.bytes.extend_from_slice(&[0x82, kind << 5 | 1]);
                self.varint(u64::from(sequence as u32));
                self.binary(name.as_bytes());
            }
            Protocol::Binary => {
                self.bytes.extend_from_slice(&(0x8001_0000u32 | u32::from(kind)).to_be_bytes());
                self.binary(name.as_bytes());
                self.bytes.extend_from_slice(&sequence.to_be_bytes());
            }
        }
    }

    /// The head of a field, whose type has a number in each protocol.
    fn field(&mut self, id: i16, compact: u8, binary: u8) {
        match self.protocol {
            Protocol::Compact => {
                let delta = id - self.last;
                match u8::try_from(delta) {
                    Ok(delta @ 1..=15) => self.bytes.push(delta << 4 | compact),
                    _ => {
                        self.bytes.push(compact);
                        self.varint((id << 1 ^ id >> 15) as u16 as u64);
                    }
                }
                self.last = id;
            }
            Protocol::Binary => {
                self.bytes.push(binary);
                self.bytes.extend_from_slice(&id.to_be_bytes());
            }
        }
    }

    fn i32_field(&mut self, id: i16, value: i32) {
        self.field(id, 5, 8);
        match self.protocol {
            Protocol::Compact => self.varint(u64::from((value << 1 ^ value >> 31) as u32)),
            Protocol::Binary => self.bytes.extend_from_slice(&value.to_be_bytes()),
        }
    }

    fn event(&mut self, event: &Event) {
        let last = std::mem::take(&mut self.last);
        self.field(1, 11, 13);
        match self.protocol {
            Protocol::Binary => {
                self.bytes.extend_from_slice(&[11, 11]);
                self.length(event.headers.len());
            }
            Protocol::Compact => {
                self.varint(event.headers.len() as u64);
                if !event.headers.is_empty() {
                    self.bytes.push(0x88);
                }
            }
        }
        for (name, value) in event.headers.iter() {
            self.binary(name.as_bytes());
            self.binary(value.as_bytes());
        }
        self.field(2, 8, 11);
        self.binary(&event.body);
        self.bytes.push(0);
        self.last = last;
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::codec::budget::Budget;

    fn read(bytes: &[u8], protocol: Protocol) -> Result<Call, Malformed> {
        let budget = Budget::new(1 << 20);
        read_call(bytes, protocol, Intake::new(&mut budget.share(), 100))
    }

    const BOTH: [Protocol; 2] = [Protocol::Compact, Protocol::Binary];

    proptest! {
        #[test]
        fn calls_round_trip(
            all in vec((vec((".{0,9}", ".{0,9}"), 0..4), vec(any::<u8>(), 0..20)), 0..20),
            sequence in any::<i32>(),
        ) {
            let event = |(headers, body): (Vec<(String, String)>, Vec<u8>)| {
                Event { headers: headers.into_iter().collect(), body: body.into() }
            };
            let events: Vec<Event> = all.into_iter().map(event).collect();
            for protocol in BOTH {
                let bytes = append_batch(sequence, &events, protocol);
                let call = read(&bytes, protocol).expect("is a call");
                prop_assert_eq!(call.sequence, sequence);
                prop_assert_eq!(call.events.as_ref(), Ok(&events));
                let answer = response(&call, protocol, Ok(1));
                prop_assert_eq!(read_response(&answer, protocol, sequence), Ok(Ok(1)));
                let answer = response(&call, protocol, Err("full"));
                prop_assert_eq!(read_response(&answer, protocol, sequence), Ok(Err("full".to_owned())));
            }
        }

        #[test]
        fn any_bytes_are_refused_or_read(mut bytes: Vec<u8>) {
            for protocol in BOTH {
                let _ = read(&bytes, protocol);
                let mut head = append_batch(1, &[], protocol);
                head.truncate(head.len() - 3);
                head.append(&mut bytes);
                let _ = read(&head, protocol);
                bytes = head;
            }
        }
    }

    #[test]
    fn what_is_nested_without_end_is_refused() {
        let mut bytes = append_batch(1, &[], Protocol::Compact);
        bytes.truncate(bytes.len() - 3);
        // A struct in field 1 of a struct, and so on.
        bytes.extend(std::iter::repeat_n(0x1c, 100_000));
        let call = read(&bytes, Protocol::Compact).expect("is a call");
        assert!(call.events.is_err_and(|error| error.to_string().contains("nested")));
    }

    #[test]
    fn events_are_charged_and_are_no_more_than_a_batch_may_have() {
        let mut headed = Event::default();
        (0..1000).for_each(|number| headed.headers.set(number.to_string(), ""));
        for protocol in BOTH {
            let read = |events: &[Event], bytes, events_max| {
                let (call, budget) = (append_batch(1, events, protocol), Budget::new(bytes));
                let call = read_call(&call, protocol, Intake::new(&mut budget.share(), events_max));
                call.expect("is a call").events
            };
            let many = vec![Event::default(); 100_000];
            assert_eq!(read(&many, 1 << 30, 1000), Err(Unread::TooMany(1000)));
            assert!(read(&many, 1 << 20, usize::MAX).is_err_and(|error| error.is_final()));
            assert_eq!(read(&many, 1 << 30, 100_000).map(|events| events.len()), Ok(100_000));
            let one = std::slice::from_ref(&headed);
            assert!(read(one, 100_000, 1).is_err() && read(one, 200_000, 1).is_ok());
        }
    }
}
