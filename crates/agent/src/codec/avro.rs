//! Avro's binary encoding, as far as Flume's event needs it (Avro specification 1.11, "Binary Encoding").
//!
//! | value  | bytes                                                                             |
//! |--------|-----------------------------------------------------------------------------------|
//! | long   | zigzag, seven bits a byte, the lowest first                                       |
//! | bytes  | a long, and as many bytes; a string is the same in UTF-8                          |
//! | map    | blocks: a long with the count, its strings and values; a count of 0 ends it       |
//! | array  | the same with items. A count below zero is followed by the block's size in bytes  |
//! | event  | a map of strings, and bytes                                                       |

use bytes::{BufMut, Bytes};

use super::intake::{HeaderPairs, Intake};
use super::{Malformed, Unread};
use crate::event::{Event, Headers};

/// Reads values from bytes that are all there.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn fixed(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let taken = self.rest.split_at_checked(count);
        let (taken, rest) = taken.ok_or_else(|| {
            Malformed(format!(
                "a value of {count} bytes is longer than the {} that follow",
                self.rest.len()
            ))
        })?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn long(&mut self) -> Result<i64, Malformed> {
        let mut value = 0u64;
        for shift in (0..70).step_by(7) {
            let byte = self.fixed(1)?[0];
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Ok((value >> 1) as i64 ^ -((value & 1) as i64));
            }
        }
        Err(Malformed::new("a number has more than ten bytes"))
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.long()?;
        let length =
            usize::try_from(length).map_err(|_| Malformed(format!("a length is {length}")))?;
        self.fixed(length)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes()?)
            .map_err(|error| Malformed(format!("a string is no UTF-8: {error}")))
    }

    /// Calls `item` for each item of an array or map. An item takes at least a byte, so that a count costs nothing.
    pub(crate) fn blocks<E: From<Malformed>>(
        &mut self,
        mut item: impl FnMut(&mut Reader<'a>) -> Result<(), E>,
    ) -> Result<(), E> {
        loop {
            let count = self.long()?;
            if count == 0 {
                return Ok(());
            }
            if count < 0 {
                self.long()?;
            }
            for _ in 0..count.unsigned_abs() {
                item(self)?;
            }
        }
    }

    pub(crate) fn event(&mut self) -> Result<Event, Malformed> {
        let (headers, body) = self.headers_and_body(|_, _| Ok::<(), Malformed>(()))?;
        let body = Bytes::copy_from_slice(body);
        Ok(Event { headers: Headers::from_pairs(headers), body })
    }

    /// Reads an event of many; what it takes is charged.
    pub(crate) fn event_into(&mut self, intake: &mut Intake<'_>) -> Result<(), Unread> {
        intake.begin()?;
        let (headers, body) = self.headers_and_body(|name, value| intake.header(name, value))?;
        intake.body(body.len())?;
        intake.push(headers, Bytes::copy_from_slice(body));
        Ok(())
    }

    /// What an event has; `judge` sees each header before it is kept.
    fn headers_and_body<E: From<Malformed>>(
        &mut self,
        mut judge: impl FnMut(&str, &str) -> Result<(), E>,
    ) -> Result<(HeaderPairs, &'a [u8]), E> {
        let mut headers = HeaderPairs::new();
        self.blocks(|reader| {
            let (name, value) = (reader.text()?, reader.text()?);
            judge(name, value)?;
            headers.push((Box::from(name), Box::from(value)));
            Ok::<(), E>(())
        })?;
        Ok((headers, self.bytes()?))
    }
}

pub(crate) fn put_long(out: &mut impl BufMut, value: i64) {
    let mut value = (value << 1 ^ value >> 63) as u64;
    while value >= 0x80 {
        out.put_u8(value as u8 | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}

pub(crate) fn put_bytes(out: &mut impl BufMut, bytes: &[u8]) {
    put_long(out, bytes.len() as i64);
    out.put_slice(bytes);
}

pub(crate) fn put_event(out: &mut impl BufMut, event: &Event) {
    if !event.headers.is_empty() {
        put_long(out, event.headers.len() as i64);
        for (name, value) in event.headers.iter() {
            put_bytes(out, name.as_bytes());
            put_bytes(out, value.as_bytes());
        }
    }
    put_long(out, 0);
    put_bytes(out, &event.body);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn longs_round_trip(value: i64) {
            let mut bytes = Vec::new();
            put_long(&mut bytes, value);
            prop_assert_eq!(Reader::new(&bytes).long(), Ok(value));
        }

        #[test]
        fn events_round_trip(headers: Vec<(String, String)>, body: Vec<u8>) {
            let event = Event { headers: headers.into_iter().collect(), body: body.into() };
            let mut bytes = Vec::new();
            put_event(&mut bytes, &event);
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(reader.event(), Ok(event));
            prop_assert!(reader.is_empty());
        }

        #[test]
        fn any_bytes_are_refused_or_read(bytes: Vec<u8>) {
            let _ = Reader::new(&bytes).event();
        }
    }

    #[test]
    fn a_count_beyond_the_bytes_ends_at_once() {
        let mut bytes = Vec::new();
        put_long(&mut bytes, i64::MAX);
        assert!(Reader::new(&bytes).event().is_err());
        bytes.clear();
        put_long(&mut bytes, i64::MIN);
        assert!(Reader::new(&bytes).event().is_err());
    }
}
