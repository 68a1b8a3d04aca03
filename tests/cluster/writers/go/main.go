// Command writer writes 0, 1, 2, ... to each partition of a topic with franz-go's idempotent producer, and tells each
// acknowledgement.
//
// Arguments: BOOTSTRAP TOPIC PARTITIONS RECORDS_PER_SECOND IN_FLIGHT NOISE_FILE. It writes until standard input ends, then
// flushes. Standard output gets partition, number and offset of what is acknowledged: 4, 8 and 8 bytes, the highest first.
// A record that has failed is said on standard error, and the exit code is 1 then.
//
// What stands in a record is what value_of in tests/harness/load.py says.
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	headBytes    = 12
	bodyBytesMax = 200
)

func main() {
	topic := os.Args[2]
	partitions, perSecond, inFlightMax := integer(os.Args[3]), integer(os.Args[4]), integer(os.Args[5])
	noise, err := os.ReadFile(os.Args[6])
	check(err)
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(os.Args[1], ",")...),
		kgo.DefaultProduceTopic(topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.MaxBufferedRecords(int(inFlightMax)),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		// By default it asks for a new leader after 2.5 s at the earliest.
		kgo.MetadataMinAge(100*time.Millisecond),
		// What is on the way to a node that hangs is given up after these two together.
		kgo.ProduceRequestTimeout(time.Second),
		kgo.RequestTimeoutOverhead(time.Second),
		kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }),
	)
	check(err)

	stopping := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(stopping)
	}()

	var told sync.Mutex
	acked := bufio.NewWriterSize(os.Stdout, 1<<16)
	flush := func() {
		told.Lock()
		defer told.Unlock()
		check(acked.Flush())
	}
	go func() {
		// So that a reader sees soon what is acknowledged.
		for range time.Tick(time.Millisecond) {
			flush()
		}
	}()

	var failed atomic.Bool
	began := time.Now()
	write := func(partition int32, number int64) {
		record := &kgo.Record{Partition: partition, Value: value(partition, number, noise)}
		// Waits while too much is on the way.
		client.Produce(context.Background(), record, func(record *kgo.Record, err error) {
			if err != nil {
				failed.Store(true)
				fmt.Fprintf(os.Stderr, "partition %d number %d: %v\n", partition, number, err)
				return
			}
			var one [20]byte
			binary.BigEndian.PutUint32(one[:], uint32(partition))
			binary.BigEndian.PutUint64(one[4:], uint64(number))
			binary.BigEndian.PutUint64(one[12:], uint64(record.Offset))
			told.Lock()
			defer told.Unlock()
			_, err = acked.Write(one[:])
			check(err)
		})
	}
	for number := int64(0); !isClosed(stopping); number++ {
		for partition := range int32(partitions) {
			write(partition, number)
		}
		due := began.Add(time.Duration((number + 1) * partitions * int64(time.Second) / perSecond))
		// What could not be written in time is not made up for.
		if late := time.Since(due); late > time.Second {
			began = began.Add(late)
		}
		select {
		case <-stopping:
		case <-time.After(time.Until(due)):
		}
	}
	check(client.Flush(context.Background()))
	flush()
	if failed.Load() {
		os.Exit(1)
	}
}

func value(partition int32, number int64, noise []byte) []byte {
	head := make([]byte, headBytes, headBytes+bodyBytesMax)
	binary.BigEndian.PutUint32(head, uint32(partition))
	binary.BigEndian.PutUint64(head[4:], uint64(number))
	chosen := int(crc32.ChecksumIEEE(head))
	start := chosen % (len(noise) - bodyBytesMax)
	return append(head, noise[start:start+chosen%bodyBytesMax]...)
}

func isClosed(channel <-chan struct{}) bool {
	select {
	case <-channel:
		return true
	default:
		return false
	}
}

func integer(text string) int64 {
	number, err := strconv.ParseInt(text, 10, 64)
	check(err)
	return number
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
