package io.logway.clients;

import static io.logway.clients.Report.expect;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;

/** A topic that is copied to two others, with the offsets of the copied records in the same transaction. */
final class TransactionCases {
    private static final Duration WHETHER_MORE = Duration.ofMillis(300);
    private static final String COMMITTED = "read_committed";
    private static final String ALL = "read_uncommitted";

    private final Cluster cluster;

    TransactionCases(Cluster cluster) {
        this.cluster = cluster;
    }

    void run(Report report) {
        report.check("transaction-commit", () -> new Copies().commit());
        report.check("transaction-abort", () -> new Copies().abort());
        report.check("transaction-fence", () -> new Copies().fence());
    }

    private final class Copies {
        private final TopicPartition source = new TopicPartition(cluster.createTopic("source"), 0);
        private final List<String> topics = List.of(cluster.createTopic("first"), cluster.createTopic("second"));
        private final String group = cluster.freshName("copier");

        private Copies() throws Exception {
            cluster.produceNumbers(source.topic(), 10, Map.of());
        }

        void commit() throws Exception {
            try (var reader = reader(); var producer = open(cluster.freshName("copier"))) {
                copy(reader, producer, "one", 4);
                expectValues(ALL, "one");
                expectValues(COMMITTED);
                producer.commitTransaction();
                expectValues(COMMITTED, "one");
                expectCommitted(4);
                copy(reader, producer, "two", 7);
                producer.commitTransaction();
                expectValues(COMMITTED, "one", "two");
                expectCommitted(7);
            }
        }

        void abort() throws Exception {
            try (var reader = reader(); var producer = open(cluster.freshName("copier"))) {
                copy(reader, producer, "gone", 4);
                producer.abortTransaction();
                copy(reader, producer, "kept", 2);
                producer.commitTransaction();
                expectValues(COMMITTED, "kept");
                expectValues(ALL, "gone", "kept");
                expectCommitted(2);
            }
        }

        void fence() throws Exception {
            String transactionalId = cluster.freshName("copier");
            try (var reader = reader(); var zombie = open(transactionalId)) {
                copy(reader, zombie, "zombie", 9);
                try (var successor = open(transactionalId)) {
                    ApiException fenced = Report.expectFailure(ApiException.class, () -> {
                        zombie.commitTransaction();
                        return null;
                    });
                    boolean isFenced = fenced instanceof ProducerFencedException || fenced instanceof InvalidProducerEpochException;
                    expect(isFenced, "the commit of a fenced producer ended with " + fenced);
                    copy(reader, successor, "successor", 3);
                    successor.commitTransaction();
                }
                expectValues(COMMITTED, "successor");
                expectCommitted(3);
            }
        }

        private KafkaProducer<byte[], byte[]> open(String transactionalId) {
            var producer = cluster.producer(Map.of("transactional.id", transactionalId, "max.block.ms", "20000"));
            producer.initTransactions();
            return producer;
        }

        /** It assigns the source to itself, and is the group that offsets are committed for. */
        private KafkaConsumer<byte[], byte[]> reader() {
            var reader = cluster.groupConsumer(group);
            reader.assign(Set.of(source));
            return reader;
        }

        /** Leaves a transaction open in which there is a record for each topic, and an offset. */
        private void copy(
            KafkaConsumer<byte[], byte[]> reader, KafkaProducer<byte[], byte[]> producer, String value, long offset
        ) {
            producer.beginTransaction();
            topics.forEach(topic -> producer.send(new ProducerRecord<>(topic, 0, null, Cluster.bytes(value))));
            producer.flush();
            producer.sendOffsetsToTransaction(Map.of(source, new OffsetAndMetadata(offset)), reader.groupMetadata());
        }

        /** Each of the topics must have just these. */
        private void expectValues(String isolation, String... values) {
            for (String topic : topics) {
                try (var consumer = cluster.consumer(Map.of("isolation.level", isolation, "auto.offset.reset", "earliest"))) {
                    consumer.assign(Set.of(new TopicPartition(topic, 0)));
                    List<ConsumerRecord<byte[], byte[]>> found = Cluster.poll(consumer, values.length);
                    consumer.poll(WHETHER_MORE).forEach(found::add);
                    expect(List.of(values), Cluster.values(found));
                }
            }
        }

        private void expectCommitted(long offset) throws Exception {
            Cluster.await("offset " + offset + " to be committed", () -> {
                var offsets = cluster.admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
                return offsets.getOrDefault(source, new OffsetAndMetadata(0)).offset() == offset;
            });
        }
    }
}
