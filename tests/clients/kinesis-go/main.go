// One case of AWS's SDK for Go v2, which fails by its exit code, or a program that writes until its input ends:
//
//	kinesis-go ENDPOINT CASE
//	kinesis-go write ENDPOINT,… STREAM BATCH PAUSE_MS
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/aws/smithy-go"
)

const shard = "shardId-000000000000"

// suite is a client with the stream of a case. What fails ends the program.
type suite struct {
	ctx    context.Context
	client *kinesis.Client
	stream *string
}

func main() {
	if os.Args[1] == "write" {
		pause := time.Duration(must(strconv.Atoi(os.Args[5]))) * time.Millisecond
		write(strings.Split(os.Args[2], ","), os.Args[3], must(strconv.Atoi(os.Args[4])), pause)
		return
	}
	endpoint, name := os.Args[1], os.Args[2]
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	settings := must(config.LoadDefaultConfig(ctx, config.WithRegion("us-east-1"), config.WithRetryMaxAttempts(1)))
	client := kinesis.NewFromConfig(settings, func(o *kinesis.Options) {
		o.BaseEndpoint = aws.String(endpoint)
		o.HTTPClient = plainBodies{o.HTTPClient}
	})
	s := suite{ctx, client, aws.String("go-" + name)}
	cases := map[string]func(){
		"records":             s.records,
		"iterators":           s.iterators,
		"fanOut":              s.fanOut,
		"reshardWhileReading": s.reshardWhileReading,
		"errors":              s.errors,
	}
	cases[name]()
}

// plainBodies sends requests whose bodies have no WriteTo.
//
// The SDK closes a request's body once the answer begins. WriteTo of a closed body (smithy-go 1.28) then answers io.EOF,
// which net/http takes for a failed write: it closes the connection under the answer that is still being read.
type plainBodies struct{ client kinesis.HTTPClient }

func (p plainBodies) Do(request *http.Request) (*http.Response, error) {
	if body := request.Body; body != nil {
		request.Body = struct {
			io.Reader
			io.Closer
		}{body, body}
	}
	return p.client.Do(request)
}

func must[T any](value T, err error) T {
	if err != nil {
		fail("%v", err)
	}
	return value
}

func fail(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", arguments...)
	os.Exit(1)
}

func equal[T comparable](found, wanted T, what string) {
	if found != wanted {
		fail("%s: %v, and not %v", what, found, wanted)
	}
}

func (s suite) create(shards int32) error {
	_, err := s.client.CreateStream(s.ctx, &kinesis.CreateStreamInput{StreamName: s.stream, ShardCount: &shards})
	return err
}

func (s suite) put(data, key string) (*kinesis.PutRecordOutput, error) {
	input := kinesis.PutRecordInput{StreamName: s.stream, Data: []byte(data), PartitionKey: &key}
	return s.client.PutRecord(s.ctx, &input)
}

func (s suite) iterator(kind types.ShardIteratorType, after *string, at *time.Time) *string {
	input := kinesis.GetShardIteratorInput{
		StreamName:             s.stream,
		ShardId:                aws.String(shard),
		ShardIteratorType:      kind,
		StartingSequenceNumber: after,
		Timestamp:              at,
	}
	return must(s.client.GetShardIterator(s.ctx, &input)).ShardIterator
}

func (s suite) read(iterator *string, count int) []string {
	var records []string
	for iterator != nil && len(records) < count {
		answer := must(s.client.GetRecords(s.ctx, &kinesis.GetRecordsInput{ShardIterator: iterator}))
		for _, record := range answer.Records {
			records = append(records, string(record.Data))
		}
		iterator = answer.NextShardIterator
	}
	return records
}

func (s suite) subscribe() *kinesis.SubscribeToShardEventStream {
	summary := must(s.client.DescribeStreamSummary(s.ctx, &kinesis.DescribeStreamSummaryInput{StreamName: s.stream}))
	consumer := must(s.client.RegisterStreamConsumer(s.ctx, &kinesis.RegisterStreamConsumerInput{
		StreamARN:    summary.StreamDescriptionSummary.StreamARN,
		ConsumerName: aws.String("app"),
	}))
	return must(s.client.SubscribeToShard(s.ctx, &kinesis.SubscribeToShardInput{
		ConsumerARN:      consumer.Consumer.ConsumerARN,
		ShardId:          aws.String(shard),
		StartingPosition: &types.StartingPosition{Type: types.ShardIteratorTypeTrimHorizon},
	})).GetStream()
}

// next is the next event of a subscription; nil behind its end.
func next(events *kinesis.SubscribeToShardEventStream) *types.SubscribeToShardEvent {
	for event := range events.Events() {
		if event, is := event.(*types.SubscribeToShardEventStreamMemberSubscribeToShardEvent); is {
			return &event.Value
		}
	}
	if err := events.Err(); err != nil {
		fail("the subscription: %v", err)
	}
	return nil
}

func (s suite) records() {
	must(0, s.create(2))
	var entries []types.PutRecordsRequestEntry
	for number := range 500 {
		text := strconv.Itoa(number)
		entries = append(entries, types.PutRecordsRequestEntry{Data: []byte(text), PartitionKey: &text})
	}
	answer := must(s.client.PutRecords(s.ctx, &kinesis.PutRecordsInput{StreamName: s.stream, Records: entries}))
	equal(*answer.FailedRecordCount, 0, "failed records")
	first := 0
	for _, record := range answer.Records {
		if *record.ShardId == shard {
			first++
		}
	}
	equal(len(s.read(s.iterator(types.ShardIteratorTypeTrimHorizon, nil, nil), first)), first, "records of the first shard")
}

func (s suite) iterators() {
	must(0, s.create(1))
	var numbers []*string
	for _, data := range []string{"0", "1", "2"} {
		numbers = append(numbers, must(s.put(data, "key")).SequenceNumber)
	}
	// So that the clock tells the records before from the one behind.
	time.Sleep(20 * time.Millisecond)
	middle := time.Now()
	latest := s.iterator(types.ShardIteratorTypeLatest, nil, nil)
	time.Sleep(20 * time.Millisecond)
	must(s.put("3", "key"))
	first := func(iterator *string) string { return s.read(iterator, 1)[0] }
	equal(first(s.iterator(types.ShardIteratorTypeTrimHorizon, nil, nil)), "0", "TRIM_HORIZON")
	equal(first(s.iterator(types.ShardIteratorTypeAtSequenceNumber, numbers[1], nil)), "1", "AT_SEQUENCE_NUMBER")
	equal(first(s.iterator(types.ShardIteratorTypeAfterSequenceNumber, numbers[1], nil)), "2", "AFTER_SEQUENCE_NUMBER")
	equal(first(s.iterator(types.ShardIteratorTypeAtTimestamp, nil, &middle)), "3", "AT_TIMESTAMP")
	equal(first(latest), "3", "LATEST")
}

func (s suite) fanOut() {
	must(0, s.create(1))
	must(s.put("before", "key"))
	events := s.subscribe()
	must(s.put("after", "key"))
	var seen []string
	for len(seen) < 2 {
		event := next(events)
		if event == nil {
			fail("the subscription has ended behind %v", seen)
		}
		for _, record := range event.Records {
			seen = append(seen, string(record.Data))
		}
	}
	equal(seen[0]+seen[1], "beforeafter", "records")
	must(0, events.Close())
}

func (s suite) reshardWhileReading() {
	must(0, s.create(1))
	events := s.subscribe()
	must(s.put("last", "key"))
	must(s.client.SplitShard(s.ctx, &kinesis.SplitShardInput{
		StreamName: s.stream, ShardToSplit: aws.String(shard), NewStartingHashKey: aws.String("1000"),
	}))
	seen := ""
	var children []types.ChildShard
	for event := next(events); event != nil; event = next(events) {
		for _, record := range event.Records {
			seen += string(record.Data)
		}
		children = event.ChildShards
	}
	equal(seen, "last", "records")
	equal(len(children), 2, "children")
	shards := must(s.client.ListShards(s.ctx, &kinesis.ListShardsInput{StreamName: s.stream})).Shards
	equal(len(shards), 3, "shards")
}

func (s suite) errors() {
	refused := func(err error, name string) {
		var refusal smithy.APIError
		if !errors.As(err, &refusal) {
			fail("%v is no refusal", err)
		}
		equal(refusal.ErrorCode(), name, "the error")
	}
	_, err := s.put("x", "key")
	refused(err, "ResourceNotFoundException")
	must(0, s.create(1))
	refused(s.create(1), "ResourceInUseException")
	_, err = s.put("x", "")
	refused(err, "ValidationException")
	iterator := strings.Repeat("x", 200)
	_, err = s.client.GetRecords(s.ctx, &kinesis.GetRecordsInput{ShardIterator: &iterator})
	refused(err, "InvalidArgumentException")
	var typed *types.InvalidArgumentException
	if !errors.As(err, &typed) {
		fail("%v has no type", err)
	}
}
