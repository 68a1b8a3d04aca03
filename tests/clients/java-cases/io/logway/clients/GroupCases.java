package io.logway.clients;

import static io.logway.clients.Report.expect;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/** Commits, successors and static members; {@link FlowCases} has the rebalances under load. */
final class GroupCases {
    private final Cluster cluster;

    GroupCases(Cluster cluster) {
        this.cluster = cluster;
    }

    void run(Report report) {
        report.check("group-resume", this::resume);
        report.check("group-static", this::staticMember);
        report.check("group-metadata", this::commitMetadata);
    }

    private void resume() throws Exception {
        String topic = cluster.createTopic("resume", 4, Map.of());
        String group = cluster.freshName("resume");
        try (var producer = cluster.producer(Map.of())) {
            Cluster.produceNumbers(producer, topic, 4, 0, 400);
        }
        List<String> read = new ArrayList<>(readAndCommit(group, topic, 200));
        read.addAll(readAndCommit(group, topic, 200));
        expect(400, read.size());
        expect(new HashSet<>(Cluster.numbers(0, 400)), new HashSet<>(read));
        try (var consumer = cluster.groupConsumer(group)) {
            consumer.committed(Cluster.partitions(topic, 4)).values().forEach(committed -> expect(100L, committed.offset()));
        }
    }

    /** What a new member reads until it has {@code count} records, commits and leaves. */
    private List<String> readAndCommit(String group, String topic, int count) {
        Map<String, String> settings = Map.of("group.id", group, "auto.offset.reset", "earliest", "max.poll.records", "10");
        try (var consumer = cluster.consumer(settings)) {
            consumer.subscribe(Set.of(topic));
            List<ConsumerRecord<byte[], byte[]>> records = Cluster.poll(consumer, count);
            consumer.commitSync();
            return Cluster.values(records);
        }
    }

    private void staticMember() throws Exception {
        String topic = cluster.createTopic("static", 4, Map.of());
        String group = cluster.freshName("static");
        try (var first = new Member(cluster, group, topic, instance("first"))) {
            Set<TopicPartition> partitions;
            int generation;
            try (var second = new Member(cluster, group, topic, instance("second"))) {
                Cluster.await("two partitions each", () -> first.assignment().size() == 2 && second.assignment().size() == 2);
                partitions = second.assignment();
                generation = second.metadata().generationId();
            }
            int rebalances = first.rebalances();
            try (var second = new Member(cluster, group, topic, instance("second"))) {
                Cluster.await("the partitions of before", () -> second.assignment().equals(partitions));
                expect(generation, second.metadata().generationId());
                expect(rebalances, first.rebalances());
                expect(generation, first.metadata().generationId());
            }
        }
    }

    private static Map<String, String> instance(String name) {
        return Map.of("group.instance.id", name, "session.timeout.ms", "30000");
    }

    private void commitMetadata() throws Exception {
        TopicPartition partition = new TopicPartition(cluster.createTopic("metadata"), 0);
        cluster.produceNumbers(partition.topic(), 10, Map.of());
        String group = cluster.freshName("metadata");
        OffsetAndMetadata committed = new OffsetAndMetadata(5, Optional.of(0), "checked by Zoë at 09:30");
        try (var consumer = cluster.groupConsumer(group)) {
            consumer.assign(Set.of(partition));
            consumer.commitSync(Map.of(partition, committed));
        }
        try (var consumer = cluster.groupConsumer(group)) {
            expect(committed, consumer.committed(Set.of(partition)).get(partition));
        }
    }
}
