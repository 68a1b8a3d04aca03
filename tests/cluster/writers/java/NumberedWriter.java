import java.io.BufferedOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.zip.CRC32;

import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Writes 0, 1, 2, ... to each partition of a topic with Java's idempotent producer, and tells each acknowledgement.
 *
 * Arguments: BOOTSTRAP TOPIC PARTITIONS RECORDS_PER_SECOND IN_FLIGHT NOISE_FILE. It writes until standard input ends, then
 * flushes. Standard output gets partition, number and offset of what is acknowledged: 4, 8 and 8 bytes, the highest first.
 * A record that has failed is said on standard error, and the exit code is 1 then.
 *
 * What stands in a record is what `value_of` in tests/harness/load.py says.
 */
public final class NumberedWriter {
    private static final int HEAD_BYTES = 12;
    private static final int BODY_BYTES_MAX = 200;
    private static final long NANOS_PER_SECOND = 1_000_000_000L;

    private NumberedWriter() {}

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        int partitions = Integer.parseInt(arguments[2]);
        long perSecond = Long.parseLong(arguments[3]);
        long inFlightMax = Long.parseLong(arguments[4]);
        byte[] noise = Files.readAllBytes(Path.of(arguments[5]));
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", arguments[0],
            "acks", "all",
            "enable.idempotence", "true",
            "reconnect.backoff.max.ms", "200",
            // What is on the way to a node that hangs is given up after this time.
            "request.timeout.ms", "2000");
        AtomicBoolean isStopping = new AtomicBoolean();
        var listener = new Thread(() -> {
            waitForTheEnd();
            isStopping.set(true);
        });
        listener.setDaemon(true);
        listener.start();
        AtomicBoolean hasFailed = new AtomicBoolean();
        AtomicLong inFlight = new AtomicLong();
        var acked = new DataOutputStream(new BufferedOutputStream(System.out, 1 << 16));
        var serializer = new ByteArraySerializer();
        try (Producer<byte[], byte[]> producer = new KafkaProducer<>(settings, serializer, serializer)) {
            long began = System.nanoTime();
            for (long number = 0; !isStopping.get(); number++) {
                for (int partition = 0; partition < partitions; partition++) {
                    int to = partition;
                    long told = number;
                    inFlight.incrementAndGet();
                    producer.send(new ProducerRecord<>(topic, to, null, value(to, told, noise)), (metadata, error) -> {
                        inFlight.decrementAndGet();
                        if (error != null) {
                            hasFailed.set(true);
                            System.err.println("partition " + to + " number " + told + ": " + error);
                        } else {
                            write(acked, to, told, metadata.offset());
                        }
                    });
                }
                long due = began + (number + 1) * partitions * NANOS_PER_SECOND / perSecond;
                // What could not be written in time is not made up for.
                if (System.nanoTime() - due > NANOS_PER_SECOND) {
                    began += System.nanoTime() - due;
                }
                while (!isStopping.get() && (System.nanoTime() < due || inFlight.get() > inFlightMax)) {
                    // So that a reader sees soon what is acknowledged.
                    flush(acked);
                    LockSupport.parkNanos(1_000_000);
                }
            }
        }
        flush(acked);
        System.exit(hasFailed.get() ? 1 : 0);
    }

    private static void waitForTheEnd() {
        try {
            while (System.in.read() >= 0) {}
        } catch (IOException error) {
            System.err.println("standard input: " + error);
        }
    }

    private static void write(DataOutputStream acked, int partition, long number, long offset) {
        try {
            synchronized (acked) {
                acked.writeInt(partition);
                acked.writeLong(number);
                acked.writeLong(offset);
            }
        } catch (IOException error) {
            gone(error);
        }
    }

    private static void flush(DataOutputStream acked) {
        try {
            synchronized (acked) {
                acked.flush();
            }
        } catch (IOException error) {
            gone(error);
        }
    }

    /** Nobody listens any more. */
    private static void gone(IOException error) {
        System.err.println("standard output: " + error);
        Runtime.getRuntime().halt(1);
    }

    private static byte[] value(int partition, long number, byte[] noise) {
        byte[] head = ByteBuffer.allocate(HEAD_BYTES).putInt(partition).putLong(number).array();
        var crc = new CRC32();
        crc.update(head);
        int start = (int) (crc.getValue() % (noise.length - BODY_BYTES_MAX));
        int length = (int) (crc.getValue() % BODY_BYTES_MAX);
        byte[] value = Arrays.copyOf(head, HEAD_BYTES + length);
        System.arraycopy(noise, start, value, HEAD_BYTES, length);
        return value;
    }
}
