package main

import (
	"os"
	"time"

	"github.com/IBM/sarama"

	cases "logway.io/clients/go-cases"
)

// When the first of the records was made that positions tells of; each other one is a second younger. It is not long
// ago, lest retention delete them.
var baseMs = time.Now().Add(-time.Hour).UnixMilli()

func consumeCases(suite *cases.Suite, cluster *cluster) {
	suite.Case("consume-assigned", func(t *cases.T) { assigned(t, cluster) })
	suite.Case("consume-mid-batch", func(t *cases.T) { midBatch(t, cluster) })
	suite.Case("consume-seek", func(t *cases.T) { seek(t, cluster) })
	suite.Case("consume-by-time", func(t *cases.T) { byTime(t, cluster) })
	suite.Case("consume-following", func(t *cases.T) { following(t, cluster) })
	suite.Case("consume-deleted", func(t *cases.T) { besideADeletedOne(t, cluster) })
	suite.Case("consume-compacted", func(t *cases.T) { compacted(t, cluster) })
	suite.Case("consume-read-committed", func(t *cases.T) {
		committedOnly := func(config *sarama.Config) { config.Consumer.IsolationLevel = sarama.ReadCommitted }
		messages := cluster.consume(t, positions(t, cluster), 0, 1_000, committedOnly)
		cases.Equal(t, "last offset", messages[999].Offset, 999)
	})
}

func assigned(t *cases.T, cluster *cluster) {
	const partitions, count = 3, 1_000
	topic := cluster.topic(t, partitions)
	cluster.fill(t, topic, partitions, count)
	for partition := range int32(partitions) {
		for number, message := range read(t, cluster.consumer(t, topic, partition, sarama.OffsetOldest), count) {
			cases.Equal(t, "value", string(message.Value), numbered(number))
		}
	}
}

// positions is a topic of 1,000 records, ten to a batch, a second apart.
func positions(t *cases.T, cluster *cluster) string {
	topic := cluster.topic(t, 1)
	producer := cluster.producer(t)
	for first := 0; first < 1_000; first += 10 {
		var batch []*sarama.ProducerMessage
		for number := first; number < first+10; number++ {
			value, made := sarama.StringEncoder(numbered(number)), time.UnixMilli(baseMs+int64(number)*1_000)
			batch = append(batch, &sarama.ProducerMessage{Topic: topic, Value: value, Timestamp: made})
		}
		t.Check(producer.SendMessages(batch))
	}
	return topic
}

func midBatch(t *cases.T, cluster *cluster) {
	topic := positions(t, cluster)
	messages := cluster.consume(t, topic, 777, 3)
	cases.Equal(t, "values", values(messages), []string{"record 000777", "record 000778", "record 000779"})
	cases.Equal(t, "values", values(cluster.consume(t, topic, 999, 1)), []string{"record 000999"})
}

// seek reads the partition anew at each offset, which is how Sarama seeks.
func seek(t *cases.T, cluster *cluster) {
	topic := positions(t, cluster)
	consumer := cases.Must(sarama.NewConsumer([]string{cluster.bootstrap}, config()))
	t.Cleanup(func() { consumer.Close() })
	for _, offset := range []int64{500, 3, 999, sarama.OffsetOldest} {
		partition := cases.Must(consumer.ConsumePartition(topic, 0, offset))
		cases.Equal(t, "offset", read(t, partition, 1)[0].Offset, max(offset, 0))
		t.Check(partition.Close())
	}
	partition := cases.Must(consumer.ConsumePartition(topic, 0, sarama.OffsetNewest))
	t.Cleanup(func() { partition.Close() })
	cluster.fill(t, topic, 1, 1)
	cases.Equal(t, "offset at the end", read(t, partition, 1)[0].Offset, 1_000)
}

func byTime(t *cases.T, cluster *cluster) {
	topic := positions(t, cluster)
	offsets := map[int64]int64{0: 0, baseMs + 250_000: 250, baseMs + 250_001: 251, baseMs + 1_000_000: -1}
	for timeMs, offset := range offsets {
		cases.Equal(t, "offset", cases.Must(cluster.client.GetOffset(topic, 0, timeMs)), offset)
		listed := cases.Must(cluster.listed(topic, 1, timeMs))
		cases.Equal(t, "listed", listed, map[int32]int64{0: offset})
	}
}

func following(t *cases.T, cluster *cluster) {
	const maxWait = cases.StepDeadline
	topic := cluster.topic(t, 1)
	cluster.fill(t, topic, 1, 1)
	patient := func(config *sarama.Config) { config.Consumer.MaxWaitTime = maxWait }
	consumer := cluster.consumer(t, topic, 0, sarama.OffsetOldest, patient)
	read(t, consumer, 1)
	began := time.Now()
	cluster.fill(t, topic, 1, 1)
	read(t, consumer, 1)
	if took := time.Since(began); took > maxWait/2 {
		t.Fail("the record came after %s", took)
	}
	// Closing waits for the fetch under way, which another record ends.
	consumer.AsyncClose()
	cluster.fill(t, topic, 1, 1)
}

func besideADeletedOne(t *cases.T, cluster *cluster) {
	idle, gone := cluster.topic(t, 1), cluster.topic(t, 1)
	consumer := cases.Must(sarama.NewConsumer([]string{cluster.bootstrap}, config(func(config *sarama.Config) {
		config.Consumer.MaxWaitTime = cases.IdleWait
		// Of the topic that is gone it tells again and again, and waits for somebody to listen.
		config.Consumer.Return.Errors = false
	})))
	t.Cleanup(func() { consumer.Close() })
	var partitions []sarama.PartitionConsumer
	for _, topic := range []string{idle, gone} {
		cluster.fill(t, topic, 1, 1)
		partition := cases.Must(consumer.ConsumePartition(topic, 0, sarama.OffsetOldest))
		t.Cleanup(func() { partition.Close() })
		read(t, partition, 1)
		partitions = append(partitions, partition)
	}
	t.Check(cluster.admin.DeleteTopic(gone))
	cases.StaysIdle(t)
	cluster.fill(t, idle, 1, 1)
	read(t, partitions[0], 1)
}

// compacted reads a topic of which nothing is left but its last record, a tombstone.
func compacted(t *cases.T, cluster *cluster) {
	topic := os.Getenv("COMPACTED_TOPIC")
	consumer := cluster.consumer(t, topic, 0, sarama.OffsetOldest)
	last := read(t, consumer, 1)[0]
	for last.Offset < 5 {
		last = read(t, consumer, 1)[0]
	}
	cases.Equal(t, "last key", string(last.Key), "k2")
	cases.Equal(t, "length of the last value", len(last.Value), 0)
	key, value := sarama.StringEncoder("k3"), sarama.StringEncoder("value")
	message := &sarama.ProducerMessage{Topic: topic, Key: key, Value: value}
	t.Check(cluster.producer(t).SendMessages([]*sarama.ProducerMessage{message}))
	next := read(t, consumer, 1)[0]
	cases.Equal(t, "next offset", next.Offset, 6)
	cases.Equal(t, "next key", string(next.Key), "k3")
}
