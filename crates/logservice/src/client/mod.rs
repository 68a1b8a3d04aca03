//! A client of the log service, for command lines: it appends, reads, and asks about logs.
//!
//! It knows as little of gRPC as that takes: requests, replies as they come, and the status at the end.

mod transport;

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Buf as _, Bytes, BytesMut};
use hyper::body::{Body, Frame, Incoming};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper::header::HeaderValue;
use hyper::{HeaderMap, Request};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use logway_client::{BrokerAddress, ClientError, ConnectionOptions, Security, open_stream};
use logway_metadata::sasl::SaslMechanism;
use prost::Message;
use rustls::ClientConfig;
use tokio::sync::mpsc;

use crate::grpc::PREFIX_BYTES;
use crate::grpc::outbound::framed;
use crate::grpc::status::Ended;
use crate::messages::log::{
    Append, AppendReply, AppendRequest, InfoReply, InfoRequest, OpenAppend, ReadReply, ReadRequest,
    append_request,
};
pub use transport::NoHttp2;
use transport::{Transport, TransportEnd};

/// The port that a host alone means.
pub const DEFAULT_PORT: u16 = 4572;

/// The largest reply that is taken: more than any record may have.
const REPLY_BYTES_MAX: usize = 256 << 20;

/// What may come before it is read: a reply, and the next one.
const WINDOW_BYTES: u32 = 2 << 20;

/// What a server sends at once. Each frame costs a head and a round through the library.
const FRAME_BYTES: u32 = 128 << 10;

/// A server that says nothing for so long is asked whether it is there, and has as long to answer.
const PING_INTERVAL: Duration = Duration::from_secs(20);

/// Appends that wait for the connection.
const APPENDS_AHEAD: usize = 16;

/// Why a call does not go on.
#[derive(Debug, thiserror::Error)]
pub enum LogClientError {
    /// There is no connection.
    #[error(transparent)]
    Connect(#[from] ClientError),
    /// The connection broke.
    #[error("the connection to {address} failed: {source}")]
    Broken {
        /// Whom we called.
        address: BrokerAddress,
        /// How.
        source: hyper::Error,
    },
    /// The connection had ended before the call.
    #[error("the connection to {address} has ended")]
    Ended {
        /// Whom we called.
        address: BrokerAddress,
    },
    /// The server speaks something else, or nothing.
    #[error("{address} speaks no HTTP/2: {instead}")]
    NoHttp2 {
        /// Whom we called.
        address: BrokerAddress,
        /// What it did.
        instead: NoHttp2,
    },
    /// The server ended the call with an error.
    #[error("{message}")]
    Refused {
        /// The code of gRPC.
        code: i32,
        /// For a person.
        message: String,
        /// For programs, such as `TOO_STALE`; empty if the server told none.
        reason: String,
        /// What helps, if the server told that.
        remedy: Option<String>,
    },
    /// What came is not what the protocol says.
    #[error("{address} does not speak gRPC as it should: {problem}")]
    Malformed {
        /// Whom we called.
        address: BrokerAddress,
        /// What is wrong.
        problem: String,
    },
    /// The password would travel as it is.
    #[error("the log service asks for the password itself, which would travel in the clear")]
    PasswordInTheClear,
}

impl LogClientError {
    /// Whether it may help to come back.
    pub fn may_pass(&self) -> bool {
        /// `UNAVAILABLE`.
        const UNAVAILABLE: i32 = 14;
        match self {
            LogClientError::Connect(_)
            | LogClientError::Broken { .. }
            | LogClientError::Ended { .. } => true,
            // One that starts or stops says nothing.
            LogClientError::NoHttp2 { instead, .. } => !matches!(instead, NoHttp2::Answered(_)),
            LogClientError::Refused { code, .. } => *code == UNAVAILABLE,
            LogClientError::Malformed { .. } | LogClientError::PasswordInTheClear => false,
        }
    }
}

/// A connection to a node's log service. A hundred calls can be open on it.
#[derive(Debug)]
pub struct LogClient {
    /// None once the connection has ended.
    sender: Option<SendRequest<Requests>>,
    end: TransportEnd,
    address: BrokerAddress,
    client_id: HeaderValue,
    authorization: Option<HeaderValue>,
}

impl LogClient {
    /// Connects.
    ///
    /// # Errors
    ///
    /// What a connection may come to, a server that does not begin to speak HTTP/2 within the time to connect, and a password
    /// that would not be encrypted.
    pub async fn connect(
        address: &BrokerAddress,
        mut options: ConnectionOptions,
    ) -> Result<LogClient, LogClientError> {
        let authorization = authorization(&options.security)?;
        if let Some(config) = &mut options.security.tls {
            let mut of_http2 = ClientConfig::clone(config);
            of_http2.alpn_protocols = vec![b"h2".to_vec()];
            *config = of_http2.into();
        }
        let (stream, watch) = Transport::new(open_stream(address, &options).await?);
        let no_http2 = |instead| LogClientError::NoHttp2 { address: address.clone(), instead };
        let mut handshake = Builder::new(TokioExecutor::new());
        let handshake = handshake
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(4 * WINDOW_BYTES)
            .max_frame_size(FRAME_BYTES)
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_INTERVAL)
            .handshake(TokioIo::new(stream));
        let shaken = handshake.await;
        let (sender, connection) = shaken.map_err(|_| no_http2(NoHttp2::Closed))?;
        // Its end is told to each call.
        tokio::spawn(connection);
        let end = watch.greeted(options.connect_timeout).await.map_err(no_http2)?;
        let client_id = HeaderValue::from_str(&options.client_id);
        let client_id = client_id.unwrap_or_else(|_| HeaderValue::from_static(""));
        Ok(LogClient {
            sender: Some(sender),
            end,
            address: address.clone(),
            client_id,
            authorization,
        })
    }

    /// Reads a partition, until the request's bounds or for ever.
    ///
    /// # Errors
    ///
    /// As [`Replies::next`].
    pub async fn read(
        &mut self,
        request: &ReadRequest,
    ) -> Result<Replies<ReadReply>, LogClientError> {
        self.call("/logway.log.v1.LogService/Read", Requests::one(request)).await
    }

    /// Opens a stream of appends, which ends when what sends them is dropped. What the replies of the server do not allow waits.
    ///
    /// # Errors
    ///
    /// As [`Replies::next`].
    pub async fn append(
        &mut self,
        open: OpenAppend,
    ) -> Result<(AppendSender, Replies<AppendReply>), LogClientError> {
        let (sender, more) = mpsc::channel(APPENDS_AHEAD);
        let open = AppendRequest { request: Some(append_request::Request::Open(open)) };
        let requests = Requests { first: Some(framed(&open)), more: Some(more) };
        let replies = self.call("/logway.log.v1.LogService/Append", requests).await?;
        Ok((AppendSender(sender), replies))
    }

    /// What there is to know of a log.
    ///
    /// # Errors
    ///
    /// As [`Replies::next`].
    pub async fn info(&mut self, log: &str) -> Result<InfoReply, LogClientError> {
        let request = InfoRequest { log: log.to_owned() };
        let requests = Requests::one(&request);
        let mut replies = self.call("/logway.log.v1.LogService/Info", requests).await?;
        let reply = replies.next().await?;
        reply.ok_or_else(|| replies.malformed("a call ended without its reply"))
    }

    async fn call<R: Message + Default>(
        &mut self,
        path: &str,
        requests: Requests,
    ) -> Result<Replies<R>, LogClientError> {
        let address = self.address.clone();
        let malformed =
            |problem: String| LogClientError::Malformed { address: address.clone(), problem };
        let mut call = Request::post(format!("http://{address}{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .header("client-id", self.client_id.clone());
        if let Some(authorization) = &self.authorization {
            call = call.header("authorization", authorization.clone());
        }
        let call = call.body(requests);
        let call = call.map_err(|error| malformed(error.to_string()))?;
        let broken = |source| LogClientError::Broken { address: address.clone(), source };
        let ended = || LogClientError::Ended { address: address.clone() };
        let mut response = pin!(self.sender.as_mut().ok_or_else(ended)?.send_request(call));
        let response = tokio::select! {
            biased;
            response = &mut response => response,
            () = self.end.reached() => {
                // The library loses a call that is sent while the connection ends. The call is found, and ends,
                // when nobody could send another one.
                self.sender = None;
                response.await
            }
        };
        let response = response.map_err(broken)?;
        let (head, body) = response.into_parts();
        if !head.status.is_success() {
            return Err(malformed(format!("HTTP status {}", head.status)));
        }
        // A call that fails at once says so in its head.
        match Ended::of(&head.headers) {
            Some(ended) if !ended.is_ok() => Err(refused(ended)),
            _ => Ok(Replies {
                body,
                received: BytesMut::new(),
                address,
                _reply: std::marker::PhantomData,
            }),
        }
    }
}

fn refused(ended: Ended) -> LogClientError {
    let Ended { code, message, reason, remedy } = ended;
    LogClientError::Refused { code, message, reason, remedy }
}

/// Who the client is. The password itself is told, so that the connection must be encrypted, unless the user asks for what tells it
/// as it is anyway.
fn authorization(security: &Security) -> Result<Option<HeaderValue>, LogClientError> {
    let Some(password) = &security.password else { return Ok(None) };
    let text = match password.mechanism {
        SaslMechanism::OauthBearer => format!("Bearer {}", password.password),
        SaslMechanism::Scram(_) if security.tls.is_none() => {
            return Err(LogClientError::PasswordInTheClear);
        }
        SaslMechanism::Scram(_) | SaslMechanism::Plain => {
            let both = format!("{}:{}", password.user, password.password);
            format!("Basic {}", STANDARD.encode(both))
        }
    };
    let mut value = HeaderValue::from_str(&text).ok();
    if let Some(value) = &mut value {
        value.set_sensitive(true);
    }
    Ok(value)
}

/// The replies of a call.
#[derive(Debug)]
pub struct Replies<R> {
    body: Incoming,
    received: BytesMut,
    address: BrokerAddress,
    _reply: std::marker::PhantomData<R>,
}

impl<R: Message + Default> Replies<R> {
    /// The next reply; `None` where the call has ended well.
    ///
    /// # Errors
    ///
    /// [`LogClientError`], at the end of the call.
    pub async fn next(&mut self) -> Result<Option<R>, LogClientError> {
        loop {
            if let Some(reply) = self.received_reply()? {
                return Ok(Some(reply));
            }
            let frame = poll_fn(|context| Pin::new(&mut self.body).poll_frame(context)).await;
            let frame = frame.transpose().map_err(|source| LogClientError::Broken {
                address: self.address.clone(),
                source,
            })?;
            let Some(frame) = frame else {
                return Err(self.malformed("a call ended without a status"));
            };
            match frame.into_data() {
                Ok(data) => self.received.extend_from_slice(&data),
                Err(frame) => {
                    let trailers = frame.into_trailers().unwrap_or_else(|_| HeaderMap::new());
                    return match Ended::of(&trailers) {
                        Some(ended) if ended.is_ok() => Ok(None),
                        Some(ended) => Err(refused(ended)),
                        None => Err(self.malformed("a call ended without a status")),
                    };
                }
            }
        }
    }

    /// A reply that is there as a whole.
    fn received_reply(&mut self) -> Result<Option<R>, LogClientError> {
        let Some((&[flag], rest)) = self.received.split_first_chunk() else { return Ok(None) };
        let Some(length) = rest.first_chunk().map(|it| u32::from_be_bytes(*it)) else {
            return Ok(None);
        };
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if flag != 0 || length > REPLY_BYTES_MAX {
            return Err(self.malformed(&format!("a reply of {length} bytes, with flag {flag}")));
        }
        if rest.len() < PREFIX_BYTES - 1 + length {
            return Ok(None);
        }
        let mut message = self.received.split_to(PREFIX_BYTES + length).freeze();
        message.advance(PREFIX_BYTES);
        R::decode(message).map(Some).map_err(|error| self.malformed(&error.to_string()))
    }

    fn malformed(&self, problem: &str) -> LogClientError {
        LogClientError::Malformed { address: self.address.clone(), problem: problem.to_owned() }
    }
}

/// Sends appends on a stream.
#[derive(Debug)]
pub struct AppendSender(mpsc::Sender<Bytes>);

impl AppendSender {
    /// Sends an append when there is room for it. Whether the stream goes on: why it does not, its replies say.
    pub async fn send(&self, append: Append) -> bool {
        let append = AppendRequest { request: Some(append_request::Request::Append(append)) };
        self.0.send(framed(&append)).await.is_ok()
    }
}

/// The messages of a request.
#[derive(Debug)]
struct Requests {
    first: Option<Bytes>,
    more: Option<mpsc::Receiver<Bytes>>,
}

impl Requests {
    fn one(request: &impl Message) -> Requests {
        Requests { first: Some(framed(request)), more: None }
    }
}

impl Body for Requests {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let requests = self.get_mut();
        if let Some(first) = requests.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        match &mut requests.more {
            Some(more) => more.poll_recv(context).map(|next| next.map(|it| Ok(Frame::data(it)))),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.more.is_none()
    }
}
