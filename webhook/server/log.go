// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

const (
	// maxLines is how many lines about connections are logged in each logPeriod.
	maxLines  = 10
	logPeriod = 10 * time.Second
)

// connectionLog logs http.Server's errors of connections, such as handshakes that a probe of the port
// breaks off, and calls that are refused. It bounds their number, so that they don't fill the log.
type connectionLog struct {
	// print is klog.Info if it is nil.
	print func(...any)

	mu      sync.Mutex
	begin   time.Time
	lines   int
	skipped int
}

// Write implements io.Writer. It is called with one line at a time.
func (l *connectionLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(l.begin) > logPeriod {
		if l.skipped > 0 {
			klog.InfoS("More lines about connections were left out", "count", l.skipped)
		}
		l.begin, l.lines, l.skipped = now, 0, 0
	}
	if l.lines++; l.lines > maxLines {
		l.skipped++
		return len(line), nil
	}
	print := l.print
	if print == nil {
		print = klog.Info
	}
	print(strings.TrimSpace(string(line)))
	return len(line), nil
}
