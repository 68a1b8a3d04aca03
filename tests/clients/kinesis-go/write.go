package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

// write puts numbers into a stream until its input ends, with the SDK's own retries: tests/cluster/kinesis_writers.py describes it.
func write(endpoints []string, stream string, batch int, pause time.Duration) {
	ctx := context.Background()
	settings := must(config.LoadDefaultConfig(ctx, config.WithRegion("us-east-1")))
	var clients []*kinesis.Client
	for _, endpoint := range endpoints {
		at := func(o *kinesis.Options) { o.BaseEndpoint = aws.String(endpoint) }
		clients = append(clients, kinesis.NewFromConfig(settings, at))
	}
	var ended atomic.Bool
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		ended.Store(true)
	}()
	out := bufio.NewWriter(os.Stdout)
	for number, node := 0, 0; !ended.Load(); number += batch {
		var entries []types.PutRecordsRequestEntry
		for it := range batch {
			text := strconv.Itoa(number + it)
			entries = append(entries, types.PutRecordsRequestEntry{Data: []byte(text), PartitionKey: &text})
		}
		input := kinesis.PutRecordsInput{StreamName: &stream, Records: entries}
		answer, err := clients[node%len(clients)].PutRecords(ctx, &input)
		if err != nil {
			fmt.Fprintln(os.Stderr, strings.ReplaceAll(err.Error(), "\n", " "))
			node++
			continue
		}
		if *answer.FailedRecordCount > 0 {
			node++
		}
		for it, record := range answer.Records {
			if record.ErrorCode == nil {
				fmt.Fprintln(out, *record.ShardId, *record.SequenceNumber, number+it)
			}
		}
		must(0, out.Flush())
		time.Sleep(pause)
	}
}
