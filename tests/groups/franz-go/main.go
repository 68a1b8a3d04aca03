// Does as ../rolling_members.py, with franz-go: members of a consumer group (KIP-848) that join and leave one by one while
// records flow. Ends with an error unless every record is read, each partition has one owner at a time, and in the end the
// committed offsets are the ends of the logs.
//
// BOOTSTRAP is the broker's address; RECORDS and MEMBERS say how many there are of each.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const produceDeadline = 30 * time.Second

// rolling is what the whole program works on.
type rolling struct {
	topic, group        string
	records, partitions int
	deadline            time.Time
	ledger              *ledger
	admin               *kadm.Client
}

func main() {
	records, members := number("RECORDS", 50_000), number("MEMBERS", 10)
	client, err := kgo.NewClient(common()...)
	check(err)
	name := fmt.Sprintf("rolling-franz-go-%d", time.Now().UnixNano())
	r := &rolling{
		topic:      name,
		group:      name,
		records:    records,
		partitions: 2 * members,
		deadline:   time.Now().Add(2*time.Minute + time.Duration(records)*time.Millisecond),
		ledger:     newLedger(2 * members),
		admin:      kadm.NewClient(client),
	}
	_, err = r.admin.CreateTopic(context.Background(), int32(r.partitions), -1, nil, r.topic)
	check(err)
	spent := r.roll(members)
	r.checkCommitted()
	fmt.Printf("ok franz-go: %d members were replaced while %d records flowed for %.0f s; ", members, records, spent.Seconds())
	fmt.Println("a partition that did not move was not read for", r.ledger.longestPause().Milliseconds(), "ms at most")
}

// roll replaces each member while records flow, and returns when all of them are read and every member has left.
func (r *rolling) roll(count int) time.Duration {
	var members []*member
	for range count {
		members = append(members, r.join())
	}
	r.await("all partitions to be assigned", func() bool { return r.ledger.owned() == r.partitions })
	flowing := max(time.Duration(r.records/10_000)*time.Second, time.Duration(2*count)*time.Second)
	sent := make(chan error, 1)
	began := time.Now()
	go func() { sent <- r.produce(flowing) }()
	for at := range members {
		members[at].leave()
		members[at] = r.join()
		time.Sleep(flowing / time.Duration(2*count))
	}
	check(<-sent)
	spent := time.Since(began)
	r.await("all records to be read", func() bool { return r.ledger.seen() == r.records })
	for _, member := range members {
		member.leave()
	}
	check(r.ledger.failure())
	return spent
}

// produce sends the records to all partitions in turn, spread over a time.
func (r *rolling) produce(within time.Duration) error {
	partitioner := kgo.RecordPartitioner(kgo.ManualPartitioner())
	client, err := kgo.NewClient(append(common(), partitioner, kgo.DefaultProduceTopic(r.topic))...)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), within+produceDeadline)
	defer cancel()
	failed := make(chan error, 1)
	began, value := time.Now(), make([]byte, 100)
	for at := range r.records {
		record := &kgo.Record{Partition: int32(at % r.partitions), Value: value}
		client.Produce(ctx, record, func(_ *kgo.Record, err error) {
			if err != nil {
				select {
				case failed <- err:
				default: // One is enough.
				}
			}
		})
		due := within * time.Duration(at) / time.Duration(r.records)
		if ahead := due - time.Since(began); ahead > 10*time.Millisecond {
			time.Sleep(ahead)
		}
	}
	if err := client.Flush(ctx); err != nil {
		return err
	}
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

func (r *rolling) checkCommitted() {
	committed, err := r.admin.FetchOffsets(context.Background(), r.group)
	check(err)
	ends, err := r.admin.ListEndOffsets(context.Background(), r.topic)
	check(err)
	check(ends.Error())
	ends.Each(func(end kadm.ListedOffset) {
		at, _ := committed.Lookup(r.topic, end.Partition)
		if at.At != end.Offset {
			check(fmt.Errorf("partition %d: %d is committed, and the log ends at %d", end.Partition, at.At, end.Offset))
		}
	})
}

func (r *rolling) await(what string, holds func() bool) {
	for !holds() {
		check(r.ledger.failure())
		if time.Now().After(r.deadline) {
			check(fmt.Errorf("waited too long for %s: %d of %d records are read", what, r.ledger.seen(), r.records))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func common() []kgo.Opt {
	return []kgo.Opt{kgo.SeedBrokers(os.Getenv("BOOTSTRAP")), kgo.MetadataMinAge(100 * time.Millisecond)}
}

func number(name string, otherwise int) int {
	if text, given := os.LookupEnv(name); given {
		value, err := strconv.Atoi(text)
		check(err)
		return value
	}
	return otherwise
}

func check(err error) {
	if err != nil {
		fmt.Println("FAILED franz-go:", err)
		os.Exit(1)
	}
}
