//! Sources that are spoken to over HTTP, by clients that ask for too much.

use axum::http::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::toml;
use crate::agent::RunningAgent;
use crate::counters::Registry;
use crate::tests::running::count;

/// A source `r` into a channel that nothing takes from, which takes ten events at once.
async fn source(kind: &str, more: &str) -> (RunningAgent, Registry, u16) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("is bound");
    let port = listener.local_addr().expect("has one").port();
    drop(listener);
    let text = format!(
        "[sources.r]\ntype = '{kind}'\nbind = '127.0.0.1'\nport = {port}\nchannels = ['c']\n{more}\n\
         [channels.c]\ntype = 'memory'\ncapacity = 100\ntransactionCapacity = 10\n'keep-alive' = 0\n"
    );
    let registry = Registry::default();
    let config = toml(&text).expect("makes sense");
    let agent = RunningAgent::start(config, &registry).await.expect("starts");
    (agent, registry, port)
}

/// The status and the text of an answer.
async fn post(port: u16, target: &str, kind: &str, body: &str) -> (StatusCode, String) {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).await.expect("connects");
    let head = format!(
        "POST {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    socket.write_all(format!("{head}{body}").as_bytes()).await.expect("is sent");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.expect("is answered");
    let (head, text) = answer.split_once("\r\n\r\n").expect("has a head");
    let status = head[9..12].parse().expect("is a number");
    (StatusCode::from_u16(status).expect("is one"), text.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_no_channel_will_ever_take_is_refused_for_good() {
    let (agent, registry, port) = source("http", "maxBufferBytes = 1048576").await;
    let post = async |body: String| post(port, "/", "application/json", &body).await;
    let list = |count| format!("[{}]", vec!["{}"; count].join(","));
    assert_eq!(post(list(10)).await.0, StatusCode::OK);
    let (status, why) = post(list(11)).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(why.contains("more than 10 events") && why.contains("transactionCapacity"), "{why}");
    // One event, whose headers take more than all connections may.
    let headers = vec!["\"\":\"\""; 20_000].join(",");
    let (status, why) = post(format!("[{{\"headers\":{{{headers}}}}}]")).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(why.contains("maxBufferBytes"), "{why}");
    for _ in 0..9 {
        assert_eq!(post(list(10)).await.0, StatusCode::OK);
    }
    // There is no room just now.
    assert_eq!(post(list(10)).await.0, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(count(&registry, "SOURCE.r", "EventReadFail"), 2);
    drop(agent);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_is_one_event_as_flumes_blob_handler_makes_it() {
    let handler = "handler = 'org.apache.flume.sink.solr.morphline.BlobHandler'\n'handler.maxBlobLength' = 10";
    let (agent, _, port) = source("http", handler).await;
    let post = async |body| post(port, "/?file=a", "text/plain; charset=latin1", body).await;
    assert_eq!(post("0123456789").await.0, StatusCode::OK);
    let (status, why) = post("0123456789x").await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(why.contains("10 bytes (handler.maxBlobLength)"), "{why}");
    let channels = agent.end_sinks().await;
    let taken = channels["c"].1.take(10, std::time::Duration::ZERO).await.expect("can be read");
    assert_eq!(taken.events.len(), 1);
    assert_eq!(
        (&taken.events[0].body[..], taken.events[0].headers.get("file")),
        (&b"0123456789"[..], Some("a"))
    );
}
