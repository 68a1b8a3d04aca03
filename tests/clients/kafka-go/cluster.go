package main

import (
	"context"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"

	cases "logway.io/clients/go-cases"
)

// cluster makes clients of one broker, and does with them what the cases share.
type cluster struct {
	bootstrap string
	client    *kafka.Client
}

func newCluster(bootstrap string) *cluster {
	// New topics are seen soon.
	transport := &kafka.Transport{MetadataTTL: 100 * time.Millisecond}
	return &cluster{bootstrap, &kafka.Client{Addr: kafka.TCP(bootstrap), Transport: transport}}
}

// topic makes a new one, and waits until the broker knows it.
func (c *cluster) topic(t *cases.T, partitions int) string {
	name := t.Unique()
	t.Check(c.create(t, kafka.TopicConfig{Topic: name, NumPartitions: partitions, ReplicationFactor: -1}))
	t.Eventually(name+" to be described", func() bool { return c.describes(t, name, partitions) })
	return name
}

func (c *cluster) create(t *cases.T, config kafka.TopicConfig) error {
	request := &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{config}}
	return cases.Must(c.client.CreateTopics(t.Step(), request)).Errors[config.Topic]
}

// metadata describes the topics that are named, or all.
func (c *cluster) metadata(t *cases.T, topics ...string) *kafka.MetadataResponse {
	return cases.Must(c.client.Metadata(t.Step(), &kafka.MetadataRequest{Topics: topics}))
}

func (c *cluster) describes(t *cases.T, topic string, partitions int) bool {
	described := c.metadata(t, topic).Topics[0]
	for _, partition := range described.Partitions {
		// The client's own view of the cluster may be from the middle of a change, and it does not look again.
		if partition.Error != nil {
			return false
		}
	}
	return described.Error == nil && len(described.Partitions) == partitions
}

func (c *cluster) writer(t *cases.T, topic string) *kafka.Writer {
	writer := &kafka.Writer{
		Addr:         c.client.Addr,
		Topic:        topic,
		Transport:    c.client.Transport,
		RequiredAcks: kafka.RequireAll,
		BatchTimeout: 5 * time.Millisecond,
		Balancer:     kafka.BalancerFunc(func(message kafka.Message, _ ...int) int { return partitionOf(message) }),
	}
	t.Cleanup(func() { writer.Close() })
	return writer
}

// partitionOf is where a message says it wants to go: the Writer itself refuses messages that say so in Partition.
func partitionOf(message kafka.Message) int {
	if partition, chosen := message.WriterData.(int); chosen {
		return partition
	}
	return 0
}

// write returns the first error of any message.
func write(ctx context.Context, writer *kafka.Writer, messages ...kafka.Message) error {
	err := writer.WriteMessages(ctx, messages...)
	if each, several := err.(kafka.WriteErrors); several {
		for _, err := range each {
			if err != nil {
				return err
			}
		}
	}
	return err
}

// fill sends `count` numbered records to each partition.
func (c *cluster) fill(t *cases.T, topic string, partitions, count int) {
	var messages []kafka.Message
	for partition := range partitions {
		for number := range count {
			messages = append(messages, kafka.Message{WriterData: partition, Value: []byte(numbered(number))})
		}
	}
	t.Check(write(t.Step(), c.writer(t, topic), messages...))
}

// reader reads one partition from an offset, or kafka.FirstOffset or LastOffset, on.
func (c *cluster) reader(t *cases.T, topic string, partition int, from int64, options ...func(*kafka.ReaderConfig)) *kafka.Reader {
	config := kafka.ReaderConfig{Brokers: []string{c.bootstrap}, Topic: topic, Partition: partition, MaxBytes: 10 << 20}
	// Reading a partition to its end is not a reason to pause.
	config.MaxWait = 500 * time.Millisecond
	for _, option := range options {
		option(&config)
	}
	reader := kafka.NewReader(config)
	t.Cleanup(func() { reader.Close() })
	t.Check(reader.SetOffset(from))
	return reader
}

// consume reads exactly `count` records of partition 0 from an offset on.
func (c *cluster) consume(t *cases.T, topic string, from int64, count int, options ...func(*kafka.ReaderConfig)) []kafka.Message {
	return read(t, c.reader(t, topic, 0, from, options...), count)
}

func read(t *cases.T, reader *kafka.Reader, count int) []kafka.Message {
	var messages []kafka.Message
	ctx := t.Step()
	for len(messages) < count {
		message, err := reader.FetchMessage(ctx)
		if err != nil {
			t.Fail("%d of %d records, then: %s", len(messages), count, err)
		}
		messages = append(messages, message)
	}
	return messages
}

// listed are the first and the next offset of partitions 0 to below `partitions`.
func (c *cluster) listed(ctx context.Context, topic string, partitions int) (first, next map[int32]int64, err error) {
	var asked []kafka.OffsetRequest
	for partition := range partitions {
		asked = append(asked, kafka.FirstOffsetOf(partition), kafka.LastOffsetOf(partition))
	}
	response, err := c.client.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: asked}})
	if err != nil {
		return nil, nil, err
	}
	first, next = map[int32]int64{}, map[int32]int64{}
	for _, partition := range response.Topics[topic] {
		if partition.Error != nil {
			return nil, nil, partition.Error
		}
		first[int32(partition.Partition)] = partition.FirstOffset
		next[int32(partition.Partition)] = partition.LastOffset
	}
	return first, next, nil
}

// committed are a group's offsets of partitions 0 to below `partitions`, without those that have none.
func (c *cluster) committed(ctx context.Context, group, topic string, partitions int) (map[int32]int64, error) {
	request := &kafka.OffsetFetchRequest{GroupID: group, Topics: map[string][]int{topic: {}}}
	for partition := range partitions {
		request.Topics[topic] = append(request.Topics[topic], partition)
	}
	response, err := c.client.OffsetFetch(ctx, request)
	if err != nil {
		return nil, err
	}
	offsets := map[int32]int64{}
	for _, partition := range response.Topics[topic] {
		if partition.Error != nil {
			return nil, partition.Error
		}
		if partition.CommittedOffset >= 0 {
			offsets[int32(partition.Partition)] = partition.CommittedOffset
		}
	}
	return offsets, response.Error
}

// commit sets a group's offsets from outside, or as a member.
func (c *cluster) commit(t *cases.T, request *kafka.OffsetCommitRequest) error {
	for _, partitions := range cases.Must(c.client.OffsetCommit(t.Step(), request)).Topics {
		for _, partition := range partitions {
			if partition.Error != nil {
				return partition.Error
			}
		}
	}
	return nil
}

// outside is a commit by nobody in the group.
func outside(group, topic string, commits ...kafka.OffsetCommit) *kafka.OffsetCommitRequest {
	topics := map[string][]kafka.OffsetCommit{topic: commits}
	return &kafka.OffsetCommitRequest{GroupID: group, GenerationID: -1, Topics: topics}
}

func numbered(number int) string {
	return fmt.Sprintf("record %06d", number)
}

func values(messages []kafka.Message) []string {
	var all []string
	for _, message := range messages {
		all = append(all, string(message.Value))
	}
	return all
}
