package io.logway.bench;

import java.util.HashMap;
import java.util.Map;

import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.GroupProtocol;

/**
 * What is run.
 *
 * @param records how many flow at least; they go on while members are restarted
 * @param downMs how long a member stays away
 * @param heartbeatMs a member learns of a rebalance by its next heartbeat; by the newer protocol the broker says how often
 * @param protocol of the group, as {@code group.protocol} names it
 */
record Settings(
    String bootstrap, int members, int partitions, int records, int recordsPerSecond, int downMs, int heartbeatMs,
    GroupProtocol protocol
) {
    static final String NAME = "rolling-restart";
    static final int VALUE_BYTES = 100;

    /** Of {@code BOOTSTRAP MEMBERS PARTITIONS RECORDS RECORDS_PER_SECOND DOWN_MS HEARTBEAT_MS PROTOCOL}. */
    static Settings parse(String[] words) {
        int[] numbers = new int[words.length];
        for (int at = 1; at < words.length - 1; at++) {
            numbers[at] = Integer.parseInt(words[at]);
        }
        GroupProtocol protocol = GroupProtocol.of(words[words.length - 1]);
        return new Settings(words[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5], numbers[6], protocol);
    }

    /** What decides who gets which partitions, and when members hear of it. */
    Map<String, Object> ofGroup() {
        return switch (protocol) {
            case CLASSIC -> Map.of(
                "group.protocol", "classic",
                "partition.assignment.strategy", CooperativeStickyAssignor.class.getName(),
                "heartbeat.interval.ms", heartbeatMs
            );
            case CONSUMER -> Map.of("group.protocol", "consumer");
        };
    }

    /** What clients are configured with, but for what {@code more} says their own defaults. */
    Map<String, Object> with(Map<String, ?> more) {
        Map<String, Object> all = new HashMap<>(more);
        all.put("bootstrap.servers", bootstrap);
        return all;
    }
}
