//! Events in JSON, as Flume's `JSONHandler` takes them: `[{"headers": {"a": "b"}, "body": "text"}]`.
//!
//! A body that is no UTF-8 is written as `"bodyBase64"` instead, so that nothing of it is lost.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::Malformed;
use crate::event::{Event, Headers};

/// Reads one event.
pub(crate) fn read_one(bytes: &[u8]) -> Result<Event, Malformed> {
    let value = serde_json::from_slice(bytes);
    read_event(value.map_err(|error| Malformed(format!("no JSON: {error}")))?)
}

/// Reads a list of events. Flume's handler takes a missing body for an empty one.
pub(crate) fn read_events(bytes: &[u8]) -> Result<Vec<Event>, Malformed> {
    let value: Value =
        serde_json::from_slice(bytes).map_err(|error| Malformed(format!("no JSON: {error}")))?;
    let Value::Array(all) = value else {
        return Err(Malformed::new("events have to be in a list, also if there is one"));
    };
    let events = all.into_iter().enumerate();
    events
        .map(|(index, one)| {
            read_event(one).map_err(|why| Malformed(format!("event {index}: {why}")))
        })
        .collect()
}

fn read_event(value: Value) -> Result<Event, Malformed> {
    let Value::Object(mut fields) = value else { return Err(Malformed::new("is no object")) };
    let mut headers = Vec::new();
    match fields.remove("headers") {
        None | Some(Value::Null) => {}
        Some(Value::Object(all)) => {
            for (name, value) in all {
                let value = match value {
                    Value::String(text) => text,
                    Value::Number(number) => number.to_string(),
                    Value::Bool(flag) => flag.to_string(),
                    _ => return Err(Malformed(format!("header '{name}' is no text"))),
                };
                headers.push((name.into_boxed_str(), value.into_boxed_str()));
            }
        }
        Some(_) => return Err(Malformed::new("its headers are no object")),
    }
    let body = match (fields.remove("body"), fields.remove("bodyBase64")) {
        (None | Some(Value::Null), Some(Value::String(text))) => STANDARD
            .decode(text)
            .map_err(|error| Malformed(format!("its bodyBase64 is no Base64: {error}")))?,
        (None | Some(Value::Null), None) => Vec::new(),
        (Some(Value::String(text)), None) => text.into_bytes(),
        _ => return Err(Malformed::new("its body is no text, or there are two")),
    };
    Ok(Event { headers: Headers::from_pairs(headers), body: body.into() })
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

    #[test]
    fn events_are_read_and_written() {
        let text = r#"[{"headers":{"a":"b","n":5},"body":"x"},{"body":"y"},{}]"#;
        let events = read_events(text.as_bytes()).expect("are events");
        assert_eq!(events.len(), 3);
        assert_eq!(to_value(&events[0]).to_string(), r#"{"body":"x","headers":{"a":"b","n":"5"}}"#);
        let raw = Event::new(&b"\xff"[..]);
        let text = to_value(&raw).to_string();
        assert_eq!(text, r#"{"bodyBase64":"/w==","headers":{}}"#);
        assert_eq!(read_one(text.as_bytes()).expect("is one").body, raw.body);
        for (text, why) in [
            ("{}", "list"),
            ("[1]", "event 0: is no object"),
            ("[{},{\"body\":[]}]", "event 1"),
            ("[", "no JSON"),
            ("[{\"headers\":{\"a\":[]}}]", "header 'a'"),
            ("[{\"bodyBase64\":\"/\"}]", "Base64"),
            ("[{\"body\":\"a\",\"bodyBase64\":\"/w==\"}]", "two"),
        ] {
            let error = read_events(text.as_bytes()).expect_err(text).to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
