//! A client of a Kinesis address, for the command line: JSON 1.1 over HTTP/1.1, signed.

use std::future::poll_fn;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::{Duration, SystemTime};

pub use hyper::Uri;
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1;
use hyper::http::uri::Scheme;
use hyper::{Request, header};
use hyper_util::rt::TokioIo;
use logway_node::tasks::wall_clock;
use logway_security::TlsError;
use logway_security::tls::client_config;
use serde_json::Value;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use logway_security::signature_v4::{Signing, body_hash, format_time};

/// How long a request may take.
const REQUEST_MAX: Duration = Duration::from_secs(60);

/// What is read of a response.
const RESPONSE_BYTES_MAX: usize = 32 << 20;

/// Where a client connects, and who it is.
#[derive(Clone)]
pub struct KinesisClient {
    /// `http://HOST:PORT` or `https://HOST:PORT`.
    pub endpoint: Uri,
    /// Whom to trust where the address has TLS; the system's authorities, if this is none.
    pub authorities: Vec<PathBuf>,
    /// The region that is signed for.
    pub region: String,
    /// The access key's id.
    pub key_id: String,
    /// The access key's secret.
    pub secret: String,
}

/// Why an operation was not done, or is not known to be.
#[derive(Debug, Error)]
pub enum KinesisClientError {
    /// No request can be made for this address.
    #[error("'{0}' is no http:// or https:// address")]
    Address(Uri),
    /// It cannot be reached.
    #[error("cannot reach {address}: {source}")]
    Unreachable {
        /// The address.
        address: Uri,
        /// Why.
        source: io::Error,
    },
    /// It does not answer as HTTP has it.
    #[error("{address} gives no answer: {source}")]
    NoAnswer {
        /// The address.
        address: Uri,
        /// Why.
        source: hyper::Error,
    },
    /// It does not answer in time.
    #[error("{address} has not answered within {REQUEST_MAX:?}")]
    TooLate {
        /// The address.
        address: Uri,
    },
    /// What it answers is no answer of Kinesis.
    #[error("{address} answers with status {status}, and not as Kinesis does")]
    NotKinesis {
        /// The address.
        address: Uri,
        /// The status.
        status: u16,
    },
    /// The authorities cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// It refuses.
    #[error("{operation}: {name}: {message}")]
    Refused {
        /// What was asked for.
        operation: String,
        /// The error by AWS's name.
        name: String,
        /// What it says.
        message: String,
    },
}

impl KinesisClient {
    /// Has an operation done. Errors: see [`KinesisClientError`].
    pub async fn call(&self, operation: &str, input: &Value) -> Result<Value, KinesisClientError> {
        let address = || self.endpoint.clone();
        let late = |_| KinesisClientError::TooLate { address: address() };
        timeout(REQUEST_MAX, self.exchange(operation, input)).await.map_err(late)?
    }

    async fn exchange(&self, operation: &str, input: &Value) -> Result<Value, KinesisClientError> {
        let no_address = || KinesisClientError::Address(self.endpoint.clone());
        let unreachable =
            |source| KinesisClientError::Unreachable { address: self.endpoint.clone(), source };
        let has_tls = match self.endpoint.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(scheme) if *scheme == Scheme::HTTP => false,
            _ => return Err(no_address()),
        };
        let host = self.endpoint.host().ok_or_else(no_address)?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let port = self.endpoint.port_u16().unwrap_or(if has_tls { 443 } else { 80 });
        let socket = TcpStream::connect((host, port)).await.map_err(unreachable)?;
        if !has_tls {
            return self.ask(operation, input, socket).await;
        }
        let config = client_config(&self.authorities, &[], SystemTime::now())?;
        let name = ServerName::try_from(host.to_owned())
            .map_err(|error| unreachable(io::Error::new(io::ErrorKind::InvalidInput, error)))?;
        let session = TlsConnector::from(config).connect(name, socket).await;
        self.ask(operation, input, session.map_err(unreachable)?).await
    }

    async fn ask(
        &self,
        operation: &str,
        input: &Value,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> Result<Value, KinesisClientError> {
        let no_answer =
            |source| KinesisClientError::NoAnswer { address: self.endpoint.clone(), source };
        let request = self.request(operation, input)?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(no_answer)?;
        let answered = async move {
            let response = sender.send_request(request).await.map_err(no_answer)?;
            let status = response.status().as_u16();
            let body = read(response.into_body()).await.map_err(no_answer)?;
            self.answer(operation, status, &body)
            // The connection ends with its sender.
        };
        let (answered, _) = tokio::join!(answered, connection);
        answered
    }

    fn request(
        &self,
        operation: &str,
        input: &Value,
    ) -> Result<Request<String>, KinesisClientError> {
        let body = input.to_string();
        let host = self.endpoint.authority().map_or("", |authority| authority.as_str());
        let target = format!("Kinesis_20131202.{operation}");
        let time = format_time(wall_clock().0);
        // In the order of their names, as they are signed.
        let headers = [
            ("content-type", "application/x-amz-json-1.1"),
            ("host", host),
            ("x-amz-date", &time),
            ("x-amz-target", &target),
        ];
        let signing = Signing {
            key_id: &self.key_id,
            secret: self.secret.as_bytes(),
            region: &self.region,
            service: "kinesis",
            time: &time,
        };
        let authorization =
            signing.authorization("POST", "/", "", &headers, &body_hash(body.as_bytes()));
        let request = Request::post("/").header(header::AUTHORIZATION, authorization);
        let request =
            headers.into_iter().fold(request, |request, (name, value)| request.header(name, value));
        // A key id or a host with letters that no header has.
        request.body(body).map_err(|_| KinesisClientError::Address(self.endpoint.clone()))
    }

    fn answer(
        &self,
        operation: &str,
        status: u16,
        body: &[u8],
    ) -> Result<Value, KinesisClientError> {
        let not_kinesis =
            || KinesisClientError::NotKinesis { address: self.endpoint.clone(), status };
        let answer: Value = match body.is_empty() {
            true => Value::Null,
            false => serde_json::from_slice(body).map_err(|_| not_kinesis())?,
        };
        if status == 200 {
            return Ok(answer);
        }
        let text = |name: &str| answer.get(name).and_then(Value::as_str);
        let name = text("__type").ok_or_else(not_kinesis)?;
        // Some have the name of a namespace before it.
        let name = name.rsplit('#').next().unwrap_or(name).to_owned();
        let message = text("message").or_else(|| text("Message")).unwrap_or_default().to_owned();
        Err(KinesisClientError::Refused { operation: operation.to_owned(), name, message })
    }
}

async fn read(mut body: Incoming) -> Result<Vec<u8>, hyper::Error> {
    let mut bytes = Vec::new();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        if let Some(data) = frame?.data_ref() {
            bytes.extend_from_slice(data);
        }
        if bytes.len() > RESPONSE_BYTES_MAX {
            break;
        }
    }
    Ok(bytes)
}
