//! Hadoop's SequenceFile, version 6 (`org.apache.hadoop.io.SequenceFile`), with the time of an event as key.
//!
//! | part | bytes |
//! |---|---|
//! | head | `SEQ`, 6, class of keys, class of values, is packed, is packed in blocks, class of the codec if it is packed, 0 as `i32` for no metadata, 16 bytes that are the file's mark |
//! | record | length of key and value as `i32`, length of the key as `i32`, key, value |
//! | mark | -1 as `i32`, the file's mark |
//! | block | mark, how many, and each of lengths of keys, keys, lengths of values, values: packed, with a length before it |
//!
//! Classes are texts with a length before them. Lengths that are not said to be `i32` are variable (`WritableUtils`).

use std::io;

use crate::codec::packing::Packing;
use crate::event::Event;
use crate::sink::template::time_ms;

/// Between marks are about so many bytes, as Hadoop has it (`SYNC_INTERVAL`).
const MARK_EVERY_BYTES: usize = 100 << 10;

/// What values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value {
    /// `BytesWritable`.
    Bytes,
    /// `Text`.
    Text,
}

/// One file.
#[derive(Debug)]
pub(super) struct SequenceFile {
    pub(super) value: Value,
    /// If events are packed, as blocks.
    pub(super) packing: Option<Packing>,
    pub(super) mark: [u8; 16],
    /// Since the last mark.
    pub(super) unmarked_bytes: usize,
}

impl SequenceFile {
    pub(super) fn head(&self) -> Vec<u8> {
        let mut head = b"SEQ\x06".to_vec();
        put_text(&mut head, b"org.apache.hadoop.io.LongWritable");
        let class: &[u8] = match self.value {
            Value::Bytes => b"org.apache.hadoop.io.BytesWritable",
            Value::Text => b"org.apache.hadoop.io.Text",
        };
        put_text(&mut head, class);
        let is_packed = u8::from(self.packing.is_some());
        head.extend_from_slice(&[is_packed, is_packed]);
        if let Some(packing) = self.packing {
            put_text(&mut head, packing.hadoop_class().as_bytes());
        }
        head.extend_from_slice(&0i32.to_be_bytes());
        head.extend_from_slice(&self.mark);
        head
    }

    pub(super) fn events(&mut self, events: &[Event]) -> io::Result<Vec<u8>> {
        match self.packing {
            Some(packing) => self.block(events, packing),
            None => Ok(self.records(events)),
        }
    }

    fn records(&mut self, events: &[Event]) -> Vec<u8> {
        let mut out = Vec::new();
        for event in events {
            let begin = out.len();
            if self.unmarked_bytes >= MARK_EVERY_BYTES {
                self.put_mark(&mut out);
                self.unmarked_bytes = 0;
            }
            let value = self.value(event);
            let key = time_ms(event).to_be_bytes();
            out.extend_from_slice(&((key.len() + value.len()) as i32).to_be_bytes());
            out.extend_from_slice(&(key.len() as i32).to_be_bytes());
            out.extend_from_slice(&key);
            out.extend_from_slice(&value);
            self.unmarked_bytes += out.len() - begin;
        }
        out
    }

    fn block(&self, events: &[Event], packing: Packing) -> io::Result<Vec<u8>> {
        let (mut key_lengths, mut keys) = (Vec::new(), Vec::new());
        let (mut value_lengths, mut values) = (Vec::new(), Vec::new());
        for event in events {
            let value = self.value(event);
            let key = time_ms(event).to_be_bytes();
            put_length(&mut key_lengths, key.len());
            keys.extend_from_slice(&key);
            put_length(&mut value_lengths, value.len());
            values.extend_from_slice(&value);
        }
        let mut out = Vec::new();
        self.put_mark(&mut out);
        put_length(&mut out, events.len());
        for part in [key_lengths, keys, value_lengths, values] {
            put_text(&mut out, &packing.pack(&part)?);
        }
        Ok(out)
    }

    fn value(&self, event: &Event) -> Vec<u8> {
        let mut value = Vec::with_capacity(event.body.len() + 9);
        match self.value {
            Value::Bytes => {
                value.extend_from_slice(&(event.body.len() as i32).to_be_bytes());
                value.extend_from_slice(&event.body);
            }
            Value::Text => put_text(&mut value, &event.body),
        }
        value
    }

    fn put_mark(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(-1i32).to_be_bytes());
        out.extend_from_slice(&self.mark);
    }
}

fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    put_length(out, text.len());
    out.extend_from_slice(text);
}

/// Up to 127 as it is; else how many bytes follow, as -112 less their count, and those.
fn put_length(out: &mut Vec<u8>, length: usize) {
    if length <= 127 {
        return out.push(length as u8);
    }
    let bytes = (length as u64).to_be_bytes();
    let bytes = &bytes[(length as u64).leading_zeros() as usize / 8..];
    out.push((-112 - bytes.len() as i8) as u8);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_as_hadoop_writes_them() {
        for (length, expected) in [
            (0, &[0][..]),
            (127, &[127]),
            (128, &[0x8f, 0x80]),
            (255, &[0x8f, 0xff]),
            (256, &[0x8e, 1, 0]),
            (1 << 20, &[0x8d, 0x10, 0, 0]),
        ] {
            let mut out = Vec::new();
            put_length(&mut out, length);
            assert_eq!(out, expected, "{length}");
        }
    }
}
