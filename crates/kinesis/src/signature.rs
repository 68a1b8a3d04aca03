//! Signatures of requests, version 4 (AWS, "Signature Version 4 signing process").
//!
//! A client signs a *canonical request* with a key that is made of its secret, the day, the region and the service. Here the
//! same is made of what has come, and compared. Nothing of the body is believed that was not hashed here.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::Range;

use hmac::Mac;
use hyper::header::HOST;
use hyper::http::request::Parts;
use logway_model::calendar::days_of_date;
pub(crate) use logway_security::signature_v4::format_time;
use logway_security::signature_v4::{
    ALGORITHM, TERMINATOR, body_hash, hex, mac, percent_encode, signing_key, to_sign,
};

use crate::authentication::Signed;
use crate::error::ApiError;

/// How far a client's clock may be from this one, in ms. AWS's own allowance.
const SKEW_MAX_MS: i64 = 300_000;

/// The longest life of a signature in an address, in seconds: a week.
const EXPIRES_S_MAX: i64 = 604_800;

/// Headers that say what is asked: a signature that leaves one of them out would be good for other requests, too.
const MUST_BE_SIGNED: [&str; 3] = ["x-amz-target", "x-amz-date", "x-amz-security-token"];

/// What a signature is made for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scope<'a> {
    /// By which the secret is found.
    pub(crate) key_id: &'a str,
    date: &'a str,
    region: &'a str,
    service: &'a str,
    terminator: &'a str,
}

impl<'a> Scope<'a> {
    /// Takes a credential apart: `ID/20261126/REGION/kinesis/aws4_request`.
    fn parse(credential: &'a str) -> Result<Scope<'a>, ApiError> {
        let parts: Vec<&str> = credential.split('/').collect();
        match parts[..] {
            [key_id, date, region, service, terminator] => {
                Ok(Scope { key_id, date, region, service, terminator })
            }
            _ => Err(incomplete(format!(
                "Credential must have exactly 5 slash-delimited elements, e.g. keyid/date/region/service/term, got '{credential}'"
            ))),
        }
    }

    fn check(&self, expected: &str, time: &str) -> Result<(), ApiError> {
        let mut message = String::new();
        if self.service != expected {
            message += &format!("Credential should be scoped to correct service: '{expected}'. ");
        }
        if self.terminator != TERMINATOR {
            message += &format!(
                "Credential should be scoped with a valid terminator: '{TERMINATOR}', not '{}'. ",
                self.terminator
            );
        }
        let day = &time[..8];
        if self.date != day {
            message += &format!(
                "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: '{}' != '{day}', from '{time}'.",
                self.date
            );
        }
        if message.is_empty() { Ok(()) } else { Err(mismatch(message)) }
    }
}

/// A signature that has all its parts and is made for this service and time. Whether it is right needs the secret.
pub(crate) struct Verifier<'a> {
    /// What it is made for.
    pub(crate) scope: Scope<'a>,
    signed: &'a Signed<'a>,
    head: &'a Parts,
}

impl<'a> Verifier<'a> {
    /// Checks all that can be checked without the secret, of a request for a service.
    pub(crate) fn new(
        service: &str,
        signed: &'a Signed<'a>,
        head: &'a Parts,
        now_ms: i64,
    ) -> Result<Verifier<'a>, ApiError> {
        if signed.algorithm != ALGORITHM {
            return Err(incomplete(format!(
                "Unsupported AWS 'algorithm': '{}'.",
                signed.algorithm
            )));
        }
        let scope = Scope::parse(&signed.credential)?;
        let time_ms = parse_time(&signed.time).ok_or_else(|| {
            incomplete(format!("Date must be in ISO-8601 'basic format'. Got '{}'.", signed.time))
        })?;
        scope.check(service, &signed.time)?;
        check_time(signed, time_ms, now_ms)?;
        let names = || signed.signed_headers.split(';');
        // As AWS has it. A name that comes twice would also be worked on twice.
        if !names().is_sorted_by(|before, name| before < name) {
            return Err(mismatch("SignedHeaders must be in order, each of them once."));
        }
        if !names().any(|name| matches!(name, "host" | ":authority")) {
            return Err(mismatch(
                "'Host' or ':authority' must be a 'SignedHeader' in the AWS Authorization.",
            ));
        }
        let is_unsigned = |name: &&str| {
            head.headers.contains_key(*name) && !names().any(|signed| signed == *name)
        };
        if let Some(name) = MUST_BE_SIGNED.iter().find(|name| is_unsigned(name)) {
            return Err(mismatch(format!(
                "There were headers present in the request which were not signed: {name}"
            )));
        }
        Ok(Verifier { scope, signed, head })
    }

    /// Whether the request is as it was when it was signed, by who has the secret.
    pub(crate) fn verify(&self, secret: &[u8], body: &[u8]) -> Result<(), ApiError> {
        let body_hash = body_hash(body);
        let told = self.head.headers.get("x-amz-content-sha256");
        if told.is_some_and(|told| told.as_bytes() != body_hash.as_bytes()) {
            return Err(mismatch(
                "The value of x-amz-content-sha256 is not the SHA-256 of the body.",
            ));
        }
        let request = self.canonical_request(&body_hash)?;
        let Scope { date, region, service, terminator, .. } = self.scope;
        let scope = [date, region, service, terminator];
        let to_sign = to_sign(&self.signed.time, scope, &request);
        let key = signing_key(secret, scope);
        let expected = hex(&mac(&key, to_sign.as_bytes()).finalize().into_bytes());
        // Both are hashed once more with the same key, which makes the time of the comparison tell nothing.
        let given = mac(&key, self.signed.signature.as_bytes());
        let is_right =
            given.verify_slice(&mac(&key, expected.as_bytes()).finalize().into_bytes()).is_ok();
        if is_right { Ok(()) } else { Err(mismatch(DOES_NOT_MATCH)) }
    }

    fn canonical_request(&self, body_hash: &str) -> Result<String, ApiError> {
        let Parts { method, uri, .. } = self.head;
        let mut headers = String::new();
        for name in self.signed.signed_headers.split(';') {
            let value = self.header(name).ok_or_else(|| mismatch(DOES_NOT_MATCH))?;
            let _ = writeln!(headers, "{name}:{value}");
        }
        let path = canonical_path(uri.path());
        let query = canonical_query(uri.query().unwrap_or_default());
        let names = &self.signed.signed_headers;
        Ok(format!("{method}\n{path}\n{query}\n{headers}\n{names}\n{body_hash}"))
    }

    /// The values of a header, as they are signed. HTTP/2 has the host in the address.
    fn header(&self, name: &str) -> Option<String> {
        let authority = || self.head.uri.authority().map(|authority| authority.to_string());
        if name == ":authority" {
            return authority();
        }
        let values = self.head.headers.get_all(name).iter();
        let values: Vec<String> = values
            .map(|value| {
                let text = String::from_utf8_lossy(value.as_bytes());
                text.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
            })
            .collect();
        match values.is_empty() {
            true if name == HOST.as_str() => authority(),
            true => None,
            false => Some(values.join(",")),
        }
    }
}

const DOES_NOT_MATCH: &str = "The request signature we calculated does not match the signature you provided. Check your AWS Secret \
     Access Key and signing method. Consult the service documentation for details.";

fn mismatch(message: impl Into<String>) -> ApiError {
    ApiError::new("InvalidSignatureException", message)
}

fn incomplete(message: impl Into<String>) -> ApiError {
    ApiError::new("IncompleteSignatureException", message)
}

fn check_time(signed: &Signed<'_>, time_ms: i64, now_ms: i64) -> Result<(), ApiError> {
    let (life_ms, life) = match &signed.expires_s {
        None => (SKEW_MAX_MS, "5 min.".to_owned()),
        Some(text) => {
            let seconds = text.parse().ok().filter(|seconds| (1..=EXPIRES_S_MAX).contains(seconds));
            let seconds: i64 = seconds.ok_or_else(|| {
                incomplete(format!("X-Amz-Expires must be 1 to {EXPIRES_S_MAX} seconds."))
            })?;
            (seconds * 1_000, format!("{seconds} s"))
        }
    };
    let (time, now) = (&signed.time, format_time(now_ms));
    if time_ms < now_ms - life_ms {
        let earliest = format_time(now_ms - life_ms);
        return Err(mismatch(format!(
            "Signature expired: {time} is now earlier than {earliest} ({now} - {life})"
        )));
    }
    if time_ms > now_ms + SKEW_MAX_MS {
        let latest = format_time(now_ms + SKEW_MAX_MS);
        return Err(mismatch(format!(
            "Signature not yet current: {time} is still later than {latest} ({now} + 5 min.)"
        )));
    }
    Ok(())
}

/// A path without `.`, `..` and empty parts, encoded once more.
fn canonical_path(path: &str) -> Cow<'_, str> {
    if path == "/" {
        return Cow::Borrowed(path);
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let mut canonical = String::new();
    for part in &parts {
        canonical.push('/');
        percent_encode(part.as_bytes(), &mut canonical);
    }
    if path.ends_with('/') || parts.is_empty() {
        canonical.push('/');
    }
    Cow::Owned(canonical)
}

/// The parameters in order, without the signature itself.
fn canonical_query(query: &str) -> String {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let mut pairs: Vec<String> = pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .filter(|(name, _)| *name != "X-Amz-Signature")
        .map(|(name, value)| {
            let mut canonical = String::new();
            percent_encode(&percent_decoded(name), &mut canonical);
            canonical.push('=');
            percent_encode(&percent_decoded(value), &mut canonical);
            canonical
        })
        .collect();
    pairs.sort();
    pairs.join("&")
}

/// What a text of an address stands for. A `%` without two digits behind it stands for itself.
pub(crate) fn percent_decoded(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((&byte, tail)) = rest.split_first() {
        let coded = match (byte, tail) {
            (b'%', [high, low, ..]) => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                digit(*high)
                    .zip(digit(*low))
                    .and_then(|(high, low)| u8::try_from(high * 16 + low).ok())
            }
            _ => None,
        };
        decoded.push(coded.unwrap_or(byte));
        rest = if coded.is_some() { &tail[2..] } else { tail };
    }
    decoded
}

/// Reads `20150830T123600Z`, in ms since 1970.
fn parse_time(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    if bytes.len() != 16 || bytes[8] != b'T' || bytes[15] != b'Z' {
        return None;
    }
    let number = |range: Range<usize>| {
        let digits = text.get(range)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<i64>().ok())?
    };
    let (year, month, day) = (number(0..4)?, number(4..6)?, number(6..8)?);
    let (hour, minute, second) = (number(9..11)?, number(11..13)?, number(13..15)?);
    let is_time = (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second < 61;
    if !is_time {
        return None;
    }
    Some((days_of_date(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second) * 1_000)
}

#[cfg(test)]
mod tests;
