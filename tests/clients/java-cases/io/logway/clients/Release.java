package io.logway.clients;

import java.util.Set;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.TopicDescription;

/** What one release of the library calls differently from the other; each suite has its {@code ThisRelease}. */
interface Release {
    /** A topic as it is described; fails with an ExecutionException like every admin call. */
    TopicDescription describeTopic(Admin admin, String topic) throws Exception;

    /** The ids of all groups that the broker lists. */
    Set<String> groups(Admin admin) throws Exception;

    /** A group's state in the protocol's words: "Stable", "Empty", ... */
    String groupState(ConsumerGroupDescription group);

    /** Cases of the table that only one release has calls for, and more that are only its own. */
    void runOwnCases(Cluster cluster, Report report);
}
