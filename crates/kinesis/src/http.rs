//! From an HTTP request to its response, in the order in which AWS checks.

use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue, ORIGIN};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use logway_log::random_uuid;
use logway_node::access::Principal;
use tokio::sync::Notify;

use crate::authentication::authenticated;
use crate::body::{BodyError, ResponseBody, charged, receive};
use crate::call::{Call, Reply};
use crate::caller::{Caller, Peer};
use crate::error::{ApiError, SERIALIZATION};
use crate::monitoring::Protocol;
use crate::operations::perform;
use crate::query::Form;
use crate::service::Service;
use crate::shape::{Kind, Operation, Shape};
use crate::shapes::OPERATIONS;
use crate::type_error::TypeErrors;
use crate::validate::{conforms, validate};
use crate::value::{Structure, Value};
use crate::{cbor, event_stream, identity, json, monitoring, query, tables};

const SERVICE: &str = "Kinesis_20131202";

const AMZ_JSON: &str = "application/x-amz-json-1.1";
const AMZ_CBOR: &str = "application/x-amz-cbor-1.1";
const XML: &str = "text/xml";
const PLAIN_JSON: &str = "application/json";

/// Nothing: what a request for an unknown operation is read as.
static NOTHING: Shape =
    Shape { name: "Nothing", kind: Kind::Structure(&[]), min: None, max: None, pattern: None };

/// How a request and its response are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Json,
    Cbor,
}

impl Encoding {
    fn content_type(self) -> &'static str {
        match self {
            Encoding::Json => AMZ_JSON,
            Encoding::Cbor => AMZ_CBOR,
        }
    }

    fn encode(self, structure: &Structure) -> Vec<u8> {
        match self {
            Encoding::Json => json::encode(structure),
            Encoding::Cbor => cbor::encode(structure),
        }
    }

    fn decode(self, body: &[u8], shape: &'static Shape, errors: &TypeErrors) -> Option<Structure> {
        match self {
            Encoding::Json => json::decode(body, shape, errors),
            Encoding::Cbor => cbor::decode(body, shape, errors),
        }
    }
}

/// Answers a request.
pub(crate) async fn answer(
    service: Arc<Service>,
    peer: Peer,
    request: Request<Incoming>,
) -> Response<ResponseBody> {
    let (head, body) = request.into_parts();
    let mut response = match head.headers.contains_key(ORIGIN) {
        true => xml_error("AccessDeniedException", OF_WEB_PAGE),
        false => match receive(body, &service.node.memory).await {
            Ok(received) => respond(&service, peer, &head, &received.bytes).await,
            Err(BodyError::TooLarge) => empty(StatusCode::PAYLOAD_TOO_LARGE),
            Err(BodyError::Late) => empty(StatusCode::REQUEST_TIMEOUT),
            Err(BodyError::Broken) => empty(StatusCode::BAD_REQUEST),
        },
    };
    add_ids(response.headers_mut());
    response
}

async fn respond(
    service: &Arc<Service>,
    peer: Peer,
    head: &Parts,
    body: &Bytes,
) -> Response<ResponseBody> {
    let undetermined = || xml_error("AccessDeniedException", UNDETERMINED);
    if head.method != Method::POST {
        return undetermined();
    }
    let text = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
    let content_type = text("content-type").unwrap_or_default();
    let content_type = content_type.split(';').next().unwrap_or_default().trim();
    let mut target = text("x-amz-target").unwrap_or_default().split('.');
    let (target_service, target_operation) =
        (target.next().unwrap_or_default(), target.next().unwrap_or_default());
    if let Some(response) = respond_beside(service, &peer, head, body, content_type) {
        return response;
    }
    if target_service == tables::SERVICE {
        let request = tables::Request { head, body, content_type, operation: target_operation };
        return tables::respond(service, peer, request).await;
    }
    let operation = OPERATIONS
        .iter()
        .find(|operation| operation.text == target_operation && target_service == SERVICE);
    if body.is_empty() {
        let encoding = if content_type == AMZ_JSON { Encoding::Json } else { Encoding::Cbor };
        let name = if operation.is_some() { SERIALIZATION } else { UNKNOWN_OPERATION };
        return error_response(encoding, &ApiError::bare(name));
    }
    let encoding = match content_type {
        AMZ_JSON => Encoding::Json,
        AMZ_CBOR => Encoding::Cbor,
        PLAIN_JSON => return plain_json(body),
        _ if target_service.is_empty() || target_operation.is_empty() => return undetermined(),
        _ => {
            let body = format!("<{UNKNOWN_OPERATION}/>\n");
            return with_body(StatusCode::NOT_FOUND, None, body.into_bytes());
        }
    };
    let outcome = match decoded(service, &peer.address, encoding, operation, head, body) {
        Ok((operation, input, principal)) => {
            let caller = Caller::new(&peer, principal);
            let (service, give_up) = (Arc::clone(service), Arc::clone(&peer.give_up));
            let call = Call { service, operation, input, caller, give_up };
            perform(&call).await
        }
        Err(error) => Err(error),
    };
    if let (Ok(Reply::Structure(response)), Some(operation)) = (&outcome, operation) {
        let is_ours = |shape| conforms(shape, &Value::from(response.clone()));
        debug_assert!(operation.output.is_some_and(is_ours), "{response:?}");
    }
    match outcome {
        Ok(reply) => reply_response(service, encoding, reply, &peer.give_up).await,
        Err(error) => {
            if error.status >= 500 {
                let (name, reason) = (error.name, error.message.as_deref());
                tracing::debug!(operation = target_operation, name, reason, "a request failed");
            }
            error_response(encoding, &error)
        }
    }
}

/// Answers a request for CloudWatch or STS. Those of the other services are left.
fn respond_beside(
    service: &Service,
    peer: &Peer,
    head: &Parts,
    body: &Bytes,
    content_type: &str,
) -> Option<Response<ResponseBody>> {
    let respond = |protocol: Protocol, operation: &str| {
        monitoring::respond(service, peer, &protocol, operation, head, body)
    };
    if let Some(operation) = Protocol::operation_of_path(head.uri.path()) {
        return Some(respond(Protocol::Cbor, operation));
    }
    let target = head.headers.get("x-amz-target").and_then(|target| target.to_str().ok());
    if let Some((monitoring::SERVICE, operation)) = target.and_then(|it| it.split_once('.')) {
        return Some(respond(Protocol::Json, operation));
    }
    if content_type != query::CONTENT_TYPE {
        return None;
    }
    if body.len() > monitoring::REQUEST_BYTES_MAX {
        return Some(empty(StatusCode::PAYLOAD_TOO_LARGE));
    }
    let request_id = random_uuid().hyphenated();
    let outcome =
        Form::parse(body).and_then(|form| match form.text("Action").unwrap_or_default() {
            monitoring::OPERATION => Ok(respond(Protocol::Query(form), monitoring::OPERATION)),
            identity::OPERATION => {
                let body = identity::respond(service, peer, head, body, &request_id)?;
                Ok(with_body(StatusCode::OK, Some(XML), body))
            }
            other => {
                let other: String = other.chars().take(128).collect();
                let message = format!("Could not find operation {other}");
                Err(ApiError::new("InvalidAction", message))
            }
        });
    Some(outcome.unwrap_or_else(|error| {
        let body = query::error_xml(identity::SPACE, &error, &request_id);
        with_body(error.status(), Some(XML), body)
    }))
}

/// Syntax, operation, authentication, types, constraints.
fn decoded(
    service: &Service,
    peer: &SocketAddr,
    encoding: Encoding,
    operation: Option<&'static Operation>,
    head: &Parts,
    body: &[u8],
) -> Result<(&'static Operation, Structure, Principal), ApiError> {
    let errors = TypeErrors::default();
    let shape = operation.map_or(&NOTHING, |operation| operation.input);
    let Some(input) = encoding.decode(body, shape, &errors) else {
        return Err(ApiError::bare(SERIALIZATION));
    };
    let operation = operation.ok_or_else(|| ApiError::bare(UNKNOWN_OPERATION))?;
    let principal = authenticated(service, "kinesis", peer, head, body)?;
    if let Some(message) = errors.into_first() {
        return Err(ApiError::new(SERIALIZATION, message));
    }
    validate(operation.input, &input).map_err(ApiError::validation)?;
    Ok((operation, input, principal))
}

const UNKNOWN_OPERATION: &str = "UnknownOperationException";

/// Browsers say which page a request is of. A page must not use a broker that its reader can reach: keys are not checked.
const OF_WEB_PAGE: &str = "Requests of web pages are not served";

const UNDETERMINED: &str = "Unable to determine service/operation name to be authorized";

async fn reply_response(
    service: &Service,
    encoding: Encoding,
    reply: Reply,
    give_up: &Arc<Notify>,
) -> Response<ResponseBody> {
    let content_type = Some(encoding.content_type());
    match reply {
        Reply::Empty => with_body(StatusCode::OK, content_type, Vec::new()),
        Reply::Structure(structure) => {
            let bytes = encoding.encode(&structure);
            let bytes = charged(bytes.into(), &service.node.memory, give_up).await;
            with_body(StatusCode::OK, content_type, bytes)
        }
        Reply::Large(structure, shares) => {
            let bytes = encoding.encode(&structure);
            drop(structure);
            // What was taken to build it goes back when the response itself is charged: until then it is held.
            let bytes = charged(bytes.into(), &service.node.memory, give_up).await;
            drop(shares);
            with_body(StatusCode::OK, content_type, bytes)
        }
        Reply::Events(events) => {
            let mut response = Response::new(ResponseBody::Events(events));
            let content_type = HeaderValue::from_static(event_stream::CONTENT_TYPE);
            response.headers_mut().insert(CONTENT_TYPE, content_type);
            response
        }
    }
}

fn error_response(encoding: Encoding, error: &ApiError) -> Response<ResponseBody> {
    refusal(error, encoding.content_type(), encoding.encode(&error.to_structure()))
}

/// A response that tells an error, by its name and in a body.
pub(crate) fn refusal(
    error: &ApiError,
    content_type: &'static str,
    body: Vec<u8>,
) -> Response<ResponseBody> {
    let mut response = with_body(error.status(), Some(content_type), body);
    response.headers_mut().insert("x-amzn-errortype", HeaderValue::from_static(error.name));
    response
}

/// What is not signed as a request of AWS's own gets no further than this.
fn plain_json(body: &[u8]) -> Response<ResponseBody> {
    let is_parsed = json::decode(body, &NOTHING, &TypeErrors::default()).is_some();
    let (status, name) = match is_parsed {
        true => (StatusCode::NOT_FOUND, UNKNOWN_OPERATION),
        false => (StatusCode::BAD_REQUEST, SERIALIZATION),
    };
    let output = Structure::new().with("__type", format!("com.amazon.coral.service#{name}"));
    let body = json::encode(&Structure::new().with("Output", output).with("Version", "1.0"));
    with_body(status, Some(PLAIN_JSON), body)
}

fn xml_error(name: &str, message: &str) -> Response<ResponseBody> {
    let body = format!("<{name}>\n  <Message>{message}</Message>\n</{name}>\n");
    with_body(StatusCode::FORBIDDEN, None, body.into_bytes())
}

fn empty(status: StatusCode) -> Response<ResponseBody> {
    with_body(status, None, Vec::new())
}

/// A response with a body.
pub(crate) fn with_body(
    status: StatusCode,
    content_type: Option<&'static str>,
    body: impl Into<Bytes>,
) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::whole(body));
    *response.status_mut() = status;
    if let Some(content_type) = content_type {
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    response
}

/// By these AWS's support finds a request; here they only have to be there.
fn add_ids(headers: &mut HeaderMap) {
    let id = random_uuid().hyphenated();
    headers.insert("x-amzn-requestid", value(&id));
    let longer: Vec<u8> = (0..5).flat_map(|_| random_uuid().0).take(72).collect();
    headers.insert("x-amz-id-2", value(&STANDARD.encode(longer)));
}

fn value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).expect("it has letters and digits alone")
}
