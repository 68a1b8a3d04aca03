//! One record as it is encoded.
//!
//! ```text
//! type     field
//! varint   length: of all that follows, in bytes
//! i8       attributes: no bit is used
//! varlong  timestamp delta: relative to the batch's base timestamp, ms
//! varint   offset delta: relative to the batch's base offset
//! varint   key length; -1: no key
//! bytes    key
//! varint   value length; -1: no value, which on a compacted topic is a tombstone
//! bytes    value
//! varint   header count
//!          then for each header:
//! varint   key length, never negative
//! bytes    key, UTF-8 by convention
//! varint   value length; -1: no value
//! bytes    value
//! ```
//!
//! Varints and varlongs are zigzag, as in [`crate::varint`].

use bytes::{Buf, BufMut, Bytes};

use crate::{DecodeLimit, Header, RecordProblem, varint};

/// A record relative to its batch, its headers not decoded yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RawRecord {
    pub(crate) timestamp_delta_ms: i64,
    pub(crate) offset_delta: i32,
    pub(crate) key: Option<Bytes>,
    pub(crate) value: Option<Bytes>,
    header_count: i32,
    headers: Bytes,
}

impl RawRecord {
    /// Takes the first record off `bytes`. Nothing is allocated.
    pub(crate) fn decode(bytes: &mut Bytes) -> Result<RawRecord, RecordProblem> {
        let length = varint::get_i32(bytes)?;
        let mut fields = take(bytes, length)?.ok_or(RecordProblem::BadLength { length })?;
        let _attributes = fields.try_get_i8().map_err(|_| RecordProblem::Truncated)?;
        Ok(RawRecord {
            timestamp_delta_ms: varint::get_i64(&mut fields)?,
            offset_delta: varint::get_i32(&mut fields)?,
            key: get_nullable(&mut fields)?,
            value: get_nullable(&mut fields)?,
            header_count: varint::get_i32(&mut fields)?,
            headers: fields,
        })
    }

    /// Decodes the headers, which must fill the rest of the record.
    ///
    /// A header in memory takes many times the two bytes that it can have in the record, so the
    /// limit applies as well as the bytes that are there.
    pub(crate) fn headers(&self, limit: DecodeLimit) -> Result<Vec<Header>, RecordProblem> {
        let mut fields = self.headers.clone();
        let bad_count = RecordProblem::BadHeaderCount { count: self.header_count };
        let count = usize::try_from(self.header_count).map_err(|_| bad_count)?;
        let room = (fields.len() / HEADER_MIN_BYTES).min(limit.bytes() / size_of::<Header>());
        if count > room {
            return Err(bad_count);
        }
        let mut headers = Vec::with_capacity(count);
        for _ in 0..count {
            let key = get_nullable(&mut fields)?.ok_or(RecordProblem::BadLength { length: -1 })?;
            headers.push(Header { key, value: get_nullable(&mut fields)? });
        }
        if !fields.is_empty() {
            return Err(RecordProblem::Overlong { unread_bytes: fields.len() });
        }
        Ok(headers)
    }
}

/// A record about to be encoded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordParts<'a> {
    pub(crate) timestamp_delta_ms: i64,
    pub(crate) offset_delta: i32,
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) value: Option<&'a [u8]>,
    pub(crate) headers: &'a [Header],
}

impl RecordParts<'_> {
    /// Appends the record to `out`. [`RecordParts::size_bytes`] must fit in an `i32`, or the
    /// lengths cannot be read back.
    pub(crate) fn encode(&self, out: &mut impl BufMut) {
        varint::put(out, self.content_bytes() as i64);
        out.put_i8(RECORD_ATTRIBUTES);
        varint::put(out, self.timestamp_delta_ms);
        varint::put(out, i64::from(self.offset_delta));
        put_nullable(out, self.key);
        put_nullable(out, self.value);
        varint::put(out, self.headers.len() as i64);
        for header in self.headers {
            put_nullable(out, Some(&header.key));
            put_nullable(out, header.value.as_deref());
        }
    }

    /// The size of the encoded record, its length field included.
    pub(crate) fn size_bytes(&self) -> usize {
        let content_bytes = self.content_bytes();
        varint::size_bytes(content_bytes as i64) + content_bytes
    }

    fn content_bytes(&self) -> usize {
        let header_bytes = |header: &Header| {
            nullable_bytes(Some(&header.key)) + nullable_bytes(header.value.as_deref())
        };
        size_of_val(&RECORD_ATTRIBUTES)
            + varint::size_bytes(self.timestamp_delta_ms)
            + varint::size_bytes(i64::from(self.offset_delta))
            + nullable_bytes(self.key)
            + nullable_bytes(self.value)
            + varint::size_bytes(self.headers.len() as i64)
            + self.headers.iter().map(header_bytes).sum::<usize>()
    }
}

/// The least that a header takes: two lengths of one byte.
const HEADER_MIN_BYTES: usize = 2;

const RECORD_ATTRIBUTES: i8 = 0;

const NO_LENGTH: i32 = -1;

fn get_nullable(fields: &mut Bytes) -> Result<Option<Bytes>, RecordProblem> {
    let length = varint::get_i32(fields)?;
    take(fields, length)
}

fn take(bytes: &mut Bytes, length: i32) -> Result<Option<Bytes>, RecordProblem> {
    match usize::try_from(length) {
        Ok(length_bytes) if length_bytes <= bytes.len() => Ok(Some(bytes.split_to(length_bytes))),
        Err(_) if length == NO_LENGTH => Ok(None),
        _ => Err(RecordProblem::BadLength { length }),
    }
}

fn put_nullable(out: &mut impl BufMut, part: Option<&[u8]>) {
    match part {
        Some(bytes) => {
            varint::put(out, bytes.len() as i64);
            out.put_slice(bytes);
        }
        None => varint::put(out, i64::from(NO_LENGTH)),
    }
}

fn nullable_bytes(part: Option<&[u8]>) -> usize {
    match part {
        Some(bytes) => varint::size_bytes(bytes.len() as i64) + bytes.len(),
        None => varint::size_bytes(i64::from(NO_LENGTH)),
    }
}
