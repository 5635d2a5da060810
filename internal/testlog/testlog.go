// Package testlog keeps what servers in a test's process log, and shows it where the test fails.
package testlog

import (
	"flag"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"k8s.io/klog/v2"
)

// keptLines is how much of the log a test that fails shows.
const keptLines = 500

// log is what the servers of this process log. Kubernetes has one log for a process, so a test that
// fails shows what all its servers said while it ran.
var log lines

// capture begins to keep the log, which says much that is of no interest while all is well: what
// fails for a moment during a start, and what a stop breaks off. What ends the process is shown.
// Who sends the log elsewhere already goes on doing so.
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
	klog.SetOutputBySeverity("FATAL", io.MultiWriter(&log, os.Stderr))
})

// Show shows what is logged from now on where the test has failed at its end.
func Show(t testing.TB) {
	logged := Keep()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s", logged())
		}
	})
}

// Keep keeps what is logged from now on for who shows it otherwise.
func Keep() (logged func() string) {
	capture()
	begin := log.next()
	return func() string { return "The servers of this process have logged:\n" + log.since(begin) }
}

// lines are the last of those that have been written.
type lines struct {
	mu      sync.Mutex
	kept    []string
	written int
}

// Write implements io.Writer for klog, which writes whole lines.
func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.written++
	if len(l.kept) == keptLines {
		l.kept = append(l.kept[:0], l.kept[1:]...)
	}
	l.kept = append(l.kept, string(line))
	return len(line), nil
}

// next is the number of the line that will be written next.
func (l *lines) next() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.written
}

// since are the lines from that number on, as far as they are kept.
func (l *lines) since(number int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := l.written - len(l.kept)
	return strings.Join(l.kept[max(0, number-first):], "")
}
