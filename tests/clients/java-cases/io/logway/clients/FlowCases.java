package io.logway.clients;

import static io.logway.clients.Report.expect;

import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.TopicPartition;

/** A second member joins and leaves while 100,000 records flow. */
final class FlowCases {
    private static final int PARTITIONS = 4;
    private static final int RECORDS = 100_000;

    private final Cluster cluster;

    FlowCases(Cluster cluster) {
        this.cluster = cluster;
    }

    void run(Report report) {
        report.check("group-rebalance", () -> flow("org.apache.kafka.clients.consumer.RangeAssignor"));
        report.check("group-cooperative", this::cooperative);
    }

    /** The first member gives up the two partitions that the second one gets, and never more. */
    private void cooperative() throws Exception {
        Member first = flow("org.apache.kafka.clients.consumer.CooperativeStickyAssignor");
        expect(List.of(), first.lost);
        List<Set<TopicPartition>> revoked = first.revoked.stream().filter(partitions -> !partitions.isEmpty()).toList();
        expect(1, revoked.size());
        expect(2, revoked.get(0).size());
    }

    /** Sends, lets the second member come and go, and checks what both have read; returns the first. */
    private Member flow(String assignor) throws Exception {
        String topic = cluster.createTopic("flow", PARTITIONS, Map.of());
        String group = cluster.freshName("flow");
        Map<String, String> settings = Map.of("partition.assignment.strategy", assignor);
        Set<Integer> seenBySecond;
        Member first = new Member(cluster, group, topic, settings);
        try (first; var producer = cluster.producer(Map.of())) {
            Cluster.await("the first member's partitions", () -> first.assignment().size() == PARTITIONS);
            Cluster.produceNumbers(producer, topic, PARTITIONS, 0, 20_000);
            try (Member second = new Member(cluster, group, topic, settings)) {
                Cluster.produceNumbers(producer, topic, PARTITIONS, 20_000, 60_000);
                int sent = sendUntilRead(producer, topic, second);
                Cluster.produceNumbers(producer, topic, PARTITIONS, sent, 80_000);
                Cluster.await("the second member's partitions", () -> second.assignment().size() == PARTITIONS / 2);
                seenBySecond = second.seen;
            }
            Cluster.produceNumbers(producer, topic, PARTITIONS, 80_000, RECORDS);
            Cluster.await("every record", () -> first.hasRead() && isComplete(first.seen, seenBySecond));
        }
        checkCommitted(group, topic);
        return first;
    }

    /** Sends a hundred records at a time until the member has read one; returns the next number to send. */
    private static int sendUntilRead(KafkaProducer<byte[], byte[]> producer, String topic, Member member) throws Exception {
        int sent = 60_000;
        while (!member.hasRead()) {
            expect(sent < 80_000, "the second member reads something while 20,000 records are sent");
            Cluster.produceNumbers(producer, topic, PARTITIONS, sent, sent + 100);
            sent += 100;
            long deadline = System.nanoTime() + 100_000_000;
            while (!member.hasRead() && System.nanoTime() < deadline) {
                Thread.sleep(5);
            }
        }
        return sent;
    }

    private static boolean isComplete(Set<Integer> seenByFirst, Set<Integer> seenBySecond) {
        Set<Integer> all = new HashSet<>(seenByFirst);
        all.addAll(seenBySecond);
        return all.size() == RECORDS;
    }

    private void checkCommitted(String group, String topic) throws Exception {
        Set<TopicPartition> partitions = Cluster.partitions(topic, PARTITIONS);
        try (var consumer = cluster.groupConsumer(group)) {
            for (var committed : consumer.committed(partitions).entrySet()) {
                expect(cluster.offset(committed.getKey(), OffsetSpec.latest()), committed.getValue().offset());
            }
        }
    }
}
