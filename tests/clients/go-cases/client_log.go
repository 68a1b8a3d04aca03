package cases

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// How many lines are kept: what a client did last before it waited in vain.
const clientLogLines = 20

// clientLog keeps the end of what a client logs during a case.
type clientLog struct {
	lock  sync.Mutex
	lines []string
}

// Write takes one line, as a log.Logger writes it.
func (l *clientLog) Write(line []byte) (int, error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	if len(l.lines) == clientLogLines {
		l.lines = slices.Delete(l.lines, 0, 1)
	}
	l.lines = append(l.lines, strings.TrimRight(string(line), "\n"))
	return len(line), nil
}

// take is what was kept, which is forgotten.
func (l *clientLog) take() string {
	l.lock.Lock()
	defer l.lock.Unlock()
	var kept strings.Builder
	for _, line := range l.lines {
		fmt.Fprintf(&kept, "client: %s\n", line)
	}
	l.lines = nil
	return kept.String()
}
