package cases

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// StepDeadline bounds the wait for one thing to happen.
	StepDeadline = 20 * time.Second
	pollInterval = 10 * time.Millisecond
)

// T is a running case, and the context of what it calls. Only the case's own goroutine may end it.
type T struct {
	context.Context
	id       string
	client   string
	cleanups []func()
	faults   chan error
}

type (
	failure string
	skipped string
)

var (
	numbers atomic.Int64
	started = strconv.FormatInt(time.Now().UnixMilli(), 36)
)

// Fail ends the case. The first line is its reason, whatever follows goes to the log only.
func (t *T) Fail(format string, arguments ...any) {
	panic(failure(fmt.Sprintf(format, arguments...)))
}

// Skip ends the case, for a reason that lies in the client.
func (t *T) Skip(reason string) {
	panic(skipped(reason))
}

// Check ends the case if there is an error.
func (t *T) Check(err error) {
	if err != nil {
		t.Fail("%s", oneLine(err))
	}
}

// WantError ends the case if the error is not, and does not wrap, the wanted one.
func (t *T) WantError(err, wanted error, doing string) {
	switch {
	case err == nil:
		t.Fail("%s went well; wanted: %s", doing, oneLine(wanted))
	case !errors.Is(err, wanted):
		t.Fail("%s: %s; wanted: %s", doing, oneLine(err), oneLine(wanted))
	}
}

// Cleanup is called when the case has ended, last one first.
func (t *T) Cleanup(cleanup func()) {
	t.cleanups = append(t.cleanups, cleanup)
}

// Unique is a name for a topic or group that no other case has, nor an earlier run.
func (t *T) Unique() string {
	return fmt.Sprintf("%s-%s-%s-%d", t.client, t.id, started, numbers.Add(1))
}

// Step is a context for one call.
func (t *T) Step() context.Context {
	ctx, cancel := context.WithTimeout(t, StepDeadline)
	t.Cleanup(cancel)
	return ctx
}

// Go runs something beside the case. An error of it ends the case at the next wait.
func (t *T) Go(body func() error) {
	go func() {
		if err := body(); err != nil {
			select {
			case t.faults <- err:
			default: // One is enough.
			}
		}
	}()
}

// Eventually asks until the condition holds, and ends the case if it does not within StepDeadline.
func (t *T) Eventually(what string, condition func() bool) {
	if !t.holdsWithin(StepDeadline, condition) {
		t.Fail("waited %s for %s", StepDeadline, what)
	}
}

// Equal ends the case if the two differ.
func Equal[V any](t *T, what string, got, want V) {
	if !reflect.DeepEqual(got, want) {
		t.Fail("%s: got %s, wanted %s", what, short(got), short(want))
	}
}

// Must is the value of a call; an error ends the case that called it.
func Must[V any](value V, err error) V {
	if err != nil {
		panic(failure(oneLine(err)))
	}
	return value
}

// Must2 is as Must, for a call with two values.
func Must2[V, W any](value V, other W, err error) (V, W) {
	return Must(value, err), other
}

func (t *T) holdsWithin(deadline time.Duration, condition func() bool) bool {
	for end := time.Now().Add(deadline); !condition(); {
		if time.Now().After(end) {
			return false
		}
		select {
		case err := <-t.faults:
			t.Check(err)
		case <-time.After(pollInterval):
		}
	}
	return true
}

func oneLine(err error) string {
	return strings.Join(strings.Fields(err.Error()), " ")
}

func short(value any) string {
	text := fmt.Sprintf("%v", value)
	if len(text) > 300 {
		return fmt.Sprintf("%s… (%d characters)", text[:300], len(text))
	}
	return text
}
