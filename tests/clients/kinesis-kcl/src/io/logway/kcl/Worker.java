package io.logway.kcl;

import java.net.URI;
import software.amazon.awssdk.awscore.client.builder.AwsClientBuilder;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.cloudwatch.CloudWatchAsyncClient;
import software.amazon.awssdk.services.dynamodb.DynamoDbAsyncClient;
import software.amazon.awssdk.services.kinesis.KinesisAsyncClient;
import software.amazon.kinesis.common.ConfigsBuilder;
import software.amazon.kinesis.common.InitialPositionInStream;
import software.amazon.kinesis.common.InitialPositionInStreamExtended;
import software.amazon.kinesis.common.KinesisClientUtil;
import software.amazon.kinesis.coordinator.Scheduler;
import software.amazon.kinesis.exceptions.InvalidStateException;
import software.amazon.kinesis.exceptions.ShutdownException;
import software.amazon.kinesis.lifecycle.events.InitializationInput;
import software.amazon.kinesis.lifecycle.events.LeaseLostInput;
import software.amazon.kinesis.lifecycle.events.ProcessRecordsInput;
import software.amazon.kinesis.lifecycle.events.ShardEndedInput;
import software.amazon.kinesis.lifecycle.events.ShutdownRequestedInput;
import software.amazon.kinesis.processor.RecordProcessorCheckpointer;
import software.amazon.kinesis.processor.ShardRecordProcessor;
import software.amazon.kinesis.processor.SingleStreamTracker;
import software.amazon.kinesis.retrieval.KinesisClientRecord;
import software.amazon.kinesis.retrieval.fanout.FanOutConfig;
import software.amazon.kinesis.retrieval.polling.PollingConfig;

/**
 * A worker of the client library that notes each record in a file:
 * {@code Worker ENDPOINT STREAM NAME polling|fanOut FILE}. It ends when it is terminated.
 */
public final class Worker {
    /** Without a sign of life for so long a worker has lost its leases. */
    private static final long FAILOVER_MS = 3_000;

    private Worker() {}

    public static void main(String[] arguments) throws Exception {
        var endpoint = URI.create(arguments[0]);
        var stream = arguments[1];
        var kinesis = at(endpoint, KinesisClientUtil.adjustKinesisClientBuilder(KinesisAsyncClient.builder()));
        var dynamo = at(endpoint, DynamoDbAsyncClient.builder());
        var cloudWatch = at(endpoint, CloudWatchAsyncClient.builder());
        var notes = new Notes(arguments[4]);
        var start = InitialPositionInStreamExtended.newInitialPosition(InitialPositionInStream.TRIM_HORIZON);
        var configs = new ConfigsBuilder(
                new SingleStreamTracker(stream, start),
                stream + "-app",
                kinesis,
                dynamo,
                cloudWatch,
                arguments[2],
                () -> new Processor(notes));
        var retrieval = switch (arguments[3]) {
            case "fanOut" -> new FanOutConfig(kinesis).streamName(stream).applicationName(stream + "-app");
            default -> new PollingConfig(stream, kinesis).idleTimeBetweenReadsInMillis(250);
        };
        var leases = configs.leaseManagementConfig()
                .failoverTimeMillis(FAILOVER_MS)
                .shardSyncIntervalMillis(2_000)
                .leasesRecoveryAuditorExecutionFrequencyMillis(2_000);
        Haste.of(leases);
        var scheduler = new Scheduler(
                configs.checkpointConfig(),
                configs.coordinatorConfig().parentShardPollIntervalMillis(500).shardConsumerDispatchPollIntervalMillis(200),
                leases,
                configs.lifecycleConfig(),
                configs.metricsConfig().metricsBufferTimeMillis(2_000),
                configs.processorConfig(),
                configs.retrievalConfig().retrievalSpecificConfig(retrieval));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try {
                scheduler.startGracefulShutdown().get();
            } catch (Exception failed) {
                System.err.println("no graceful end: " + failed);
            }
        }));
        scheduler.run();
    }

    private static <B extends AwsClientBuilder<B, C>, C> C at(URI endpoint, B builder) {
        return builder.endpointOverride(endpoint).region(Region.US_EAST_1).build();
    }

    /** Notes the records of a shard, and checkpoints behind each batch. */
    private static final class Processor implements ShardRecordProcessor {
        private final Notes notes;
        private String shard;

        private Processor(Notes notes) {
            this.notes = notes;
        }

        @Override
        public void initialize(InitializationInput input) {
            shard = input.shardId();
            notes.event("begin", shard);
        }

        @Override
        public void processRecords(ProcessRecordsInput input) {
            notes.records(shard, () -> input.records().stream().map(KinesisClientRecord::data).iterator());
            if (!input.records().isEmpty()) {
                checkpoint(input.checkpointer());
            }
        }

        private static void checkpoint(RecordProcessorCheckpointer checkpointer) {
            try {
                checkpointer.checkpoint();
            } catch (ShutdownException lost) {
                // Another worker has the lease, and goes on from the last checkpoint.
            } catch (InvalidStateException failed) {
                throw new IllegalStateException(failed);
            }
        }

        @Override
        public void leaseLost(LeaseLostInput input) {
            notes.event("lost", shard);
        }

        @Override
        public void shardEnded(ShardEndedInput input) {
            notes.event("ended", shard);
            checkpoint(input.checkpointer());
        }

        @Override
        public void shutdownRequested(ShutdownRequestedInput input) {
            checkpoint(input.checkpointer());
        }
    }
}
