//! A bucket of a store that speaks S3 (Amazon S3, API Reference), with its name in the path of each request.

use std::fmt;
use std::sync::Arc;

use axum::http::{HeaderValue, Method};
use bytes::Bytes;
use logway_security::signature_v4::{Signing, body_hash, format_time, percent_encode};

use crate::counters::SinkCounters;
use crate::declaration::{Fallback, Key, Kind, key};
use crate::error::{StartError, because};
use crate::http_client::{Answer, CONNECT_TIMEOUT, Endpoint, HttpClient, Version};
use crate::interceptor::now_ms;
use crate::settings::Settings;

/// The longest key of an object.
pub(crate) const KEY_BYTES_MAX: usize = 1024;

/// Of most answers only an error's text is of interest.
pub(crate) const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Said instead of an address that may have a password in it.
pub(crate) const KEYS_IN_URL: &str =
    "url has an '@': keys belong into accessKeyId and secretAccessKey";

/// What components can be told that use a bucket, beside [`crate::tls::OF_HTTPS`].
pub(crate) const OF_BUCKET: &[Key] = &[
    key(
        "endpoint",
        Kind::Address,
        Fallback::Nothing,
        "`http://HOST:PORT` or `https://HOST:PORT` of a store that is not Amazon's. Buckets are in the path.",
    ),
    key(
        "region",
        Kind::Text,
        Fallback::Is("us-east-1"),
        "The region that requests are signed for.",
    ),
    key(
        "accessKeyId",
        Kind::Text,
        Fallback::Nothing,
        "The id of the key, such as `${env:AWS_ACCESS_KEY_ID}`.",
    ),
    key(
        "secretAccessKey",
        Kind::Text,
        Fallback::Nothing,
        "The key's secret, such as `${env:AWS_SECRET_ACCESS_KEY}`.",
    ),
    key("sessionToken", Kind::Text, Fallback::Nothing, "What a key for a while has besides."),
    CONNECT_TIMEOUT,
];

pub(crate) struct Bucket {
    client: HttpClient,
    name: String,
    region: String,
    key_id: String,
    secret: String,
    token: Option<String>,
}

/// What the store is asked.
pub(crate) struct Call<'a> {
    pub(crate) method: Method,
    pub(crate) path: &'a str,
    /// In canonical form.
    pub(crate) query: &'a str,
    /// Headers that are not signed.
    pub(crate) headers: &'a [(&'static str, HeaderValue)],
    pub(crate) body: Bytes,
    pub(crate) answer_bytes_max: usize,
}

/// The store has not done what it was asked.
#[derive(Debug)]
pub(crate) struct Refused {
    /// What it answered, if it did.
    pub(crate) status: Option<u16>,
    message: String,
}

impl Refused {
    /// What it answered is not what was asked for.
    pub(crate) fn new(message: String) -> Refused {
        Refused { status: None, message }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<Refused> for String {
    fn from(refused: Refused) -> String {
        refused.message
    }
}

impl Bucket {
    /// The one of a name, by [`OF_BUCKET`] and the component's own `requestTimeout`.
    pub(crate) fn new(
        settings: &Settings,
        name: &str,
        counters: Option<Arc<SinkCounters>>,
    ) -> Result<Bucket, StartError> {
        let is_sound = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if name.is_empty() || name.starts_with('.') || !name.bytes().all(is_sound) {
            return Err(match name.contains('@') {
                true => KEYS_IN_URL.to_owned(),
                false => format!("url names the bucket '{name}', which is no bucket's name"),
            });
        }
        let region = settings.required("region").trim().to_owned();
        let amazons = format!("https://s3.{region}.amazonaws.com");
        let endpoint = Endpoint::parse(settings.text("endpoint").unwrap_or(&amazons).trim())
            .map_err(because("endpoint"))?;
        if endpoint.path != "/" {
            return Err(format!("endpoint {endpoint} has a path, which a store has not"));
        }
        let needed = |key: &str| {
            let value = settings.text(key).map(|value| value.trim().to_owned());
            value.ok_or_else(|| format!("a store of objects needs '{key}'"))
        };
        let (key_id, secret) = (needed("accessKeyId")?, needed("secretAccessKey")?);
        let token = settings.text("sessionToken").map(|token| token.trim().to_owned());
        for (name, text) in [("accessKeyId", &key_id), ("region", &region)] {
            HeaderValue::from_str(text).map_err(because(name))?;
        }
        if let Some(token) = &token {
            HeaderValue::from_str(token).map_err(because("sessionToken"))?;
        }
        let client = HttpClient::new(settings, endpoint, Version::Http1, counters)?;
        Ok(Bucket { client, name: name.to_owned(), region, key_id, secret, token })
    }

    /// The path of the bucket itself.
    pub(crate) fn path(&self) -> String {
        format!("/{}", self.name)
    }

    /// The path of an object.
    pub(crate) fn path_of(&self, key: &str) -> String {
        let mut path = self.path();
        for part in key.split('/') {
            path.push('/');
            percent_encode(part.as_bytes(), &mut path);
        }
        path
    }

    /// What messages call a path.
    pub(crate) fn named(&self, path: &str) -> String {
        format!("{}{path}", self.client.endpoint.to_string().trim_end_matches('/'))
    }

    /// Sends a signed request.
    pub(crate) async fn call(&mut self, call: Call<'_>) -> Result<Answer, Refused> {
        let Call { method, path, query, headers, body, answer_bytes_max } = call;
        let named = self.named(path);
        let failed = |why: String| Refused::new(format!("{named}: {why}"));
        let (host, time) = (self.client.endpoint.host_header(), format_time(now_ms()));
        let hash = body_hash(&body);
        // In the order of their names, as they are signed.
        let mut signed =
            vec![("host", host.as_str()), ("x-amz-content-sha256", &hash), ("x-amz-date", &time)];
        signed.extend(self.token.as_deref().map(|token| ("x-amz-security-token", token)));
        let signing = Signing {
            key_id: &self.key_id,
            secret: self.secret.as_bytes(),
            region: &self.region,
            service: "s3",
            time: &time,
        };
        let authorization = signing.authorization(method.as_str(), path, query, &signed, &hash);
        signed.push(("authorization", &authorization));
        // The client adds the host itself.
        let own = signed.iter().filter(|(name, _)| *name != "host");
        let own: Result<Vec<_>, _> =
            own.map(|(name, value)| HeaderValue::from_str(value).map(|it| (*name, it))).collect();
        let mut all = own.map_err(|error| failed(error.to_string()))?;
        all.extend_from_slice(headers);
        let target = match query {
            "" => path.to_owned(),
            query => format!("{path}?{query}"),
        };
        let answer = self.client.call(method, &target, &all, body, answer_bytes_max).await;
        let answer = answer.map_err(|error| failed(error.to_string()))?;
        match answer.status {
            200 | 204 | 206 => Ok(answer),
            status => {
                let message = format!("{named}: the store answered {status}{}", answer.said());
                Err(Refused { status: Some(status), message })
            }
        }
    }
}

/// The text of the first element of a name in XML.
pub(crate) fn element(xml: &str, name: &str) -> Option<String> {
    let (_, behind) = xml.split_once(&format!("<{name}>"))?;
    let (text, _) = behind.split_once(&format!("</{name}>"))?;
    Some(unescaped(text))
}

/// A text of XML with its entities replaced (XML 1.0, section 4.6).
fn unescaped(text: &str) -> String {
    let mut parts = text.split('&');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let named = part.split_once(';').and_then(|(entity, rest)| Some((letter(entity)?, rest)));
        match named {
            Some((letter, rest)) => {
                plain.push(letter);
                plain.push_str(rest);
            }
            None => {
                plain.push('&');
                plain.push_str(part);
            }
        }
    }
    plain
}

fn letter(entity: &str) -> Option<char> {
    match entity {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => {
            let number = entity.strip_prefix('#')?;
            let code = match number.strip_prefix('x') {
                Some(hex) => u32::from_str_radix(hex, 16),
                None => number.parse(),
            };
            char::from_u32(code.ok()?)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_found_in_xml() {
        let xml = "<A><Key>a &amp;&lt;b&gt; &quot;&#39;&#x41; &none; &</Key><Key>c</Key></A>";
        assert_eq!(element(xml, "Key").as_deref(), Some("a &<b> \"'A &none; &"));
        assert_eq!(element(xml, "ETag"), None);
    }
}
