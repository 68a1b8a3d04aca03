package main

import (
	"bytes"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	cases "logway.io/clients/go-cases"
)

// An epoch, or a generation, that nothing here reaches.
const farAhead = 1_000

func errorCases(suite *cases.Suite, cluster *cluster) {
	suite.Case("error-unknown-topic", func(t *cases.T) { unknownTopic(t, cluster) })
	suite.Case("error-too-large", func(t *cases.T) { tooLarge(t, cluster) })
	suite.Case("error-offset-out-of-range", func(t *cases.T) { outOfRange(t, cluster) })
	suite.Case("error-topic-exists", func(t *cases.T) {
		_, err := cluster.admin.CreateTopic(t.Step(), 1, -1, nil, cluster.topic(t, 1))
		t.WantError(err, kerr.TopicAlreadyExists, "creating a topic twice")
	})
	suite.Case("error-invalid-config", func(t *cases.T) { invalidConfig(t, cluster) })
	suite.Case("error-wrong-epoch", func(t *cases.T) { wrongEpoch(t, cluster) })
	suite.Case("error-unknown-group", func(t *cases.T) {
		_, err := cluster.admin.DeleteGroup(t.Step(), t.Unique())
		t.WantError(err, kerr.GroupIDNotFound, "deleting a group that does not exist")
	})
	suite.Case("error-stale-member", func(t *cases.T) { staleMember(t, cluster) })
}

func unknownTopic(t *cases.T, cluster *cluster) {
	topic := t.Unique()
	err := cluster.produce(t, []*kgo.Record{{Topic: topic, Value: []byte("x")}}, kgo.UnknownTopicRetries(1))
	t.WantError(err, kerr.UnknownTopicOrPartition, "producing to a topic that does not exist")
	_, err = cluster.admin.DeleteTopic(t.Step(), topic)
	t.WantError(err, kerr.UnknownTopicOrPartition, "deleting a topic that does not exist")
}

func tooLarge(t *cases.T, cluster *cluster) {
	topic := cluster.topic(t, 1)
	options := []kgo.Opt{
		kgo.DefaultProduceTopic(topic),
		kgo.ProducerBatchMaxBytes(2 << 20),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
	}
	producer := cluster.client(t, options...)
	large := kgo.SliceRecord(bytes.Repeat([]byte("x"), largestValueBytes+1))
	err := producer.ProduceSync(t.Step(), large).FirstErr()
	t.WantError(err, kerr.MessageTooLarge, "producing a record that is one byte too large")
	t.Check(producer.ProduceSync(t.Step(), kgo.StringRecord("fits")).FirstErr())
	cases.Equal(t, "values", values(cluster.consume(t, topic, 0, 1)), []string{"fits"})
}

func outOfRange(t *cases.T, cluster *cluster) {
	topic := cluster.topic(t, 1)
	cluster.fill(t, topic, 1, 1)
	consumer := cluster.consumer(t, topic, 0, kgo.NewOffset().At(farAhead), kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	err := consumer.PollFetches(t.Step()).Err()
	t.WantError(err, kerr.OffsetOutOfRange, "reading beyond the end")
}

func invalidConfig(t *cases.T, cluster *cluster) {
	configs := map[string]*string{"no.such.setting": kadm.StringPtr("1")}
	response, err := cluster.admin.CreateTopic(t.Step(), 1, -1, configs, t.Unique())
	t.WantError(err, kerr.InvalidConfig, "creating a topic with an unknown setting")
	if !strings.Contains(response.ErrMessage, "no.such.setting") {
		t.Fail("the message does not name the setting: %s", response.ErrMessage)
	}
}

// wrongEpoch asks with requests made by hand, since the client itself never knows an epoch before the broker.
func wrongEpoch(t *cases.T, cluster *cluster) {
	topic := cluster.topic(t, 1)
	client := cluster.client(t)
	broker := client.Broker(int(cases.Must(cluster.admin.ListBrokers(t.Step()))[0].NodeID))

	list := kmsg.NewPtrListOffsetsRequest()
	list.ReplicaID = -1
	partition := kmsg.NewListOffsetsRequestTopicPartition()
	partition.CurrentLeaderEpoch, partition.Timestamp = farAhead, -1
	list.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{partition}}}
	listed := cases.Must(broker.Request(t.Step(), list)).(*kmsg.ListOffsetsResponse)
	err := kerr.ErrorForCode(listed.Topics[0].Partitions[0].ErrorCode)
	t.WantError(err, kerr.UnknownLeaderEpoch, "listing offsets with an epoch ahead")

	ask := kmsg.NewPtrOffsetForLeaderEpochRequest()
	ask.ReplicaID = -1
	epoch := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	epoch.CurrentLeaderEpoch, epoch.LeaderEpoch = farAhead, 0
	ask.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: topic, Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{epoch}}}
	answer := cases.Must(broker.Request(t.Step(), ask)).(*kmsg.OffsetForLeaderEpochResponse)
	err = kerr.ErrorForCode(answer.Topics[0].Partitions[0].ErrorCode)
	t.WantError(err, kerr.UnknownLeaderEpoch, "asking for the end of an epoch with an epoch ahead")
}

func staleMember(t *cases.T, cluster *cluster) {
	topic, group := cluster.topic(t, 1), t.Unique()
	joined := cluster.member(t, group, topic)
	t.Go(func() error { return joined.readOn(t, func(*kgo.Record) {}) })
	t.Eventually("the member to have its partition", func() bool { return len(joined.partitions()) == 1 })
	id, generation := joined.GroupMetadata()
	topicID := cases.Must(cluster.admin.Metadata(t.Step(), topic)).Topics[topic].ID

	commit := func(member string, generation int32) error {
		request := kmsg.NewPtrOffsetCommitRequest()
		request.Group, request.MemberID, request.Generation = group, member, generation
		partition := kmsg.NewOffsetCommitRequestTopicPartition()
		partition.Offset = 1
		partitions := []kmsg.OffsetCommitRequestTopicPartition{partition}
		request.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: topic, TopicID: topicID, Partitions: partitions}}
		response := cases.Must(joined.Request(t.Step(), request)).(*kmsg.OffsetCommitResponse)
		return kerr.ErrorForCode(response.Topics[0].Partitions[0].ErrorCode)
	}
	t.WantError(commit(id, generation+1), kerr.IllegalGeneration, "a commit of a generation to come")
	t.WantError(commit("somebody", generation), kerr.UnknownMemberID, "a commit of somebody else")
	cases.Equal(t, "committed", cases.Must(cluster.committed(t.Step(), group, topic)), map[int32]int64{})
}
