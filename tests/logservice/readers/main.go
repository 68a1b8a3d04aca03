// Reads one partition from its start to its end by a Kafka client in Go, and prints how many records and bytes of values there were.
//
//	readers franz-go|sarama HOST:PORT TOPIC
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kgo"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	client, address, topic := os.Args[1], os.Args[2], os.Args[3]
	end := endOf(address, topic)
	var records, bytes int64
	switch client {
	case "franz-go":
		records, bytes = byFranzGo(address, topic, end)
	case "sarama":
		records, bytes = bySarama(address, topic, end)
	default:
		log.Fatalf("no client is called %s", client)
	}
	fmt.Println(records, bytes)
}

func endOf(address, topic string) int64 {
	client, err := sarama.NewClient([]string{address}, sarama.NewConfig())
	check(err)
	defer client.Close()
	end, err := client.GetOffset(topic, 0, sarama.OffsetNewest)
	check(err)
	return end
}

func byFranzGo(address, topic string, end int64) (records, bytes int64) {
	from := map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ConsumePartitions(from))
	check(err)
	defer client.Close()
	for next := int64(0); next < end; {
		fetches := client.PollFetches(context.Background())
		for _, failure := range fetches.Errors() {
			check(failure.Err)
		}
		fetches.EachRecord(func(record *kgo.Record) {
			records++
			bytes += int64(len(record.Value))
			next = record.Offset + 1
		})
	}
	return records, bytes
}

func bySarama(address, topic string, end int64) (records, bytes int64) {
	consumer, err := sarama.NewConsumer([]string{address}, sarama.NewConfig())
	check(err)
	defer consumer.Close()
	partition, err := consumer.ConsumePartition(topic, 0, sarama.OffsetOldest)
	check(err)
	defer partition.Close()
	for message := range partition.Messages() {
		records++
		bytes += int64(len(message.Value))
		if message.Offset+1 >= end {
			break
		}
	}
	return records, bytes
}
