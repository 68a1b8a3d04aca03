package io.logway.kinesis;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.URI;
import java.util.concurrent.CompletionException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider;
import software.amazon.awssdk.core.SdkBytes;
import software.amazon.awssdk.core.exception.SdkException;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.kinesis.KinesisAsyncClient;
import software.amazon.awssdk.services.kinesis.model.PutRecordsRequestEntry;

/**
 * Puts numbers into a stream until its input ends, with the SDK's own retries: {@code Write ENDPOINT,… STREAM BATCH PAUSE_MS}.
 * tests/cluster/kinesis_writers.py describes it.
 */
public final class Write {
    private Write() {}

    public static void main(String[] arguments) throws Exception {
        var clients = Stream.of(arguments[0].split(",")).map(Write::client).toList();
        var stream = arguments[1];
        var batch = Integer.parseInt(arguments[2]);
        var pauseMs = Long.parseLong(arguments[3]);
        var ended = new AtomicBoolean();
        var draining = new Thread(() -> {
            drain(System.in);
            ended.set(true);
        });
        draining.setDaemon(true);
        draining.start();
        var node = 0;
        for (var number = 0; !ended.get(); number += batch) {
            var entries = IntStream.range(number, number + batch).mapToObj(Write::entry).toList();
            try {
                var answer = clients.get(node % clients.size())
                        .putRecords(it -> it.streamName(stream).records(entries))
                        .join();
                node += answer.failedRecordCount() > 0 ? 1 : 0;
                var acknowledged = new StringBuilder();
                for (var it = 0; it < batch; it++) {
                    var record = answer.records().get(it);
                    if (record.errorCode() == null) {
                        acknowledged.append("%s %s %d%n".formatted(record.shardId(), record.sequenceNumber(), number + it));
                    }
                }
                System.out.print(acknowledged);
                System.out.flush();
                Thread.sleep(pauseMs);
            } catch (CompletionException error) {
                if (!(error.getCause() instanceof SdkException)) {
                    throw error;
                }
                System.err.println(error.getMessage().replace('\n', ' '));
                node++;
            }
        }
        System.exit(0);
    }

    private static KinesisAsyncClient client(String endpoint) {
        return KinesisAsyncClient.builder()
                .endpointOverride(URI.create(endpoint))
                .region(Region.US_EAST_1)
                .credentialsProvider(EnvironmentVariableCredentialsProvider.create())
                .build();
    }

    private static PutRecordsRequestEntry entry(int number) {
        var text = "" + number;
        return PutRecordsRequestEntry.builder().data(SdkBytes.fromUtf8String(text)).partitionKey(text).build();
    }

    private static void drain(InputStream input) {
        try {
            input.transferTo(OutputStream.nullOutputStream());
        } catch (IOException closed) {
            // It has ended as well.
        }
    }
}
