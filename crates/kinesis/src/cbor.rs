//! CBOR 1.1: requests into values by their shape, values into responses.
//!
//! AWS's clients send maps and lists of indefinite length, and points in time as tag 1 with whole milliseconds. Responses
//! are written so, too.

use minicbor::data::{IanaTag, Type};
use minicbor::decode::Error;
use minicbor::{Decoder, Encoder};

use crate::json::entries_max;
use crate::shape::{Kind, Shape};
use crate::type_error::{Found, TypeErrors, blob_of_text, number_of_kind};
use crate::value::{List, Structure, Value};

/// Values that nobody wants may be nested so deep, as in JSON.
const DEPTH_MAX: usize = 128;

/// Reads a request. `None` where it is no map in CBOR; what is wrong with its types is noted.
pub(crate) fn decode(body: &[u8], shape: &'static Shape, errors: &TypeErrors) -> Option<Structure> {
    let mut reader = Reader { decoder: Decoder::new(body), errors };
    let value = reader.value(shape).ok()?;
    if reader.decoder.position() != body.len() {
        return None;
    }
    match value {
        Some(Value::Structure(structure)) => Some(structure),
        _ => None,
    }
}

struct Reader<'b, 'e> {
    decoder: Decoder<'b>,
    errors: &'e TypeErrors,
}

impl Reader<'_, '_> {
    /// A value of a shape; `None` for null, and for what is of another type. It calls itself as deep as shapes are.
    fn value(&mut self, shape: &'static Shape) -> Result<Option<Value>, Error> {
        let kind = &shape.kind;
        match self.decoder.datatype()? {
            Type::Null | Type::Undefined => {
                self.skip(DEPTH_MAX)?;
                Ok(None)
            }
            Type::Bool => {
                let value = self.decoder.bool()?;
                Ok(match kind {
                    Kind::Boolean => Some(Value::Boolean(value)),
                    _ => self.refuse(kind, Found::Boolean),
                })
            }
            Type::U8
            | Type::U16
            | Type::U32
            | Type::U64
            | Type::I8
            | Type::I16
            | Type::I32
            | Type::I64
            | Type::Int => {
                let number = i128::from(self.decoder.int()?);
                let number =
                    i64::try_from(number).unwrap_or(if number < 0 { i64::MIN } else { i64::MAX });
                Ok(self.number(kind, number, number.saturating_mul(1_000), number as f64))
            }
            Type::F32 | Type::F64 => {
                let number = self.decoder.f64()?;
                let ms = (number * 1_000.0).round() as i64;
                Ok(self.number(kind, number.floor() as i64, ms, number))
            }
            Type::Tag => {
                let tag = self.decoder.tag()?;
                self.tagged(tag == IanaTag::Timestamp.tag(), shape)
            }
            Type::String | Type::StringIndef => {
                let text = self.text()?;
                Ok(match kind {
                    Kind::Text | Kind::Word(_) => Some(Value::Text(text)),
                    Kind::Blob => blob_of_text(&text, self.errors).map(Value::Blob),
                    _ => self.refuse(kind, Found::Text(&text)),
                })
            }
            Type::Bytes | Type::BytesIndef => {
                let mut bytes = Vec::new();
                for piece in self.decoder.bytes_iter()? {
                    bytes.extend_from_slice(piece?);
                }
                Ok(match kind {
                    Kind::Blob => Some(Value::Blob(bytes.into())),
                    _ => self.refuse(kind, Found::Bytes),
                })
            }
            Type::Array | Type::ArrayIndef => match kind {
                Kind::List(of) => self.list(shape, of).map(Some),
                _ => {
                    self.skip(DEPTH_MAX)?;
                    Ok(self.refuse(kind, Found::List))
                }
            },
            Type::Map | Type::MapIndef => self.map(shape),
            _ => Err(Error::message("no value that AWS has")),
        }
    }

    /// Passes over a value. The decoder's own way remembers each list of a known length within one of an unknown length,
    /// for which a byte each is enough.
    fn skip(&mut self, depth_left: usize) -> Result<(), Error> {
        let depth_left =
            depth_left.checked_sub(1).ok_or_else(|| Error::message("it is nested too deep"))?;
        let (length, values_each) = match self.decoder.datatype()? {
            Type::Array | Type::ArrayIndef => (self.decoder.array()?, 1),
            Type::Map | Type::MapIndef => (self.decoder.map()?, 2),
            Type::Tag => {
                self.decoder.tag()?;
                return self.skip(depth_left);
            }
            Type::Break => return Err(Error::message("there is nothing to end")),
            _ => return self.decoder.skip(),
        };
        let mut taken = 0;
        while self.has_more(length, taken)? {
            taken += 1;
            for _ in 0..values_each {
                self.skip(depth_left)?;
            }
        }
        Ok(())
    }

    fn refuse(&self, kind: &Kind, found: Found<'_>) -> Option<Value> {
        self.errors.note_mismatch(kind, found);
        None
    }

    fn number(&self, kind: &Kind, number: i64, as_seconds_ms: i64, exact: f64) -> Option<Value> {
        match kind {
            Kind::Integer | Kind::Long => Some(Value::Number(number_of_kind(kind, number))),
            Kind::Timestamp => Some(Value::Timestamp(as_seconds_ms)),
            Kind::Double => Some(Value::Double(exact)),
            _ => self.refuse(kind, Found::Number),
        }
    }

    /// AWS's clients mean milliseconds where the tag by itself means seconds. Those that are not whole are seconds.
    fn tagged(&mut self, is_time: bool, shape: &'static Shape) -> Result<Option<Value>, Error> {
        // A tag of a tag is nothing that clients send; that could go on for ever.
        if self.decoder.datatype()? == Type::Tag {
            return Err(Error::message("a tag of a tag"));
        }
        let is_whole = !matches!(self.decoder.datatype()?, Type::F32 | Type::F64);
        Ok(match self.value(shape)? {
            Some(Value::Timestamp(ms)) if is_time && is_whole => Some(Value::Timestamp(ms / 1_000)),
            value => value,
        })
    }

    fn text(&mut self) -> Result<String, Error> {
        let mut text = String::new();
        for piece in self.decoder.str_iter()? {
            text.push_str(piece?);
        }
        Ok(text)
    }

    /// Whether there is another entry of a list or map. A break is taken away.
    fn has_more(&mut self, length: Option<u64>, taken: u64) -> Result<bool, Error> {
        match length {
            Some(length) => Ok(taken < length),
            None if self.decoder.datatype()? == Type::Break => {
                self.decoder.set_position(self.decoder.position() + 1);
                Ok(false)
            }
            None => Ok(true),
        }
    }

    fn list(&mut self, shape: &'static Shape, of: &'static Shape) -> Result<Value, Error> {
        let max = entries_max(shape);
        let length = self.decoder.array()?;
        let mut list = List::default();
        while self.has_more(length, list.count as u64)? {
            list.count += 1;
            match list.entries.len() < max {
                true => match self.value(of)? {
                    Some(entry) => list.entries.push(entry),
                    None => self.errors.note_absent_entry(),
                },
                false => self.skip(DEPTH_MAX)?,
            }
        }
        Ok(Value::List(list))
    }

    fn map(&mut self, shape: &'static Shape) -> Result<Option<Value>, Error> {
        let kind = &shape.kind;
        let max = entries_max(shape);
        let (mut structure, mut entries) = (Structure::new(), Vec::new());
        let (members, of) = match *kind {
            Kind::Structure(members) => (members, None),
            Kind::Map(_, of) => (&[][..], Some(of)),
            _ => {
                self.skip(DEPTH_MAX)?;
                return Ok(self.refuse(kind, Found::Map));
            }
        };
        let length = self.decoder.map()?;
        let mut taken = 0;
        while self.has_more(length, taken)? {
            taken += 1;
            let key = self.text()?;
            if let Some(of) = of {
                match self.value(of)? {
                    Some(value) if entries.len() < max => entries.push((key, value)),
                    _ => {}
                }
                continue;
            }
            let Some(member) = members.iter().find(|member| member.name == key) else {
                self.skip(DEPTH_MAX)?;
                continue;
            };
            let value = self.value(member.shape)?;
            structure.0.retain(|(name, _)| *name != member.name);
            structure.0.extend(value.map(|value| (member.name, value)));
        }
        Ok(Some(match of {
            Some(_) => Value::Map(entries),
            None => Value::Structure(structure),
        }))
    }
}

/// Writes a response.
pub(crate) fn encode(structure: &Structure) -> Vec<u8> {
    let mut encoder = Encoder::new(Vec::with_capacity(structure.room_bytes(&|blob| blob)));
    push_structure(&mut encoder, structure).expect("memory takes everything");
    encoder.into_writer()
}

type Encoding = Result<(), minicbor::encode::Error<std::convert::Infallible>>;

fn push_structure(encoder: &mut Encoder<Vec<u8>>, structure: &Structure) -> Encoding {
    encoder.begin_map()?;
    for (name, value) in &structure.0 {
        encoder.str(name)?;
        push_value(encoder, value)?;
    }
    encoder.end()?;
    Ok(())
}

fn push_value(encoder: &mut Encoder<Vec<u8>>, value: &Value) -> Encoding {
    match value {
        Value::Boolean(value) => _ = encoder.bool(*value)?,
        Value::Number(number) => _ = encoder.i64(*number)?,
        Value::Double(number) => _ = encoder.f64(*number)?,
        Value::Text(text) => _ = encoder.str(text)?,
        Value::Blob(blob) => _ = encoder.bytes(blob)?,
        Value::Timestamp(ms) => _ = encoder.tag(IanaTag::Timestamp)?.i64(*ms)?,
        Value::List(list) => {
            encoder.begin_array()?;
            for entry in &list.entries {
                push_value(encoder, entry)?;
            }
            encoder.end()?;
        }
        Value::Map(entries) => {
            encoder.begin_map()?;
            for (key, value) in entries {
                encoder.str(key)?;
                push_value(encoder, value)?;
            }
            encoder.end()?;
        }
        Value::Structure(structure) => push_structure(encoder, structure)?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::json;
    use crate::shapes::OPERATIONS;

    fn input(operation: &str) -> &'static Shape {
        OPERATIONS.iter().find(|it| it.text == operation).expect("is served").input
    }

    fn decoded(operation: &str, body: &[u8]) -> Result<Structure, Option<String>> {
        let errors = TypeErrors::default();
        let decoded = decode(body, input(operation), &errors).ok_or(None)?;
        match errors.into_first() {
            Some(error) => Err(Some(error)),
            None => Ok(decoded),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let entry = |data: &'static [u8]| {
            Structure::new().with("Data", Bytes::from_static(data)).with("PartitionKey", "k")
        };
        let records = vec![Value::from(entry(b"")), entry(b"\x00\xff").into()];
        let structure = Structure::new().with("Records", records).with("StreamName", "s");
        assert_eq!(decoded("PutRecords", &encode(&structure)), Ok(structure.clone()));
        let errors = TypeErrors::default();
        let in_json = json::decode(&json::encode(&structure), input("PutRecords"), &errors);
        assert_eq!(in_json, Some(structure));
        let iterator = Structure::new()
            .with("Timestamp", Value::Timestamp(1_700_000_000_123))
            .with("DryRun", true);
        assert_eq!(decoded("GetShardIterator", &encode(&iterator)), Ok(iterator.clone()));
        let errors = TypeErrors::default();
        let in_json = json::decode(&json::encode(&iterator), input("GetShardIterator"), &errors);
        assert_eq!(in_json, Some(iterator));
    }

    #[test]
    fn there_is_room_for_a_response_from_the_start() {
        let record = |number: i64| {
            Structure::new()
                .with("SequenceNumber", "4".repeat(56))
                .with("ApproximateArrivalTimestamp", Value::Timestamp(1_700_000_000_123 + number))
                .with("Data", Bytes::from(vec![7; 1_024]))
                .with("PartitionKey", number.to_string())
        };
        let records: Vec<Value> = (0..500).map(|number| record(number).into()).collect();
        let response = Structure::new().with("Records", records).with("MillisBehindLatest", 5_i64);
        let base64_bytes = |blob: usize| blob.div_ceil(3) * 4;
        for (bytes, room_bytes) in [
            (encode(&response), response.room_bytes(&|blob| blob)),
            (json::encode(&response), response.room_bytes(&base64_bytes)),
        ] {
            assert_eq!(bytes.capacity(), room_bytes, "it was not moved");
            assert!(bytes.len() > room_bytes - room_bytes / 4, "little is left over");
        }
    }

    #[test]
    fn lengths_may_be_indefinite_or_said() {
        // {"Limit": 5, "Unknown": [1, {"a": h'00'}], "NextToken": "ab" in two pieces}
        let body = b"\xbf\x65Limit\x05\x67Unknown\x9f\x01\xa1\x61a\x41\x00\xff\x69NextToken\x7f\x61a\x61b\xff\xff";
        let expected = Structure::new().with("Limit", 5_i64).with("NextToken", "ab");
        assert_eq!(decoded("ListStreams", body), Ok(expected));
        assert_eq!(
            decoded("ListStreams", b"\xa1\x65Limit\x05"),
            Ok(Structure::new().with("Limit", 5_i64))
        );
        assert_eq!(decoded("ListStreams", b"\xa1\x65Limit\xf6"), Ok(Structure::new()));
    }

    #[test]
    fn what_nobody_wants_may_be_nested_but_not_for_ever() {
        for (depth, is_taken) in [(DEPTH_MAX - 1, true), (DEPTH_MAX, false)] {
            for open in [b"\x81", b"\x9f"] {
                let ends: &[u8] = if *open == [0x9f] { b"\xff" } else { b"" };
                let body =
                    [b"\xa1\x61x", &open.repeat(depth)[..], b"\x00", &ends.repeat(depth)].concat();
                assert_eq!(decoded("ListStreams", &body).is_ok(), is_taken, "{depth} {open:x?}");
            }
        }
    }

    #[test]
    fn an_entry_that_is_null_is_refused() {
        let body = b"\xa1\x67Records\x82\xf6\xa0";
        let refused = decoded("PutRecords", body).expect_err("would be lost");
        assert!(refused.is_some_and(|error| error.contains("null")));
        let errors = TypeErrors::default();
        json::decode(br#"{"Records":[{},null]}"#, input("PutRecords"), &errors).expect("is JSON");
        assert!(errors.into_first().is_some_and(|error| error.contains("null")));
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for body in [
            &b""[..],
            b"\xa1",
            b"\xbf",
            b"\xa1\x65Limit",
            b"\xbb\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\xa1\x65Limit\x05\x00",
            b"\xa1\x65Limit\xc1\xc1\xc1\x05",
            b"\xff",
            b"\x7f\xff",
            b"\xa1\x65Limit\x7b\xff\xff\xff\xff\xff\xff\xff\xff",
        ] {
            assert_eq!(decoded("ListStreams", body), Err(None), "{body:x?}");
        }
        for (nested, end) in [
            (&b"\x81"[..], &b""[..]),
            (b"\x9f", b""),
            (b"\xa1\x00", b""),
            (b"\xc1", b"\x00"),
            (b"\x82\x9f\x81\x81", b""),
        ] {
            let deep = [b"\xa1\x61x", &nested.repeat(1_000_000)[..], end].concat();
            assert_eq!(decoded("ListStreams", &deep), Err(None), "{nested:x?}");
        }
        let wrong = decoded("ListStreams", b"\xa1\x65Limit\x61x");
        let text = "class java.lang.String can not be converted to an Integer";
        assert_eq!(wrong, Err(Some(text.to_owned())));
    }
}
