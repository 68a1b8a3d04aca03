package main

import (
	"fmt"
	"sync"
	"time"
)

// ledger knows who owns each partition, what was read of it, and when. All members share it.
type ledger struct {
	lock       sync.Mutex
	partitions []partition
	count      int
	longest    time.Duration
	failed     error
}

type partition struct {
	owner    *member
	seen     map[int64]bool
	lastRead time.Time
}

func newLedger(partitions int) *ledger {
	l := &ledger{partitions: make([]partition, partitions)}
	for at := range l.partitions {
		l.partitions[at].seen = map[int64]bool{}
	}
	return l
}

func (l *ledger) assigned(owner *member, partitions []int32) {
	l.lock.Lock()
	defer l.lock.Unlock()
	for _, at := range partitions {
		p := &l.partitions[at]
		if p.owner != nil && p.owner != owner {
			l.failed = fmt.Errorf("partition %d has two owners", at)
		}
		p.owner = owner
		p.lastRead = time.Time{}
	}
}

// revoked also ends the pause that is under way: the next one is that of a move.
func (l *ledger) revoked(owner *member, partitions []int32) {
	l.lock.Lock()
	defer l.lock.Unlock()
	for _, at := range partitions {
		p := &l.partitions[at]
		if p.owner == owner {
			p.owner = nil
		}
		p.lastRead = time.Time{}
	}
}

func (l *ledger) read(at int32, offset int64) {
	l.lock.Lock()
	defer l.lock.Unlock()
	p := &l.partitions[at]
	if !p.seen[offset] {
		p.seen[offset] = true
		l.count++
	}
	now := time.Now()
	if !p.lastRead.IsZero() {
		l.longest = max(l.longest, now.Sub(p.lastRead))
	}
	p.lastRead = now
}

func (l *ledger) fail(err error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.failed = err
}

func (l *ledger) failure() error {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.failed
}

// seen is how many different records were read.
func (l *ledger) seen() int {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.count
}

// owned is how many partitions have an owner.
func (l *ledger) owned() int {
	l.lock.Lock()
	defer l.lock.Unlock()
	owned := 0
	for _, p := range l.partitions {
		if p.owner != nil {
			owned++
		}
	}
	return owned
}

func (l *ledger) longestPause() time.Duration {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.longest
}
