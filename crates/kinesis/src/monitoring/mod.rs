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
use logway_node::access::{Operation as Permission, Resource};

use self::data::samples;
pub(crate) use self::shapes::OPERATIONS;
use crate::authentication::authenticated;
use crate::body::ResponseBody;
use crate::caller::{Caller, Peer};
use crate::error::{ApiError, SERIALIZATION};
use crate::http::with_body;
use crate::query::{self, Form};
use crate::service::Service;
use crate::shape::Shape;
use crate::type_error::TypeErrors;
use crate::validate::validate;
use crate::value::{Structure, Value};
use crate::{cbor, json};

/// What stands before the names of operations.
pub(crate) const SERVICE: &str = "GraniteServiceVersion20100801";

/// The one operation that is served.
pub(crate) const OPERATION: &str = "PutMetricData";

/// The namespace of responses in XML.
const SPACE: &str = "http://monitoring.amazonaws.com/doc/2010-08-01/";

/// A request has so many bytes at most, packed and unpacked.
pub(crate) const REQUEST_BYTES_MAX: usize = 1 << 20;

/// Metrics that a request has at most. AWS says so, and its model does not.
const METRICS_MAX: usize = 1_000;

/// How a request and its response are encoded.
#[derive(Debug)]
pub(crate) enum Protocol {
    /// `smithy-rpc-v2-cbor`.
    Cbor,
    /// `awsJson1.0`.
    Json,
    /// `awsQuery`: the request is a form, which was read to see what is asked for.
    Query(Form),
}

impl Protocol {
    /// How a request for an operation in CBOR is addressed.
    pub(crate) fn operation_of_path(path: &str) -> Option<&str> {
        path.strip_prefix("/service/")?.strip_prefix(SERVICE)?.strip_prefix("/operation/")
    }

    fn content_type(&self) -> &'static str {
        match self {
            Protocol::Cbor => "application/cbor",
            Protocol::Json => "application/x-amz-json-1.0",
            Protocol::Query(_) => "text/xml",
        }
    }

    fn decode(&self, body: &[u8], shape: &'static Shape) -> Result<Structure, ApiError> {
        let errors = TypeErrors::default();
        let decoded = match self {
            Protocol::Cbor => cbor::decode(body, shape, &errors),
            Protocol::Json => json::decode(body, shape, &errors),
            Protocol::Query(form) => Some(form.structure(shape)?),
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
    protocol: &Protocol,
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
        Err(error) => (error.status(), refusal(protocol, error, &request_id)),
    };
    // An operation without a response has no body in CBOR, and so no type of one.
    let content_type = Some(protocol.content_type()).filter(|_| !body.is_empty());
    let mut response = with_body(status, content_type, body);
    if matches!(protocol, Protocol::Cbor) {
        let protocol = HeaderValue::from_static("rpc-v2-cbor");
        response.headers_mut().insert("smithy-protocol", protocol);
    }
    if let Err(error) = outcome {
        response.headers_mut().insert("x-amzn-errortype", HeaderValue::from_static(error.name));
    }
    response
}

fn unknown(protocol: &Protocol, operation: &str) -> ApiError {
    match protocol {
        Protocol::Query(_) => {
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
    protocol: &Protocol,
    head: &Parts,
    body: &[u8],
) -> Result<(), ApiError> {
    // What was signed is what was sent, packed or not.
    let principal = authenticated(service, "monitoring", &peer.address, head, body)?;
    let caller = Caller::new(peer, principal);
    // What it tells is shown as the server's own metrics are: that takes at least the right to look at the cluster.
    if !caller.may(service, Permission::Describe, Resource::Cluster) {
        let message = format!("User is not authorized to perform: cloudwatch:{OPERATION}");
        return Err(ApiError { status: 403, ..ApiError::new("AccessDenied", message) });
    }
    let unpacked = unpacked(head, body)?;
    let shape = OPERATIONS[0].input;
    let input = protocol.decode(&unpacked, shape)?;
    validate(shape, &input).map_err(|message| ApiError::new("ValidationError", message))?;
    check_count(&input)?;
    service.gauges.put(samples(&input)?);
    Ok(())
}

fn check_count(input: &Structure) -> Result<(), ApiError> {
    match input.get("MetricData") {
        Some(Value::List(list)) if list.count > METRICS_MAX => {
            let message = format!(
                "The collection MetricData must not have a size greater than {METRICS_MAX}."
            );
            Err(ApiError::new("ValidationError", message))
        }
        _ => Ok(()),
    }
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

fn done(protocol: &Protocol, request_id: &str) -> Vec<u8> {
    match protocol {
        Protocol::Cbor => Vec::new(),
        Protocol::Json => b"{}".to_vec(),
        Protocol::Query(_) => format!(
            "<{OPERATION}Response xmlns=\"{SPACE}\"><ResponseMetadata><RequestId>{request_id}</RequestId>\
             </ResponseMetadata></{OPERATION}Response>\n"
        )
        .into_bytes(),
    }
}

fn refusal(protocol: &Protocol, error: &ApiError, request_id: &str) -> Vec<u8> {
    let structure = || {
        Structure::new()
            .with("__type", format!("com.amazonaws.cloudwatch#{}", error.name))
            .with_some("message", error.message.clone())
    };
    match protocol {
        Protocol::Cbor => cbor::encode(&structure()),
        Protocol::Json => json::encode(&structure()),
        Protocol::Query(_) => query::error_xml(SPACE, error, request_id).into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_so_many_metrics_at_most_in_each_protocol() {
        for (count, is_right) in [(METRICS_MAX, true), (METRICS_MAX + 1, false)] {
            let form = (1..=count).map(|it| format!("MetricData.member.{it}.MetricName=m&"));
            let data = vec![r#"{"MetricName":"m"}"#; count].join(",");
            let json = format!(r#"{{"MetricData":[{data}]}}"#);
            let form = Form::parse(form.collect::<String>().as_bytes()).expect("is a form");
            for (protocol, body) in [(Protocol::Query(form), String::new()), (Protocol::Json, json)]
            {
                let input = protocol.decode(body.as_bytes(), OPERATIONS[0].input);
                let input = input.expect("is right");
                assert_eq!(check_count(&input).is_ok(), is_right, "{protocol:?}: {count}");
                assert!(input.list("MetricData").len() <= METRICS_MAX, "no more are built");
            }
        }
    }
}
