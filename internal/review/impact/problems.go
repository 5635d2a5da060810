// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package impact

import (
	"errors"
	"fmt"
	"math"

	corev1 "k8s.io/api/core/v1"

	"gatehouse.dev/internal/review/annotation"
	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/internal/review/junit"
	"gatehouse.dev/internal/review/policyreport"
)

// A Problem is a reason why a report is no all-clear, whatever its results are: a part of a source could not be read, or
// too little was judged.
type Problem struct {
	// Source is the place that could not be read; nil if the problem isn't about a place in a file.
	Source *Source `json:"source,omitempty"`
	// Message says what is wrong.
	Message string `json:"message"`
}

// String returns the place and the message.
func (p Problem) String() string {
	switch {
	case p.Source == nil:
		return p.Message
	case p.Source.Line == 0:
		return p.Source.File + ": " + p.Message
	}
	return fmt.Sprintf("%s:%d: %s", p.Source.File, p.Source.Line, p.Message)
}

// ProblemOf returns the problem that an error is, with its place if it is an *input.Error.
func ProblemOf(err error) Problem {
	of := (*input.Error)(nil)
	if !errors.As(err, &of) || of.Source.File == "" || err.Error() != of.Error() {
		return Problem{Message: err.Error()}
	}
	return Problem{Source: &Source{File: of.Source.File, Line: of.Source.Line}, Message: of.Err.Error()}
}

// Problems returns the reasons why the report is no all-clear. An interruption is told by the Summary.
func (r *Report) Problems() []Problem { return r.problems }

// tooLittle returns the problem that less was judged than the options ask for, or nothing at all; nil if enough was.
// none says why there was nothing to judge.
func (r *Report) tooLittle(none string) *Problem {
	s, least := &r.summary, r.options.MinJudged
	switch {
	case s.Writes == 0:
		return &Problem{Message: "nothing was judged: " + none}
	case s.Judged == 0:
		return &Problem{Message: fmt.Sprintf("nothing was judged of %s", r.count(s.Writes))}
	case s.share() < least:
		return &Problem{Message: fmt.Sprintf("%.1f %% were judged, less than the %g %% that --min-judged asks for",
			math.Floor(10*s.share())/10, least)}
	}
	return nil
}

// problemRule is the name under which problems are filed.
const problemRule = "Unread"

// junitProblems returns a case with an error for each problem.
func (r *Report) junitProblems(suite string) []junit.Case {
	var cases []junit.Case
	for _, p := range r.problems {
		c := junit.Case{Name: "everything is read and judged", ClassName: suite,
			Error: &junit.Problem{Message: p.Message, Type: problemRule, Text: p.String()}}
		if p.Source != nil {
			c.Name, c.File, c.Line = p.Source.File, p.Source.File, p.Source.Line
		}
		cases = append(cases, c)
	}
	return cases
}

// problemFindings returns a finding for code hosts for each problem.
func (r *Report) problemFindings(command string) []annotation.Finding {
	var findings []annotation.Finding
	for _, p := range r.problems {
		f := annotation.Finding{Level: annotation.Error, Rule: problemRule, Object: command, Text: p.Message}
		if p.Source != nil {
			f.Object, f.Outcome, f.File, f.Line = p.Source.File, "can't be read", p.Source.File, p.Source.Line
		}
		findings = append(findings, f)
	}
	return findings
}

// problemResults returns an error for reports of policies for each problem.
func (r *Report) problemResults(like policyreport.Finding) []policyreport.Finding {
	var findings []policyreport.Finding
	for _, p := range r.problems {
		like.Rule, like.Result, like.Message, like.Object = problemRule, policyreport.Error, p.String(), corev1.ObjectReference{}
		findings = append(findings, like)
	}
	return findings
}
