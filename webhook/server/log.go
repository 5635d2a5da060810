package server

import (
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

const (
	// logged is how many lines about connections are logged in each period.
	logged = 10
	period = 10 * time.Second
)

// connectionLog logs what http.Server says of connections: those whose handshake is broken off, as
// by probes of a port, and the like. There may be any number of them: they don't fill the log.
type connectionLog struct {
	mu      sync.Mutex
	begin   time.Time
	lines   int
	skipped int
}

// Write implements io.Writer, with a line each.
func (l *connectionLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(l.begin) > period {
		if l.skipped > 0 {
			klog.InfoS("More lines about connections were left out", "count", l.skipped)
		}
		l.begin, l.lines, l.skipped = now, 0, 0
	}
	if l.lines++; l.lines > logged {
		l.skipped++
		return len(line), nil
	}
	klog.Info(strings.TrimSpace(string(line)))
	return len(line), nil
}
