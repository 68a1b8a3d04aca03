package io.logway.clients;

import java.io.InputStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** The broker under test: its admin client, and producers and consumers for it. */
final class Cluster implements AutoCloseable {
    static final Duration DEADLINE = Duration.ofSeconds(20);

    final String bootstrap;
    final Release release;
    final Admin admin;
    private int names;

    Cluster(String bootstrap, Release release) {
        this.bootstrap = bootstrap;
        this.release = release;
        this.admin = Admin.create(Map.of("bootstrap.servers", bootstrap, "default.api.timeout.ms", "20000", "request.timeout.ms", "15000"));
    }

    @Override
    public void close() {
        admin.close();
    }

    /** A name for a topic or a group that no other case uses. */
    String freshName(String purpose) {
        return "java-" + purpose + "-" + names++;
    }

    /** A new topic named for its purpose; returns when the broker describes it. */
    String createTopic(String purpose, int partitions, Map<String, String> configs) throws Exception {
        String name = freshName(purpose);
        admin.createTopics(Set.of(new NewTopic(name, partitions, (short) 1).configs(configs))).all().get();
        await(name + " to be described", () -> exists(name));
        return name;
    }

    String createTopic(String purpose) throws Exception {
        return createTopic(purpose, 1, Map.of());
    }

    TopicDescription describe(String topic) throws Exception {
        return release.describeTopic(admin, topic);
    }

    boolean exists(String topic) throws Exception {
        try {
            describe(topic);
            return true;
        } catch (ExecutionException failure) {
            if (failure.getCause() instanceof UnknownTopicOrPartitionException) {
                return false;
            }
            throw failure;
        }
    }

    long offset(TopicPartition partition, OffsetSpec spec) throws Exception {
        return admin.listOffsets(Map.of(partition, spec)).all().get().get(partition).offset();
    }

    KafkaProducer<byte[], byte[]> producer(Map<String, ?> settings) {
        return new KafkaProducer<>(with(settings), new ByteArraySerializer(), new ByteArraySerializer());
    }

    /** A consumer; without {@code group.id} it has to assign partitions to itself. Nothing is committed unasked. */
    KafkaConsumer<byte[], byte[]> consumer(Map<String, ?> settings) {
        Map<String, Object> all = with(settings);
        all.put("enable.auto.commit", "false");
        all.put("default.api.timeout.ms", "20000");
        return new KafkaConsumer<>(all, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    /** A consumer of a group that begins at the first record where nothing is committed. */
    KafkaConsumer<byte[], byte[]> groupConsumer(String group) {
        return consumer(Map.of("group.id", group, "auto.offset.reset", "earliest"));
    }

    /** Writes the values "0", "1", ... to partition 0 and waits for every ack. */
    List<RecordMetadata> produceNumbers(String topic, int count, Map<String, ?> settings) throws Exception {
        try (var producer = producer(settings)) {
            return produceNumbers(producer, topic, 1, 0, count);
        }
    }

    /** Writes the values {@code from}, ... below {@code to}, each to the partition that it leaves as a remainder. */
    static List<RecordMetadata> produceNumbers(
        KafkaProducer<byte[], byte[]> producer, String topic, int partitions, int from, int to
    ) throws Exception {
        return awaitAcks(IntStream.range(from, to)
            .mapToObj(number -> producer.send(new ProducerRecord<>(topic, number % partitions, null, bytes(number))))
            .toList());
    }

    static List<RecordMetadata> awaitAcks(List<Future<RecordMetadata>> acks) throws Exception {
        List<RecordMetadata> metadata = new ArrayList<>();
        for (Future<RecordMetadata> ack : acks) {
            metadata.add(ack.get(DEADLINE.toSeconds(), TimeUnit.SECONDS));
        }
        return metadata;
    }

    /** Exactly the next {@code count} records of what is assigned. */
    static List<ConsumerRecord<byte[], byte[]>> poll(KafkaConsumer<byte[], byte[]> consumer, int count) {
        List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
        Instant deadline = Instant.now().plus(DEADLINE);
        while (records.size() < count) {
            consumer.poll(Duration.ofMillis(200)).forEach(records::add);
            Report.expect(Instant.now().isBefore(deadline), records.size() + " of " + count + " records in time");
        }
        Report.expect(count, records.size());
        return records;
    }

    /** How many Fetch requests the broker has answered; 0 of one that does not say where its metrics are. */
    static long answeredFetches() throws Exception {
        String address = System.getenv("METRICS");
        if (address == null) {
            return 0;
        }
        String name = "logway_request_seconds_count{api=\"Fetch\"} ";
        try (InputStream page = URI.create(address).toURL().openStream()) {
            return text(page.readAllBytes()).lines().filter(line -> line.startsWith(name))
                .mapToLong(line -> Long.parseLong(line.substring(name.length()))).findFirst().getAsLong();
        }
    }

    /** The first {@code count} records of partition 0. */
    List<ConsumerRecord<byte[], byte[]>> consume(String topic, int count, Map<String, ?> settings) {
        try (var consumer = consumer(settings)) {
            TopicPartition partition = new TopicPartition(topic, 0);
            consumer.assign(Set.of(partition));
            consumer.seekToBeginning(Set.of(partition));
            return poll(consumer, count);
        }
    }

    /** Asks until the condition holds: Kafka answers an admin request before the broker has applied the change. */
    static void await(String what, Callable<Boolean> condition) throws Exception {
        Instant deadline = Instant.now().plus(DEADLINE);
        while (!condition.call()) {
            Report.expect(Instant.now().isBefore(deadline), "waited too long for " + what);
            Thread.sleep(10);
        }
    }

    static byte[] bytes(Object value) {
        return value.toString().getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }

    static List<String> values(List<ConsumerRecord<byte[], byte[]>> records) {
        return records.stream().map(record -> text(record.value())).toList();
    }

    static List<String> numbers(int from, int to) {
        return IntStream.range(from, to).mapToObj(Integer::toString).toList();
    }

    static Set<TopicPartition> partitions(String topic, int count) {
        return IntStream.range(0, count).mapToObj(id -> new TopicPartition(topic, id)).collect(Collectors.toSet());
    }

    /** The records' values in each partition, in the order of reading. */
    static Map<TopicPartition, List<String>> byPartition(Collection<ConsumerRecord<byte[], byte[]>> records) {
        return records.stream().collect(Collectors.groupingBy(
            record -> new TopicPartition(record.topic(), record.partition()),
            Collectors.mapping(record -> text(record.value()), Collectors.toList())));
    }

    private Map<String, Object> with(Map<String, ?> settings) {
        Map<String, Object> all = new HashMap<>(settings);
        all.put("bootstrap.servers", bootstrap);
        return all;
    }
}
