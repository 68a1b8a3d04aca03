package io.logway.kinesis;

import java.io.IOException;
import java.math.BigInteger;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ThreadLocalRandom;
import java.util.regex.Pattern;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.apache.kafka.clients.producer.Partitioner;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.KafkaException;

/**
 * Sends records of a Kafka producer to the shard that PutRecord puts the same key into: that of the MD5 of the key. Records without
 * a key go to any open shard.
 *
 * <p>Settings of the producer, beside {@code partitioner.class}:
 *
 * <ul>
 *   <li>{@code kinesis.endpoint}: where Kinesis clients connect, as {@code http://127.0.0.1:4567}.
 *   <li>{@code kinesis.access.key}, {@code kinesis.secret.key}: an access key, where signatures are checked.
 *   <li>{@code kinesis.region}: the region that is signed for, {@code us-east-1} by default.
 *   <li>{@code kinesis.refresh.ms}: how old what is known of shards may be, 1000 by default.
 * </ul>
 *
 * <p>A record that was on its way to a shard which is split or merged meanwhile fails with {@code PolicyViolationException}, and was not
 * written. Send it again, after {@code kinesis.refresh.ms}: it then goes to the shard that took the place of the other.
 */
public final class KinesisPartitioner implements Partitioner {
    private static final Duration TIMEOUT = Duration.ofSeconds(10);

    /** A shard of ListShards: its number, its first and last hash key, and whether it has ended. */
    private static final Pattern SHARD = Pattern.compile("\"ShardId\":\"shardId-(\\d+)\"");

    private static final Pattern START = Pattern.compile("\"StartingHashKey\":\"(\\d+)\"");
    private static final Pattern END = Pattern.compile("\"EndingHashKey\":\"(\\d+)\"");
    private static final Pattern NEXT = Pattern.compile("\"NextToken\":\"([^\"]+)\"");

    private final HttpClient http = HttpClient.newBuilder()
            .version(HttpClient.Version.HTTP_1_1)
            .connectTimeout(TIMEOUT)
            .build();
    private final Map<String, Known> streams = new ConcurrentHashMap<>();
    private URI endpoint;
    private String accessKey;
    private String secretKey;
    private String region;
    private long refreshNanos;

    /** An open shard; both hash keys are inclusive. */
    private record Shard(int partition, BigInteger start, BigInteger end) {
        private boolean has(BigInteger hash) {
            return start.compareTo(hash) <= 0 && hash.compareTo(end) <= 0;
        }
    }

    /** What is known of a stream, and since when. */
    private record Known(List<Shard> open, long since) {}

    @Override
    public void configure(Map<String, ?> settings) {
        endpoint = URI.create(setting(settings, "kinesis.endpoint", "http://127.0.0.1:4567"));
        accessKey = setting(settings, "kinesis.access.key", "any");
        secretKey = setting(settings, "kinesis.secret.key", "any");
        region = setting(settings, "kinesis.region", "us-east-1");
        refreshNanos = Long.parseLong(setting(settings, "kinesis.refresh.ms", "1000")) * 1_000_000;
    }

    private static String setting(Map<String, ?> settings, String name, String otherwise) {
        return Optional.ofNullable(settings.get(name)).map(Object::toString).orElse(otherwise);
    }

    @Override
    public int partition(String topic, Object key, byte[] keyBytes, Object value, byte[] valueBytes, Cluster cluster) {
        var open = shards(topic);
        if (keyBytes == null || keyBytes.length == 0) {
            return open.get(ThreadLocalRandom.current().nextInt(open.size())).partition();
        }
        var hash = new BigInteger(1, digest("MD5", keyBytes));
        for (var shard : open) {
            if (shard.has(hash)) {
                return shard.partition();
            }
        }
        throw new KafkaException("no open shard of stream " + topic + " has the hash key " + hash);
    }

    private List<Shard> shards(String stream) {
        return streams.compute(stream, (name, known) -> isFresh(known) ? known : read(name)).open();
    }

    private boolean isFresh(Known known) {
        return known != null && System.nanoTime() - known.since() < refreshNanos;
    }

    private Known read(String stream) {
        var since = System.nanoTime();
        var open = new ArrayList<Shard>();
        var body = "{\"StreamName\":\"" + stream + "\",\"ShardFilter\":{\"Type\":\"AT_LATEST\"}}";
        while (body != null) {
            var page = ask(body);
            var shard = SHARD.matcher(page);
            var starts = START.matcher(page);
            var ends = END.matcher(page);
            while (shard.find() && starts.find() && ends.find()) {
                var range = new BigInteger[] {new BigInteger(starts.group(1)), new BigInteger(ends.group(1))};
                open.add(new Shard(Integer.parseInt(shard.group(1)), range[0], range[1]));
            }
            var next = NEXT.matcher(page);
            body = next.find() ? "{\"NextToken\":\"" + next.group(1) + "\"}" : null;
        }
        if (open.isEmpty()) {
            throw new KafkaException("the stream " + stream + " has no open shard");
        }
        return new Known(open, since);
    }

    private String ask(String body) {
        var request = HttpRequest.newBuilder(endpoint.resolve("/"))
                .timeout(TIMEOUT)
                .POST(HttpRequest.BodyPublishers.ofString(body));
        sign(body).forEach(request::header);
        try {
            var response = http.send(request.build(), HttpResponse.BodyHandlers.ofString());
            if (response.statusCode() != 200) {
                throw new KafkaException("ListShards: " + response.body());
            }
            return response.body();
        } catch (IOException failed) {
            throw new KafkaException("ListShards at " + endpoint + " has failed", failed);
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
            throw new KafkaException("ListShards was interrupted", stopped);
        }
    }

    /** The headers of a request with a signature of version 4. */
    private Map<String, String> sign(String body) {
        var time = DateTimeFormatter.ofPattern("yyyyMMdd'T'HHmmss'Z'").withZone(ZoneOffset.UTC).format(Instant.now());
        var type = "application/x-amz-json-1.1";
        var target = "Kinesis_20131202.ListShards";
        var names = "content-type;host;x-amz-date;x-amz-target";
        var headers = "content-type:%s\nhost:%s\nx-amz-date:%s\nx-amz-target:%s\n"
                .formatted(type, endpoint.getAuthority(), time, target);
        var request = "POST\n/\n\n%s\n%s\n%s".formatted(headers, names, hash(body));
        var parts = List.of(time.substring(0, 8), region, "kinesis", "aws4_request");
        var scope = String.join("/", parts);
        var toSign = "AWS4-HMAC-SHA256\n%s\n%s\n%s".formatted(time, scope, hash(request));
        var key = ("AWS4" + secretKey).getBytes(StandardCharsets.UTF_8);
        for (var part : parts) {
            key = mac(key, part);
        }
        var signature = HexFormat.of().formatHex(mac(key, toSign));
        var authorization = "AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%s"
                .formatted(accessKey, scope, names, signature);
        return Map.of("Content-Type", type, "X-Amz-Date", time, "X-Amz-Target", target, "Authorization", authorization);
    }

    private static String hash(String text) {
        return HexFormat.of().formatHex(digest("SHA-256", text.getBytes(StandardCharsets.UTF_8)));
    }

    private static byte[] digest(String algorithm, byte[] bytes) {
        try {
            return MessageDigest.getInstance(algorithm).digest(bytes);
        } catch (GeneralSecurityException missing) {
            throw new IllegalStateException(missing);
        }
    }

    private static byte[] mac(byte[] key, String text) {
        try {
            var mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(key, "HmacSHA256"));
            return mac.doFinal(text.getBytes(StandardCharsets.UTF_8));
        } catch (GeneralSecurityException missing) {
            throw new IllegalStateException(missing);
        }
    }

    @Override
    public void close() {}
}
