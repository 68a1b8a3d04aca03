package main

import (
	"github.com/IBM/sarama"

	cases "logway.io/clients/go-cases"
)

func topicCases(suite *cases.Suite, cluster *cluster) {
	suite.Case("admin-topics", func(t *cases.T) { topics(t, cluster) })
	suite.Case("admin-partitions", func(t *cases.T) { partitions(t, cluster) })
	suite.Case("admin-topic-configs", func(t *cases.T) { topicConfigs(t, cluster) })
	suite.Case("admin-list-offsets", func(t *cases.T) { listOffsets(t, cluster) })
	suite.Case("admin-delete-records", func(t *cases.T) { deleteRecords(t, cluster) })
	suite.Case("admin-reassignments", func(t *cases.T) { reassignments(t, cluster) })
	suite.Case("admin-elect-leaders", func(t *cases.T) { electLeaders(t, cluster) })
	suite.Case("admin-producers", func(t *cases.T) { producers(t, cluster) })
}

func topics(t *cases.T, cluster *cluster) {
	topic := cluster.topic(t, 3)
	cases.Equal(t, "partitions", cases.Must(cluster.admin.ListTopics())[topic].NumPartitions, 3)
	described := cases.Must(cluster.admin.DescribeTopics([]string{topic}))[0]
	cases.Equal(t, "internal", described.IsInternal, false)
	t.Check(cluster.admin.DeleteTopic(topic))
	t.Eventually("the topic to be gone", func() bool {
		_, listed := cases.Must(cluster.admin.ListTopics())[topic]
		return !listed
	})
}

func partitions(t *cases.T, cluster *cluster) {
	topic := cluster.topic(t, 1)
	t.Check(cluster.admin.CreatePartitions(topic, 4, nil, false))
	t.Eventually("four partitions", func() bool { return cluster.describes(t, topic, 4) })
	message := &sarama.ProducerMessage{Topic: topic, Partition: 3, Value: sarama.StringEncoder("x")}
	t.Check(cluster.producer(t).SendMessages([]*sarama.ProducerMessage{message}))
	cases.Equal(t, "values", values(read(t, cluster.consumer(t, topic, 3, sarama.OffsetOldest), 1)), []string{"x"})
}

func topicConfigs(t *cases.T, cluster *cluster) {
	topic, hour, twoHours, compact := t.Unique(), "3600000", "7200000", "compact"
	detail := &sarama.TopicDetail{
		NumPartitions:     1,
		ReplicationFactor: -1,
		ConfigEntries:     map[string]*string{"retention.ms": &hour},
	}
	t.Check(cluster.admin.CreateTopic(topic, detail, false))
	t.Eventually("the topic to be described", func() bool { return cluster.describes(t, topic, 1) })
	expect := func(name, value string, source sarama.ConfigSource) {
		t.Eventually(name+" to be "+value, func() bool {
			asked := sarama.ConfigResource{Type: sarama.TopicResource, Name: topic, ConfigNames: []string{name}}
			config := cases.Must(cluster.admin.DescribeConfig(asked))[0]
			return config.Name == name && config.Value == value && config.Source == source
		})
	}
	expect("retention.ms", hour, sarama.SourceTopic)
	expect("cleanup.policy", "delete", sarama.SourceDefault)

	alter := func(name string, operation sarama.IncrementalAlterConfigsOperation, value *string) {
		entries := map[string]sarama.IncrementalAlterConfigsEntry{name: {Operation: operation, Value: value}}
		t.Check(cluster.admin.IncrementalAlterConfig(sarama.TopicResource, topic, entries, false))
	}
	alter("retention.ms", sarama.IncrementalAlterConfigsOperationSet, &twoHours)
	expect("retention.ms", twoHours, sarama.SourceTopic)
	alter("cleanup.policy", sarama.IncrementalAlterConfigsOperationAppend, &compact)
	expect("cleanup.policy", "delete,compact", sarama.SourceTopic)
	alter("retention.ms", sarama.IncrementalAlterConfigsOperationDelete, nil)
	expect("retention.ms", "604800000", sarama.SourceDefault)

	// The older call replaces all settings of the topic.
	t.Check(cluster.admin.AlterConfig(sarama.TopicResource, topic, map[string]*string{"retention.ms": &hour}, false))
	expect("retention.ms", hour, sarama.SourceTopic)
	expect("cleanup.policy", "delete", sarama.SourceDefault)
}

func listOffsets(t *cases.T, cluster *cluster) {
	topic := cluster.topic(t, 2)
	cluster.fill(t, topic, 2, 100)
	t.Check(cluster.admin.DeleteRecords(topic, map[int32]int64{0: 60}))
	starts := cases.Must(cluster.listed(topic, 2, sarama.OffsetOldest))
	cases.Equal(t, "starts", starts, map[int32]int64{0: 60, 1: 0})
	ends := cases.Must(cluster.listed(topic, 2, sarama.OffsetNewest))
	cases.Equal(t, "ends", ends, map[int32]int64{0: 100, 1: 100})
}

func deleteRecords(t *cases.T, cluster *cluster) {
	topic := cluster.topic(t, 1)
	cluster.fill(t, topic, 1, 100)
	t.Check(cluster.admin.DeleteRecords(topic, map[int32]int64{0: 60}))
	cases.Equal(t, "first offset", cluster.consume(t, topic, sarama.OffsetOldest, 1)[0].Offset, 60)
	err := cluster.admin.DeleteRecords(topic, map[int32]int64{0: 101})
	t.WantError(err, sarama.ErrOffsetOutOfRange, "deleting beyond the end")
}

func reassignments(t *cases.T, cluster *cluster) {
	topic := cluster.topic(t, 1)
	broker := cluster.client.Brokers()[0].ID()
	t.Check(cluster.admin.AlterPartitionReassignments(topic, [][]int32{{broker}}))
	err := cluster.admin.AlterPartitionReassignments(topic, [][]int32{{broker + 100}})
	t.WantError(err, sarama.ErrInvalidReplicaAssignment, "assigning to an unknown broker")
	listed := cases.Must(cluster.admin.ListPartitionReassignments(topic, []int32{0}))
	cases.Equal(t, "reassignments that go on", len(listed[topic]), 0)
}

func electLeaders(t *cases.T, cluster *cluster) {
	topic := cluster.topic(t, 1)
	results := cases.Must(cluster.admin.ElectLeaders(sarama.PreferredElection, map[string][]int32{topic: {0}}))
	t.WantError(results[topic][0].ErrorCode, sarama.ErrElectionNotNeeded, "electing the leader")
}

func producers(t *cases.T, cluster *cluster) {
	topic := cluster.topic(t, 1)
	var messages []*sarama.ProducerMessage
	for range 10 {
		messages = append(messages, &sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder("x")})
	}
	t.Check(cluster.producer(t, idempotent).SendMessages(messages))
	leader := cases.Must(cluster.client.Leader(topic, 0))
	request := &sarama.DescribeProducersRequest{
		Topics: []sarama.DescribeProducersRequestTopic{{Name: topic, PartitionIndexes: []int32{0}}},
	}
	described := cases.Must(leader.DescribeProducers(request)).Topics[0].Partitions[0]
	cases.Equal(t, "error", described.ErrorCode, sarama.ErrNoError)
	cases.Equal(t, "producers", len(described.ActiveProducers), 1)
	cases.Equal(t, "last sequence", described.ActiveProducers[0].LastSequence, 9)
}
