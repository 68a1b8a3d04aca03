//! The order of checks, as clients see it over HTTP/1.1: each request is refused for the first thing that is wrong.

mod common;

use common::*;
use logway_kinesis::{BoundListener, ListenError};
use logway_metadata::settings::BrokerSettings;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

fn text((status, body): (u16, Vec<u8>)) -> (u16, String) {
    (status, String::from_utf8_lossy(&body).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_thing_that_is_wrong_is_told() {
    let dir = tempfile::tempdir().expect("a directory");
    let door = Door::open(dir.path()).await;
    let target = "x-amz-target: Kinesis_20131202.ListStreams\r\n";
    let of_type = |content_type: &str| format!("content-type: {content_type}\r\n");
    let denied = "<AccessDeniedException>\n  <Message>Unable to determine service/operation name to be \
                  authorized</Message>\n</AccessDeniedException>\n";
    let unknown = r#"{"__type":"UnknownOperationException"}"#;
    let syntax = r#"{"__type":"SerializationException"}"#;
    let cases: &[(&str, String, &str, u16, &str)] = &[
        ("GET", String::new(), "", 403, denied),
        ("POST", of_type(JSON), "", 400, unknown),
        ("POST", of_type(JSON) + target, "", 400, syntax),
        ("POST", of_type("text/plain"), "{}", 403, denied),
        ("POST", of_type("text/plain") + target, "{}", 404, "<UnknownOperationException/>\n"),
        ("POST", of_type(JSON) + target, "{", 400, syntax),
        ("POST", of_type(JSON), "{", 400, syntax),
        ("POST", of_type(JSON), "{}", 400, unknown),
        (
            "POST",
            of_type(JSON) + "x-amz-target: Kinesis_20131202.CreateQueue\r\n",
            "{}",
            400,
            unknown,
        ),
        (
            "POST",
            of_type("application/json") + target,
            "{}",
            404,
            r#"{"Output":{"__type":"com.amazon.coral.service#UnknownOperationException"},"Version":"1.0"}"#,
        ),
        (
            "POST",
            of_type(JSON) + target,
            r#"{"Limit":"x"}"#,
            400,
            r#"{"__type":"MissingAuthenticationTokenException","message":"Missing Authentication Token"}"#,
        ),
        (
            "POST",
            of_type(JSON) + target + "authorization: AWS4-HMAC-SHA256 Credential=a\r\n",
            "{}",
            400,
            "{\"__type\":\"IncompleteSignatureException\",\"message\":\"Authorization header requires 'Signature' \
             parameter. Authorization header requires 'SignedHeaders' parameter. Authorization header requires existence \
             of either a 'X-Amz-Date' or a 'Date' header. Authorization=AWS4-HMAC-SHA256 Credential=a\"}",
        ),
        (
            "POST",
            of_type(JSON) + target + SIGNED,
            r#"{"Limit":"x"}"#,
            400,
            "{\"__type\":\"SerializationException\",\"Message\":\"class java.lang.String can not be converted to an \
             Integer\"}",
        ),
    ];
    for (method, headers, body, status, expected) in cases {
        let answer = text(door.ask(method, headers, body.as_bytes()).await);
        assert_eq!(answer, (*status, (*expected).to_owned()), "{method} {headers} {body}");
    }
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn both_encodings_reach_the_same_stream() {
    let dir = tempfile::tempdir().expect("a directory");
    let door = Door::open(dir.path()).await;
    let made = door.json("CreateStream", r#"{"StreamName":"s","ShardCount":1}"#).await;
    assert_eq!(made, (200, String::new()));
    // {"StreamName": "s", "Data": h'00ff', "PartitionKey": "k"}, as the Java SDK writes it
    let put = b"\xbf\x6aStreamName\x61s\x64Data\x42\x00\xff\x6cPartitionKey\x61k\xff";
    let (status, body) = door.call("PutRecord", CBOR, put).await;
    assert_eq!((status, body[0]), (200, 0xbf), "{body:x?}");
    let iterator =
        r#"{"StreamName":"s","ShardId":"shardId-000000000000","ShardIteratorType":"TRIM_HORIZON"}"#;
    let (status, answer) = door.json("GetShardIterator", iterator).await;
    assert_eq!(status, 200, "{answer}");
    let (status, answer) = door.json("GetRecords", &answer).await;
    assert_eq!(status, 200);
    assert!(answer.contains(r#""Data":"AP8=","PartitionKey":"k""#), "{answer}");
    let (_, error) = door.call("DescribeStream", CBOR, b"\xa1\x6aStreamName\x64none").await;
    let error = String::from_utf8_lossy(&error).into_owned();
    assert!(error.contains("Stream none under account 000000000000 not found."), "{error}");
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_large_is_refused_before_it_is_read() {
    let dir = tempfile::tempdir().expect("a directory");
    let door = Door::open(dir.path()).await;
    let head = format!(
        "POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-type: {JSON}\r\ncontent-length: 17000000\r\n\r\n"
    );
    assert_eq!(door.raw(head.as_bytes()).await.0, 413);
    let chunk = [&b"10000\r\n"[..], &b" ".repeat(0x10000), b"\r\n"].concat();
    let mut chunked =
        b"POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n"
            .to_vec();
    chunked.extend(chunk.repeat(257));
    let mut socket = TcpStream::connect(door.server.address()).await.expect("connects");
    // The door may close before all of it is sent.
    _ = socket.write_all(&chunked).await;
    let mut answer = Vec::new();
    _ = socket.read_to_end(&mut answer).await;
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 413"), "{answer:?}");
    door.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn web_pages_are_not_served() {
    let dir = tempfile::tempdir().expect("a directory");
    let door = Door::open(dir.path()).await;
    for method in ["OPTIONS", "POST"] {
        let request = format!(
            "{method} / HTTP/1.1\r\nhost: a\r\nconnection: close\r\norigin: http://page.example\r\n\
             access-control-request-method: POST\r\ncontent-type: {JSON}\r\ncontent-length: 2\r\n\
             x-amz-target: Kinesis_20131202.ListStreams\r\n{SIGNED}\r\n{{}}"
        );
        let (head, _body) = door.exchange(request.as_bytes()).await;
        assert!(head.starts_with("HTTP/1.1 403"), "{method}: {head}");
        assert!(!head.to_lowercase().contains("access-control"), "{method}: {head}");
    }
    door.close().await;
}

#[tokio::test]
async fn other_machines_are_not_let_in_by_accident() {
    let bind = async |insecure: &str| {
        let settings = [("kinesis.listen", "0.0.0.0:0"), ("logway.insecure", insecure)];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
        BoundListener::bind(&BrokerSettings::new(settings).expect("the settings are valid")).await
    };
    let refused = bind("false").await.expect_err("nobody is asked who he is");
    assert!(matches!(refused, ListenError::Exposed { .. }), "{refused}");
    bind("true").await.expect("it was asked for").expect("it was asked for");
}
