// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// shown is how many violations of one kind a report prints.
const shown = 10

// Report is the result of the checks.
type Report struct {
	// Length is the time in which clients made requests.
	Length time.Duration
	// Checked counts what was checked, by what it is.
	Checked map[string]int
	// Violations are what must not have happened, by the check that found it.
	Violations map[string][]string
}

// Check runs all checks.
func (h *History) Check() *Report {
	r := &Report{Length: h.length(), Checked: map[string]int{}, Violations: map[string][]string{}}
	s := newStore(h, r)
	h.checkRegisters(s, r)
	h.checkWrites(s, r)
	h.checkLists(s, r)
	h.checkWatches(s, r)
	h.checkQuotas(s, r)
	h.checkRefusals(s, r)
	h.checkGenerations(r)
	h.checkDecisions(r)
	h.checkLeases(s, r)
	h.checkLives(r)
	for _, f := range h.Faults {
		if f.Error != "" {
			r.count("faults that failed")
			continue
		}
		r.count("fault " + f.Kind)
		r.count("faults")
	}
	return r
}

// length returns the time from the start of the first request to that of the last.
func (h *History) length() time.Duration {
	if len(h.Operations) == 0 {
		return 0
	}
	return time.Duration(h.Operations[len(h.Operations)-1].Start - h.Operations[0].Start)
}

func (r *Report) count(what string) { r.Checked[what]++ }

func (r *Report) fail(check, format string, args ...any) {
	r.Violations[check] = append(r.Violations[check], fmt.Sprintf(format, args...))
}

// Require adds a violation for each thing of which fewer than the minimum were checked. The minimum is that
// of a minute. Each further minute of the history must have a quarter of it, since faults last longer later,
// and rare things come by chance.
func (r *Report) Require(minimum map[string]int) {
	factor := max(1, (3+r.Length.Minutes())/4)
	for _, what := range slices.Sorted(maps.Keys(minimum)) {
		if want := int(factor * float64(minimum[what])); r.Checked[what] < want {
			r.fail("enough", "%d %s were checked, want at least %d", r.Checked[what], what, want)
		}
	}
}

// OK reports whether there are no violations.
func (r *Report) OK() bool { return len(r.Violations) == 0 }

// String returns what was checked and what was found, in lines.
func (r *Report) String() string {
	var b strings.Builder
	for _, what := range slices.Sorted(maps.Keys(r.Checked)) {
		fmt.Fprintf(&b, "%8d %s\n", r.Checked[what], what)
	}
	for _, check := range slices.Sorted(maps.Keys(r.Violations)) {
		found := r.Violations[check]
		for _, text := range found[:min(len(found), shown)] {
			fmt.Fprintf(&b, "VIOLATION %s: %s\n", check, text)
		}
		if len(found) > shown {
			fmt.Fprintf(&b, "VIOLATION %s: and %d more\n", check, len(found)-shown)
		}
	}
	return b.String()
}
