package io.logway.flink;

import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.kafka.clients.consumer.OffsetResetStrategy;

/** Copies a topic in upper case from where its group is until it is stopped: UpperCase BOOTSTRAP GROUP FROM TO. */
public final class UpperCase {
    private static final long CHECKPOINT_INTERVAL_MS = 1_000;

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
        KafkaSink<String> sink = KafkaSink.<String>builder()
            .setBootstrapServers(args[0])
            .setDeliveryGuarantee(DeliveryGuarantee.AT_LEAST_ONCE)
            .setRecordSerializer(KafkaRecordSerializationSchema.builder()
                .setTopic(args[3])
                .setValueSerializationSchema(new SimpleStringSchema())
                .build())
            .build();
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment();
        environment.setParallelism(1);
        environment.enableCheckpointing(CHECKPOINT_INTERVAL_MS);
        environment.fromSource(source, WatermarkStrategy.noWatermarks(), "lines").map(String::toUpperCase).sinkTo(sink);
        environment.execute("upper case");
    }
}
