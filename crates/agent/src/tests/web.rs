//! Sinks that send over HTTP, against servers that behave as badly as real ones.

use std::collections::{BTreeMap, HashSet};
use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use axum::body::{Body, HttpBody};
use axum::http::{HeaderMap, Request, StatusCode};
use axum::response::{IntoResponse, Response};
use flate2::read::GzDecoder;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use logway_security::signature_v4::{Signing, body_hash};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::running::{count, wait_for};
use super::toml;
use crate::agent::RunningAgent;
use crate::counters::Registry;

/// What a server answers to a method, a target, headers and a body; `None` closes the connection in place of an answer.
type Answers = dyn Fn(&str, &str, &HeaderMap, &[u8]) -> Option<Response> + Send + Sync;

/// A server for as long as the test runs. Bodies are unpacked.
async fn serve(
    answers: impl Fn(&str, &HeaderMap, &str) -> Option<Response> + Send + Sync + 'static,
) -> SocketAddr {
    serve_bytes(move |_, path, headers, packed| {
        assert_eq!(headers["content-encoding"], "gzip");
        let mut text = String::new();
        GzDecoder::new(packed).read_to_string(&mut text).expect("is gzip");
        answers(path, headers, &text)
    })
    .await
}

/// A server for as long as the test runs.
pub(crate) async fn serve_bytes(
    answers: impl Fn(&str, &str, &HeaderMap, &[u8]) -> Option<Response> + Send + Sync + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("listens");
    let address = listener.local_addr().expect("has one");
    let answers: Arc<Answers> = Arc::new(answers);
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let answers = Arc::clone(&answers);
            let service = service_fn(move |request: Request<hyper::body::Incoming>| {
                let answers = Arc::clone(&answers);
                async move {
                    let (head, mut body) = request.into_parts();
                    let mut packed = Vec::new();
                    let mut next = async || {
                        std::future::poll_fn(|task| std::pin::Pin::new(&mut body).poll_frame(task))
                            .await
                    };
                    while let Some(frame) = next().await {
                        packed.extend_from_slice(
                            &frame.expect("comes").into_data().expect("is data"),
                        );
                    }
                    answers(head.method.as_str(), &head.uri.to_string(), &head.headers, &packed)
                        .ok_or(Broken)
                }
            });
            tokio::spawn(
                hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(socket), service),
            );
        }
    });
    address
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[error("broken")]
struct Broken;

/// Expects a request to be signed with the secret `secret` of the key `key`, for a store in the region `r`.
pub(crate) fn assert_signed(method: &str, target: &str, headers: &HeaderMap, body: &[u8]) {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let header = |name: &str| headers.get(name).map(|value| value.to_str().expect("is text"));
    let (hash, time) = (body_hash(body), header("x-amz-date").expect("has a time"));
    let mut signed = vec![
        ("host", header("host").expect("has a host")),
        ("x-amz-content-sha256", &hash),
        ("x-amz-date", time),
    ];
    signed.extend(header("x-amz-security-token").map(|token| ("x-amz-security-token", token)));
    let signing = Signing { key_id: "key", secret: b"secret", region: "r", service: "s3", time };
    let expected = signing.authorization(method, path, query, &signed, &hash);
    assert_eq!(header("authorization"), Some(expected.as_str()));
}

pub(super) fn answer(status: u16, body: &Value) -> Option<Response> {
    let status = StatusCode::from_u16(status).expect("is one");
    Some((status, Body::from(body.to_string())).into_response())
}

/// An agent whose source `r` counts to a hundred, by way of a durable channel, into a sink `k` with dead letters in files.
pub(super) async fn counting(folder: &Path, sink: &str) -> (RunningAgent, Registry) {
    let dead = folder.join("dead");
    std::fs::create_dir(&dead).expect("is made");
    let text = format!(
        "[sources.r]\ntype = 'seq'\ntotalEvents = 100\nbatchSize = 10\nchannels = ['c']\n\
         [channels.c]\ntype = 'file'\ndataDirs = '{}'\nminimumRequiredSpace = 1048576\n[channels.dead]\ntype = 'memory'\n\
         [sinks.k]\nchannel = 'c'\ndead-letter = 'dead'\n{sink}\n\
         [sinks.d]\ntype = 'file_roll'\nchannel = 'dead'\n'sink.directory' = '{}'\n'sink.serializer' = 'JSON'\n",
        folder.join("channel").display(),
        dead.display(),
    );
    let registry = Registry::default();
    let config = toml(&text).expect("makes sense");
    let agent = RunningAgent::start(config, &registry).await.expect("starts");
    (agent, registry)
}

/// The dead letters, by their bodies, with their reasons.
pub(super) fn dead_letters(folder: &Path) -> BTreeMap<u64, String> {
    let files = std::fs::read_dir(folder.join("dead")).expect("is there");
    let text: String = files
        .map(|file| std::fs::read_to_string(file.expect("is there").path()).expect("is text"))
        .collect();
    let letter = |line: &str| {
        let letter: Value = serde_json::from_str(line).expect("is JSON");
        let body = letter["body"].as_str().expect("is text").parse().expect("is a number");
        (body, letter["headers"]["deadletter.reason"].as_str().expect("is there").to_owned())
    };
    text.lines().map(letter).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_are_written_once_and_bad_ones_are_dead_letters() {
    let folder = tempfile::tempdir().expect("is made");
    let documents: Arc<Mutex<BTreeMap<String, String>>> = Arc::default();
    let (stored, requests) = (Arc::clone(&documents), Mutex::new(0));
    let busy: Mutex<HashSet<String>> = Mutex::default();
    let address = serve(move |path, headers, text| {
        assert!(path.starts_with("/_bulk?"), "{path}");
        assert_eq!(headers["authorization"], "Basic dXNlcjpzZWNyZXQ=");
        let mut requests = requests.lock().expect("no panic");
        *requests += 1;
        if *requests == 1 {
            return answer(503, &json!({ "error": "busy" }));
        }
        let lines: Vec<&str> = text.lines().collect();
        let mut items = Vec::new();
        for pair in lines.chunks(2) {
            let action: Value = serde_json::from_str(pair[0]).expect("is JSON");
            let document: Value = serde_json::from_str(pair[1]).expect("is JSON");
            assert_eq!(action["create"]["_index"], "numbers");
            let id = action["create"]["_id"].as_str().expect("has one").to_owned();
            let message = document["message"].as_str().expect("has one").to_owned();
            let digit = message.as_bytes().last().copied();
            let status = match digit {
                Some(b'3') => 400,
                Some(b'7') if busy.lock().expect("no panic").insert(id.clone()) => 429,
                _ if stored.lock().expect("no panic").insert(id, message).is_some() => 409,
                _ => 201,
            };
            let error = json!({ "type": "t", "reason": "r" });
            items.push(json!({ "create": { "status": status, "error": error } }));
        }
        // The second one is stored, and its answer is lost.
        (*requests != 2).then(|| answer(200, &json!({ "errors": true, "items": items })))?
    })
    .await;
    let sink = format!(
        "type = 'elasticsearch'\nendpoint = 'http://{address}'\nindex = 'numbers'\nbatchSize = 40\nuser = 'user'\npassword = 'secret'"
    );
    let (agent, registry) = counting(folder.path(), &sink).await;
    wait_for("all events", || count(&registry, "SINK.k", "EventDrainSuccessCount") == 90).await;
    wait_for("dead letters", || count(&registry, "SINK.d", "EventDrainSuccessCount") == 10).await;
    assert_eq!(count(&registry, "SINK.k", "EventDeadLetterCount"), 10);
    let channels = agent.end_sinks().await;
    assert_eq!(channels["c"].1.len(), 0);
    let mut found: Vec<u64> = documents
        .lock()
        .expect("no panic")
        .values()
        .map(|text| text.parse().expect("is one"))
        .collect();
    found.sort();
    assert_eq!(found, (0..100).filter(|number| number % 10 != 3).collect::<Vec<u64>>());
    let letters = dead_letters(folder.path());
    assert_eq!(
        letters.keys().copied().collect::<Vec<u64>>(),
        (0..10).map(|n| n * 10 + 3).collect::<Vec<u64>>()
    );
    assert!(letters.values().all(|reason| reason == "400 t: r"), "{letters:?}");
    for (_, (_, channel)) in channels {
        channel.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_that_loki_refuses_are_found_and_the_others_are_pushed() {
    let folder = tempfile::tempdir().expect("is made");
    let lines: Arc<Mutex<HashSet<String>>> = Arc::default();
    let (stored, requests) = (Arc::clone(&lines), Mutex::new(0));
    let address = serve(move |path, headers, text| {
        assert_eq!(path, "/prefix/loki/api/v1/push");
        assert_eq!(headers["x-scope-orgid"], "us");
        let mut requests = requests.lock().expect("no panic");
        *requests += 1;
        if *requests == 1 {
            return answer(429, &json!("slowly"));
        }
        if *requests == 2 {
            // A page of a proxy.
            let kind = [("content-type", "text/html; charset=utf-8")];
            return Some((kind, "<html>log in</html>").into_response());
        }
        let pushed: Value = serde_json::from_str(text).expect("is JSON");
        let streams = pushed["streams"].as_array().expect("is a list");
        assert_eq!((streams.len(), &streams[0]["stream"]), (1, &json!({ "job": "j" })));
        let mut is_good = true;
        for value in streams[0]["values"].as_array().expect("is a list") {
            let line = value[1].as_str().expect("is text");
            // It keeps what is good of a request that it refuses.
            match line.ends_with("00") || line == "42" {
                true => is_good = false,
                false => _ = stored.lock().expect("no panic").insert(line.to_owned()),
            }
        }
        match is_good {
            true => Some(StatusCode::NO_CONTENT.into_response()),
            false => answer(400, &json!("entry too far behind")),
        }
    })
    .await;
    let sink = format!(
        "type = 'loki'\nendpoint = 'http://{address}/prefix'\ntenant = 'us'\nbatchSize = 60\n[sinks.k.labels]\njob = 'j'\nhost = '%{{host}}'"
    );
    let (agent, registry) = counting(folder.path(), &sink).await;
    wait_for("all events", || count(&registry, "SINK.k", "EventDrainSuccessCount") == 99).await;
    wait_for("dead letters", || count(&registry, "SINK.d", "EventDrainSuccessCount") == 1).await;
    for (_, (_, channel)) in agent.end_sinks().await {
        assert_eq!(channel.len(), 0);
        channel.close().await;
    }
    assert_eq!(lines.lock().expect("no panic").len(), 99);
    let letters = dead_letters(folder.path());
    assert!(letters[&42].contains("answered 400: \\\"entry too far behind\\\""), "{letters:?}");
}

/// From our sink to our source, in TLS and without, by gRPC and by HTTP.
#[tokio::test(flavor = "multi_thread")]
async fn records_arrive_as_they_were_sent() {
    for (protocol, is_tls) in
        [("grpc", false), ("grpc", true), ("http/protobuf", false), ("http/protobuf", true)]
    {
        let folder = tempfile::tempdir().expect("is made");
        let path = |name: &str| folder.path().join(name).display().to_string();
        let (mut of_source, mut of_sink, mut scheme) = (String::new(), String::new(), "http");
        if is_tls {
            let made =
                rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("is made");
            let (key, certificate) = (made.signing_key.serialize_pem(), made.cert.pem());
            std::fs::write(path("key.pem"), format!("{key}{certificate}")).expect("is written");
            std::fs::write(path("trust.pem"), certificate).expect("is written");
            of_source = format!("ssl = true\nkeystore = '{}'\n", path("key.pem"));
            of_sink = format!("truststore = '{}'\n", path("trust.pem"));
            scheme = "https";
        }
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .expect("is bound")
            .local_addr()
            .expect("has one")
            .port();
        std::fs::create_dir(path("out")).expect("is made");
        let text = format!(
            "[sources.hop]\ntype = 'otlp'\nbind = '127.0.0.1'\nport = {port}\nchannels = ['hop']\n{of_source}\
             [channels.hop]\ntype = 'memory'\ntransactionCapacity = 7\n\
             [sinks.out]\ntype = 'file_roll'\nchannel = 'hop'\n'sink.batchSize' = 5\n'sink.directory' = '{}'\n'sink.serializer' = 'JSON'\n\
             [sources.r]\ntype = 'seq'\ntotalEvents = 100\nbatchSize = 10\nchannels = ['c']\n\
             [[sources.r.interceptors]]\ntype = 'static'\nkey = 'colour'\nvalue = 'red'\n\
             [channels.c]\ntype = 'memory'\n\
             [sinks.k]\ntype = 'otlp'\nchannel = 'c'\nendpoint = '{scheme}://localhost:{port}'\nprotocol = '{protocol}'\n{of_sink}\
             batchSize = 50\n[sinks.k.resource]\n'service.name' = 'counter'\n",
            path("out")
        );
        let registry = Registry::default();
        let config = toml(&text).expect("makes sense");
        let agent = RunningAgent::start(config, &registry).await.expect("starts");
        wait_for("all records", || count(&registry, "SINK.out", "EventDrainSuccessCount") >= 100)
            .await;
        assert_eq!(
            count(&registry, "SINK.k", "EventDrainSuccessCount"),
            100,
            "{protocol} {is_tls}"
        );
        drop(agent);
        let files = std::fs::read_dir(path("out")).expect("is there");
        let text: String = files
            .map(|file| std::fs::read_to_string(file.expect("is there").path()).expect("is text"))
            .collect();
        let events: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("is JSON")).collect();
        assert_eq!(events[99]["body"], "99");
        assert_eq!(events[99]["headers"]["attribute.colour"], "red");
        assert_eq!(events[99]["headers"]["resource.service.name"], "counter");
    }
}
