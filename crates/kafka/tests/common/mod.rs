//! A broker within the test, and ways to talk to it.

// Each test file uses a part of it.
#![allow(dead_code, missing_docs, unreachable_pub)]

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use logway_client::{BrokerAddress, Connection, ConnectionOptions, RawConnection};
use logway_kafka::{KafkaServer, Listeners};
use logway_log::fs::{Fs, RealFs};
use logway_metadata::settings::BrokerSettings;
use logway_model::{ErrorCode, Offset, ProducerEpoch, ProducerId, Sequence, TimestampMs};
use logway_node::cluster::{BoundListener, ClusterOptions};
use logway_node::log_levels::LogLevels;
use logway_node::{Node, NodeError};
use logway_record::{BatchBuilder, Batches, Compression, DecodeLimit, Record};
use logway_wire::WireString;
use logway_wire::messages::alter_replica_log_dirs_request::{
    AlterReplicaLogDir, AlterReplicaLogDirTopic,
};
use logway_wire::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use logway_wire::messages::delete_topics_request::DeleteTopicState;
use logway_wire::messages::fetch_request::{FetchPartition, FetchTopic};
use logway_wire::messages::fetch_response::PartitionData;
use logway_wire::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use logway_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use logway_wire::messages::produce_response::PartitionProduceResponse;
use logway_wire::messages::{
    AlterReplicaLogDirsRequest, CreateTopicsRequest, DeleteTopicsRequest, FetchRequest,
    FetchResponse, IncrementalAlterConfigsRequest, MetadataRequest, ProduceRequest,
};
use prometheus_client::registry::Registry;

pub mod cluster;
pub mod disks;
pub mod failing_disk;
pub mod held_calls;
pub mod probe;

pub struct TestBroker {
    node: Arc<Node>,
    kafka: KafkaServer,
    registry: Registry,
    pub address: SocketAddr,
}

impl TestBroker {
    pub async fn start(dir: &Path) -> TestBroker {
        TestBroker::start_with(dir, &[]).await
    }

    pub async fn start_with(dir: &Path, settings: &[(&str, &str)]) -> TestBroker {
        let dir = dir.to_str().expect("a temporary directory's name is text");
        let fixed = [("log.dirs", dir), ("listeners", "127.0.0.1:0")];
        let settings: Vec<_> = fixed.iter().chain(settings).copied().collect();
        TestBroker::try_start(Arc::new(RealFs), &settings).await.expect("starts")
    }

    pub async fn try_start(
        fs: Arc<dyn Fs>,
        settings: &[(&str, &str)],
    ) -> Result<TestBroker, NodeError> {
        TestBroker::try_start_with(fs, settings, |_| None).await
    }

    /// As [`TestBroker::try_start`], with what makes it a node of a cluster, given its address for clients.
    pub async fn try_start_with(
        fs: Arc<dyn Fs>,
        settings: &[(&str, &str)],
        cluster: impl FnOnce(Vec<BoundListener>) -> Option<ClusterOptions>,
    ) -> Result<TestBroker, NodeError> {
        let all = settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let settings = BrokerSettings::new(all).expect("the settings are valid");
        let mut registry = Registry::default();
        let listeners = Listeners::bind(&settings).await.expect("any port will do");
        let cluster = cluster(listeners.first_of_each());
        let levels = LogLevels::default();
        let node = Node::start_on(fs, settings, cluster, levels, &mut registry).await?;
        let kafka = KafkaServer::start(Arc::clone(&node), listeners, &mut registry);
        let address = kafka.addresses()[0];
        Ok(TestBroker { node, kafka, registry, address })
    }

    /// Waits until the broker cannot go on.
    pub async fn failed(&self) -> NodeError {
        tokio::time::timeout(UNTIL_MAX, self.node.failed()).await.expect("in time")
    }

    pub fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// Measures what is measured when somebody asks for the metrics.
    pub async fn refresh_metrics(&self) {
        self.node.refresh_metrics().await;
    }

    /// The metrics, as Prometheus reads them.
    pub fn metrics(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).expect("is text");
        text
    }

    pub async fn stop(self) {
        self.node.leave().await;
        self.node.begin_stop();
        self.kafka.stop().await;
        self.node.stop().await.expect("stops cleanly");
    }

    /// Ends without a word to other nodes of its cluster.
    pub async fn end_at_once(self) {
        self.node.begin_stop();
        self.kafka.stop().await;
        self.node.stop().await.expect("stops cleanly");
    }

    /// Every address, in the order of the settings.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.kafka.addresses().to_vec()
    }

    pub fn broker_address(&self) -> BrokerAddress {
        BrokerAddress::new(self.address.ip().to_string(), self.address.port())
    }

    pub async fn connect(&self) -> Connection {
        let options = ConnectionOptions::default();
        Connection::open(&self.broker_address(), &options).await.expect("connects")
    }

    pub async fn connect_raw(&self) -> RawConnection {
        let options = ConnectionOptions::default();
        RawConnection::open(&self.broker_address(), &options).await.expect("connects")
    }
}

pub async fn create_topic(connection: &Connection, name: &str, partitions: i32) {
    create_topic_with(connection, name, partitions, &[]).await;
}

pub async fn create_topic_with(
    connection: &Connection,
    name: &str,
    partitions: i32,
    configs: &[(&str, &str)],
) {
    create_replicated(connection, name, partitions, 1, configs).await;
}

pub async fn create_replicated(
    connection: &Connection,
    name: &str,
    partitions: i32,
    replication_factor: i16,
    configs: &[(&str, &str)],
) {
    let config = |(name, value): &(&str, &str)| CreatableTopicConfig {
        name: WireString::copy_of(name),
        value: Some(WireString::copy_of(value)),
        ..Default::default()
    };
    let topic = CreatableTopic {
        name: WireString::copy_of(name),
        num_partitions: partitions,
        replication_factor,
        configs: configs.iter().map(config).collect(),
        ..Default::default()
    };
    let request =
        CreateTopicsRequest { topics: vec![topic], timeout_ms: 10_000, ..Default::default() };
    let response = connection.call(&request).await.expect("is answered");
    assert_eq!(response.topics[0].error_code, 0, "{:?}", response.topics[0].error_message);
}

/// A batch of records with these values, without keys.
pub fn batch(values: &[&str]) -> Bytes {
    let mut builder = BatchBuilder::new(Compression::None);
    for value in values {
        let value = Some(value.as_bytes());
        builder.append(TimestampMs(now_ms()), None, value, &[]).expect("fits");
    }
    builder.finish().expect("fits")
}

/// A batch of an idempotent producer, in its epoch 4.
pub fn idempotent_batch(producer_id: i64, base_sequence: i32, records: i64) -> Bytes {
    let mut builder = BatchBuilder::new(Compression::None).with_producer(
        ProducerId(producer_id),
        ProducerEpoch(4),
        Sequence(base_sequence),
    );
    for number in 0..records {
        let timestamp = TimestampMs(1_700_000_000_000 + number);
        builder.append(timestamp, None, Some(b"value"), &[]).expect("fits");
    }
    builder.finish().expect("fits")
}

pub fn now_ms() -> i64 {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    i64::try_from(since_epoch.expect("after 1970").as_millis()).expect("fits")
}

/// Sets a setting of a resource, or deletes it.
pub async fn set_config(
    connection: &Connection,
    (resource_type, resource_name): (i8, &str),
    name: &str,
    value: Option<&str>,
) -> ErrorCode {
    let config = AlterableConfig {
        name: WireString::copy_of(name),
        config_operation: if value.is_some() { 0 } else { 1 },
        value: value.map(WireString::copy_of),
        ..Default::default()
    };
    let resource = AlterConfigsResource {
        resource_type,
        resource_name: WireString::copy_of(resource_name),
        configs: vec![config],
        ..Default::default()
    };
    let request =
        IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
    let response = connection.call(&request).await.expect("is answered");
    ErrorCode::from_code(response.responses[0].error_code).expect("is known")
}

/// A produce request of one batch by topic name, which versions up to 12 do.
pub fn produce_request(topic: &str, partition: i32, records: Bytes) -> ProduceRequest {
    let data = PartitionProduceData {
        index: partition,
        records: Some(records.into()),
        ..Default::default()
    };
    let topic = TopicProduceData {
        name: WireString::copy_of(topic),
        partition_data: vec![data],
        ..Default::default()
    };
    ProduceRequest { acks: -1, timeout_ms: 10_000, topic_data: vec![topic], ..Default::default() }
}

pub async fn produce(
    connection: &Connection,
    topic: &str,
    partition: i32,
    records: Bytes,
) -> PartitionProduceResponse {
    let request = produce_request(topic, partition, records);
    let pending = connection.send(&request, 12).await.expect("is sent");
    let mut response = pending.response().await.expect("is answered");
    response.responses.remove(0).partition_responses.remove(0)
}

pub fn fetch_request(topic: &str, partitions: &[(i32, i64)]) -> FetchRequest {
    let partitions = partitions.iter().map(|&(partition, fetch_offset)| FetchPartition {
        partition,
        fetch_offset,
        partition_max_bytes: 1 << 20,
        ..Default::default()
    });
    let partitions = partitions.collect();
    let topic = FetchTopic { topic: WireString::copy_of(topic), partitions, ..Default::default() };
    FetchRequest {
        max_wait_ms: 0,
        min_bytes: 1,
        max_bytes: 50 << 20,
        session_epoch: -1,
        topics: vec![topic],
        ..Default::default()
    }
}

pub async fn fetch_with(connection: &Connection, request: &FetchRequest) -> FetchResponse {
    let pending = connection.send(request, 12).await.expect("is sent");
    pending.response().await.expect("is answered")
}

pub async fn fetch(
    connection: &Connection,
    topic: &str,
    partition: i32,
    offset: i64,
) -> PartitionData {
    let request = fetch_request(topic, &[(partition, offset)]);
    let mut response = fetch_with(connection, &request).await;
    response.responses.remove(0).partitions.remove(0)
}

pub fn records(data: &PartitionData) -> Vec<Record> {
    assert_eq!(data.error_code, ErrorCode::None.code());
    let bytes = data.records.as_ref().and_then(|records| records.bytes()).cloned();
    let batches = Batches::with_partial_tail(bytes.unwrap_or_default());
    let mut records = Vec::new();
    for batch in batches {
        let batch = batch.expect("is a batch");
        batch.verify_crc().expect("is whole");
        let decoded = batch.records(DecodeLimit::DEFAULT).expect("decodes");
        records.extend(decoded.map(|record| record.expect("decodes")));
    }
    records
}

pub fn values(data: &PartitionData) -> Vec<(Offset, String)> {
    let value = |record: &Record| {
        let bytes = record.value.clone().unwrap_or_default();
        (record.offset, String::from_utf8(bytes.to_vec()).expect("is text"))
    };
    records(data).iter().map(value).collect()
}

pub fn metadata_request() -> MetadataRequest {
    MetadataRequest { topics: None, allow_auto_topic_creation: false, ..Default::default() }
}

pub async fn delete_topic(connection: &Connection, name: &str) {
    let topic = DeleteTopicState { name: Some(WireString::copy_of(name)), ..Default::default() };
    let request =
        DeleteTopicsRequest { topics: vec![topic], timeout_ms: 10_000, ..Default::default() };
    let response = connection.call(&request).await.expect("is answered");
    assert_eq!(response.responses[0].error_code, 0, "{:?}", response.responses[0].error_message);
}

/// Has partition 0 of a topic moved to a log directory.
pub async fn move_replica(connection: &Connection, topic: &str, dir: &Path) -> ErrorCode {
    let name = WireString::copy_of(topic);
    let topic = AlterReplicaLogDirTopic { name, partitions: vec![0], ..Default::default() };
    let path = WireString::copy_of(dir.to_str().expect("is text"));
    let dir = AlterReplicaLogDir { path, topics: vec![topic], ..Default::default() };
    let request = AlterReplicaLogDirsRequest { dirs: vec![dir], ..Default::default() };
    let response = connection.call(&request).await.expect("is answered");
    ErrorCode::from_code(response.results[0].partitions[0].error_code).expect("is known")
}

pub async fn until_moved(broker: &TestBroker) {
    until(|| broker.node().replica_moves.count() == 0).await;
}

/// How long a state may take to come.
pub const UNTIL_MAX: std::time::Duration = std::time::Duration::from_secs(20);

/// Waits for a state, while the broker's tasks go on.
pub async fn until(is_reached: impl Fn() -> bool) {
    tokio::time::timeout(UNTIL_MAX, async {
        while !is_reached() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("in time");
}
