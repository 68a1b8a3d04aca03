//! A record as a line of JSON.

use std::borrow::Cow;

use bytes::Bytes;
use logway_model::TopicPartition;
use logway_record::{Header, Record};
use serde::Serialize;

use crate::cli::bytes_text::BytesText;

/// A record for JSON.
///
/// Key, value and headers are text; where the bytes are not UTF-8 they are base64, and a field
/// beside them, `key_encoding` or `value_encoding`, says so.
#[derive(Debug, Serialize)]
pub(super) struct JsonRecord<'a> {
    topic: &'a str,
    partition: i32,
    offset: i64,
    timestamp: i64,
    #[serde(flatten)]
    key: JsonKey<'a>,
    #[serde(flatten)]
    value: JsonValue<'a>,
    headers: Vec<JsonHeader<'a>>,
}

#[derive(Debug, Serialize)]
struct JsonHeader<'a> {
    #[serde(flatten)]
    key: JsonKey<'a>,
    #[serde(flatten)]
    value: JsonValue<'a>,
}

#[derive(Debug, Serialize)]
struct JsonKey<'a> {
    key: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_encoding: Option<&'static str>,
}

#[derive(Debug, Serialize)]
struct JsonValue<'a> {
    value: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_encoding: Option<&'static str>,
}

impl<'a> JsonRecord<'a> {
    /// Borrows a record.
    pub(super) fn new(partition: &'a TopicPartition, record: &'a Record) -> JsonRecord<'a> {
        JsonRecord {
            topic: partition.topic.as_str(),
            partition: partition.partition.0,
            offset: record.offset.0,
            timestamp: record.timestamp.0,
            key: JsonKey::new(record.key.as_ref()),
            value: JsonValue::new(record.value.as_ref()),
            headers: record.headers.iter().map(JsonHeader::new).collect(),
        }
    }
}

impl<'a> JsonHeader<'a> {
    fn new(header: &'a Header) -> JsonHeader<'a> {
        JsonHeader {
            key: JsonKey::new(Some(&header.key)),
            value: JsonValue::new(header.value.as_ref()),
        }
    }
}

impl<'a> JsonKey<'a> {
    fn new(key: Option<&'a Bytes>) -> JsonKey<'a> {
        let text = key.map(|key| BytesText::new(key));
        let key_encoding = text.as_ref().and_then(|text| text.encoding);
        JsonKey { key: text.map(|text| text.text), key_encoding }
    }
}

impl<'a> JsonValue<'a> {
    fn new(value: Option<&'a Bytes>) -> JsonValue<'a> {
        let text = value.map(|value| BytesText::new(value));
        let value_encoding = text.as_ref().and_then(|text| text.encoding);
        JsonValue { value: text.map(|text| text.text), value_encoding }
    }
}

#[cfg(test)]
mod tests {
    use logway_model::{Offset, PartitionId, TimestampMs, TopicName};

    use super::*;

    #[test]
    fn a_record_is_one_line_with_markers_where_it_is_not_text() {
        let topic = TopicName::new("t").expect("a name");
        let partition = TopicPartition::new(topic, PartitionId(3));
        let record = Record {
            offset: Offset(42),
            timestamp: TimestampMs(1000),
            key: None,
            value: Some(Bytes::from_static(b"\xff\x00")),
            headers: vec![
                Header::new("a", Some(Bytes::from_static(b"line\n\"1\""))),
                Header::new("a", None),
            ],
        };
        let json = serde_json::to_string(&JsonRecord::new(&partition, &record)).expect("data");
        let expected = concat!(
            r#"{"topic":"t","partition":3,"offset":42,"timestamp":1000,"key":null,"#,
            r#""value":"/wA=","value_encoding":"base64","#,
            r#""headers":[{"key":"a","value":"line\n\"1\""},{"key":"a","value":null}]}"#
        );
        assert_eq!(json, expected);
    }
}
