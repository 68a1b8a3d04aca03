package main

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"

	cases "logway.io/clients/go-cases"
)

func groupCases(suite *cases.Suite, cluster *cluster) {
	suite.Case("group-resume", func(t *cases.T) { resume(t, cluster) })
	suite.Case("group-rebalance", func(t *cases.T) { flow(t, cluster, sarama.NewBalanceStrategyRange()) })
	suite.Case("group-cooperative", func(t *cases.T) {
		first := flow(t, cluster, sarama.NewBalanceStrategyCooperativeSticky())
		cases.Equal(t, "partitions that the first member had to give away", len(first.lostPartitions()), 2)
	})
	suite.Case("group-static", func(t *cases.T) { static(t, cluster) })
	suite.Case("group-metadata", func(t *cases.T) { metadata(t, cluster) })
}

func strategy(strategy sarama.BalanceStrategy) option {
	return func(config *sarama.Config) {
		config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategy}
	}
}

func resume(t *cases.T, cluster *cluster) {
	const partitions, before, after = 3, 100, 10
	topic, group := cluster.topic(t, partitions), t.Unique()
	cluster.fill(t, topic, partitions, before)
	var read, readAgain atomic.Int64
	first := cluster.join(t, group, topic, func(*sarama.ConsumerMessage) { read.Add(1) })
	t.Eventually("the first member to read all", func() bool { return read.Load() >= partitions*before })
	t.Check(first.leave())
	cases.Equal(t, "records that the first member read", read.Load(), partitions*before)

	cluster.fill(t, topic, partitions, after)
	read.Store(0)
	second := cluster.join(t, group, topic, func(message *sarama.ConsumerMessage) {
		if message.Offset < before {
			readAgain.Add(1)
		}
		read.Add(1)
	})
	t.Eventually("the second member to read the rest", func() bool { return read.Load() >= partitions*after })
	t.Check(second.leave())
	cases.Equal(t, "records read again", readAgain.Load(), 0)
}

// flow runs the story of cases.Flow and returns its first member.
func flow(t *cases.T, cluster *cluster, balance sarama.BalanceStrategy) *member {
	topic, group := cluster.topic(t, cases.FlowPartitions), t.Unique()
	producer := cluster.producer(t, func(config *sarama.Config) {
		config.Producer.Partitioner = sarama.NewRoundRobinPartitioner
		config.Producer.Flush.Frequency = 5 * time.Millisecond
	})
	members := map[string]*member{}
	cases.Flow{
		Send: func(_ context.Context, from, to int) error {
			var messages []*sarama.ProducerMessage
			for number := from; number < to; number++ {
				value := sarama.StringEncoder(strconv.Itoa(number))
				messages = append(messages, &sarama.ProducerMessage{Topic: topic, Value: value})
			}
			return producer.SendMessages(messages)
		},
		Join: func(name string, seen func(int)) func() error {
			members[name] = cluster.join(t, group, topic, func(message *sarama.ConsumerMessage) {
				number, _ := strconv.Atoi(string(message.Value))
				seen(number)
			}, strategy(balance))
			return members[name].leave
		},
		Committed: func(context.Context) (map[int32]int64, error) { return cluster.committed(group, topic) },
		Ends: func(context.Context) (map[int32]int64, error) {
			return cluster.listed(topic, cases.FlowPartitions, sarama.OffsetNewest)
		},
	}.Run(t)
	return members["first"]
}

func static(t *cases.T, cluster *cluster) {
	topic, group := cluster.topic(t, 4), t.Unique()
	join := func(instance string) *member {
		named := func(config *sarama.Config) { config.Consumer.Group.InstanceId = instance }
		return cluster.join(t, group, topic, ignore, named, strategy(sarama.NewBalanceStrategyRange()))
	}
	first := join("first")
	t.Eventually("the first member to have all", func() bool { return len(first.partitions()) == 4 })
	second := join("second")
	t.Eventually("the members to share", func() bool {
		return len(first.partitions()) == 2 && len(second.partitions()) == 2
	})
	before, had := first.sessionCount(), second.partitions()

	t.Check(second.leave())
	second = join("second")
	t.Eventually("the second member to be back", func() bool { return len(second.partitions()) == 2 })
	cases.Equal(t, "partitions of the second member", second.partitions(), had)
	cases.Equal(t, "sessions of the first member", first.sessionCount(), before)
}

func metadata(t *cases.T, cluster *cluster) {
	const text = "checkpoint 17, größer als ASCII"
	topic, group := cluster.topic(t, 1), t.Unique()
	commit(t, cluster, group, topic, map[int32]sarama.OffsetAndMetadata{0: {Offset: 17, Metadata: text, LeaderEpoch: -1}})
	response := cases.Must(cluster.admin.ListConsumerGroupOffsets(group, map[string][]int32{topic: {0}}))
	block := response.GetGroupBlock(group, topic, 0)
	cases.Equal(t, "offset", block.Offset, 17)
	cases.Equal(t, "metadata", block.Metadata, text)
}

func commit(t *cases.T, cluster *cluster, group, topic string, at map[int32]sarama.OffsetAndMetadata) {
	offsets := map[string]map[int32]sarama.OffsetAndMetadata{topic: at}
	response := cases.Must(cluster.admin.AlterConsumerGroupOffsets(group, offsets, nil))
	for _, err := range response.Errors[topic] {
		if err != sarama.ErrNoError {
			t.Check(err)
		}
	}
}
