//! A connection that many callers can use at once.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use logway_wire::{ApiKey, Request, VersionRange};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::frame::{FrameReader, FrameWriter};
use crate::in_flight::{InFlight, Reply};
use crate::raw_connection::{decode, encode};
use crate::{
    ApiVersions, BrokerAddress, ClientError, ConnectionFailure, ConnectionOptions, RawConnection,
};

/// How many requests may wait to be written.
const QUEUED_REQUESTS_MAX: usize = 64;

/// One TCP connection with pipelined requests; clones share it, and the last one closes it.
///
/// Requests are written in the order of the calls of [`Connection::send`] and answered in that
/// order. A request that is not answered in time breaks the connection, as the responses after it
/// could not come either: then all that waits fails, and so does every later call.
#[derive(Debug, Clone)]
pub struct Connection {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    address: BrokerAddress,
    versions: ApiVersions,
    options: ConnectionOptions,
    next_correlation_id: AtomicI32,
    in_flight: Arc<InFlight>,
    queue: mpsc::Sender<Queued>,
    tasks: [JoinHandle<()>; 2],
}

/// A frame on its way to the writer task.
#[derive(Debug)]
struct Queued {
    frame: Bytes,
    correlation_id: i32,
    reply: Reply,
    /// Whether a response will come; if not, `reply` gets an empty one once the frame is written.
    is_answered: bool,
}

impl Drop for Shared {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Connection {
    /// Connects and negotiates versions; see [`RawConnection::open`].
    pub async fn open(
        address: &BrokerAddress,
        options: &ConnectionOptions,
    ) -> Result<Connection, ClientError> {
        RawConnection::open(address, options).await.map(Connection::start)
    }

    /// Gives a raw connection, on which no response may be due, its two tasks.
    pub fn start(raw: RawConnection) -> Connection {
        let options = raw.options().clone();
        let RawConnection { reader, writer, versions, address, .. } = raw;
        let in_flight = Arc::new(InFlight::default());
        let (queue, queued) = mpsc::channel(QUEUED_REQUESTS_MAX);
        let tasks = [
            tokio::spawn(read_responses(reader, Arc::clone(&in_flight))),
            tokio::spawn(write_requests(writer, queued, Arc::clone(&in_flight))),
        ];
        let next_correlation_id = AtomicI32::new(1);
        let shared =
            Shared { address, versions, options, next_correlation_id, in_flight, queue, tasks };
        Connection { shared: Arc::new(shared) }
    }

    /// Whom this connects to.
    pub fn address(&self) -> &BrokerAddress {
        &self.shared.address
    }

    /// What the broker announced.
    pub fn versions(&self) -> &ApiVersions {
        &self.shared.versions
    }

    /// Whether the connection has failed.
    pub fn is_broken(&self) -> bool {
        self.shared.in_flight.failure().is_some()
    }

    /// Asks at the highest version that both sides speak, and waits for the answer.
    pub async fn call<R: Request>(&self, request: &R) -> Result<R::Response, ClientError> {
        let version = self.version_for::<R>(i16::MAX)?;
        self.send(request, version).await?.response().await
    }

    /// The highest version of `R` that both sides speak, up to `version_max`.
    ///
    /// # Errors
    ///
    /// [`ClientError::Unsupported`] when there is none.
    pub fn version_for<R: Request>(&self, version_max: i16) -> Result<i16, ClientError> {
        self.version_between::<R>(R::VALID_VERSIONS.min, version_max)
    }

    /// The same, and not below `version_min`.
    pub(crate) fn version_between<R: Request>(
        &self,
        version_min: i16,
        version_max: i16,
    ) -> Result<i16, ClientError> {
        let highest = self.shared.versions.highest_common::<R>(version_max);
        highest.filter(|version| *version >= version_min).ok_or_else(|| ClientError::Unsupported {
            address: self.shared.address.clone(),
            api: R::API_KEY.name(),
            ours: VersionRange { min: version_min, ..R::VALID_VERSIONS },
            announced: self.shared.versions.announced(R::API_KEY),
        })
    }

    /// Queues a request and returns what will be its response, so that others can follow it.
    ///
    /// The answer is waited for at most [`ConnectionOptions::request_timeout`], beginning when
    /// [`PendingCall::response`] is called.
    pub async fn send<R: Request>(
        &self,
        request: &R,
        version: i16,
    ) -> Result<PendingCall<R>, ClientError> {
        let correlation_id = self.next_correlation_id();
        let frame = encode(request, version, correlation_id, &self.shared.options.client_id)?;
        let response = self.send_encoded(R::API_KEY, correlation_id, frame).await?;
        Ok(PendingCall { response, version, request: PhantomData })
    }

    /// Queues a request that gets no response: a Produce with acks 0. The pending response is an
    /// empty frame that comes once the request is handed to the system.
    pub async fn send_unanswered<R: Request>(
        &self,
        request: &R,
        version: i16,
    ) -> Result<PendingResponse, ClientError> {
        let correlation_id = self.next_correlation_id();
        let frame = encode(request, version, correlation_id, &self.shared.options.client_id)?;
        self.enqueue(R::API_KEY, correlation_id, frame, false).await
    }

    /// Queues a frame that the caller has encoded, length in front, with the correlation id that
    /// it holds. The id should come from [`Connection::next_correlation_id`].
    pub async fn send_encoded(
        &self,
        api_key: ApiKey,
        correlation_id: i32,
        frame: Bytes,
    ) -> Result<PendingResponse, ClientError> {
        self.enqueue(api_key, correlation_id, frame, true).await
    }

    /// A correlation id that no other request in flight has.
    pub fn next_correlation_id(&self) -> i32 {
        self.shared.next_correlation_id.fetch_add(1, Ordering::Relaxed)
    }

    async fn enqueue(
        &self,
        api_key: ApiKey,
        correlation_id: i32,
        frame: Bytes,
        is_answered: bool,
    ) -> Result<PendingResponse, ClientError> {
        let (reply, answer) = oneshot::channel();
        let queued = Queued { frame, correlation_id, reply, is_answered };
        if self.shared.queue.send(queued).await.is_err() {
            return Err(ClientError::Connection {
                address: self.shared.address.clone(),
                api: api_key.name(),
                failure: self.failure(),
            });
        }
        Ok(PendingResponse {
            connection: self.clone(),
            api: api_key.name(),
            patience: self.shared.options.request_timeout,
            answer,
        })
    }

    /// Why the connection is of no use any more.
    fn failure(&self) -> ConnectionFailure {
        self.shared.in_flight.failure().unwrap_or(ConnectionFailure::GivenUp)
    }
}

/// A response that has not come yet, of a request sent by [`Connection::send_encoded`].
#[derive(Debug)]
pub struct PendingResponse {
    connection: Connection,
    api: &'static str,
    patience: Duration,
    answer: oneshot::Receiver<Result<Bytes, ConnectionFailure>>,
}

impl PendingResponse {
    /// Waits longer than for an ordinary request, because the broker was asked to.
    #[must_use]
    pub fn with_extra_patience(mut self, extra: Duration) -> PendingResponse {
        self.patience += extra;
        self
    }

    /// Waits for the response frame, without its length but with its header.
    pub async fn frame(self) -> Result<Bytes, ClientError> {
        let PendingResponse { connection, api, patience, answer } = self;
        let failure = match timeout(patience, answer).await {
            Ok(Ok(Ok(frame))) => return Ok(frame),
            Ok(Ok(Err(failure))) => failure,
            Ok(Err(_)) => connection.failure(),
            Err(_) => {
                let failure = ConnectionFailure::TimedOut(patience);
                connection.shared.in_flight.fail(failure.clone());
                failure
            }
        };
        Err(ClientError::Connection { address: connection.address().clone(), api, failure })
    }
}

/// A typed response that has not come yet.
#[derive(Debug)]
pub struct PendingCall<R> {
    response: PendingResponse,
    version: i16,
    request: PhantomData<fn() -> R>,
}

impl<R: Request> PendingCall<R> {
    /// See [`PendingResponse::with_extra_patience`].
    #[must_use]
    pub fn with_extra_patience(mut self, extra: Duration) -> PendingCall<R> {
        self.response = self.response.with_extra_patience(extra);
        self
    }

    /// Waits for the response and decodes it.
    pub async fn response(self) -> Result<R::Response, ClientError> {
        let connection = self.response.connection.clone();
        let frame = self.response.frame().await?;
        let limit = connection.shared.options.response_bytes_max;
        decode::<R>(frame, self.version, limit, connection.address())
    }
}

async fn read_responses(mut reader: FrameReader, in_flight: Arc<InFlight>) {
    loop {
        let answered = match reader.read_frame().await {
            Ok(frame) => in_flight.answer(frame),
            Err(failure) => Err(failure),
        };
        if let Err(failure) = answered {
            return in_flight.fail(failure);
        }
    }
}

async fn write_requests(
    mut writer: FrameWriter,
    mut queued: mpsc::Receiver<Queued>,
    in_flight: Arc<InFlight>,
) {
    let mut burst = Vec::new();
    // After a failure the loop goes on, so that what is still queued learns of it.
    while queued.recv_many(&mut burst, QUEUED_REQUESTS_MAX).await > 0 {
        write_burst(&mut writer, &mut burst, &in_flight).await;
    }
}

/// Writes what was queued, with one flush at the end.
async fn write_burst(writer: &mut FrameWriter, burst: &mut Vec<Queued>, in_flight: &InFlight) {
    let mut unanswered = Vec::new();
    for queued in burst.drain(..) {
        if let Some(failure) = in_flight.failure() {
            drop(queued.reply.send(Err(failure)));
            continue;
        }
        match queued.is_answered {
            true => in_flight.expect(queued.correlation_id, queued.reply),
            false => unanswered.push(queued.reply),
        }
        if let Err(failure) = writer.write_frame(&queued.frame).await {
            in_flight.fail(failure);
        }
    }
    if let Err(failure) = writer.flush().await {
        in_flight.fail(failure);
    }
    for reply in unanswered {
        drop(reply.send(in_flight.failure().map_or(Ok(Bytes::new()), Err)));
    }
}
