package main

import (
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

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
		topic := positions(t, cluster)
		records := cluster.consume(t, topic, 0, 1_000, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
		cases.Equal(t, "last offset", records[999].Offset, 999)
	})
}

func assigned(t *cases.T, cluster *cluster) {
	const partitions, count = 3, 1_000
	topic := cluster.topic(t, partitions)
	cluster.fill(t, topic, partitions, count)
	from := map[int32]kgo.Offset{}
	for partition := range int32(partitions) {
		from[partition] = kgo.NewOffset().AtStart()
	}
	consumer := cluster.client(t, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))
	next := map[int32]int{}
	for _, record := range read(t, consumer, partitions*count) {
		cases.Equal(t, "value", string(record.Value), string(numbered(next[record.Partition])))
		next[record.Partition]++
	}
	cases.Equal(t, "records by partition", next, map[int32]int{0: count, 1: count, 2: count})
}

// positions is a topic of 1,000 records, ten to a batch, a second apart.
func positions(t *cases.T, cluster *cluster) string {
	topic := cluster.topic(t, 1)
	producer := cluster.client(t, kgo.DefaultProduceTopic(topic))
	for first := 0; first < 1_000; first += 10 {
		var batch []*kgo.Record
		for number := first; number < first+10; number++ {
			made := time.UnixMilli(baseMs + int64(number)*1_000)
			batch = append(batch, &kgo.Record{Value: numbered(number), Timestamp: made})
		}
		t.Check(producer.ProduceSync(t.Step(), batch...).FirstErr())
	}
	return topic
}

func midBatch(t *cases.T, cluster *cluster) {
	topic := positions(t, cluster)
	records := cluster.consume(t, topic, 777, 3)
	cases.Equal(t, "values", values(records), []string{"record 000777", "record 000778", "record 000779"})
	cases.Equal(t, "values", values(cluster.consume(t, topic, 999, 1)), []string{"record 000999"})
}

func seek(t *cases.T, cluster *cluster) {
	topic := positions(t, cluster)
	consumer := cluster.consumer(t, topic, 0, kgo.NewOffset().AtStart())
	read(t, consumer, 10)
	to := func(offset int64) {
		consumer.SetOffsets(map[string]map[int32]kgo.EpochOffset{topic: {0: {Epoch: -1, Offset: offset}}})
	}
	for _, offset := range []int64{500, 3, 999, 0} {
		to(offset)
		cases.Equal(t, "offset", read(t, consumer, 1)[0].Offset, offset)
	}
	to(1_000)
	t.Check(cluster.produce(t, []*kgo.Record{{Topic: topic, Value: []byte("new")}}))
	cases.Equal(t, "values at the end", values(read(t, consumer, 1)), []string{"new"})
}

func byTime(t *cases.T, cluster *cluster) {
	topic := positions(t, cluster)
	offsets := map[int64]int64{0: 0, baseMs + 250_000: 250, baseMs + 250_001: 251, baseMs + 1_000_000: 1_000}
	for timeMs, offset := range offsets {
		listed := cases.Must(offsetsOf(topic)(cluster.admin.ListOffsetsAfterMilli(t.Step(), timeMs, topic)))
		cases.Equal(t, "listed offset", listed[0], offset)
	}
	consumer := cluster.consumer(t, topic, 0, kgo.NewOffset().AfterMilli(baseMs+250_001))
	cases.Equal(t, "first offset", read(t, consumer, 1)[0].Offset, 251)
}

func following(t *cases.T, cluster *cluster) {
	const maxWait = cases.StepDeadline
	topic := cluster.topic(t, 1)
	cluster.fill(t, topic, 1, 1)
	consumer := cluster.consumer(t, topic, 0, kgo.NewOffset().AtStart(), kgo.FetchMaxWait(maxWait))
	read(t, consumer, 1)
	began := time.Now()
	cluster.fill(t, topic, 1, 1)
	read(t, consumer, 1)
	if took := time.Since(began); took > maxWait/2 {
		t.Fail("the record came after %s", took)
	}
}

func besideADeletedOne(t *cases.T, cluster *cluster) {
	idle, gone := cluster.topic(t, 1), cluster.topic(t, 1)
	from := map[string]map[int32]kgo.Offset{}
	for _, topic := range []string{idle, gone} {
		cluster.fill(t, topic, 1, 1)
		from[topic] = map[int32]kgo.Offset{0: kgo.NewOffset().AtStart()}
	}
	consumer := cluster.client(t, kgo.ConsumePartitions(from), kgo.FetchMaxWait(cases.IdleWait))
	read(t, consumer, 2)
	cases.Must(cluster.admin.DeleteTopic(t.Step(), gone))
	cases.StaysIdle(t)
	cluster.fill(t, idle, 1, 1)
	// It may tell first of the topic that is gone.
	t.Eventually("the late record", func() bool { return consumer.PollFetches(t.Step()).NumRecords() == 1 })
}

// compacted reads a topic of which nothing is left but its last record, a tombstone.
func compacted(t *cases.T, cluster *cluster) {
	topic := os.Getenv("COMPACTED_TOPIC")
	consumer := cluster.consumer(t, topic, 0, kgo.NewOffset().AtStart())
	last := read(t, consumer, 1)[0]
	for last.Offset < 5 {
		last = read(t, consumer, 1)[0]
	}
	cases.Equal(t, "last key", string(last.Key), "k2")
	cases.Equal(t, "length of the last value", len(last.Value), 0)
	t.Check(cluster.produce(t, []*kgo.Record{{Topic: topic, Key: []byte("k3"), Value: []byte("value")}}))
	next := read(t, consumer, 1)[0]
	cases.Equal(t, "next offset", next.Offset, 6)
	cases.Equal(t, "next key", string(next.Key), "k3")
}
