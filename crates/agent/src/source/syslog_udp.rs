//! The source `syslogudp`.

use super::listener::{bind_udp, receive};
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
        Ok(Box::pin(async move {
            let settings = &context.settings;
            let kept = KeptFields::parse(settings.required("keepFields"));
            let message_bytes_max = settings.size("maxsize");
            let to_event = |datagram: &[u8]| {
                let mut reader = MessageReader::new(message_bytes_max, kept);
                let mut bytes = &datagram[..datagram.len().min(message_bytes_max)];
                let event = reader.next(&mut bytes, now_ms()).or_else(|| reader.rest(now_ms()))?;
                if event.headers.get(STATUS).is_some() {
                    context.delivery.counters().malformed.add(1);
                }
                Some(event)
            };
            receive(socket, &context, settings.text("clientIPHeader"), to_event).await;
        }) as Running)
    })
}
