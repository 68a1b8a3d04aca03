package io.logway.clients;

import static io.logway.clients.Report.expect;
import static io.logway.clients.Report.expectFailure;

import java.util.List;
import java.util.Map;
import java.util.Set;

import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.DescribeTopicsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.InvalidPartitionsException;
import org.apache.kafka.common.errors.InvalidReplicationFactorException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.UnknownTopicIdException;

/** Topics through the admin client: created, described, grown and deleted, by name and by id. */
final class TopicDetails {
    private final Cluster cluster;

    TopicDetails(Cluster cluster) {
        this.cluster = cluster;
    }

    void run(Report report) {
        report.run("createTopics tells id, partitions and configs", this::createTopics);
        report.run("createTopics refuses what it must", this::refusedTopics);
        report.run("describeTopics pages through many partitions", this::describeInPages);
        report.run("topics are described and deleted by id", this::byId);
        report.run("createPartitions grows and refuses to shrink", this::createPartitions);
    }

    private void createTopics() throws Exception {
        NewTopic topic = new NewTopic("java-created", 2, (short) 1).configs(Map.of("retention.ms", "3600000"));
        var dry = cluster.admin.createTopics(Set.of(topic), new CreateTopicsOptions().validateOnly(true));
        expect(2, dry.numPartitions("java-created").get());
        expect(false, cluster.exists("java-created"));
        var created = cluster.admin.createTopics(Set.of(topic));
        expect(2, created.numPartitions("java-created").get());
        expect(1, created.replicationFactor("java-created").get());
        expect("3600000", created.config("java-created").get().get("retention.ms").value());
        Cluster.await("the topic to be described", () -> cluster.exists("java-created"));
        expect(created.topicId("java-created").get(), cluster.describe("java-created").topicId());
    }

    private void refusedTopics() throws Exception {
        expectFailure(InvalidTopicException.class, () -> create(new NewTopic("no spaces", 1, (short) 1)));
        expectFailure(InvalidPartitionsException.class, () -> create(new NewTopic("java-none", 0, (short) 1)));
        expectFailure(InvalidReplicationFactorException.class, () -> create(new NewTopic("java-three", 1, (short) 3)));
    }

    private void describeInPages() throws Exception {
        String topic = cluster.createTopic("pages", 50, Map.of());
        var options = new DescribeTopicsOptions().partitionSizeLimitPerResponse(7);
        TopicDescription described = cluster.admin.describeTopics(Set.of(topic), options).allTopicNames().get().get(topic);
        List<Integer> ids = described.partitions().stream().map(TopicPartitionInfo::partition).toList();
        expect(Cluster.numbers(0, 50), ids.stream().map(Object::toString).toList());
    }

    private void byId() throws Exception {
        String topic = cluster.createTopic("by-id", 3, Map.of());
        Uuid id = cluster.describe(topic).topicId();
        var ids = TopicCollection.ofTopicIds(Set.of(id));
        expect(topic, cluster.admin.describeTopics(ids).allTopicIds().get().get(id).name());
        cluster.admin.deleteTopics(ids).all().get();
        Cluster.await("the topic to be gone", () -> !cluster.exists(topic));
        expectFailure(UnknownTopicIdException.class, () -> cluster.admin.describeTopics(ids).allTopicIds().get());
    }

    private void createPartitions() throws Exception {
        String topic = cluster.createTopic("grown", 2, Map.of());
        cluster.admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(6))).all().get();
        Cluster.await("six partitions", () -> cluster.describe(topic).partitions().size() == 6);
        expectFailure(InvalidPartitionsException.class,
            () -> cluster.admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all().get());
    }

    private Void create(NewTopic topic) throws Exception {
        return cluster.admin.createTopics(Set.of(topic)).all().get();
    }
}
