//! The source `thrift`: Flume's service in Thrift.

use std::sync::Arc;

use super::listener::{BUFFERS, CONNECTIONS, start_calls};
use super::{SourceContext, Starting};
use crate::codec::budget::Budget;
use crate::codec::intake::Intake;
use crate::codec::thrift::{Protocol, read_call, response};
use crate::codec::wire::Wire;
use crate::declaration::{Declaration, Fallback, Kind, PORT, Role, key};
use crate::tls::{self, Stream};

pub(crate) const DECLARATION: Declaration = Declaration {
    role: Role::Source,
    name: "thrift",
    aliases: &["org.apache.flume.source.ThriftSource"],
    doc: "Listens for Flume's Thrift sinks and SDK clients, with framed transport. A batch is answered with `OK` when \
          it is in its channels.",
    keys: &[
        key("bind", Kind::Text, Fallback::Required, "The address to listen at."),
        key("port", PORT, Fallback::Required, "The port."),
        key(
            "protocol",
            Kind::Choice(&["compact", "binary"]),
            Fallback::Is("compact"),
            "Has to be what the clients have.",
        ),
        key("threads", Kind::Ignored("all cores are used"), Fallback::Nothing, "Flume's threads."),
        key(
            "kerberos",
            Kind::Only(&["false"], "there is no Kerberos here"),
            Fallback::Is("false"),
            "Kerberos.",
        ),
    ],
    shared: &[tls::OF_SOURCE, CONNECTIONS, BUFFERS],
};

const OK: i32 = 0;
const FAILED: i32 = 1;

pub(crate) fn start(context: SourceContext) -> Starting {
    start_calls(context, None, &[], serve_calls)
}

/// The protocol that a component has.
pub(crate) fn protocol(settings: &crate::settings::Settings) -> Protocol {
    if settings.is("protocol", "binary") { Protocol::Binary } else { Protocol::Compact }
}

async fn serve_calls(
    stream: Box<dyn Stream>,
    context: Arc<SourceContext>,
    budget: Arc<Budget>,
) -> std::io::Result<()> {
    let protocol = protocol(&context.settings);
    let message_bytes_max = context.settings.size("maxMessageBytes");
    let mut wire = Wire::new(stream);
    let mut share = budget.share();
    loop {
        let head = tokio::select! {
            () = context.stop.wait() => return Ok(()),
            head = wire.read_head::<4>() => head?,
        };
        let Some(head) = head else { return Ok(()) };
        let length = u32::from_be_bytes(head) as usize;
        if length > message_bytes_max {
            let text =
                format!("a frame of {length} bytes is above {message_bytes_max} (maxMessageBytes)");
            return Err(std::io::Error::other(text));
        }
        let message = wire.read(length, &mut share).await?;
        let intake = Intake::new(&mut share, context.delivery.events_max());
        let call = read_call(&message, protocol, intake);
        let mut call = call.map_err(std::io::Error::other)?;
        drop(message);
        let answer = match std::mem::replace(&mut call.events, Ok(Vec::new())) {
            Ok(events) => {
                let delivered = context.delivery.deliver(events).await;
                let status = delivered.map(|()| OK).unwrap_or_else(|error| {
                    tracing::warn!(source = context.delivery.source(), %error, "a batch is refused");
                    FAILED
                });
                response(&call, protocol, Ok(status))
            }
            // Who wants more of what others hold is closed, as at the reading of a message.
            Err(error) if !error.is_final() => return Err(std::io::Error::other(error)),
            Err(error) => {
                context.delivery.counters().malformed.add(1);
                response(&call, protocol, Err(&error.to_string()))
            }
        };
        share.clear();
        let mut framed = (answer.len() as u32).to_be_bytes().to_vec();
        framed.extend_from_slice(&answer);
        wire.write(&framed).await?;
    }
}
