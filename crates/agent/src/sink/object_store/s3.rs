//! Objects by S3's `PutObject`, or in parts (Amazon S3, API Reference), with the bucket in the path.

use axum::http::{HeaderValue, Method};
use bytes::Bytes;
use logway_security::signature_v4::{Signing, body_hash, format_time, percent_encode};

use super::SinkContext;
use crate::error::{StartError, because};
use crate::http_client::{Answer, Endpoint, HttpClient, Version};
use crate::interceptor::now_ms;
use crate::sink::web::said;

/// The longest key of an object.
pub(super) const KEY_BYTES_MAX: usize = 1024;

/// Of how many parts an object is at most (Amazon S3, "multipart upload limits").
const PARTS_MAX: usize = 10_000;

/// Of answers only an error's text is of interest.
const ANSWER_BYTES_MAX: usize = 64 << 10;

pub(super) struct S3 {
    client: HttpClient,
    bucket: String,
    region: String,
    key_id: String,
    secret: String,
    token: Option<String>,
    /// A larger object is sent in parts of this size.
    part_bytes: usize,
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
        let (bucket, part_bytes) = (bucket.to_owned(), settings.size("partSize"));
        Ok(S3 { client, bucket, region, key_id, secret, token, part_bytes })
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
        let body = Bytes::from(body);
        match body.len() > self.part_bytes {
            true => self.put_in_parts(&path, body).await,
            false => self.call(Method::PUT, &path, "", body).await.map(drop),
        }
    }

    /// By `CreateMultipartUpload`, `UploadPart` and `CompleteMultipartUpload`. The object is there when the last one is
    /// answered. Parts of an upload that does not come to its end are deleted, as far as the store can be reached.
    async fn put_in_parts(&mut self, path: &str, body: Bytes) -> Result<(), String> {
        let begun = self.call(Method::POST, path, "uploads=", Bytes::new()).await?;
        let named = self.named(path);
        let id = element(&begun.body, "UploadId")
            .ok_or_else(|| format!("{named}: the store gave the upload no id{}", said(&begun)))?;
        let mut query = String::from("uploadId=");
        percent_encode(id.as_bytes(), &mut query);
        let put = self.put_parts(path, &query, body).await;
        if put.is_err() {
            let aborted = self.call(Method::DELETE, path, &query, Bytes::new()).await;
            if let Err(error) = aborted {
                tracing::warn!(%error, "parts of an object are left in the store");
            }
        }
        put
    }

    async fn put_parts(&mut self, path: &str, upload: &str, body: Bytes) -> Result<(), String> {
        // A store takes no more parts.
        let part_bytes = self.part_bytes.max(body.len().div_ceil(PARTS_MAX));
        let mut list = String::from("<CompleteMultipartUpload>");
        for (index, begin) in (0..body.len()).step_by(part_bytes).enumerate() {
            let number = index + 1;
            let part = body.slice(begin..body.len().min(begin + part_bytes));
            let query = format!("partNumber={number}&{upload}");
            let answer = self.call(Method::PUT, path, &query, part).await?;
            let tag = answer.headers.get("etag").and_then(|tag| tag.to_str().ok());
            let tag = tag
                .ok_or_else(|| format!("{}: part {number} got no ETag", self.named(path)))?
                .replace('"', "&quot;");
            list += &format!("<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>");
        }
        list += "</CompleteMultipartUpload>";
        let answer = self.call(Method::POST, path, upload, list.into()).await?;
        // What goes wrong while the store puts parts together comes with the status 200.
        match element(&answer.body, "ETag") {
            Some(_) => Ok(()),
            None => Err(format!("{}: the store answered 200{}", self.named(path), said(&answer))),
        }
    }

    fn named(&self, path: &str) -> String {
        format!("{}{path}", self.client.endpoint.to_string().trim_end_matches('/'))
    }

    /// Sends a signed request. The query is in canonical form.
    async fn call(
        &mut self,
        method: Method,
        path: &str,
        query: &str,
        body: Bytes,
    ) -> Result<Answer, String> {
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
        let headers = signed.iter().filter(|(name, _)| *name != "host");
        let headers: Result<Vec<_>, _> = headers
            .map(|(name, value)| HeaderValue::from_str(value).map(|value| (*name, value)))
            .collect();
        let headers = headers.map_err(|error| error.to_string())?;
        let target = match query {
            "" => path.to_owned(),
            query => format!("{path}?{query}"),
        };
        let answer = self.client.call(method, &target, &headers, body, ANSWER_BYTES_MAX).await;
        let named = self.named(path);
        let answer: Answer = answer.map_err(|error| format!("{named}: {error}"))?;
        match answer.status {
            200 | 204 => Ok(answer),
            status => Err(format!("{named}: the store answered {status}{}", said(&answer))),
        }
    }
}

/// The text of the first element of a name in XML.
fn element(xml: &[u8], name: &str) -> Option<String> {
    let xml = String::from_utf8_lossy(xml);
    let (_, behind) = xml.split_once(&format!("<{name}>"))?;
    let (text, _) = behind.split_once(&format!("</{name}>"))?;
    Some(text.to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::{Arc, Mutex};

    use axum::body::Body;
    use axum::http::Response;

    use super::*;
    use crate::counters::SinkCounters;
    use crate::tests::toml;
    use crate::tests::web::serve_bytes;

    /// A store that fails once at each step, and takes an upload's parts in its order.
    #[derive(Default)]
    struct Store {
        uploads: usize,
        parts: BTreeMap<usize, Vec<u8>>,
        object: Option<Vec<u8>>,
        aborted: Vec<String>,
    }

    impl Store {
        fn answer(&mut self, method: &str, query: &str, body: &[u8]) -> Option<(u16, String)> {
            let number = query.strip_prefix("partNumber=").and_then(|rest| rest.split('&').next());
            Some(match (method, number) {
                ("POST", _) if query == "uploads=" => {
                    self.uploads += 1;
                    self.parts.clear();
                    (200, format!("<R><UploadId>a+{}</UploadId></R>", self.uploads))
                }
                ("PUT", Some(number)) => {
                    assert!(query.ends_with(&format!("uploadId=a%2B{}", self.uploads)), "{query}");
                    let number = number.parse().expect("is a number");
                    if (self.uploads, number) == (1, 2) {
                        return Some((503, "SlowDown".to_owned()));
                    }
                    self.parts.insert(number, body.to_vec());
                    (200, String::new())
                }
                ("POST", _) if self.uploads == 2 => {
                    (200, "<Error><Code>InternalError</Code></Error>".to_owned())
                }
                ("POST", _) => {
                    let list = String::from_utf8_lossy(body);
                    assert_eq!(list.matches("<PartNumber>").count(), self.parts.len(), "{list}");
                    self.object = Some(self.parts.values().flatten().copied().collect());
                    (200, "<R><ETag>&quot;x&quot;</ETag></R>".to_owned())
                }
                ("DELETE", _) => {
                    self.aborted.push(query.to_owned());
                    (204, String::new())
                }
                other => panic!("{other:?}"),
            })
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_large_object_comes_in_parts_and_is_there_when_all_of_them_are() {
        const MIB: usize = 1 << 20;
        let store: Arc<Mutex<Store>> = Arc::default();
        let at_server = Arc::clone(&store);
        let address = serve_bytes(move |method, target, headers, body| {
            let (path, query) = target.split_once('?').expect("has a query");
            assert_eq!(path, "/bucket/a/b");
            let (hash, time) = (body_hash(body), headers["x-amz-date"].to_str().expect("is text"));
            let host = headers["host"].to_str().expect("is text");
            let signed =
                [("host", host), ("x-amz-content-sha256", hash.as_str()), ("x-amz-date", time)];
            let signing =
                Signing { key_id: "key", secret: b"secret", region: "r", service: "s3", time };
            let expected = signing.authorization(method, path, query, &signed, &hash);
            assert_eq!(headers["authorization"], expected);
            let (status, text) = at_server.lock().expect("no panic").answer(method, query, body)?;
            let answer = Response::builder().status(status).header("etag", "\"x\"");
            Some(answer.body(Body::from(text)).expect("is an answer"))
        })
        .await;
        let config = toml(&format!(
            "[channels.c]\ntype = 'memory'\n[sinks.k]\ntype = 's3'\nchannel = 'c'\nurl = 's3://bucket/'\nregion = 'r'\n\
             endpoint = 'http://{address}'\naccessKeyId = 'key'\nsecretAccessKey = 'secret'\npartSize = {}\n",
            5 * MIB
        ));
        let settings = config.expect("makes sense").sinks.remove(0).settings;
        let context = SinkContext { settings, counters: Arc::new(SinkCounters::default()) };
        let mut s3 = S3::new(&context, "bucket").expect("is made");
        let body: Vec<u8> = (0..12 * MIB).map(|at| (at % 251) as u8).collect();
        let refused = s3.put("a/", "b", body.clone()).await.expect_err("the second part fails");
        assert!(refused.contains("503: SlowDown"), "{refused}");
        let refused = s3.put("a/", "b", body.clone()).await.expect_err("the end fails");
        assert!(refused.contains("InternalError"), "{refused}");
        assert_eq!(store.lock().expect("no panic").object, None);
        s3.put("a/", "b", body.clone()).await.expect("arrives");
        let store = store.lock().expect("no panic");
        assert_eq!(
            store.parts.values().map(Vec::len).collect::<Vec<_>>(),
            [5 * MIB, 5 * MIB, 2 * MIB]
        );
        assert!(store.object.as_ref() == Some(&body), "the object is another one");
        assert_eq!(store.aborted, ["uploadId=a%2B1", "uploadId=a%2B2"]);
    }
}
