//! A broker that does what a test says.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use logway_client::{BrokerAddress, Client, ClientOptions, ConnectionOptions};
use logway_model::{ErrorCode, TopicName, Uuid};
use logway_wire::messages::api_versions_response::ApiVersion;
use logway_wire::messages::find_coordinator_response::Coordinator;
use logway_wire::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use logway_wire::messages::{ApiVersionsResponse, FindCoordinatorResponse, MetadataResponse};
use logway_wire::{
    ApiKey, Decoder, Request, Response, WireString, decode_request_header, encode_response,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// The topic that the fake broker knows, and its id.
pub(crate) const TOPIC: &str = "t";
pub(crate) const TOPIC_ID: Uuid = Uuid([7; 16]);

/// A request as the broker read it.
pub(crate) struct Asked {
    pub(crate) api_key: ApiKey,
    pub(crate) version: i16,
    pub(crate) correlation_id: i32,
    /// Which connection it came over, from 0.
    pub(crate) connection: usize,
    decoder: Decoder,
}

impl Asked {
    /// The request itself.
    pub(crate) fn request<R: Request>(&self) -> R {
        assert_eq!(R::API_KEY, self.api_key);
        R::decode(&mut self.decoder.clone(), self.version).expect("our own request")
    }

    /// The frame of a response.
    pub(crate) fn frame<R: Response>(&self, response: &R) -> Bytes {
        assert_eq!(R::API_KEY, self.api_key);
        let frame = encode_response(self.correlation_id, self.version, response);
        frame.expect("a response of this version").bytes
    }

    /// A good answer.
    pub(crate) fn answer<R: Response>(&self, response: &R) -> Action {
        Action::Send(self.frame(response))
    }
}

/// What to do about a request.
pub(crate) enum Action {
    /// Sends bytes, frame length included.
    Send(Bytes),
    /// Sends bytes one by one.
    Trickle(Bytes),
    /// Sends bytes and then closes the connection.
    SendAndClose(Bytes),
    /// Closes the connection.
    Close,
    /// Does nothing.
    Ignore,
    /// What a well-behaved broker with one topic would do; only for ApiVersions, Metadata and
    /// FindCoordinator.
    Usual,
}

/// Serves a script until it is dropped.
pub(crate) struct FakeBroker {
    pub(crate) address: BrokerAddress,
    task: JoinHandle<()>,
}

type Script = Arc<Mutex<dyn FnMut(&Asked) -> Action + Send>>;

impl FakeBroker {
    /// A broker whose answers come from `script`.
    pub(crate) async fn start(script: impl FnMut(&Asked) -> Action + Send + 'static) -> FakeBroker {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let script: Script = Arc::new(Mutex::new(script));
        let task = tokio::spawn(async move {
            for connection in 0.. {
                let Ok((stream, _)) = listener.accept().await else { return };
                tokio::spawn(serve(stream, connection, port, Arc::clone(&script)));
            }
        });
        FakeBroker { address: BrokerAddress::new("127.0.0.1", port), task }
    }

    /// A client that begins with this broker, and is not patient.
    pub(crate) fn client(&self) -> Client {
        let connection = ConnectionOptions {
            request_timeout: Duration::from_secs(5),
            response_bytes_max: 1 << 20,
            ..ConnectionOptions::default()
        };
        let options = ClientOptions {
            connection,
            retry_patience: Duration::from_secs(5),
            ..ClientOptions::default()
        };
        Client::new(vec![self.address.clone()], options)
    }
}

impl Drop for FakeBroker {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The name of the broker's topic.
pub(crate) fn topic() -> TopicName {
    TopicName::new(TOPIC).expect("a name")
}

/// A topic of one partition that the broker with id 1 leads.
pub(crate) fn topic_metadata() -> MetadataResponseTopic {
    let partition = MetadataResponsePartition {
        leader_id: 1,
        replica_nodes: vec![1],
        isr_nodes: vec![1],
        ..MetadataResponsePartition::default()
    };
    MetadataResponseTopic {
        name: Some(WireString::from_static(TOPIC)),
        topic_id: TOPIC_ID,
        partitions: vec![partition],
        ..MetadataResponseTopic::default()
    }
}

/// Metadata of a cluster of this one broker and one topic.
pub(crate) fn metadata(port: u16, topic: MetadataResponseTopic) -> MetadataResponse {
    let broker = MetadataResponseBroker {
        node_id: 1,
        host: WireString::from_static("127.0.0.1"),
        port: i32::from(port),
        ..MetadataResponseBroker::default()
    };
    MetadataResponse {
        brokers: vec![broker],
        controller_id: 1,
        topics: vec![topic],
        ..MetadataResponse::default()
    }
}

/// Every group belongs to this one broker.
fn coordinator(port: u16) -> FindCoordinatorResponse {
    let coordinator = Coordinator {
        node_id: 1,
        host: WireString::from_static("127.0.0.1"),
        port: i32::from(port),
        ..Coordinator::default()
    };
    FindCoordinatorResponse { coordinators: vec![coordinator], ..Default::default() }
}

/// All APIs at all their versions.
pub(crate) fn api_versions() -> ApiVersionsResponse {
    let api = |api_key: &ApiKey| ApiVersion {
        api_key: api_key.id(),
        min_version: api_key.oldest(),
        max_version: api_key.latest(),
        ..ApiVersion::default()
    };
    ApiVersionsResponse {
        error_code: ErrorCode::None.code(),
        api_keys: ApiKey::ALL.iter().map(api).collect(),
        ..ApiVersionsResponse::default()
    }
}

async fn serve(mut stream: TcpStream, connection: usize, port: u16, script: Script) {
    while let Some(asked) = read_request(&mut stream, connection).await {
        let action = (script.lock().expect("scripts do not panic"))(&asked);
        let sent = match action {
            Action::Send(bytes) => stream.write_all(&bytes).await,
            Action::Usual => stream.write_all(&usual(&asked, port)).await,
            Action::Trickle(bytes) => trickle(&mut stream, &bytes).await,
            Action::SendAndClose(bytes) => {
                drop(stream.write_all(&bytes).await);
                return;
            }
            Action::Close => return,
            Action::Ignore => Ok(()),
        };
        if sent.is_err() {
            return;
        }
    }
}

async fn read_request(stream: &mut TcpStream, connection: usize) -> Option<Asked> {
    let length = stream.read_i32().await.ok()?;
    let mut frame = vec![0; usize::try_from(length).expect("our own length")];
    stream.read_exact(&mut frame).await.ok()?;
    let mut decoder = Decoder::new(frame.into());
    let (api_key, header) = decode_request_header(&mut decoder).expect("our own header");
    Some(Asked {
        api_key,
        version: header.request_api_version,
        correlation_id: header.correlation_id,
        connection,
        decoder,
    })
}

async fn trickle(stream: &mut TcpStream, bytes: &[u8]) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    for byte in bytes {
        stream.write_all(std::slice::from_ref(byte)).await?;
        // Lets the reader see this byte on its own.
        tokio::task::yield_now().await;
    }
    Ok(())
}

fn usual(asked: &Asked, port: u16) -> Bytes {
    match asked.api_key {
        ApiKey::ApiVersions => asked.frame(&api_versions()),
        ApiKey::Metadata => asked.frame(&metadata(port, topic_metadata())),
        ApiKey::FindCoordinator => asked.frame(&coordinator(port)),
        other => panic!("there is no usual answer to {}", other.name()),
    }
}
