//! One connection: version negotiation, frames, and everything that can go wrong with them.

use std::time::Duration;

use bytes::Bytes;
use logway_client::{ClientError, Connection, ConnectionFailure, ConnectionOptions};
use logway_model::ErrorCode;
use logway_wire::messages::api_versions_response::ApiVersion;
use logway_wire::messages::{
    ApiVersionsRequest, ApiVersionsResponse, DescribeClusterRequest, DescribeClusterResponse,
};
use logway_wire::{ApiKey, WireString, encode_response};

use crate::fake_broker::{Action, Asked, FakeBroker};

fn options() -> ConnectionOptions {
    ConnectionOptions { response_bytes_max: 10_000, ..ConnectionOptions::default() }
}

/// A connection to a broker that answers DescribeCluster as the script says. The broker must be
/// kept.
async fn connect(
    mut describe: impl FnMut(&Asked) -> Action + Send + 'static,
) -> (FakeBroker, Connection) {
    let broker = FakeBroker::start(move |asked| match asked.api_key {
        ApiKey::DescribeCluster => describe(asked),
        _ => Action::Usual,
    })
    .await;
    let connection = Connection::open(&broker.address, &options()).await.expect("it listens");
    (broker, connection)
}

fn cluster(name: &str) -> DescribeClusterResponse {
    DescribeClusterResponse { cluster_id: WireString::copy_of(name), ..Default::default() }
}

async fn failure(connection: &Connection) -> ConnectionFailure {
    match connection.call(&DescribeClusterRequest::default()).await {
        Err(ClientError::Connection { api: "DescribeCluster", failure, .. }) => failure,
        other => panic!("expected the connection to fail, not {other:?}"),
    }
}

#[tokio::test]
async fn a_response_may_come_byte_by_byte() {
    let (_broker, connection) =
        connect(|asked| Action::Trickle(asked.frame(&cluster("slow")))).await;
    let request = DescribeClusterRequest::default();
    assert_eq!(connection.call(&request).await.expect("an answer").cluster_id, "slow");
}

#[tokio::test]
async fn requests_are_pipelined_and_answered_in_order() {
    let mut held = Vec::new();
    let mut count = 0;
    let (_broker, connection) = connect(move |asked| {
        count += 1;
        held.extend_from_slice(&asked.frame(&cluster(&count.to_string())));
        match count {
            3 => Action::Send(Bytes::from(std::mem::take(&mut held))),
            _ => Action::Ignore,
        }
    })
    .await;
    let version = connection.version_for::<DescribeClusterRequest>(i16::MAX).expect("announced");
    let mut pending = Vec::new();
    for _ in 0..3 {
        let request = DescribeClusterRequest::default();
        pending.push(connection.send(&request, version).await.expect("an open connection"));
    }
    let mut names = Vec::new();
    for call in pending {
        names.push(call.response().await.expect("an answer").cluster_id.to_string());
    }
    assert_eq!(names, ["1", "2", "3"]);
}

#[tokio::test]
async fn a_broker_that_knows_only_the_first_version_is_asked_again_at_that() {
    let mut asked_versions = Vec::new();
    let broker = FakeBroker::start(move |asked| {
        asked_versions.push(asked.version);
        if asked_versions.len() == 1 {
            let refusal = ApiVersionsResponse {
                error_code: ErrorCode::UnsupportedVersion.code(),
                ..ApiVersionsResponse::default()
            };
            let frame = encode_response(asked.correlation_id, 0, &refusal).expect("version 0");
            return Action::Send(frame.bytes);
        }
        assert_eq!(asked_versions.last(), Some(&0), "{asked_versions:?}");
        let fetch = ApiVersion {
            api_key: ApiKey::Fetch.id(),
            min_version: 0,
            max_version: 4,
            ..ApiVersion::default()
        };
        asked.answer(&ApiVersionsResponse { api_keys: vec![fetch], ..Default::default() })
    })
    .await;
    let connection = Connection::open(&broker.address, &options()).await.expect("two attempts");
    assert_eq!(connection.versions().announced(ApiKey::Fetch).max, 4);
    let missing = connection.call(&DescribeClusterRequest::default()).await;
    assert!(matches!(missing, Err(ClientError::Unsupported { api: "DescribeCluster", .. })));
}

#[tokio::test]
async fn a_frame_larger_than_allowed_is_refused_before_it_comes() {
    for length in [10_001, i32::MAX, -1, i32::MIN] {
        let announced = Bytes::copy_from_slice(&i32::to_be_bytes(length));
        let (_broker, connection) = connect(move |_| Action::Send(announced.clone())).await;
        match failure(&connection).await {
            ConnectionFailure::ResponseTooLarge { length: found, max_bytes: 10_000 } => {
                assert_eq!(found, length);
            }
            other => panic!("{length}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_response_to_something_else_breaks_the_connection() {
    let (_broker, connection) = connect(|asked| {
        let frame = encode_response(asked.correlation_id + 1, asked.version, &cluster("other"));
        Action::Send(frame.expect("a response").bytes)
    })
    .await;
    let first = failure(&connection).await;
    assert!(matches!(first, ConnectionFailure::UnexpectedCorrelationId { .. }), "{first:?}");
    assert!(connection.is_broken());
    let second = failure(&connection).await;
    assert!(matches!(second, ConnectionFailure::UnexpectedCorrelationId { .. }), "{second:?}");
}

#[tokio::test]
async fn frames_too_short_for_an_id_break_the_connection() {
    for length in [0, 3] {
        let mut frame = i32::to_be_bytes(length).to_vec();
        frame.resize(4 + length as usize, 0);
        let (_broker, connection) = connect(move |_| Action::Send(frame.clone().into())).await;
        assert!(matches!(failure(&connection).await, ConnectionFailure::ResponseTooShort));
    }
}

#[tokio::test]
async fn a_connection_cut_inside_a_response_fails_all_that_waits() {
    let (_broker, connection) = connect(|asked| {
        let frame = asked.frame(&cluster("never"));
        Action::SendAndClose(frame.slice(..frame.len() - 1))
    })
    .await;
    let request = DescribeClusterRequest::default();
    let (first, second) = tokio::join!(connection.call(&request), connection.call(&request));
    for outcome in [first, second] {
        let error = outcome.expect_err("no whole response came");
        assert!(matches!(error, ClientError::Connection { .. }), "{error:?}");
        assert!(error.is_retriable());
    }
    assert!(connection.is_broken());
}

#[tokio::test]
async fn a_malformed_response_fails_its_own_call_only() {
    let mut is_first = true;
    let (_broker, connection) = connect(move |asked| {
        let mut frame = asked.frame(&cluster("fine")).to_vec();
        if std::mem::take(&mut is_first) {
            // A byte too many, which the length says, too.
            frame.push(0);
            let length = i32::try_from(frame.len() - 4).expect("small");
            frame[..4].copy_from_slice(&length.to_be_bytes());
        }
        Action::Send(frame.into())
    })
    .await;
    let request = DescribeClusterRequest::default();
    let malformed = connection.call(&request).await;
    assert!(matches!(malformed, Err(ClientError::MalformedResponse { .. })), "{malformed:?}");
    assert_eq!(connection.call(&request).await.expect("an answer").cluster_id, "fine");
}

#[tokio::test]
async fn a_response_that_nobody_asked_for_breaks_the_connection() {
    let (_broker, connection) = connect(|asked| {
        let frame = asked.frame(&cluster("twice"));
        Action::Send([&frame[..], &frame[..]].concat().into())
    })
    .await;
    let request = DescribeClusterRequest::default();
    connection.call(&request).await.expect("the first answer");
    let second = failure(&connection).await;
    assert!(
        matches!(
            second,
            ConnectionFailure::Unasked | ConnectionFailure::UnexpectedCorrelationId { .. }
        ),
        "{second:?}"
    );
}

#[tokio::test]
async fn silence_ends_in_a_time_out() {
    let broker = FakeBroker::start(|asked| match asked.api_key {
        ApiKey::DescribeCluster => Action::Ignore,
        _ => Action::Usual,
    })
    .await;
    let options = ConnectionOptions { request_timeout: Duration::from_millis(20), ..options() };
    let connection = Connection::open(&broker.address, &options).await.expect("it listens");
    assert!(matches!(failure(&connection).await, ConnectionFailure::TimedOut(_)));
    assert!(connection.is_broken());
}

#[tokio::test]
async fn silence_instead_of_versions_ends_in_a_time_out() {
    let broker = FakeBroker::start(|_| Action::Ignore).await;
    let options = ConnectionOptions { connect_timeout: Duration::from_millis(20), ..options() };
    match Connection::open(&broker.address, &options).await {
        Err(ClientError::Connection { api: "ApiVersions", failure, .. }) => {
            assert!(matches!(failure, ConnectionFailure::TimedOut(_)), "{failure:?}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_unanswered_request_is_ready_once_it_is_written() {
    let (_broker, connection) = connect(|_| Action::Ignore).await;
    let request = DescribeClusterRequest::default();
    let written = connection.send_unanswered(&request, 0).await.expect("an open connection");
    assert!(written.frame().await.expect("it is written").is_empty());
    let version = ApiVersionsRequest::default();
    connection.call(&version).await.expect("the connection is in step");
}
