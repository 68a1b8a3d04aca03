//! Reading objects: each once, over starts, from stores that fail, and whatever is in them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::http::{HeaderMap, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use logway_security::signature_v4::body_hash;
use serde_json::Value;

use super::running::{count, wait_for};
use super::toml;
use super::web::{assert_signed, serve_bytes};
use crate::agent::RunningAgent;
use crate::counters::Registry;

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(plain).expect("is packed");
    encoder.finish().expect("is packed")
}

/// An agent that reads objects into files.
struct Reading {
    agent: RunningAgent,
    registry: Registry,
}

impl Reading {
    async fn start(folder: &Path, source: &str) -> Reading {
        let out = folder.join("out");
        std::fs::create_dir_all(&out).expect("is made");
        let text = format!(
            "[sources.r]\ntype = 'object_store'\nchannels = ['c']\npollDelay = 20\nfileHeader = true\n\
             positionFile = '{}'\n{source}\n[channels.c]\ntype = 'memory'\n\
             [sinks.k]\ntype = 'file_roll'\nchannel = 'c'\n'sink.directory' = '{}'\n'sink.serializer' = 'JSON'\n",
            folder.join("positions").display(),
            out.display()
        );
        let registry = Registry::default();
        let config = toml(&text).expect("makes sense");
        let started = RunningAgent::start(config, &registry).await;
        Reading { agent: started.expect("starts"), registry }
    }

    /// Waits for so many events, and ends when the source has looked again.
    async fn end_with(mut self, events: u64) {
        wait_for("all events", || {
            count(&self.registry, "SINK.k", "EventDrainSuccessCount") >= events
        })
        .await;
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        self.agent.end_sources().await;
        wait_for("the rest", || count(&self.registry, "CHANNEL.c", "ChannelSize") == 0).await;
        assert_eq!(count(&self.registry, "SINK.k", "EventDrainSuccessCount"), events);
        self.agent.end_sinks().await;
    }
}

/// The events that have come, by the name of their object: their bodies, in order.
fn came(folder: &Path) -> BTreeMap<String, Vec<String>> {
    let mut files: Vec<_> = std::fs::read_dir(folder.join("out"))
        .expect("is there")
        .map(|file| file.expect("is there").path())
        .collect();
    files.sort();
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in files {
        for line in std::fs::read_to_string(&file).expect("is text").lines() {
            let event: Value = serde_json::from_str(line).expect("is JSON");
            let name = event["headers"]["file"].as_str().expect("is there");
            let name = name.rsplit('/').next().unwrap_or_default().to_owned();
            let body = event.get("body").or(event.get("bodyBase64")).and_then(Value::as_str);
            found.entry(name).or_default().push(body.expect("is text").to_owned());
        }
        std::fs::remove_file(file).expect("is there");
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_read_once_whatever_they_are_packed_with() {
    let folder = tempfile::tempdir().expect("is made");
    let objects = folder.path().join("objects");
    std::fs::create_dir_all(objects.join("below")).expect("is made");
    let write =
        |name: &str, bytes: &[u8]| std::fs::write(objects.join(name), bytes).expect("is written");
    write("a.txt", b"one\r\ntwo\n\nlast");
    // Two pieces, as sinks append them.
    write("below/b.gz", &[gzip(b"three\n"), gzip(b"four\n")].concat());
    write("c.zst", &zstd::encode_all(&b"five\n"[..], 1).expect("is packed"));
    let damaged = gzip(&b"six\nseven\n".repeat(10_000));
    write("d.gz", &damaged[..damaged.len() / 2]);
    write("e.part", b"not complete\n");
    write(".f", b"hidden\n");
    write("g.log", b"ignored\n");
    write("z", b"eight\n");
    let source = format!("url = 'file://{}'\nignorePattern = '.*\\.log'", objects.display());

    let reading = Reading::start(folder.path(), &source).await;
    wait_for("the damage", || count(&reading.registry, "SOURCE.r", "EventReadFail") == 1).await;
    let out = folder.path().join("out");
    let is_written = |file: std::io::Result<std::fs::DirEntry>| {
        let text = std::fs::read_to_string(file.expect("is there").path());
        text.is_ok_and(|text| text.contains("\"eight\""))
    };
    wait_for("what is behind the damage", || {
        std::fs::read_dir(&out).expect("is there").any(is_written)
    })
    .await;
    wait_for("the last", || {
        count(&reading.registry, "SOURCE.r", "EventAcceptedCount")
            == count(&reading.registry, "SINK.k", "EventDrainSuccessCount")
    })
    .await;
    let so_many = count(&reading.registry, "SINK.k", "EventDrainSuccessCount");
    reading.end_with(so_many.max(9)).await;
    let found = came(folder.path());
    let of = |name: &str| found.get(name).cloned().unwrap_or_default();
    assert_eq!(of("a.txt"), ["one", "two", "", "last"]);
    assert_eq!(of("b.gz"), ["three", "four"]);
    assert_eq!(of("c.zst"), ["five"]);
    assert_eq!(of("z"), ["eight"], "what is behind a damaged one is read");
    assert!(of("d.gz").len() > 100 && of("d.gz").iter().all(|it| it == "six" || it == "seven"));
    assert_eq!(found.len(), 5, "{:?}", found.keys());

    // The next start reads what is new, and what is another one now; what was read can be deleted.
    write("b", b"nine\n");
    write("a.txt", b"ten\n");
    let reading =
        Reading::start(folder.path(), &format!("{source}\ndeletePolicy = 'immediate'")).await;
    reading.end_with(2).await;
    let found = came(folder.path());
    assert_eq!(found.values().flatten().map(String::as_str).collect::<Vec<_>>(), ["ten", "nine"]);
    let mut left: Vec<_> = std::fs::read_dir(&objects)
        .expect("is there")
        .map(|entry| entry.expect("is there").file_name().into_string().expect("is text"))
        .collect();
    left.sort();
    assert_eq!(left, [".f", "below", "d.gz", "e.part", "g.log"].map(str::to_owned));
}

#[tokio::test(flavor = "multi_thread")]
async fn events_in_json_have_their_headers_and_other_lines_say_what_they_are() {
    let folder = tempfile::tempdir().expect("is made");
    let objects = folder.path().join("objects");
    std::fs::create_dir(&objects).expect("is made");
    let lines = "{\"headers\":{\"file\":\"other\",\"a\":\"b\"},\"body\":\"x\"}\n{\"bodyBase64\":\"/w==\"}\n[1]\n";
    std::fs::write(objects.join("a"), lines).expect("is written");
    let source = format!("url = 'file://{}'\nformat = 'json'", objects.display());
    Reading::start(folder.path(), &source).await.end_with(3).await;
    let file = std::fs::read_dir(folder.path().join("out")).expect("is there").next();
    let file = file.expect("is there").expect("is there").path();
    let text = std::fs::read_to_string(file).expect("is text");
    let events: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("is JSON")).collect();
    assert_eq!((&events[0]["body"], &events[0]["headers"]["a"]), (&"x".into(), &"b".into()));
    assert_eq!(events[1]["bodyBase64"], "/w==");
    assert_eq!(
        (&events[2]["body"], &events[2]["headers"]["malformed"]),
        (&"[1]".into(), &"invalid type: sequence, expected an object at line 1 column 1".into())
    );
}

/// A bucket of four objects, which lists two at a time. Each request fails at first: it is refused, or has no answer.
struct Bucket {
    objects: BTreeMap<&'static str, Vec<u8>>,
    asked: BTreeSet<String>,
    /// An object is not to be had the first time.
    is_archived: bool,
    /// An object that is replaced between its list and its first piece.
    replaced: Option<&'static str>,
}

impl Bucket {
    fn answer(
        &mut self,
        method: &str,
        path: &str,
        query: &str,
        headers: &HeaderMap,
    ) -> Option<Response<Body>> {
        let range = headers.get("range").map(|range| range.to_str().expect("is text"));
        if self.asked.insert(format!("{method} {path} {query} {range:?}")) {
            return self.asked.len().is_multiple_of(2).then(|| respond(503, "SlowDown".into()));
        }
        if path == "/bucket" {
            let behind = match query {
                "list-type=2&prefix=logs%2F" => 0,
                "continuation-token=a%2B2&list-type=2&prefix=logs%2F" => 2,
                other => panic!("{other}"),
            };
            let listed = self.objects.iter().skip(behind).take(2).map(|(key, body)| {
                let key = key.replace('&', "&amp;");
                format!("<Contents><Key>{key}</Key><ETag>&quot;{}&quot;</ETag><Size>{}</Size></Contents>", tag(body), body.len())
            });
            let listed: String = listed.collect();
            let next =
                "<IsTruncated>true</IsTruncated><NextContinuationToken>a+2</NextContinuationToken>";
            let next = if behind + 2 < self.objects.len() { next } else { "" };
            return Some(respond(
                200,
                format!("<ListBucketResult>{next}{listed}</ListBucketResult>").into(),
            ));
        }
        let key = path.strip_prefix("/bucket/").expect("is in the bucket").replace("%26", "&");
        if method == "DELETE" {
            self.objects.retain(|known, _| *known != key);
            return Some(respond(204, Vec::new()));
        }
        if self.replaced.take_if(|replaced| *replaced == key).is_some() {
            self.objects.entry("logs/b&c").and_modify(|body| *body = b"new\n".to_vec());
        }
        if key == "logs/archived" && std::mem::take(&mut self.is_archived) {
            return Some(respond(403, "InvalidObjectState".into()));
        }
        let body = &self.objects[key.as_str()];
        if headers["if-match"] != format!("\"{}\"", tag(body)) {
            return Some(respond(412, "PreconditionFailed".into()));
        }
        let range = range.expect("is of a piece").strip_prefix("bytes=").expect("is of bytes");
        let (first, last) = range.split_once('-').expect("has an end");
        let [first, last] = [first, last].map(|at| at.parse::<usize>().expect("is a number"));
        Some(respond(206, body[first..=last].to_vec()))
    }
}

fn respond(status: u16, body: Vec<u8>) -> Response<Body> {
    Response::builder().status(status).body(Body::from(body)).expect("is an answer")
}

fn tag(body: &[u8]) -> String {
    body_hash(body)[..8].to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_is_read_page_by_page_and_piece_by_piece() {
    const LINES: usize = 120_000;
    let folder = tempfile::tempdir().expect("is made");
    // More than a piece has.
    let large: String = (0..LINES).map(|number| format!("{number} {}\n", "x".repeat(90))).collect();
    let objects = BTreeMap::from([
        ("logs/a", large.into_bytes()),
        ("logs/archived", b"late\n".to_vec()),
        ("logs/b&c", b"old\n".to_vec()),
        ("logs/z", gzip(b"last\n")),
    ]);
    let bucket = Arc::new(Mutex::new(Bucket {
        objects,
        asked: BTreeSet::new(),
        is_archived: true,
        replaced: Some("logs/b&c"),
    }));
    let at_server = Arc::clone(&bucket);
    let address = serve_bytes(move |method, target, headers, body| {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        assert_signed(method, target, headers, body);
        at_server.lock().expect("no panic").answer(method, path, query, headers)
    })
    .await;
    let source = format!(
        "url = 's3://bucket/logs/'\nendpoint = 'http://{address}'\nregion = 'r'\naccessKeyId = 'key'\nsecretAccessKey = 'secret'\n\
         deletePolicy = 'immediate'\n"
    );
    let reading = Reading::start(folder.path(), &source).await;
    let is_empty = || bucket.lock().expect("no panic").objects.is_empty();
    wait_for("all that was read to be deleted", is_empty).await;
    reading.end_with(LINES as u64 + 3).await;
    let found = came(folder.path());
    let numbers = found["a"].iter().map(|line| line.split(' ').next().expect("has one").parse());
    assert!(numbers.eq((0..LINES).map(Ok)), "lines are missing, double or out of order");
    assert_eq!(found["archived"], ["late"]);
    assert_eq!(
        (&found["b&c"][..], &found["z"][..]),
        (&["new".to_owned()][..], &["last".to_owned()][..])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_of_an_object_ends_also_at_a_bound_of_bytes() {
    let folder = tempfile::tempdir().expect("is made");
    let objects = folder.path().join("objects");
    std::fs::create_dir_all(&objects).expect("is made");
    let lines = format!("{}\n", "z".repeat(1_000_000)).repeat(20);
    std::fs::write(objects.join("a"), lines).expect("is written");
    let reading =
        Reading::start(folder.path(), &format!("url = 'file://{}'", objects.display())).await;
    let of_source = |counter| count(&reading.registry, "SOURCE.r", counter);
    wait_for("all lines", || of_source("EventAcceptedCount") == 20).await;
    assert_eq!(of_source("AppendBatchReceivedCount"), 3);
    reading.end_with(20).await;
}
