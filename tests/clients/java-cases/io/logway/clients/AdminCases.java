package io.logway.clients;

import static io.logway.clients.Report.expect;
import static io.logway.clients.Report.expectFailure;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ElectionNotNeededException;
import org.apache.kafka.common.errors.InvalidReplicaAssignmentException;
import org.apache.kafka.common.errors.OffsetOutOfRangeException;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.quota.ClientQuotaFilterComponent;

/** Administration, but for groups: {@link GroupAdminCases} has those. */
final class AdminCases {
    private final Cluster cluster;

    AdminCases(Cluster cluster) {
        this.cluster = cluster;
    }

    void run(Report report) {
        report.check("admin-topics", this::topics);
        report.check("admin-partitions", this::partitions);
        report.check("admin-topic-configs", this::topicConfigs);
        report.check("admin-broker-configs", this::brokerConfigs);
        report.check("admin-cluster", this::describeCluster);
        report.check("admin-list-offsets", this::listOffsets);
        report.check("admin-delete-records", this::deleteRecords);
        report.check("admin-log-dirs", this::logDirectories);
        report.check("admin-quotas", this::quotas);
        report.check("admin-reassignments", this::reassignments);
        report.check("admin-elect-leaders", this::electLeaders);
    }

    private void topics() throws Exception {
        String topic = cluster.freshName("admin");
        cluster.admin.createTopics(Set.of(new NewTopic(topic, 2, (short) 1))).all().get();
        Cluster.await("the topic to be described", () -> cluster.exists(topic));
        expect(2, cluster.describe(topic).partitions().size());
        expect(true, cluster.admin.listTopics().names().get().contains(topic));
        cluster.admin.deleteTopics(Set.of(topic)).all().get();
        Cluster.await("the topic to be gone", () -> !cluster.exists(topic));
        expect(false, cluster.admin.listTopics().names().get().contains(topic));
    }

    private void partitions() throws Exception {
        String topic = cluster.createTopic("grown");
        cluster.admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all().get();
        Cluster.await("three partitions", () -> cluster.describe(topic).partitions().size() == 3);
        try (var producer = cluster.producer(Map.of()); var consumer = cluster.consumer(Map.of("auto.offset.reset", "earliest"))) {
            Cluster.produceNumbers(producer, topic, 3, 0, 30);
            consumer.assign(Cluster.partitions(topic, 3));
            var read = Cluster.byPartition(Cluster.poll(consumer, 30));
            read.values().forEach(values -> expect(10, values.size()));
        }
    }

    private void topicConfigs() throws Exception {
        ConfigResource topic = new ConfigResource(
            ConfigResource.Type.TOPIC, cluster.createTopic("configs", 1, Map.of("segment.bytes", "2097152")));
        expectEntry(describeConfigs(topic).get("segment.bytes"), "2097152", ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG);
        expectEntry(describeConfigs(topic).get("retention.ms"), "604800000", ConfigEntry.ConfigSource.DEFAULT_CONFIG);
        alterConfig(topic, AlterConfigOp.OpType.SET, "3600000");
        Cluster.await("the new value", () -> describeConfigs(topic).get("retention.ms").value().equals("3600000"));
        expectEntry(describeConfigs(topic).get("retention.ms"), "3600000", ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG);
        alterConfig(topic, AlterConfigOp.OpType.DELETE, "");
        Cluster.await("the default", () -> describeConfigs(topic).get("retention.ms").value().equals("604800000"));
        expectEntry(describeConfigs(topic).get("retention.ms"), "604800000", ConfigEntry.ConfigSource.DEFAULT_CONFIG);
    }

    private static void expectEntry(ConfigEntry entry, String value, ConfigEntry.ConfigSource source) {
        expect(value, entry.value());
        expect(source, entry.source());
    }

    private void alterConfig(ConfigResource topic, AlterConfigOp.OpType operation, String value) throws Exception {
        AlterConfigOp alteration = new AlterConfigOp(new ConfigEntry("retention.ms", value), operation);
        cluster.admin.incrementalAlterConfigs(Map.of(topic, List.of(alteration))).all().get();
    }

    private void brokerConfigs() throws Exception {
        ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, Integer.toString(node().id()));
        Config config = describeConfigs(broker);
        expect(ConfigEntry.ConfigSource.DEFAULT_CONFIG, config.get("message.max.bytes").source());
        expect("1048588", config.get("message.max.bytes").value());
    }

    private Config describeConfigs(ConfigResource resource) throws Exception {
        return cluster.admin.describeConfigs(Set.of(resource)).all().get().get(resource);
    }

    private void describeCluster() throws Exception {
        var described = cluster.admin.describeCluster();
        expect(1, described.nodes().get().size());
        expect(cluster.bootstrap, node().host() + ":" + node().port());
        expect(node().id(), described.controller().get().id());
        expect(22, described.clusterId().get().length());
    }

    private void listOffsets() throws Exception {
        String topic = cluster.createTopic("offsets", 2, Map.of());
        TopicPartition first = new TopicPartition(topic, 0);
        TopicPartition second = new TopicPartition(topic, 1);
        try (var producer = cluster.producer(Map.of())) {
            Cluster.produceNumbers(producer, topic, 2, 0, 20);
        }
        expect(0L, cluster.offset(first, OffsetSpec.earliest()));
        expect(10L, cluster.offset(first, OffsetSpec.latest()));
        deleteBefore(first, 4);
        expect(4L, cluster.offset(first, OffsetSpec.earliest()));
        expect(10L, cluster.offset(first, OffsetSpec.latest()));
        expect(0L, cluster.offset(second, OffsetSpec.earliest()));
    }

    private void deleteRecords() throws Exception {
        TopicPartition partition = new TopicPartition(cluster.createTopic("deleted"), 0);
        cluster.produceNumbers(partition.topic(), 100, Map.of());
        expect(40L, deleteBefore(partition, 40));
        expect(Cluster.numbers(40, 100), Cluster.values(cluster.consume(partition.topic(), 60, Map.of())));
        expectFailure(OffsetOutOfRangeException.class, () -> deleteBefore(partition, 101));
        expect(100L, deleteBefore(partition, -1));
    }

    private long deleteBefore(TopicPartition partition, long offset) throws Exception {
        var deletion = Map.of(partition, RecordsToDelete.beforeOffset(offset));
        return cluster.admin.deleteRecords(deletion).lowWatermarks().get(partition).get().lowWatermark();
    }

    private void logDirectories() throws Exception {
        TopicPartition partition = new TopicPartition(cluster.createTopic("directories"), 0);
        cluster.produceNumbers(partition.topic(), 10_000, Map.of());
        int node = node().id();
        var directories = cluster.admin.describeLogDirs(Set.of(node)).allDescriptions().get().get(node);
        LogDirDescription directory = directories.values().iterator().next();
        expect(null, directory.error());
        expect(directory.replicaInfos().get(partition).size() > 10_000, "ten thousand records take some space");
    }

    private void quotas() throws Exception {
        String client = cluster.freshName("limited");
        ClientQuotaEntity entity = new ClientQuotaEntity(Map.of(ClientQuotaEntity.CLIENT_ID, client));
        alterQuota(entity, 5_000_000.0);
        Cluster.await("the quota", () -> Map.of("producer_byte_rate", 5_000_000.0).equals(describeQuotas(client).get(entity)));
        alterQuota(entity, null);
        Cluster.await("no quota", () -> describeQuotas(client).isEmpty());
    }

    private void alterQuota(ClientQuotaEntity entity, Double bytesPerSecond) throws Exception {
        var operation = new ClientQuotaAlteration.Op("producer_byte_rate", bytesPerSecond);
        cluster.admin.alterClientQuotas(List.of(new ClientQuotaAlteration(entity, List.of(operation)))).all().get();
    }

    private Map<ClientQuotaEntity, Map<String, Double>> describeQuotas(String client) throws Exception {
        var filter = ClientQuotaFilterComponent.ofEntity(ClientQuotaEntity.CLIENT_ID, client);
        return cluster.admin.describeClientQuotas(ClientQuotaFilter.containsOnly(List.of(filter))).entities().get();
    }

    private void reassignments() throws Exception {
        TopicPartition partition = new TopicPartition(cluster.createTopic("reassigned"), 0);
        int node = node().id();
        reassign(partition, node);
        Cluster.await("no reassignment", () -> cluster.admin.listPartitionReassignments().reassignments().get().isEmpty());
        expectFailure(InvalidReplicaAssignmentException.class, () -> reassign(partition, node + 1_000));
        expect(Map.of(), cluster.admin.listPartitionReassignments().reassignments().get());
        expect(List.of(node), cluster.describe(partition.topic()).partitions().get(0).replicas().stream().map(Node::id).toList());
    }

    private Void reassign(TopicPartition partition, int replica) throws Exception {
        var target = Optional.of(new NewPartitionReassignment(List.of(replica)));
        return cluster.admin.alterPartitionReassignments(Map.of(partition, target)).all().get();
    }

    private void electLeaders() throws Exception {
        TopicPartition partition = new TopicPartition(cluster.createTopic("elected"), 0);
        var outcomes = cluster.admin.electLeaders(ElectionType.PREFERRED, Set.of(partition)).partitions().get();
        Throwable outcome = outcomes.get(partition).orElse(null);
        expect(outcome instanceof ElectionNotNeededException, "no election was needed, but got " + outcome);
    }

    /** The cluster's only broker. */
    private Node node() throws Exception {
        return cluster.admin.describeCluster().nodes().get().iterator().next();
    }
}
