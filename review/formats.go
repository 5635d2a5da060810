// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"fmt"
	"io"
	"strings"

	"gatehouse.dev/apis/decisions/v1alpha1"
	"gatehouse.dev/internal/review/annotation"
	"gatehouse.dev/internal/review/junit"
)

// problemText returns everything that is wrong with an object, or "".
func (r *Result) problemText() string {
	var words []string
	add := func(text string, because []string) {
		words = append(words, text)
		for _, cause := range because {
			words = append(words, "because "+cause)
		}
	}
	if r.Verdict != v1alpha1.Admitted {
		add(r.why(), r.Because)
	}
	for _, pods := range r.Pods {
		if pods.Admitted < pods.Wanted {
			add(r.wouldStart(pods), pods.Because)
		}
	}
	return strings.Join(words, "\n")
}

// title names the object, or the file if there is no object.
func (r *Result) title() string {
	if r.Object == (Object{}) {
		return r.Source.File
	}
	return r.Object.String()
}

// line returns the line of the object, or 1 if the result is about a whole file.
func (r *Result) line() int { return max(r.Source.Line, 1) }

// ruleID returns the name under which a refusal is filed: the plugin that refused, or the reason of
// the answer.
func (r *Result) ruleID() string {
	for _, d := range append([]*v1alpha1.Decision{r.Decision}, decisions(r.Pods)...) {
		switch {
		case d == nil || d.Verdict == v1alpha1.Admitted:
		case d.By != "":
			return d.By
		case d.Reason != "":
			return string(d.Reason)
		}
	}
	return string(v1alpha1.Failed)
}

func decisions(pods []Pods) []*v1alpha1.Decision {
	var all []*v1alpha1.Decision
	for _, p := range pods {
		all = append(all, p.Decision)
	}
	return all
}

// junit prints a test suite for each file, a case for each object.
func (p Print) junit(w io.Writer, review *Review) error {
	var suites []junit.Suite
	byFile := map[string]int{}
	for i := range review.Results {
		r := &review.Results[i]
		at, ok := byFile[r.Source.File]
		if !ok {
			at, byFile[r.Source.File] = len(suites), len(suites)
			suites = append(suites, junit.Suite{Name: r.Source.File})
		}
		c := junit.Case{Name: r.title(), ClassName: r.Source.File, File: r.Source.File, Line: r.line(),
			Output: strings.Join(r.Warnings, "\n")}
		if words := r.problemText(); words != "" {
			problem := &junit.Problem{Message: words, Type: r.ruleID(), Text: fmt.Sprintf("%s: %s", r.Source, words)}
			if r.Verdict == v1alpha1.Failed {
				c.Error = problem
			} else {
				c.Failure = problem
			}
		}
		suites[at].Cases = append(suites[at].Cases, c)
	}
	return junit.Write(w, suites)
}

// annotations returns the refusals and warnings for code hosts.
func (p Print) annotations(review *Review) *annotation.Report {
	s := review.Summary
	report := &annotation.Report{Command: "gatehouse review", Version: p.Version, Notes: review.Notes,
		Summary: fmt.Sprintf("%d admitted, %d refused, %d failed", s.Admitted, s.Refused, s.Failed)}
	for i := range review.Results {
		r := &review.Results[i]
		add := func(level annotation.Level, rule, outcome, text string) {
			report.Findings = append(report.Findings, annotation.Finding{Level: level, Rule: rule, Object: r.title(),
				Outcome: outcome, Text: text, File: r.Source.File, Line: r.line()})
		}
		if words := r.problemText(); words != "" {
			outcome := "is refused"
			if r.Verdict == v1alpha1.Failed {
				outcome = "can't be judged"
			}
			add(annotation.Error, r.ruleID(), outcome, words)
		}
		for _, warning := range r.Warnings {
			add(annotation.Warning, "Warning", "", warning)
		}
	}
	return report
}
