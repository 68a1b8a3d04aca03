package main

import (
	"github.com/segmentio/kafka-go"

	cases "logway.io/clients/go-cases"
)

// Where a setting comes from, as DescribeConfigs says it.
const (
	sourceTopic   = 1
	sourceDefault = 5
)

func topicCases(suite *cases.Suite, cluster *cluster) {
	suite.Case("admin-topics", func(t *cases.T) { topics(t, cluster) })
	suite.Case("admin-partitions", func(t *cases.T) { partitions(t, cluster) })
	suite.Case("admin-topic-configs", func(t *cases.T) { topicConfigs(t, cluster) })
	suite.Case("admin-list-offsets", func(t *cases.T) { listOffsets(t, cluster) })
	suite.Case("admin-reassignments", func(t *cases.T) { reassignments(t, cluster) })
	suite.Case("admin-elect-leaders", func(t *cases.T) { electLeaders(t, cluster) })
}

func topics(t *cases.T, cluster *cluster) {
	topic := cluster.topic(t, 3)
	cases.Equal(t, "listed", isListed(t, cluster, topic), true)
	cases.Equal(t, "internal", cluster.metadata(t, topic).Topics[0].Internal, false)
	request := &kafka.DeleteTopicsRequest{Topics: []string{topic}}
	t.Check(cases.Must(cluster.client.DeleteTopics(t.Step(), request)).Errors[topic])
	t.Eventually("the topic to be gone", func() bool { return !isListed(t, cluster, topic) })
}

func isListed(t *cases.T, cluster *cluster, topic string) bool {
	for _, listed := range cluster.metadata(t).Topics {
		if listed.Name == topic {
			return true
		}
	}
	return false
}

func partitions(t *cases.T, cluster *cluster) {
	topic := cluster.topic(t, 1)
	request := &kafka.CreatePartitionsRequest{Topics: []kafka.TopicPartitionsConfig{{Name: topic, Count: 4}}}
	t.Check(cases.Must(cluster.client.CreatePartitions(t.Step(), request)).Errors[topic])
	t.Eventually("four partitions", func() bool { return cluster.describes(t, topic, 4) })
	t.Check(write(t.Step(), cluster.writer(t, topic), kafka.Message{WriterData: 3, Value: []byte("x")}))
	cases.Equal(t, "values", values(read(t, cluster.reader(t, topic, 3, kafka.FirstOffset), 1)), []string{"x"})
}

func topicConfigs(t *cases.T, cluster *cluster) {
	topic := t.Unique()
	hour := []kafka.ConfigEntry{{ConfigName: "retention.ms", ConfigValue: "3600000"}}
	config := kafka.TopicConfig{Topic: topic, NumPartitions: 1, ReplicationFactor: -1, ConfigEntries: hour}
	t.Check(cluster.create(t, config))
	t.Eventually("the topic to be described", func() bool { return cluster.describes(t, topic, 1) })
	expect := func(name, value string, source int8) {
		t.Eventually(name+" to be "+value, func() bool {
			for _, config := range describeConfigs(t, cluster, kafka.ResourceTypeTopic, topic) {
				if config.ConfigName == name {
					return config.ConfigValue == value && config.ConfigSource == source
				}
			}
			return false
		})
	}
	expect("retention.ms", "3600000", sourceTopic)
	expect("cleanup.policy", "delete", sourceDefault)

	alter := func(change kafka.IncrementalAlterConfigsRequestConfig) {
		resource := kafka.IncrementalAlterConfigsRequestResource{
			ResourceType: kafka.ResourceTypeTopic,
			ResourceName: topic,
			Configs:      []kafka.IncrementalAlterConfigsRequestConfig{change},
		}
		request := &kafka.IncrementalAlterConfigsRequest{Resources: []kafka.IncrementalAlterConfigsRequestResource{resource}}
		t.Check(cases.Must(cluster.client.IncrementalAlterConfigs(t.Step(), request)).Resources[0].Error)
	}
	alter(kafka.IncrementalAlterConfigsRequestConfig{Name: "retention.ms", Value: "7200000", ConfigOperation: kafka.ConfigOperationSet})
	expect("retention.ms", "7200000", sourceTopic)
	alter(kafka.IncrementalAlterConfigsRequestConfig{Name: "cleanup.policy", Value: "compact", ConfigOperation: kafka.ConfigOperationAppend})
	expect("cleanup.policy", "delete,compact", sourceTopic)
	alter(kafka.IncrementalAlterConfigsRequestConfig{Name: "retention.ms", ConfigOperation: kafka.ConfigOperationDelete})
	expect("retention.ms", "604800000", sourceDefault)
}

func describeConfigs(t *cases.T, cluster *cluster, kind kafka.ResourceType, name string) []kafka.DescribeConfigResponseConfigEntry {
	resource := kafka.DescribeConfigRequestResource{ResourceType: kind, ResourceName: name}
	request := &kafka.DescribeConfigsRequest{Resources: []kafka.DescribeConfigRequestResource{resource}}
	described := cases.Must(cluster.client.DescribeConfigs(t.Step(), request)).Resources[0]
	t.Check(described.Error)
	return described.ConfigEntries
}

func listOffsets(t *cases.T, cluster *cluster) {
	topic := cluster.topic(t, 2)
	cluster.fill(t, topic, 1, 100)
	first, next, err := cluster.listed(t.Step(), topic, 2)
	t.Check(err)
	cases.Equal(t, "starts", first, map[int32]int64{0: 0, 1: 0})
	cases.Equal(t, "ends", next, map[int32]int64{0: 100, 1: 0})
}

func reassignments(t *cases.T, cluster *cluster) {
	topic := cluster.topic(t, 1)
	broker := cluster.metadata(t).Brokers[0].ID
	assign := func(broker int) error {
		request := &kafka.AlterPartitionReassignmentsRequest{
			Topic:       topic,
			Assignments: []kafka.AlterPartitionReassignmentsRequestAssignment{{PartitionID: 0, BrokerIDs: []int{broker}}},
			Timeout:     cases.StepDeadline,
		}
		response := cases.Must(cluster.client.AlterPartitionReassignments(t.Step(), request))
		t.Check(response.Error)
		return response.PartitionResults[0].Error
	}
	t.Check(assign(broker))
	t.WantError(assign(broker+100), kafka.InvalidReplicaAssignment, "assigning to an unknown broker")
	list := &kafka.ListPartitionReassignmentsRequest{
		Topics:  map[string]kafka.ListPartitionReassignmentsRequestTopic{topic: {PartitionIndexes: []int{0}}},
		Timeout: cases.StepDeadline,
	}
	listed := cases.Must(cluster.client.ListPartitionReassignments(t.Step(), list))
	t.Check(listed.Error)
	cases.Equal(t, "reassignments that go on", len(listed.Topics), 0)
}

func electLeaders(t *cases.T, cluster *cluster) {
	topic := cluster.topic(t, 1)
	request := &kafka.ElectLeadersRequest{Topic: topic, Partitions: []int{0}, Timeout: cases.StepDeadline}
	response := cases.Must(cluster.client.ElectLeaders(t.Step(), request))
	t.Check(response.Error)
	t.WantError(response.PartitionResults[0].Error, kafka.ElectionNotNeeded, "electing the leader")
}
