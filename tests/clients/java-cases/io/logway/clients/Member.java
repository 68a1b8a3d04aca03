package io.logway.clients;

import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;

import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;

/**
 * A member of a group, on a thread of its own because its consumer may be used by one only: it polls, remembers the
 * numbers that it read, and commits what it read before it gives up partitions and when it is closed.
 */
final class Member implements AutoCloseable, ConsumerRebalanceListener {
    /** The numbers that it has read. */
    final Set<Integer> seen = ConcurrentHashMap.newKeySet();
    /** What it was given and what was taken from it, one entry per call of the listener. */
    final List<Set<TopicPartition>> assigned = new CopyOnWriteArrayList<>();
    final List<Set<TopicPartition>> revoked = new CopyOnWriteArrayList<>();
    final List<Set<TopicPartition>> lost = new CopyOnWriteArrayList<>();

    private final KafkaConsumer<byte[], byte[]> consumer;
    private final Thread thread;
    private volatile Set<TopicPartition> assignment = Set.of();
    private volatile ConsumerGroupMetadata metadata;
    private volatile boolean isStopping;
    private volatile RuntimeException failure;

    /** Joins a group and reads a topic from its beginning, or from what is committed. */
    Member(Cluster cluster, String group, String topic, Map<String, String> settings) {
        Map<String, Object> all = new HashMap<>(settings);
        all.put("group.id", group);
        all.put("auto.offset.reset", "earliest");
        // In the old release a member learns of a rebalance by its heartbeat only.
        all.put("heartbeat.interval.ms", "500");
        consumer = cluster.consumer(all);
        thread = new Thread(() -> read(topic), "member of " + group);
        thread.start();
    }

    /** Its partitions, as of its last poll. */
    Set<TopicPartition> assignment() {
        check();
        return assignment;
    }

    /** How often it was told about its partitions. */
    int rebalances() {
        return assigned.size() + revoked.size() + lost.size();
    }

    /** Generation and member id, as of its last poll. */
    ConsumerGroupMetadata metadata() {
        check();
        return metadata;
    }

    boolean hasRead() {
        check();
        return !seen.isEmpty();
    }

    /** Commits, leaves the group if it is no static member, and fails if the thread has failed. */
    @Override
    public void close() {
        isStopping = true;
        try {
            thread.join(Cluster.DEADLINE.toMillis());
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException("nobody interrupts the cases", interrupted);
        }
        Report.expect(!thread.isAlive(), "the member ends in time");
        check();
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        assigned.add(Set.copyOf(partitions));
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        // Called while it is being closed too, which is no rebalance.
        if (!isStopping) {
            revoked.add(Set.copyOf(partitions));
        }
        consumer.commitSync();
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        lost.add(Set.copyOf(partitions));
    }

    private void read(String topic) {
        try (consumer) {
            consumer.subscribe(Set.of(topic), this);
            while (!isStopping) {
                consumer.poll(Duration.ofMillis(100))
                    .forEach(record -> seen.add(Integer.parseInt(Cluster.text(record.value()))));
                assignment = Set.copyOf(consumer.assignment());
                metadata = consumer.groupMetadata();
            }
            consumer.commitSync();
        } catch (RuntimeException thrown) {
            failure = thrown;
        }
    }

    private void check() {
        if (failure != null) {
            throw new IllegalStateException(failure.toString(), failure);
        }
    }
}
