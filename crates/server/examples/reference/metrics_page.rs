//! Every metric that a broker exports, found by asking one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, bail};
use logway_client::{
    BrokerAddress, Client, ClientError, ClientOptions, ConfigChange, ConfigKind, ConfigResource,
    Connection, ConnectionOptions, Consumer, ConsumerOptions, NewRecord, NewTopic, Producer,
    ProducerOptions, StartAt,
};
use logway_metadata::quota::QuotaKey;
use logway_metadata::settings::BrokerSettings;
use logway_model::{Offset, PartitionId, TimestampMs, TopicName, TopicPartition};
use logway_node::log_levels::LogLevels;
use logway_server::RunningBroker;
use logway_wire::messages::{GetTelemetrySubscriptionsRequest, PushTelemetryRequest};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

const TOP: &str = "<!-- Written by `cargo xtask reference`, from what a broker exports; edit the \
                   help texts where the metrics are registered instead. -->
# Metrics

`logway serve` exports these over HTTP at `/metrics` (port 9644), in Prometheus' text format 0.0.4, or in
OpenMetrics' if `Accept` asks for it; compressed with gzip if `Accept-Encoding` does. Names
that end in `_total` only grow; a histogram `NAME` is exported as `NAME_bucket`, `NAME_sum` and
`NAME_count`. Units are last in names. A metric with labels appears when there is something to label.

| name | type | labels | what |
|---|---|---|---|
";

/// A metric as OpenMetrics' text describes it.
#[derive(Debug, Default)]
struct Metric {
    kind: String,
    help: String,
    labels: BTreeSet<String>,
}

/// Starts a broker in a directory that is removed again, and lists what it exports.
pub(crate) fn render() -> anyhow::Result<String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let text = runtime.block_on(exported())?;
    let mut page = TOP.to_owned();
    for (name, metric) in parse(&text) {
        let suffix = if metric.kind == "counter" { "_total" } else { "" };
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let (kind, help, labels) = (metric.kind, metric.help, labels.join(", "));
        page.push_str(&format!("| `{name}{suffix}` | {kind} | {labels} | {help} |\n"));
    }
    Ok(page)
}

/// What a broker exports that has done a little of everything.
async fn exported() -> anyhow::Result<String> {
    let dir = tempfile::tempdir()?;
    let data_dir = dir.path().join("data").to_string_lossy().into_owned();
    let settings = BrokerSettings::new(vec![
        ("log.dirs".to_owned(), data_dir),
        ("listeners".to_owned(), "127.0.0.1:0".to_owned()),
        ("kinesis.listen".to_owned(), "127.0.0.1:0".to_owned()),
        ("logservice.listen".to_owned(), "127.0.0.1:0".to_owned()),
        ("logway.http.listen".to_owned(), "127.0.0.1:0".to_owned()),
    ])?;
    let (broker, _http, registry) =
        logway_server::start_broker(settings, false, LogLevels::default(), Counter::default())
            .await?;
    let address = broker.addresses().first().context("a broker listens somewhere")?;
    let address = BrokerAddress::new(address.ip().to_string(), address.port());
    let client = Client::new(vec![address.clone()], ClientOptions::default());
    use_a_little(&client).await?;
    push_metrics(&client, &address).await?;
    broker.node().metrics.quotas.throttled(QuotaKey::ProducerByteRate, Duration::ZERO);
    let text = with_lag(&broker, &registry).await?;
    broker.stop().await?;
    Ok(text)
}

/// The metrics, once the lag of groups is among them: it is not waited for very long.
async fn with_lag(broker: &RunningBroker, registry: &Registry) -> anyhow::Result<String> {
    const TRIES: usize = 100;
    // It has looked at the logs of groups, which are compacted.
    broker.node().log_cleaner.clean_due();
    for _ in 0..TRIES {
        broker.node().refresh_metrics().await;
        let mut text = String::new();
        encode(&mut text, registry)?;
        if text.contains("logway_group_lag_seconds{") {
            return Ok(text);
        }
    }
    bail!("the lag of the group was not measured")
}

/// Gives every label something to stand for: a topic with a record, and a group that read it.
async fn use_a_little(client: &Client) -> anyhow::Result<()> {
    let name = TopicName::new("t")?;
    let topic = NewTopic {
        name: name.clone(),
        partitions: Some(1),
        replication_factor: None,
        configs: vec![("compression.type".to_owned(), "gzip".to_owned())],
    };
    for (_, created) in client.create_topics(&[topic], false).await? {
        created?;
    }
    let options = ProducerOptions::default();
    let mut producer = Producer::open(client.clone(), name.clone(), options).await?;
    let (partition, timestamp) = (None, TimestampMs(0));
    let (key, value) = (None, Some(&b"v"[..]));
    producer.send(NewRecord { partition, timestamp, key, value, headers: &[] }).await?;
    producer.close().await?;
    let partition = TopicPartition::new(name, PartitionId(0));
    let assignment = BTreeMap::from([(partition.clone(), StartAt::Start)]);
    let options = ConsumerOptions { stops_at_end: true, ..ConsumerOptions::default() };
    let mut consumer = Consumer::open(client, &assignment, options).await?;
    while consumer.next().await?.is_some() {}
    let offsets = BTreeMap::from([(partition, Offset::ZERO)]);
    match client.commit_offsets("g", &offsets).await {
        // A broker without groups has no metrics of groups.
        Err(ClientError::Unsupported { .. }) => Ok(()),
        Err(error) => Err(error.into()),
        Ok(outcomes) => Ok(outcomes.into_values().collect::<Result<(), ClientError>>()?),
    }
}

/// Is a client that is asked for its own metrics, and pushes one.
async fn push_metrics(client: &Client, address: &BrokerAddress) -> anyhow::Result<()> {
    /// In OpenTelemetry's protocol buffers: a gauge `m` that is 1.
    const PUSHED: &[u8] =
        b"\x0a\x14\x12\x12\x12\x10\x0a\x01m\x2a\x0b\x0a\x09\x21\0\0\0\0\0\0\xf0\x3f";
    let subscription = ConfigResource { kind: ConfigKind::ClientMetrics, name: "s".to_owned() };
    let all = ConfigChange::Set { name: "metrics".to_owned(), value: "*".to_owned() };
    client.alter_configs(&subscription, &[all], false).await?;
    let connection = Connection::open(address, &ConnectionOptions::default()).await?;
    let asked = connection.call(&GetTelemetrySubscriptionsRequest::default()).await?;
    let push = PushTelemetryRequest {
        client_instance_id: asked.client_instance_id,
        subscription_id: asked.subscription_id,
        metrics: PUSHED.into(),
        ..PushTelemetryRequest::default()
    };
    match connection.call(&push).await?.error_code {
        0 => Ok(()),
        code => bail!("the pushed metric is refused: error {code}"),
    }
}

/// Reads OpenMetrics' text: `# HELP NAME TEXT`, `# TYPE NAME TYPE`, and samples after them.
fn parse(text: &str) -> BTreeMap<String, Metric> {
    let mut metrics: BTreeMap<String, Metric> = BTreeMap::new();
    let mut current = String::new();
    for line in text.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("HELP"), Some(name), Some(help)) => {
                current = name.to_owned();
                let metric = metrics.entry(current.clone()).or_default();
                help.trim_end_matches('.').clone_into(&mut metric.help);
            }
            (Some("#"), Some("TYPE"), Some(name), Some(kind)) => {
                kind.clone_into(&mut metrics.entry(name.to_owned()).or_default().kind);
            }
            (Some("#"), ..) => {}
            _ => metrics.entry(current.clone()).or_default().labels.extend(labels(line)),
        }
    }
    metrics
}

/// The names of a sample's labels, but for the bounds of buckets: `name{topic="t",le="1"} 5`.
fn labels(sample: &str) -> impl Iterator<Item = String> {
    let inside = sample.split_once('{').and_then(|(_, rest)| rest.rsplit_once('}'));
    let pairs = inside.map_or("", |(inside, _)| inside).split(',');
    let names = pairs.filter_map(|pair| pair.split_once('=')).map(|(name, _)| name.to_owned());
    names.filter(|name| name != "le")
}
