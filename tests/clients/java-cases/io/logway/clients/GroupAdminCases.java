package io.logway.clients;

import static io.logway.clients.Report.expect;
import static io.logway.clients.Report.expectFailure;

import java.util.Map;
import java.util.Set;

import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.GroupNotEmptyException;

/** Groups through the admin client. */
final class GroupAdminCases {
    private final Cluster cluster;

    GroupAdminCases(Cluster cluster) {
        this.cluster = cluster;
    }

    void run(Report report) {
        report.check("admin-groups", this::listAndDescribe);
        report.check("admin-delete-groups", this::deleteGroup);
        report.check("admin-group-offsets", this::alterOffsets);
        report.check("admin-delete-offsets", this::deleteOffsets);
    }

    private void listAndDescribe() throws Exception {
        String topic = cluster.createTopic("described", 3, Map.of());
        String group = cluster.freshName("described");
        Map<String, String> settings = Map.of(
            "client.id", "reader", "partition.assignment.strategy", "org.apache.kafka.clients.consumer.RoundRobinAssignor");
        try (var member = new Member(cluster, group, topic, settings)) {
            Cluster.await("three partitions", () -> member.assignment().size() == 3);
            expect(true, cluster.release.groups(cluster.admin).contains(group));
            ConsumerGroupDescription described = describe(group);
            expect("Stable", cluster.release.groupState(described));
            expect("roundrobin", described.partitionAssignor());
            expect(1, described.members().size());
            MemberDescription only = described.members().iterator().next();
            expect("reader", only.clientId());
            expect("/127.0.0.1", only.host());
            expect(member.metadata().memberId(), only.consumerId());
            expect(Cluster.partitions(topic, 3), only.assignment().topicPartitions());
        }
        Cluster.await("the group to be empty", () -> cluster.release.groupState(describe(group)).equals("Empty"));
    }

    private void deleteGroup() throws Exception {
        String topic = cluster.createTopic("members");
        String group = cluster.freshName("members");
        cluster.produceNumbers(topic, 10, Map.of());
        try (var member = new Member(cluster, group, topic, Map.of())) {
            Cluster.await("ten records", () -> member.hasRead() && member.seen.size() == 10);
            expectFailure(GroupNotEmptyException.class, () -> delete(group));
        }
        expect(10L, offsets(group).get(new TopicPartition(topic, 0)).offset());
        delete(group);
        expect(false, cluster.release.groups(cluster.admin).contains(group));
        try (var consumer = cluster.groupConsumer(group)) {
            expect(null, consumer.committed(Cluster.partitions(topic, 1)).get(new TopicPartition(topic, 0)));
        }
    }

    private void alterOffsets() throws Exception {
        String topic = cluster.createTopic("set");
        TopicPartition partition = new TopicPartition(topic, 0);
        String group = cluster.freshName("set");
        cluster.produceNumbers(topic, 10, Map.of());
        alter(group, Map.of(partition, new OffsetAndMetadata(7, "from outside")));
        expect(Map.of(partition, new OffsetAndMetadata(7, "from outside")), offsets(group));
        try (var consumer = cluster.groupConsumer(group)) {
            consumer.subscribe(Set.of(topic));
            expect(Cluster.numbers(7, 10), Cluster.values(Cluster.poll(consumer, 3)));
        }
    }

    private void deleteOffsets() throws Exception {
        String topic = cluster.createTopic("partly", 2, Map.of());
        TopicPartition first = new TopicPartition(topic, 0);
        TopicPartition second = new TopicPartition(topic, 1);
        String group = cluster.freshName("partly");
        alter(group, Map.of(first, new OffsetAndMetadata(1), second, new OffsetAndMetadata(2)));
        cluster.admin.deleteConsumerGroupOffsets(group, Set.of(first)).all().get();
        expect(Map.of(second, new OffsetAndMetadata(2)), offsets(group));
    }

    private ConsumerGroupDescription describe(String group) throws Exception {
        return cluster.admin.describeConsumerGroups(Set.of(group)).all().get().get(group);
    }

    private Void delete(String group) throws Exception {
        return cluster.admin.deleteConsumerGroups(Set.of(group)).all().get();
    }

    private void alter(String group, Map<TopicPartition, OffsetAndMetadata> offsets) throws Exception {
        cluster.admin.alterConsumerGroupOffsets(group, offsets).all().get();
    }

    private Map<TopicPartition, OffsetAndMetadata> offsets(String group) throws Exception {
        return cluster.admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
    }
}
