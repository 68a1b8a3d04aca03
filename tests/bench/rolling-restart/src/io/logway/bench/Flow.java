package io.logway.bench;

import java.nio.ByteBuffer;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;

import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Numbered records to all partitions in turn, at a steady rate, until it is stopped. */
final class Flow {
    private final Settings settings;
    private final Thread thread = new Thread(this::run, "flow");
    private final AtomicInteger refused = new AtomicInteger();
    private volatile int sent;
    private volatile boolean isStopping;

    Flow(Settings settings) {
        this.settings = settings;
        thread.start();
    }

    /** How many records it has sent. */
    int sent() {
        return sent;
    }

    /** How many of them the broker has not acknowledged, to be asked after {@link #stop}. */
    int refused() {
        return refused.get();
    }

    /** Stops when at least as many records are sent as the settings want and all are acknowledged or refused. */
    void stop() throws InterruptedException {
        isStopping = true;
        thread.join();
    }

    static int number(byte[] value) {
        return ByteBuffer.wrap(value).getInt();
    }

    private void run() {
        try (var producer = new KafkaProducer<>(
            settings.with(Map.of("acks", "all")), new ByteArraySerializer(), new ByteArraySerializer()
        )) {
            long began = System.nanoTime();
            while (!isStopping || sent < settings.records()) {
                long due = (System.nanoTime() - began) * settings.recordsPerSecond() / 1_000_000_000L;
                while (sent < due) {
                    send(producer, sent);
                    sent = sent + 1;
                }
                LockSupport.parkNanos(1_000_000);
            }
        }
    }

    private void send(KafkaProducer<byte[], byte[]> producer, int number) {
        byte[] value = ByteBuffer.allocate(Settings.VALUE_BYTES).putInt(number).array();
        var record = new ProducerRecord<byte[], byte[]>(Settings.NAME, number % settings.partitions(), null, value);
        producer.send(record, (metadata, error) -> {
            if (error != null) {
                refused.incrementAndGet();
            }
        });
    }
}
