package io.logway.clients;

import static io.logway.clients.Report.expect;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.Future;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;

/** What is sent is read back, byte for byte and in order. */
final class ProduceCases {
    private static final int RECORDS = 10_000;

    /** The default of max.message.bytes less the batch's header of 61 bytes and the 11 of this record's own lengths. */
    private static final int LARGEST_VALUE_BYTES = 1_048_588 - 61 - 11;

    private final Cluster cluster;

    ProduceCases(Cluster cluster) {
        this.cluster = cluster;
    }

    void run(Report report) {
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            report.check("produce-" + codec, () -> roundTrip(Map.of("compression.type", codec)));
        }
        for (String acks : List.of("0", "1", "all")) {
            report.check("produce-acks-" + acks, () -> roundTrip(Map.of("acks", acks, "enable.idempotence", "false")));
        }
        report.check("produce-idempotent", () -> roundTrip(Map.of(
            "enable.idempotence", "true", "acks", "all", "batch.size", "1000", "max.in.flight.requests.per.connection", "5")));
        report.check("produce-headers", this::headers);
        report.check("produce-nulls", this::nulls);
        report.check("produce-sizes", this::sizes);
        report.check("produce-auto-create", this::autoCreate);
    }

    private void roundTrip(Map<String, String> settings) throws Exception {
        String topic = cluster.createTopic("round-trip");
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (var producer = cluster.producer(settings)) {
            for (int number = 0; number < RECORDS; number++) {
                sent.add(producer.send(new ProducerRecord<>(topic, 0, key(number), value(number))));
            }
            producer.flush();
        }
        boolean isAcknowledged = !"0".equals(settings.get("acks"));
        List<RecordMetadata> acks = Cluster.awaitAcks(sent);
        List<ConsumerRecord<byte[], byte[]>> read = cluster.consume(topic, RECORDS, Map.of());
        for (int number = 0; number < RECORDS; number++) {
            ConsumerRecord<byte[], byte[]> record = read.get(number);
            expect((long) number, record.offset());
            expect(isAcknowledged ? number : -1L, acks.get(number).offset());
            expect(Arrays.equals(key(number), record.key()), "key of record " + number);
            expect(Arrays.equals(value(number), record.value()), "value of record " + number);
        }
    }

    private static byte[] key(int number) {
        return Cluster.bytes("key " + number % 100);
    }

    private static byte[] value(int number) {
        return Cluster.bytes("value " + number + " of a record that compresses well ".repeat(2));
    }

    private void headers() throws Exception {
        String topic = cluster.createTopic("headers");
        List<Header> headers = List.of(
            new RecordHeader("a", Cluster.bytes(1)), new RecordHeader("b", null), new RecordHeader("c", new byte[0]),
            new RecordHeader("a", Cluster.bytes(2)), new RecordHeader("a", Cluster.bytes(1)));
        try (var producer = cluster.producer(Map.of())) {
            producer.send(new ProducerRecord<>(topic, 0, Cluster.bytes("k"), Cluster.bytes("v"), headers)).get();
        }
        ConsumerRecord<byte[], byte[]> record = cluster.consume(topic, 1, Map.of()).get(0);
        expect(headers, List.of(record.headers().toArray()));
    }

    private void nulls() throws Exception {
        String topic = cluster.createTopic("nulls");
        try (var producer = cluster.producer(Map.of())) {
            producer.send(new ProducerRecord<>(topic, 0, null, null)).get();
            producer.send(new ProducerRecord<>(topic, 0, new byte[0], new byte[0])).get();
        }
        List<ConsumerRecord<byte[], byte[]>> records = cluster.consume(topic, 2, Map.of());
        expect(records.get(0).key() == null && records.get(0).value() == null, "nulls stay null");
        expect(records.get(1).key().length == 0 && records.get(1).value().length == 0, "empty stays empty");
    }

    private void sizes() throws Exception {
        String topic = cluster.createTopic("sizes");
        List<byte[]> values = new ArrayList<>();
        for (int size : new int[] {1, 100, 1_000, 10_000, 100_000, LARGEST_VALUE_BYTES}) {
            byte[] value = new byte[size];
            new Random(size).nextBytes(value);
            values.add(value);
        }
        try (var producer = cluster.producer(Map.of("max.request.size", "2000000"))) {
            for (byte[] value : values) {
                producer.send(new ProducerRecord<>(topic, 0, null, value)).get();
            }
        }
        List<ConsumerRecord<byte[], byte[]>> records = cluster.consume(topic, values.size(), Map.of());
        for (int index = 0; index < values.size(); index++) {
            expect(Arrays.equals(values.get(index), records.get(index).value()), values.get(index).length + " bytes");
        }
    }

    private void autoCreate() throws Exception {
        String topic = cluster.freshName("first-use");
        expect(1, cluster.produceNumbers(topic, 1, Map.of()).size());
        expect(true, cluster.exists(topic));
        expect(List.of("0"), Cluster.values(cluster.consume(topic, 1, Map.of())));
    }
}
