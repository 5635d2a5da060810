// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package webhookmode_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gatehouse.dev/test/servertest"
)

// load is what clients ask for all the time.
type load struct {
	refused, admitted atomic.Int32
	last              atomic.Pointer[error] // of what was refused
	end               func()
}

// asks is how often each client asks at most: there are tests beside, which need the machine too.
const asks = 10 * time.Millisecond

// newLoad has clients ask until end, or the test is over.
func newLoad(t *testing.T, clients int, ask func() error) *load {
	l := &load{}
	stop := make(chan struct{})
	var asking sync.WaitGroup
	for range clients {
		asking.Go(func() {
			for pause := time.Tick(asks); ; {
				select {
				case <-stop:
					return
				case <-pause:
				}
				if err := ask(); err != nil {
					l.last.Store(&err) // before it counts
					l.refused.Add(1)
				} else {
					l.admitted.Add(1)
				}
			}
		})
	}
	l.end = sync.OnceFunc(func() {
		close(stop)
		asking.Wait()
	})
	t.Cleanup(l.end)
	return l
}

// more waits until many more are admitted.
func (l *load) more(t *testing.T) {
	t.Helper()
	before := l.admitted.Load()
	servertest.Eventually(t, "requests admitted", func() bool { return l.admitted.Load() > before+100 })
}

func (l *load) noneRefused(t *testing.T, when string) {
	t.Helper()
	if n := l.refused.Load(); n > 0 {
		t.Errorf("%d of %d requests were refused %s: %v", n, n+l.admitted.Load(), when, *l.last.Load())
	}
}
