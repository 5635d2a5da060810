// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"slices"
	"testing"
)

// An answer that a server gave just before it was killed may have no decision.
func TestKilled(t *testing.T) {
	h := right()
	h.Decisions["one"] = slices.DeleteFunc(h.Decisions["one"], func(d Decision) bool { return d.ID == "w4" })
	h.Lives = append(h.Lives, Life{Server: "one", Killed: true, End: h.find("w4").End + second})
	if r := h.Check(); !r.OK() {
		t.Error(r)
	}
}

// A server that starts while etcd doesn't answer may end, and so may one that was told to end with an error.
func TestWithoutEtcd(t *testing.T) {
	for name, test := range map[string]struct {
		life Life
		ok   bool
	}{
		"started before the fault":  {Life{Start: 80 * second, End: 95 * second, ByItself: true, Exit: "exit status 1"}, true},
		"started during the fault":  {Life{Start: 91 * second, End: 130 * second, ByItself: true, Exit: "exit status 1"}, true},
		"started after the fault":   {Life{Start: 101 * second, End: 130 * second, ByItself: true, Exit: "exit status 1"}, false},
		"ended before the fault":    {Life{Start: 80 * second, End: 89 * second, ByItself: true, Exit: "exit status 1"}, false},
		"told to during the fault":  {Life{Start: 1 * second, End: 95 * second, Exit: "exit status 1"}, true},
		"told to before the fault":  {Life{Start: 1 * second, End: 89 * second, Exit: "exit status 1"}, false},
		"told to after the fault":   {Life{Start: 1 * second, End: 101 * second, Exit: "exit status 1"}, false},
		"late during the fault":     {Life{Start: 1 * second, End: 95 * second, Killed: true, Late: true, Exit: "signal: killed"}, true},
		"late after the fault":      {Life{Start: 1 * second, End: 101 * second, Killed: true, Late: true, Exit: "signal: killed"}, false},
		"killed after the fault":    {Life{Start: 1 * second, End: 101 * second, Killed: true, Exit: "signal: killed"}, true},
		"had ended after the fault": {Life{Start: 1 * second, End: 101 * second, Exit: cleanExit}, true},
	} {
		t.Run(name, func(t *testing.T) {
			h := right()
			h.Faults = append(h.Faults, Fault{Kind: "snow", HidesEtcd: true, Start: 90 * second, End: 100 * second})
			h.Lives = append(h.Lives, test.life)
			if r := h.Check(); r.OK() != test.ok {
				t.Errorf("it is\n%s", r)
			}
		})
	}
}

// Only what tells of a panic is one.
func TestPanics(t *testing.T) {
	for line, want := range map[string]bool{
		"panic: runtime error: index out of range":                                                              true,
		"fatal error: concurrent map writes":                                                                    true,
		"SIGSEGV: segmentation violation":                                                                       true,
		`E1128 10:00:00.000000       1 runtime.go:142] "Observed a panic" panic="x"`:                            true,
		`E1128 10:00:00.000000       1 wrap.go:57] "apiserver panic'd" method="GET"`:                            true,
		`E1128 10:00:00.000000       1 controllers.go:1] "It tries again" err="panic: x"`:                       true,
		"2026/11/28 10:00:00 http: panic serving 127.0.0.1:1: x":                                                true,
		`E1128 10:00:00.000000       1 finisher.go:1] panicked: true, err: <nil>`:                               true,
		`E1128 10:00:00.000000       1 finisher.go:1] panicked: false, panic-reason: <nil>`:                     false,
		`E1128 10:00:00.000000       1 timeout.go:1] "Post-timeout activity" result="x goroutine 7 [running]:"`: true,
		"goroutine 1 [running]:": false,
		`W1128 10:00:00.000000       1 watcher.go:1] "A watch has ended"`: false,
	} {
		if got := panics.MatchString(line); got != want {
			t.Errorf("%s: %t", line, got)
		}
	}
}
