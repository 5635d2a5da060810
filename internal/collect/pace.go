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
	// mostPercent is how much a server that is ready and keeps little may allocate between two
	// collections, in percent of what it keeps. With Go's rule, 100, creates with 32 clients take 1.13
	// times the processor time.
	mostPercent = 200
	// enough is how much that is at most, in bytes, unless a server keeps more than that: then Go's
	// rule gives it as much again. More room buys no time then, and costs gigabytes.
	enough = 384 << 20
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
// until over is closed, it gives the collector room by what the server keeps, and gives memory back
// when the server is calm after work. After 8,000 pods that is a sixth of the memory. Call it when a
// server is ready. An explicit GOGC or GOMEMLIMIT takes precedence.
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
	set := mostPercent
	defer debug.SetGCPercent(debug.SetGCPercent(set))
	before := read("/gc/heap/allocs:bytes")
	given := before
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	for {
		select {
		case <-over:
			return
		case <-ticks.C:
		}
		// To set it stops all goroutines for a moment.
		if now := percentFor(read("/gc/heap/live:bytes")); now < set-5 || now > set+5 {
			debug.SetGCPercent(now)
			set = now
		}
		now := read("/gc/heap/allocs:bytes")
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

// percentFor returns the percentage for a server that keeps so many bytes.
func percentFor(kept uint64) int {
	if kept == 0 { // nothing was collected yet
		return mostPercent
	}
	return int(min(max(enough*100/kept, 100), mostPercent))
}

// read returns one of the runtime's metrics.
func read(name string) uint64 {
	samples := []metrics.Sample{{Name: name}}
	metrics.Read(samples)
	return samples[0].Value.Uint64()
}
