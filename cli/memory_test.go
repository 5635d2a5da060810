package cli

import (
	"runtime"
	"testing"
)

func TestPercentFor(t *testing.T) {
	const mb = 1 << 20
	for kept, want := range map[uint64]int{
		0:         reviewMemory * 100, // nothing is kept: all of it
		48 * mb:   200,
		72 * mb:   100,
		96 * mb:   leastPercent, // half would be left
		144 * mb:  leastPercent,
		1000 * mb: leastPercent,
	} {
		if got := percentFor(kept); got != want {
			t.Errorf("of %d MB kept: %d, want %d", kept/mb, got, want)
		}
	}
}

func TestAfterEachCollection(t *testing.T) {
	kept := make(chan uint64, 1)
	afterEach(func(bytes uint64) {
		select {
		case kept <- bytes:
		default: // the test is over
		}
	})
	for n := 0; n < 3; {
		runtime.GC() // may be over before the next is waited for
		select {
		case bytes := <-kept:
			if n++; bytes == 0 {
				t.Error("nothing was kept")
			}
		default:
		}
	}
}
