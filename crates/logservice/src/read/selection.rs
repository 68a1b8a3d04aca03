//! What a reader gets of the records: those that pass its filter, and of their values the fields that it names.

use logway_record::Record;
use serde_json::Value as Json;

use super::filter::Filter;
use super::projection::Projection;
use super::value::{ValueError, ValueReader};
use crate::grpc::status::Status;
use crate::messages::log::{Format, ReadRequest};

/// A filter, a projection, or both.
#[derive(Debug, Clone)]
pub(crate) struct Selection {
    filter: Option<Filter>,
    projection: Option<Projection>,
    values: ValueReader,
}

/// What becomes of a record.
pub(super) enum Selected {
    /// It is sent.
    Sent(Record),
    /// It does not pass.
    LeftOut,
    /// It does not pass, since the expression has no result for it.
    Unresolved,
}

/// What a step of an expression counts for, in bytes that were worked on.
const STEP_BYTES: usize = 4;

/// What a look at a header counts for.
const HEADER_BYTES: usize = 16;

impl Selection {
    /// As a client wants it; `None` where it gets all as it is.
    pub(super) fn new(request: &ReadRequest) -> Result<Option<Selection>, Status> {
        let filter = request.filter.as_ref().map(Filter::new).transpose()?;
        let filter = filter.filter(|filter| !filter.passes_all());
        let projection = Projection::new(&request.projection)?;
        let values = ValueReader::new(request.value_schema.as_ref())?;
        if filter.is_none() && projection.is_none() {
            return Ok(None);
        }
        if request.format() == Format::Batches {
            let message = "batches are sent whole: no filter and no projection with BATCHES";
            return Err(Status::invalid(message).remedy("use RECORDS"));
        }
        Ok(Some(Selection { filter, projection, values }))
    }

    /// Whether it takes long to say what passes, or to make what is sent.
    pub(super) fn takes_long(&self) -> bool {
        self.expression().is_some() || self.projection.is_some()
    }

    fn expression(&self) -> Option<&logway_expression::Expression> {
        self.filter.as_ref().and_then(Filter::expression)
    }

    /// About how many bytes it keeps.
    pub(super) fn kept_bytes(&self) -> usize {
        let of_filter = self.filter.as_ref().map_or(0, Filter::kept_bytes);
        let of_projection = self.projection.as_ref().map_or(0, Projection::kept_bytes);
        of_filter + of_projection + self.values.kept_bytes()
    }

    /// Says whether a record passes, and takes the other fields out of its value. Adds what that took beside the record to the bytes
    /// that were worked on. Fails where the fields of a record that passes cannot be found.
    pub(super) fn select(
        &self,
        mut record: Record,
        worked_bytes: &mut usize,
    ) -> Result<Selected, ValueError> {
        if let Some(filter) = &self.filter {
            *worked_bytes += HEADER_BYTES * record.headers.len() * filter.header_conditions();
            if !filter.passes(&record) {
                return Ok(Selected::LeftOut);
            }
        }
        let mut read: Option<Result<Json, ValueError>> = None;
        if let Some(expression) = self.expression() {
            if expression.uses_value()
                && let Some(bytes) = record.value.as_deref()
            {
                read = Some(self.values.read(bytes, worked_bytes));
            }
            let value = read.as_ref().and_then(|read| read.as_ref().ok());
            let evaluated = expression.evaluate(&record, value);
            *worked_bytes += STEP_BYTES * evaluated.steps;
            match evaluated.result {
                Some(true) => {}
                Some(false) => return Ok(Selected::LeftOut),
                None => return Ok(Selected::Unresolved),
            }
        }
        if let (Some(projection), Some(bytes)) = (&self.projection, record.value.as_deref()) {
            let projected = match (self.values.json_text(bytes), read) {
                (Some(text), _) => projection.of_json(text?)?,
                (None, Some(read)) => projection.of(read?),
                (None, None) => projection.of(self.values.read(bytes, worked_bytes)?),
            };
            record.value = Some(projected.into());
        }
        Ok(Selected::Sent(record))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use logway_model::{Offset, TimestampMs};

    use super::*;
    use crate::messages::log::value_schema::Schema;
    use crate::messages::log::{Filter as FilterRequest, ValueSchema};

    fn record(value: Option<&'static [u8]>) -> Record {
        Record {
            offset: Offset(1),
            timestamp: TimestampMs(100),
            key: Some("k".into()),
            value: value.map(Bytes::from_static),
            headers: Vec::new(),
        }
    }

    fn selection(expression: &str, projection: &[&str], schema: Option<ValueSchema>) -> Selection {
        let filter =
            FilterRequest { expression: expression.to_owned(), ..FilterRequest::default() };
        let request = ReadRequest {
            filter: Some(filter),
            projection: projection.iter().map(|field| (*field).to_owned()).collect(),
            value_schema: schema,
            ..ReadRequest::default()
        };
        Selection::new(&request).expect("is one").expect("leaves something out")
    }

    /// The value that is sent; nothing where the record is left out.
    fn sent(selection: &Selection, value: Option<&'static [u8]>) -> Option<Option<Bytes>> {
        match selection.select(record(value), &mut 0).expect("can be read") {
            Selected::Sent(record) => Some(record.value),
            Selected::LeftOut | Selected::Unresolved => None,
        }
    }

    fn avro(skip_bytes: u32) -> Option<ValueSchema> {
        let schema = r#"{"type": "record", "name": "r", "fields": [
            {"name": "a", "type": "int"}, {"name": "b", "type": "string"}]}"#;
        Some(ValueSchema { schema: Some(Schema::Avro(schema.to_owned())), skip_bytes })
    }

    #[test]
    fn a_record_passes_first_and_is_projected_then() {
        let json = selection("value.a > 1", &["b"], None);
        assert_eq!(sent(&json, Some(br#"{"a": 2, "b": 1.0}"#)), Some(Some(r#"{"b":1.0}"#.into())));
        assert_eq!(sent(&json, Some(br#"{"a": 1, "b": 1}"#)), None);
        assert_eq!(sent(&json, Some(b"no JSON")), None, "what does not pass is no error");
        assert_eq!(sent(&json, None), None);
        let all = selection("key == 'k'", &["b"], None);
        assert_eq!(sent(&all, None), Some(None), "a tombstone stays one");
        assert!(all.select(record(Some(b"no JSON")), &mut 0).is_err());
    }

    #[test]
    fn what_has_no_result_is_not_what_is_false_and_steps_are_work() {
        let json = selection("value.a > 1", &[], None);
        let selected = |value| {
            let mut worked_bytes = 0;
            let selected = json.select(record(Some(value)), &mut worked_bytes).expect("is read");
            assert!(worked_bytes >= STEP_BYTES, "{worked_bytes}");
            selected
        };
        assert!(matches!(selected(br#"{"a": 2}"#), Selected::Sent(_)));
        assert!(matches!(selected(br#"{"a": 1}"#), Selected::LeftOut));
        for value in [&br#"{"a": "x"}"#[..], b"{}", b"no JSON"] {
            assert!(matches!(selected(value), Selected::Unresolved));
        }
    }

    #[test]
    fn values_are_read_by_their_schema() {
        let both = selection("value.a == 1", &["b"], avro(5));
        assert_eq!(
            sent(&both, Some(b"\0\0\0\0\x07\x02\x04xy")),
            Some(Some(r#"{"b":"xy"}"#.into()))
        );
        assert_eq!(sent(&both, Some(b"\0\0\0\0\x07\x04\x04xy")), None);
        assert_eq!(sent(&both, Some(b"\0\0")), None);
        let projected = selection("", &["a"], avro(0));
        let mut worked_bytes = 0;
        assert!(projected.select(record(Some(b"\x02\x04xy")), &mut worked_bytes).is_ok());
        assert!(worked_bytes > 0);
        let long: &'static [u8] = vec![b' '; (1 << 20) + 1].leak();
        for (value, word) in [
            (&b"\x02"[..], "does not follow the Avro schema: it ends too early"),
            (b"\x02\x00\x00", "1 bytes are left"),
            (long, "1048576 are the most"),
        ] {
            let Err(error) = projected.select(record(Some(value)), &mut 0) else {
                panic!("{word}")
            };
            assert!(error.to_string().contains(word), "{error}");
        }
        let short = selection("", &["a"], avro(9)).select(record(Some(b"x")), &mut 0);
        assert_eq!(short.err(), Some(ValueError::TooShort(1, 9)));
    }
}
