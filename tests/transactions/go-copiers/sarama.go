package main

import (
	"errors"
	"fmt"
	"io"
	"log"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

// saramaCopier assigns all partitions to itself, and commits offsets for a group that it is no member of.
type saramaCopier struct {
	*task
	client   sarama.Client
	producer sarama.SyncProducer
	messages chan *sarama.ConsumerMessage
	failures chan error
}

// copyWithSarama returns true when the group has committed all, and else after an abort or with what went wrong.
func copyWithSarama(task *task) (done bool, err error) {
	sarama.Logger = log.New(io.Discard, "", 0)
	client, err := sarama.NewClient(seeds(task.bootstrap), saramaConfig(task))
	if err != nil {
		return false, err
	}
	defer client.Close()
	// It ends what it had left open before: the committed offsets are those of ended transactions then.
	producer, err := sarama.NewSyncProducerFromClient(client)
	if err != nil {
		return false, err
	}
	defer producer.Close()
	copier := &saramaCopier{task, client, producer, make(chan *sarama.ConsumerMessage), make(chan error, 1)}
	consumer, err := sarama.NewConsumerFromClient(client)
	if err != nil {
		return false, err
	}
	defer consumer.Close()
	position, err := copier.committed()
	if err != nil {
		return false, err
	}
	stop := make(chan struct{})
	defer close(stop)
	for partition, offset := range position {
		partitionConsumer, err := consumer.ConsumePartition(task.from, partition, offset)
		if err != nil {
			return false, err
		}
		defer partitionConsumer.AsyncClose()
		go copier.read(partitionConsumer, stop)
	}
	return copier.copyAll(position)
}

func saramaConfig(task *task) *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Idempotent = true
	config.Producer.Transaction.ID = task.transactionalID
	config.Net.MaxOpenRequests = 1
	config.Consumer.Return.Errors = true
	config.Consumer.IsolationLevel = sarama.ReadCommitted
	return config
}

// read hands on what it gets until it is told to stop.
func (c *saramaCopier) read(partition sarama.PartitionConsumer, stop chan struct{}) {
	for {
		select {
		case message := <-partition.Messages():
			if message == nil {
				return
			}
			select {
			case c.messages <- message:
			case <-stop:
				return
			}
		case err := <-partition.Errors():
			if err != nil {
				select {
				case c.failures <- err:
				default: // One is enough.
				}
			}
		case <-stop:
			return
		}
	}
}

// copyAll goes on from these offsets by partition, which it moves.
func (c *saramaCopier) copyAll(position map[int32]int64) (bool, error) {
	for {
		messages, err := c.next()
		if err != nil {
			return false, err
		}
		if len(messages) == 0 {
			var sum int64
			for _, offset := range position {
				sum += offset
			}
			if sum >= c.count {
				return true, nil
			}
			continue
		}
		if aborted, err := c.copyMessages(messages, position); aborted || err != nil {
			return false, err
		}
	}
}

// next is what comes, up to a number.
func (c *saramaCopier) next() ([]*sarama.ConsumerMessage, error) {
	var messages []*sarama.ConsumerMessage
	late := time.After(patience)
	for len(messages) < recordsMax {
		select {
		case message := <-c.messages:
			messages = append(messages, message)
		case err := <-c.failures:
			return nil, err
		case <-late:
			return messages, nil
		}
	}
	return messages, nil
}

// copyMessages is one transaction; it also tells whether that was aborted as it was wanted.
func (c *saramaCopier) copyMessages(messages []*sarama.ConsumerMessage, position map[int32]int64) (bool, error) {
	if err := c.producer.BeginTxn(); err != nil {
		return false, err
	}
	var copies []*sarama.ProducerMessage
	for _, message := range messages {
		key, value := sarama.ByteEncoder(message.Key), sarama.ByteEncoder(message.Value)
		copies = append(copies, &sarama.ProducerMessage{Topic: c.to, Key: key, Value: value})
		position[message.Partition] = message.Offset + 1
	}
	if err := c.producer.SendMessages(copies); err != nil {
		return false, err
	}
	var offsets []*sarama.PartitionOffsetMetadata
	for partition, offset := range position {
		offsets = append(offsets, &sarama.PartitionOffsetMetadata{Partition: partition, Offset: offset, LeaderEpoch: -1})
	}
	if err := c.producer.AddOffsetsToTxn(map[string][]*sarama.PartitionOffsetMetadata{c.from: offsets}, c.group); err != nil {
		return false, err
	}
	if c.willAbort() {
		err := c.producer.AbortTxn()
		if err == nil {
			note("aborted", len(messages))
		}
		return true, err
	}
	if err := c.producer.CommitTxn(); err != nil {
		return false, err
	}
	note("committed", len(messages))
	return false, nil
}

// committed are the group's offsets of each partition, and 0 where it has none.
func (c *saramaCopier) committed() (map[int32]int64, error) {
	partitions, err := c.client.Partitions(c.from)
	if err != nil {
		return nil, err
	}
	if err := c.client.RefreshCoordinator(c.group); err != nil {
		return nil, err
	}
	coordinator, err := c.client.Coordinator(c.group)
	if err != nil {
		return nil, err
	}
	request := sarama.NewOffsetFetchRequest(c.client.Config().Version, c.group, map[string][]int32{c.from: partitions})
	request.RequireStable = true
	response, err := coordinator.FetchOffset(request)
	if err != nil {
		return nil, err
	}
	if err := response.GroupError(); !errors.Is(err, sarama.ErrNoError) {
		return nil, err
	}
	offsets := map[int32]int64{}
	for _, partition := range partitions {
		block := response.GetGroupBlock(c.group, c.from, partition)
		if block == nil {
			return nil, fmt.Errorf("no answer for partition %d", partition)
		}
		if !errors.Is(block.Err, sarama.ErrNoError) {
			return nil, block.Err
		}
		offsets[partition] = max(block.Offset, 0)
	}
	return offsets, nil
}

func seeds(bootstrap string) []string {
	return strings.Split(bootstrap, ",")
}
