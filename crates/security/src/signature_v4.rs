//! Signatures of requests to AWS's services and those that are like them, version 4 (AWS, "Signature Version 4 signing
//! process"): what who signs and who verifies have in common.

use std::fmt::Write as _;

use hmac::{Hmac, KeyInit, Mac};
use logway_model::calendar::date_of_days;
use sha2::{Digest, Sha256};

/// The only algorithm.
pub const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// What a scope ends with.
pub const TERMINATOR: &str = "aws4_request";

/// Who signs a request, and what for.
#[derive(Clone, Copy)]
pub struct Signing<'a> {
    /// The id of the access key.
    pub key_id: &'a str,
    /// Its secret.
    pub secret: &'a [u8],
    /// The region.
    pub region: &'a str,
    /// The service.
    pub service: &'a str,
    /// The time, as [`format_time`] has it.
    pub time: &'a str,
}

impl Signing<'_> {
    /// The header `authorization` of a request. The path is as it is sent, the query is in canonical form, and headers are
    /// in the order of their names, in lower case.
    pub fn authorization(
        &self,
        method: &str,
        path: &str,
        query: &str,
        headers: &[(&str, &str)],
        body_hash: &str,
    ) -> String {
        let scope = [&self.time[..8], self.region, self.service, TERMINATOR];
        let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
        let names = names.join(";");
        let lines: String =
            headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        let request = format!("{method}\n{path}\n{query}\n{lines}\n{names}\n{body_hash}");
        let to_sign = to_sign(self.time, scope, &request);
        let key = signing_key(self.secret, scope);
        let signature = hex(&mac(&key, to_sign.as_bytes()).finalize().into_bytes());
        format!(
            "{ALGORITHM} Credential={}/{}, SignedHeaders={names}, Signature={signature}",
            self.key_id,
            scope.join("/")
        )
    }
}

/// What is signed: the canonical request by its hash, with when and what for.
pub fn to_sign(time: &str, scope: [&str; 4], request: &str) -> String {
    let [date, region, service, terminator] = scope;
    format!(
        "{ALGORITHM}\n{time}\n{date}/{region}/{service}/{terminator}\n{}",
        body_hash(request.as_bytes())
    )
}

/// The key of a day, a region and a service.
pub fn signing_key(secret: &[u8], scope: [&str; 4]) -> [u8; 32] {
    let mut key = [b"AWS4", secret].concat();
    let mut next = [0; 32];
    for part in scope {
        next = mac(&key, part.as_bytes()).finalize().into_bytes().into();
        key = next.to_vec();
    }
    next
}

/// A keyed hash of some bytes.
pub fn mac(key: &[u8], data: &[u8]) -> Hmac<Sha256> {
    let mac = Hmac::<Sha256>::new_from_slice(key).expect("a key may be of any length");
    mac.chain_update(data)
}

/// The hash of a body, as it is signed.
pub fn body_hash(body: &[u8]) -> String {
    hex(&Sha256::digest(body))
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Adds bytes as they are in an address: all but letters, digits and `-._~` by their numbers.
pub fn percent_encode(bytes: &[u8], out: &mut String) {
    for &byte in bytes {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
}

/// A time as `20150830T123600Z`, from ms since 1970.
pub fn format_time(ms: i64) -> String {
    let seconds = ms.div_euclid(1_000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = date_of_days(days);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Amazon S3, "Examples: Signature calculations": GET Object.
    #[test]
    fn a_signature_is_as_in_amazons_example() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(body_hash(b""), empty);
        let signing = Signing {
            key_id: "AKIAIOSFODNN7EXAMPLE",
            secret: b"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            region: "us-east-1",
            service: "s3",
            time: "20130524T000000Z",
        };
        let headers = [
            ("host", "examplebucket.s3.amazonaws.com"),
            ("range", "bytes=0-9"),
            ("x-amz-content-sha256", empty),
            ("x-amz-date", signing.time),
        ];
        let authorization = signing.authorization("GET", "/test.txt", "", &headers, empty);
        let expected = "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41";
        assert!(authorization.ends_with(&format!("Signature={expected}")), "{authorization}");
    }
}
