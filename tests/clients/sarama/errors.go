package main

import (
	"strings"

	"github.com/IBM/sarama"

	cases "logway.io/clients/go-cases"
)

// An epoch, or an offset, that nothing here reaches.
const farAhead = 1_000

func errorCases(suite *cases.Suite, cluster *cluster) {
	suite.Case("error-unknown-topic", func(t *cases.T) { unknownTopic(t, cluster) })
	suite.Case("error-too-large", func(t *cases.T) { tooLarge(t, cluster) })
	suite.Case("error-offset-out-of-range", func(t *cases.T) { outOfRange(t, cluster) })
	suite.Case("error-topic-exists", func(t *cases.T) {
		detail := &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: -1}
		err := cluster.admin.CreateTopic(cluster.topic(t, 1), detail, false)
		t.WantError(err, sarama.ErrTopicAlreadyExists, "creating a topic twice")
	})
	suite.Case("error-invalid-config", func(t *cases.T) { invalidConfig(t, cluster) })
	suite.Case("error-wrong-epoch", func(t *cases.T) { wrongEpoch(t, cluster) })
	suite.Case("error-unknown-group", func(t *cases.T) {
		err := cluster.admin.DeleteConsumerGroup(t.Unique())
		t.WantError(err, sarama.ErrGroupIDNotFound, "deleting a group that does not exist")
	})
	suite.Case("error-stale-member", func(t *cases.T) { staleMember(t, cluster) })
}

func unknownTopic(t *cases.T, cluster *cluster) {
	topic := t.Unique()
	message := &sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder("x")}
	_, _, err := cluster.producer(t).SendMessage(message)
	t.WantError(err, sarama.ErrUnknownTopicOrPartition, "producing to a topic that does not exist")
	err = cluster.admin.DeleteTopic(topic)
	t.WantError(err, sarama.ErrUnknownTopicOrPartition, "deleting a topic that does not exist")
}

func tooLarge(t *cases.T, cluster *cluster) {
	topic := cluster.topic(t, 1)
	producer := cluster.producer(t, largeMessages)
	large := sarama.StringEncoder(strings.Repeat("x", largestValueBytes+1))
	_, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: large})
	t.WantError(err, sarama.ErrMessageSizeTooLarge, "producing a record that is one byte too large")
	cases.Must(sendOne(producer, topic, "fits"))
	cases.Equal(t, "values", values(cluster.consume(t, topic, 0, 1)), []string{"fits"})
}

func sendOne(producer sarama.SyncProducer, topic, value string) (int64, error) {
	_, offset, err := producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(value)})
	return offset, err
}

func outOfRange(t *cases.T, cluster *cluster) {
	topic := cluster.topic(t, 1)
	consumer := cases.Must(sarama.NewConsumer([]string{cluster.bootstrap}, config()))
	t.Cleanup(func() { consumer.Close() })
	_, err := consumer.ConsumePartition(topic, 0, farAhead)
	t.WantError(err, sarama.ErrOffsetOutOfRange, "reading beyond the end")
	// The client has compared that with the offsets it listed; a fetch asks the broker.
	fetched := fetch(t, cluster, topic, farAhead, -1)
	t.WantError(fetched, sarama.ErrOffsetOutOfRange, "fetching beyond the end")
}

func invalidConfig(t *cases.T, cluster *cluster) {
	one := "1"
	detail := &sarama.TopicDetail{
		NumPartitions:     1,
		ReplicationFactor: -1,
		ConfigEntries:     map[string]*string{"no.such.setting": &one},
	}
	err := cluster.admin.CreateTopic(t.Unique(), detail, false)
	t.WantError(err, sarama.ErrInvalidConfig, "creating a topic with an unknown setting")
	if !strings.Contains(err.Error(), "no.such.setting") {
		t.Fail("the message does not name the setting: %s", err)
	}
}

func wrongEpoch(t *cases.T, cluster *cluster) {
	topic := cluster.topic(t, 1)
	err := fetch(t, cluster, topic, 0, farAhead)
	t.WantError(err, sarama.ErrUnknownLeaderEpoch, "fetching with an epoch ahead")
}

// fetch is the error of one partition in a request made by hand.
func fetch(t *cases.T, cluster *cluster, topic string, offset int64, leaderEpoch int32) error {
	leader := cases.Must(cluster.client.Leader(topic, 0))
	request := &sarama.FetchRequest{Version: 11, MinBytes: 1, MaxBytes: 1 << 20, SessionEpoch: -1}
	request.AddBlock(topic, 0, offset, 1<<20, leaderEpoch)
	return cases.Must(leader.Fetch(request)).Blocks[topic][0].Err
}

func staleMember(t *cases.T, cluster *cluster) {
	topic, group := cluster.topic(t, 1), t.Unique()
	joined := cluster.join(t, group, topic, ignore)
	t.Eventually("the member to have its partition", func() bool { return len(joined.partitions()) == 1 })
	id, generation := joined.identity()
	coordinator := cases.Must(cluster.client.Coordinator(group))

	commit := func(member string, generation int32) error {
		request := &sarama.OffsetCommitRequest{
			Version:                 7,
			ConsumerGroup:           group,
			ConsumerID:              member,
			ConsumerGroupGeneration: generation,
		}
		request.AddBlockWithLeaderEpoch(topic, 0, 1, -1, 0, "")
		return cases.Must(coordinator.CommitOffset(request)).Errors[topic][0]
	}
	t.WantError(commit(id, generation+1), sarama.ErrIllegalGeneration, "a commit of a generation to come")
	t.WantError(commit("somebody", generation), sarama.ErrUnknownMemberId, "a commit of somebody else")
	cases.Equal(t, "committed", cases.Must(cluster.committed(group, topic)), map[int32]int64{})
}
