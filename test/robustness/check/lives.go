// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"regexp"
	"slices"
)

// Log is what the checks need to know of what a process printed.
type Log struct {
	// WasReady is true if the server said that it was ready.
	WasReady bool
	// Panics are the lines that tell of a panic.
	Panics []string
}

// panics matches a line that tells of a panic: of Go's runtime, of Kubernetes' libraries, or with a stack in
// it. A line that begins with a goroutine is one of those that the log of a fatal error ends with.
var panics = regexp.MustCompile(`^fatal error: |^SIG[A-Z]+: |panic: |panic serving |panic'd|Observed a panic|` +
	`panicked: true|.goroutine \d+ \[running\]`)

// readLog reads what a process printed.
func readLog(name string) (log Log, err error) {
	err = eachLine(name, func(line []byte) error {
		log.WasReady = log.WasReady || bytes.HasPrefix(line, []byte("gatehouse is ready at "))
		if panics.Match(line) {
			log.Panics = append(log.Panics, string(line))
		}
		return nil
	})
	return log, err
}

// cleanExit is how a server ends that was told to end.
const cleanExit = "exit status 0"

// checkLives checks that no server panicked, that none ended by itself, and that one that was told to end did
// so in time and without an error. If etcd doesn't answer, the start of a server may fail, and so may its end.
func (h *History) checkLives(r *Report) {
	for _, life := range h.Lives {
		r.count("lives of servers")
		log := h.Logs[life.Log]
		for _, line := range log.Panics {
			r.fail("lives", "%s: %s", life.Log, line)
		}
		switch {
		case life.ByItself && !log.WasReady && h.hidEtcd(life.Start, life.End):
			r.count("failed starts of servers without etcd")
		case life.ByItself:
			r.fail("lives", "the server of %s ended by itself: %s", life.Log, life.Exit)
		case h.hidEtcd(life.End, life.End):
		case life.Late:
			r.fail("lives", "the server of %s was told to end, and didn't in time", life.Log)
		case !life.Killed && life.Exit != cleanExit:
			r.fail("lives", "the server of %s was told to end, and ended with %s", life.Log, life.Exit)
		}
	}
}

// hidEtcd reports whether a fault kept servers from etcd between two times.
func (h *History) hidEtcd(from, to int64) bool {
	return slices.ContainsFunc(h.Faults, func(f Fault) bool { return f.HidesEtcd && f.Start <= to && from <= f.End })
}
