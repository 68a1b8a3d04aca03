package io.logway.partitioner;

import io.logway.kinesis.KinesisPartitioner;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * A Kafka producer with the partitioner: {@code Send BOOTSTRAP ENDPOINT STREAM}. For each line of stdin it sends a record with this key, none
 * for an empty line, and prints the partition, or the name of the error.
 */
public final class Send {
    private Send() {}

    public static void main(String[] arguments) throws Exception {
        Map<String, Object> settings = Map.of(
                ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0],
                ProducerConfig.PARTITIONER_CLASS_CONFIG, KinesisPartitioner.class,
                "kinesis.endpoint", arguments[1],
                "kinesis.refresh.ms", "200");
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            String line;
            while ((line = lines.readLine()) != null) {
                var key = line.isEmpty() ? null : line;
                try {
                    var record = new ProducerRecord<>(arguments[2], key, "value of " + line);
                    System.out.println(producer.send(record).get().partition());
                } catch (ExecutionException refused) {
                    System.out.println(refused.getCause().getClass().getSimpleName());
                }
            }
        }
    }
}
