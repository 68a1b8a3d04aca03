package main

import (
	"bytes"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	cases "logway.io/clients/go-cases"
)

const (
	roundTripRecords = 10_000
	// Small enough that the records of a round trip take several batches.
	batchBytes = 64 << 10
	// The batch header takes 61 bytes and a record without key and headers 11 more, of max.message.bytes' 1,048,588.
	largestValueBytes = 1_048_588 - 61 - 11
)

func produceCases(suite *cases.Suite, cluster *cluster) {
	codecs := []struct {
		id    string
		codec kgo.CompressionCodec
	}{
		{"produce-none", kgo.NoCompression()},
		{"produce-gzip", kgo.GzipCompression()},
		{"produce-snappy", kgo.SnappyCompression()},
		{"produce-lz4", kgo.Lz4Compression()},
		{"produce-zstd", kgo.ZstdCompression()},
	}
	for _, tried := range codecs {
		suite.Case(tried.id, func(t *cases.T) {
			roundTrip(t, cluster, true, kgo.ProducerBatchCompression(tried.codec))
		})
	}
	suite.Case("produce-acks-0", func(t *cases.T) {
		roundTrip(t, cluster, false, kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.NoAck()))
	})
	suite.Case("produce-acks-1", func(t *cases.T) {
		roundTrip(t, cluster, true, kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck()))
	})
	suite.Case("produce-acks-all", func(t *cases.T) {
		roundTrip(t, cluster, true, kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.AllISRAcks()))
	})
	suite.Case("produce-idempotent", func(t *cases.T) {
		// The default is idempotent, with up to five requests in flight.
		roundTrip(t, cluster, true)
	})
	suite.Case("produce-headers", func(t *cases.T) { headers(t, cluster) })
	suite.Case("produce-nulls", func(t *cases.T) { nulls(t, cluster) })
	suite.Case("produce-sizes", func(t *cases.T) { sizes(t, cluster) })
	suite.Case("produce-auto-create", func(t *cases.T) { autoCreate(t, cluster) })
}

func roundTrip(t *cases.T, cluster *cluster, acknowledged bool, options ...kgo.Opt) {
	topic := cluster.topic(t, 1)
	var sent []*kgo.Record
	for number := range roundTripRecords {
		sent = append(sent, &kgo.Record{Topic: topic, Key: fmt.Append(nil, number), Value: numbered(number)})
	}
	t.Check(cluster.produce(t, sent, append(options, kgo.ProducerBatchMaxBytes(batchBytes))...))
	received := cluster.consume(t, topic, 0, len(sent))
	for number, record := range received {
		same := bytes.Equal(record.Key, sent[number].Key) && bytes.Equal(record.Value, sent[number].Value)
		if !same || record.Offset != int64(number) {
			t.Fail("record %d: got %s at offset %d", number, record.Value, record.Offset)
		}
		if acknowledged && sent[number].Offset != int64(number) {
			t.Fail("record %d was acknowledged with offset %d", number, sent[number].Offset)
		}
	}
}

func headers(t *cases.T, cluster *cluster) {
	topic := cluster.topic(t, 1)
	sent := []kgo.RecordHeader{
		{Key: "a", Value: []byte("1")},
		{Key: "b", Value: []byte{}},
		{Key: "a", Value: []byte("2")},
		{Key: "c", Value: nil},
		{Key: "a", Value: []byte("1")},
	}
	t.Check(cluster.produce(t, []*kgo.Record{{Topic: topic, Value: []byte("v"), Headers: sent}}))
	cases.Equal(t, "headers", cluster.consume(t, topic, 0, 1)[0].Headers, sent)
}

func nulls(t *cases.T, cluster *cluster) {
	topic := cluster.topic(t, 1)
	sent := [][2][]byte{{nil, []byte("v")}, {[]byte("k"), nil}, {nil, nil}, {{}, {}}, {[]byte("k"), {}}}
	var records []*kgo.Record
	for _, pair := range sent {
		records = append(records, &kgo.Record{Topic: topic, Key: pair[0], Value: pair[1]})
	}
	t.Check(cluster.produce(t, records))
	var received [][2][]byte
	for _, record := range cluster.consume(t, topic, 0, len(sent)) {
		received = append(received, [2][]byte{record.Key, record.Value})
	}
	cases.Equal(t, "keys and values", received, sent)
}

func sizes(t *cases.T, cluster *cluster) {
	topic := cluster.topic(t, 1)
	sent := []int{1, 100, 1_000, 10_000, 100_000, largestValueBytes}
	for _, size := range sent {
		record := &kgo.Record{Topic: topic, Value: bytes.Repeat([]byte("x"), size)}
		options := []kgo.Opt{kgo.ProducerBatchMaxBytes(2 << 20), kgo.ProducerBatchCompression(kgo.NoCompression())}
		t.Check(cluster.produce(t, []*kgo.Record{record}, options...))
	}
	var received []int
	for _, record := range cluster.consume(t, topic, 0, len(sent)) {
		received = append(received, len(record.Value))
	}
	cases.Equal(t, "sizes", received, sent)
}

func autoCreate(t *cases.T, cluster *cluster) {
	topic := t.Unique()
	records := []*kgo.Record{{Topic: topic, Value: []byte("first")}}
	t.Check(cluster.produce(t, records, kgo.AllowAutoTopicCreation()))
	cases.Equal(t, "values", values(cluster.consume(t, topic, 0, 1)), []string{"first"})
}
