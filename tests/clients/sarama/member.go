package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/IBM/sarama"

	cases "logway.io/clients/go-cases"
)

// How soon a member learns that a rebalance goes on.
const heartbeatInterval = 200 * time.Millisecond

// member is a consumer in a group that reads in the background and keeps book of its partitions.
type member struct {
	group  sarama.ConsumerGroup
	seen   func(*sarama.ConsumerMessage)
	cancel context.CancelFunc
	ended  chan error

	lock     sync.Mutex
	leaving  bool
	session  sarama.ConsumerGroupSession
	sessions int
	claimed  map[int32]bool
	lost     []int32
}

// join makes a member that calls `seen` for each record, and commits every second and whenever it loses partitions.
func (c *cluster) join(t *cases.T, group, topic string, seen func(*sarama.ConsumerMessage), options ...option) *member {
	prompt := func(config *sarama.Config) {
		config.Consumer.Offsets.Initial = sarama.OffsetOldest
		config.Consumer.Group.Heartbeat.Interval = heartbeatInterval
		// What Sarama goes on from by itself is left to it: the records that are seen tell whether it did.
		config.Consumer.Return.Errors = false
	}
	config := config(append([]option{prompt}, options...)...)
	ctx, cancel := context.WithCancel(t)
	m := &member{
		group:   cases.Must(sarama.NewConsumerGroup([]string{c.bootstrap}, group, config)),
		seen:    seen,
		cancel:  cancel,
		ended:   make(chan error, 1),
		claimed: map[int32]bool{},
	}
	t.Go(func() error {
		err := m.consume(ctx, topic)
		m.ended <- err
		return err
	})
	t.Cleanup(func() { m.leave() })
	return m
}

// consume goes on over rebalances until the context ends or something goes wrong.
func (m *member) consume(ctx context.Context, topic string) error {
	for ctx.Err() == nil {
		if err := m.group.Consume(ctx, []string{topic}, m); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// leave ends the reading, commits, and leaves the group, which a static member does not do.
func (m *member) leave() error {
	m.lock.Lock()
	if m.leaving {
		m.lock.Unlock()
		return nil
	}
	m.leaving = true
	m.lock.Unlock()
	m.cancel()
	err := <-m.ended
	return errors.Join(err, m.group.Close())
}

// Setup is called at the start of each session: of each generation, or with a cooperative strategy once.
func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.session = session
	m.sessions++
	return nil
}

// Cleanup is called at the end of each session.
func (m *member) Cleanup(sarama.ConsumerGroupSession) error {
	return nil
}

// ConsumeClaim reads a partition for as long as the member has it.
func (m *member) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	m.claim(claim.Partition())
	defer m.release(claim.Partition())
	for message := range claim.Messages() {
		m.seen(message)
		session.MarkMessage(message, "")
	}
	return nil
}

func (m *member) claim(partition int32) {
	m.lock.Lock()
	defer m.lock.Unlock()
	m.claimed[partition] = true
}

func (m *member) release(partition int32) {
	m.lock.Lock()
	defer m.lock.Unlock()
	delete(m.claimed, partition)
	if !m.leaving {
		m.lost = append(m.lost, partition)
	}
}

// partitions that the member has, in order.
func (m *member) partitions() []int32 {
	m.lock.Lock()
	defer m.lock.Unlock()
	return slices.Sorted(maps.Keys(m.claimed))
}

// lostPartitions are those that the member had to give away before it left.
func (m *member) lostPartitions() []int32 {
	m.lock.Lock()
	defer m.lock.Unlock()
	return slices.Clone(m.lost)
}

func (m *member) sessionCount() int {
	m.lock.Lock()
	defer m.lock.Unlock()
	return m.sessions
}

// identity is the member's id and its group's generation.
func (m *member) identity() (string, int32) {
	m.lock.Lock()
	defer m.lock.Unlock()
	return m.session.MemberID(), m.session.GenerationID()
}

func ignore(*sarama.ConsumerMessage) {}
