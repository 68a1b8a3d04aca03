//! Sinks: where events go. Each file is one, with its declaration and its making.
//!
//! A sink gets a batch and says that the next hop has all of it, or why not: then the batch goes back into its channel.

pub(crate) mod avro;
pub(crate) mod elasticsearch;
pub(crate) mod file_roll;
pub(crate) mod hdfs;
mod hop;
pub(crate) mod http;
pub(crate) mod kafka;
pub(crate) mod loki;
pub(crate) mod object_store;
mod one_by_one;
pub(crate) mod otlp;
mod parts;
mod paths;
pub(crate) mod plain;
mod rolling;
mod template;
pub(crate) mod thrift;
mod web;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::channel::Taken;
use crate::counters::SinkCounters;
use crate::declaration::{Fallback, Key, Kind, key};
use crate::error::{SinkError, StartError};
use crate::settings::Settings;

/// What a sink does, in time.
pub(crate) type Sending<'a> = Pin<Box<dyn Future<Output = Result<(), SinkError>> + Send + 'a>>;

/// How a sink comes to its end, in time.
pub(crate) type Ending<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// A place where events go. It is used by one task at a time.
pub(crate) trait Sink: Send {
    /// Passes a batch on. When it returns, the next hop has all of it.
    fn send<'a>(&'a mut self, batch: &'a Taken) -> Sending<'a>;

    /// Does what is due by time. It is called between batches, and while there are none.
    fn tend(&mut self) {}

    /// It sends no more: what it has begun comes to its end.
    fn end(&mut self) -> Ending<'_> {
        Box::pin(std::future::ready(()))
    }

    /// If batches are to be larger than one take from the channel: when one is large or old enough.
    fn gathering(&self) -> Option<Gathering> {
        None
    }
}

/// When a batch that several takes make is sent: as soon as one of these is reached.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gathering {
    /// Since its first event was taken.
    pub(crate) interval: Duration,
    pub(crate) events_max: usize,
    /// Of bodies and headers.
    pub(crate) bytes_max: u64,
}

impl Gathering {
    /// Whether a batch has come to its end.
    pub(crate) fn is_ripe(&self, batch: &Taken) -> bool {
        batch.age() >= self.interval
            || batch.events.len() >= self.events_max
            || batch.size_bytes() >= self.bytes_max
            || batch.is_half_of_channel()
    }
}

/// What a sink is made of.
#[derive(Debug, Clone)]
pub(crate) struct SinkContext {
    pub(crate) settings: Settings,
    pub(crate) counters: Arc<SinkCounters>,
}

/// Makes a sink. Whom it sends to need not be there yet.
pub(crate) type MakeSink = fn(SinkContext) -> Result<Box<dyn Sink>, StartError>;

/// The next hop of Flume's RPC.
const HOP: &[Key] = &[
    key("hostname", Kind::Text, Fallback::Required, "The host to connect to."),
    key("port", crate::declaration::PORT, Fallback::Required, "The port."),
    key(
        "batch-size",
        Kind::Number(1, 1_000_000, "events"),
        Fallback::Is("100"),
        "How many events go in one message.",
    ),
    key(
        "connect-timeout",
        Kind::Number(1000, i64::MAX, "ms"),
        Fallback::Is("20000"),
        "How long a connection may take.",
    ),
    key(
        "request-timeout",
        Kind::Number(1000, i64::MAX, "ms"),
        Fallback::Is("20000"),
        "How long an answer may take. Then the batch is sent again.",
    ),
    key(
        "reset-connection-interval",
        Kind::Number(0, i64::MAX, "s"),
        Fallback::Is("0"),
        "After so long a new connection is made, so that load moves; 0 for never.",
    ),
    key("maxIoWorkers", Kind::Ignored("all cores are used"), Fallback::Nothing, "Flume's threads."),
];

/// How long an answer may take.
fn request_timeout(settings: &Settings) -> Duration {
    settings.millis("request-timeout")
}
