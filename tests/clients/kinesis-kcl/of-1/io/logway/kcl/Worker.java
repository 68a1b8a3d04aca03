package io.logway.kcl;

import com.amazonaws.auth.EnvironmentVariableCredentialsProvider;
import com.amazonaws.client.builder.AwsClientBuilder;
import com.amazonaws.client.builder.AwsClientBuilder.EndpointConfiguration;
import com.amazonaws.services.cloudwatch.AmazonCloudWatchClientBuilder;
import com.amazonaws.services.dynamodbv2.AmazonDynamoDBClientBuilder;
import com.amazonaws.services.kinesis.AmazonKinesisClientBuilder;
import com.amazonaws.services.kinesis.clientlibrary.exceptions.InvalidStateException;
import com.amazonaws.services.kinesis.clientlibrary.exceptions.ShutdownException;
import com.amazonaws.services.kinesis.clientlibrary.interfaces.IRecordProcessorCheckpointer;
import com.amazonaws.services.kinesis.clientlibrary.interfaces.v2.IRecordProcessor;
import com.amazonaws.services.kinesis.clientlibrary.lib.worker.InitialPositionInStream;
import com.amazonaws.services.kinesis.clientlibrary.lib.worker.KinesisClientLibConfiguration;
import com.amazonaws.services.kinesis.clientlibrary.lib.worker.ShutdownReason;
import com.amazonaws.services.kinesis.clientlibrary.types.InitializationInput;
import com.amazonaws.services.kinesis.clientlibrary.types.ProcessRecordsInput;
import com.amazonaws.services.kinesis.clientlibrary.types.ShutdownInput;
import com.amazonaws.services.kinesis.model.Record;

/** The same as that of versions 2 and 3, for version 1: {@code Worker ENDPOINT STREAM NAME polling FILE}. */
public final class Worker {
    /** Without a sign of life for so long a worker has lost its leases. */
    private static final long FAILOVER_MS = 3_000;

    private Worker() {}

    public static void main(String[] arguments) throws Exception {
        var endpoint = new EndpointConfiguration(arguments[0], "us-east-1");
        var stream = arguments[1];
        var notes = new Notes(arguments[4]);
        var credentials = new EnvironmentVariableCredentialsProvider();
        var config = new KinesisClientLibConfiguration(stream + "-app", stream, credentials, arguments[2])
                .withInitialPositionInStream(InitialPositionInStream.TRIM_HORIZON)
                .withFailoverTimeMillis(FAILOVER_MS)
                .withIdleTimeBetweenReadsInMillis(250)
                .withShardSyncIntervalMillis(2_000)
                .withParentShardPollIntervalMillis(500)
                .withMaxLeasesToStealAtOneTime(8)
                .withMetricsBufferTimeMillis(2_000);
        var worker = new com.amazonaws.services.kinesis.clientlibrary.lib.worker.Worker.Builder()
                .recordProcessorFactory(() -> new Processor(notes))
                .config(config)
                .kinesisClient(at(endpoint, AmazonKinesisClientBuilder.standard()))
                .dynamoDBClient(at(endpoint, AmazonDynamoDBClientBuilder.standard()))
                .cloudWatchClient(at(endpoint, AmazonCloudWatchClientBuilder.standard()))
                .build();
        worker.run();
    }

    private static <B extends AwsClientBuilder<B, C>, C> C at(EndpointConfiguration endpoint, B builder) {
        return builder.withEndpointConfiguration(endpoint).build();
    }

    /** Notes the records of a shard, and checkpoints behind each batch. */
    private static final class Processor implements IRecordProcessor {
        private final Notes notes;
        private String shard;

        private Processor(Notes notes) {
            this.notes = notes;
        }

        @Override
        public void initialize(InitializationInput input) {
            shard = input.getShardId();
            notes.event("begin", shard);
        }

        @Override
        public void processRecords(ProcessRecordsInput input) {
            notes.records(shard, () -> input.getRecords().stream().map(Record::getData).iterator());
            if (!input.getRecords().isEmpty()) {
                checkpoint(input.getCheckpointer());
            }
        }

        private static void checkpoint(IRecordProcessorCheckpointer checkpointer) {
            try {
                checkpointer.checkpoint();
            } catch (ShutdownException lost) {
                // Another worker has the lease, and goes on from the last checkpoint.
            } catch (InvalidStateException failed) {
                throw new IllegalStateException(failed);
            }
        }

        @Override
        public void shutdown(ShutdownInput input) {
            var isEnded = input.getShutdownReason() == ShutdownReason.TERMINATE;
            notes.event(isEnded ? "ended" : "lost", shard);
            if (isEnded) {
                checkpoint(input.getCheckpointer());
            }
        }
    }
}
