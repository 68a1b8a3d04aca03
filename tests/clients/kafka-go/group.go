package main

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"

	cases "logway.io/clients/go-cases"
)

const (
	// How soon a member learns that a rebalance goes on.
	heartbeatInterval = 200 * time.Millisecond
	commitInterval    = 200 * time.Millisecond
)

func groupCases(suite *cases.Suite, cluster *cluster) {
	suite.Case("group-resume", func(t *cases.T) { resume(t, cluster) })
	suite.Case("group-rebalance", func(t *cases.T) { flow(t, cluster) })
	suite.Case("group-metadata", func(t *cases.T) { metadata(t, cluster) })
}

// awaitCoordinator returns when a group has one: the first group of a broker makes it create the topic of the offsets,
// and kafka-go does not wait for that by itself.
func (c *cluster) awaitCoordinator(t *cases.T, group, topic string) {
	t.Eventually("the group's coordinator", func() bool {
		_, err := c.committed(t.Step(), group, topic, 1)
		for _, notYet := range []error{kafka.NotCoordinatorForGroup, kafka.GroupLoadInProgress, kafka.GroupCoordinatorNotAvailable} {
			if errors.Is(err, notYet) {
				return false
			}
		}
		return true // Whatever else is wrong, the case meets it and says so.
	})
}

// member is a Reader in a group.
func (c *cluster) member(t *cases.T, group, topic string) *kafka.Reader {
	c.awaitCoordinator(t, group, topic)
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers:           []string{c.bootstrap},
		GroupID:           group,
		Topic:             topic,
		StartOffset:       kafka.FirstOffset,
		GroupBalancers:    []kafka.GroupBalancer{kafka.RangeGroupBalancer{}},
		HeartbeatInterval: heartbeatInterval,
		JoinGroupBackoff:  heartbeatInterval,
		CommitInterval:    commitInterval,
		MaxWait:           500 * time.Millisecond,
	})
	t.Cleanup(func() { reader.Close() })
	return reader
}

func resume(t *cases.T, cluster *cluster) {
	const partitions, before, after = 3, 100, 10
	topic, group := cluster.topic(t, partitions), t.Unique()
	cluster.fill(t, topic, partitions, before)
	first := cluster.member(t, group, topic)
	t.Check(first.CommitMessages(t.Step(), read(t, first, partitions*before)...))
	t.Check(first.Close())

	cluster.fill(t, topic, partitions, after)
	second := cluster.member(t, group, topic)
	for _, message := range read(t, second, partitions*after) {
		if message.Offset < before {
			t.Fail("offset %d of partition %d was committed, and is read again", message.Offset, message.Partition)
		}
	}
}

// flow runs the story of cases.Flow.
func flow(t *cases.T, cluster *cluster) {
	topic, group := cluster.topic(t, cases.FlowPartitions), t.Unique()
	writer := cluster.writer(t, topic)
	writer.BatchSize = 250
	cases.Flow{
		Send: func(ctx context.Context, from, to int) error {
			var messages []kafka.Message
			for number := from; number < to; number++ {
				value := []byte(strconv.Itoa(number))
				messages = append(messages, kafka.Message{WriterData: number % cases.FlowPartitions, Value: value})
			}
			return write(ctx, writer, messages...)
		},
		Join: func(_ string, seen func(int)) func() error {
			return inBackground(t, cluster.member(t, group, topic), seen)
		},
		Committed: func(ctx context.Context) (map[int32]int64, error) {
			return cluster.committed(ctx, group, topic, cases.FlowPartitions)
		},
		Ends: func(ctx context.Context) (map[int32]int64, error) {
			_, next, err := cluster.listed(ctx, topic, cases.FlowPartitions)
			return next, err
		},
	}.Run(t)
}

// inBackground returns what stops the reading, commits, and leaves the group.
func inBackground(t *cases.T, reader *kafka.Reader, seen func(int)) func() error {
	ctx, stop := context.WithCancel(t)
	ended := make(chan error, 1)
	t.Go(func() error {
		err := readOn(ctx, reader, seen)
		ended <- err
		return err
	})
	return func() error {
		stop()
		return errors.Join(<-ended, reader.Close())
	}
}

func readOn(ctx context.Context, reader *kafka.Reader, seen func(int)) error {
	for {
		message, err := reader.FetchMessage(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		number, _ := strconv.Atoi(string(message.Value))
		seen(number)
		if err := reader.CommitMessages(context.WithoutCancel(ctx), message); err != nil {
			return err
		}
	}
}

func metadata(t *cases.T, cluster *cluster) {
	const text = "checkpoint 17, größer als ASCII"
	topic, group := cluster.topic(t, 1), t.Unique()
	t.Check(cluster.commit(t, outside(group, topic, kafka.OffsetCommit{Partition: 0, Offset: 17, Metadata: text})))
	request := &kafka.OffsetFetchRequest{GroupID: group, Topics: map[string][]int{topic: {0}}}
	fetched := cases.Must(cluster.client.OffsetFetch(t.Step(), request)).Topics[topic][0]
	cases.Equal(t, "offset", fetched.CommittedOffset, 17)
	cases.Equal(t, "metadata", fetched.Metadata, text)
}
