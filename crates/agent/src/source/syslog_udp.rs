//! The source `syslogudp`.

use tokio::net::UdpSocket;

use super::listener::bind_udp;
use super::syslog_tcp::COMMON;
use super::{Running, SourceContext, Starting};
use crate::codec::syslog::{KeptFields, MessageReader, STATUS};
use crate::declaration::{Declaration, Fallback, Kind, PORT, Role, key};
use crate::interceptor::now_ms;

pub(crate) const DECLARATION: Declaration = Declaration {
    role: Role::Source,
    name: "syslogudp",
    aliases: &["org.apache.flume.source.SyslogUDPSource"],
    doc: "Listens for syslog in datagrams, as `syslogtcp` reads it. What channels do not take is lost, and counted: \
          nobody can be told.",
    keys: &[
        key("host", Kind::Text, Fallback::Is("0.0.0.0"), "The address to listen at."),
        key("port", PORT, Fallback::Required, "The port."),
        key(
            "maxsize",
            Kind::Number(10, 65_535, "bytes"),
            Fallback::Is("65535"),
            "How long a message may be.",
        ),
    ],
    shared: &[COMMON],
};

pub(crate) fn start(context: SourceContext) -> Starting {
    Box::pin(async move {
        let settings = &context.settings;
        let socket = bind_udp(settings.required("host"), settings.port("port")).await?;
        Ok(Box::pin(async move { receive(socket, context).await }) as Running)
    })
}

async fn receive(socket: UdpSocket, context: SourceContext) {
    let settings = &context.settings;
    let kept = KeptFields::parse(settings.required("keepFields"));
    let message_bytes_max = settings.size("maxsize");
    let address_header = settings.text("clientIPHeader");
    let batch_max = context.delivery.batch_max().min(100);
    let mut buffer = vec![0; 65_535];
    loop {
        let received = tokio::select! {
            () = context.stop.wait() => return,
            received = socket.recv_from(&mut buffer) => received,
        };
        let mut events = Vec::new();
        let mut next = received.ok();
        while let Some((length, peer)) = next {
            let mut reader = MessageReader::new(message_bytes_max, kept);
            let mut bytes = &buffer[..length.min(message_bytes_max)];
            let event = reader.next(&mut bytes, now_ms()).or_else(|| reader.rest(now_ms()));
            if let Some(mut event) = event {
                if event.headers.get(STATUS).is_some() {
                    context.delivery.counters().malformed.add(1);
                }
                if let Some(header) = address_header {
                    event.headers.set(header, peer.ip().to_string());
                }
                events.push(event);
            }
            let has_room = events.len() < batch_max;
            next = if has_room { socket.try_recv_from(&mut buffer).ok() } else { None };
        }
        let count = events.len();
        if count > 0
            && let Err(error) = context.delivery.deliver(events).await
        {
            context.delivery.drop_events(count, &error);
        }
    }
}
