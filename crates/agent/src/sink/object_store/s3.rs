//! Objects by S3's `PutObject` (Amazon S3, API Reference), with the bucket in the path.

use axum::http::{HeaderValue, Method};
use logway_security::signature_v4::{Signing, body_hash, format_time, percent_encode};

use super::SinkContext;
use crate::error::{StartError, because};
use crate::http_client::{Answer, Endpoint, HttpClient, Version};
use crate::interceptor::now_ms;
use crate::sink::web::said;

/// The longest key of an object.
pub(super) const KEY_BYTES_MAX: usize = 1024;

/// Of answers only an error's text is of interest.
const ANSWER_BYTES_MAX: usize = 64 << 10;

pub(super) struct S3 {
    client: HttpClient,
    bucket: String,
    region: String,
    key_id: String,
    secret: String,
    token: Option<String>,
}

impl S3 {
    pub(super) fn new(context: &SinkContext, bucket: &str) -> Result<S3, StartError> {
        let settings = &context.settings;
        let is_sound = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if bucket.is_empty() || bucket.starts_with('.') || !bucket.bytes().all(is_sound) {
            return Err(format!("url names the bucket '{bucket}', which is no bucket's name"));
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
        let counters = std::sync::Arc::clone(&context.counters);
        let client = HttpClient::of_sink(settings, endpoint, Version::Http1, counters)?;
        Ok(S3 { client, bucket: bucket.to_owned(), region, key_id, secret, token })
    }

    /// Writes an object. When this returns, the store has it as a whole; one of the same name is replaced.
    pub(super) async fn put(
        &mut self,
        directory: &str,
        name: &str,
        body: Vec<u8>,
    ) -> Result<(), String> {
        let mut path = format!("/{}", self.bucket);
        for part in format!("{directory}{name}").split('/') {
            path.push('/');
            percent_encode(part.as_bytes(), &mut path);
        }
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
        let authorization = signing.authorization("PUT", &path, "", &signed, &hash);
        signed.push(("authorization", &authorization));
        // The client adds the host itself.
        let headers = signed.iter().filter(|(name, _)| *name != "host");
        let headers: Result<Vec<_>, _> = headers
            .map(|(name, value)| HeaderValue::from_str(value).map(|value| (*name, value)))
            .collect();
        let headers = headers.map_err(|error| error.to_string())?;
        let named = format!("{}{path}", self.client.endpoint.to_string().trim_end_matches('/'));
        let answer =
            self.client.call(Method::PUT, &path, &headers, body.into(), ANSWER_BYTES_MAX).await;
        let answer: Answer = answer.map_err(|error| format!("{named}: {error}"))?;
        match answer.status {
            200 => Ok(()),
            status => Err(format!("{named}: the store answered {status}{}", said(&answer))),
        }
    }
}
