//! Events in JSON, as Flume's `JSONHandler` takes them: `[{"headers": {"a": "b"}, "body": "text"}]`.
//!
//! A body that is no UTF-8 is written as `"bodyBase64"` instead, so that nothing of it is lost.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::budget::Budget;
use super::intake::{HeaderPairs, Intake};
use super::{Malformed, Unread};
use crate::event::Event;

/// Reads one event.
pub(crate) fn read_one(bytes: &[u8]) -> Result<Event, Malformed> {
    // What it came in bounds it.
    let budget = Budget::new(u64::MAX);
    let mut share = budget.share();
    let mut reading = Reading::new(Intake::new(&mut share, 1));
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let read = reading.one().deserialize(&mut json).and_then(|()| json.end());
    match read {
        Ok(()) => Ok(reading.intake.take().remove(0)),
        Err(error) => Err(Malformed(reading.why(error, false).to_string())),
    }
}

/// Reads a list of events, without anything between its text and them. Flume's handler takes a missing body for an
/// empty one.
pub(crate) fn read_events(bytes: &[u8], intake: Intake<'_>) -> Result<Vec<Event>, Unread> {
    let mut reading = Reading::new(intake);
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let read = json.deserialize_any(List(&mut reading)).and_then(|()| json.end());
    match read {
        Ok(()) => Ok(reading.intake.take()),
        Err(error) => Err(reading.why(error, bytes.trim_ascii_start().starts_with(b"["))),
    }
}

/// Events as far as they are read.
struct Reading<'i> {
    intake: Intake<'i>,
    /// Why reading ends before the text does, in other words than those of JSON's reader.
    ended: Option<Unread>,
}

impl<'i> Reading<'i> {
    fn new(intake: Intake<'i>) -> Reading<'i> {
        Reading { intake, ended: None }
    }

    fn one(&mut self) -> One<'_, 'i> {
        One(self)
    }

    /// An error for JSON's reader, in place of this one.
    fn end<E: Error>(&mut self, why: impl Into<Unread>) -> E {
        self.ended = Some(why.into());
        E::custom("")
    }

    fn why(&mut self, error: serde_json::Error, is_list: bool) -> Unread {
        let at = self.intake.len();
        match self.ended.take() {
            Some(Unread::Malformed(why)) if is_list => {
                Malformed(format!("event {at}: {why}")).into()
            }
            Some(why) => why,
            None if !error.is_data() => Malformed(format!("no JSON: {error}")).into(),
            None if is_list => Malformed(format!("event {at}: {error}")).into(),
            None => Malformed(error.to_string()).into(),
        }
    }
}

struct List<'r, 'i>(&'r mut Reading<'i>);

impl<'de> Visitor<'de> for List<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of events, also if there is one")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(self.0.one())?.is_some() {}
        Ok(())
    }
}

struct One<'r, 'i>(&'r mut Reading<'i>);

impl<'de> DeserializeSeed<'de> for One<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        if let Err(why) = self.0.intake.begin() {
            return Err(self.0.end(why));
        }
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for One<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let (mut headers, mut body, mut base64) = (Vec::new(), None, None);
        while let Some(name) = fields.next_key::<Field>()? {
            match name {
                Field::Headers => headers = fields.next_value_seed(Pairs(self.0))?,
                Field::Body => body = fields.next_value::<Option<String>>()?,
                Field::BodyBase64 => base64 = fields.next_value::<Option<String>>()?,
                Field::Other => _ = fields.next_value::<IgnoredAny>()?,
            }
        }
        let body = match (body, base64) {
            (None, Some(text)) => STANDARD.decode(text).map_err(|error| {
                self.0.end::<A::Error>(Malformed(format!("its bodyBase64 is no Base64: {error}")))
            })?,
            (body, None) => body.unwrap_or_default().into_bytes(),
            (Some(_), Some(_)) => return Err(self.0.end(Malformed::new("it has two bodies"))),
        };
        self.0.intake.body(body.len()).map_err(|why| self.0.end::<A::Error>(why))?;
        self.0.intake.push(headers, body);
        Ok(())
    }
}

/// The names that an event's object may have, and those that are passed over.
#[derive(serde::Deserialize)]
#[serde(field_identifier)]
enum Field {
    #[serde(rename = "headers")]
    Headers,
    #[serde(rename = "body")]
    Body,
    #[serde(rename = "bodyBase64")]
    BodyBase64,
    #[serde(other)]
    Other,
}

/// Headers, which may be `null`.
struct Pairs<'r, 'i>(&'r mut Reading<'i>);

impl<'de> DeserializeSeed<'de> for Pairs<'_, '_> {
    type Value = HeaderPairs;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Pairs<'_, '_> {
    type Value = HeaderPairs;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("headers, which are an object")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        let mut pairs = Vec::new();
        while let Some(name) = fields.next_key::<Box<str>>()? {
            let value = fields.next_value_seed(HeaderValue(&name))?;
            self.0.intake.header(&name, &value).map_err(|why| self.0.end::<A::Error>(why))?;
            pairs.push((name, value));
        }
        Ok(pairs)
    }
}

/// The value of a header of this name.
struct HeaderValue<'r>(&'r str);

impl<'de> DeserializeSeed<'de> for HeaderValue<'_> {
    type Value = Box<str>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Box<str>, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for HeaderValue<'_> {
    type Value = Box<str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a text for header '{}'", self.0)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Box<str>, E> {
        Ok(text.into())
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<Box<str>, E> {
        Ok(flag.to_string().into())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Box<str>, E> {
        Ok(number.to_string().into())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Box<str>, E> {
        Ok(number.to_string().into())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Box<str>, E> {
        Ok(Value::from(number).to_string().into())
    }
}

/// One event as an object.
pub(crate) fn to_value(event: &Event) -> Value {
    let text = |text: &str| Value::String(text.to_owned());
    let headers = event.headers.iter().map(|(name, value)| (name.to_owned(), text(value)));
    let mut fields = Map::new();
    fields.insert("headers".to_owned(), Value::Object(headers.collect()));
    match std::str::from_utf8(&event.body) {
        Ok(body) => fields.insert("body".to_owned(), text(body)),
        Err(_) => {
            fields.insert("bodyBase64".to_owned(), Value::String(STANDARD.encode(&event.body)))
        }
    };
    Value::Object(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> Result<Vec<Event>, Unread> {
        let budget = Budget::new(1 << 20);
        read_events(text, Intake::new(&mut budget.share(), 100))
    }

    #[test]
    fn events_are_read_and_written() {
        let text = r#"[{"headers":{"a":"b","n":5},"body":"x"},{"body":"y"},{}]"#;
        let events = read(text.as_bytes()).expect("are events");
        assert_eq!(events.len(), 3);
        assert_eq!(to_value(&events[0]).to_string(), r#"{"body":"x","headers":{"a":"b","n":"5"}}"#);
        let raw = Event::new(&b"\xff"[..]);
        let text = to_value(&raw).to_string();
        assert_eq!(text, r#"{"bodyBase64":"/w==","headers":{}}"#);
        assert_eq!(read_one(text.as_bytes()).expect("is one").body, raw.body);
        for (text, why) in [
            ("{}", "list"),
            ("[1]", "event 0: invalid type: integer `1`, expected an object"),
            ("[{},{\"body\":[]}]", "event 1"),
            ("[", "no JSON"),
            ("[{}] x", "no JSON"),
            ("[{\"headers\":[]}]", "event 0: invalid type: sequence, expected headers"),
            ("[{\"headers\":{\"a\":[]}}]", "header 'a'"),
            ("[{\"bodyBase64\":\"/\"}]", "Base64"),
            ("[{\"body\":\"a\",\"bodyBase64\":\"/w==\"}]", "two"),
        ] {
            let error = read(text.as_bytes()).expect_err(text).to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn fields_of_any_kind_are_passed_over_and_the_last_of_two_holds() {
        let text = r#"[{"x":[{"y":null}],"headers":null,"body":"a","body":"b","headers":{"f":1.5,"t":true,"n":-1}}]"#;
        let event = read(text.as_bytes()).expect("is one").remove(0);
        let headers: Vec<(&str, &str)> = event.headers.iter().collect();
        assert_eq!(headers, [("f", "1.5"), ("t", "true"), ("n", "-1")]);
        assert_eq!(event.body, "b");
    }

    /// A text of few bytes an event, or a header, is read no further than memory is there for it.
    #[test]
    fn events_are_charged_as_they_are_read_and_are_no_more_than_a_batch_may_have() {
        let list = |one: &str, count| format!("[{}]", vec![one; count].join(","));
        let read = |text: &str, bytes, events_max| {
            let budget = Budget::new(bytes);
            let read = read_events(text.as_bytes(), Intake::new(&mut budget.share(), events_max));
            read.map(|events| events.len())
        };
        let many = list("{}", 100_000);
        assert_eq!(read(&many, 1 << 30, 1000), Err(Unread::TooMany(1000)));
        assert!(read(&many, 1 << 20, usize::MAX).is_err_and(|error| error.is_final()));
        assert_eq!(read(&many, 1 << 30, 100_000), Ok(100_000));
        // Nothing is read behind the first that is no event.
        assert!(
            read(&list("1", 100_000), 1000, 1).is_err_and(|e| e.to_string().contains("event 0"))
        );
        let headed = format!("[{{\"headers\":{{{}}}}}]", vec!["\"\":\"\""; 1000].join(","));
        assert!(read(&headed, 100_000, 1).is_err() && read(&headed, 200_000, 1).is_ok());
    }
}
