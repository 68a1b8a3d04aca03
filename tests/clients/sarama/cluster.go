package main

import (
	"fmt"
	"time"

	"github.com/IBM/sarama"

	cases "logway.io/clients/go-cases"
)

// cluster makes clients of one broker, and does with them what the cases share.
type cluster struct {
	bootstrap string
	client    sarama.Client
	admin     sarama.ClusterAdmin
}

// option changes the configuration of a client.
type option func(*sarama.Config)

func newCluster(bootstrap string) *cluster {
	client := cases.Must(sarama.NewClient([]string{bootstrap}, config()))
	return &cluster{bootstrap, client, cases.Must(sarama.NewClusterAdminFromClient(client))}
}

// config speaks the newest protocol that Sarama knows, and has it report all it can.
func config(options ...option) *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Metadata.AllowAutoTopicCreation = false
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Consumer.Return.Errors = true
	for _, option := range options {
		option(config)
	}
	return config
}

// topic makes a new one, and waits until the broker knows it.
func (c *cluster) topic(t *cases.T, partitions int32) string {
	name := t.Unique()
	t.Check(c.admin.CreateTopic(name, &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: -1}, false))
	t.Eventually(name+" to be described", func() bool { return c.describes(t, name, int(partitions)) })
	return name
}

func (c *cluster) describes(t *cases.T, topic string, partitions int) bool {
	described := cases.Must(c.admin.DescribeTopics([]string{topic}))[0]
	return described.Err == sarama.ErrNoError && len(described.Partitions) == partitions
}

func (c *cluster) producer(t *cases.T, options ...option) sarama.SyncProducer {
	producer := cases.Must(sarama.NewSyncProducer([]string{c.bootstrap}, config(options...)))
	t.Cleanup(func() { producer.Close() })
	return producer
}

// fill sends `count` numbered records to each partition.
func (c *cluster) fill(t *cases.T, topic string, partitions int32, count int) {
	var messages []*sarama.ProducerMessage
	for partition := range partitions {
		for number := range count {
			value := sarama.StringEncoder(numbered(number))
			messages = append(messages, &sarama.ProducerMessage{Topic: topic, Partition: partition, Value: value})
		}
	}
	t.Check(c.producer(t).SendMessages(messages))
}

// consumer reads one partition from an offset, or sarama.OffsetOldest or OffsetNewest, on.
func (c *cluster) consumer(t *cases.T, topic string, partition int32, from int64, options ...option) sarama.PartitionConsumer {
	consumer := cases.Must(sarama.NewConsumer([]string{c.bootstrap}, config(options...)))
	partitionConsumer := cases.Must(consumer.ConsumePartition(topic, partition, from))
	t.Cleanup(func() { partitionConsumer.Close(); consumer.Close() })
	return partitionConsumer
}

// consume reads exactly `count` records of partition 0 from an offset on.
func (c *cluster) consume(t *cases.T, topic string, from int64, count int, options ...option) []*sarama.ConsumerMessage {
	return read(t, c.consumer(t, topic, 0, from, options...), count)
}

func read(t *cases.T, consumer sarama.PartitionConsumer, count int) []*sarama.ConsumerMessage {
	var messages []*sarama.ConsumerMessage
	deadline := time.After(cases.StepDeadline)
	for len(messages) < count {
		select {
		case message := <-consumer.Messages():
			messages = append(messages, message)
		case err := <-consumer.Errors():
			t.Fail("%d of %d records, then: %s", len(messages), count, err)
		case <-deadline:
			t.Fail("%d of %d records within %s", len(messages), count, cases.StepDeadline)
		}
	}
	return messages
}

// listed are the offsets of partitions 0 to below `partitions` at a time, or at sarama.OffsetOldest or OffsetNewest.
func (c *cluster) listed(topic string, partitions int32, time int64) (map[int32]int64, error) {
	asked, offsets := map[int32]int64{}, map[int32]int64{}
	for partition := range partitions {
		asked[partition] = time
	}
	results, err := c.admin.ListOffsets(map[string]map[int32]int64{topic: asked}, nil)
	for partition, result := range results[topic] {
		if result.Err != sarama.ErrNoError {
			return nil, result.Err
		}
		offsets[partition] = result.Offset
	}
	return offsets, err
}

// committed are a group's offsets of one topic.
func (c *cluster) committed(group, topic string) (map[int32]int64, error) {
	offsets := map[int32]int64{}
	response, err := c.admin.ListConsumerGroupOffsets(group, nil)
	if err != nil {
		return nil, err
	}
	for partition, block := range response.GetGroup(group).Blocks[topic] {
		if block.Err != sarama.ErrNoError {
			return nil, block.Err
		}
		offsets[partition] = block.Offset
	}
	return offsets, nil
}

func numbered(number int) string {
	return fmt.Sprintf("record %06d", number)
}

func values(messages []*sarama.ConsumerMessage) []string {
	var all []string
	for _, message := range messages {
		all = append(all, string(message.Value))
	}
	return all
}
