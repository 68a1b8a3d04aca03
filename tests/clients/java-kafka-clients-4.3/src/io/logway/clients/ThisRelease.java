package io.logway.clients;

import static io.logway.clients.Report.expect;

import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.TopicPartition;

/** kafka-clients 4.3, with what only a recent client does. */
final class ThisRelease implements Release {
    @Override
    public TopicDescription describeTopic(Admin admin, String topic) throws Exception {
        return admin.describeTopics(Set.of(topic)).allTopicNames().get().get(topic);
    }

    @Override
    public Set<String> groups(Admin admin) throws Exception {
        return admin.listGroups().all().get().stream().map(GroupListing::groupId).collect(Collectors.toSet());
    }

    @Override
    public String groupState(ConsumerGroupDescription group) {
        return group.groupState().toString();
    }

    @Override
    public void runOwnCases(Cluster cluster, Report report) {
        report.check("admin-producers", () -> describeProducers(cluster));
        new ConsumerDetails(cluster).run(report);
        new TopicDetails(cluster).run(report);
        new AdminDetails(cluster).run(report);
    }

    private static void describeProducers(Cluster cluster) throws Exception {
        TopicPartition partition = new TopicPartition(cluster.createTopic("producers"), 0);
        cluster.produceNumbers(partition.topic(), 100, Map.of("enable.idempotence", "true"));
        List<ProducerState> producers =
            cluster.admin.describeProducers(Set.of(partition)).partitionResult(partition).get().activeProducers();
        expect(1, producers.size());
        expect(99, producers.get(0).lastSequence());
        expect(0, producers.get(0).producerEpoch());
    }
}
