//! PutMetricData of CloudWatch, in its three protocols: what AWS's client library says of itself becomes gauges.
//!
//! | file | idea |
//! |---|---|
//! | [`gauges`] | the latest of each metric, as many as there is room for |
//! | [`data`] | from requests to samples |
//! | [`shapes`] | the operation and its types of AWS's model, as tables |

mod data;
pub(crate) mod gauges;
mod shapes;

use std::io::Read as _;

use flate2::read::GzDecoder;
use hyper::header::{CONTENT_ENCODING, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};

use self::data::samples;
pub(crate) use self::shapes::OPERATIONS;
use crate::authentication::authenticated;
use crate::body::ResponseBody;
use crate::error::{ApiError, SERIALIZATION};
use crate::http::{Peer, with_body};
use crate::query::{self, Form};
use crate::service::Service;
use crate::shape::Shape;
use crate::type_error::TypeErrors;
use crate::validate::validate;
use crate::value::Structure;
use crate::{cbor, json};

/// What stands before the names of operations.
pub(crate) const SERVICE: &str = "GraniteServiceVersion20100801";

/// The one operation that is served.
pub(crate) const OPERATION: &str = "PutMetricData";

/// The namespace of responses in XML.
const SPACE: &str = "http://monitoring.amazonaws.com/doc/2010-08-01/";

/// A request has so many bytes at most, packed and unpacked.
pub(crate) const REQUEST_BYTES_MAX: usize = 1 << 20;

/// How a request and its response are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// `smithy-rpc-v2-cbor`.
    Cbor,
    /// `awsJson1.0`.
    Json,
    /// `awsQuery`.
    Query,
}

impl Protocol {
    /// How a request for an operation in CBOR is addressed.
    pub(crate) fn operation_of_path(path: &str) -> Option<&str> {
        path.strip_prefix("/service/")?.strip_prefix(SERVICE)?.strip_prefix("/operation/")
    }

    fn content_type(self) -> &'static str {
        match self {
            Protocol::Cbor => "application/cbor",
            Protocol::Json => "application/x-amz-json-1.0",
            Protocol::Query => "text/xml",
        }
    }

    fn decode(self, body: &[u8], shape: &'static Shape) -> Result<Structure, ApiError> {
        let errors = TypeErrors::default();
        let decoded = match self {
            Protocol::Cbor => cbor::decode(body, shape, &errors),
            Protocol::Json => json::decode(body, shape, &errors),
            Protocol::Query => Some(Form::parse(body)?.structure(shape)?),
        };
        let decoded = decoded.ok_or_else(|| ApiError::bare(SERIALIZATION))?;
        match errors.into_first() {
            Some(message) => Err(ApiError::new(SERIALIZATION, message)),
            None => Ok(decoded),
        }
    }
}

/// Answers a request.
pub(crate) fn respond(
    service: &Service,
    peer: &Peer,
    protocol: Protocol,
    operation: &str,
    head: &Parts,
    body: &[u8],
) -> Response<ResponseBody> {
    let request_id = logway_log::random_uuid().hyphenated();
    let outcome = match operation {
        OPERATION => put(service, peer, protocol, head, body),
        other => Err(unknown(protocol, other)),
    };
    let (status, body) = match &outcome {
        Ok(()) => (StatusCode::OK, done(protocol, &request_id)),
        Err(error) => (
            StatusCode::from_u16(error.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            refusal(protocol, error, &request_id),
        ),
    };
    // An operation without a response has no body in CBOR, and so no type of one.
    let content_type = Some(protocol.content_type()).filter(|_| !body.is_empty());
    let mut response = with_body(status, content_type, body);
    if protocol == Protocol::Cbor {
        let protocol = HeaderValue::from_static("rpc-v2-cbor");
        response.headers_mut().insert("smithy-protocol", protocol);
    }
    if let Err(error) = outcome {
        response.headers_mut().insert("x-amzn-errortype", HeaderValue::from_static(error.name));
    }
    response
}

fn unknown(protocol: Protocol, operation: &str) -> ApiError {
    match protocol {
        Protocol::Query => {
            let operation: String = operation.chars().take(128).collect();
            let message = format!("Could not find operation {operation} for version 2010-08-01");
            ApiError::new("InvalidAction", message)
        }
        Protocol::Cbor | Protocol::Json => ApiError::bare("UnknownOperationException"),
    }
}

fn put(
    service: &Service,
    peer: &Peer,
    protocol: Protocol,
    head: &Parts,
    body: &[u8],
) -> Result<(), ApiError> {
    // What was signed is what was sent, packed or not.
    authenticated(service, "monitoring", &peer.address, head, body)?;
    let unpacked = unpacked(head, body)?;
    let shape = OPERATIONS[0].input;
    let input = protocol.decode(&unpacked, shape)?;
    validate(shape, &input).map_err(|message| ApiError::new("ValidationError", message))?;
    service.gauges.put(samples(&input)?);
    Ok(())
}

fn unpacked(head: &Parts, body: &[u8]) -> Result<Vec<u8>, ApiError> {
    let too_large = || {
        let message = format!("A request has at most {REQUEST_BYTES_MAX} bytes");
        ApiError { status: 413, ..ApiError::new("RequestEntityTooLarge", message) }
    };
    let mut unpacked = Vec::new();
    let encoding = head.headers.get(CONTENT_ENCODING).map(HeaderValue::as_bytes);
    match encoding {
        Some(b"gzip") => {
            let mut reader = GzDecoder::new(body).take(REQUEST_BYTES_MAX as u64 + 1);
            reader
                .read_to_end(&mut unpacked)
                .map_err(|_| ApiError::new(SERIALIZATION, "The body is not in gzip's format"))?;
        }
        _ => unpacked.extend_from_slice(body.get(..REQUEST_BYTES_MAX + 1).unwrap_or(body)),
    }
    match unpacked.len() > REQUEST_BYTES_MAX {
        true => Err(too_large()),
        false => Ok(unpacked),
    }
}

fn done(protocol: Protocol, request_id: &str) -> Vec<u8> {
    match protocol {
        Protocol::Cbor => Vec::new(),
        Protocol::Json => b"{}".to_vec(),
        Protocol::Query => format!(
            "<{OPERATION}Response xmlns=\"{SPACE}\"><ResponseMetadata><RequestId>{request_id}</RequestId>\
             </ResponseMetadata></{OPERATION}Response>\n"
        )
        .into_bytes(),
    }
}

fn refusal(protocol: Protocol, error: &ApiError, request_id: &str) -> Vec<u8> {
    let structure = || {
        Structure::new()
            .with("__type", format!("com.amazonaws.cloudwatch#{}", error.name))
            .with_some("message", error.message.clone())
    };
    match protocol {
        Protocol::Cbor => cbor::encode(&structure()),
        Protocol::Json => json::encode(&structure()),
        Protocol::Query => query::error_xml(SPACE, error, request_id).into_bytes(),
    }
}
