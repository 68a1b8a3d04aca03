package io.logway.bench;

import java.util.HashMap;
import java.util.Map;

/**
 * What is run.
 *
 * @param records how many flow at least; they go on while members are restarted
 * @param downMs how long a member stays away
 * @param heartbeatMs a member learns of a rebalance by its next heartbeat
 */
record Settings(
    String bootstrap, int members, int partitions, int records, int recordsPerSecond, int downMs, int heartbeatMs
) {
    static final String NAME = "rolling-restart";
    static final int VALUE_BYTES = 100;

    /** Of {@code BOOTSTRAP MEMBERS PARTITIONS RECORDS RECORDS_PER_SECOND DOWN_MS HEARTBEAT_MS}. */
    static Settings parse(String[] words) {
        int[] numbers = new int[words.length];
        for (int at = 1; at < words.length; at++) {
            numbers[at] = Integer.parseInt(words[at]);
        }
        return new Settings(words[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5], numbers[6]);
    }

    /** What clients are configured with, but for what {@code more} says their own defaults. */
    Map<String, Object> with(Map<String, ?> more) {
        Map<String, Object> all = new HashMap<>(more);
        all.put("bootstrap.servers", bootstrap);
        return all;
    }
}
