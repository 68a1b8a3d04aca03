//! The source `avro`: Flume's own RPC.

use std::sync::Arc;

use super::listener::{BUFFERS, CONNECTIONS, start_calls};
use super::{SourceContext, Starting};
use crate::codec::avro_rpc::{Call, FrameHead, ServerSession, Status, frame, response};
use crate::codec::budget::Budget;
use crate::codec::intake::Intake;
use crate::codec::wire::Wire;
use crate::declaration::{Declaration, Fallback, Kind, PORT, Role, key};
use crate::tls::{self, Stream};

pub(crate) const DECLARATION: Declaration = Declaration {
    role: Role::Source,
    name: "avro",
    aliases: &["org.apache.flume.source.AvroSource"],
    doc: "Listens for Flume's Avro sinks and SDK clients. A batch is answered with `OK` when it is in its channels.",
    keys: &[
        key("bind", Kind::Text, Fallback::Required, "The address to listen at."),
        key("port", PORT, Fallback::Required, "The port."),
        key(
            "compression-type",
            Kind::Choice(&["none", "deflate"]),
            Fallback::Is("none"),
            "Has to be what the clients have.",
        ),
        key("threads", Kind::Ignored("all cores are used"), Fallback::Nothing, "Flume's threads."),
        key(
            "ipFilter",
            Kind::Only(&["false"], "addresses are not filtered here"),
            Fallback::Is("false"),
            "Flume's filter of addresses.",
        ),
    ],
    shared: &[tls::OF_SOURCE, CONNECTIONS, BUFFERS],
};

pub(crate) fn start(context: SourceContext) -> Starting {
    // How hard is a sink's choice; responses are small.
    let level = context.settings.is("compression-type", "deflate").then_some(6);
    start_calls(context, level, &[], serve_calls)
}

async fn serve_calls(
    stream: Box<dyn Stream>,
    context: Arc<SourceContext>,
    budget: Arc<Budget>,
) -> std::io::Result<()> {
    let settings = &context.settings;
    let message_bytes_max = settings.size("maxMessageBytes");
    let mut wire = Wire::new(stream);
    let mut session = ServerSession::default();
    let mut share = budget.share();
    loop {
        let head = tokio::select! {
            () = context.stop.wait() => return Ok(()),
            head = wire.read_head::<8>() => head?,
        };
        let Some(head) = head else { return Ok(()) };
        let head = FrameHead::read(head).map_err(std::io::Error::other)?;
        let mut message = bytes::BytesMut::new();
        for _ in 0..head.buffers {
            let length = wire.read_head::<4>().await?.ok_or(std::io::ErrorKind::UnexpectedEof)?;
            let length = u32::from_be_bytes(length) as usize;
            if message.len() + length > message_bytes_max {
                let text =
                    format!("a message is above {message_bytes_max} bytes (maxMessageBytes)");
                return Err(std::io::Error::other(text));
            }
            message.unsplit(wire.read(length, &mut share).await?);
        }
        let intake = Intake::new(&mut share, context.delivery.events_max());
        let request = session.read(&message, intake).map_err(std::io::Error::other)?;
        drop(message);
        let answer = match request.call {
            // Who wants more of what others hold is closed, as at the reading of a message.
            Err(error) if !error.is_final() => return Err(std::io::Error::other(error)),
            Ok(Call::Ping) => request.preamble,
            Ok(Call::Append(events)) => {
                let delivered = context.delivery.deliver(events).await;
                let outcome = delivered.map(|()| Status::Ok).unwrap_or_else(|error| {
                    tracing::warn!(source = context.delivery.source(), %error, "a batch is refused");
                    Status::Failed
                });
                response(&request.preamble, Ok(outcome))
            }
            Err(error) => {
                context.delivery.counters().malformed.add(1);
                response(&request.preamble, Err(&error.to_string()))
            }
        };
        share.clear();
        wire.write(&frame(head.serial, &answer)).await?;
    }
}
