package io.logway.streams;

import java.util.Arrays;

import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/** Counts the words of a topic: WordCount BOOTSTRAP APPLICATION STATE_DIR PROTOCOL GUARANTEE FROM TO. */
public final class WordCount {
    private WordCount() {
    }

    public static void main(String[] args) throws InterruptedException {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> lines = builder.stream(args[5]);
        lines.flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.as("words"))
            .count(Materialized.as("counts"))
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to(args[6], Produced.with(Serdes.String(), Serdes.String()));
        new Application(args).run(builder.build());
    }
}
