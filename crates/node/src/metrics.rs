//! What a node tells about its work.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_core::future::BoxFuture;
use logway_metadata::quota::QuotaKey;
use logway_record::{Compression, TransactionOutcome};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Registry;

use crate::Node;
use crate::topics::TopicTable;

/// Every metric of the node but those of its logs and memory, which are read when asked for.
#[derive(Debug, Default)]
pub struct NodeMetrics {
    /// Connections.
    pub connections: ConnectionMetrics,
    /// Records and bytes by topic.
    pub traffic: TrafficMetrics,
    /// Clients that used more than their quotas.
    pub quotas: QuotaMetrics,
    /// Batches that were compressed anew.
    pub recompressed: RecompressionMetrics,
    /// Stored batches that were found to be damaged.
    pub damaged_batches: Counter,
}

impl NodeMetrics {
    /// Makes the metrics part of what the process exports.
    pub fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("logway");
        self.connections.register(registry);
        self.traffic.register(registry);
        self.quotas.register(registry);
        self.recompressed.register(registry);
        let help = "Stored batches that were found to be damaged when they were read; the broker's \
                    log says which";
        registry.register("damaged_batches", help, self.damaged_batches.clone());
    }
}

/// Counts connections.
#[derive(Debug, Default)]
pub struct ConnectionMetrics {
    /// Open now.
    pub open: Gauge,
    /// Accepted since the start.
    pub accepted: Counter,
    /// Refused because `max.connections` were open.
    pub refused: Counter,
    /// Refused because their addresses opened too many per second.
    pub over_rate: Counter,
    /// Closed because the client broke the protocol.
    pub broken: Counter,
    /// How many clients said that they are somebody, and were not believed.
    pub not_believed: Counter,
}

/// An open connection, counted until it is dropped.
#[derive(Debug)]
pub struct OpenConnection<'a>(&'a Gauge);

impl ConnectionMetrics {
    /// Counts a connection as open for as long as the result lives.
    pub fn opened(&self) -> OpenConnection<'_> {
        self.accepted.inc();
        self.open.inc();
        OpenConnection(&self.open)
    }

    fn register(&self, registry: &mut Registry) {
        registry.register("connections_open", "Connections open now", self.open.clone());
        registry.register("connections_accepted", "Connections accepted", self.accepted.clone());
        let help =
            "Connections refused because max.connections or max.connections.per.ip were open";
        registry.register("connections_refused", help, self.refused.clone());
        let help = "Connections refused because their addresses opened too many per second";
        registry.register("connections_over_rate", help, self.over_rate.clone());
        let help = "Connections closed because the client broke the protocol";
        registry.register("connections_broken", help, self.broken.clone());
        let help = "Clients that failed to authenticate";
        registry.register("failed_authentications", help, self.not_believed.clone());
    }
}

impl Drop for OpenConnection<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TopicLabel {
    topic: String,
}

/// Counts what goes in and out, by topic.
#[derive(Debug, Default)]
pub struct TrafficMetrics {
    messages_in: Family<TopicLabel, Counter>,
    bytes_in: Family<TopicLabel, Counter>,
    messages_out: Family<TopicLabel, Counter>,
    bytes_out: Family<TopicLabel, Counter>,
}

/// One topic's counters, found without a lock.
#[derive(Debug, Clone)]
pub struct TopicTraffic {
    messages_in: Counter,
    bytes_in: Counter,
    messages_out: Counter,
    bytes_out: Counter,
}

impl TrafficMetrics {
    /// The counters of a topic, which are exported from now on.
    pub fn of_topic(&self, topic: &str) -> TopicTraffic {
        let label = TopicLabel { topic: topic.to_owned() };
        TopicTraffic {
            messages_in: self.messages_in.get_or_create(&label).clone(),
            bytes_in: self.bytes_in.get_or_create(&label).clone(),
            messages_out: self.messages_out.get_or_create(&label).clone(),
            bytes_out: self.bytes_out.get_or_create(&label).clone(),
        }
    }

    /// Ends the export of a deleted topic's counters.
    pub fn forget_topic(&self, topic: &str) {
        let label = TopicLabel { topic: topic.to_owned() };
        for family in [&self.messages_in, &self.bytes_in, &self.messages_out, &self.bytes_out] {
            family.remove(&label);
        }
    }

    fn register(&self, registry: &mut Registry) {
        let help = "Records appended, by topic";
        registry.register("topic_messages_in", help, self.messages_in.clone());
        let help = "Bytes of record batches appended, by topic";
        registry.register("topic_bytes_in", help, self.bytes_in.clone());
        let help = "Offsets in the record batches sent to consumers, by topic";
        registry.register("topic_messages_out", help, self.messages_out.clone());
        let help = "Bytes of record batches sent to consumers, by topic";
        registry.register("topic_bytes_out", help, self.bytes_out.clone());
    }
}

impl TopicTraffic {
    /// Batches were appended.
    pub fn produced(&self, records: u64, bytes: usize) {
        self.messages_in.inc_by(records);
        self.bytes_in.inc_by(bytes as u64);
    }

    /// Batches were sent to a consumer.
    pub fn fetched(&self, records: u64, bytes: u64) {
        self.messages_out.inc_by(records);
        self.bytes_out.inc_by(bytes);
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QuotaLabel {
    quota: &'static str,
}

/// Counts how clients are held up by their quotas, by what is limited.
#[derive(Debug, Default)]
pub struct QuotaMetrics {
    throttled: Family<QuotaLabel, Counter>,
    wait_seconds: Family<QuotaLabel, Counter<f64, AtomicU64>>,
}

impl QuotaMetrics {
    /// A client was told to wait.
    pub fn throttled(&self, key: QuotaKey, wait: Duration) {
        let label = QuotaLabel { quota: key.name() };
        self.throttled.get_or_create(&label).inc();
        self.wait_seconds.get_or_create(&label).inc_by(wait.as_secs_f64());
    }

    fn register(&self, registry: &mut Registry) {
        let help = "Requests, and connections, that had to wait because of a quota";
        registry.register("throttled_requests", help, self.throttled.clone());
        let help = "Seconds that clients were told to wait because of a quota";
        registry.register("throttle_seconds", help, self.wait_seconds.clone());
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CodecLabel {
    codec: &'static str,
}

/// Counts the batches that were compressed anew, as `compression.type` of their topics has it.
#[derive(Debug, Default)]
pub struct RecompressionMetrics {
    batches: Family<CodecLabel, Counter>,
    bytes_in: Family<CodecLabel, Counter>,
    bytes_out: Family<CodecLabel, Counter>,
}

impl RecompressionMetrics {
    /// A batch of so many bytes was compressed anew, and has so many then.
    pub fn recompressed(&self, codec: Compression, bytes_in: usize, bytes_out: usize) {
        let label = CodecLabel { codec: codec.name() };
        self.batches.get_or_create(&label).inc();
        self.bytes_in.get_or_create(&label).inc_by(bytes_in as u64);
        self.bytes_out.get_or_create(&label).inc_by(bytes_out as u64);
    }

    fn register(&self, registry: &mut Registry) {
        let help =
            "Batches that were compressed anew (compression.type), by the codec they have then";
        registry.register("recompressed_batches", help, self.batches.clone());
        let help = "Bytes of batches as producers sent them that were compressed anew, by the codec they have then";
        registry.register("recompressed_bytes_in", help, self.bytes_in.clone());
        let help = "Bytes of the same batches as they are stored";
        registry.register("recompressed_bytes_out", help, self.bytes_out.clone());
    }
}

/// What is not counted but looked at, each time somebody asks: the sizes of logs, the memory that
/// requests hold, how many topics there are.
#[derive(Debug)]
pub struct NodeState {
    node: Weak<Node>,
}

impl NodeState {
    /// Looks at `node` for as long as it exists.
    pub fn new(node: &Arc<Node>) -> NodeState {
        NodeState { node: Arc::downgrade(node) }
    }
}

impl Collector for NodeState {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let Some(node) = self.node.upgrade() else { return Ok(()) };
        let table = node.topics();
        let offline = table.iter().map(|topic| topic.offline.len()).sum::<usize>();
        let online = table.iter().flat_map(|topic| topic.partitions.iter().flatten()).count();
        let of_cluster = ClusterGauges::of(&node, &table);
        let gauges = [
            ("logway_topics", "Topics", table.iter().count()),
            ("logway_partitions_online", "Partitions that are served", online),
            ("logway_partitions_offline", "Partitions whose log could not be opened", offline),
            ("logway_partitions_led", "Partitions that this broker leads", of_cluster.led),
            (
                "logway_partitions_under_replicated",
                "Partitions that this broker leads with fewer replicas in sync than there are",
                of_cluster.under_replicated,
            ),
            (
                "logway_partitions_under_min_isr",
                "Partitions that this broker leads with fewer replicas in sync than min.insync.replicas",
                of_cluster.under_min_isr,
            ),
            (
                "logway_partitions_leaderless",
                "Partitions of the cluster that nobody leads",
                of_cluster.leaderless,
            ),
            (
                "logway_partitions_at_min_isr",
                "Partitions that this broker leads with as many replicas in sync as min.insync.replicas, and fewer than there are",
                of_cluster.at_min_isr,
            ),
            (
                "logway_partitions_reassigning",
                "Partitions that this broker leads and that are on their way to other nodes",
                of_cluster.reassigning,
            ),
            (
                "logway_partitions_led_by_others",
                "Partitions of which this node is the preferred leader, and that another one leads",
                of_cluster.led_by_others,
            ),
            (
                "logway_brokers_active",
                "Brokers of the cluster that are not fenced",
                of_cluster.active,
            ),
            (
                "logway_active_controller",
                "1 if this node is the active controller",
                of_cluster.leads,
            ),
            (
                "logway_log_dirs_offline",
                "Log directories that failed or are missing",
                node.log_dirs.offline_count(),
            ),
            (
                "logway_replica_moves",
                "Replicas that are being moved from one log directory to another",
                node.replica_moves.count(),
            ),
            (
                "logway_request_memory_used_bytes",
                "Memory held by requests",
                node.memory.requests.used_bytes(),
            ),
            (
                "logway_request_memory_limit_bytes",
                "The most that requests may hold (queued.max.request.bytes)",
                node.memory.requests.limit_bytes(),
            ),
            (
                "logway_group_memory_used_bytes",
                "Memory taken by groups: their members and offsets",
                node.groups.memory.used_bytes(),
            ),
            (
                "logway_group_memory_limit_bytes",
                "The most that groups may take (logway.groups.max.bytes)",
                node.groups.memory.limit_bytes(),
            ),
            (
                "logway_transaction_memory_used_bytes",
                "Memory taken by transactional ids and the partitions of their transactions",
                node.transactions.memory.used_bytes(),
            ),
            (
                "logway_transaction_memory_limit_bytes",
                "The most that transactional ids may take (logway.transactions.max.bytes)",
                node.transactions.memory.limit_bytes(),
            ),
            (
                "logway_transactions_ending",
                "Transactions of this coordinator that have ended and wait for their markers to be written",
                usize::try_from(node.transactions.metrics.ending()).unwrap_or(usize::MAX),
            ),
            (
                "logway_quota_clients",
                "Clients whose use of a quota is remembered",
                node.quota_use.client_count(),
            ),
            (
                "logway_quota_addresses",
                "Addresses whose use of a quota of connections is remembered",
                node.connection_rates.address_count(),
            ),
        ];
        for (name, help, value) in gauges {
            let gauge = ConstGauge::new(as_i64(value));
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        let name = "logway_group_memory_refusals";
        let help =
            "Members, assignments and offsets that were refused because groups take too much";
        let refusals = ConstCounter::new(node.groups.memory.refusals());
        refusals.encode(encoder.encode_descriptor(name, help, None, refusals.metric_type())?)?;
        let transactions = &node.transactions;
        let counters = [
            (
                "logway_transaction_memory_refusals",
                "Transactional ids and partitions that were refused because ids take too much",
                transactions.memory.refusals(),
            ),
            (
                "logway_transaction_markers",
                "Markers that were written for transactions of this coordinator",
                transactions.metrics.markers(),
            ),
        ];
        for (name, help, value) in counters {
            let counter = ConstCounter::new(value);
            counter.encode(encoder.encode_descriptor(
                name,
                help,
                None,
                counter.metric_type(),
            )?)?;
        }
        let help = "Transactions of this coordinator that have ended with all their markers";
        let name = "logway_transactions_ended";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (outcome, word) in
            [(TransactionOutcome::Commit, "commit"), (TransactionOutcome::Abort, "abort")]
        {
            let counter = ConstCounter::new(transactions.metrics.ended(outcome));
            counter.encode(family.encode_family(&[("outcome", word)])?)?;
        }
        node.group_lag.encode(&mut encoder)?;
        node.coordinator_counts.encode(&node, &mut encoder)?;
        node.encode_disk_space(&mut encoder)?;
        encode_log_sizes(&mut encoder, &table)
    }
}

impl Node {
    /// Measures what is measured when somebody asks for the metrics: how far groups are behind, what coordinators look after
    /// and how full the disks are. Ends soon, whether that is done or not.
    pub fn refresh_metrics(self: &Arc<Self>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            tokio::join!(
                self.refresh_group_lag(),
                self.refresh_coordinator_counts(),
                self.refresh_disk_space()
            );
        })
    }
}

/// What the cluster looks like from here.
struct ClusterGauges {
    led: usize,
    under_replicated: usize,
    under_min_isr: usize,
    at_min_isr: usize,
    reassigning: usize,
    led_by_others: usize,
    leaderless: usize,
    active: usize,
    leads: usize,
}

impl ClusterGauges {
    fn of(node: &Node, table: &TopicTable) -> ClusterGauges {
        let image = node.image();
        let own = node.settings.node_id;
        let mut gauges = ClusterGauges {
            led: 0,
            under_replicated: 0,
            under_min_isr: 0,
            at_min_isr: 0,
            reassigning: 0,
            led_by_others: 0,
            leaderless: 0,
            active: image.brokers().filter(|broker| image.is_active(broker.id)).count(),
            leads: usize::from(node.quorum.status().leader == Some(own)),
        };
        for topic in table.iter() {
            for (id, partition) in topic.image.numbered_partitions() {
                gauges.leaderless += usize::from(partition.leader.is_none());
                if partition.leader != Some(own) {
                    let is_preferred = partition.replicas.first() == Some(&own);
                    gauges.led_by_others += usize::from(is_preferred);
                    continue;
                }
                gauges.led += 1;
                gauges.under_replicated +=
                    usize::from(partition.isr.len() < partition.replicas.len());
                let replica = topic.replica(id).filter(|replica| replica.is_leading());
                let is_under =
                    replica.is_some_and(|replica| replica.in_sync() < replica.in_sync_min());
                gauges.under_min_isr += usize::from(is_under);
                let is_at =
                    replica.is_some_and(|replica| replica.in_sync() == replica.in_sync_min());
                gauges.at_min_isr +=
                    usize::from(is_at && partition.replicas.len() > partition.isr.len());
                gauges.reassigning += usize::from(partition.reassignment.is_some());
            }
        }
        gauges
    }
}

fn encode_log_sizes(
    encoder: &mut DescriptorEncoder<'_>,
    table: &TopicTable,
) -> Result<(), std::fmt::Error> {
    let help = "Bytes of a topic's segments";
    let mut family =
        encoder.encode_descriptor("logway_topic_log_bytes", help, None, MetricType::Gauge)?;
    for topic in table.iter() {
        let open = topic.partitions.iter().flatten();
        let bytes: u64 = open.map(|partition| partition.log().size_bytes()).sum();
        let label = TopicLabel { topic: topic.name().to_string() };
        let gauge = ConstGauge::new(i64::try_from(bytes).unwrap_or(i64::MAX));
        gauge.encode(family.encode_family(&label)?)?;
    }
    Ok(())
}

fn as_i64(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
