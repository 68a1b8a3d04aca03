package io.logway.spark;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import org.apache.spark.SparkConf;
import org.apache.spark.storage.StorageLevel;
import org.apache.spark.streaming.Duration;
import org.apache.spark.streaming.api.java.JavaReceiverInputDStream;
import org.apache.spark.streaming.api.java.JavaStreamingContext;
import org.apache.spark.streaming.kinesis.KinesisInitialPositions;
import org.apache.spark.streaming.kinesis.KinesisInputDStream;

/** Reads a stream from its start, and writes each record to a file as a line: {@code Read ENDPOINT STREAM FILE}. */
public final class Read {
    private static final Duration BATCH = new Duration(1_000);

    private Read() {}

    public static void main(String[] arguments) throws Exception {
        var config = new SparkConf()
                .setMaster("local[3]")
                .setAppName("read")
                .set("spark.ui.enabled", "false")
                .set("spark.driver.bindAddress", "127.0.0.1")
                .set("spark.driver.host", "127.0.0.1");
        var context = new JavaStreamingContext(config, BATCH);
        var stream = KinesisInputDStream.builder()
                .streamingContext(context)
                .endpointUrl(arguments[0])
                .regionName("us-east-1")
                .streamName(arguments[1])
                .checkpointAppName(arguments[1] + "-spark")
                .checkpointInterval(BATCH)
                .initialPosition(new KinesisInitialPositions.TrimHorizon())
                .storageLevel(StorageLevel.MEMORY_ONLY())
                .build();
        var file = Path.of(arguments[2]);
        JavaReceiverInputDStream.fromReceiverInputDStream(stream, scala.reflect.ClassTag$.MODULE$.apply(byte[].class))
                .foreachRDD(records -> {
                    var lines = new ArrayList<String>();
                    for (var record : records.collect()) {
                        lines.add(new String(record, StandardCharsets.UTF_8));
                    }
                    Files.write(file, lines, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
                });
        context.start();
        context.awaitTermination();
    }
}
