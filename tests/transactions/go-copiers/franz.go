package main

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kgo"
)

// copyWithFranz returns true when the group has committed all, and else after an abort or with what went wrong.
func copyWithFranz(task *task) (bool, error) {
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(seeds(task.bootstrap)...),
		kgo.TransactionalID(task.transactionalID),
		kgo.ConsumerGroup(task.group),
		kgo.ConsumeTopics(task.from),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
		kgo.RetryTimeout(deadline),
	)
	if err != nil {
		return false, err
	}
	defer session.Close()
	for {
		records, err := poll(session)
		if err != nil {
			return false, err
		}
		if len(records) == 0 {
			if total(session.Client().CommittedOffsets()) >= task.count {
				return true, nil
			}
			continue
		}
		if aborted, err := copyRecords(session, task, records); aborted || err != nil {
			return false, err
		}
	}
}

func poll(session *kgo.GroupTransactSession) ([]*kgo.Record, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	fetches := session.PollRecords(ctx, recordsMax)
	for _, failed := range fetches.Errors() {
		if !errors.Is(failed.Err, context.DeadlineExceeded) {
			return nil, failed.Err
		}
	}
	return fetches.Records(), nil
}

// copyRecords is one transaction; it also tells whether that was aborted as it was wanted.
func copyRecords(session *kgo.GroupTransactSession, task *task, records []*kgo.Record) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	if err := session.Begin(); err != nil {
		return false, err
	}
	copies := make([]*kgo.Record, len(records))
	for at, record := range records {
		copies[at] = &kgo.Record{Topic: task.to, Key: record.Key, Value: record.Value}
	}
	if err := session.ProduceSync(ctx, copies...).FirstErr(); err != nil {
		return false, err
	}
	if task.willAbort() {
		_, err := session.End(ctx, kgo.TryAbort)
		if err == nil {
			note("aborted", len(records))
		}
		return true, err
	}
	committed, err := session.End(ctx, kgo.TryCommit)
	switch {
	case err != nil:
		return false, err
	case !committed:
		return false, errors.New("the group has changed")
	}
	note("committed", len(records))
	return false, nil
}

func total(offsets map[string]map[int32]kgo.EpochOffset) int64 {
	var sum int64
	for _, partitions := range offsets {
		for _, at := range partitions {
			sum += max(at.Offset, 0)
		}
	}
	return sum
}
