package io.logway.kpl;

import com.google.common.util.concurrent.ListenableFuture;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider;
import software.amazon.kinesis.producer.KinesisProducer;
import software.amazon.kinesis.producer.KinesisProducerConfiguration;
import software.amazon.kinesis.producer.UserRecordResult;

/**
 * Puts {@code KEY:0}, {@code KEY:1}, … of each key through the producer library, aggregated, and ends when all are acknowledged:
 * {@code Put ENDPOINT STREAM KEYS RECORDS-OF-A-KEY}.
 */
public final class Put {
    private Put() {}

    public static void main(String[] arguments) throws Exception {
        var endpoint = URI.create(arguments[0]);
        var stream = arguments[1];
        var keys = Integer.parseInt(arguments[2]);
        var records = Integer.parseInt(arguments[3]);
        var config = new KinesisProducerConfiguration()
                .setCredentialsProvider(EnvironmentVariableCredentialsProvider.create())
                .setRegion("us-east-1")
                .setKinesisEndpoint(endpoint.getHost())
                .setKinesisPort(endpoint.getPort())
                .setCloudwatchEndpoint(endpoint.getHost())
                .setCloudwatchPort(endpoint.getPort())
                .setStsEndpoint(endpoint.getHost())
                .setStsPort(endpoint.getPort())
                // Its native program has certificates of its own, and takes no others.
                .setVerifyCertificate(false)
                .setAggregationEnabled(true)
                .setRecordMaxBufferedTime(100);
        var producer = new KinesisProducer(config);
        var results = new ArrayList<ListenableFuture<UserRecordResult>>();
        for (var number = 0; number < records; number++) {
            for (var key = 0; key < keys; key++) {
                var data = ByteBuffer.wrap((key + ":" + number).getBytes(StandardCharsets.UTF_8));
                results.add(producer.addUserRecord(stream, "" + key, data));
            }
        }
        producer.flushSync();
        for (var result : results) {
            if (!result.get().isSuccessful()) {
                throw new IllegalStateException("not acknowledged: " + result.get().getAttempts());
            }
        }
        System.out.println(results.size());
        producer.destroy();
        System.exit(0);
    }
}
