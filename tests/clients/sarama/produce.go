package main

import (
	"strconv"
	"strings"

	"github.com/IBM/sarama"

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
		codec sarama.CompressionCodec
	}{
		{"produce-none", sarama.CompressionNone},
		{"produce-gzip", sarama.CompressionGZIP},
		{"produce-snappy", sarama.CompressionSnappy},
		{"produce-lz4", sarama.CompressionLZ4},
		{"produce-zstd", sarama.CompressionZSTD},
	}
	for _, tried := range codecs {
		suite.Case(tried.id, func(t *cases.T) {
			roundTrip(t, cluster, true, func(config *sarama.Config) { config.Producer.Compression = tried.codec })
		})
	}
	suite.Case("produce-acks-0", func(t *cases.T) { roundTrip(t, cluster, false, acks(sarama.NoResponse)) })
	suite.Case("produce-acks-1", func(t *cases.T) { roundTrip(t, cluster, true, acks(sarama.WaitForLocal)) })
	suite.Case("produce-acks-all", func(t *cases.T) { roundTrip(t, cluster, true, acks(sarama.WaitForAll)) })
	suite.Case("produce-idempotent", func(t *cases.T) { roundTrip(t, cluster, true, idempotent) })
	suite.Case("produce-headers", func(t *cases.T) { headers(t, cluster) })
	suite.Case("produce-nulls", func(t *cases.T) { nulls(t, cluster) })
	suite.Case("produce-sizes", func(t *cases.T) { sizes(t, cluster) })
	suite.Case("produce-auto-create", func(t *cases.T) { autoCreate(t, cluster) })
}

func acks(required sarama.RequiredAcks) option {
	return func(config *sarama.Config) { config.Producer.RequiredAcks = required }
}

// idempotent allows one request in flight; Sarama refuses more.
func idempotent(config *sarama.Config) {
	config.Producer.Idempotent = true
	config.Net.MaxOpenRequests = 1
}

func roundTrip(t *cases.T, cluster *cluster, acknowledged bool, change option) {
	topic := cluster.topic(t, 1)
	var sent []*sarama.ProducerMessage
	for number := range roundTripRecords {
		key, value := sarama.StringEncoder(strconv.Itoa(number)), sarama.StringEncoder(numbered(number))
		sent = append(sent, &sarama.ProducerMessage{Topic: topic, Key: key, Value: value})
	}
	inBatches := func(config *sarama.Config) { config.Producer.Flush.MaxMessages = batchRecords }
	t.Check(cluster.producer(t, inBatches, change).SendMessages(sent))
	for number, message := range cluster.consume(t, topic, 0, len(sent)) {
		same := string(message.Key) == strconv.Itoa(number) && string(message.Value) == numbered(number)
		if !same || message.Offset != int64(number) {
			t.Fail("record %d: got %s at offset %d", number, message.Value, message.Offset)
		}
		if acknowledged && sent[number].Offset != int64(number) {
			t.Fail("record %d was acknowledged with offset %d", number, sent[number].Offset)
		}
	}
}

func headers(t *cases.T, cluster *cluster) {
	topic := cluster.topic(t, 1)
	sent := [][2]string{{"a", "1"}, {"b", ""}, {"a", "2"}, {"a", "1"}}
	message := &sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder("v")}
	for _, header := range sent {
		message.Headers = append(message.Headers, sarama.RecordHeader{Key: []byte(header[0]), Value: []byte(header[1])})
	}
	t.Check(cluster.producer(t).SendMessages([]*sarama.ProducerMessage{message}))
	var received [][2]string
	for _, header := range cluster.consume(t, topic, 0, 1)[0].Headers {
		received = append(received, [2]string{string(header.Key), string(header.Value)})
	}
	cases.Equal(t, "headers", received, sent)
}

func nulls(t *cases.T, cluster *cluster) {
	topic := cluster.topic(t, 1)
	v, k, empty := sarama.StringEncoder("v"), sarama.StringEncoder("k"), sarama.StringEncoder("")
	sent := [][2]sarama.Encoder{{nil, v}, {k, nil}, {nil, nil}, {empty, empty}, {k, empty}}
	var messages []*sarama.ProducerMessage
	for _, pair := range sent {
		messages = append(messages, &sarama.ProducerMessage{Topic: topic, Key: pair[0], Value: pair[1]})
	}
	t.Check(cluster.producer(t).SendMessages(messages))
	var received [][2]sarama.Encoder
	for _, message := range cluster.consume(t, topic, 0, len(sent)) {
		received = append(received, [2]sarama.Encoder{encoder(message.Key), encoder(message.Value)})
	}
	cases.Equal(t, "keys and values", received, sent)
}

// encoder is what a received key or value would be sent with.
func encoder(received []byte) sarama.Encoder {
	if received == nil {
		return nil
	}
	return sarama.StringEncoder(received)
}

func sizes(t *cases.T, cluster *cluster) {
	topic := cluster.topic(t, 1)
	producer := cluster.producer(t, largeMessages)
	sent := []int{1, 100, 1_000, 10_000, 100_000, largestValueBytes}
	for _, size := range sent {
		value := sarama.StringEncoder(strings.Repeat("x", size))
		t.Check(producer.SendMessages([]*sarama.ProducerMessage{{Topic: topic, Value: value}}))
	}
	var received []int
	for _, message := range cluster.consume(t, topic, 0, len(sent)) {
		received = append(received, len(message.Value))
	}
	cases.Equal(t, "sizes", received, sent)
}

// largeMessages leaves it to the broker to refuse what is too large.
func largeMessages(config *sarama.Config) {
	config.Producer.MaxMessageBytes = 2 << 20
}

func autoCreate(t *cases.T, cluster *cluster) {
	topic := t.Unique()
	producer := cluster.producer(t, func(config *sarama.Config) { config.Metadata.AllowAutoTopicCreation = true })
	t.Check(producer.SendMessages([]*sarama.ProducerMessage{{Topic: topic, Value: sarama.StringEncoder("first")}}))
	cases.Equal(t, "values", values(cluster.consume(t, topic, 0, 1)), []string{"first"})
}
