//! The sink `avro`: to a Flume agent, or to one of ours.

use std::io;
use std::time::Instant;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::hop::{Hop, Unsent, send_in_messages};
use super::{HOP, Sending, Sink, SinkContext, request_timeout};
use crate::channel::Taken;
use crate::codec::avro_rpc::{
    Answer, FrameHead, HASH, Handshake, append_batch, frame, read_response,
};
use crate::codec::budget::Budget;
use crate::codec::wire::Wire;
use crate::declaration::{Declaration, Fallback, Kind, Role, key};
use crate::error::StartError;
use crate::event::Event;
use crate::tls::{self, SinkTls, Stream};

pub(crate) const DECLARATION: Declaration = Declaration {
    role: Role::Sink,
    name: "avro",
    aliases: &["org.apache.flume.sink.AvroSink"],
    doc: "Sends batches to an Avro source, and commits each when it is answered with `OK`. If no answer comes, the batch \
          is sent again, and the other side may have it twice. Large events go in several messages of about 8 MiB, and a \
          message that the other side refuses by closing the connection is cut in two, until the event is found that is too \
          large for it.",
    keys: &[
        key(
            "compression-type",
            Kind::Choice(&["none", "deflate"]),
            Fallback::Is("none"),
            "Has to be what the other side has.",
        ),
        key(
            "compression-level",
            Kind::Number(0, 9, "level"),
            Fallback::Is("6"),
            "How hard to compress.",
        ),
    ],
    shared: &[HOP, tls::OF_SINK],
};

/// A response is a few bytes, or a protocol.
const RESPONSE_BYTES_MAX: u64 = 1 << 20;

struct AvroSink {
    hop: AvroHop,
    refusals: u32,
}

struct AvroHop {
    context: SinkContext,
    tls: Option<SinkTls>,
    connection: Option<Connection>,
}

struct Connection {
    wire: Wire<Box<dyn Stream>>,
    since: Instant,
    is_shaken: bool,
    serial: u32,
}

pub(crate) fn make(context: SinkContext) -> Result<Box<dyn Sink>, StartError> {
    let tls = tls::of_sink(&context.settings)?;
    Ok(Box::new(AvroSink { hop: AvroHop { context, tls, connection: None }, refusals: 0 }))
}

/// Connects to a component's `hostname` and `port`, and counts it.
pub(super) async fn connect(
    context: &SinkContext,
    level: Option<u32>,
    tls: Option<&SinkTls>,
) -> Result<Box<dyn Stream>, Unsent> {
    let settings = &context.settings;
    let address = (settings.required("hostname").trim(), settings.port("port"));
    let connected = async {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        let stream = tls::packed(socket, level);
        match tls {
            Some(tls) => tls.connect(stream).await,
            None => Ok(stream),
        }
    };
    let connected = timeout(settings.millis("connect-timeout"), connected).await;
    match connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
        Ok(socket) => {
            context.counters.connections_created.add(1);
            Ok(socket)
        }
        Err(error) => {
            context.counters.connections_failed.add(1);
            Err(Unsent::Later(format!("cannot connect to {}:{}: {error}", address.0, address.1)))
        }
    }
}

/// Whether a connection has served long enough.
pub(super) fn is_worn(context: &SinkContext, since: Instant) -> bool {
    let interval = context.settings.seconds("reset-connection-interval");
    !interval.is_zero() && since.elapsed() >= interval
}

impl Hop for AvroHop {
    async fn append(&mut self, events: &[Event]) -> Result<(), Unsent> {
        let settings = &self.context.settings;
        if self
            .connection
            .as_ref()
            .is_some_and(|connection| is_worn(&self.context, connection.since))
        {
            self.connection = None;
        }
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let level = settings.number("compression-level") as u32;
                let level = settings.is("compression-type", "deflate").then_some(level);
                let wire = Wire::new(connect(&self.context, level, self.tls.as_ref()).await?);
                Connection { wire, since: Instant::now(), is_shaken: false, serial: 0 }
            }
        };
        let answered = timeout(request_timeout(settings), connection.append(events)).await;
        let answered = answered
            .unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time")));
        let port = settings.port("port");
        let next = || format!("{}:{port}", settings.required("hostname").trim());
        match answered {
            Ok(Answer::Status(0)) => {
                self.connection = Some(connection);
                Ok(())
            }
            Ok(Answer::Status(status)) => {
                self.connection = Some(connection);
                let word = ["OK", "FAILED", "UNKNOWN"]
                    .get(status as usize)
                    .unwrap_or(&"a status that is none");
                Err(Unsent::Later(format!("{} answered {word}", next())))
            }
            Ok(Answer::Error(text)) => {
                Err(Unsent::Refused(format!("{} answered with an error: {text}", next())))
            }
            Ok(Answer::WantsProtocol(_)) => {
                Err(Unsent::Later(format!("{} does not know the protocol", next())))
            }
            Err(error) => Err(Unsent::of(&error, &next())),
        }
    }
}

impl Connection {
    async fn append(&mut self, events: &[Event]) -> io::Result<Answer> {
        if self.is_shaken {
            return self.call(&append_batch(None, events), false).await;
        }
        let first = Handshake { with_protocol: false, server_hash: HASH };
        let mut answer = self.call(&append_batch(Some(first), events), true).await?;
        if let Answer::WantsProtocol(server_hash) = answer {
            let second = Handshake { with_protocol: true, server_hash };
            answer = self.call(&append_batch(Some(second), events), true).await?;
        }
        self.is_shaken = !matches!(answer, Answer::WantsProtocol(_));
        Ok(answer)
    }

    async fn call(&mut self, message: &[u8], has_handshake: bool) -> io::Result<Answer> {
        self.serial = self.serial.wrapping_add(1);
        self.wire.write(&frame(self.serial, message)).await?;
        let head = self.wire.read_head::<8>().await?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let head = FrameHead::read(head).map_err(io::Error::other)?;
        if head.serial != self.serial {
            return Err(io::Error::other(format!(
                "call {} is answered as {}",
                self.serial, head.serial
            )));
        }
        let budget = Budget::new(RESPONSE_BYTES_MAX);
        let mut share = budget.share();
        let mut message = bytes::BytesMut::new();
        for _ in 0..head.buffers {
            let length = self.wire.read_head::<4>().await?.ok_or(io::ErrorKind::UnexpectedEof)?;
            let length = u32::from_be_bytes(length) as usize;
            message.unsplit(self.wire.read(length, &mut share).await?);
        }
        read_response(&message, has_handshake).map_err(io::Error::other)
    }
}

impl Sink for AvroSink {
    fn send<'a>(&'a mut self, batch: &'a Taken) -> Sending<'a> {
        Box::pin(send_in_messages(&mut self.hop, &batch.events, &mut self.refusals))
    }
}
