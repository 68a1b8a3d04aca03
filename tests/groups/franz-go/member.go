package main

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const pollTime = 100 * time.Millisecond

// member reads and commits until it leaves.
type member struct {
	client *kgo.Client
	stop   context.CancelFunc
	ended  chan struct{}
}

func (r *rolling) join() *member {
	m := &member{ended: make(chan struct{})}
	ledger := r.ledger
	released := func(_ context.Context, _ *kgo.Client, gone map[string][]int32) { ledger.revoked(m, gone[r.topic]) }
	client, err := kgo.NewClient(append(common(),
		kgo.ConsumerGroup(r.group),
		kgo.ConsumeTopics(r.topic),
		kgo.ServerSideBalancer(),
		kgo.Balancers(kgo.StickyBalancer()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		// While it reads and commits, nothing is taken from it.
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, come map[string][]int32) {
			ledger.assigned(m, come[r.topic])
		}),
		kgo.OnPartitionsRevoked(released),
		kgo.OnPartitionsLost(released),
	)...)
	check(err)
	m.client = client
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	go m.read(ctx, ledger)
	return m
}

// leave returns when it has left the group.
func (m *member) leave() {
	m.stop()
	<-m.ended
	m.client.CloseAllowingRebalance()
}

func (m *member) read(ctx context.Context, ledger *ledger) {
	defer close(m.ended)
	for ctx.Err() == nil {
		within, cancel := context.WithTimeout(ctx, pollTime)
		fetches := m.client.PollFetches(within)
		cancel()
		for _, record := range fetches.Records() {
			ledger.read(record.Partition, record.Offset)
		}
		if fetches.NumRecords() > 0 {
			if err := m.client.CommitRecords(context.Background(), fetches.Records()...); err != nil {
				ledger.fail(err)
			}
		}
		m.client.AllowRebalance()
	}
}
