//! Many appenders of small records over few or many connections: what eBay's Beam team measured
//! when durable appends collapsed as 128 writers spread from 1 connection to 128 ("Using Apache
//! Kafka in Beam", 2018).

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use clap::Args;
use logway_client::{
    BrokerAddress, Client, ClientOptions, ConnectionOptions, MissingTopic, NewTopic, RawConnection,
};
use logway_model::{TimestampMs, TopicName};
use logway_record::{BatchBuilder, Compression};
use logway_wire::messages::ProduceRequest;
use logway_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use logway_wire::{WireString, encode_request};
use serde::Serialize;
use tokio::task::JoinSet;

use crate::pipeline::{self, Observed, Schedule};

/// The newest version of Produce that names topics by name.
const PRODUCE_VERSION_MAX: i16 = 12;

/// Append small records from many appenders, spread over few or many connections.
///
/// Each appender waits for the acknowledgement of its record before it sends the next. With
/// N appenders on one connection, N requests are on their way on it.
#[derive(Debug, Clone, Args)]
pub struct AppendsArgs {
    /// How many connections the appenders share, one run for each number
    #[arg(long, value_delimiter = ',', default_value = "1,4,16,64,128")]
    pub connections: Vec<usize>,
    /// Appenders
    #[arg(long, default_value_t = 128)]
    pub appenders: usize,
    /// Bytes of each record's value
    #[arg(long, default_value_t = 2048)]
    pub record_bytes: usize,
    /// Partitions of the topic; connections take them in turn
    #[arg(long, default_value_t = 1)]
    pub partitions: i32,
    /// The topic's flush.messages: 1 syncs before each acknowledgement
    #[arg(long, default_value_t = 1)]
    pub flush_messages: u64,
    /// Measured seconds of each run
    #[arg(long, default_value_t = 5)]
    pub seconds: u64,
    /// Seconds before measuring
    #[arg(long, default_value_t = 1)]
    pub warm_up_seconds: u64,
}

/// The result of one run.
#[derive(Debug, Clone, Serialize)]
pub struct AppendsRow {
    /// Connections that the appenders shared.
    pub connections: usize,
    /// Appenders in all.
    pub appenders: usize,
    /// Acknowledged appends per second.
    pub appends_per_second: f64,
    /// Median time from write to acknowledgement, in microseconds.
    pub p50_us: u64,
    /// 99th percentile of the same.
    pub p99_us: u64,
    /// The longest of the same.
    pub max_us: u64,
}

/// Runs the experiment, one row for each number of connections, handing out each as it is done.
pub async fn run(
    brokers: &[BrokerAddress],
    args: &AppendsArgs,
    mut done: impl FnMut(&AppendsRow),
) -> anyhow::Result<Vec<AppendsRow>> {
    for &connections in &args.connections {
        ensure!(
            connections > 0 && args.appenders.is_multiple_of(connections),
            "{} appenders cannot share {connections} connections evenly",
            args.appenders
        );
    }
    let client = Client::new(brokers.to_vec(), ClientOptions::default());
    let mut rows = Vec::new();
    for &connections in &args.connections {
        let row = run_once(&client, args, connections).await?;
        done(&row);
        rows.push(row);
    }
    Ok(rows)
}

async fn run_once(
    client: &Client,
    args: &AppendsArgs,
    connections: usize,
) -> anyhow::Result<AppendsRow> {
    let topic = TopicName::new(&format!("bench-appends-{}-{connections}", std::process::id()))?;
    create_topic(client, &topic, args).await?;
    let observed = load(client, &topic, args, connections).await;
    let deleted = client.delete_topics(std::slice::from_ref(&topic)).await;
    let observed = observed?;
    deleted.context("the benchmark's topic could not be deleted")?;
    let seconds = Duration::from_secs(args.seconds).as_secs_f64();
    let latency = &observed.latency_us;
    Ok(AppendsRow {
        connections,
        appenders: args.appenders,
        appends_per_second: observed.acknowledged as f64 / seconds,
        p50_us: latency.value_at_quantile(0.5),
        p99_us: latency.value_at_quantile(0.99),
        max_us: latency.max(),
    })
}

async fn create_topic(
    client: &Client,
    topic: &TopicName,
    args: &AppendsArgs,
) -> anyhow::Result<()> {
    let topic = NewTopic {
        name: topic.clone(),
        partitions: Some(args.partitions),
        replication_factor: Some(1),
        configs: vec![("flush.messages".to_owned(), args.flush_messages.to_string())],
    };
    let outcomes = client.create_topics(std::slice::from_ref(&topic), false).await?;
    for (name, outcome) in outcomes {
        outcome.with_context(|| format!("topic '{name}'"))?;
    }
    client.await_topics(&BTreeSet::from([topic.name.clone()]), MissingTopic::Await).await?;
    Ok(())
}

async fn load(
    client: &Client,
    topic: &TopicName,
    args: &AppendsArgs,
    connections: usize,
) -> anyhow::Result<Observed> {
    let address = leader_address(client)?;
    let in_flight = args.appenders / connections;
    let mut open = Vec::with_capacity(connections);
    for _ in 0..connections {
        open.push(RawConnection::open(&address, &ConnectionOptions::default()).await?);
    }
    let warm_up = Duration::from_secs(args.warm_up_seconds);
    let schedule = Schedule::starting_now(warm_up, Duration::from_secs(args.seconds));
    let mut running = JoinSet::new();
    for (connection, partition) in open.into_iter().zip((0..args.partitions).cycle()) {
        let version = connection
            .versions
            .highest_common::<ProduceRequest>(PRODUCE_VERSION_MAX)
            .context("the broker has no version of Produce that we have")?;
        let request = produce_frame(topic, partition, args.record_bytes, version)?;
        running.spawn(pipeline::run(connection, request, version, in_flight, schedule));
    }
    let mut total = Observed::new();
    while let Some(observed) = running.join_next().await {
        total.add(&observed??);
    }
    Ok(total)
}

/// The experiment is about one broker; on a cluster it would have to follow the leaders.
fn leader_address(client: &Client) -> anyhow::Result<BrokerAddress> {
    let metadata = client.metadata();
    let mut brokers = metadata.brokers.values();
    match (brokers.next(), brokers.next()) {
        (Some(broker), None) => Ok(broker.address.clone()),
        _ => bail!("this experiment needs a cluster of one broker"),
    }
}

fn produce_frame(
    topic: &TopicName,
    partition: i32,
    record_bytes: usize,
    version: i16,
) -> anyhow::Result<Bytes> {
    let mut batch = BatchBuilder::new(Compression::None);
    let now_ms = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_millis();
    let timestamp = TimestampMs(i64::try_from(now_ms)?);
    batch.append(timestamp, None, Some(&vec![b'x'; record_bytes]), &[])?;
    let partition = PartitionProduceData {
        index: partition,
        records: Some(batch.finish()?.into()),
        ..Default::default()
    };
    let topic = TopicProduceData {
        name: WireString::copy_of(topic.as_str()),
        partition_data: vec![partition],
        ..Default::default()
    };
    let request = ProduceRequest {
        acks: -1,
        timeout_ms: 30_000,
        topic_data: vec![topic],
        ..Default::default()
    };
    let client_id = WireString::from_static("logway-bench");
    Ok(encode_request(0, Some(&client_id), version, &request)?.bytes)
}
