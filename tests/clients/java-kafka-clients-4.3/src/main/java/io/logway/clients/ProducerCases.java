package io.logway.clients;

import static io.logway.clients.Report.expect;
import static io.logway.clients.Report.expectFailure;

import java.util.List;
import java.util.Map;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;

/** Writing: codecs, acks, idempotence, headers, nulls and limits. */
final class ProducerCases {
    private static final int RECORDS = 20_000;

    private final Cluster cluster;

    ProducerCases(Cluster cluster) {
        this.cluster = cluster;
    }

    void run(Report report) {
        for (String codec : Cluster.CODECS) {
            report.run("idempotent producer, " + codec, () -> idempotent(codec));
        }
        for (String acks : List.of("0", "1", "all")) {
            report.run("acks=" + acks, () -> acks(acks));
        }
        report.run("headers keep order, duplicates and nulls", this::headers);
        report.run("null keys and values", this::nulls);
        report.run("a batch above max.message.bytes is refused", this::tooLarge);
    }

    private void idempotent(String codec) throws Exception {
        String topic = cluster.createTopic("idempotent-" + codec);
        Map<String, String> settings = Map.of("compression.type", codec, "enable.idempotence", "true", "batch.size", "2000");
        List<RecordMetadata> acks = cluster.produceNumbers(topic, RECORDS, settings);
        expect(RECORDS - 1L, acks.get(RECORDS - 1).offset());
        expect(Cluster.numbers(0, RECORDS), Cluster.values(cluster.consume(topic, RECORDS, Map.of())));
    }

    private void acks(String acks) throws Exception {
        String topic = cluster.createTopic("acks-" + acks);
        cluster.produceNumbers(topic, 1_000, Map.of("acks", acks, "enable.idempotence", "false", "linger.ms", "50"));
        expect(Cluster.numbers(0, 1_000), Cluster.values(cluster.consume(topic, 1_000, Map.of())));
    }

    private void headers() throws Exception {
        String topic = cluster.createTopic("headers");
        List<Header> headers = List.of(
            new RecordHeader("a", Cluster.bytes(1)), new RecordHeader("b", null), new RecordHeader("a", Cluster.bytes(1)));
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

    private void tooLarge() throws Exception {
        String topic = cluster.createTopic("too-large", 1, Map.of("max.message.bytes", "10000"));
        try (var producer = cluster.producer(Map.of())) {
            // The batch header takes 61 bytes, and this record 11 more than its value.
            expect(0L, producer.send(new ProducerRecord<>(topic, new byte[10_000 - 72])).get().offset());
            expectFailure(RecordTooLargeException.class, () -> producer.send(new ProducerRecord<>(topic, new byte[10_001 - 72])).get());
            expect(1L, producer.send(new ProducerRecord<>(topic, new byte[1])).get().offset());
        }
    }
}
