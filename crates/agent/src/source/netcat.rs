//! The sources `netcat` and `netcatudp`: lines, and datagrams.

use std::sync::Arc;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::listener::{CONNECTIONS, bind, bind_udp, receive, serve};
use super::{Running, SourceContext, Starting};
use crate::codec::lines::{Line, LineReader, without_return};
use crate::declaration::{Declaration, Fallback, Kind, PORT, Role, key};
use crate::event::Event;

pub(crate) const TCP: Declaration = Declaration {
    role: Role::Source,
    name: "netcat",
    aliases: &["org.apache.flume.source.NetcatSource"],
    doc: "Listens for connections, and makes an event of each line. Each is answered with `OK` when it is in its \
          channels, else with `FAILED` and the reason. Without answers, lines wait until channels have room.",
    keys: &[
        key("bind", Kind::Text, Fallback::Required, "The address to listen at."),
        key("port", PORT, Fallback::Required, "The port."),
        key(
            "max-line-length",
            Kind::Number(1, 1 << 30, "bytes"),
            Fallback::Is("512"),
            "How long a line may be. A longer one is refused, and its connection closed.",
        ),
        key("ack-every-event", Kind::Flag, Fallback::Is("true"), "Whether each line is answered."),
        key(
            "sourceEncoding",
            Kind::Only(&["utf-8"], "bodies are the bytes that were sent"),
            Fallback::Is("utf-8"),
            "How lines are written.",
        ),
    ],
    shared: &[CONNECTIONS],
};

pub(crate) const UDP: Declaration = Declaration {
    role: Role::Source,
    name: "netcatudp",
    aliases: &["org.apache.flume.source.NetcatUdpSource"],
    doc: "Makes an event of each datagram. What channels do not take is lost, and counted: nobody can be told.",
    keys: &[
        key("bind", Kind::Text, Fallback::Required, "The address to listen at."),
        key("port", PORT, Fallback::Required, "The port."),
        key(
            "remoteAddressHeader",
            Kind::Text,
            Fallback::Nothing,
            "A header for the sender's address.",
        ),
    ],
    shared: &[],
};

pub(crate) fn start_tcp(context: SourceContext) -> Starting {
    Box::pin(async move {
        let settings = &context.settings;
        let listener = bind(settings.required("bind"), settings.port("port")).await?;
        let context = Arc::new(context);
        let of_connection = Arc::clone(&context);
        let connection = move |socket, _| serve_lines(socket, Arc::clone(&of_connection));
        Ok(Box::pin(async move { serve(listener, context, connection).await }) as Running)
    })
}

async fn serve_lines(mut socket: TcpStream, context: Arc<SourceContext>) {
    let line_bytes_max = context.settings.size("max-line-length");
    let acknowledges = context.settings.flag("ack-every-event");
    let (reader, mut writer) = socket.split();
    let mut lines = LineReader::new(reader, line_bytes_max);
    loop {
        let line = tokio::select! {
            () = context.stop.wait() => return,
            line = lines.next() => line,
        };
        let Ok(Some(line)) = line else { return };
        let mut events = Vec::new();
        let mut too_long = false;
        let mut next = Some(line);
        while let Some(line) = next {
            match line {
                Line::Whole(line) => events.push(Event::new(line)),
                Line::TooLong(_) => too_long = true,
            }
            let has_room = !too_long && events.len() < context.delivery.batch_max().min(100);
            next = if has_room { lines.ready() } else { None };
        }
        let count = events.len();
        let mut answer = Vec::new();
        if !acknowledges {
            if !events.is_empty() && !context.delivery.insist_or_drop(events, &context.stop).await {
                return;
            }
        } else if !events.is_empty() {
            match context.delivery.deliver(events).await {
                Ok(()) => (0..count).for_each(|_| answer.extend_from_slice(b"OK\n")),
                Err(error) => {
                    context.delivery.drop_events(count, &error);
                    (0..count).for_each(|_| {
                        answer.extend_from_slice(format!("FAILED: {error}\n").as_bytes())
                    });
                }
            }
        }
        if too_long {
            context.delivery.counters().malformed.add(1);
            tracing::warn!(
                source = context.delivery.source(),
                max = line_bytes_max,
                "a line is too long"
            );
            let text = format!(
                "FAILED: Event exceeds the maximum length ({line_bytes_max} chars, including newline)\n"
            );
            answer.extend_from_slice(text.as_bytes());
        }
        if writer.write_all(&answer).await.is_err() || too_long {
            return;
        }
    }
}

pub(crate) fn start_udp(context: SourceContext) -> Starting {
    Box::pin(async move {
        let settings = &context.settings;
        let socket = bind_udp(settings.required("bind"), settings.port("port")).await?;
        Ok(Box::pin(async move {
            let header = context.settings.text("remoteAddressHeader");
            receive(socket, &context, header, |datagram| Some(to_event(datagram))).await;
        }) as Running)
    })
}

fn to_event(datagram: &[u8]) -> Event {
    let line = datagram.strip_suffix(b"\n").unwrap_or(datagram);
    Event::new(without_return(bytes::Bytes::copy_from_slice(line)))
}
