//! The sinks `logger` and `null`.

use super::{Sending, Sink, SinkContext};
use crate::channel::Taken;
use crate::declaration::{Declaration, Fallback, Kind, Role, key};
use crate::error::StartError;

pub(crate) const LOGGER: Declaration = Declaration {
    role: Role::Sink,
    name: "logger",
    aliases: &["org.apache.flume.sink.LoggerSink"],
    doc: "Writes events into the agent's log, at level info.",
    keys: &[
        key(
            "maxBytesToLog",
            Kind::Number(0, 1 << 20, "bytes"),
            Fallback::Is("16"),
            "How much of a body is logged.",
        ),
        key(
            "batchSize",
            Kind::Number(1, 1_000_000, "events"),
            Fallback::Is("100"),
            "How many events are taken at once. Flume takes them one by one.",
        ),
    ],
    shared: &[],
};

pub(crate) const NULL: Declaration = Declaration {
    role: Role::Sink,
    name: "null",
    aliases: &["org.apache.flume.sink.NullSink"],
    doc: "Throws events away.",
    keys: &[key(
        "batchSize",
        Kind::Number(1, 1_000_000, "events"),
        Fallback::Is("100"),
        "How many events are taken at once.",
    )],
    shared: &[],
};

struct Logger {
    name: String,
    body_bytes_max: usize,
}

struct Null;

pub(crate) fn make_logger(context: SinkContext) -> Result<Box<dyn Sink>, StartError> {
    let body_bytes_max = context.settings.size("maxBytesToLog");
    Ok(Box::new(Logger { name: context.settings.name, body_bytes_max }))
}

pub(crate) fn make_null(_: SinkContext) -> Result<Box<dyn Sink>, StartError> {
    Ok(Box::new(Null))
}

impl Sink for Logger {
    fn send<'a>(&'a mut self, batch: &'a Taken) -> Sending<'a> {
        for event in &batch.events {
            let shown = &event.body[..event.body.len().min(self.body_bytes_max)];
            let body = String::from_utf8_lossy(shown);
            let headers = event.headers.iter().map(|(name, value)| format!("{name}={value}"));
            let headers = headers.collect::<Vec<_>>().join(", ");
            tracing::info!(sink = self.name, headers, bytes = event.body.len(), %body, "event");
        }
        Box::pin(async { Ok(()) })
    }
}

impl Sink for Null {
    fn send<'a>(&'a mut self, _: &'a Taken) -> Sending<'a> {
        Box::pin(async { Ok(()) })
    }
}
