package main

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	cases "logway.io/clients/go-cases"
)

func transactionCases(suite *cases.Suite, cluster *cluster) {
	cases.Transactions{
		Topic: func(t *cases.T) string { return cluster.topic(t, 1) },
		Fill:  func(t *cases.T, topic string, count int) { cluster.fill(t, topic, 1, count) },
		Open:  func(t *cases.T, id, group, source string) cases.Copier { return cluster.copier(t, id, group, source) },
		Values: func(t *cases.T, topic string, committedOnly bool, count int) []string {
			level := kgo.ReadUncommitted()
			if committedOnly {
				level = kgo.ReadCommitted()
			}
			consumer := cluster.consumer(t, topic, 0, kgo.NewOffset().AtStart(), kgo.FetchIsolationLevel(level))
			found := read(t, consumer, count)
			ctx, cancel := context.WithTimeout(t, cases.WhetherMore)
			defer cancel()
			return values(append(found, consumer.PollFetches(ctx).Records()...))
		},
		Committed: func(t *cases.T, group, topic string) map[int32]int64 {
			return cases.Must(cluster.committed(t.Step(), group, topic))
		},
		Fenced: []error{kerr.InvalidProducerEpoch, kerr.ProducerFenced},
	}.Run(suite)
}

// copier is a member of a group whose offsets go into its transactions.
type copier struct {
	*kgo.GroupTransactSession
	source   string
	t        *cases.T
	position int64
	// Where it goes on after an abort.
	committed int64
}

func (c *cluster) copier(t *cases.T, transactionalID, group, source string) *copier {
	session := cases.Must(kgo.NewGroupTransactSession(append(common(c.bootstrap),
		kgo.TransactionalID(transactionalID),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(source),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
		kgo.HeartbeatInterval(heartbeatInterval),
	)...))
	t.Cleanup(session.Close)
	// It asks for its producer id when it first needs one; a successor fences from its start.
	cases.Must2(session.Client().ProducerID(t.Step()))
	return &copier{GroupTransactSession: session, source: source, t: t}
}

func (c *copier) Copy(t *cases.T, value string, topics []string, upTo int64) {
	t.Check(c.Begin())
	ctx := t.Step()
	for c.position < upTo {
		fetches := c.PollRecords(ctx, int(upTo-c.position))
		t.Check(fetches.Err())
		for _, record := range fetches.Records() {
			cases.Equal(t, "offset", record.Offset, c.position)
			c.position++
		}
	}
	for _, topic := range topics {
		t.Check(c.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte(value)}).FirstErr())
	}
}

func (c *copier) End(commit bool) error {
	committed, err := c.GroupTransactSession.End(c.t.Step(), kgo.TransactionEndTry(commit))
	if err == nil && committed != commit {
		c.t.Fail("the transaction was aborted in place of being committed")
	}
	if committed {
		c.committed = c.position
	}
	c.position = c.committed
	return err
}
