//! Who a request is from: whether it is signed, in form, and by whom.
//!
//! The order and the words of the checks are those of AWS. Where nobody is asked who he is, the form is all that is checked, as
//! every substitute for AWS does.

use std::borrow::Cow;
use std::net::SocketAddr;

use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, DATE};
use hyper::http::request::Parts;
use logway_model::TimestampMs;
use logway_node::Node;
use logway_node::access::Principal;
use logway_node::tasks::wall_clock;

use crate::error::ApiError;
use crate::service::Service;
use crate::signature::{Verifier, percent_decoded};

/// What a request says of its signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Signed<'a> {
    /// How it was made.
    pub(crate) algorithm: Cow<'a, str>,
    /// Who made it, and what for.
    pub(crate) credential: Cow<'a, str>,
    /// The names of the headers that it is about, with `;` between them.
    pub(crate) signed_headers: Cow<'a, str>,
    /// It itself, in hexadecimal.
    pub(crate) signature: Cow<'a, str>,
    /// When it was made.
    pub(crate) time: Cow<'a, str>,
    /// For how many seconds it is good, of one in an address.
    pub(crate) expires_s: Option<Cow<'a, str>>,
}

impl Signed<'_> {
    /// Whose it says that it is.
    fn key_id(&self) -> &str {
        self.credential.split('/').next().unwrap_or_default()
    }
}

/// The one signature of a request, with all its parts.
pub(crate) fn signed<'a>(
    headers: &'a HeaderMap,
    query: Option<&'a str>,
) -> Result<Signed<'a>, ApiError> {
    let header = headers.get(AUTHORIZATION).map(|value| String::from_utf8_lossy(value.as_bytes()));
    let query = Query(query.unwrap_or_default());
    let in_query = query.value("X-Amz-Algorithm").is_some();
    match (header, in_query) {
        (Some(_), true) => Err(ApiError::new(
            "InvalidSignatureException",
            "Found both 'X-Amz-Algorithm' as a query-string param and 'Authorization' as HTTP header.",
        )),
        (None, false) => Err(ApiError::new(
            "MissingAuthenticationTokenException",
            "Missing Authentication Token",
        )),
        (Some(header), false) => in_header(&header, headers),
        (None, true) => in_address(&query),
    }
}

fn in_header<'a>(header: &str, headers: &'a HeaderMap) -> Result<Signed<'a>, ApiError> {
    let mut parts = header.split([',', ' ']);
    let algorithm = parts.next().unwrap_or_default().to_owned();
    let parts: Vec<&str> = parts.filter(|it| !it.is_empty()).collect();
    let mut message = String::new();
    let mut part = |name: &str| {
        let mut pairs = parts.iter().filter_map(|part| part.split_once('='));
        let value = pairs.rfind(|(key, value)| *key == name && !value.is_empty());
        if value.is_none() {
            message += &format!("Authorization header requires '{name}' parameter. ");
        }
        Cow::Owned(value.map(|(_, value)| value.to_owned()).unwrap_or_default())
    };
    let (credential, signature) = (part("Credential"), part("Signature"));
    let signed_headers = part("SignedHeaders");
    let time = headers.get("x-amz-date").or_else(|| headers.get(DATE));
    if time.is_none() {
        message +=
            "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header. ";
    }
    match time {
        Some(time) if message.is_empty() => Ok(Signed {
            algorithm: Cow::Owned(algorithm),
            credential,
            signed_headers,
            signature,
            time: String::from_utf8_lossy(time.as_bytes()),
            expires_s: None,
        }),
        _ => {
            message += &format!("Authorization={header}");
            Err(ApiError::new("IncompleteSignatureException", message))
        }
    }
}

fn in_address<'a>(query: &Query<'a>) -> Result<Signed<'a>, ApiError> {
    let mut message = String::new();
    let mut part = |name: &str| {
        let value = query.value(name).filter(|value| !value.is_empty());
        if value.is_none() {
            message += &format!("AWS query-string parameters must include '{name}'. ");
        }
        value.unwrap_or_default()
    };
    let (algorithm, credential) = (part("X-Amz-Algorithm"), part("X-Amz-Credential"));
    let (signature, signed_headers) = (part("X-Amz-Signature"), part("X-Amz-SignedHeaders"));
    let time = part("X-Amz-Date");
    if !message.is_empty() {
        message += "Re-examine the query-string parameters.";
        return Err(ApiError::new("IncompleteSignatureException", message));
    }
    let expires_s = query.value("X-Amz-Expires");
    Ok(Signed { algorithm, credential, signed_headers, signature, time, expires_s })
}

/// The parameters of an address.
struct Query<'a>(&'a str);

impl<'a> Query<'a> {
    fn value(&self, name: &str) -> Option<Cow<'a, str>> {
        let pairs = self.0.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let (_, value) = pairs.into_iter().find(|(key, _)| *key == name)?;
        Some(match value.contains('%') {
            true => Cow::Owned(String::from_utf8_lossy(&percent_decoded(value)).into_owned()),
            false => Cow::Borrowed(value),
        })
    }
}

/// Whom a request to a service of AWS is from, which has come whole: somebody who has shown it, or anybody.
pub(crate) fn authenticated(
    service: &Service,
    name: &str,
    peer: &SocketAddr,
    head: &Parts,
    body: &[u8],
) -> Result<Principal, ApiError> {
    let signed = signed(&head.headers, head.uri.query())?;
    if !service.checks_signatures {
        return Ok(Principal::anonymous().clone());
    }
    let believed = requester(name, &signed, head, body, &service.node, wall_clock().0);
    believed.inspect_err(|error| {
        let reason = error.message.as_deref().unwrap_or(error.name);
        service.node.note_not_believed(*peer, signed.key_id(), "SIGV4", reason);
    })
}

/// Whom a request is from that has come whole. An access key is a delegation token: its id, and its HMAC in Base64 as the secret.
fn requester(
    service: &str,
    signed: &Signed<'_>,
    head: &Parts,
    body: &[u8],
    node: &Node,
    now_ms: i64,
) -> Result<Principal, ApiError> {
    let verifier = Verifier::new(service, signed, head, now_ms)?;
    let unrecognized = || {
        let message = "The security token included in the request is invalid.";
        ApiError::new("UnrecognizedClientException", message)
    };
    // Of temporary credentials AWS has a third part. There is none here, so nobody has it from here.
    if head.headers.contains_key("x-amz-security-token") {
        return Err(unrecognized());
    }
    let token = node.token_of_id(verifier.scope.key_id).ok_or_else(unrecognized)?;
    verifier.verify(token.password().as_bytes(), body)?;
    match token.token.has_expired(TimestampMs(now_ms)) {
        true => Err(ApiError::new(
            "ExpiredTokenException",
            "The security token included in the request is expired",
        )),
        false => Ok(Principal::user(token.token.owner.clone())),
    }
}
