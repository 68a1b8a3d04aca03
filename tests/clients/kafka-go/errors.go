package main

import (
	"bytes"
	"strings"

	"github.com/segmentio/kafka-go"

	cases "logway.io/clients/go-cases"
)

func errorCases(suite *cases.Suite, cluster *cluster) {
	suite.Case("error-unknown-topic", func(t *cases.T) { unknownTopic(t, cluster) })
	suite.Case("error-too-large", func(t *cases.T) { tooLarge(t, cluster) })
	suite.Case("error-offset-out-of-range", func(t *cases.T) { outOfRange(t, cluster) })
	suite.Case("error-topic-exists", func(t *cases.T) {
		err := cluster.create(t, kafka.TopicConfig{Topic: cluster.topic(t, 1), NumPartitions: 1, ReplicationFactor: -1})
		t.WantError(err, kafka.TopicAlreadyExists, "creating a topic twice")
	})
	suite.Case("error-invalid-config", func(t *cases.T) { invalidConfig(t, cluster) })
	suite.Case("error-unknown-group", func(t *cases.T) {
		t.WantError(deleteGroup(t, cluster, t.Unique()), kafka.GroupIdNotFound, "deleting a group that does not exist")
	})
	suite.Case("error-stale-member", func(t *cases.T) { staleMember(t, cluster) })
}

func unknownTopic(t *cases.T, cluster *cluster) {
	topic := t.Unique()
	err := write(t.Step(), cluster.writer(t, topic), kafka.Message{Value: []byte("x")})
	t.WantError(err, kafka.UnknownTopicOrPartition, "producing to a topic that does not exist")
	request := &kafka.DeleteTopicsRequest{Topics: []string{topic}}
	err = cases.Must(cluster.client.DeleteTopics(t.Step(), request)).Errors[topic]
	t.WantError(err, kafka.UnknownTopicOrPartition, "deleting a topic that does not exist")
}

func tooLarge(t *cases.T, cluster *cluster) {
	topic := cluster.topic(t, 1)
	writer := cluster.writer(t, topic)
	writer.BatchBytes = 2 << 20
	err := write(t.Step(), writer, kafka.Message{Value: bytes.Repeat([]byte("x"), largestValueBytes+1)})
	t.WantError(err, kafka.MessageSizeTooLarge, "producing a record that is one byte too large")
	t.Check(write(t.Step(), writer, kafka.Message{Value: []byte("fits")}))
	cases.Equal(t, "values", values(cluster.consume(t, topic, 0, 1)), []string{"fits"})
}

func outOfRange(t *cases.T, cluster *cluster) {
	topic := cluster.topic(t, 1)
	cluster.fill(t, topic, 1, 1)
	strict := func(config *kafka.ReaderConfig) { config.OffsetOutOfRangeError = true }
	_, err := cluster.reader(t, topic, 0, 1_000, strict).FetchMessage(t.Step())
	t.WantError(err, kafka.OffsetOutOfRange, "reading beyond the end")
}

func invalidConfig(t *cases.T, cluster *cluster) {
	unknown := []kafka.ConfigEntry{{ConfigName: "no.such.setting", ConfigValue: "1"}}
	config := kafka.TopicConfig{Topic: t.Unique(), NumPartitions: 1, ReplicationFactor: -1, ConfigEntries: unknown}
	err := cluster.create(t, config)
	t.WantError(err, kafka.InvalidConfiguration, "creating a topic with an unknown setting")
	if !strings.Contains(err.Error(), "no.such.setting") {
		t.Fail("the message does not name the setting: %s", err)
	}
}

func staleMember(t *cases.T, cluster *cluster) {
	topic, group := cluster.topic(t, 1), t.Unique()
	_, generation := cluster.join(t, group, topic)
	commit := func(member string, generation int) error {
		request := outside(group, topic, kafka.OffsetCommit{Partition: 0, Offset: 1})
		request.MemberID, request.GenerationID = member, generation
		return cluster.commit(t, request)
	}
	err := commit(generation.MemberID, int(generation.ID)+1)
	t.WantError(err, kafka.IllegalGeneration, "a commit of a generation to come")
	t.WantError(commit("somebody", int(generation.ID)), kafka.UnknownMemberId, "a commit of somebody else")
	cases.Equal(t, "committed", cases.Must(cluster.committed(t.Step(), group, topic, 1)), map[int32]int64{})
}
