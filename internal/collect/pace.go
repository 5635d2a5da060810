package collect

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// The collector of a server under load takes a fifth of the processor's time where memory may only
// double between two collections, as is Go's rule. A server that has work to do gets more room, as
// much as it fills in betweenCollections, and gives it back once it has been calm for calmTicks.
const (
	paceTick = time.Second
	// betweenCollections is how long a server should work from one collection to the next.
	betweenCollections = 4 * time.Second
	// usualPercent is Go's rule: memory doubles between two collections.
	usualPercent = 100
	// calmRate is what a server without work allocates a second at most, in bytes.
	calmRate = 16 << 20
	// calmTicks is how many ticks it must have been calm to give memory back.
	calmTicks = 8
	// worthwhile is how much must have been allocated before memory is given back again, in bytes.
	worthwhile = 256 << 20
	// leastLive is what the last collection is taken to have left at least, in bytes: there may
	// have been none.
	leastLive = 32 << 20
	// budgetShare is the part of the machine's or the container's memory that more room is made in.
	budgetShare = 0.25
	// containerShare is the part of a container's memory from which on the collector does all to
	// stay below.
	containerShare = 0.9
)

// FollowLoad is for a server that is ready: it gives back what the start needed, once that has
// settled, and then keeps the collector's pace, until over is closed. Who has set GOGC or
// GOMEMLIMIT has said what the pace is to be.
func FollowLoad(over <-chan struct{}) {
	select {
	case <-over:
		return
	case <-time.After(Settle):
		GiveBack()
	}
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	// Without a container, or a limit of its own, there is nothing to stay below.
	_, _ = memlimit.Set(memlimit.WithProvider(memlimit.FromCgroup), memlimit.WithRatio(containerShare))
	memory, err := memlimit.ApplyFallback(memlimit.FromCgroup, memlimit.FromSystem)()
	if err != nil {
		return // on a system that doesn't tell
	}
	p := pace{budget: uint64(float64(memory) * budgetShare), percent: usualPercent}
	read := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(read)
	before := read[1].Value.Uint64()
	ticks := time.NewTicker(paceTick)
	defer ticks.Stop()
	for {
		select {
		case <-over:
			debug.SetGCPercent(usualPercent)
			return
		case <-ticks.C:
		}
		metrics.Read(read)
		allocated := read[1].Value.Uint64()
		percent, release := p.next(read[0].Value.Uint64(), allocated-before)
		before = allocated
		if percent != p.percent {
			debug.SetGCPercent(percent)
			p.percent = percent
		}
		if release {
			debug.FreeOSMemory()
		}
	}
}

// A pace is how much memory may grow between two collections. It goes by the busiest of the last
// ticks: work comes in bursts, and one begins with the room that the last one had.
type pace struct {
	budget  uint64            // bytes that the heap may have
	percent int               // as it is now
	recent  [calmTicks]uint64 // bytes allocated in each of the last ticks
	ticks   int
	since   uint64 // bytes allocated since memory was given back
}

// next is the pace after a tick, by the bytes that the last collection left, and those allocated
// since the last tick. release says that what isn't used is to be given back.
func (p *pace) next(live, allocated uint64) (percent int, release bool) {
	p.recent[p.ticks%calmTicks] = allocated
	p.ticks++
	p.since += allocated
	busiest := slices.Max(p.recent[:])
	if busiest < calmRate {
		release = p.since >= worthwhile
		if release {
			p.since = 0
		}
		return usualPercent, release
	}
	live = max(live, leastLive)
	room := busiest * uint64(betweenCollections/paceTick)
	if live+room > p.budget {
		room = p.budget - min(live, p.budget)
	}
	percent = max(int(room*100/live), usualPercent)
	// Each change stops the world: small ones aren't worth it.
	if percent > usualPercent && percent > p.percent*3/4 && percent < p.percent*3/2 {
		return p.percent, false
	}
	return percent, false
}
