package io.logway.clients;

import static io.logway.clients.Report.expect;

import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** Reading partitions that the consumer assigns to itself. */
final class ConsumeCases {
    private static final long BASE_MS = 1_700_000_000_000L;

    /** How long a consumer with nothing to read is looked at. */
    private static final Duration IDLE = Duration.ofSeconds(3);
    /** How often it may ask meanwhile: with its wait some times, without any wait it is thousands of times. */
    private static final long IDLE_FETCHES_MAX = 150;

    private final Cluster cluster;

    ConsumeCases(Cluster cluster) {
        this.cluster = cluster;
    }

    void run(Report report) {
        report.check("consume-assigned", () -> assigned("read_uncommitted"));
        report.check("consume-mid-batch", this::midBatch);
        report.check("consume-seek", this::seek);
        report.check("consume-by-time", this::byTime);
        report.check("consume-following", this::following);
        report.check("consume-deleted", this::besideADeletedOne);
        report.check("consume-compacted", this::compacted);
        report.check("consume-read-committed", () -> assigned("read_committed"));
    }

    private void assigned(String isolation) throws Exception {
        int count = 3;
        String topic = cluster.createTopic("assigned", count, Map.of());
        try (var producer = cluster.producer(Map.of())) {
            Cluster.produceNumbers(producer, topic, count, 0, 3_000);
        }
        try (var consumer = cluster.consumer(Map.of("isolation.level", isolation, "auto.offset.reset", "earliest"))) {
            consumer.assign(Cluster.partitions(topic, count));
            var read = Cluster.byPartition(Cluster.poll(consumer, 3_000));
            for (int id = 0; id < count; id++) {
                List<String> wanted = IntStream.iterate(id, number -> number < 3_000, number -> number + count)
                    .mapToObj(Integer::toString).toList();
                expect(wanted, read.get(new TopicPartition(topic, id)));
            }
        }
    }

    /** Two batches of a hundred records each, told apart by the flush between them. */
    private void midBatch() throws Exception {
        TopicPartition partition = new TopicPartition(cluster.createTopic("batches"), 0);
        try (var producer = cluster.producer(Map.of("linger.ms", "60000", "compression.type", "lz4"))) {
            for (int number = 0; number < 200; number++) {
                producer.send(new ProducerRecord<>(partition.topic(), 0, null, Cluster.bytes(number)));
                if (number % 100 == 99) {
                    producer.flush();
                }
            }
        }
        try (var consumer = cluster.consumer(Map.of())) {
            consumer.assign(Set.of(partition));
            for (int offset : new int[] {150, 50, 199}) {
                consumer.seek(partition, offset);
                expect(Cluster.numbers(offset, 200), Cluster.values(Cluster.poll(consumer, 200 - offset)));
            }
        }
    }

    private void seek() throws Exception {
        TopicPartition partition = new TopicPartition(cluster.createTopic("positions"), 0);
        cluster.produceNumbers(partition.topic(), 1_000, Map.of("batch.size", "500"));
        try (var consumer = cluster.consumer(Map.of("max.poll.records", "1"))) {
            consumer.assign(Set.of(partition));
            expect(Map.of(partition, 0L), consumer.beginningOffsets(Set.of(partition)));
            expect(Map.of(partition, 1_000L), consumer.endOffsets(Set.of(partition)));
            for (long offset : new long[] {0, 999, 500, 3}) {
                consumer.seek(partition, offset);
                expect(List.of(Long.toString(offset)), Cluster.values(Cluster.poll(consumer, 1)));
                expect(offset + 1, consumer.position(partition));
            }
            consumer.seekToEnd(Set.of(partition));
            expect(1_000L, consumer.position(partition));
            consumer.seekToBeginning(Set.of(partition));
            expect(List.of("0"), Cluster.values(Cluster.poll(consumer, 1)));
        }
    }

    private void byTime() throws Exception {
        TopicPartition partition = new TopicPartition(cluster.createTopic("times"), 0);
        try (var producer = cluster.producer(Map.of("batch.size", "500"))) {
            for (int number = 0; number < 100; number++) {
                producer.send(new ProducerRecord<>(partition.topic(), 0, BASE_MS + number * 1_000L, null, Cluster.bytes(number)));
            }
        }
        try (var consumer = cluster.consumer(Map.of())) {
            consumer.assign(Set.of(partition));
            Map<Long, Long> offsets = Map.of(0L, 0L, BASE_MS, 0L, BASE_MS + 1, 1L, BASE_MS + 50_000, 50L, BASE_MS + 99_000, 99L);
            for (Map.Entry<Long, Long> wanted : offsets.entrySet()) {
                var found = consumer.offsetsForTimes(Map.of(partition, wanted.getKey())).get(partition);
                expect(wanted.getValue(), found.offset());
                expect(BASE_MS + wanted.getValue() * 1_000, found.timestamp());
                consumer.seek(partition, found.offset());
                expect(Cluster.numbers((int) found.offset(), 100), Cluster.values(Cluster.poll(consumer, 100 - (int) found.offset())));
            }
            expect(null, consumer.offsetsForTimes(Map.of(partition, BASE_MS + 99_001)).get(partition));
        }
    }

    private void besideADeletedOne() throws Exception {
        String idle = cluster.createTopic("idle");
        String gone = cluster.createTopic("gone");
        List<TopicPartition> both = List.of(new TopicPartition(idle, 0), new TopicPartition(gone, 0));
        try (var consumer = cluster.consumer(Map.of("fetch.max.wait.ms", "500"))) {
            consumer.assign(both);
            consumer.seekToBeginning(both);
            for (TopicPartition partition : both) {
                cluster.produceNumbers(partition.topic(), 1, Map.of());
            }
            Cluster.poll(consumer, 2);
            cluster.admin.deleteTopics(Set.of(gone)).all().get();
            long before = Cluster.answeredFetches();
            Instant end = Instant.now().plus(IDLE);
            while (Instant.now().isBefore(end)) {
                expect(0, consumer.poll(Duration.ofMillis(100)).count());
            }
            long asked = Cluster.answeredFetches() - before;
            expect(asked < IDLE_FETCHES_MAX, asked + " fetches in " + IDLE + " with nothing to read");
            cluster.produceNumbers(idle, 1, Map.of());
            expect(List.of("0"), Cluster.values(Cluster.poll(consumer, 1)));
        }
    }

    /** The broker may hold an empty fetch for 15 s, but must answer it when there is something. */
    private void following() throws Exception {
        TopicPartition partition = new TopicPartition(cluster.createTopic("following"), 0);
        try (var consumer = cluster.consumer(Map.of("fetch.max.wait.ms", "15000")); var producer = cluster.producer(Map.of())) {
            consumer.assign(Set.of(partition));
            consumer.seekToEnd(Set.of(partition));
            expect(0L, consumer.position(partition));
            expect(0, consumer.poll(Duration.ofMillis(500)).count());
            CompletableFuture<Long> readNanos = new CompletableFuture<>();
            List<ConsumerRecord<byte[], byte[]>> read = new ArrayList<>();
            Thread reader = new Thread(() -> {
                read.addAll(Cluster.poll(consumer, 1));
                readNanos.complete(System.nanoTime());
            });
            reader.start();
            producer.send(new ProducerRecord<>(partition.topic(), 0, null, Cluster.bytes("news"))).get();
            long ackNanos = System.nanoTime();
            long afterMs = (readNanos.get(Cluster.DEADLINE.toSeconds(), TimeUnit.SECONDS) - ackNanos) / 1_000_000;
            reader.join();
            expect(afterMs < 5_000, "the record was read " + afterMs + " ms after its acknowledgement");
            expect(List.of("news"), Cluster.values(read));
            // The consumer cannot close before the fetch is answered that it has sent since.
            producer.send(new ProducerRecord<>(partition.topic(), 0, null, Cluster.bytes("the end"))).get();
        }
    }

    /** A topic of which nothing is left but its last record, a tombstone. */
    private void compacted() throws Exception {
        TopicPartition partition = new TopicPartition(System.getenv("COMPACTED_TOPIC"), 0);
        try (var consumer = cluster.consumer(Map.of("max.poll.records", "1")); var producer = cluster.producer(Map.of())) {
            consumer.assign(Set.of(partition));
            consumer.seekToBeginning(Set.of(partition));
            ConsumerRecord<byte[], byte[]> last = Cluster.poll(consumer, 1).get(0);
            while (last.offset() < 5) {
                last = Cluster.poll(consumer, 1).get(0);
            }
            expect("k2", Cluster.text(last.key()));
            expect(null, last.value());
            expect(6L, consumer.position(partition));
            producer.send(new ProducerRecord<>(partition.topic(), 0, Cluster.bytes("k3"), Cluster.bytes("value"))).get();
            ConsumerRecord<byte[], byte[]> next = Cluster.poll(consumer, 1).get(0);
            expect(6L, next.offset());
            expect("k3", Cluster.text(next.key()));
        }
    }
}
