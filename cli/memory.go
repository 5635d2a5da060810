package cli

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// reviewMemory is how much memory the objects of a process that calls collectLater may take before
// it collects again, in bytes: with the program's own pages it is then some 300 MB in all.
const reviewMemory = 144 << 20

// firstMemory is how much they may take before it collects first, in bytes: what a start and a few
// objects need, which then never collects.
const firstMemory = 172 << 20

// leastPercent is how much more than it keeps such a process may have at any rate, in percent.
const leastPercent = 60

// collectLater puts the first collection off. Most of what a server's start makes stays, so that
// collecting on the way finds little, and a process that ends soon never has to. From the first
// collection on each comes when there is no more room, or where much is kept, when leastPercent of
// it has come. Who has set GOGC is obeyed.
func collectLater() {
	limit := debug.SetMemoryLimit(-1) // as it is
	if limit < firstMemory || os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(firstMemory)
	afterEach(func(kept uint64) {
		debug.SetMemoryLimit(limit)
		debug.SetGCPercent(percentFor(kept))
	})
}

// percentFor is how much more than what the last collection kept there may be until the next.
func percentFor(kept uint64) int {
	if kept >= reviewMemory {
		return leastPercent
	}
	return max(leastPercent, int((reviewMemory-kept)*100/max(kept, 1)))
}

// afterEach calls f after each collection, with the number of bytes that it kept.
func afterEach(f func(kept uint64)) {
	runtime.AddCleanup(new([2]int64), func(int) {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		f(live[0].Value.Uint64())
		afterEach(f)
	}, 0)
}
