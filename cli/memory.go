package cli

import (
	"runtime/debug"
	"time"
)

// settle is how long after it is ready a server still works at what its start began.
const settle = 3 * time.Second

// returnMemory gives what only the start needed back to the system. The collector would do so in
// time, but in much of it.
func returnMemory() {
	time.Sleep(settle)
	debug.FreeOSMemory()
}
