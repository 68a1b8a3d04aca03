package cases

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// How long a consumer with nothing to read is looked at, and how often it may ask meanwhile. With a wait of 500 ms that
// is some times; without any wait it is thousands of times.
const (
	idle           = 3 * time.Second
	idleFetchesMax = 150

	// IdleWait is how long the broker may hold an empty fetch of such a consumer.
	IdleWait = 500 * time.Millisecond
)

// StaysIdle ends the case if the broker is asked for records all the time.
func StaysIdle(t *T) {
	before := answeredFetches(t)
	time.Sleep(idle)
	if asked := answeredFetches(t) - before; asked > idleFetchesMax {
		t.Fail("%d fetches in %s with nothing to read", asked, idle)
	}
}

// answeredFetches is how many Fetch requests the broker has answered; 0 of one that does not say where its metrics are.
func answeredFetches(t *T) int {
	address := os.Getenv("METRICS")
	if address == "" {
		return 0
	}
	response := Must(http.Get(address))
	defer response.Body.Close()
	page := string(Must(io.ReadAll(response.Body)))
	count := -1
	for line := range strings.Lines(page) {
		fmt.Sscanf(line, `logway_request_seconds_count{api="Fetch"} %d`, &count)
	}
	if count < 0 {
		t.Fail("the metrics do not tell of fetches")
	}
	return count
}
