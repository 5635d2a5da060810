// Package collect sets the pace at which a server collects garbage. A start collects little: most
// of what it makes stays, and a third of its time would go on finding that out. Under load memory
// gets more room, which is given back when there is less to do. Once a start is over, what only the
// start needed is given back, the program's own pages as well.
package collect

import (
	"os"
	"runtime/debug"
	"sync"
)

// startPercent is how much garbage a starting server may make, in percent of what it needs.
const startPercent = 400

var (
	mu       sync.Mutex
	starting int
	before   int // what the percentage was
)

// Little is for the beginning of a start; what it returns is to be called once when the start is
// over. Several servers of a process may start at a time. Who has set GOGC is obeyed.
func Little() (over func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	mu.Lock()
	defer mu.Unlock()
	if starting++; starting == 1 {
		before = debug.SetGCPercent(startPercent)
	}
	return sync.OnceFunc(func() {
		mu.Lock()
		defer mu.Unlock()
		if starting--; starting == 0 {
			debug.SetGCPercent(before)
		}
	})
}
