package io.logway.clients;

import static io.logway.clients.Report.expect;
import static io.logway.clients.Report.expectFailure;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;

import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownMemberIdException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.message.ListOffsetsRequestData;
import org.apache.kafka.common.message.ListOffsetsResponseData;
import org.apache.kafka.common.message.OffsetForLeaderEpochRequestData;
import org.apache.kafka.common.message.OffsetForLeaderEpochResponseData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;

/** The client is told what it did wrong, in Kafka's words, and goes on. */
final class ErrorCases {
    /** Versions that both releases know and that carry the leader's epoch. */
    private static final short LIST_OFFSETS_VERSION = 4;
    private static final short OFFSET_FOR_LEADER_EPOCH_VERSION = 3;
    private static final int EPOCH_AHEAD = 99;

    private final Cluster cluster;

    ErrorCases(Cluster cluster) {
        this.cluster = cluster;
    }

    void run(Report report) {
        report.check("error-unknown-topic", this::unknownTopic);
        report.check("error-too-large", this::tooLarge);
        report.check("error-offset-out-of-range", this::outOfRange);
        report.check("error-topic-exists", this::topicExists);
        report.check("error-invalid-config", this::invalidConfig);
        report.check("error-wrong-epoch", this::wrongEpoch);
        report.check("error-unknown-group", this::unknownGroup);
        report.check("error-stale-member", this::staleMember);
    }

    private void unknownTopic() throws Exception {
        String topic = cluster.freshName("missing");
        expectFailure(UnknownTopicOrPartitionException.class, () -> cluster.describe(topic));
        expectFailure(UnknownTopicOrPartitionException.class, () -> cluster.admin.deleteTopics(Set.of(topic)).all().get());
        try (var consumer = cluster.consumer(Map.of("allow.auto.create.topics", "false"))) {
            var partitions = consumer.partitionsFor(topic);
            expect(partitions == null || partitions.isEmpty(), "the consumer finds no partitions");
        }
        expect(false, cluster.exists(topic));
    }

    private void tooLarge() throws Exception {
        String topic = cluster.createTopic("too-large");
        try (var producer = cluster.producer(Map.of("max.request.size", "2000000"))) {
            expectFailure(RecordTooLargeException.class,
                () -> producer.send(new ProducerRecord<>(topic, 0, null, new byte[1_100_000])).get());
            expect(0L, producer.send(new ProducerRecord<>(topic, 0, null, new byte[1])).get().offset());
        }
        checkTopicsOwnLimit();
    }

    /** The batch header takes 61 bytes, and this record 11 more than its value. */
    private void checkTopicsOwnLimit() throws Exception {
        String topic = cluster.createTopic("limited", 1, Map.of("max.message.bytes", "10000"));
        try (var producer = cluster.producer(Map.of())) {
            expect(0L, producer.send(new ProducerRecord<>(topic, new byte[10_000 - 72])).get().offset());
            expectFailure(RecordTooLargeException.class,
                () -> producer.send(new ProducerRecord<>(topic, new byte[10_001 - 72])).get());
            expect(1L, producer.send(new ProducerRecord<>(topic, new byte[1])).get().offset());
        }
    }

    private void outOfRange() throws Exception {
        TopicPartition partition = new TopicPartition(cluster.createTopic("range"), 0);
        cluster.produceNumbers(partition.topic(), 10, Map.of());
        try (var consumer = cluster.consumer(Map.of("auto.offset.reset", "none"))) {
            consumer.assign(Set.of(partition));
            consumer.seek(partition, 11);
            var failure = expectFailure(OffsetOutOfRangeException.class, () -> Cluster.poll(consumer, 1));
            expect(Map.of(partition, 11L), failure.offsetOutOfRangePartitions());
            consumer.seek(partition, 9);
            expect(List.of("9"), Cluster.values(Cluster.poll(consumer, 1)));
        }
    }

    private void topicExists() throws Exception {
        String topic = cluster.createTopic("taken");
        expectFailure(TopicExistsException.class, () -> create(new NewTopic(topic, 1, (short) 1)));
    }

    private void invalidConfig() throws Exception {
        for (Map<String, String> configs : List.of(Map.of("no.such.setting", "1"), Map.of("retention.ms", "soon"))) {
            NewTopic topic = new NewTopic(cluster.freshName("invalid"), 1, (short) 1).configs(configs);
            var refusal = expectFailure(InvalidConfigurationException.class, () -> create(topic));
            String setting = configs.keySet().iterator().next();
            expect(refusal.getMessage().contains(setting), "the message names " + setting + ": " + refusal.getMessage());
            expect(false, cluster.exists(topic.name()));
        }
    }

    private Void create(NewTopic topic) throws Exception {
        return cluster.admin.createTopics(Set.of(topic)).all().get();
    }

    /** The consumer itself waits for the epoch that it was told of, and never asks the broker. */
    private void wrongEpoch() throws Exception {
        String topic = cluster.createTopic("epochs");
        var epochPartition = new OffsetForLeaderEpochRequestData.OffsetForLeaderPartition()
            .setPartition(0).setCurrentLeaderEpoch(EPOCH_AHEAD).setLeaderEpoch(0);
        var epochTopics = new OffsetForLeaderEpochRequestData.OffsetForLeaderTopicCollection();
        epochTopics.add(new OffsetForLeaderEpochRequestData.OffsetForLeaderTopic().setTopic(topic).setPartitions(List.of(epochPartition)));
        var offsetPartition = new ListOffsetsRequestData.ListOffsetsPartition()
            .setPartitionIndex(0).setCurrentLeaderEpoch(EPOCH_AHEAD).setTimestamp(-1);
        var offsetTopic = new ListOffsetsRequestData.ListOffsetsTopic().setName(topic).setPartitions(List.of(offsetPartition));
        try (RawConnection connection = new RawConnection(cluster.bootstrap)) {
            var epochs = new OffsetForLeaderEpochResponseData(
                connection.ask(ApiKeys.OFFSET_FOR_LEADER_EPOCH, OFFSET_FOR_LEADER_EPOCH_VERSION,
                    new OffsetForLeaderEpochRequestData().setReplicaId(-1).setTopics(epochTopics)),
                OFFSET_FOR_LEADER_EPOCH_VERSION);
            expectUnknownEpoch(epochs.topics().iterator().next().partitions().get(0).errorCode());
            var offsets = new ListOffsetsResponseData(
                connection.ask(ApiKeys.LIST_OFFSETS, LIST_OFFSETS_VERSION,
                    new ListOffsetsRequestData().setReplicaId(-1).setTopics(List.of(offsetTopic))),
                LIST_OFFSETS_VERSION);
            expectUnknownEpoch(offsets.topics().get(0).partitions().get(0).errorCode());
        }
    }

    private static void expectUnknownEpoch(short errorCode) {
        expect(Errors.UNKNOWN_LEADER_EPOCH, Errors.forCode(errorCode));
    }

    private void unknownGroup() throws Exception {
        String group = cluster.freshName("absent");
        expectFailure(GroupIdNotFoundException.class, () -> cluster.admin.deleteConsumerGroups(Set.of(group)).all().get());
    }

    private void staleMember() throws Exception {
        String topic = cluster.createTopic("stale");
        TopicPartition partition = new TopicPartition(topic, 0);
        String group = cluster.freshName("stale");
        cluster.produceNumbers(topic, 10, Map.of());
        // Heartbeats so rare that the member does not learn of its removal before it commits.
        Map<String, String> settings = Map.of(
            "group.id", group, "auto.offset.reset", "earliest", "session.timeout.ms", "30000", "heartbeat.interval.ms", "25000");
        try (var consumer = cluster.consumer(settings)) {
            consumer.subscribe(Set.of(topic));
            Cluster.poll(consumer, 10);
            // One who commits without being a member, into a group that has one.
            var outside = Map.of(partition, new OffsetAndMetadata(3));
            expectFailure(UnknownMemberIdException.class,
                () -> cluster.admin.alterConsumerGroupOffsets(group, outside).all().get());
            cluster.admin.removeMembersFromConsumerGroup(group, new RemoveMembersFromConsumerGroupOptions()).all().get();
            expectFailure(CommitFailedException.class, () -> {
                consumer.commitSync();
                return null;
            });
            expect(null, consumer.committed(Set.of(partition)).get(partition));
            // And it goes on: the next poll joins again.
            Cluster.await("the member to have joined again", () -> {
                consumer.poll(Duration.ofMillis(200));
                return !consumer.assignment().isEmpty();
            });
            consumer.commitSync(Map.of(partition, new OffsetAndMetadata(10)));
        }
    }
}
