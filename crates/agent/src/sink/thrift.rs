//! The sink `thrift`: to a Flume agent, or to one of ours.

use std::io;
use std::time::Instant;

use tokio::time::timeout;

use super::avro::{connect, is_worn};
use super::hop::{Hop, Unsent, send_in_messages};
use super::{HOP, Sending, Sink, SinkContext, request_timeout};
use crate::channel::Taken;
use crate::codec::budget::Budget;
use crate::codec::thrift::{Protocol, append_batch, read_response};
use crate::codec::wire::Wire;
use crate::declaration::{Declaration, Fallback, Kind, Role, key};
use crate::error::StartError;
use crate::event::Event;
use crate::source::thrift::protocol;
use crate::tls::{self, SinkTls, Stream};

pub(crate) const DECLARATION: Declaration = Declaration {
    role: Role::Sink,
    name: "thrift",
    aliases: &["org.apache.flume.sink.ThriftSink"],
    doc: "Sends batches to a Thrift source with framed transport, and commits each when it is answered with `OK`. Large \
          events go in several messages, and a message that is refused is cut in two, as by the sink `avro`.",
    keys: &[
        key(
            "protocol",
            Kind::Choice(&["compact", "binary"]),
            Fallback::Is("compact"),
            "Has to be what the other side has.",
        ),
        key(
            "connection-reset-interval",
            Kind::Ignored("use reset-connection-interval"),
            Fallback::Nothing,
            "Flume's word for it.",
        ),
        key("maxConnections", Kind::Ignored("a sink has one"), Fallback::Nothing, "Flume's pool."),
        key(
            "kerberos",
            Kind::Only(&["false"], "there is no Kerberos here"),
            Fallback::Is("false"),
            "Kerberos.",
        ),
    ],
    shared: &[HOP, tls::OF_SINK],
};

const RESPONSE_BYTES_MAX: usize = 1 << 20;

struct ThriftSink {
    hop: ThriftHop,
    refusals: u32,
}

struct ThriftHop {
    context: SinkContext,
    tls: Option<SinkTls>,
    connection: Option<(Wire<Box<dyn Stream>>, Instant)>,
    sequence: i32,
}

pub(crate) fn make(context: SinkContext) -> Result<Box<dyn Sink>, StartError> {
    let tls = tls::of_sink(&context.settings)?;
    let hop = ThriftHop { context, tls, connection: None, sequence: 0 };
    Ok(Box::new(ThriftSink { hop, refusals: 0 }))
}

impl Hop for ThriftHop {
    async fn append(&mut self, events: &[Event]) -> Result<(), Unsent> {
        if self.connection.as_ref().is_some_and(|(_, since)| is_worn(&self.context, *since)) {
            self.connection = None;
        }
        let (mut wire, since) = match self.connection.take() {
            Some(connection) => connection,
            None => {
                (Wire::new(connect(&self.context, None, self.tls.as_ref()).await?), Instant::now())
            }
        };
        let settings = &self.context.settings;
        let protocol = protocol(settings);
        self.sequence = self.sequence.wrapping_add(1);
        let message = append_batch(self.sequence, events, protocol);
        let answered =
            timeout(request_timeout(settings), call(&mut wire, &message, protocol, self.sequence))
                .await;
        let answered = answered
            .unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time")));
        let port = settings.port("port");
        let next = || format!("{}:{port}", settings.required("hostname").trim());
        match answered {
            Ok(Ok(status)) => {
                self.connection = Some((wire, since));
                let word = ["OK", "FAILED", "ERROR", "UNKNOWN"]
                    .get(status as usize)
                    .unwrap_or(&"a status that is none");
                match status {
                    0 => Ok(()),
                    _ => Err(Unsent::Later(format!("{} answered {word}", next()))),
                }
            }
            Ok(Err(text)) => {
                Err(Unsent::Refused(format!("{} answered with an error: {text}", next())))
            }
            Err(error) => Err(Unsent::of(&error, &next())),
        }
    }
}

async fn call(
    wire: &mut Wire<Box<dyn Stream>>,
    message: &[u8],
    protocol: Protocol,
    sequence: i32,
) -> io::Result<Result<i32, String>> {
    let mut framed = (message.len() as u32).to_be_bytes().to_vec();
    framed.extend_from_slice(message);
    wire.write(&framed).await?;
    let length = wire.read_head::<4>().await?.ok_or(io::ErrorKind::UnexpectedEof)?;
    let length = u32::from_be_bytes(length) as usize;
    let budget = Budget::new(RESPONSE_BYTES_MAX as u64);
    let answer = wire.read(length, &mut budget.share()).await?;
    read_response(&answer, protocol, sequence).map_err(io::Error::other)
}

impl Sink for ThriftSink {
    fn send<'a>(&'a mut self, batch: &'a Taken) -> Sending<'a> {
        Box::pin(send_in_messages(&mut self.hop, &batch.events, &mut self.refusals))
    }
}
