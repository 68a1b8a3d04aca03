package cases

import (
	"context"
	"sync"
	"time"
)

// The records of a Flow, and how many of them have been acknowledged when something happens.
const (
	FlowPartitions = 4
	FlowRecords    = 100_000

	chunk            = 1_000
	trickle          = 100
	secondMemberJoin = 20_000
	secondMemberRead = 60_000
	secondMemberStop = 80_000
)

// Flow is the story of a group whose second member joins and leaves while records flow. The client says how.
type Flow struct {
	// Send returns when the records with the numbers from `from` to below `to` are acknowledged.
	Send func(ctx context.Context, from, to int) error
	// Join makes a member that reads in the background and calls `seen` for each record, until `leave`, which commits
	// what was seen. `leave` also returns what went wrong meanwhile.
	Join func(name string, seen func(number int)) (leave func() error)
	// Committed and Ends are offsets by partition.
	Committed, Ends func(ctx context.Context) (map[int32]int64, error)
}

// Run ends the case if a record was not seen, or an offset not committed.
func (f Flow) Run(t *T) {
	var first, second readSet
	leaveFirst := once(f.Join("first", first.add))
	t.Cleanup(func() { leaveFirst() })
	sent := f.send(t, 0, secondMemberJoin)
	// A broker may hold the first rebalance back for a while, to let more members come: the second one must not.
	t.Eventually("the first member to read", func() bool { return first.count() > 0 })

	leaveSecond := once(f.Join("second", second.add))
	t.Cleanup(func() { leaveSecond() })
	sent = f.send(t, sent, secondMemberRead)
	sent = f.trickleUntil(t, sent, secondMemberStop, func() bool { return second.count() > 0 })
	sent = f.send(t, sent, secondMemberStop)

	t.Check(leaveSecond())
	f.send(t, sent, FlowRecords)
	t.Eventually("both members together to see each record", func() bool { return union(&first, &second) == FlowRecords })
	if first.count() == 0 {
		t.Fail("the first member has read nothing")
	}
	t.Check(leaveFirst())

	Equal(t, "committed offsets", Must(f.Committed(t.Step())), Must(f.Ends(t.Step())))
}

func (f Flow) send(t *T, from, to int) int {
	for ; from < to; from += chunk {
		t.Check(f.Send(t.Step(), from, min(from+chunk, to)))
	}
	return to
}

// trickleUntil keeps records flowing slowly until the condition holds, for as long as there are any up to `end`.
func (f Flow) trickleUntil(t *T, from, end int, condition func() bool) int {
	for ; !t.holdsWithin(trickle*time.Millisecond, condition); from += trickle {
		if from >= end {
			t.Fail("the second member has read nothing before record %d", end)
		}
		t.Check(f.Send(t.Step(), from, from+trickle))
	}
	return from
}

// readSet is the set of numbers that a member has seen.
type readSet struct {
	lock sync.Mutex
	seen [FlowRecords]bool
	read int
}

func (r *readSet) add(number int) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.seen[number] = true
	r.read++
}

func (r *readSet) count() int {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.read
}

func union(a, b *readSet) int {
	a.lock.Lock()
	defer a.lock.Unlock()
	b.lock.Lock()
	defer b.lock.Unlock()
	count := 0
	for number := range a.seen {
		if a.seen[number] || b.seen[number] {
			count++
		}
	}
	return count
}

func once(call func() error) func() error {
	return sync.OnceValue(call)
}
