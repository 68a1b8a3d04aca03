package main

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

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
	listed := cases.Must(cluster.admin.ListTopics(t.Step()))
	cases.Equal(t, "listed", listed.Has(topic), true)
	cases.Equal(t, "partitions", listed[topic].Partitions.Numbers(), []int32{0, 1, 2})
	cases.Equal(t, "internal", listed[topic].IsInternal, false)
	cases.Must(cluster.admin.DeleteTopic(t.Step(), topic))
	t.Eventually("the topic to be gone", func() bool {
		return !cases.Must(cluster.admin.ListTopics(t.Step())).Has(topic)
	})
}

func partitions(t *cases.T, cluster *cluster) {
	topic := cluster.topic(t, 1)
	t.Check(cases.Must(cluster.admin.UpdatePartitions(t.Step(), 4, topic)).Error())
	t.Eventually("four partitions", func() bool {
		metadata := cases.Must(cluster.admin.Metadata(t.Step(), topic))
		return len(metadata.Topics[topic].Partitions) == 4
	})
	t.Check(cluster.produce(t, []*kgo.Record{{Topic: topic, Partition: 3, Value: []byte("x")}}))
	cases.Equal(t, "values", values(read(t, cluster.consumer(t, topic, 3, kgo.NewOffset().AtStart()), 1)), []string{"x"})
}

func topicConfigs(t *cases.T, cluster *cluster) {
	topic := t.Unique()
	configs := map[string]*string{"retention.ms": kadm.StringPtr("3600000")}
	cases.Must(cluster.admin.CreateTopic(t.Step(), 1, -1, configs, topic))
	t.Eventually("the topic to be described", func() bool { return cluster.hasTopic(t, topic) })
	expect := func(name, value string, source kmsg.ConfigSource) {
		t.Eventually(name+" to be "+value, func() bool {
			config := topicConfig(t, cluster, topic, name)
			return config.MaybeValue() == value && config.Source == source
		})
	}
	expect("retention.ms", "3600000", kmsg.ConfigSourceDynamicTopicConfig)
	expect("cleanup.policy", "delete", kmsg.ConfigSourceDefaultConfig)

	alter := func(change kadm.AlterConfig) {
		altered := cases.Must(cluster.admin.AlterTopicConfigs(t.Step(), []kadm.AlterConfig{change}, topic))
		t.Check(altered[0].Err)
	}
	alter(kadm.AlterConfig{Op: kadm.SetConfig, Name: "retention.ms", Value: kadm.StringPtr("7200000")})
	expect("retention.ms", "7200000", kmsg.ConfigSourceDynamicTopicConfig)
	alter(kadm.AlterConfig{Op: kadm.AppendConfig, Name: "cleanup.policy", Value: kadm.StringPtr("compact")})
	expect("cleanup.policy", "delete,compact", kmsg.ConfigSourceDynamicTopicConfig)
	alter(kadm.AlterConfig{Op: kadm.DeleteConfig, Name: "retention.ms"})
	expect("retention.ms", "604800000", kmsg.ConfigSourceDefaultConfig)
}

func topicConfig(t *cases.T, cluster *cluster, topic, name string) kadm.Config {
	described := cases.Must(cases.Must(cluster.admin.DescribeTopicConfigs(t.Step(), topic)).On(topic, nil))
	t.Check(described.Err)
	at := slices.IndexFunc(described.Configs, func(config kadm.Config) bool { return config.Key == name })
	if at < 0 {
		t.Fail("no config %s is described", name)
	}
	return described.Configs[at]
}

func listOffsets(t *cases.T, cluster *cluster) {
	topic := cluster.topic(t, 2)
	cluster.fill(t, topic, 2, 100)
	deleteBefore(t, cluster, topic, 60)
	cases.Equal(t, "starts", cases.Must(cluster.starts(t.Step(), topic)), map[int32]int64{0: 60, 1: 0})
	cases.Equal(t, "ends", cases.Must(cluster.ends(t.Step(), topic)), map[int32]int64{0: 100, 1: 100})
	youngest := cases.Must(offsetsOf(topic)(cluster.admin.ListMaxTimestampOffsets(t.Step(), topic)))
	if youngest[1] < 0 || youngest[1] > 99 {
		t.Fail("the youngest record is listed at offset %d", youngest[1])
	}
}

func deleteRecords(t *cases.T, cluster *cluster) {
	topic := cluster.topic(t, 1)
	cluster.fill(t, topic, 1, 100)
	cases.Equal(t, "low watermark", deleteBefore(t, cluster, topic, 60).LowWatermark, 60)
	consumer := cluster.consumer(t, topic, 0, kgo.NewOffset().AtStart())
	cases.Equal(t, "first offset", read(t, consumer, 1)[0].Offset, 60)
	beyond := deleteResponse(t, cluster, topic, 101)
	t.WantError(beyond.Err, kerr.OffsetOutOfRange, "deleting beyond the end")
}

func deleteBefore(t *cases.T, cluster *cluster, topic string, offset int64) kadm.DeleteRecordsResponse {
	response := deleteResponse(t, cluster, topic, offset)
	t.Check(response.Err)
	return response
}

func deleteResponse(t *cases.T, cluster *cluster, topic string, offset int64) kadm.DeleteRecordsResponse {
	var offsets kadm.Offsets
	offsets.AddOffset(topic, 0, offset, -1)
	response, _ := cases.Must(cluster.admin.DeleteRecords(t.Step(), offsets)).Lookup(topic, 0)
	return response
}

func reassignments(t *cases.T, cluster *cluster) {
	topic := cluster.topic(t, 1)
	broker := cases.Must(cluster.admin.ListBrokers(t.Step()))[0].NodeID
	assign := func(broker int32) error {
		var request kadm.AlterPartitionAssignmentsReq
		request.Assign(topic, 0, []int32{broker})
		return cases.Must(cluster.admin.AlterPartitionAssignments(t.Step(), request)).Error()
	}
	t.Check(assign(broker))
	t.WantError(assign(broker+100), kerr.InvalidReplicaAssignment, "assigning to an unknown broker")
	var set kadm.TopicsSet
	set.Add(topic, 0)
	listed := cases.Must(cluster.admin.ListPartitionReassignments(t.Step(), set))
	cases.Equal(t, "reassignments that go on", len(listed), 0)
}

func electLeaders(t *cases.T, cluster *cluster) {
	topic := cluster.topic(t, 1)
	var set kadm.TopicsSet
	set.Add(topic, 0)
	results := cases.Must(cluster.admin.ElectLeaders(t.Step(), kadm.ElectPreferredReplica, set))
	t.WantError(results[topic][0].Err, kerr.ElectionNotNeeded, "electing the leader")
}

func producers(t *cases.T, cluster *cluster) {
	topic := cluster.topic(t, 1)
	cluster.fill(t, topic, 1, 10)
	var set kadm.TopicsSet
	set.Add(topic, 0)
	described := cases.Must(cluster.admin.DescribeProducers(t.Step(), set)).SortedProducers()
	cases.Equal(t, "producers", len(described), 1)
	cases.Equal(t, "last sequence", described[0].LastSequence, 9)
	cases.Equal(t, "epoch", described[0].ProducerEpoch, 0)
}
