package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	cases "logway.io/clients/go-cases"
)

// How soon a member learns that a rebalance goes on.
const heartbeatInterval = 200 * time.Millisecond

func groupCases(suite *cases.Suite, cluster *cluster) {
	suite.Case("group-resume", func(t *cases.T) { resume(t, cluster) })
	suite.Case("group-rebalance", func(t *cases.T) { flow(t, cluster, kgo.RangeBalancer()) })
	suite.Case("group-cooperative", func(t *cases.T) {
		first := flow(t, cluster, kgo.CooperativeStickyBalancer())
		cases.Equal(t, "partitions that the first member had to give away", len(first.revoked()), 2)
	})
	suite.Case("group-static", func(t *cases.T) { static(t, cluster) })
	suite.Case("group-metadata", func(t *cases.T) { metadata(t, cluster) })
}

// member is a consumer that keeps book of its partitions.
type member struct {
	*kgo.Client
	lock       sync.Mutex
	assigned   map[int32]bool
	gone       []int32
	rebalances int
}

func (c *cluster) member(t *cases.T, group, topic string, options ...kgo.Opt) *member {
	m := &member{assigned: map[int32]bool{}}
	joined := []kgo.Opt{
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.HeartbeatInterval(heartbeatInterval),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, change map[string][]int32) {
			m.changed(change[topic], true)
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, change map[string][]int32) {
			m.changed(change[topic], false)
		}),
	}
	m.Client = c.client(t, append(joined, options...)...)
	return m
}

func (m *member) changed(partitions []int32, assigned bool) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.rebalances++
	for _, partition := range partitions {
		if assigned {
			m.assigned[partition] = true
		} else {
			delete(m.assigned, partition)
			m.gone = append(m.gone, partition)
		}
	}
}

// partitions that the member has, in order.
func (m *member) partitions() []int32 {
	m.lock.Lock()
	defer m.lock.Unlock()
	return slices.Sorted(maps.Keys(m.assigned))
}

// revoked are the partitions that were taken away from the member so far.
func (m *member) revoked() []int32 {
	m.lock.Lock()
	defer m.lock.Unlock()
	return slices.Clone(m.gone)
}

func (m *member) rebalanceCount() int {
	m.lock.Lock()
	defer m.lock.Unlock()
	return m.rebalances
}

// readOn calls `seen` for each record and commits after each poll, until the context ends.
func (m *member) readOn(ctx context.Context, seen func(*kgo.Record)) error {
	// A poll that gives nothing forbids a rebalance as well.
	defer m.AllowRebalance()
	for {
		fetches := m.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			if ctx.Err() != nil || errors.Is(err, kgo.ErrClientClosed) {
				return nil
			}
			return err
		}
		fetches.EachRecord(seen)
		// What has been polled is committed even if the case goes on to stop meanwhile.
		if err := m.CommitUncommittedOffsets(context.WithoutCancel(ctx)); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
		m.AllowRebalance()
	}
}

func resume(t *cases.T, cluster *cluster) {
	const partitions, before, after = 3, 100, 10
	topic, group := cluster.topic(t, partitions), t.Unique()
	cluster.fill(t, topic, partitions, before)
	first := cluster.member(t, group, topic)
	read(t, first.Client, partitions*before)
	t.Check(first.CommitUncommittedOffsets(t.Step()))
	first.CloseAllowingRebalance()

	cluster.fill(t, topic, partitions, after)
	second := cluster.member(t, group, topic)
	for _, record := range read(t, second.Client, partitions*after) {
		if record.Offset < before {
			t.Fail("offset %d of partition %d was committed, and is read again", record.Offset, record.Partition)
		}
	}
}

// flow runs the story of cases.Flow and returns its first member, with the book as it was when that left.
func flow(t *cases.T, cluster *cluster, balancer kgo.GroupBalancer) *member {
	topic, group := cluster.topic(t, cases.FlowPartitions), t.Unique()
	producer := cluster.client(t, kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	members := map[string]*member{}
	cases.Flow{
		Send: func(ctx context.Context, from, to int) error {
			var records []*kgo.Record
			for number := from; number < to; number++ {
				records = append(records, kgo.StringRecord(strconv.Itoa(number)))
			}
			return producer.ProduceSync(ctx, records...).FirstErr()
		},
		Join: func(name string, seen func(int)) func() error {
			joined := cluster.member(t, group, topic, kgo.Balancers(balancer), kgo.ClientID(name))
			members[name] = &member{}
			return inBackground(t, joined, seen, members[name])
		},
		Committed: func(ctx context.Context) (map[int32]int64, error) { return cluster.committed(ctx, group, topic) },
		Ends:      func(ctx context.Context) (map[int32]int64, error) { return cluster.ends(ctx, topic) },
	}.Run(t)
	return members["first"]
}

// inBackground returns what stops the reading, leaves the group, and notes in `book` what the member had lost before.
func inBackground(t *cases.T, joined *member, seen func(int), book *member) func() error {
	ctx, stop := context.WithCancel(t)
	ended := make(chan error, 1)
	t.Go(func() error {
		err := joined.readOn(ctx, func(record *kgo.Record) {
			number, _ := strconv.Atoi(string(record.Value))
			seen(number)
		})
		ended <- err
		return err
	})
	return func() error {
		stop()
		err := <-ended
		book.gone = joined.revoked()
		joined.CloseAllowingRebalance()
		return err
	}
}

func static(t *cases.T, cluster *cluster) {
	topic, group := cluster.topic(t, 4), t.Unique()
	join := func(instance string) *member {
		joined := cluster.member(t, group, topic, kgo.InstanceID(instance), kgo.Balancers(kgo.RangeBalancer()))
		t.Go(func() error { return joined.readOn(t, func(*kgo.Record) {}) })
		return joined
	}
	first := join("first")
	t.Eventually("the first member to have all", func() bool { return len(first.partitions()) == 4 })
	second := join("second")
	t.Eventually("the members to share", func() bool {
		return len(first.partitions()) == 2 && len(second.partitions()) == 2
	})
	before, had := first.rebalanceCount(), second.partitions()

	// Closing a static member does not leave the group.
	second.CloseAllowingRebalance()
	second = join("second")
	t.Eventually("the second member to be back", func() bool { return len(second.partitions()) > 0 })
	cases.Equal(t, "partitions of the second member", second.partitions(), had)
	cases.Equal(t, "changes that the first member saw", first.rebalanceCount(), before)
}

func metadata(t *cases.T, cluster *cluster) {
	const text = "checkpoint 17, größer als ASCII"
	topic, group := cluster.topic(t, 1), t.Unique()
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: topic, Partition: 0, At: 17, LeaderEpoch: -1, Metadata: text})
	t.Check(cluster.admin.CommitAllOffsets(t.Step(), group, offsets))
	fetched, _ := cases.Must(cluster.admin.FetchOffsets(t.Step(), group)).Lookup(topic, 0)
	cases.Equal(t, "offset", fetched.At, 17)
	cases.Equal(t, "metadata", fetched.Metadata, text)
}
