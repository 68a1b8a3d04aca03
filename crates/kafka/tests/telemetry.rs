//! Clients' own metrics: asked for by subscriptions, pushed, exposed.

mod common;

use bytes::Bytes;
use common::*;
use logway_client::Connection;
use logway_model::{ErrorCode, Uuid};
use logway_record::Compression;
use logway_wire::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use logway_wire::messages::{
    GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse,
    IncrementalAlterConfigsRequest, PushTelemetryRequest,
};

async fn subscribe(connection: &Connection, settings: &[(&'static str, &'static str)]) {
    const CLIENT_METRICS: i8 = 16;
    let config = |&(name, value): &(&'static str, &'static str)| AlterableConfig {
        name: name.into(),
        value: Some(value.into()),
        ..Default::default()
    };
    let resource = AlterConfigsResource {
        resource_type: CLIENT_METRICS,
        resource_name: "s".into(),
        configs: settings.iter().map(config).collect(),
        ..Default::default()
    };
    let request =
        IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
    let response = connection.call(&request).await.expect("is answered");
    assert_eq!(response.responses[0].error_code, 0, "{:?}", response.responses[0].error_message);
}

async fn ask(connection: &Connection, id: Uuid) -> GetTelemetrySubscriptionsResponse {
    let request = GetTelemetrySubscriptionsRequest { client_instance_id: id, ..Default::default() };
    connection.call(&request).await.expect("is answered")
}

async fn push(
    connection: &Connection,
    asked: &GetTelemetrySubscriptionsResponse,
    codec: Compression,
    metrics: Bytes,
) -> ErrorCode {
    let request = PushTelemetryRequest {
        client_instance_id: asked.client_instance_id,
        subscription_id: asked.subscription_id,
        compression_type: codec.id() as i8,
        metrics: codec.compress(metrics),
        ..Default::default()
    };
    let response = connection.call(&request).await.expect("is answered");
    ErrorCode::from_code(response.error_code).expect("is known")
}

/// A field of bytes of a protocol buffers' message; short ones only.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u8::try_from(bytes.len()).expect("is short");
    assert!(length < 0x80, "is short");
    [&[number << 3 | 2, length], bytes].concat()
}

/// A push of one gauge.
fn gauge(name: &str, value: f64) -> Bytes {
    let point = [&[4 << 3 | 1], &value.to_le_bytes()[..]].concat();
    let metric = [field(1, name.as_bytes()), field(5, &field(1, &point))].concat();
    field(1, &field(2, &field(2, &metric))).into()
}

#[tokio::test]
async fn nothing_is_asked_for_without_a_subscription() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    let asked = ask(&connection, Uuid::ZERO).await;
    assert_eq!((asked.error_code, asked.requested_metrics.len()), (0, 0));
    assert!(!asked.client_instance_id.is_zero());
    assert_eq!((asked.push_interval_ms, asked.telemetry_max_bytes), (300_000, 1 << 20));
    let again = ask(&connection, asked.client_instance_id).await;
    assert_eq!(again.error_code, ErrorCode::ThrottlingQuotaExceeded.code());
    // What is pushed all the same is not kept.
    let outcome = push(&connection, &asked, Compression::None, gauge("org.apache.a", 1.0)).await;
    assert_eq!(outcome, ErrorCode::None);
    assert!(!broker.metrics().contains("org.apache.a"));
    broker.stop().await;
}

#[tokio::test]
async fn what_is_subscribed_to_is_pushed_and_exposed() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start(dir.path()).await;
    let connection = broker.connect().await;
    let before = ask(&connection, Uuid::ZERO).await;
    let settings = [("metrics", "org.apache."), ("interval.ms", "100"), ("match", "client_id=.*")];
    subscribe(&connection, &settings).await;
    let stale = push(&connection, &before, Compression::None, gauge("org.apache.a", 1.0)).await;
    assert_eq!(stale, ErrorCode::UnknownSubscriptionId);

    for (number, codec) in (1..).zip(Compression::ALL) {
        // Each is another client, so that none has to wait for its interval.
        let asked = ask(&connection, Uuid::ZERO).await;
        assert_eq!((asked.error_code, asked.push_interval_ms), (0, 100));
        assert_eq!(asked.requested_metrics, ["org.apache."]);
        let metrics = [gauge("org.apache.kept", f64::from(number)), gauge("org.other", 1.0)];
        let outcome = push(&connection, &asked, codec, metrics.concat().into()).await;
        assert_eq!(outcome, ErrorCode::None, "{}", codec.name());
        let id = asked.client_instance_id;
        let text = broker.metrics();
        let is_kept = |line: &&str| {
            line.starts_with("logway_client_metric{")
                && line.contains(&format!("client_instance_id=\"{id}\""))
                && line.contains("metric=\"org.apache.kept\"")
                && line.ends_with(&format!(" {number}.0"))
        };
        assert_eq!(text.lines().filter(is_kept).count(), 1, "{text}");
        assert!(!text.contains("org.other"), "{text}");
        let pushes = format!("logway_client_metrics_pushes_total{{client_instance_id=\"{id}\"");
        assert!(text.contains(&pushes), "{text}");
    }
    broker.stop().await;
}

#[tokio::test]
async fn bad_pushes_are_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let broker = TestBroker::start_with(dir.path(), &[("telemetry.max.bytes", "1000")]).await;
    let connection = broker.connect().await;
    subscribe(&connection, &[("metrics", "*"), ("interval.ms", "100")]).await;
    let refused = async |codec: i8, metrics: Bytes| {
        let asked = ask(&connection, Uuid::ZERO).await;
        let request = PushTelemetryRequest {
            client_instance_id: asked.client_instance_id,
            subscription_id: asked.subscription_id,
            compression_type: codec,
            metrics,
            ..Default::default()
        };
        let response = connection.call(&request).await.expect("is answered");
        ErrorCode::from_code(response.error_code).expect("is known")
    };
    assert_eq!(refused(9, Bytes::new()).await, ErrorCode::UnsupportedCompressionType);
    assert_eq!(refused(0, vec![0; 1_001].into()).await, ErrorCode::TelemetryTooLarge);
    assert_eq!(refused(0, Bytes::from_static(b"no metrics")).await, ErrorCode::InvalidRecord);
    assert_eq!(refused(4, Bytes::from_static(b"no zstd")).await, ErrorCode::InvalidRecord);
    let bomb = Compression::Gzip.compress(vec![0; 100_000].into());
    assert!(bomb.len() < 1_000);
    assert_eq!(refused(1, bomb).await, ErrorCode::InvalidRecord);
    let nobody = PushTelemetryRequest::default();
    let response = connection.call(&nobody).await.expect("is answered");
    assert_eq!(response.error_code, ErrorCode::InvalidRequest.code());
    broker.stop().await;
}
