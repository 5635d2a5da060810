package cli

import (
	"runtime"
	"runtime/debug"
	"time"
)

// settle is how long after it is ready a server still works at what its start began.
const settle = 3 * time.Second

// firstCollection is how much memory a process that calls collectLater has when it first collects,
// in bytes.
const firstCollection = 128 << 20

// laterPercent keeps a long review within some 300 MB, the program's own pages among them.
const laterPercent = 60

// collectLater puts the first collection off. Most of what a server's start makes stays, so that
// collecting on the way finds little, and a process that ends soon never has to. From the first
// collection on memory grows by laterPercent between two, at most.
func collectLater() {
	limit := debug.SetMemoryLimit(-1) // as it is
	if limit < firstCollection {
		return
	}
	percent := debug.SetGCPercent(-1)
	debug.SetMemoryLimit(firstCollection)
	runtime.AddCleanup(new(int64), func(int) {
		debug.SetMemoryLimit(limit)
		debug.SetGCPercent(min(percent, laterPercent))
	}, 0)
}

// returnMemory gives what only the start needed back to the system. The collector would do so in
// time, but in much of it.
func returnMemory() {
	time.Sleep(settle)
	debug.FreeOSMemory()
}
