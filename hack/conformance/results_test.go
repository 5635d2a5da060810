// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestResultsAreKept checks that a run of some specs leaves the others' results as they are.
func TestResultsAreKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results.json")
	one, two := &spec{text: "one", state: "failed", message: "no"}, &spec{text: "two", state: statePassed}
	known := load(t, file, "v1.2.3")
	if err := known.add(file, []*spec{one, two}); err != nil {
		t.Fatal(err)
	}
	one.state, one.message, one.time = statePassed, "", time.Second
	if err := load(t, file, "v1.2.3").add(file, []*spec{one}); err != nil {
		t.Fatal(err)
	}
	specs := []*spec{{text: "one"}, {text: "two"}}
	load(t, file, "v1.2.3").apply(specs)
	if s := specs[0]; s.state != statePassed || s.message != "" || s.time != time.Second {
		t.Errorf("one has %+v, want the result of the second run", s)
	}
	if specs[1].state != statePassed {
		t.Errorf("two is %s, want the result of the first run", specs[1].state)
	}
	other := &spec{text: "one", state: stateMissing}
	load(t, file, "v1.2.4").apply([]*spec{other})
	if other.state != stateMissing {
		t.Error("the result of another version is taken")
	}
	one.state = stateMissing
	known = load(t, file, "v1.2.3")
	if err := known.add(file, []*spec{one}); err != nil {
		t.Fatal(err)
	}
	known.apply(specs)
	if specs[0].state != statePassed {
		t.Errorf("one is %s, want its last result", specs[0].state)
	}
}

// TestReportOfASuiteThatFails checks that a run whose own setup fails has no results.
func TestReportOfASuiteThatFails(t *testing.T) {
	for state, fails := range map[string]bool{"passed": false, "failed": true, "panicked": true, "timedout": true, "interrupted": true} {
		file := filepath.Join(t.TempDir(), "report.json")
		content := `[{"SpecReports": [{"LeafNodeType": "It", "LeafNodeText": "one", "State": "passed"},
			{"LeafNodeType": "SynchronizedBeforeSuite", "State": "` + state + `"}]}]`
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := readReport(file, func(*spec) {}); (err != nil) != fails {
			t.Errorf("a setup that is %s: %v", state, err)
		}
	}
}

func load(t *testing.T, file, version string) *results {
	t.Helper()
	r, err := loadResults(file, version)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
