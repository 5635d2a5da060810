// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"runtime/debug"
	"time"
)

// Settle is how long after it is ready a server still works at what its start began.
const Settle = 3 * time.Second

// GiveBack gives memory back to the system that only the start needed: free memory, and pages of the
// program's file. The collector would take much longer for the former. Most of the pages are never
// needed again, and the others come back from the system's cache.
func GiveBack() {
	debug.FreeOSMemory()
	giveProgramBack()
}
