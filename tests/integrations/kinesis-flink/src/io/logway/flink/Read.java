package io.logway.flink;

import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Properties;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.SinkFunction;
import org.apache.flink.streaming.connectors.kinesis.FlinkKinesisConsumer;
import org.apache.flink.streaming.connectors.kinesis.config.AWSConfigConstants;
import org.apache.flink.streaming.connectors.kinesis.config.ConsumerConfigConstants;
import org.apache.flink.streaming.connectors.kinesis.config.ConsumerConfigConstants.InitialPosition;

/** Reads a stream from its start, and writes each record to a file as a line: {@code Read ENDPOINT STREAM POLLING|EFO FILE}. */
public final class Read {
    private Read() {}

    public static void main(String[] arguments) throws Exception {
        var settings = new Properties();
        settings.setProperty(AWSConfigConstants.AWS_REGION, "us-east-1");
        settings.setProperty(AWSConfigConstants.AWS_ENDPOINT, arguments[0]);
        settings.setProperty(ConsumerConfigConstants.STREAM_INITIAL_POSITION, InitialPosition.TRIM_HORIZON.name());
        settings.setProperty(ConsumerConfigConstants.SHARD_DISCOVERY_INTERVAL_MILLIS, "1000");
        settings.setProperty(ConsumerConfigConstants.RECORD_PUBLISHER_TYPE, arguments[2]);
        settings.setProperty(ConsumerConfigConstants.EFO_CONSUMER_NAME, "flink");
        var file = arguments[3];
        var environment = StreamExecutionEnvironment.getExecutionEnvironment();
        environment.setParallelism(2);
        environment.enableCheckpointing(1_000);
        environment.addSource(new FlinkKinesisConsumer<>(arguments[1], new SimpleStringSchema(), settings))
                .addSink(new Lines(file));
        environment.execute("read");
    }

    private static final class Lines implements SinkFunction<String> {
        private static final long serialVersionUID = 1;

        private final String file;

        private Lines(String file) {
            this.file = file;
        }

        @Override
        public void invoke(String line, Context context) throws Exception {
            // One write of a line is whole, whichever thread it is of.
            Files.writeString(Path.of(file), line + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        }
    }
}
