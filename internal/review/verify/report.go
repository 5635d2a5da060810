// Copyright The Gatehouse Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"cmp"
	"errors"

	"gatehouse.dev/internal/review/input"
	"gatehouse.dev/internal/review/suite"
	"gatehouse.dev/review"
)

// APIVersion and Kind identify a Report.
const (
	APIVersion = suite.APIVersion
	Kind       = "AdmissionTestReport"
)

// Report is the result of suites.
type Report struct {
	APIVersion string  `json:"apiVersion"`
	Kind       string  `json:"kind"`
	Suites     []Suite `json:"suites"`
	// Notes say what the emulation of another version of Kubernetes doesn't show, and which files Options.Update
	// could not replace as a whole.
	Notes []string `json:"notes,omitempty"`
	// Coverage has the things to cover in the suites' state and in the files of plugins; nil if
	// Options.Coverage wasn't set.
	Coverage []Coverage `json:"coverage,omitempty"`
	Summary  Summary    `json:"summary"`
}

// Summary counts the cases.
type Summary struct {
	Passed int `json:"passed"`
	Failed int `json:"failed"`
	// Errors counts the cases that could not be judged, and the files that could not be read.
	Errors int `json:"errors"`
	// Updated counts the expected objects that were rewritten.
	Updated int `json:"updated,omitempty"`
}

// Suite is the result of a suite.
type Suite struct {
	Source input.Source `json:"source"`
	Name   string       `json:"name"`
	// Seconds is the time its cases took, without the start of the server.
	Seconds float64 `json:"seconds"`
	// Error is the reason why none of it could be judged.
	Error string `json:"error,omitempty"`
	// Warnings name likely mistakes in the policies of its state: fields that no object has. They also
	// name fields that an emulated version of Kubernetes has not stored.
	Warnings []string `json:"warnings,omitempty"`
	Cases    []*Case  `json:"cases"`
}

// Outcome is the outcome of a case.
type Outcome string

// The outcomes. Error means that the case could not be judged.
const (
	Passed Outcome = "Passed"
	Failed Outcome = "Failed"
	Error  Outcome = "Error"
)

// Case is the result of a case.
type Case struct {
	Source  input.Source `json:"source"`
	Name    string       `json:"name"`
	Outcome Outcome      `json:"outcome"`
	// Differences are the differences from the expected result.
	Differences []suite.Difference `json:"differences,omitempty"`
	// Because says why what the case expects didn't refuse or change the object: which policies, webhooks, quotas
	// and LimitRanges weren't asked about it, or admitted it.
	Because []string `json:"because,omitempty"`
	// Error is the reason why it could not be judged.
	Error   string  `json:"error,omitempty"`
	Seconds float64 `json:"seconds"`
	// Result is the result of the review; nil if there is none.
	Result *review.Result `json:"result,omitempty"`
}

// Fail adds what could not be read, or not be written, as suites that could not be judged: whoever reads only the report
// must not take it for an all-clear.
func (r *Report) Fail(errs ...error) {
	for _, err := range errs {
		s := Suite{Error: err.Error()}
		if of := (*input.Error)(nil); errors.As(err, &of) {
			s.Source, s.Error = of.Source, of.Err.Error()
		}
		s.Name = cmp.Or(s.Source.File, "all suites")
		s.Cases = []*Case{{Source: s.Source, Name: "everything is read and written", Outcome: Error, Error: s.Error}}
		r.Suites = append(r.Suites, s)
		r.Summary.Errors++
	}
}

// ExitCode returns 0 if all cases passed, 1 if a case failed, 2 if a case could not be judged.
func (r *Report) ExitCode() int {
	switch {
	case r.Summary.Errors > 0:
		return review.ExitFailed
	case r.Summary.Failed > 0:
		return review.ExitRefused
	}
	return review.ExitAdmitted
}

// summarize counts the outcomes. In a suite that could not be judged each case counts as an error.
func (r *Report) summarize() {
	for i := range r.Suites {
		for _, c := range r.Suites[i].Cases {
			switch c.Outcome {
			case Passed:
				r.Summary.Passed++
			case Failed:
				r.Summary.Failed++
			default:
				r.Summary.Errors++
			}
		}
	}
}
