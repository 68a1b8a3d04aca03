package io.logway.clients;

import static io.logway.clients.Report.expect;
import static io.logway.clients.Report.expectFailure;

import java.util.List;
import java.util.Map;
import java.util.Set;

import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.AlterConfigsOptions;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.DescribeConfigsOptions;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.InvalidConfigurationException;

/** Configs, offsets and log directories through the admin client, closer. */
final class AdminDetails {
    private static final long BASE_MS = 1_700_000_000_000L;

    private final Cluster cluster;

    AdminDetails(Cluster cluster) {
        this.cluster = cluster;
    }

    void run(Report report) {
        report.run("describeConfigs tells source, type and synonyms", this::describeConfigs);
        report.run("incrementalAlterConfigs sets, deletes and validates", this::alterConfigs);
        report.run("listOffsets by every spec", this::listOffsets);
        report.run("describeLogDirs tells the volume's size", this::describeLogDirs);
    }

    private void describeConfigs() throws Exception {
        ConfigResource topic = topic(cluster.createTopic("configs", 1, Map.of("segment.bytes", "2097152")));
        var options = new DescribeConfigsOptions().includeSynonyms(true);
        Config config = cluster.admin.describeConfigs(Set.of(topic), options).all().get().get(topic);
        ConfigEntry set = config.get("segment.bytes");
        expect("2097152", set.value());
        expect(ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, set.source());
        expect(ConfigEntry.ConfigType.INT, set.type());
        expect("2097152", set.synonyms().get(0).value());
        expect(ConfigEntry.ConfigSource.DEFAULT_CONFIG, config.get("retention.ms").source());
        expect(ConfigEntry.ConfigType.LONG, config.get("retention.ms").type());
    }

    private void alterConfigs() throws Exception {
        ConfigResource topic = topic(cluster.createTopic("alter"));
        var shorter = new AlterConfigOp(new ConfigEntry("retention.ms", "1000"), AlterConfigOp.OpType.SET);
        var options = new AlterConfigsOptions().validateOnly(true);
        cluster.admin.incrementalAlterConfigs(Map.of(topic, List.of(shorter)), options).all().get();
        expect("604800000", config(topic, "retention.ms"));
        cluster.admin.incrementalAlterConfigs(Map.of(topic, List.of(shorter))).all().get();
        Cluster.await("the new value", () -> config(topic, "retention.ms").equals("1000"));
        var delete = new AlterConfigOp(new ConfigEntry("retention.ms", ""), AlterConfigOp.OpType.DELETE);
        cluster.admin.incrementalAlterConfigs(Map.of(topic, List.of(delete))).all().get();
        Cluster.await("the default", () -> config(topic, "retention.ms").equals("604800000"));
        var wrong = new AlterConfigOp(new ConfigEntry("retention.ms", "soon"), AlterConfigOp.OpType.SET);
        expectFailure(InvalidConfigurationException.class,
            () -> cluster.admin.incrementalAlterConfigs(Map.of(topic, List.of(wrong))).all().get());
    }

    private void listOffsets() throws Exception {
        TopicPartition partition = new TopicPartition(cluster.createTopic("offsets"), 0);
        try (var producer = cluster.producer(Map.of())) {
            for (long time : new long[] {1_000, 9_000, 5_000}) {
                producer.send(new ProducerRecord<>(partition.topic(), 0, BASE_MS + time, null, Cluster.bytes(time))).get();
            }
        }
        expect(0L, cluster.offset(partition, OffsetSpec.earliest()));
        expect(3L, cluster.offset(partition, OffsetSpec.latest()));
        expect(1L, cluster.offset(partition, OffsetSpec.maxTimestamp()));
        expect(1L, cluster.offset(partition, OffsetSpec.forTimestamp(BASE_MS + 4_000)));
        expect(-1L, cluster.offset(partition, OffsetSpec.forTimestamp(BASE_MS + 10_000)));
        expect(0L, cluster.offset(partition, OffsetSpec.earliestLocal()));
        expect(-1L, cluster.offset(partition, OffsetSpec.latestTiered()));
    }

    private void describeLogDirs() throws Exception {
        int node = cluster.admin.describeCluster().nodes().get().iterator().next().id();
        var directories = cluster.admin.describeLogDirs(Set.of(node)).allDescriptions().get().get(node);
        LogDirDescription directory = directories.values().iterator().next();
        expect(directory.totalBytes().orElse(0) > directory.usableBytes().orElse(0), "the volume's size is known");
    }

    private static ConfigResource topic(String name) {
        return new ConfigResource(ConfigResource.Type.TOPIC, name);
    }

    private String config(ConfigResource resource, String name) throws Exception {
        return cluster.admin.describeConfigs(Set.of(resource)).all().get().get(resource).get(name).value();
    }
}
