//! A node with its log service, and a client of it.

// Not every file of tests needs all of it.
#![allow(dead_code, unreachable_pub)]

use std::convert::Infallible;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use hyper::body::{Body, Frame, Incoming};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper::{HeaderMap, Request};
use hyper_util::rt::{TokioExecutor, TokioIo};
use logway_log::random_uuid;
use logway_logservice::messages::log::append_reply::Reply as AppendReplyKind;
use logway_logservice::messages::log::append_request::Request as AppendRequestKind;
use logway_logservice::messages::log::{
    Append, AppendReply, AppendRequest, Appended, NewRecord, OpenAppend, ReadReply, ReadRequest,
};
use logway_logservice::{LogListeners, LogServer};
use logway_metadata::controller::{CreateTopics, NewTopic};
use logway_metadata::settings::BrokerSettings;
use logway_model::{PartitionId, TopicId};
use logway_node::Node;
use logway_node::cluster::ClusterOptions;
use logway_node::log_levels::LogLevels;
use logway_node::streams::anywhere::{Partition, Until};
use prometheus_client::registry::Registry;
use prost::Message;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

/// Longer than anything takes that goes well.
pub const UNTIL_MAX: Duration = Duration::from_secs(60);

/// A node with its log service.
pub struct Door {
    pub node: Arc<Node>,
    pub server: LogServer,
    registry: Registry,
}

impl Door {
    pub async fn open(dir: &Path) -> Door {
        Door::open_with(dir, &[]).await
    }

    pub async fn open_with(dir: &Path, more: &[(&str, &str)]) -> Door {
        Door::open_in(dir, more, None).await
    }

    /// The same, of a node of a cluster.
    pub async fn open_in(
        dir: &Path,
        more: &[(&str, &str)],
        cluster: Option<ClusterOptions>,
    ) -> Door {
        let dir = dir.to_str().expect("a temporary directory's name is text");
        let fixed = [
            ("log.dirs", dir),
            ("logservice.listen", "127.0.0.1:0"),
            ("logservice.logspec.listen", "127.0.0.1:0=spec"),
        ];
        let settings = fixed.iter().chain(more);
        let settings = settings.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let settings = BrokerSettings::new(settings).expect("the settings are valid");
        let bound = LogListeners::bind(&settings).await.expect("any port will do");
        let bound = bound.expect("was asked for");
        let mut registry = Registry::default();
        let node = Node::start(settings, cluster, LogLevels::default(), &mut registry).await;
        let node = node.expect("starts");
        let server = LogServer::start(Arc::clone(&node), bound, &mut registry);
        Door { node, server, registry }
    }

    /// How many bytes of a log's records the node's own replicas have given to readers.
    pub fn bytes_out(&self, log: &str) -> u64 {
        self.counted(&format!("logway_topic_bytes_out_total{{topic=\"{log}\"}}"))
    }

    /// What a metric has counted.
    pub fn counted(&self, metric: &str) -> u64 {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).expect("is text");
        let value = text.lines().find_map(|line| line.strip_prefix(metric)?.strip_prefix(' '));
        value.map_or(0, |value| value.parse().expect("is a number"))
    }

    /// Appends a batch as it is, as Kafka clients do.
    pub async fn append_batch(&self, log: &str, batch: Bytes) {
        let topic = self.node.image().topic(log).expect("is there").id;
        let batches = vec![(Partition { topic, number: PartitionId(0) }, batch)];
        let outcome =
            self.node.append_anywhere(batches, Until::Committed, Instant::now() + UNTIL_MAX).await;
        outcome.into_iter().next().expect("one").expect("is appended");
    }

    pub async fn create(&self, name: &str, partitions: i32, configs: &[(&str, &str)]) {
        self.create_replicated(name, (partitions, 1), configs).await;
    }

    pub async fn create_replicated(
        &self,
        name: &str,
        (partitions, replicas): (i32, i16),
        configs: &[(&str, &str)],
    ) {
        let topic = NewTopic {
            name: name.to_owned(),
            id: TopicId(random_uuid()),
            num_partitions: partitions,
            replication_factor: replicas,
            assignments: Vec::new(),
            configs: configs
                .iter()
                .map(|(name, value)| ((*name).to_owned(), Some((*value).to_owned())))
                .collect(),
        };
        let command = CreateTopics { topics: vec![topic], validate_only: false };
        self.node.submit(command, None, None).await.expect("is committed");
    }

    pub async fn client(&self) -> Client {
        let socket = TcpStream::connect(self.server.addresses()[0]).await.expect("connects");
        Client::over(socket).await
    }

    /// A client at another address of this machine.
    pub async fn client_from(&self, address: [u8; 4]) -> Client {
        let socket = TcpSocket::new_v4().expect("there are sockets");
        socket.bind((address, 0).into()).expect("the machine has all of 127.0.0.0/8");
        let socket = socket.connect(self.server.addresses()[0]).await.expect("connects");
        Client::over(socket).await
    }

    /// A client that takes little of what it does not ask for.
    pub async fn slow_client(&self) -> Client {
        const WINDOW_BYTES: u32 = 65_535;
        let socket = TcpStream::connect(self.server.addresses()[0]).await.expect("connects");
        let mut builder = Builder::new(TokioExecutor::new());
        builder
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES);
        Client::over_with(socket, &builder).await
    }

    pub async fn logspec_client(&self) -> Client {
        let socket = TcpStream::connect(self.server.logspec_addresses()[0]).await;
        Client::over(socket.expect("connects")).await
    }

    pub async fn close(self) {
        self.node.begin_stop();
        self.server.stop().await;
        self.node.stop().await.expect("stops cleanly");
    }
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    pub code: i32,
    pub message: String,
    /// The details, as text somewhere in them.
    pub details: String,
}

impl Ended {
    fn of(trailers: &HeaderMap) -> Ended {
        let text = |name: &str| {
            let value = trailers.get(name).map(|value| value.to_str().expect("is text"));
            value.unwrap_or_default().to_owned()
        };
        let details = STANDARD_NO_PAD.decode(text("grpc-status-details-bin")).expect("base64");
        Ended {
            code: text("grpc-status").parse().expect("a call has a status"),
            message: text("grpc-message"),
            details: String::from_utf8_lossy(&details).into_owned(),
        }
    }
}

/// The messages that a client sends.
pub struct Sending(mpsc::UnboundedReceiver<Bytes>);

impl Body for Sending {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// A client, on a connection of its own.
pub struct Client {
    sender: SendRequest<Sending>,
    pub headers: Vec<(&'static str, String)>,
}

impl Client {
    pub async fn over<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(socket: S) -> Client {
        Client::over_with(socket, &Builder::new(TokioExecutor::new())).await
    }

    /// The same, over HTTP/2 as `builder` has it.
    pub async fn over_with<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        socket: S,
        builder: &Builder<TokioExecutor>,
    ) -> Client {
        let (sender, connection) =
            builder.handshake(TokioIo::new(socket)).await.expect("shakes hands");
        tokio::spawn(connection);
        Client { sender, headers: Vec::new() }
    }

    pub async fn call(&mut self, path: &str) -> Call {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut request = Request::post(format!("http://logway{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        let request = request.body(Sending(receiver)).expect("is one");
        let response = Box::pin(self.sender.send_request(request));
        Call {
            sender: Some(sender),
            response: Some(response),
            body: None,
            received: BytesMut::new(),
        }
    }

    /// A call with one message each way.
    pub async fn unary<R: Message + Default>(
        &mut self,
        path: &str,
        message: &impl Message,
    ) -> Result<R, Ended> {
        let mut call = self.call(path).await;
        call.send(message);
        call.close();
        let reply = call.next().await?;
        assert_eq!(call.ended().await.code, 0);
        Ok(reply.expect("there is one"))
    }

    pub async fn open_append(&mut self, open: OpenAppend) -> Appending {
        let call = self.call("/logway.log.v1.LogService/Append").await;
        call.send(&AppendRequest { request: Some(AppendRequestKind::Open(open)) });
        Appending(call)
    }

    pub async fn read(&mut self, request: ReadRequest) -> Call {
        let mut call = self.call("/logway.log.v1.LogService/Read").await;
        call.send(&request);
        call.close();
        call
    }

    /// Reads to the end, and gives the values.
    pub async fn values(&mut self, log: &str, partition: u32) -> Vec<String> {
        let request = ReadRequest {
            log: log.to_owned(),
            partition,
            until_end: true,
            ..ReadRequest::default()
        };
        let mut call = self.read(request).await;
        let mut values = Vec::new();
        while let Some(reply) = call.next::<ReadReply>().await.expect("can be read") {
            values.extend(reply.records.into_iter().map(|record| text(record.value)));
        }
        values
    }
}

pub fn text(bytes: Option<Bytes>) -> String {
    String::from_utf8(bytes.expect("is there").to_vec()).expect("is text")
}

type Response = Pin<Box<dyn Future<Output = hyper::Result<hyper::Response<Incoming>>> + Send>>;

/// A call under way.
pub struct Call {
    sender: Option<mpsc::UnboundedSender<Bytes>>,
    response: Option<Response>,
    body: Option<Incoming>,
    received: BytesMut,
}

impl Call {
    pub fn send(&self, message: &impl Message) {
        let mut frame = BytesMut::new();
        frame.put_u8(0);
        frame.put_u32(u32::try_from(message.encoded_len()).expect("is small"));
        message.encode_raw(&mut frame);
        self.send_raw(frame.freeze());
    }

    pub fn send_raw(&self, bytes: Bytes) {
        let sender = self.sender.as_ref().expect("it is not closed");
        // A call that has ended takes nothing more.
        _ = sender.send(bytes);
    }

    /// Nothing more is sent.
    pub fn close(&mut self) {
        self.sender = None;
    }

    /// The next message; `None` where the call has ended well.
    pub async fn next<M: Message + Default>(&mut self) -> Result<Option<M>, Ended> {
        timeout(UNTIL_MAX, self.next_in_time()).await.expect("comes in time")
    }

    async fn next_in_time<M: Message + Default>(&mut self) -> Result<Option<M>, Ended> {
        loop {
            if self.received.len() >= 5 {
                let length = (&self.received[1..5]).get_u32() as usize;
                if self.received.len() >= 5 + length {
                    let mut frame = self.received.split_to(5 + length).freeze();
                    frame.advance(5);
                    return Ok(Some(M::decode(frame).expect("is such a message")));
                }
            }
            match self.frame().await {
                Ok(data) => self.received.extend_from_slice(&data),
                Err(Ended { code: 0, .. }) => {
                    assert!(self.received.is_empty(), "it ends within a message");
                    return Ok(None);
                }
                Err(ended) => return Err(ended),
            }
        }
    }

    /// Waits until a message comes, and takes no more than its beginning.
    pub async fn begun(&mut self) {
        let data = timeout(UNTIL_MAX, self.frame()).await.expect("in time").expect("goes on");
        self.received.extend_from_slice(&data);
    }

    async fn frame(&mut self) -> Result<Bytes, Ended> {
        if let Some(response) = self.response.take() {
            let response = response.await.expect("is answered");
            self.body = Some(response.into_body());
        }
        let body = self.body.as_mut().expect("there is one");
        let frame = std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await;
        let frame = frame.expect("a call has trailers").expect("is not broken off");
        frame
            .into_data()
            .map_err(|frame| Ended::of(frame.trailers_ref().expect("there is nothing else")))
    }

    /// How it ended; messages that came before are passed over.
    pub async fn ended(&mut self) -> Ended {
        let ending = async {
            loop {
                if let Err(ended) = self.frame().await {
                    return ended;
                }
            }
        };
        timeout(UNTIL_MAX, ending).await.expect("ends in time")
    }
}

/// A stream of appends.
pub struct Appending(pub Call);

impl Appending {
    pub async fn opened(&mut self) -> logway_logservice::messages::log::AppendOpened {
        match self.reply().await {
            AppendReplyKind::Opened(opened) => opened,
            other => panic!("{other:?}"),
        }
    }

    pub fn append(&self, append: Append) {
        self.0.send(&AppendRequest { request: Some(AppendRequestKind::Append(append)) });
    }

    pub async fn reply(&mut self) -> AppendReplyKind {
        let reply: Option<AppendReply> = self.0.next().await.expect("goes on");
        reply.and_then(|reply| reply.reply).expect("there is one")
    }

    pub async fn appended(&mut self) -> Appended {
        match self.reply().await {
            AppendReplyKind::Appended(appended) => appended,
            other => panic!("{other:?}"),
        }
    }
}

pub fn record(value: impl Into<String>) -> NewRecord {
    NewRecord { value: Some(value.into().into()), ..NewRecord::default() }
}

pub fn append(log: &str, sequence: u64, values: &[&str]) -> Append {
    Append {
        sequence,
        log: log.to_owned(),
        to: None,
        records: values.iter().map(|value| record(*value)).collect(),
    }
}
