// Copies records by transactions as ../Copier.java does, with franz-go or Sarama.
//
//	copier franz-go|sarama BOOTSTRAP TRANSACTIONAL_ID GROUP FROM TO COUNT SEED
package main

import (
	"fmt"
	"math/rand"
	"os"
	"runtime/pprof"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

// How many records a transaction copies at most, and how long it waits for more of them.
const (
	recordsMax = 40
	patience   = 500 * time.Millisecond
)

// Behind a restart of a broker a client may wait for an answer that does not come. A process that gets nothing done for so
// long begins anew, as another one would be started in its place.
const stuckAfter = 15 * time.Second

// deadline bounds each step of a transaction.
const deadline = 30 * time.Second

// task is what the arguments say.
type task struct {
	bootstrap, transactionalID, group, from, to string
	count                                       int64
	chance                                      *rand.Rand
}

// willAbort is so of every fifth transaction, by chance.
func (t *task) willAbort() bool {
	return t.chance.Intn(5) == 0
}

func main() {
	words := os.Args[1:]
	copyAll := map[string]func(*task) (bool, error){"franz-go": copyWithFranz, "sarama": copyWithSarama}[words[0]]
	count, _ := strconv.ParseInt(words[6], 10, 64)
	seed, _ := strconv.ParseInt(words[7], 10, 64)
	go watch(seed)
	task := &task{words[1], words[2], words[3], words[4], words[5], count, rand.New(rand.NewSource(seed))}
	for {
		done, err := copyAll(task)
		if done {
			note("done")
			return
		}
		if err != nil {
			note("anew:", err)
			time.Sleep(200 * time.Millisecond)
		}
	}
}

// progressAt is when something was last said, in nanoseconds since 1970.
var progressAt atomic.Int64

// note says what has been done.
func note(words ...any) {
	progressAt.Store(time.Now().UnixNano())
	fmt.Println(words...)
}

func watch(seed int64) {
	progressAt.Store(time.Now().UnixNano())
	for time.Since(time.Unix(0, progressAt.Load())) < stuckAfter {
		time.Sleep(500 * time.Millisecond)
	}
	fmt.Println("anew: nothing gets done")
	// Where it is stuck, for whoever runs it by hand.
	pprof.Lookup("goroutine").WriteTo(os.Stderr, 1)
	last := len(os.Args) - 1
	words := append(slices.Clone(os.Args[:last]), strconv.FormatInt(seed+1, 10))
	fmt.Println("anew:", syscall.Exec("/proc/self/exe", words, os.Environ()))
	os.Exit(1)
}
