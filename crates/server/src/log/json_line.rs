//! An event as one line of JSON.
//!
//! | key         | value                                                                          |
//! |-------------|--------------------------------------------------------------------------------|
//! | `timestamp` | RFC 3339, UTC, with microseconds                                               |
//! | `level`     | `ERROR`, `WARN`, `INFO`, `DEBUG` or `TRACE`                                    |
//! | `target`    | the part of the program                                                        |
//! | `message`   | what happened                                                                  |
//! | `fields`    | what it is about: numbers and booleans as such, all else as text; may be absent |
//! | `left_out`  | how many lines like this one were left out before it; absent if none           |

use std::fmt::{self, Debug, Write};

use serde::Serialize;
use serde_json::{Map, Value};
use tracing::Event;
use tracing::field::{Field, Visit};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

use super::fields::write_harmless;

#[derive(Debug, Serialize)]
struct Line<'a> {
    timestamp: &'a str,
    level: &'static str,
    target: &'a str,
    message: String,
    #[serde(skip_serializing_if = "Map::is_empty")]
    fields: Map<String, Value>,
    #[serde(skip_serializing_if = "is_zero")]
    left_out: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Writes an event, and how many like it were left out before.
pub(super) fn write_json(to: &mut impl Write, event: &Event<'_>, left_out: u64) -> fmt::Result {
    let mut parts = Parts::default();
    event.record(&mut parts);
    let kind = event.metadata();
    write_line(to, (kind.level().as_str(), kind.target()), parts, left_out)
}

/// Writes that so many lines are missing here.
pub(super) fn write_lost(to: &mut impl Write, target: &str, lost: u64) -> fmt::Result {
    let fields = Map::from_iter([("lost".to_owned(), lost.into())]);
    write_line(to, ("WARN", target), Parts { message: "lines were lost".to_owned(), fields }, 0)
}

fn write_line(
    to: &mut impl Write,
    (level, target): (&'static str, &str),
    Parts { message, fields }: Parts,
    left_out: u64,
) -> fmt::Result {
    let mut timestamp = String::new();
    SystemTime.format_time(&mut Writer::new(&mut timestamp))?;
    let line = Line { timestamp: &timestamp, level, target, message, fields, left_out };
    writeln!(to, "{}", serde_json::to_string(&line).map_err(|_| fmt::Error)?)
}

#[derive(Debug, Default)]
struct Parts {
    message: String,
    fields: Map<String, Value>,
}

impl Parts {
    fn keep(&mut self, field: &Field, value: impl Into<Value>) {
        self.fields.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for Parts {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.keep(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.keep(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.keep(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.keep(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        // Without the quotes that its Debug has.
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let mut text = String::new();
        // A value whose own formatting fails is shown as far as it came.
        let _ = write_harmless(&mut text, format_args!("{value:?}"));
        match field.name() {
            "message" => self.message = text,
            _ => self.keep(field, text),
        }
    }
}
