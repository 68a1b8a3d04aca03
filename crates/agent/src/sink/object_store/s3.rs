//! Objects by S3's `PutObject`, or in parts.

use axum::http::Method;
use bytes::Bytes;
use logway_security::signature_v4::percent_encode;

use super::SinkContext;
use crate::error::StartError;
use crate::http_client::Answer;
use crate::s3::{ANSWER_BYTES_MAX, Bucket, Call, Refused, element};

/// Of how many parts an object is at most (Amazon S3, "multipart upload limits").
const PARTS_MAX: usize = 10_000;

pub(super) struct S3 {
    bucket: Bucket,
    /// A larger object is sent in parts of this size.
    part_bytes: usize,
}

impl S3 {
    pub(super) fn new(context: &SinkContext, bucket: &str) -> Result<S3, StartError> {
        let counters = std::sync::Arc::clone(&context.counters);
        let bucket = Bucket::new(&context.settings, bucket, Some(counters))?;
        Ok(S3 { bucket, part_bytes: context.settings.size("partSize") })
    }

    /// Writes an object. When this returns, the store has it as a whole; one of the same name is replaced.
    pub(super) async fn put(
        &mut self,
        directory: &str,
        name: &str,
        body: Vec<u8>,
    ) -> Result<(), String> {
        let path = self.bucket.path_of(&format!("{directory}{name}"));
        let body = Bytes::from(body);
        match body.len() > self.part_bytes {
            true => self.put_in_parts(&path, body).await,
            false => self.put_at_once(&path, body).await,
        }
    }

    /// By `PutObject`, which a store answers with the object's ETag.
    async fn put_at_once(&mut self, path: &str, body: Bytes) -> Result<(), String> {
        let answer = self.call(Method::PUT, path, "", body).await?;
        if answer.headers.contains_key("etag") {
            return Ok(());
        }
        let (named, status, said) = (self.bucket.named(path), answer.status, answer.said());
        Err(format!("{named}: {status} came without an ETag, which is no answer of S3{said}"))
    }

    /// By `CreateMultipartUpload`, `UploadPart` and `CompleteMultipartUpload`. The object is there when the last one is
    /// answered. Parts of an upload that does not come to its end are deleted, as far as the store can be reached.
    async fn put_in_parts(&mut self, path: &str, body: Bytes) -> Result<(), String> {
        let begun = self.call(Method::POST, path, "uploads=", Bytes::new()).await?;
        let named = self.bucket.named(path);
        let id = element(&begun.text(), "UploadId")
            .ok_or_else(|| format!("{named}: the store gave the upload no id{}", begun.said()))?;
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
                .ok_or_else(|| format!("{}: part {number} got no ETag", self.bucket.named(path)))?
                .replace('"', "&quot;");
            list += &format!("<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>");
        }
        list += "</CompleteMultipartUpload>";
        let answer = self.call(Method::POST, path, upload, list.into()).await?;
        // What goes wrong while the store puts parts together comes with the status 200.
        match element(&answer.text(), "ETag") {
            Some(_) => Ok(()),
            None => {
                Err(format!("{}: the store answered 200{}", self.bucket.named(path), answer.said()))
            }
        }
    }

    async fn call(
        &mut self,
        method: Method,
        path: &str,
        query: &str,
        body: Bytes,
    ) -> Result<Answer, Refused> {
        let (headers, answer_bytes_max) = (&[], ANSWER_BYTES_MAX);
        self.bucket.call(Call { method, path, query, headers, body, answer_bytes_max }).await
    }
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
    use crate::tests::web::{assert_signed, serve_bytes};

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
            assert_signed(method, target, headers, body);
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
