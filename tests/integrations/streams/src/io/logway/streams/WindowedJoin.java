package io.logway.streams;

import java.time.Duration;

import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;

/**
 * Pairs the records of two topics that have a key in common and are six seconds apart at most: WindowedJoin BOOTSTRAP
 * APPLICATION STATE_DIR PROTOCOL GUARANTEE LEFT RIGHT TO.
 */
public final class WindowedJoin {
    private static final Duration APART_MAX = Duration.ofSeconds(6);
    // One topic may be read far ahead of the other.
    private static final Duration GRACE = Duration.ofDays(30);

    private WindowedJoin() {
    }

    public static void main(String[] args) throws InterruptedException {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> left = builder.stream(args[5]);
        KStream<String, String> right = builder.stream(args[6]);
        left.join(right, (one, other) -> one + " " + other, JoinWindows.ofTimeDifferenceAndGrace(APART_MAX, GRACE))
            .to(args[7]);
        new Application(args).run(builder.build());
    }
}
