//! A record as a line of JSON.

use std::borrow::Cow;

use bytes::Bytes;
use logway_model::TopicPartition;
use logway_record::{Header, Record};
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::byte_encoding::{ByteEncoding, JsonEncoding};
use crate::cli::bytes_text::BytesText;
use crate::cli::record_format::Encodings;

/// A record.
///
/// `logway produce --input-format json` takes the same.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct JsonRecord<'a> {
    topic: &'a str,
    partition: i32,
    offset: i64,
    /// Milliseconds since 1970; -1 if the record has none
    timestamp: i64,
    /// `null` if the record has none
    key: Option<Cow<'a, str>>,
    /// How `key` is written; without it, the key is the text itself
    #[serde(skip_serializing_if = "Option::is_none")]
    key_encoding: Option<JsonEncoding>,
    /// `null` for a tombstone
    value: Option<Cow<'a, str>>,
    /// How `value` is written; without it, the value is the text itself
    #[serde(skip_serializing_if = "Option::is_none")]
    value_encoding: Option<JsonEncoding>,
    /// In their order; a key can occur more than once
    headers: Vec<JsonHeader<'a>>,
}

/// A record's header.
#[derive(Debug, Serialize, JsonSchema)]
struct JsonHeader<'a> {
    key: Cow<'a, str>,
    /// As in the record
    #[serde(skip_serializing_if = "Option::is_none")]
    key_encoding: Option<JsonEncoding>,
    value: Option<Cow<'a, str>>,
    /// As in the record
    #[serde(skip_serializing_if = "Option::is_none")]
    value_encoding: Option<JsonEncoding>,
}

impl<'a> JsonRecord<'a> {
    /// Borrows a record.
    pub(super) fn new(
        partition: &'a TopicPartition,
        record: &'a Record,
        encodings: Encodings,
    ) -> JsonRecord<'a> {
        let (key, key_encoding) = optional(record.key.as_ref(), encodings.key);
        let (value, value_encoding) = optional(record.value.as_ref(), encodings.value);
        JsonRecord {
            topic: partition.topic.as_str(),
            partition: partition.partition.0,
            offset: record.offset.0,
            timestamp: record.timestamp.0,
            key,
            key_encoding,
            value,
            value_encoding,
            headers: record.headers.iter().map(JsonHeader::new).collect(),
        }
    }
}

impl<'a> JsonHeader<'a> {
    fn new(header: &'a Header) -> JsonHeader<'a> {
        let BytesText { text: key, encoding: key_encoding } =
            BytesText::new(&header.key, ByteEncoding::Raw);
        let (value, value_encoding) = optional(header.value.as_ref(), ByteEncoding::Raw);
        JsonHeader { key, key_encoding, value, value_encoding }
    }
}

fn optional(
    bytes: Option<&Bytes>,
    encoding: ByteEncoding,
) -> (Option<Cow<'_, str>>, Option<JsonEncoding>) {
    match bytes.map(|bytes| BytesText::new(bytes, encoding)) {
        None => (None, None),
        Some(BytesText { text, encoding }) => (Some(text), encoding),
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
        let json =
            serde_json::to_string(&JsonRecord::new(&partition, &record, Encodings::default()));
        let json = json.expect("data");
        let expected = concat!(
            r#"{"topic":"t","partition":3,"offset":42,"timestamp":1000,"key":null,"#,
            r#""value":"/wA=","value_encoding":"base64","#,
            r#""headers":[{"key":"a","value":"line\n\"1\""},{"key":"a","value":null}]}"#
        );
        assert_eq!(json, expected);
    }
}
