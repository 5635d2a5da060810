// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestScoreboardIsCurrent checks that the tests were run with the version of Kubernetes in go.mod.
func TestScoreboardIsCurrent(t *testing.T) {
	version, err := kubernetesVersion(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../" + scoreboardFile)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "in `k8s.io/kubernetes/test/e2e` "+version+".") {
		t.Errorf("%s isn't of Kubernetes %s: run go run ./hack/conformance", scoreboardFile, version)
	}
}

// TestListHasReasons checks that the list can be read.
func TestListHasReasons(t *testing.T) {
	all, err := readList("not-applicable")
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Error("the list is empty")
	}
}

func TestParseList(t *testing.T) {
	all, err := parseList("file", "# comment\n\nSlow\n\tfirst\n\tsecond$\nOther\n\tthird\n")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range all {
		got = append(got, e.reason+": "+e.pattern.String())
	}
	if want := "Slow: first, Slow: second$, Other: third"; strings.Join(got, ", ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for content, want := range map[string]string{
		"\tpattern\n":     "file:1: a pattern needs a line with its reason before it",
		"Reason\n\ta(b\n": "file:2: error parsing regexp",
	} {
		if _, err := parseList("file", content); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got the error %v, want %q", content, err, want)
		}
	}
}

func TestApply(t *testing.T) {
	specs := []*spec{{text: "[sig-apps] one"}, {text: "[sig-apps] two"}, {text: "[sig-apps] three"}}
	all, err := parseList("file", "First\n\tone$\nSecond\n\t(one|two)$\n")
	if err != nil {
		t.Fatal(err)
	}
	if err := all.apply(specs); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"First", "Second", ""} {
		if specs[i].reason != want {
			t.Errorf("%s has the reason %q, want %q", specs[i].text, specs[i].reason, want)
		}
	}
	all, err = parseList("file", "First\n\tone$\n\t^.sig-apps. one\n\tfour\n")
	if err != nil {
		t.Fatal(err)
	}
	err = all.apply([]*spec{{text: "[sig-apps] one"}})
	if err == nil || !strings.Contains(err.Error(), ":3: ") || !strings.Contains(err.Error(), ":4: ") {
		t.Errorf("got the error %v, want one for the second and the third pattern", err)
	}
}

// TestModeThatFails checks that the specs of the mode before have run, and that no mode after it runs.
func TestModeThatFails(t *testing.T) {
	usual, off := &spec{text: "[sig-apps] one"}, &spec{text: "[sig-apps] two [Feature:OffByDefault]"}
	for failing, want := range map[string][]*spec{"": {usual, off}, "default": nil, "everything": {usual}} {
		var called []string
		ran, err := runModes([]*spec{off, usual}, func(m mode, _ []*spec) error {
			if called = append(called, m.name); m.name == failing {
				return errors.New("the server doesn't start")
			}
			return nil
		})
		if !slices.Equal(ran, want) || (err != nil) != (failing != "") || failing == "default" && len(called) > 1 {
			t.Errorf("%q fails: ran %v, called %q, %v", failing, ran, called, err)
		}
	}
}

func TestJudge(t *testing.T) {
	passed, skipped := &spec{state: statePassed}, &spec{state: stateSkipped}
	for name, test := range map[string]struct {
		specs  []*spec
		listed bool
		want   error
	}{
		"passed":            {[]*spec{passed, skipped}, false, nil},
		"failed":            {[]*spec{passed, {state: "failed"}}, false, errFailed},
		"not run":           {[]*spec{{state: stateMissing}}, false, errFailed},
		"listed and failed": {[]*spec{{state: "failed"}, skipped}, true, nil},
		"listed and passed": {[]*spec{{state: "failed"}, passed}, true, errFailed},
	} {
		if got := judge(test.specs, test.listed); got != test.want {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}

func TestMarkdown(t *testing.T) {
	board := scoreboard{version: "v1.2.3", specs: []*spec{
		{sig: "sig-auth", text: "[sig-auth] one | other", state: statePassed, time: 1600 * time.Millisecond},
		{sig: "sig-auth", text: "[sig-auth] two", state: "failed"},
		{sig: "sig-auth", text: "[sig-auth] three", state: stateSkipped, message: "no disks\nat all"},
		{sig: "sig-auth", text: "[sig-auth] five", state: stateMissing},
		{sig: "sig-apps", text: "[sig-apps] four", reason: "Needs a kubelet", state: stateMissing},
	}}
	var err error
	if board.list, err = parseList("file", "Needs a kubelet\n\tfour\n"); err != nil {
		t.Fatal(err)
	}
	board.list[0].matches = 1
	page := string(board.markdown())
	for _, want := range []string{
		"test/e2e` v1.2.3.",
		"| sig-auth | 1 | 1 | 1 | 1 | 0 | 4 |\n", "| sig-apps | 0 | 0 | 0 | 0 | 1 | 1 |\n", "| all | 1 | 1 | 1 | 1 | 1 | 5 |\n",
		"## sig-auth\n\n| spec | result | seconds |\n| --- | --- | --- |\n| one \\| other | passed | 2 |\n| two | failed | 0 |\n" +
			"| three | skipped: no disks | 0 |\n",
		"\nNeeds a kubelet:\n\n| specs that match | number |\n| --- | --- |\n| `four` | 1 |\n",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
}
