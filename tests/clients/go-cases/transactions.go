package cases

import (
	"errors"
	"slices"
	"strconv"
	"time"
)

// WhetherMore is how long a reader waits for a record that must not come.
const WhetherMore = 300 * time.Millisecond

const copiedRecords = 10

// Copier copies records by transactions: what it has read is committed with what it has written.
type Copier interface {
	// Copy leaves a transaction open in which there is a record for each topic, and the source is read up to before an
	// offset. Both are sent to the broker.
	Copy(t *T, value string, topics []string, upTo int64)
	// End commits or aborts it. An abort goes back to the last committed offset.
	End(commit bool) error
}

// Transactions are the cases of a source that is copied to two other topics. The client says how.
type Transactions struct {
	// Topic makes one of a single partition, Fill sends it so many records.
	Topic func(t *T) string
	Fill  func(t *T, topic string, count int)
	// Open makes a copier, which ends what another one of this transactional id has left open.
	Open func(t *T, transactionalID, group, source string) Copier
	// Values are the first so many of a topic, with those that come within WhetherMore.
	Values func(t *T, topic string, committedOnly bool, count int) []string
	// Committed are a group's offsets of one topic.
	Committed func(t *T, group, topic string) map[int32]int64
	// Fenced are what the client may tell of a copier that has a successor.
	Fenced []error
}

type copied struct {
	Transactions
	source, group string
	topics        []string
}

// Run reports each case.
func (x Transactions) Run(suite *Suite) {
	suite.Case("transaction-commit", func(t *T) { x.story(t).commit(t) })
	suite.Case("transaction-abort", func(t *T) { x.story(t).abort(t) })
	suite.Case("transaction-fence", func(t *T) { x.story(t).fence(t) })
}

func (x Transactions) story(t *T) *copied {
	c := &copied{x, x.Topic(t), t.Unique(), []string{x.Topic(t), x.Topic(t)}}
	c.Fill(t, c.source, copiedRecords)
	return c
}

func (c *copied) commit(t *T) {
	copier := c.Open(t, t.Unique(), c.group, c.source)
	copier.Copy(t, "one", c.topics, 4)
	c.has(t, false, "one")
	c.has(t, true)
	t.Check(copier.End(true))
	c.has(t, true, "one")
	c.hasCommitted(t, 4)
	copier.Copy(t, "two", c.topics, 7)
	t.Check(copier.End(true))
	c.has(t, true, "one", "two")
	c.hasCommitted(t, 7)
}

func (c *copied) abort(t *T) {
	copier := c.Open(t, t.Unique(), c.group, c.source)
	copier.Copy(t, "gone", c.topics, 4)
	t.Check(copier.End(false))
	copier.Copy(t, "kept", c.topics, 2)
	t.Check(copier.End(true))
	c.has(t, true, "kept")
	c.has(t, false, "gone", "kept")
	c.hasCommitted(t, 2)
}

func (c *copied) fence(t *T) {
	transactionalID := t.Unique()
	// In a group of its own, so that the successor need not wait for its place.
	zombie := c.Open(t, transactionalID, t.Unique(), c.source)
	zombie.Copy(t, "zombie", c.topics, 9)
	successor := c.Open(t, transactionalID, c.group, c.source)
	err := zombie.End(true)
	if !slices.ContainsFunc(c.Fenced, func(fenced error) bool { return errors.Is(err, fenced) }) {
		t.Fail("the commit of a fenced producer ended with %v", err)
	}
	successor.Copy(t, "successor", c.topics, 3)
	t.Check(successor.End(true))
	c.has(t, true, "successor")
	c.hasCommitted(t, 3)
}

// has ends the case unless each of the topics has just these values.
func (c *copied) has(t *T, committedOnly bool, values ...string) {
	for number, topic := range c.topics {
		found := c.Values(t, topic, committedOnly, len(values))
		if !slices.Equal(found, values) {
			t.Fail("topic %d, committed only %t: got %q, wanted %q", number, committedOnly, found, values)
		}
	}
}

func (c *copied) hasCommitted(t *T, offset int64) {
	t.Eventually("offset "+strconv.FormatInt(offset, 10)+" to be committed", func() bool {
		return c.Committed(t, c.group, c.source)[0] == offset
	})
}
