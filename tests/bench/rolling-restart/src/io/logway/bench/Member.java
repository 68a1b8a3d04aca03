package io.logway.bench;

import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;

import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** A member of the group on a thread of its own: it polls, and tells the ledger. Offsets are committed by default. */
final class Member implements ConsumerRebalanceListener {
    private static final Duration DEADLINE = Duration.ofMinutes(1);

    /** Partitions that members had to give up, other than by ending. */
    static final AtomicInteger REVOKED = new AtomicInteger();

    private final Ledger ledger;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final Thread thread;
    private volatile int partitions;
    private volatile int generation;
    private volatile boolean isStopping;
    private volatile RuntimeException failure;

    Member(Settings settings, Ledger ledger, int number) {
        this.ledger = ledger;
        Map<String, Object> own = new HashMap<>(settings.ofGroup());
        own.put("group.id", Settings.NAME);
        own.put("client.id", "member-" + number);
        own.put("auto.offset.reset", "earliest");
        consumer = new KafkaConsumer<>(settings.with(own), new ByteArrayDeserializer(), new ByteArrayDeserializer());
        thread = new Thread(this::run, "member-" + number);
        thread.start();
    }

    /** How many partitions it owns. */
    int partitions() {
        check();
        return partitions;
    }

    /** Of its group, as it knows it; by the newer protocol the member's epoch, which follows the group's. */
    int generation() {
        check();
        return generation;
    }

    /** Leaves the group; returns when that is done. */
    void close() throws InterruptedException {
        isStopping = true;
        thread.join(DEADLINE.toMillis());
        check();
        if (thread.isAlive()) {
            throw new IllegalStateException(thread.getName() + " has not ended within " + DEADLINE);
        }
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> assigned) {
        assigned.forEach(partition -> ledger.assigned(partition.partition(), this));
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> revoked) {
        if (!isStopping) {
            REVOKED.addAndGet(revoked.size());
        }
        revoked.forEach(partition -> ledger.revoked(partition.partition(), this));
    }

    private void run() {
        try (consumer) {
            consumer.subscribe(Set.of(Settings.NAME), this);
            while (!isStopping) {
                var records = consumer.poll(Duration.ofMillis(100));
                for (TopicPartition partition : records.partitions()) {
                    ledger.read(partition.partition(), numbers(records.records(partition)));
                }
                partitions = consumer.assignment().size();
                generation = consumer.groupMetadata().generationId();
            }
        } catch (RuntimeException thrown) {
            failure = thrown;
        }
    }

    private static List<Integer> numbers(List<ConsumerRecord<byte[], byte[]>> records) {
        return records.stream().map(record -> Flow.number(record.value())).toList();
    }

    private void check() {
        if (failure != null) {
            throw new IllegalStateException(thread.getName() + " has failed", failure);
        }
    }
}
