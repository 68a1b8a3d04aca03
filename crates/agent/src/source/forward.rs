//! The source `forward`: Fluentd's protocol, which Fluent Bit and the libraries of both speak.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use logway_log::random_uuid;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::listener::{BUFFERS, CONNECTIONS, start_calls};
use super::{SourceContext, Starting};
use crate::codec::budget::{Budget, Share};
use crate::codec::forward::{Form, Gate, Greeting, acknowledgement};
use crate::codec::msgpack::Scanner;
use crate::declaration::{Declaration, Fallback, Kind, PORT, Role, key};
use crate::settings::Settings;
use crate::tls::{self, Stream};

pub(crate) const DECLARATION: Declaration = Declaration {
    role: Role::Source,
    name: "forward",
    aliases: &["fluent"],
    doc: "Listens for Fluentd, Fluent Bit and their libraries (the forward protocol, in all its modes). A chunk that wants to \
          be acknowledged is, when its events are in their channels. While those are full, nothing is read. The tag is the \
          header `tag`, and the time the headers `timestamp` and, in nanoseconds, `forward.timeNs`.",
    keys: &[
        key("bind", Kind::Text, Fallback::Is("0.0.0.0"), "The address to listen at."),
        key("port", PORT, Fallback::Is("24224"), "The port."),
        key(
            "messageKey",
            Kind::Text,
            Fallback::Nothing,
            "The field of records that becomes the body, such as `log` or `message`; the others become headers then. Without \
             it the body is the record in JSON, where bytes that are no UTF-8 are replaced.",
        ),
        key(
            "sharedKey",
            Kind::Text,
            Fallback::Nothing,
            "What clients have to know (`shared_key`). They prove it, and do not send it.",
        ),
        key(
            "users.*",
            Kind::Text,
            Fallback::Nothing,
            "`users.NAME`: a user's password. If there are users, clients have to be one. Needs `sharedKey`.",
        ),
        key(
            "selfHostname",
            Kind::Text,
            Fallback::Nothing,
            "The name that clients are told, which has to differ from theirs; the host's if it is not set.",
        ),
    ],
    shared: &[tls::OF_SOURCE, CONNECTIONS, BUFFERS],
};

/// How long a handshake may take, and a message of it may be.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
const PING_BYTES_MAX: usize = 16 << 10;

/// How much is read at once.
const PIECE_BYTES: usize = 32 << 10;

pub(crate) fn start(context: SourceContext) -> Starting {
    let settings = &context.settings;
    if settings.below("users.").next().is_some() && !settings.is_set("sharedKey") {
        return Box::pin(async { Err("there are users, and no sharedKey".to_owned()) });
    }
    start_calls(context, None, &[], serve_client)
}

fn gate(settings: &Settings) -> Option<Gate> {
    let shared_key = settings.text("sharedKey")?.to_owned();
    let users = settings.below("users.");
    let users = users.map(|(name, password)| (name.to_owned(), password.to_owned())).collect();
    let own = || rustix::system::uname().nodename().to_string_lossy().into_owned();
    let hostname = settings.text("selfHostname").map_or_else(own, str::to_owned);
    Some(Gate { shared_key, users, hostname })
}

/// What comes from a client, message by message.
struct Client {
    stream: Box<dyn Stream>,
    buffer: BytesMut,
    scanner: Scanner,
}

impl Client {
    /// The next message, of so many bytes at most; `None` at the end. What has come is charged. Cancel safe.
    async fn next(&mut self, max: usize, share: &mut Share) -> io::Result<Option<BytesMut>> {
        loop {
            if let Some(length) = self.scanner.scan(&self.buffer).map_err(io::Error::other)? {
                return Ok(Some(self.buffer.split_to(length)));
            }
            if self.buffer.len() > max {
                let text = format!("a message is above {max} bytes (maxMessageBytes)");
                return Err(io::Error::other(text));
            }
            self.buffer.reserve(PIECE_BYTES);
            let mut limited = (&mut self.stream).take(PIECE_BYTES as u64);
            let read = match limited.read_buf(&mut self.buffer).await {
                // Who leaves TLS without a farewell has come to an end like any other.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => 0,
                outcome => outcome?,
            };
            match read {
                0 if self.buffer.has_remaining() => return Err(io::ErrorKind::UnexpectedEof.into()),
                0 => return Ok(None),
                read => share.grow(read).map_err(io::Error::other)?,
            }
        }
    }

    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await?;
        self.stream.flush().await
    }

    async fn shake_hands(&mut self, gate: &Gate, share: &mut Share) -> io::Result<()> {
        let random = || random_uuid().0;
        let greeting = Greeting { nonce: random(), salt: random() };
        self.write(&gate.greet(&greeting)).await?;
        let ping = self.next(PING_BYTES_MAX, share).await?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let (pong, verdict) = gate.judge(&ping, &greeting);
        self.write(&pong).await?;
        verdict.map_err(io::Error::other)
    }
}

async fn serve_client(
    stream: Box<dyn Stream>,
    context: Arc<SourceContext>,
    budget: Arc<Budget>,
) -> io::Result<()> {
    let settings = &context.settings;
    let max = settings.size("maxMessageBytes");
    let form = Form {
        message_key: settings.text("messageKey").map(str::to_owned),
        unpacked_bytes_max: max,
    };
    let mut client = Client { stream, buffer: BytesMut::new(), scanner: Scanner::default() };
    let mut share = budget.share();
    if let Some(gate) = gate(settings) {
        let shaken = timeout(HANDSHAKE_MAX, client.shake_hands(&gate, &mut share)).await;
        shaken.map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "no handshake in time"))??;
    }
    loop {
        share.clear();
        share.grow(client.buffer.len()).map_err(io::Error::other)?;
        let message = tokio::select! {
            () = context.stop.wait() => return Ok(()),
            message = client.next(max, &mut share) => message?,
        };
        let Some(bytes) = message else { return Ok(()) };
        let message = form.read(&bytes, &mut share).map_err(io::Error::other)?;
        drop(bytes);
        let delivery = &context.delivery;
        match (message.chunk, message.events) {
            (None, events) if events.is_empty() => {}
            (None, events) => _ = delivery.insist_or_drop(events, &context.stop).await,
            (Some(chunk), events) => {
                // What is not acknowledged is sent again.
                if !events.is_empty() && !delivery.insist(events, &context.stop).await {
                    return Ok(());
                }
                client.write(&acknowledgement(&chunk)).await?;
            }
        }
    }
}
