package collect

import (
	"runtime/debug"
	"time"
)

// Settle is how long after it is ready a server still works at what its start began.
const Settle = 3 * time.Second

// GiveBack returns what only the start needed to the system, which the collector would do in much
// more time: free memory, and the pages of the program's file that it has looked at, of which most
// are needed never again. Those that are needed come back from the system's cache.
func GiveBack() {
	debug.FreeOSMemory()
	giveProgramBack()
}
