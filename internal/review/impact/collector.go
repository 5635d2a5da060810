// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package impact

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"gatehouse.dev/internal/review/policyreport"
)

// Formats are the formats of a report, besides text.
var Formats = []string{"json", "yaml", "junit", "sarif", "github", "markdown", string(policyreport.OpenReports),
	string(policyreport.PolicyReports)}

// Options holds the options of a report.
type Options struct {
	// ShowAll has the report list everything that was judged. Otherwise it lists what differs.
	ShowAll bool
	// Baseline has the differences that are counted and not reported; nil for none.
	Baseline *Baseline
	// Version is the version of the program, for formats that name it.
	Version string
	// Remedies are the plugins' remedies for refused requests, by the plugins' names.
	Remedies map[string]string
	// MinJudged is the percentage that must be judged.
	MinJudged float64
}

// A Collector counts, groups and keeps results. It is not safe for concurrent use.
type Collector struct {
	report *Report
	// unjudged counts what could not be judged, by reason.
	unjudged map[string]int
}

// NewCollector returns a collector of the results of an audit or a replay. kind is Audit or Replay.
func NewCollector(kind string, o Options) (*Collector, error) {
	if kind != Audit && kind != Replay {
		return nil, fmt.Errorf("making a report: its kind is %q, and neither %s nor %s", kind, Audit, Replay)
	}
	if b := o.Baseline; b != nil && b.kind != kind {
		return nil, fmt.Errorf("using a baseline: it is the report of kind %s, and one of kind %s is needed", b.kind, kind)
	}
	results, err := newSpill()
	if err != nil {
		return nil, err
	}
	return &Collector{report: &Report{kind: kind, options: o, results: results, groups: newGroups(kind, o.Remedies)},
		unjudged: map[string]int{}}, nil
}

// Note adds a note to the report.
func (c *Collector) Note(text string) { c.report.notes = append(c.report.notes, text) }

// Add adds a result. The collector keeps no reference to it. If Add fails, the results are incomplete.
func (c *Collector) Add(r *Result) error {
	s := &c.report.summary
	if r.Time != nil {
		if s.First == nil || r.Time.Before(s.First) {
			s.First = r.Time.DeepCopy()
		}
		if s.Last == nil || s.Last.Before(r.Time) {
			s.Last = r.Time.DeepCopy()
		}
	}
	if r.Beyond {
		s.Beyond++
	} else {
		s.Writes++
	}
	switch {
	case r.Beyond:
	case r.Unjudged != "":
		c.unjudged[r.Unjudged]++
	case !r.Differs:
		s.Judged++
		if c.report.kind == Audit && isRefusal(r.Verdict) {
			s.RefusedAnyway++
		}
	default:
		s.Judged++
		c.addDifference(r)
	}
	if !c.report.options.ShowAll && (!r.Differs || r.Known || r.Unjudged != "") {
		return nil
	}
	return c.report.results.add(r)
}

// addDifference counts and groups a result that differs, by those of its policies that the baseline doesn't have.
func (c *Collector) addDifference(r *Result) {
	s := &c.report.summary
	fresh := slices.DeleteFunc(slices.Clone(r.policies()), func(p Policy) bool {
		return c.report.options.Baseline.has(keyOf(c.report.kind, r, &p))
	})
	if r.Known = len(fresh) == 0; r.Known {
		s.Known++
		return
	}
	*[effects]*int{&s.Refused, &s.Admitted, &s.Changed, &s.Warned}[r.effect()]++
	if r.refusesUpdate() {
		s.UpdatesRefused++
	}
	for _, p := range fresh {
		c.report.groups.add(r, p)
	}
}

// An Ending says how the results ended.
type Ending struct {
	// Interrupted is true if there are more writes, or objects, than those that were added.
	Interrupted bool
	// Problems are what could not be read.
	Problems []Problem
	// Nothing says why there was nothing to judge.
	Nothing string
	Notes   []string
	// NotJudged counts what was not judged and is not among the results.
	NotJudged []ReasonCount
	// Describe, if not nil, explains a reason.
	Describe func(reason string) string
}

// Finish returns the report. The collector must not be used any more. If Finish fails, it has closed the
// collector.
func (c *Collector) Finish(e Ending) (*Report, error) {
	r := c.report
	if err := r.results.flush(); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	descriptions := map[string]string{}
	for _, n := range e.NotJudged {
		c.unjudged[n.Reason] += n.Count
		r.summary.Writes += n.Count
		descriptions[n.Reason] = n.Description
	}
	r.summary.NotJudged = []ReasonCount{}
	for reason, count := range c.unjudged {
		if count == 0 {
			continue
		}
		n := ReasonCount{Reason: reason, Count: count, Description: descriptions[reason]}
		if n.Description == "" && e.Describe != nil {
			n.Description = e.Describe(reason)
		}
		r.summary.NotJudged = append(r.summary.NotJudged, n)
	}
	slices.SortFunc(r.summary.NotJudged, func(a, b ReasonCount) int {
		return cmp.Or(b.Count-a.Count, cmp.Compare(a.Reason, b.Reason))
	})
	r.summary.Interrupted = e.Interrupted
	r.problems = e.Problems
	if p := r.tooLittle(e.Nothing); p != nil && !e.Interrupted && (len(r.problems) == 0 || r.summary.Writes > 0) {
		r.problems = append(r.problems, *p)
	}
	r.notes = append(r.notes, e.Notes...)
	return r, nil
}

// Close drops the results. It isn't needed after Finish.
func (c *Collector) Close() error { return c.report.Close() }
