package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	cases "logway.io/clients/go-cases"
)

// cluster makes clients of one broker, and does with them what the cases share.
type cluster struct {
	bootstrap string
	admin     *kadm.Client
}

func newCluster(bootstrap string) *cluster {
	client := cases.Must(kgo.NewClient(common(bootstrap)...))
	return &cluster{bootstrap: bootstrap, admin: kadm.NewClient(client)}
}

// client is closed at the end of the case.
func (c *cluster) client(t *cases.T, options ...kgo.Opt) *kgo.Client {
	client := cases.Must(kgo.NewClient(append(common(c.bootstrap), options...)...))
	t.Cleanup(client.CloseAllowingRebalance)
	return client
}

// common lets a client see changes of topics soon, and give up in time.
func common(bootstrap string) []kgo.Opt {
	return []kgo.Opt{
		kgo.SeedBrokers(bootstrap),
		kgo.RetryTimeout(cases.StepDeadline),
		kgo.MetadataMinAge(100 * time.Millisecond),
	}
}

// topic makes a new one, and waits until the broker knows it.
func (c *cluster) topic(t *cases.T, partitions int32) string {
	name := t.Unique()
	cases.Must(c.admin.CreateTopic(t.Step(), partitions, -1, nil, name))
	t.Eventually(name+" to be described", func() bool { return c.hasTopic(t, name) })
	return name
}

func (c *cluster) hasTopic(t *cases.T, name string) bool {
	metadata := cases.Must(c.admin.Metadata(t.Step(), name))
	return metadata.Topics[name].Err == nil && len(metadata.Topics[name].Partitions) > 0
}

// produce sends records to a partition each of which they name, and waits until all are acknowledged.
func (c *cluster) produce(t *cases.T, records []*kgo.Record, options ...kgo.Opt) error {
	producer := c.client(t, append(options, kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	return producer.ProduceSync(t.Step(), records...).FirstErr()
}

// fill sends `count` numbered records to each partition.
func (c *cluster) fill(t *cases.T, topic string, partitions int32, count int) {
	var records []*kgo.Record
	for partition := range partitions {
		for number := range count {
			records = append(records, &kgo.Record{Topic: topic, Partition: partition, Value: numbered(number)})
		}
	}
	t.Check(c.produce(t, records))
}

// consume reads exactly `count` records of partition 0 from an offset on.
func (c *cluster) consume(t *cases.T, topic string, offset int64, count int, options ...kgo.Opt) []*kgo.Record {
	return read(t, c.consumer(t, topic, 0, kgo.NewOffset().At(offset), options...), count)
}

func (c *cluster) consumer(t *cases.T, topic string, partition int32, from kgo.Offset, options ...kgo.Opt) *kgo.Client {
	partitions := map[string]map[int32]kgo.Offset{topic: {partition: from}}
	return c.client(t, append(options, kgo.ConsumePartitions(partitions))...)
}

// read polls until it has exactly `count` records.
func read(t *cases.T, consumer *kgo.Client, count int) []*kgo.Record {
	var records []*kgo.Record
	ctx := t.Step()
	for len(records) < count {
		fetches := consumer.PollRecords(ctx, count-len(records))
		if err := fetches.Err(); err != nil {
			t.Fail("%d of %d records, then: %s", len(records), count, err)
		}
		records = append(records, fetches.Records()...)
	}
	return records
}

// committed are a group's offsets of one topic.
func (c *cluster) committed(ctx context.Context, group, topic string) (map[int32]int64, error) {
	responses, err := c.admin.FetchOffsets(ctx, group)
	if err != nil {
		return nil, err
	}
	offsets := map[int32]int64{}
	for partition, response := range responses[topic] {
		offsets[partition] = response.At
	}
	return offsets, responses.Error()
}

func (c *cluster) ends(ctx context.Context, topic string) (map[int32]int64, error) {
	return offsetsOf(topic)(c.admin.ListEndOffsets(ctx, topic))
}

func (c *cluster) starts(ctx context.Context, topic string) (map[int32]int64, error) {
	return offsetsOf(topic)(c.admin.ListStartOffsets(ctx, topic))
}

func offsetsOf(topic string) func(kadm.ListedOffsets, error) (map[int32]int64, error) {
	return func(listed kadm.ListedOffsets, err error) (map[int32]int64, error) {
		offsets := map[int32]int64{}
		for partition, at := range listed[topic] {
			offsets[partition] = at.Offset
		}
		if err == nil {
			err = listed.Error()
		}
		return offsets, err
	}
}

func numbered(number int) []byte {
	return fmt.Appendf(nil, "record %06d", number)
}

func values(records []*kgo.Record) []string {
	var all []string
	for _, record := range records {
		all = append(all, string(record.Value))
	}
	return all
}
