// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

// Package testlog keeps the log of the servers in a test's process, and shows it below the errors of a
// test that fails.
package testlog

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"k8s.io/klog/v2"
)

const (
	// shownLines bounds the lines of the log that a failed test shows, and shownColumns their length.
	shownLines, shownColumns = 30, 400
)

// log is the log of this process. Kubernetes has one log for a process, so a test that fails shows the
// log of all servers while it ran.
var log lines

// capture begins to keep the log's warnings and errors, or all of the log with klog's -v. It isn't
// shown while all is well, because starts and stops log errors that are of no interest. An error that
// ends the process is shown. A log that is sent elsewhere already stays there.
var capture = sync.OnceFunc(func() {
	fs := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(fs)
	if fs.Lookup("logtostderr").Value.String() == "false" {
		return
	}
	for name, value := range map[string]string{"logtostderr": "false", "one_output": "true", "stderrthreshold": "4"} {
		if err := fs.Set(name, value); err != nil {
			panic(err) // the names are klog's
		}
	}
	klog.SetOutput(&log)
	if !klog.V(1).Enabled() { // -v isn't set
		klog.SetOutputBySeverity("INFO", io.Discard)
	}
	klog.SetOutputBySeverity("FATAL", io.MultiWriter(&log, os.Stderr))
})

// showing has the tests that show the log if they fail.
var showing sync.Map

// Show shows what is logged from now on if the test fails. It shows it once, however many servers the
// test has.
func Show(t testing.TB) {
	if _, shows := showing.LoadOrStore(t, nil); shows {
		return
	}
	logged := Keep()
	t.Cleanup(func() {
		showing.Delete(t)
		if text := logged(); t.Failed() && text != "" {
			t.Log(text)
		}
	})
}

// Keep keeps what is logged from now on. logged returns the last of it, or "" if nothing was logged.
func Keep() (logged func() string) {
	capture()
	begin := log.next()
	return func() string { return log.since(begin) }
}

// Stopping leaves out what is logged until stopped is called, because a server that stops causes
// errors in its clients.
func Stopping() (stopped func()) {
	log.stopping(1)
	return sync.OnceFunc(func() { log.stopping(-1) })
}

// lines keeps the last lines that were written.
type lines struct {
	mu      sync.Mutex
	kept    []string
	written int
	stops   int // how many servers are stopping
}

// Write implements io.Writer for klog, which writes whole lines.
func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stops > 0 {
		return len(line), nil
	}
	l.written++
	if len(l.kept) == shownLines {
		l.kept = append(l.kept[:0], l.kept[1:]...)
	}
	text := strings.TrimRight(string(line), "\n")
	if len(text) > shownColumns {
		text = strings.ToValidUTF8(text[:shownColumns], "") + "…"
	}
	l.kept = append(l.kept, text)
	return len(line), nil
}

func (l *lines) stopping(servers int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stops += servers
}

// next returns the number of the line that will be written next.
func (l *lines) next() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.written
}

// since returns the kept lines from a number on, below a heading.
func (l *lines) since(number int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.written - number
	if n == 0 {
		return ""
	}
	shown := l.kept[len(l.kept)-min(n, len(l.kept)):]
	said := "The servers of this process have logged:"
	if n > len(shown) {
		said = fmt.Sprintf("The servers of this process have logged %d lines, the last %d of which are:", n, len(shown))
	}
	return said + "\n" + strings.Join(shown, "\n")
}
