//! Whether a request is signed, in form.
//!
//! The order and the words of the checks are those of AWS. Whether a signature is right is not looked at: any key is
//! taken, as every substitute for AWS does.

use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, DATE};

use crate::error::ApiError;

/// Checks that there is one signature, with all its parts.
pub(crate) fn check_form(headers: &HeaderMap, query: Option<&str>) -> Result<(), ApiError> {
    let header = headers.get(AUTHORIZATION).map(|value| String::from_utf8_lossy(value.as_bytes()));
    let query = Query(query.unwrap_or_default());
    let in_query = query.has("X-Amz-Algorithm");
    match (header, in_query) {
        (Some(_), true) => Err(ApiError::new(
            "InvalidSignatureException",
            "Found both 'X-Amz-Algorithm' as a query-string param and 'Authorization' as HTTP header.",
        )),
        (None, false) => Err(ApiError::new(
            "MissingAuthenticationTokenException",
            "Missing Authentication Token",
        )),
        (Some(header), false) => check_header(&header, headers),
        (None, true) => check_query(&query),
    }
}

fn check_header(header: &str, headers: &HeaderMap) -> Result<(), ApiError> {
    let parts: Vec<&str> = header.split([',', ' ']).skip(1).filter(|it| !it.is_empty()).collect();
    let has = |name: &str| {
        parts.iter().any(|part| {
            part.split_once('=').is_some_and(|(key, value)| key == name && !value.is_empty())
        })
    };
    let mut message = String::new();
    for name in ["Credential", "Signature", "SignedHeaders"] {
        if !has(name) {
            message += &format!("Authorization header requires '{name}' parameter. ");
        }
    }
    if !headers.contains_key("x-amz-date") && !headers.contains_key(DATE) {
        message +=
            "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header. ";
    }
    match message.is_empty() {
        true => Ok(()),
        false => {
            message += &format!("Authorization={header}");
            Err(ApiError::new("IncompleteSignatureException", message))
        }
    }
}

fn check_query(query: &Query<'_>) -> Result<(), ApiError> {
    let mut message = String::new();
    for name in [
        "X-Amz-Algorithm",
        "X-Amz-Credential",
        "X-Amz-Signature",
        "X-Amz-SignedHeaders",
        "X-Amz-Date",
    ] {
        if !query.has_value(name) {
            message += &format!("AWS query-string parameters must include '{name}'. ");
        }
    }
    match message.is_empty() {
        true => Ok(()),
        false => {
            message += "Re-examine the query-string parameters.";
            Err(ApiError::new("IncompleteSignatureException", message))
        }
    }
}

/// The parameters of an address.
struct Query<'a>(&'a str);

impl Query<'_> {
    fn value(&self, name: &str) -> Option<&str> {
        let pairs = self.0.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        pairs.into_iter().find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    fn has(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    fn has_value(&self, name: &str) -> bool {
        self.value(name).is_some_and(|value| !value.is_empty())
    }
}
