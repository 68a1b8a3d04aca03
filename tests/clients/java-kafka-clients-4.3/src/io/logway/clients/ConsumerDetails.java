package io.logway.clients;

import static io.logway.clients.Report.expect;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.IntStream;

import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** Reading by assignment, closer: epochs, topic ids and fetch sessions. */
final class ConsumerDetails {
    private final Cluster cluster;

    ConsumerDetails(Cluster cluster) {
        this.cluster = cluster;
    }

    void run(Report report) {
        report.run("a seek with a leader epoch is validated", this::seekWithEpoch);
        report.run("a recreated topic is read anew", this::recreatedTopic);
        report.run("one fetch session over many partitions", this::fetchSession);
        report.run("small fetches make progress", this::smallFetches);
    }

    private void seekWithEpoch() throws Exception {
        TopicPartition partition = numbered("epochs", 10);
        try (var consumer = cluster.consumer(Map.of())) {
            consumer.assign(Set.of(partition));
            consumer.seek(partition, new OffsetAndMetadata(5, Optional.of(0), ""));
            expect(Cluster.numbers(5, 10), Cluster.values(Cluster.poll(consumer, 5)));
        }
    }

    /** The topic that replaces another of the same name has another id, which the consumer must learn. */
    private void recreatedTopic() throws Exception {
        TopicPartition partition = numbered("recreated", 5);
        try (var consumer = cluster.consumer(Map.of("auto.offset.reset", "earliest"))) {
            consumer.assign(Set.of(partition));
            consumer.seek(partition, 0);
            Cluster.poll(consumer, 5);
            cluster.admin.deleteTopics(Set.of(partition.topic())).all().get();
            Cluster.await("the topic to be gone", () -> !cluster.exists(partition.topic()));
            cluster.admin.createTopics(Set.of(new NewTopic(partition.topic(), 1, (short) 1))).all().get();
            cluster.produceNumbers(partition.topic(), 3, Map.of());
            expect(Cluster.numbers(0, 3), Cluster.values(Cluster.poll(consumer, 3)));
        }
    }

    private void fetchSession() throws Exception {
        String topic = cluster.createTopic("session", 50, Map.of());
        List<TopicPartition> partitions = IntStream.range(0, 50).mapToObj(id -> new TopicPartition(topic, id)).toList();
        try (var consumer = cluster.consumer(Map.of()); var producer = cluster.producer(Map.of())) {
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            for (int round = 0; round < 20; round++) {
                int id = round * 7 % 50;
                producer.send(new ProducerRecord<>(topic, id, null, Cluster.bytes(round))).get();
                var record = Cluster.poll(consumer, 1).get(0);
                expect(id, record.partition());
                expect(List.of(Integer.toString(round)), Cluster.values(List.of(record)));
                forget(consumer, partitions, round);
            }
        }
    }

    /** Changes the assignment, so that partitions leave the session and come back. */
    private static void forget(KafkaConsumer<byte[], byte[]> consumer, List<TopicPartition> partitions, int round) {
        if (round % 5 == 4) {
            Map<TopicPartition, Long> positions = new HashMap<>();
            partitions.forEach(partition -> positions.put(partition, consumer.position(partition)));
            consumer.assign(partitions.subList(0, 10));
            consumer.poll(Duration.ofMillis(50));
            consumer.assign(partitions);
            positions.forEach(consumer::seek);
        }
    }

    private void smallFetches() throws Exception {
        TopicPartition partition = numbered("small", 2_000);
        Map<String, String> settings = Map.of("max.partition.fetch.bytes", "100", "fetch.max.bytes", "100");
        expect(Cluster.numbers(0, 2_000), Cluster.values(cluster.consume(partition.topic(), 2_000, settings)));
    }

    /** A partition with the values "0", "1", ... in small batches. */
    private TopicPartition numbered(String purpose, int count) throws Exception {
        String topic = cluster.createTopic(purpose);
        cluster.produceNumbers(topic, count, Map.of("batch.size", "500"));
        return new TopicPartition(topic, 0);
    }
}
