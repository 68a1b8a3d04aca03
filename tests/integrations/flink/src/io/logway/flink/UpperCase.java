package io.logway.flink;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.Optional;
import java.util.stream.Stream;

import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.ExternalizedCheckpointRetention;
import org.apache.flink.configuration.StateRecoveryOptions;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.sink.KafkaSinkBuilder;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.kafka.clients.consumer.OffsetResetStrategy;

/**
 * Copies a topic in upper case until it is stopped: UpperCase BOOTSTRAP GROUP FROM TO [CHECKPOINTS].
 *
 * <p>It goes on from where its group is, at least once; with a directory for checkpoints from the newest of these, exactly once.
 */
public final class UpperCase {
    private static final long CHECKPOINT_INTERVAL_MS = 1_000;
    // Below what brokers allow; Flink's own default is above it.
    private static final String TRANSACTION_TIMEOUT_MS = "60000";

    private UpperCase() {
    }

    public static void main(String[] args) throws Exception {
        KafkaSource<String> source = KafkaSource.<String>builder()
            .setBootstrapServers(args[0])
            .setGroupId(args[1])
            .setTopics(args[2])
            .setStartingOffsets(OffsetsInitializer.committedOffsets(OffsetResetStrategy.EARLIEST))
            .setValueOnlyDeserializer(new SimpleStringSchema())
            .setProperty("commit.offsets.on.checkpoint", "true")
            // No discovery of new partitions: one that begins before the job has its first ones starts these at zero.
            .setProperty("partition.discovery.interval.ms", "-1")
            .build();
        KafkaSinkBuilder<String> sink = KafkaSink.<String>builder()
            .setBootstrapServers(args[0])
            .setRecordSerializer(KafkaRecordSerializationSchema.builder()
                .setTopic(args[3])
                .setValueSerializationSchema(new SimpleStringSchema())
                .build());
        Configuration configuration = new Configuration();
        if (args.length > 4) {
            Path checkpoints = Path.of(args[4]);
            configuration.set(CheckpointingOptions.CHECKPOINTS_DIRECTORY, checkpoints.toUri().toString());
            configuration.set(CheckpointingOptions.EXTERNALIZED_CHECKPOINT_RETENTION,
                ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION);
            newest(checkpoints).ifPresent(path ->
                configuration.set(StateRecoveryOptions.SAVEPOINT_PATH, path.toUri().toString()));
            sink.setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
                .setTransactionalIdPrefix(args[1])
                .setProperty("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS);
        } else {
            sink.setDeliveryGuarantee(DeliveryGuarantee.AT_LEAST_ONCE);
        }
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment(configuration);
        environment.setParallelism(1);
        environment.enableCheckpointing(CHECKPOINT_INTERVAL_MS);
        environment.fromSource(source, WatermarkStrategy.noWatermarks(), "lines")
            .uid("source")
            .map(String::toUpperCase)
            .sinkTo(sink.build())
            .uid("sink");
        environment.execute("upper case");
    }

    /** The checkpoint that was completed last: its metadata are written when all else is there. */
    private static Optional<Path> newest(Path checkpoints) throws IOException {
        try (Stream<Path> found = Files.walk(checkpoints)) {
            return found.filter(path -> path.endsWith("_metadata"))
                .max(Comparator.comparingLong(path -> path.toFile().lastModified()))
                .map(Path::getParent);
        }
    }
}
