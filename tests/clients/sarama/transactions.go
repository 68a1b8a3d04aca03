package main

import (
	"time"

	"github.com/IBM/sarama"

	cases "logway.io/clients/go-cases"
)

func transactionCases(suite *cases.Suite, cluster *cluster) {
	cases.Transactions{
		Topic: func(t *cases.T) string { return cluster.topic(t, 1) },
		Fill:  func(t *cases.T, topic string, count int) { cluster.fill(t, topic, 1, count) },
		Open:  func(t *cases.T, id, group, source string) cases.Copier { return cluster.copier(t, id, group, source) },
		Values: func(t *cases.T, topic string, committedOnly bool, count int) []string {
			consumer := cluster.consumer(t, topic, 0, sarama.OffsetOldest, func(config *sarama.Config) {
				if committedOnly {
					config.Consumer.IsolationLevel = sarama.ReadCommitted
				}
			})
			found := read(t, consumer, count)
			select {
			case more := <-consumer.Messages():
				found = append(found, more)
			case <-time.After(cases.WhetherMore):
			}
			return values(found)
		},
		Committed: func(t *cases.T, group, topic string) map[int32]int64 {
			return cases.Must(cluster.committed(group, topic))
		},
		Fenced: []error{sarama.ErrInvalidProducerEpoch, sarama.ErrProducerFenced},
	}.Run(suite)
}

// copier sends offsets for a group that it is no member of.
type copier struct {
	sarama.SyncProducer
	group, source string
}

func (c *cluster) copier(t *cases.T, transactionalID, group, source string) *copier {
	return &copier{c.producer(t, idempotent, func(config *sarama.Config) {
		config.Producer.Transaction.ID = transactionalID
	}), group, source}
}

func (c *copier) Copy(t *cases.T, value string, topics []string, upTo int64) {
	t.Check(c.BeginTxn())
	for _, topic := range topics {
		cases.Must(sendOne(c, topic, value))
	}
	offsets := []*sarama.PartitionOffsetMetadata{{Partition: 0, Offset: upTo, LeaderEpoch: -1}}
	t.Check(c.AddOffsetsToTxn(map[string][]*sarama.PartitionOffsetMetadata{c.source: offsets}, c.group))
}

func (c *copier) End(commit bool) error {
	if commit {
		return c.CommitTxn()
	}
	return c.AbortTxn()
}
