package main

import (
	"os"
	"time"

	"github.com/segmentio/kafka-go"

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
		committedOnly := func(config *kafka.ReaderConfig) { config.IsolationLevel = kafka.ReadCommitted }
		messages := cluster.consume(t, positions(t, cluster), 0, 1_000, committedOnly)
		cases.Equal(t, "last offset", messages[999].Offset, 999)
	})
}

func assigned(t *cases.T, cluster *cluster) {
	const partitions, count = 3, 1_000
	topic := cluster.topic(t, partitions)
	cluster.fill(t, topic, partitions, count)
	for partition := range partitions {
		for number, message := range read(t, cluster.reader(t, topic, partition, kafka.FirstOffset), count) {
			cases.Equal(t, "value", string(message.Value), numbered(number))
		}
	}
}

// positions is a topic of 1,000 records, ten to a batch, a second apart.
func positions(t *cases.T, cluster *cluster) string {
	topic := cluster.topic(t, 1)
	writer := cluster.writer(t, topic)
	writer.BatchSize = 10
	var messages []kafka.Message
	for number := range 1_000 {
		made := time.UnixMilli(baseMs + int64(number)*1_000)
		messages = append(messages, kafka.Message{Value: []byte(numbered(number)), Time: made})
	}
	t.Check(write(t.Step(), writer, messages...))
	return topic
}

func midBatch(t *cases.T, cluster *cluster) {
	topic := positions(t, cluster)
	messages := cluster.consume(t, topic, 777, 3)
	cases.Equal(t, "values", values(messages), []string{"record 000777", "record 000778", "record 000779"})
	cases.Equal(t, "values", values(cluster.consume(t, topic, 999, 1)), []string{"record 000999"})
}

func seek(t *cases.T, cluster *cluster) {
	topic := positions(t, cluster)
	reader := cluster.reader(t, topic, 0, kafka.FirstOffset)
	read(t, reader, 10)
	for _, offset := range []int64{500, 3, 999, kafka.FirstOffset} {
		t.Check(reader.SetOffset(offset))
		cases.Equal(t, "offset", read(t, reader, 1)[0].Offset, max(offset, 0))
	}
	t.Check(reader.SetOffset(1_000))
	cluster.fill(t, topic, 1, 1)
	cases.Equal(t, "offset at the end", read(t, reader, 1)[0].Offset, 1_000)
}

func byTime(t *cases.T, cluster *cluster) {
	topic := positions(t, cluster)
	offsets := map[int64]int64{0: 0, baseMs + 250_000: 250, baseMs + 250_001: 251, baseMs + 1_000_000: -1}
	for timeMs, offset := range offsets {
		asked := map[string][]kafka.OffsetRequest{topic: {kafka.TimeOffsetOf(0, time.UnixMilli(timeMs))}}
		listed := cases.Must(cluster.client.ListOffsets(t.Step(), &kafka.ListOffsetsRequest{Topics: asked})).Topics[topic][0]
		t.Check(listed.Error)
		if _, found := listed.Offsets[offset]; !found {
			t.Fail("time %d: got %v, wanted offset %d", timeMs, listed.Offsets, offset)
		}
	}
	reader := cluster.reader(t, topic, 0, kafka.FirstOffset)
	t.Check(reader.SetOffsetAt(t.Step(), time.UnixMilli(baseMs+250_001)))
	cases.Equal(t, "first offset", read(t, reader, 1)[0].Offset, 251)
}

func following(t *cases.T, cluster *cluster) {
	const maxWait = 8 * time.Second // A Reader that is closed waits for its last fetch.
	topic := cluster.topic(t, 1)
	cluster.fill(t, topic, 1, 1)
	patient := func(config *kafka.ReaderConfig) { config.MaxWait = maxWait }
	reader := cluster.reader(t, topic, 0, kafka.FirstOffset, patient)
	read(t, reader, 1)
	began := time.Now()
	cluster.fill(t, topic, 1, 1)
	read(t, reader, 1)
	if took := time.Since(began); took > maxWait/2 {
		t.Fail("the record came after %s", took)
	}
}

// besideADeletedOne has a reader for each topic, since a Reader without a group has one partition.
func besideADeletedOne(t *cases.T, cluster *cluster) {
	idle, gone := cluster.topic(t, 1), cluster.topic(t, 1)
	patient := func(config *kafka.ReaderConfig) { config.MaxWait = cases.IdleWait }
	var readers []*kafka.Reader
	for _, topic := range []string{idle, gone} {
		cluster.fill(t, topic, 1, 1)
		reader := cluster.reader(t, topic, 0, kafka.FirstOffset, patient)
		read(t, reader, 1)
		readers = append(readers, reader)
	}
	deleted := cases.Must(cluster.client.DeleteTopics(t.Step(), &kafka.DeleteTopicsRequest{Topics: []string{gone}}))
	t.Check(deleted.Errors[gone])
	cases.StaysIdle(t)
	cluster.fill(t, idle, 1, 1)
	read(t, readers[0], 1)
}

// compacted reads a topic of which nothing is left but its last record, a tombstone.
func compacted(t *cases.T, cluster *cluster) {
	topic := os.Getenv("COMPACTED_TOPIC")
	reader := cluster.reader(t, topic, 0, kafka.FirstOffset)
	last := read(t, reader, 1)[0]
	for last.Offset < 5 {
		last = read(t, reader, 1)[0]
	}
	cases.Equal(t, "last key", string(last.Key), "k2")
	cases.Equal(t, "length of the last value", len(last.Value), 0)
	t.Check(write(t.Step(), cluster.writer(t, topic), kafka.Message{Key: []byte("k3"), Value: []byte("value")}))
	next := read(t, reader, 1)[0]
	cases.Equal(t, "next offset", next.Offset, 6)
	cases.Equal(t, "next key", string(next.Key), "k3")
}
