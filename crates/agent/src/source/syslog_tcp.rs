//! The sources `syslogtcp` and `multiport_syslogtcp`.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::AsyncReadExt;

use super::listener::{CONNECTIONS, bind, keep_certificate, secured, serve, tell_closed};
use super::{Running, SourceContext, Starting};
use crate::codec::syslog::{KeptFields, MessageReader};
use crate::declaration::{Declaration, Fallback, Key, Kind, PORT, Role, key};
use crate::interceptor::now_ms;
use crate::tls::{self, Stream};

pub(super) const COMMON: &[Key] = &[
    key(
        "keepFields",
        Kind::Text,
        Fallback::Is("none"),
        "What of the head stays in the body: `all`, `none`, or some of `priority version timestamp hostname`.",
    ),
    key("clientIPHeader", Kind::Text, Fallback::Nothing, "A header for the client's address."),
    key(
        "clientHostnameHeader",
        Kind::Only(&[], "names are not looked up: use clientIPHeader"),
        Fallback::Nothing,
        "Flume's header for the client's name.",
    ),
];

const EVENT_SIZE: Key = key(
    "eventSize",
    Kind::Number(10, 1 << 26, "bytes"),
    Fallback::Is("2500"),
    "How long a message may be. A longer one becomes several events, with `flume.syslog.status` `Incomplete`.",
);

pub(crate) const ONE: Declaration = Declaration {
    role: Role::Source,
    name: "syslogtcp",
    aliases: &["org.apache.flume.source.SyslogTcpSource"],
    doc: "Listens for syslog by RFC 3164 and RFC 5424: a message a line, or with its length before it (RFC 6587). Facility, severity, time and host become \
          headers; a malformed message is kept, with `flume.syslog.status`. While channels are full, nothing is read. \
          With `ssl` it is syslog over TLS (RFC 5425). \
          A time without a zone is taken for UTC; a fraction of a second does not hide the zone, as it does in Flume.",
    keys: &[
        key("host", Kind::Text, Fallback::Is("0.0.0.0"), "The address to listen at."),
        key("port", PORT, Fallback::Required, "The port."),
        EVENT_SIZE,
    ],
    shared: &[COMMON, CONNECTIONS, tls::OF_SOURCE],
};

pub(crate) const MANY: Declaration = Declaration {
    role: Role::Source,
    name: "multiport_syslogtcp",
    aliases: &["org.apache.flume.source.MultiportSyslogTCPSource"],
    doc: "As `syslogtcp`, on several ports.",
    keys: &[
        key("host", Kind::Text, Fallback::Is("0.0.0.0"), "The address to listen at."),
        key("ports", Kind::Names, Fallback::Required, "The ports."),
        key(
            "portHeader",
            Kind::Text,
            Fallback::Nothing,
            "A header for the port that a message came to.",
        ),
        EVENT_SIZE,
        key(
            "charset.default",
            Kind::Only(&["UTF-8"], "bodies are the bytes that were sent"),
            Fallback::Is("UTF-8"),
            "How messages are written.",
        ),
        key(
            "batchSize",
            Kind::Number(1, 1_000_000, "events"),
            Fallback::Is("100"),
            "How many messages go into channels at once.",
        ),
        key(
            "readBufferSize",
            Kind::Ignored("it is 16 KiB"),
            Fallback::Nothing,
            "The size of Flume's buffer.",
        ),
        key(
            "numProcessors",
            Kind::Ignored("all cores are used"),
            Fallback::Nothing,
            "Flume's threads.",
        ),
    ],
    shared: &[COMMON, CONNECTIONS, tls::OF_SOURCE],
};

/// How many messages of `syslogtcp` go into channels at once.
const BATCH_MAX: usize = 100;

pub(crate) fn start_one(context: SourceContext) -> Starting {
    Box::pin(async move {
        let port = context.settings.port("port");
        start(context, vec![port], None, BATCH_MAX).await
    })
}

pub(crate) fn start_many(context: SourceContext) -> Starting {
    Box::pin(async move {
        let ports = context.settings.names("ports");
        let port = |text: &String| {
            text.parse().map_err(|_| format!("ports has '{text}', which is no port"))
        };
        let ports = ports.iter().map(port).collect::<Result<Vec<u16>, String>>()?;
        let header = context.settings.text("portHeader").map(str::to_owned);
        let batch_max = context.settings.size("batchSize");
        start(context, ports, header, batch_max).await
    })
}

async fn start(
    context: SourceContext,
    ports: Vec<u16>,
    port_header: Option<String>,
    batch_max: usize,
) -> Result<Running, String> {
    let batch_max = context.delivery.batch_max().min(batch_max);
    let tls = tls::of_source(&context.settings, &[])?;
    let context = Arc::new(context);
    let mut listeners = Vec::new();
    for port in ports {
        listeners.push((port, bind(context.settings.required("host"), port).await?));
    }
    Ok(Box::pin(async move {
        let mut served = tokio::task::JoinSet::new();
        for (port, listener) in listeners {
            let stamp = port_header.as_ref().map(|header| (header.clone(), port.to_string()));
            let (of_connection, of_connections) = (Arc::clone(&context), tls.clone());
            let connection = move |socket, peer| {
                let (context, stamp) = (Arc::clone(&of_connection), stamp.clone());
                let tls = of_connections.clone();
                async move {
                    match secured(socket, tls.as_deref(), None).await {
                        Ok(stream) => serve_messages(stream, peer, context, stamp, batch_max).await,
                        Err(error) => tell_closed(&context, peer, &error),
                    }
                }
            };
            let context = Arc::clone(&context);
            served.spawn(async move { serve(listener, context, connection).await });
        }
        let all_served = async { while served.join_next().await.is_some() {} };
        tokio::join!(all_served, keep_certificate(&context, tls));
    }))
}

async fn serve_messages(
    mut stream: Box<dyn Stream>,
    peer: SocketAddr,
    context: Arc<SourceContext>,
    stamp: Option<(String, String)>,
    batch_max: usize,
) {
    let settings = &context.settings;
    let kept = KeptFields::parse(settings.required("keepFields"));
    let mut reader = MessageReader::new(settings.size("eventSize"), kept);
    let address_header = settings.text("clientIPHeader");
    let mut buffer = vec![0; 16 << 10];
    loop {
        let read = tokio::select! {
            () = context.stop.wait() => Ok(0),
            read = stream.read(&mut buffer) => read,
        };
        let read = read.unwrap_or(0);
        let mut bytes = &buffer[..read];
        let is_over = read == 0;
        let mut events = Vec::new();
        loop {
            let event = match is_over {
                true => reader.rest(now_ms()),
                false => reader.next(&mut bytes, now_ms()),
            };
            let is_last = event.is_none();
            if let Some(mut event) = event {
                if event.headers.get(crate::codec::syslog::STATUS).is_some() {
                    context.delivery.counters().malformed.add(1);
                }
                if let Some((header, port)) = &stamp {
                    event.headers.set(header.as_str(), port.as_str());
                }
                if let Some(header) = address_header {
                    event.headers.set(header, peer.ip().to_string());
                }
                events.push(event);
            }
            if events.len() == batch_max || is_last && !events.is_empty() {
                let batch = std::mem::take(&mut events);
                if !context.delivery.insist_or_drop(batch, &context.stop).await {
                    return;
                }
            }
            if is_last {
                break;
            }
        }
        if is_over {
            return;
        }
    }
}
