//! One TCP connection that speaks frames.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use logway_metadata::sasl::SaslMechanism;
use logway_model::ErrorCode;
use logway_security::sasl::Login;
use logway_wire::messages::{
    ApiVersionsRequest, ApiVersionsResponse, SaslAuthenticateRequest, SaslHandshakeRequest,
};
use logway_wire::{
    ApiKey, Decoder, Message, Request, WireString, decode_response_header, encode_request,
};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, join};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::credentials::{Password, Security};
use crate::error::check;
use crate::frame::{FrameReader, FrameWriter};
use crate::stream::{self, Incoming, Outgoing};
use crate::{ApiVersions, BrokerAddress, ClientError, ConnectionFailure};

/// How a connection behaves.
#[derive(Debug, Clone)]
pub struct ConnectionOptions {
    /// The client id in each request.
    pub client_id: WireString,
    /// How long to wait for the TCP connection and the first answer.
    pub connect_timeout: Duration,
    /// How long to wait for the answer to a request, beyond what the request itself asks the
    /// broker to wait.
    pub request_timeout: Duration,
    /// The largest response accepted, and the most memory its decoded form may take beside it.
    pub response_bytes_max: usize,
    /// How it is encrypted, and who the client is.
    pub security: Security,
}

impl Default for ConnectionOptions {
    fn default() -> ConnectionOptions {
        ConnectionOptions {
            client_id: WireString::from_static("logway-cli"),
            connect_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(30),
            response_bytes_max: 128 << 20,
            security: Security::default(),
        }
    }
}

/// A connection after the version negotiation, without the tasks that [`crate::Connection`] adds.
///
/// For callers that build frames themselves and count correlation ids themselves: write with one
/// half, read with the other. Responses come in the order of the requests.
#[derive(Debug)]
pub struct RawConnection {
    /// Responses.
    pub reader: FrameReader,
    /// Requests.
    pub writer: FrameWriter,
    /// What the broker announced.
    pub versions: ApiVersions,
    /// Whom this connects to.
    pub address: BrokerAddress,
    options: ConnectionOptions,
}

impl RawConnection {
    /// Connects, and asks for the broker's versions.
    ///
    /// # Errors
    ///
    /// [`ClientError::Connect`], or what may happen to an ApiVersions request.
    pub async fn open(
        address: &BrokerAddress,
        options: &ConnectionOptions,
    ) -> Result<RawConnection, ClientError> {
        let connected = connect(address, options).await.map_err(|error| ClientError::Connect {
            address: address.clone(),
            source: Arc::new(error),
            was_reached: false,
        })?;
        let (read_half, write_half) = connected;
        let mut connection = RawConnection {
            reader: FrameReader::new(read_half, options.response_bytes_max),
            writer: FrameWriter::new(write_half),
            versions: ApiVersions::default(),
            address: address.clone(),
            options: options.clone(),
        };
        connection.versions = connection.negotiate().await?;
        if let Some(password) = &options.security.password {
            connection.log_in(password).await?;
        }
        Ok(connection)
    }

    /// How the connection was asked to behave.
    pub(crate) fn options(&self) -> &ConnectionOptions {
        &self.options
    }

    /// A broker that does not know our version of ApiVersions answers as for version 0, with
    /// UNSUPPORTED_VERSION (KIP-511); we then ask again at version 0.
    async fn negotiate(&mut self) -> Result<ApiVersions, ClientError> {
        let newest = ApiVersionsRequest::VALID_VERSIONS.max;
        let mut response = self.ask_versions(newest).await?;
        if response.error_code == ErrorCode::UnsupportedVersion.code() {
            response = self.ask_versions(0).await?;
        }
        check(|| format!("negotiate versions with {}", self.address), response.error_code, None)?;
        Ok(ApiVersions::from_response(&response))
    }

    async fn ask_versions(&mut self, version: i16) -> Result<ApiVersionsResponse, ClientError> {
        let response = self.exchange_in_time(&own_software(), version).await?;
        let body_version = if refuses_version(&response) { 0 } else { version };
        let limit = self.options.response_bytes_max;
        decode::<ApiVersionsRequest>(response, body_version, limit, &self.address)
    }

    /// Says who the client is (KIP-43, KIP-152).
    async fn log_in(&mut self, password: &Password) -> Result<(), ClientError> {
        let Password { mechanism, user, password, is_delegation_token } = password;
        let failed = |message: String| ClientError::Refused {
            what: format!("log in to {} as '{user}'", self.address),
            code: ErrorCode::SaslAuthenticationFailed,
            message: Some(message),
        };
        let login = match (is_delegation_token, *mechanism) {
            (false, mechanism) => Login::new(mechanism, user, password),
            (true, SaslMechanism::Scram(mechanism)) => Login::by_token(mechanism, user, password),
            (true, mechanism) => {
                let problem = format!("{mechanism} takes no delegation token; SCRAM does");
                return Err(failed(problem));
            }
        };
        let (mut login, mut token) = login.map_err(|error| failed(error.to_string()))?;
        let handshake =
            SaslHandshakeRequest { mechanism: mechanism.name().into(), ..Default::default() };
        let answered = self.ask(&handshake, 1).await?;
        let offered = answered.mechanisms.join(", ");
        let what = || format!("log in to {} by {mechanism}; it offers {offered}", self.address);
        check(what, answered.error_code, None)?;
        loop {
            let request =
                SaslAuthenticateRequest { auth_bytes: token.into(), ..Default::default() };
            let answered = self.ask(&request, 1).await?;
            let what = || format!("log in to {} as '{user}'", self.address);
            check(what, answered.error_code, answered.error_message.as_ref())?;
            let wrong = |problem: String| ClientError::UnexpectedResponse {
                address: self.address.clone(),
                api: ApiKey::SaslAuthenticate.name(),
                problem,
            };
            match login.step(&answered.auth_bytes).map_err(|error| wrong(error.to_string()))? {
                Some(next) => token = next,
                None => return Ok(()),
            }
        }
    }

    /// Asks something before the connection is used.
    async fn ask<R: Request>(
        &mut self,
        request: &R,
        version: i16,
    ) -> Result<R::Response, ClientError> {
        let response = self.exchange_in_time(request, version).await?;
        decode::<R>(response, version, self.options.response_bytes_max, &self.address)
    }

    async fn exchange_in_time<R: Request>(
        &mut self,
        request: &R,
        version: i16,
    ) -> Result<Bytes, ClientError> {
        let frame = encode(request, version, 0, &self.options.client_id)?;
        let patience = self.options.connect_timeout;
        timeout(patience, self.exchange(&frame))
            .await
            .unwrap_or(Err(ConnectionFailure::TimedOut(patience)))
            .map_err(|failure| ClientError::Connection {
                address: self.address.clone(),
                api: R::API_KEY.name(),
                failure,
            })
    }

    async fn exchange(&mut self, frame: &[u8]) -> Result<Bytes, ConnectionFailure> {
        self.writer.write_frame(frame).await?;
        self.writer.flush().await?;
        let response = self.reader.read_frame().await?;
        match correlation_id(&response) {
            Some(0) => Ok(response),
            Some(actual) => Err(ConnectionFailure::UnexpectedCorrelationId { expected: 0, actual }),
            None => Err(ConnectionFailure::ResponseTooShort),
        }
    }
}

/// Asks a broker what it speaks, and says who asks.
pub(crate) fn own_software() -> ApiVersionsRequest {
    ApiVersionsRequest {
        client_software_name: WireString::from_static("logway"),
        client_software_version: WireString::from_static(env!("CARGO_PKG_VERSION")),
        ..ApiVersionsRequest::default()
    }
}

/// A connection that speaks something else than frames: a socket, with TLS if the options have it.
///
/// # Errors
///
/// [`ClientError::Connect`].
pub async fn open_stream(
    address: &BrokerAddress,
    options: &ConnectionOptions,
) -> Result<impl AsyncRead + AsyncWrite + Unpin + Send + use<>, ClientError> {
    let connected = connect(address, options).await;
    let (incoming, outgoing) = connected.map_err(|error| ClientError::Connect {
        address: address.clone(),
        source: Arc::new(error),
        was_reached: false,
    })?;
    Ok(join(incoming, outgoing))
}

async fn connect(
    address: &BrokerAddress,
    options: &ConnectionOptions,
) -> io::Result<(Incoming, Outgoing)> {
    let patience = options.connect_timeout;
    let connecting = async {
        let stream = TcpStream::connect((address.host.as_str(), address.port)).await?;
        stream.set_nodelay(true)?;
        let Some(config) = &options.security.tls else { return Ok(stream::plain(stream)) };
        let name = ServerName::try_from(address.host.clone()).map_err(io::Error::other)?;
        let session = TlsConnector::from(Arc::clone(config)).connect(name, stream).await?;
        Ok(stream::tls(session))
    };
    timeout(patience, connecting).await.unwrap_or_else(|_| {
        let message = format!("no answer within {} ms", patience.as_millis());
        Err(io::Error::new(io::ErrorKind::TimedOut, message))
    })
}

/// The error code follows the correlation id in every version of an ApiVersions response.
fn refuses_version(response: &[u8]) -> bool {
    response.get(4..6) == Some(&ErrorCode::UnsupportedVersion.code().to_be_bytes())
}

/// The id at the start of a response frame.
pub(crate) fn correlation_id(response: &[u8]) -> Option<i32> {
    response.first_chunk().map(|&bytes| i32::from_be_bytes(bytes))
}

/// A request frame, with its length in front.
pub(crate) fn encode<R: Request>(
    request: &R,
    version: i16,
    correlation_id: i32,
    client_id: &WireString,
) -> Result<Bytes, ClientError> {
    encode_request(correlation_id, Some(client_id), version, request)
        .map(|encoded| encoded.bytes)
        .map_err(|source| ClientError::Request { api: R::API_KEY.name(), version, source })
}

/// The message in a response frame without its length.
pub(crate) fn decode<R: Request>(
    response: Bytes,
    version: i16,
    decoded_bytes_max: usize,
    address: &BrokerAddress,
) -> Result<R::Response, ClientError> {
    let mut decoder = Decoder::with_limit(response, decoded_bytes_max);
    decode_response_header(&mut decoder, R::API_KEY, version)
        .and_then(|_header| R::Response::decode(&mut decoder, version))
        .and_then(|message| decoder.finish(R::Response::NAME).map(|()| message))
        .map_err(|source| ClientError::MalformedResponse {
            address: address.clone(),
            api: R::API_KEY.name(),
            version,
            source,
        })
}
