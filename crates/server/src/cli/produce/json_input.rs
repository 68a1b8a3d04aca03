//! Records as `logway consume --format json` prints them.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use logway_model::{PartitionId, TimestampMs};
use logway_record::Header;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{IgnoredAny, MapAccess, Visitor};

use super::input_record::InputRecord;
use crate::cli::byte_encoding::JsonEncoding;

/// A record's line. A field that is not known is an error, since it is mostly a misspelt one, and a
/// value must be there, since a record without one deletes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonInput<'a> {
    /// The record goes to the topic that the command names.
    #[serde(default, rename = "topic")]
    _topic: IgnoredAny,
    #[serde(default)]
    partition: Option<i32>,
    /// The log gives records their offsets.
    #[serde(default, rename = "offset")]
    _offset: IgnoredAny,
    #[serde(default)]
    timestamp: Option<i64>,
    #[serde(default, borrow)]
    key: Option<Cow<'a, str>>,
    #[serde(default)]
    key_encoding: Option<JsonEncoding>,
    #[serde(borrow, deserialize_with = "must_be_there")]
    value: Option<Cow<'a, str>>,
    #[serde(default)]
    value_encoding: Option<JsonEncoding>,
    #[serde(default, borrow)]
    headers: Vec<Object<JsonHeader<'a>>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonHeader<'a> {
    #[serde(borrow)]
    key: Cow<'a, str>,
    #[serde(default)]
    key_encoding: Option<JsonEncoding>,
    #[serde(borrow, deserialize_with = "must_be_there")]
    value: Option<Cow<'a, str>>,
    #[serde(default)]
    value_encoding: Option<JsonEncoding>,
}

/// Something that is written as an object and not, as serde takes it too, as an array of its fields: then a
/// line that was never meant for a record would be one.
#[derive(Debug)]
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Object<T>, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(PhantomData)).map(Object)
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object such as {\"key\":\"k\",\"value\":\"v\"}")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

/// Else serde takes a field that is not there for `null`.
fn must_be_there<'de: 'a, 'a, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Cow<'a, str>>, D::Error> {
    Deserialize::deserialize(deserializer)
}

/// Reads a record.
///
/// # Errors
///
/// What is wrong, for the user.
pub(super) fn parse(line: &[u8]) -> Result<InputRecord<'_>, String> {
    let parsed: Result<Object<JsonInput<'_>>, _> = serde_json::from_slice(line);
    let Object(input) = parsed.map_err(|error| describe(&error))?;
    if input.partition.is_some_and(|partition| partition < 0) {
        return Err("'partition' is negative".to_owned());
    }
    // Brokers take -1 for no timestamp.
    if input.timestamp.is_some_and(|timestamp| timestamp < -1) {
        return Err("'timestamp' is negative".to_owned());
    }
    Ok(InputRecord {
        partition: input.partition.map(PartitionId),
        timestamp: input.timestamp.map(TimestampMs),
        key: bytes("key", input.key, input.key_encoding)?,
        value: bytes("value", input.value, input.value_encoding)?,
        headers: input.headers.into_iter().map(|Object(h)| header(h)).collect::<Result<_, _>>()?,
    })
}

/// serde_json tells a line and a column, of which there is only one line here.
fn describe(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    match text.strip_suffix(&place) {
        Some(text) => format!("{text} at byte {}", error.column()),
        None => text,
    }
}

fn header(header: JsonHeader<'_>) -> Result<Header, String> {
    let key = bytes("key", Some(header.key), header.key_encoding)?.unwrap_or_default();
    let value = bytes("value", header.value, header.value_encoding)?;
    Ok(Header::new(key.into_owned(), value.map(|value| value.into_owned().into())))
}

fn bytes<'a>(
    field: &str,
    text: Option<Cow<'a, str>>,
    encoding: Option<JsonEncoding>,
) -> Result<Option<Cow<'a, [u8]>>, String> {
    match (text, encoding) {
        (None, _) => Ok(None),
        (Some(Cow::Borrowed(text)), None) => Ok(Some(Cow::Borrowed(text.as_bytes()))),
        (Some(Cow::Owned(text)), None) => Ok(Some(Cow::Owned(text.into_bytes()))),
        (Some(text), Some(encoding)) => match encoding.decode(text.as_bytes()) {
            Ok(bytes) => Ok(Some(Cow::Owned(bytes))),
            Err(error) => Err(format!("'{field}': {error}")),
        },
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use logway_model::{Offset, TopicName, TopicPartition};
    use logway_record::Record;

    use super::*;
    use crate::cli::byte_encoding::ByteEncoding;
    use crate::cli::json_record::JsonRecord;
    use crate::cli::record_format::Encodings;

    #[test]
    fn what_is_printed_is_read() {
        let name = TopicName::new("t").expect("a name");
        let partition = TopicPartition::new(name, PartitionId(3));
        let all_bytes = Bytes::from((0..=255).collect::<Vec<u8>>());
        let contents = [
            None,
            Some(Bytes::new()),
            Some(Bytes::from_static(b"\0\"\\\n\xc3\xbc")),
            Some(all_bytes),
        ];
        for encoding in [ByteEncoding::Raw, ByteEncoding::Hex, ByteEncoding::Base64] {
            for key in &contents {
                for value in &contents {
                    let record = Record {
                        offset: Offset(42),
                        timestamp: TimestampMs(-1),
                        key: key.clone(),
                        value: value.clone(),
                        headers: vec![
                            Header::new("a", value.clone()),
                            Header::new(Bytes::from_static(b"\xff"), None),
                        ],
                    };
                    let encodings = Encodings { key: encoding, value: encoding };
                    let json = JsonRecord::new(&partition, &record, encodings);
                    let line = serde_json::to_vec(&json).expect("data");
                    let read = parse(&line).expect("what was printed");
                    assert_eq!(read.partition, Some(PartitionId(3)));
                    assert_eq!(read.timestamp, Some(TimestampMs(-1)));
                    assert_eq!(read.key.as_deref(), key.as_deref());
                    assert_eq!(read.value.as_deref(), value.as_deref());
                    assert_eq!(read.headers, record.headers);
                }
            }
        }
    }

    #[test]
    fn only_a_value_must_be_there() {
        let record = parse(br#" {"value":"v"} "#).expect("a record");
        assert_eq!((record.partition, record.timestamp, record.key), (None, None, None));
        assert_eq!(record.value.as_deref(), Some(&b"v"[..]));
    }

    #[test]
    fn mistakes_are_named() {
        for (line, expected) in [
            (r#"{"key":"k"}"#, "missing field `value`"),
            (r#"{"vaule":"v"}"#, "unknown field `vaule`"),
            (r#"{"value":1}"#, "expected a string"),
            (r#"{"value":"v","timestamp":-2}"#, "'timestamp' is negative"),
            (r#"{"value":"v","partition":-1}"#, "'partition' is negative"),
            (r#"{"value":"v","partition":1e99}"#, "at byte"),
            (r#"{"value":"zz","value_encoding":"hex"}"#, "'value': it is not pairs"),
            (r#"{"value":"v","value_encoding":"rot13"}"#, "unknown variant `rot13`"),
            (r#"{"value":"v","headers":[{"key":"a"}]}"#, "missing field `value`"),
            (r#"{"value":"v"}{"value":"w"}"#, "trailing characters"),
            (r#"{"value":"\ud800"}"#, "at byte"),
            (r#"[null,0,null,1,null,null,"v",null,[]]"#, "sequence, expected an object such as"),
            (r#"[{"value":"v"}]"#, "sequence, expected an object such as"),
            (r#"{"value":"v","headers":[["a",null,"1",null]]}"#, "expected an object such as"),
            ("\"v\"", "expected an object such as"),
            ("{", "EOF while parsing"),
            ("hello", "expected value at byte 1"),
            ("", "EOF"),
        ] {
            let error = parse(line.as_bytes()).expect_err(line);
            assert!(error.contains(expected), "{line}: {error}");
        }
        assert!(parse(b"{\"value\":\"\xff\"}").is_err());
    }
}
