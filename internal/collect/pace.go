// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

const (
	// servingPercent is how much a server that is ready may allocate between two collections, in
	// percent of what it keeps. With Go's rule, 100, creates with 32 clients take 1.13 times the
	// processor time.
	servingPercent = 200
	// tick is how long a server must have been calm to give memory back.
	tick = 8 * time.Second
	// calm is what a server without work allocates in a tick at most, in bytes.
	calm = 128 << 20
	// worthwhile is how much must have been allocated before memory is given back again, in bytes.
	worthwhile = 256 << 20
	// containerShare is the part of a container's memory that the collector tries to stay below.
	containerShare = 0.9
)

// FollowLoad gives back what the start of a server needed, once the server has settled. From then on
// until over is closed, it gives the collector more room, and gives memory back when the server is
// calm after work. After 8,000 pods that is a sixth of the memory. Call it when a server is ready. An
// explicit GOGC or GOMEMLIMIT takes precedence.
func FollowLoad(over <-chan struct{}) {
	select {
	case <-over:
	case <-time.After(Settle):
		GiveBack()
		follow(over)
	}
}

func follow(over <-chan struct{}) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	KeepToContainer()
	defer debug.SetGCPercent(debug.SetGCPercent(servingPercent))
	before := allocated()
	given := before
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	for {
		select {
		case <-over:
			return
		case <-ticks.C:
		}
		now := allocated()
		if shouldGiveBack(now-before, now-given) {
			debug.FreeOSMemory()
			given = now
		}
		before = now
	}
}

// KeepToContainer makes the collector try to stay below the memory of the container. An explicit
// GOMEMLIMIT takes precedence.
func KeepToContainer() {
	// Without a container, or a limit of its own, there is nothing to stay below.
	_, _ = memlimit.Set(memlimit.WithProvider(memlimit.FromCgroup), memlimit.WithRatio(containerShare))
}

// shouldGiveBack reports whether to give free memory back to the system, by the bytes that were
// allocated in the last tick and since memory was last given back.
func shouldGiveBack(lastTick, sinceGiven uint64) bool {
	return lastTick < calm && sinceGiven >= worthwhile
}

// allocated returns how many bytes the process has allocated so far.
func allocated() uint64 {
	read := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(read)
	return read[0].Value.Uint64()
}
