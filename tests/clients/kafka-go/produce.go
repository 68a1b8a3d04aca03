package main

import (
	"bytes"
	"fmt"
	"sync/atomic"

	"github.com/segmentio/kafka-go"

	cases "logway.io/clients/go-cases"
)

const (
	roundTripRecords = 10_000
	// Small enough that the records of a round trip take several batches.
	batchRecords = 1_000
	// The batch header takes 61 bytes and a record without key and headers 11 more, of max.message.bytes' 1,048,588.
	largestValueBytes = 1_048_588 - 61 - 11
)

func produceCases(suite *cases.Suite, cluster *cluster) {
	codecs := []struct {
		id    string
		codec kafka.Compression
	}{
		{"produce-none", 0},
		{"produce-gzip", kafka.Gzip},
		{"produce-snappy", kafka.Snappy},
		{"produce-lz4", kafka.Lz4},
		{"produce-zstd", kafka.Zstd},
	}
	for _, tried := range codecs {
		suite.Case(tried.id, func(t *cases.T) { roundTrip(t, cluster, tried.codec, kafka.RequireAll) })
	}
	suite.Case("produce-acks-0", func(t *cases.T) { roundTrip(t, cluster, 0, kafka.RequireNone) })
	suite.Case("produce-acks-1", func(t *cases.T) { roundTrip(t, cluster, 0, kafka.RequireOne) })
	suite.Case("produce-acks-all", func(t *cases.T) { roundTrip(t, cluster, 0, kafka.RequireAll) })
	suite.Case("produce-headers", func(t *cases.T) { headers(t, cluster) })
	suite.Case("produce-nulls", func(t *cases.T) { nulls(t, cluster) })
	suite.Case("produce-sizes", func(t *cases.T) { sizes(t, cluster) })
	suite.Case("produce-auto-create", func(t *cases.T) { autoCreate(t, cluster) })
}

func roundTrip(t *cases.T, cluster *cluster, codec kafka.Compression, acks kafka.RequiredAcks) {
	topic := cluster.topic(t, 1)
	var sent []kafka.Message
	for number := range roundTripRecords {
		sent = append(sent, kafka.Message{Key: fmt.Append(nil, number), Value: []byte(numbered(number))})
	}
	writer := cluster.writer(t, topic)
	writer.Compression, writer.RequiredAcks, writer.BatchSize = codec, acks, batchRecords
	var misplaced atomic.Int64
	writer.Completion = func(messages []kafka.Message, _ error) {
		for _, message := range messages {
			if string(message.Value) != numbered(int(message.Offset)) {
				misplaced.Add(1)
			}
		}
	}
	t.Check(write(t.Step(), writer, sent...))
	for number, message := range cluster.consume(t, topic, 0, len(sent)) {
		same := bytes.Equal(message.Key, sent[number].Key) && bytes.Equal(message.Value, sent[number].Value)
		if !same || message.Offset != int64(number) {
			t.Fail("record %d: got %s at offset %d", number, message.Value, message.Offset)
		}
	}
	if acks != kafka.RequireNone {
		cases.Equal(t, "records acknowledged with another offset", misplaced.Load(), 0)
	}
}

func headers(t *cases.T, cluster *cluster) {
	topic := cluster.topic(t, 1)
	sent := [][2]string{{"a", "1"}, {"b", ""}, {"a", "2"}, {"a", "1"}}
	message := kafka.Message{Value: []byte("v")}
	for _, header := range sent {
		message.Headers = append(message.Headers, kafka.Header{Key: header[0], Value: []byte(header[1])})
	}
	t.Check(write(t.Step(), cluster.writer(t, topic), message))
	var received [][2]string
	for _, header := range cluster.consume(t, topic, 0, 1)[0].Headers {
		received = append(received, [2]string{header.Key, string(header.Value)})
	}
	cases.Equal(t, "headers", received, sent)
}

// nulls reads by Fetch, since a Reader makes no difference between null and empty.
func nulls(t *cases.T, cluster *cluster) {
	topic := cluster.topic(t, 1)
	sent := [][2][]byte{{nil, []byte("v")}, {[]byte("k"), nil}, {nil, nil}, {{}, {}}, {[]byte("k"), {}}}
	var messages []kafka.Message
	for _, pair := range sent {
		messages = append(messages, kafka.Message{Key: pair[0], Value: pair[1]})
	}
	t.Check(write(t.Step(), cluster.writer(t, topic), messages...))
	request := &kafka.FetchRequest{Topic: topic, MinBytes: 1, MaxBytes: 1 << 20, MaxWait: cases.StepDeadline}
	response := cases.Must(cluster.client.Fetch(t.Step(), request))
	t.Check(response.Error)
	var received [][2][]byte
	for range sent {
		record := cases.Must(response.Records.ReadRecord())
		received = append(received, [2][]byte{content(record.Key), content(record.Value)})
	}
	cases.Equal(t, "keys and values", received, sent)
}

func content(of kafka.Bytes) []byte {
	if of == nil {
		return nil
	}
	return cases.Must(kafka.ReadAll(of))
}

func sizes(t *cases.T, cluster *cluster) {
	topic := cluster.topic(t, 1)
	writer := cluster.writer(t, topic)
	writer.BatchBytes = 2 << 20
	sent := []int{1, 100, 1_000, 10_000, 100_000, largestValueBytes}
	for _, size := range sent {
		t.Check(write(t.Step(), writer, kafka.Message{Value: bytes.Repeat([]byte("x"), size)}))
	}
	var received []int
	for _, message := range cluster.consume(t, topic, 0, len(sent)) {
		received = append(received, len(message.Value))
	}
	cases.Equal(t, "sizes", received, sent)
}

func autoCreate(t *cases.T, cluster *cluster) {
	topic := t.Unique()
	writer := cluster.writer(t, topic)
	writer.AllowAutoTopicCreation = true
	// The first answers say that the topic is not there yet, which the Writer leaves to its caller.
	t.Eventually("the record to be written", func() bool {
		return write(t.Step(), writer, kafka.Message{Value: []byte("first")}) == nil
	})
	cases.Equal(t, "values", values(cluster.consume(t, topic, 0, 1)), []string{"first"})
}
