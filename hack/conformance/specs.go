// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// sigs are the SIGs whose specs are run, in the scoreboard's order. A spec's text begins with its SIG.
var sigs = []string{"sig-api-machinery", "sig-auth", "sig-scheduling", "sig-apps", "sig-storage"}

// The states of specs in Ginkgo's reports that have a meaning of their own here.
const (
	statePassed  = "passed"
	stateSkipped = "skipped"
	stateMissing = "not run" // is in no report
)

// failedStates are those of what didn't come to its end, or came to a bad one.
var failedStates = []string{"failed", "panicked", "timedout", "aborted", "interrupted"}

// A spec is one test.
type spec struct {
	sig, text string
	reason    string // why it can't apply; empty if it does

	state   string
	message string // why it failed, or why it skipped itself
	time    time.Duration
}

// A report is what we read of Ginkgo's report.
type report struct {
	SpecReports []struct {
		LeafNodeType            string
		ContainerHierarchyTexts []string
		LeafNodeText            string
		State                   string
		RunTime                 time.Duration
		Failure                 struct{ Message string }
	}
}

// enumerate returns all specs of the SIGs.
func enumerate(ctx context.Context, programs, dir string) ([]*spec, error) {
	file, err := filepath.Abs(filepath.Join(dir, "dry-run.json"))
	if err != nil {
		return nil, err
	}
	// Without a focus the tests leave out those of features.
	cmd := exec.CommandContext(ctx, filepath.Join(programs, testsFile), "--ginkgo.dry-run", "--ginkgo.focus=.",
		"--ginkgo.json-report="+file)
	if output, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("listing the specs: %w\n%s", err, output)
	}
	var specs []*spec
	err = readReport(file, func(s *spec) {
		s.state = stateMissing
		if slices.Contains(sigs, s.sig) {
			specs = append(specs, s)
		}
	})
	slices.SortFunc(specs, func(a, b *spec) int { return strings.Compare(a.text, b.text) })
	return specs, err
}

// readResults sets the results of specs from a report.
func readResults(file string, specs []*spec) error {
	byText := map[string]*spec{}
	for _, s := range specs {
		byText[s.text] = s
	}
	return readReport(file, func(result *spec) {
		if s := byText[result.text]; s != nil {
			s.state, s.message, s.time = result.state, result.message, result.time
		}
	})
}

// readReport calls a function for each spec of a report.
func readReport(file string, each func(*spec)) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var reports []report
	if err := json.Unmarshal(content, &reports); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for _, r := range reports {
		for _, s := range r.SpecReports {
			if s.LeafNodeType != "It" {
				if slices.Contains(failedStates, s.State) { // the suite's own setup
					return fmt.Errorf("%s: %s %s: %s", file, s.LeafNodeType, s.State, s.Failure.Message)
				}
				continue
			}
			text := strings.TrimSpace(strings.Join(append(s.ContainerHierarchyTexts, s.LeafNodeText), " "))
			state := s.State
			if state == "interrupted" || state == stateSkipped && s.Failure.Message == "" {
				state = stateMissing // the spec was not chosen, or the run was interrupted
			}
			sig, _, _ := strings.Cut(strings.TrimPrefix(text, "["), "]")
			each(&spec{sig: sig, text: text, state: state, message: s.Failure.Message, time: s.RunTime})
		}
	}
	return nil
}

func choose(specs []*spec, chosen func(*spec) bool) []*spec {
	var some []*spec
	for _, s := range specs {
		if chosen(s) {
			some = append(some, s)
		}
	}
	return some
}

// A list says which specs can't apply.
type list []*entry

type entry struct {
	line    int
	reason  string
	pattern *regexp.Regexp
	matches int // the specs that it is the first to match
}

// readList reads a list. A line with a reason is followed by indented lines, each with a pattern of
// specs' texts. Empty lines and lines that begin with # are comments.
func readList(file string) (list, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return parseList(file, string(content))
}

func parseList(file, content string) (list, error) {
	var l list
	reason := ""
	for i, line := range strings.Split(content, "\n") {
		text := strings.TrimSpace(line)
		switch {
		case text == "" || strings.HasPrefix(text, "#"):
		case text == line:
			reason = text
		case reason == "":
			return nil, fmt.Errorf("%s:%d: a pattern needs a line with its reason before it", file, i+1)
		default:
			pattern, err := regexp.Compile(text)
			if err != nil {
				return nil, fmt.Errorf("%s:%d: %w", file, i+1, err)
			}
			l = append(l, &entry{line: i + 1, reason: reason, pattern: pattern})
		}
	}
	return l, nil
}

// apply sets the reasons of the specs that match, each by the first pattern. It fails if a pattern
// matches no spec that an earlier one doesn't.
func (l list) apply(specs []*spec) error {
	var errs []error
	for _, e := range l {
		for _, s := range specs {
			if s.reason == "" && e.pattern.MatchString(s.text) {
				s.reason = e.reason
				e.matches++
			}
		}
		if e.matches == 0 {
			errs = append(errs, fmt.Errorf("%s:%d: no spec matches %s, or an earlier pattern does", listFile, e.line,
				e.pattern))
		}
	}
	return errors.Join(errs...)
}
