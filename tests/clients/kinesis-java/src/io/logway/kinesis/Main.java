package io.logway.kinesis;

import java.net.URI;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider;
import software.amazon.awssdk.core.SdkBytes;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.kinesis.KinesisAsyncClient;
import software.amazon.awssdk.services.kinesis.model.ChildShard;
import software.amazon.awssdk.services.kinesis.model.GetShardIteratorRequest;
import software.amazon.awssdk.services.kinesis.model.InvalidArgumentException;
import software.amazon.awssdk.services.kinesis.model.KinesisException;
import software.amazon.awssdk.services.kinesis.model.PutRecordResponse;
import software.amazon.awssdk.services.kinesis.model.PutRecordsRequestEntry;
import software.amazon.awssdk.services.kinesis.model.Record;
import software.amazon.awssdk.services.kinesis.model.ResourceInUseException;
import software.amazon.awssdk.services.kinesis.model.ResourceNotFoundException;
import software.amazon.awssdk.services.kinesis.model.ShardIteratorType;
import software.amazon.awssdk.services.kinesis.model.SubscribeToShardEvent;
import software.amazon.awssdk.services.kinesis.model.SubscribeToShardResponseHandler;

/** One case, which fails by an exception: {@code Main ENDPOINT CASE}. */
public final class Main {
    private static final String SHARD = "shardId-000000000000";

    private final KinesisAsyncClient kinesis;
    private final String stream;

    private Main(String endpoint, String name) {
        stream = "java-" + name;
        kinesis = KinesisAsyncClient.builder()
                .endpointOverride(URI.create(endpoint))
                .region(Region.US_EAST_1)
                .credentialsProvider(EnvironmentVariableCredentialsProvider.create())
                .build();
    }

    public static void main(String[] arguments) throws Exception {
        var main = new Main(arguments[0], arguments[1]);
        switch (arguments[1]) {
            case "records" -> main.records();
            case "iterators" -> main.iterators();
            case "fanOut" -> main.fanOut();
            case "reshardWhileReading" -> main.reshardWhileReading();
            case "errors" -> main.errors();
            default -> throw new IllegalArgumentException(arguments[1]);
        }
        System.exit(0);
    }

    private void records() {
        create(2);
        var entries = IntStream.range(0, 500)
                .mapToObj(number -> PutRecordsRequestEntry.builder()
                        .data(SdkBytes.fromUtf8String("" + number))
                        .partitionKey("" + number)
                        .build())
                .toList();
        var answer = kinesis.putRecords(it -> it.streamName(stream).records(entries)).join();
        check(answer.failedRecordCount() == 0, "all are there");
        var first = answer.records().stream().filter(it -> it.shardId().equals(SHARD)).count();
        var read = read(iterator(ShardIteratorType.TRIM_HORIZON, null, null), (int) first);
        check(read.size() == first, "all of the first shard are read");
        var age = Instant.now().toEpochMilli() - read.get(0).approximateArrivalTimestamp().toEpochMilli();
        check(Math.abs(age) < 60_000, "the time is that of the append: " + age);
    }

    private void iterators() throws Exception {
        create(1);
        var numbers = new ArrayList<String>();
        for (var data : List.of("0", "1", "2")) {
            numbers.add(put(data).sequenceNumber());
        }
        Thread.sleep(20);
        var time = Instant.now();
        var latest = iterator(ShardIteratorType.LATEST, null, null);
        Thread.sleep(20);
        put("3");
        check(first(iterator(ShardIteratorType.TRIM_HORIZON, null, null)).equals("0"), "TRIM_HORIZON");
        check(first(iterator(ShardIteratorType.AT_SEQUENCE_NUMBER, numbers.get(1), null)).equals("1"), "AT");
        check(first(iterator(ShardIteratorType.AFTER_SEQUENCE_NUMBER, numbers.get(1), null)).equals("2"), "AFTER");
        check(first(iterator(ShardIteratorType.AT_TIMESTAMP, null, time)).equals("3"), "AT_TIMESTAMP");
        check(first(latest).equals("3"), "LATEST");
    }

    private void fanOut() throws Exception {
        create(1);
        put("before");
        var seen = new ArrayList<String>();
        var both = new CompletableFuture<Void>();
        subscribe(event -> {
            event.records().forEach(record -> seen.add(record.data().asUtf8String()));
            if (seen.size() >= 2) {
                both.complete(null);
            }
        });
        put("after");
        both.get(30, TimeUnit.SECONDS);
        check(seen.equals(List.of("before", "after")), seen.toString());
    }

    private void reshardWhileReading() throws Exception {
        create(1);
        var seen = new ArrayList<String>();
        var children = new ArrayList<ChildShard>();
        var over = subscribe(event -> {
            event.records().forEach(record -> seen.add(record.data().asUtf8String()));
            children.addAll(event.childShards());
        });
        put("last");
        kinesis.splitShard(it -> it.streamName(stream).shardToSplit(SHARD).newStartingHashKey("1000")).join();
        over.get(30, TimeUnit.SECONDS);
        check(seen.equals(List.of("last")), seen.toString());
        check(children.size() == 2, "the children are told: " + children);
    }

    private void errors() {
        refused(ResourceNotFoundException.class, () -> put("x"));
        create(1);
        refused(ResourceInUseException.class, () -> create(1));
        refused(InvalidArgumentException.class,
                () -> kinesis.getRecords(it -> it.shardIterator("x".repeat(200))).join());
        refused(KinesisException.class,
                () -> kinesis.describeStream(it -> it.streamName("no such name")).join());
    }

    private CompletableFuture<Void> subscribe(java.util.function.Consumer<SubscribeToShardEvent> onEvent) {
        var arn = kinesis.describeStreamSummary(it -> it.streamName(stream)).join()
                .streamDescriptionSummary().streamARN();
        var consumer = kinesis.registerStreamConsumer(it -> it.streamARN(arn).consumerName("app")).join()
                .consumer().consumerARN();
        var handler = SubscribeToShardResponseHandler.builder()
                .subscriber(SubscribeToShardResponseHandler.Visitor.builder().onSubscribeToShardEvent(onEvent).build())
                .build();
        return kinesis.subscribeToShard(it -> it.consumerARN(consumer).shardId(SHARD)
                .startingPosition(position -> position.type(ShardIteratorType.TRIM_HORIZON)), handler);
    }

    private void create(int shards) {
        kinesis.createStream(it -> it.streamName(stream).shardCount(shards)).join();
    }

    private PutRecordResponse put(String data) {
        return kinesis.putRecord(it -> it.streamName(stream).partitionKey("key").data(SdkBytes.fromUtf8String(data)))
                .join();
    }

    private String iterator(ShardIteratorType type, String number, Instant time) {
        var asked = GetShardIteratorRequest.builder().streamName(stream).shardId(SHARD).shardIteratorType(type)
                .startingSequenceNumber(number).timestamp(time).build();
        return kinesis.getShardIterator(asked).join().shardIterator();
    }

    private List<Record> read(String from, int count) {
        var records = new ArrayList<Record>();
        var iterator = from;
        while (iterator != null && records.size() < count) {
            var asked = iterator;
            var answer = kinesis.getRecords(it -> it.shardIterator(asked)).join();
            records.addAll(answer.records());
            iterator = answer.nextShardIterator();
        }
        return records;
    }

    private String first(String iterator) {
        return read(iterator, 1).get(0).data().asUtf8String();
    }

    private static void refused(Class<?> by, Runnable call) {
        try {
            call.run();
        } catch (CompletionException error) {
            check(by.isInstance(error.getCause()), "refused by " + error.getCause());
            return;
        }
        throw new AssertionError("was not refused by " + by);
    }

    private static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }
}
