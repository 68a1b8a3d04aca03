// Package cases runs the cases of tests/clients/cases.toml for a client written in Go, and reports them as described
// there.
package cases

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// caseDeadline is when a case is given up, whatever it waits for.
const caseDeadline = 90 * time.Second

// Suite counts the cases of one client. $BOOTSTRAP names the broker.
type Suite struct {
	Bootstrap      string
	client         string
	passed, failed int
	log            clientLog
}

// ClientLog is where the client's own log may go. Its last lines are printed behind a case that fails.
func (s *Suite) ClientLog() io.Writer {
	return &s.log
}

// NewSuite says which client is tried; its version is that of the Go module that was linked.
func NewSuite(client, module string) *Suite {
	fmt.Println("client", client, strings.TrimPrefix(moduleVersion(module), "v"))
	return &Suite{Bootstrap: os.Getenv("BOOTSTRAP"), client: client}
}

// Case runs one case and prints how it went.
func (s *Suite) Case(id string, body func(t *T)) {
	if only := os.Getenv("CASE"); only != "" && !strings.Contains(id, only) {
		return
	}
	began := time.Now()
	s.log.take()
	switch end := s.run(id, body).(type) {
	case nil:
		s.passed++
		fmt.Printf("case %s pass (%.2f s)\n", id, time.Since(began).Seconds())
	case skipped:
		fmt.Printf("case %s skip: %s\n", id, end)
	case failure:
		s.failed++
		reason, details, _ := strings.Cut(string(end), "\n")
		fmt.Printf("case %s fail: %s\n", id, reason)
		for line := range strings.Lines(details) {
			fmt.Printf("    %s\n", strings.TrimRight(line, "\n"))
		}
	}
}

// Skip reports cases that the client cannot do, for one reason.
func (s *Suite) Skip(reason string, ids ...string) {
	for _, id := range ids {
		s.Case(id, func(t *T) { t.Skip(reason) })
	}
}

// Finish prints the sum and ends the process.
func (s *Suite) Finish() {
	fmt.Printf("%d passed, %d failed\n", s.passed, s.failed)
	if s.failed > 0 || s.passed == 0 {
		os.Exit(1)
	}
	os.Exit(0)
}

// run returns nil for a pass, or else what ended the case: skipped, or failure.
func (s *Suite) run(id string, body func(t *T)) any {
	ctx, cancel := context.WithTimeout(context.Background(), caseDeadline)
	ended := make(chan any, 1)
	go func() {
		t := &T{Context: ctx, id: id, client: s.client, faults: make(chan error, 1)}
		defer func() {
			end := ending(recover())
			// Before the clients are closed, of which they log much.
			if failed, ok := end.(failure); ok {
				end = failed + failure(s.log.take())
			}
			cancel()
			for _, cleanup := range slices.Backward(t.cleanups) {
				cleanup()
			}
			ended <- end
		}()
		body(t)
	}()
	select {
	case end := <-ended:
		return end
	case <-time.After(caseDeadline + 5*time.Second):
		return failure(fmt.Sprintf("did not end within %s", caseDeadline))
	}
}

// ending adds to what a case has ended with where that was.
func ending(recovered any) any {
	switch recovered := recovered.(type) {
	case nil, skipped:
		return recovered
	case failure:
		return recovered + failure("\n"+ownFrames())
	default:
		return failure(fmt.Sprintf("panic: %v\n%s", recovered, debug.Stack()))
	}
}

// ownFrames is where the case has been ended, without the frames of libraries.
func ownFrames() string {
	callers := make([]uintptr, 50)
	frames := runtime.CallersFrames(callers[:runtime.Callers(0, callers)])
	var own strings.Builder
	for more := true; more; {
		var frame runtime.Frame
		frame, more = frames.Next()
		if strings.HasPrefix(frame.Function, "main.") {
			fmt.Fprintf(&own, "at %s (%s:%d)\n", frame.Function, filepath.Base(frame.File), frame.Line)
		}
	}
	return own.String()
}

func moduleVersion(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, dependency := range info.Deps {
		if dependency.Path == module {
			return dependency.Version
		}
	}
	panic(module + " is not linked")
}
