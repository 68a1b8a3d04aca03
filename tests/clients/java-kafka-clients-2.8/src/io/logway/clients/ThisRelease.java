package io.logway.clients;

import java.util.Set;
import java.util.stream.Collectors;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.ConsumerGroupListing;
import org.apache.kafka.clients.admin.TopicDescription;

/** kafka-clients 2.8. */
final class ThisRelease implements Release {
    @Override
    public TopicDescription describeTopic(Admin admin, String topic) throws Exception {
        return admin.describeTopics(Set.of(topic)).all().get().get(topic);
    }

    @Override
    public Set<String> groups(Admin admin) throws Exception {
        return admin.listConsumerGroups().all().get().stream().map(ConsumerGroupListing::groupId).collect(Collectors.toSet());
    }

    @Override
    public String groupState(ConsumerGroupDescription group) {
        return group.state().toString();
    }

    @Override
    public void runOwnCases(Cluster cluster, Report report) {
        report.skip("admin-producers", "no describeProducers before kafka-clients 3.0");
    }
}
